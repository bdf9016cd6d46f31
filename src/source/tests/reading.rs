//! Reads: whatever happens on the way, each byte arrives once, or the error says why not.

use super::server::{Reply, Request, Server};
use super::{content, stores};
use crate::source::{Cancel, Object, SourceError, SourceUrl, Stores, read_range, read_range_until};
use std::ops::Range;
use std::time::{Duration, Instant};

const KEY: &str = "s3://bkt/dir/a b%#é.rec";

/// An object that a listing has found.
fn listed(stores: &Stores, url: &str, size: usize, etag: Option<&str>) -> Object {
    let url = SourceUrl::parse(url).unwrap();
    Object {
        url: url.to_string(),
        path: object_store::path::Path::parse(url.pattern().prefix()).unwrap(),
        size: size as u64,
        etag: etag.map(ToOwned::to_owned),
        version: None,
        origin: stores.origin(&url),
    }
}

/// What a read delivered, whether it ended well, and the stores with their counters.
async fn read(
    server: &Server,
    more: &str,
    size: usize,
    range: Range<u64>,
) -> (Vec<u8>, Result<(), SourceError>, Stores) {
    let stores = stores(&format!("{}{more}", server.settings()));
    let object = listed(&stores, KEY, size, Some("\"v1\""));
    let store = stores.open(&object.origin).unwrap();
    let mut got = Vec::new();
    let result = read_range(&store, &object, range, |piece| got.extend_from_slice(piece)).await;
    (got, result, stores)
}

#[tokio::test]
async fn a_body_cut_again_and_again_is_resumed_where_it_broke() {
    let whole = content(900_000);
    let served = whole.clone();
    let server = Server::start(move |request| Reply {
        // Each attempt is cut, and only one failure in a row is forgiven: progress has to refill the budget.
        cut: (request.range().unwrap().1 - request.range().unwrap().0 > 100_000).then_some(100_000),
        ..Reply::object(request, &served, "\"v1\"")
    });
    let (got, result, stores) = read(&server, "retries = 1", whole.len(), 10..890_000).await;
    result.unwrap();
    assert!(got == whole[10..890_000], "bytes differ");
    let seen = server.seen();
    assert!(seen.len() >= 9);
    assert!(seen.iter().all(|request| request.header("if-match") == Some("\"v1\"")), "{seen:?}");
    assert!(seen.windows(2).all(|pair| pair[0].range().unwrap().0 < pair[1].range().unwrap().0), "{seen:?}");
    assert_eq!(seen[0].target, "/bkt/dir/a%20b%25%23%C3%A9.rec");
    let counts = stores.stats().snapshot();
    assert_eq!((counts.bytes, counts.requests), (889_990, seen.len() as u64));
    assert_eq!((counts.retries_cut, counts.retries()), (seen.len() as u64 - 1, seen.len() as u64 - 1));
}

#[tokio::test]
async fn a_stalled_body_is_resumed() {
    let whole = content(300_000);
    let served = whole.clone();
    let server = Server::start(move |request| Reply {
        stall: (request.number == 0).then_some(120_000),
        ..Reply::object(request, &served, "\"v1\"")
    });
    let (got, result, stores) = read(&server, "", whole.len(), 0..300_000).await;
    result.unwrap();
    assert!(got == whole, "bytes differ");
    assert_eq!(stores.stats().snapshot().retries_stalled, 1);
    assert_eq!(server.seen()[1].range(), Some((120_000, 299_999)));
}

#[tokio::test]
async fn throttling_is_waited_for_as_long_as_the_store_asks() {
    let whole = content(1000);
    let served = whole.clone();
    let server = Server::start(move |request| match request.number {
        0 => Reply::status(429, "<Code>ExceedAccountRateLimit</Code>").header("Retry-After", "1"),
        1 => Reply::status(500, ""),
        _ => Reply::object(request, &served, "\"v1\""),
    });
    let start = Instant::now();
    let (got, result, stores) = read(&server, "", whole.len(), 0..1000).await;
    result.unwrap();
    assert_eq!(got, whole);
    assert!(start.elapsed() >= Duration::from_secs(1));
    let counts = stores.stats().snapshot();
    assert_eq!((counts.retries_throttled, counts.retries_server, counts.failed), (1, 1, 0));
}

#[tokio::test]
async fn an_error_text_in_a_successful_reply_is_not_content() {
    let whole = content(1000);
    let served = whole.clone();
    let server = Server::start(move |request| match request.number {
        // Twice: the first makes the reader suspect a server without ranges, which the second refutes.
        0 | 1 => Reply::status(200, "<Error><Code>SlowDown</Code></Error>"),
        2 => Reply::object(request, &served, ""),
        _ => Reply::object(request, &served, "\"v1\""),
    });
    let (got, result, stores) = read(&server, "", whole.len(), 0..1000).await;
    result.unwrap();
    assert_eq!(got, whole);
    assert_eq!(stores.stats().snapshot().retries_server, 2, "the second was a reply without ETag");
}

#[tokio::test]
async fn retries_end() {
    let server = Server::start(|_| Reply::status(503, "<Code>SlowDown</Code>"));
    let (got, result, stores) = read(&server, "retries = 2", 10, 0..10).await;
    let error = result.unwrap_err();
    assert!(matches!(error, SourceError::Throttled { status: 503, attempts: 3, .. }), "{error:?}");
    assert!(error.is_transient() && got.is_empty());
    assert_eq!((server.seen().len(), stores.stats().snapshot().failed), (3, 1));
}

