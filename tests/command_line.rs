//! The binary as people use it: its commands, what it refuses to start on, how it ends.

mod common;

use common::{Daemon, LIMIT, Setup, pattern, tagged, write_shards};
use feedline_client::{Epochs, Error, StreamOptions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn feedline(args: &[&str], cache: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_feedline"));
    command.args(args).env_remove("FEEDLINE_CONFIG").env_remove("FEEDLINE_SOCKET");
    let cache = cache.display();
    command.env("FEEDLINE_CACHE_DIR", cache.to_string()).env("FEEDLINE_CACHE_BYTES", "64 MiB");
    command.env("FEEDLINE_POOL_BYTES", "16 MiB").env("FEEDLINE_POOL_BLOCK_BYTES", "64 KiB");
    command.env("FEEDLINE_PREFETCH_INFLIGHT_BYTES", "4 MiB").env("FEEDLINE_PREFETCH_WINDOW_BYTES", "1 MiB");
    command.env("FEEDLINE_TELEMETRY_LISTEN", "off");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn assert_refused(output: &Output, code: i32, named: &[&str]) {
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{error}");
    assert!(named.iter().all(|named| error.contains(named)), "{named:?} in {error}");
}

#[test]
fn a_private_daemon_for_one_command() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = format!("{} status --json && exit 7", env!("CARGO_BIN_EXE_feedline"));
    let output = feedline(&["run", "--", "sh", "-c", &script], dir.path()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(status["cache"]["dir"], dir.path().display().to_string());
    let socket = status["socket"].as_str().expect("a path");
    assert!(!Path::new(socket).exists(), "it went with the command");
}

#[test]
fn a_cache_directory_has_one_daemon_and_a_socket_too() {
    let daemon = Daemon::start(Setup::default());
    let pid = daemon.pid().to_string();
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("other.sock");
    let output =
        feedline(&["serve", "--listen-socket", socket.to_str().expect("UTF-8")], &daemon.cache_dir())
            .output();
    assert_refused(&output.expect("it runs"), 1, &[&daemon.cache_dir().display().to_string(), &pid]);
    assert!(!socket.exists());
    let socket = daemon.socket();
    let output =
        feedline(&["serve", "--listen-socket", socket.to_str().expect("UTF-8")], &dir.path().join("cache"));
    let output = { output }.output().expect("it runs");
    assert_refused(&output, 1, &[&socket.display().to_string(), "another daemon"]);
    assert_eq!(daemon.status().pid, daemon.pid(), "the first one serves as before");
}

#[test]
fn directories_that_are_no_cache_are_refused_and_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let home = dir.path().join("home");
    std::fs::create_dir(&home).expect("made");
    std::fs::write(home.join("thesis.tex"), "years of work").expect("written");
    let serve = |cache: &Path| {
        let socket = dir.path().join("feedline.sock");
        feedline(&["serve", "--listen-socket", socket.to_str().expect("UTF-8")], cache)
            .output()
            .expect("it runs")
    };
    assert_refused(&serve(&home), 1, &[&home.display().to_string(), "thesis.tex"]);
    let left: Vec<_> = std::fs::read_dir(&home).expect("readable").collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let file = home.join("thesis.tex");
    assert_refused(&serve(&file), 1, &[&file.display().to_string()]);
    assert_eq!(std::fs::read(&file).expect("there"), b"years of work");
    let proc = Path::new("/proc/feedline");
    assert_refused(&serve(proc), 1, &["/proc/feedline"]);
}

#[test]
fn a_wrong_configuration_tells_all_its_mistakes_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("feedline.toml");
    std::fs::write(&file, "[cache]\nbites = 1\n[pool]\nbytes = \"many\"\n[prefetch]\nthreads = 100000\n")
        .expect("written");
    for command in [
        ["check-config", file.to_str().expect("UTF-8"), ""],
        ["serve", "--config", file.to_str().expect("UTF-8")],
    ] {
        let args: Vec<_> = command.into_iter().filter(|arg| !arg.is_empty()).collect();
        let output = Command::new(env!("CARGO_BIN_EXE_feedline")).args(args).output().expect("it runs");
        assert_refused(&output, 2, &["cache.bites", "pool.bytes", "prefetch.threads", "feedline.toml"]);
    }
}

