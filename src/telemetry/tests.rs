use std::collections::BTreeSet;
use std::path::Path;

use super::table::METRICS;
use super::*;

#[test]
fn names_follow_the_rules() {
    let mut seen = BTreeSet::new();
    for metric in METRICS {
        let name = metric.name;
        assert!(seen.insert(name), "{name} twice");
        assert!(name.starts_with("feedline_"), "{name}");
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
        assert_eq!(name.ends_with("_total"), metric.kind == Kind::Counter, "{name}: counters end in _total");
        let base = name.trim_end_matches("_total");
        for unit in ["bytes", "seconds"] {
            assert_eq!(base.ends_with(&format!("_{unit}")), metric.unit == unit, "{name}: unit {unit}");
        }
        assert!(metric.help.ends_with('.') && !metric.help.contains('|'), "{name}");
        if let Kind::Histogram(bounds) = metric.kind {
            assert!(!bounds.is_empty() && bounds.is_sorted(), "{name}");
        }
    }
}

fn sources(dir: &Path, out: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
}

#[test]
fn metrics_are_recorded_through_the_table_only() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    for file in files.iter().filter(|file| !file.starts_with(src.join("telemetry"))) {
        let text = std::fs::read_to_string(file).unwrap();
        for call in ["counter!(", "gauge!(", "histogram!("] {
            assert!(!text.contains(call), "{} calls {call}", file.display());
        }
    }
}

#[test]
fn what_is_recorded_is_rendered_with_help_labels_and_buckets() {
    let recorder = exporter::recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        exporter::describe();
        table::STORE_RETRIES.with(["throttled"]).increment(3);
        table::CACHE_USED.get().set(7.0);
        table::FIRST_BATCH.with([ADHOC]).record(0.02);
    });
    let text = handle.render();
    for line in [
        "# TYPE feedline_store_retries_total counter",
        "feedline_store_retries_total{cause=\"throttled\"} 3",
        "feedline_cache_used_bytes 7",
        "feedline_first_batch_seconds_bucket{job=\"adhoc\",le=\"0.01\"} 0",
        "feedline_first_batch_seconds_bucket{job=\"adhoc\",le=\"0.03\"} 1",
        &format!("feedline_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")),
        "# HELP feedline_cache_used_bytes Disk space of cached shards.",
    ] {
        assert!(text.contains(line), "missing {line:?} in:\n{text}");
    }
}

#[test]
fn health_names_what_is_missing() {
    let health = Health::new(&["cache", "socket"]);
    health.met("cache");
    assert_eq!(health.report(), ["socket: not started"]);
    health.met("socket");
    assert!(health.report().is_empty());
    health.missing("stopping", "SIGTERM");
    assert_eq!(health.report(), ["stopping: SIGTERM"]);
}

/// One request, the answer as text.
async fn ask(address: std::net::SocketAddr, path: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn the_endpoints_answer() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let health = Health::new(&["socket"]);
    let exporter = Exporter::install().unwrap();
    let refresh = || table::CACHE_SHARDS.get().set(12.0);
    let router = http::router(exporter, health.clone(), std::sync::Arc::new(refresh));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(http::serve(listener, router, async move { drop(stopped.await) }));

    assert!(ask(address, "/healthz").await.starts_with("HTTP/1.1 200"));
    let unready = ask(address, "/readyz").await;
    assert!(unready.starts_with("HTTP/1.1 503") && unready.contains("socket: not started"), "{unready}");
    health.met("socket");
    assert!(ask(address, "/readyz").await.starts_with("HTTP/1.1 200"));
    let metrics = ask(address, "/metrics").await;
    assert!(metrics.contains("text/plain") && metrics.contains("feedline_cache_shards 12"), "{metrics}");
    assert!(ask(address, "/nothing").await.starts_with("HTTP/1.1 404"));
    drop(stop);
    server.await.unwrap().unwrap();
}

#[test]
fn the_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(page == metrics_page(), "run: feedline docs metrics > docs/metrics.md");
}