#[tokio::test]
async fn another_version_is_never_read() {
    let refusing = Server::start(|_| Reply::status(412, "<Code>PreconditionFailed</Code>"));
    // This one ignores If-Match, as some do.
    let ignoring = Server::start(|request| Reply::object(request, &content(1000), "\"v2\""));
    let grown = Server::start(|request| Reply::object(request, &content(2000), "\"v1\""));
    for server in [refusing, ignoring, grown] {
        let (got, result, _) = read(&server, "", 1000, 0..1000).await;
        let error = result.unwrap_err();
        assert!(matches!(&error, SourceError::Changed { url, .. } if url == KEY), "{error:?}");
        assert!(got.is_empty() && server.seen().len() == 1);
    }
}

#[tokio::test]
async fn an_object_overwritten_between_two_pieces_is_not_mixed() {
    let server = Server::start(move |request| match request.number {
        0 => Reply { cut: Some(70_000), ..Reply::object(request, &content(100_000), "\"v1\"") },
        _ => Reply::object(request, &vec![0; 100_000], "\"v2\""),
    });
    let (got, result, _) = read(&server, "", 100_000, 0..100_000).await;
    assert!(matches!(result, Err(SourceError::Changed { .. })), "{result:?}");
    assert!(got == content(100_000)[..70_000], "bytes differ");
}

#[tokio::test]
async fn refusals_say_what_to_change() {
    for (status, body, word) in [
        (403, "<Error><Code>InvalidPathAccess</Code></Error>", "addressing = \"virtual\""),
        (403, "<Error><Code>AccessDenied</Code></Error>", "may not read it (status 403, AccessDenied)"),
        (403, "<Error><Code>SignatureDoesNotMatch</Code></Error>", "check secret_key"),
        (400, "<Error><Code>ExpiredToken</Code></Error>", "have expired"),
        (404, "<Error><Code>NoSuchBucket</Code></Error>", "addressing"),
        (404, "<Error><Code>NoSuchKey</Code></Error>", "does not exist"),
        (301, "", "check region"),
    ] {
        let server = Server::start(move |_| Reply::status(status, body));
        let (_, result, _) = read(&server, "", 10, 0..10).await;
        let error = result.unwrap_err();
        assert!(
            error.to_string().contains(word) && error.to_string().contains(KEY),
            "{status} {body}: {error:?}"
        );
        assert_eq!(server.seen().len(), 1, "{status} is not retried");
    }
}

#[tokio::test]
async fn a_server_without_ranges_is_read_by_skipping() {
    let whole = content(50_000);
    let served = whole.clone();
    let server = Server::start(move |request| {
        let all = Reply { status: 200, body: served.clone(), ..Reply::default() };
        all.header("ETag", "\"v1\"").header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT").header(
            // Named like a compressed body, but the bytes of an object are never decoded on the way.
            "Content-Encoding",
            if request.number == 0 { "gzip" } else { "deflate" },
        )
    });
    let (got, result, stores) = read(&server, "", whole.len(), 20_000..30_000).await;
    result.unwrap();
    assert!(got == whole[20_000..30_000], "bytes differ");
    assert_eq!(stores.stats().snapshot().unranged, 1);
}

#[tokio::test]
async fn an_unreachable_store_is_retried_then_named() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let stores = stores(&format!(
        "[default]\nendpoint = 'http://{port}'\naccess_key = 'k'\nsecret_key = 's'\nretries = 1\n"
    ));
    let object = listed(&stores, KEY, 10, None);
    let store = stores.open(&object.origin).unwrap();
    let error = read_range(&store, &object, 0..10, |_| {}).await.unwrap_err();
    assert!(matches!(error, SourceError::Unreachable { .. }), "{error:?}");
    assert_eq!(stores.stats().snapshot().retries_unreachable, 1);
}

#[tokio::test]
async fn cancelling_ends_a_stalled_read_at_once() {
    let (asked, was_asked) = std::sync::mpsc::channel();
    let server = Server::start(move |request| {
        asked.send(()).unwrap();
        Reply { stall: Some(0), ..Reply::object(request, &content(10), "\"v1\"") }
    });
    let stores = stores(&server.settings().replace("300ms", "5m"));
    let object = listed(&stores, KEY, 10, None);
    let store = stores.open(&object.origin).unwrap();
    let cancel = Cancel::new();
    let setter = cancel.clone();
    std::thread::spawn(move || {
        was_asked.recv().unwrap();
        setter.cancel();
    });
    let error = read_range_until(&store, &object, 0..10, &cancel, |_| {}).await.unwrap_err();
    assert!(matches!(error, SourceError::Cancelled { .. }), "{error:?}");
}

#[tokio::test]
async fn a_weak_etag_is_compared_but_not_sent() {
    let server = Server::start(|request: &Request| Reply::object(request, &content(10), "W/\"x\""));
    let stores = stores("");
    let url = SourceUrl::parse(&format!("http://{}/d/a%20b.rec?sig=secret", server.address)).unwrap();
    let object = stores.list(&[url]).await.unwrap().remove(0);
    let store = stores.open(&object.origin).unwrap();
    let mut got = Vec::new();
    read_range(&store, &object, 2..7, |piece| got.extend_from_slice(piece)).await.unwrap();
    assert_eq!(got, content(10)[2..7]);
    let seen = server.seen();
    assert_eq!(seen[0].target, "/d/a%20b.rec?sig=secret");
    assert_eq!(seen[1].header("if-match"), None);
    assert!(!object.url.contains("secret"), "{}", object.url);
}