#[test]
fn inspect_names_what_is_wrong_in_a_dataset() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    write_shards(&data, &[10, 20], |shard, record| tagged(shard, record, 200));
    let inspect = |pattern: &str| {
        let args = ["dataset", "inspect", "--json", pattern];
        let output = feedline(&args, &dir.path().join("cache")).output().expect("it runs");
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let (code, said) = inspect(&pattern(&data));
    assert!(code == Some(0) && said.contains("30"), "{said}");
    let mut bytes = std::fs::read(data.join("part-00001.tfrecord")).expect("there");
    bytes[1_000] ^= 1;
    std::fs::write(data.join("part-00001.tfrecord"), bytes).expect("written");
    std::fs::write(data.join("part-00002.tfrecord"), b"PAR1 and more").expect("written");
    let (code, said) = inspect(&pattern(&data));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("part-00001.tfrecord") && said.contains("Parquet"), "{said}");
    assert!(!dir.path().join("cache").exists(), "it needs no cache");
}

#[test]
fn metrics_and_readiness_over_http() {
    let daemon = Daemon::start(Setup::default().with("telemetry.listen", "127.0.0.1:0"));
    let data = daemon.dir().join("data");
    write_shards(&data, &[100], |shard, record| tagged(shard, record, 200));
    assert_eq!(daemon.records(&StreamOptions::new(pattern(&data)).batch_size(10)).len(), 100);
    daemon.wait_until_idle();
    let log = daemon.log();
    let address =
        log.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("said in the log");
    let get = |path: &str| {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a time-out");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    assert!(get("/readyz").starts_with("HTTP/1.1 200"));
    assert!(get("/healthz").starts_with("HTTP/1.1 200"));
    let page = get("/metrics");
    let value = |name: &str| -> f64 {
        let line =
            page.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {page}"));
        line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
    };
    assert!(value("feedline_records_total") >= 100.0);
    assert!(value("feedline_cache_used_bytes") > 20_000.0);
    assert!(value("feedline_pool_leased_bytes") < 1.0);
}

#[test]
fn a_signal_ends_it_soon_and_cleanly_with_clients_in_the_middle() {
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::INT] {
        let mut daemon = Daemon::start(Setup::default());
        let data = daemon.dir().join("data");
        write_shards(&data, &[300; 4], |shard, record| tagged(shard, record, 3_000));
        let options = StreamOptions::new(pattern(&data)).batch_size(16).epochs(Epochs::Forever);
        let mut stream = daemon.open(&options.reconnect(Duration::ZERO));
        let held = stream.next_batch_within(LIMIT).expect("a batch");
        let start = Instant::now();
        daemon.signal(signal);
        let error = loop {
            match stream.next_batch_within(LIMIT) {
                Ok(Some(_)) => {}
                Ok(None) => panic!("an orderly end of an endless stream"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::DaemonGone), "{error}");
        assert!(daemon.terminate().success(), "{}", daemon.log());
        assert!(start.elapsed().as_secs() < 6, "{:?}", start.elapsed());
        assert!(!daemon.socket().exists(), "the socket stays behind");
        drop(held);
    }
}

#[test]
fn doctor_reports_and_gives_json() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = feedline(&["doctor", "--no-disk", "--json"], dir.path()).output().expect("it runs");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(report.to_string().contains("io_uring"), "{report}");
    let output = feedline(&["status"], dir.path()).env("FEEDLINE_SOCKET", dir.path().join("none")).output();
    assert_refused(&output.expect("it runs"), 1, &["none", "feedline serve"]);
}
