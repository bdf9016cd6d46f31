//! Each fault, as a client sees it: on the wire, byte by byte.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod common;

use common::wire::{End, Wire};
use feedline_s3_stub::{BlackHole, FaultPlan, Rule, Stub, StubConfig};
use std::time::{Duration, Instant};

const LEN: usize = 300_000;

fn body() -> Vec<u8> {
    (0..LEN).map(|n| u8::try_from(n % 251).unwrap()).collect()
}

/// An anonymous stub with one object `b/k` of `LEN` bytes, and rules in shorthand.
fn stub(rules: &[&str]) -> Stub {
    let stub = Stub::start(StubConfig::default());
    stub.put("b", "k", body());
    stub.set_faults(plan(rules));
    stub
}

fn plan(rules: &[&str]) -> FaultPlan {
    FaultPlan { rules: rules.iter().map(|text| text.parse::<Rule>().unwrap()).collect() }
}

#[test]
fn statuses_carry_code_and_retry_after() {
    let stub = stub(&[
        "get:nth=1:status=503,SlowDown,retry-after=7",
        "get:nth=2:status=429",
        "get:nth=3:status=301",
    ]);
    let mut wire = Wire::connect(&stub);
    let slow = wire.get("/b/k", &[]);
    assert_eq!((slow.status, slow.header("retry-after")), (503, Some("7")));
    assert!(slow.text().contains("<Code>SlowDown</Code>"));
    assert!(wire.get("/b/k", &[]).text().contains("<Code>ExceedAccountQPSLimit</Code>"));
    let moved = wire.get("/b/k", &[]);
    assert_eq!((moved.status, moved.header("location")), (301, None));
    assert_eq!(wire.get("/b/k", &[]).body, body());
    let counts = stub.counts();
    assert_eq!((counts.requests, counts.faulted, counts.errors, counts.connections), (4, 3, 2, 1));
    assert_eq!(stub.log()[0].faults, ["status=503,SlowDown,retry-after=7"]);
}

#[test]
fn a_body_is_cut_at_the_byte() {
    for (rule, end) in [("get:cut=1234", End::Fin), ("get:cut=1234,reset", End::Reset)] {
        let stub = stub(&[rule]);
        let cut = Wire::connect(&stub).get("/b/k", &[("range", "bytes=100-")]);
        assert_eq!((cut.status, cut.end, cut.body.as_slice()), (206, end, &body()[100..1334]));
        assert_eq!(cut.header("content-length"), Some("299900"));
        assert!(stub.wait_until(Duration::from_secs(5), |counts| counts.cut == 1));
        let entry = &stub.log()[0];
        assert_eq!((entry.bytes, entry.complete), (1234, false));
    }
}

#[test]
fn a_cut_at_zero_leaves_the_headers_and_a_long_one_nothing() {
    let stub = stub(&["get:nth=1:cut=0", "get:nth=2:cut=1MB"]);
    let cut = Wire::connect(&stub).get("/b/k", &[]);
    assert_eq!((cut.status, cut.end, cut.body.len()), (200, End::Fin, 0));
    assert_eq!(Wire::connect(&stub).get("/b/k", &[]).body, body());
}

#[test]
fn connections_close_instead_of_answering() {
    for (rule, end) in [("get:close", End::Fin), ("get:close=reset", End::Reset)] {
        let closed = Wire::connect(&stub(&[rule])).get("/b/k", &[]);
        assert_eq!((closed.status, closed.end), (0, end));
    }
}

#[test]
fn latency_stall_and_silence_take_their_time() {
    for rule in ["get:latency=120ms..130ms", "get:stall=1000,120ms", "get:silent=120ms"] {
        let stub = stub(&[rule]);
        let start = Instant::now();
        let reply = Wire::connect(&stub).get("/b/k", &[]);
        assert!(start.elapsed() >= Duration::from_millis(120), "{rule}: {:?}", start.elapsed());
        if rule.contains("silent") {
            assert_eq!((reply.status, reply.end), (0, End::Fin));
        } else {
            assert_eq!(reply.body, body());
        }
    }
}

#[test]
fn a_stall_lets_the_bytes_before_it_through() {
    let stub = stub(&["get:stall=1000,60s"]);
    let mut wire = Wire::connect(&stub);
    let stalled = wire.get_until("/b/k", 1000);
    assert_eq!(stalled.body, body()[..1000]);
    assert_eq!(stub.counts().get_bytes, 1000);
}

#[test]
fn throttles_hold_each_reply_or_all_together() {
    // 300,000 bytes at 2 MB/s: 150 ms for each reply, 300 ms for two under one limit.
    for (rule, at_least) in [("get:throttle=2MB", 145), ("get:throttle-all=2MB", 295)] {
        let stub = stub(&[rule]);
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| assert_eq!(Wire::connect(&stub).get("/b/k", &[]).body, body()));
            }
        });
        assert!(start.elapsed() >= Duration::from_millis(at_least), "{rule}: {:?}", start.elapsed());
    }
}

#[test]
fn a_byte_of_the_object_flips_in_every_range_that_holds_it() {
    let stub = stub(&["get:flip=150000"]);
    let mut wire = Wire::connect(&stub);
    let mut expected = body();
    expected[150_000] = !expected[150_000];
    assert_eq!(wire.get("/b/k", &[]).body, expected);
    let part = wire.get("/b/k", &[("range", "bytes=149990-150010")]);
    assert_eq!(part.body, expected[149_990..150_011]);
    assert_eq!(wire.get("/b/k", &[("range", "bytes=0-9")]).body, body()[..10]);
}

#[test]
fn a_byte_flips_where_the_seed_says() {
    let flipped = |seed| {
        let stub = Stub::start(StubConfig { seed, faults: plan(&["get:flip"]), ..StubConfig::default() });
        stub.put("b", "k", body());
        let got = Wire::connect(&stub).get("/b/k", &[]).body;
        let expected = body();
        let differing: Vec<_> = (0..LEN).filter(|i| got[*i] != expected[*i]).collect();
        assert_eq!(differing.len(), 1);
        differing[0]
    };
    assert_eq!(flipped(1), flipped(1));
    assert_ne!(flipped(1), flipped(2));
}

#[test]
fn replies_are_short_empty_or_not_what_they_seem() {
    let stub = stub(&["get:nth=1:short=10", "get:nth=2:empty", "get:nth=3:error200", "get:nth=4:no-etag"]);
    let mut wire = Wire::connect(&stub);
    let short = wire.get("/b/k", &[("range", "bytes=0-99")]);
    assert_eq!((short.status, short.body.as_slice(), short.end), (206, &body()[..90], End::Whole));
    assert_eq!(short.header("content-range"), Some("bytes 0-99/300000"));
    let empty = wire.get("/b/k", &[]);
    assert_eq!((empty.status, empty.body.len(), empty.end), (200, 0, End::Whole));
    let error = wire.get("/b/k", &[]);
    assert_eq!(error.status, 200);
    assert!(error.text().contains("<Code>SlowDown</Code>"));
    let bare = wire.get("/b/k", &[]);
    assert_eq!((bare.header("etag"), &bare.body), (None, &body()));
}

#[test]
fn the_length_may_be_missing() {
    let reply = Wire::connect(&stub(&["get:chunked"])).get("/b/k", &[]);
    assert_eq!(reply.header("content-length"), None);
    assert_eq!(reply.header("transfer-encoding"), Some("chunked"));
}

#[test]
fn pieces_arrive_one_by_one() {
    // Against loopback a reader may still find several pieces at once, so only the content is certain.
    let stub = stub(&["get:pieces=7"]);
    let range = ("range", "bytes=5-2000");
    assert_eq!(Wire::connect(&stub).get("/b/k", &[range]).body, body()[5..2001]);
}

#[test]
fn ranges_and_conditions_may_be_ignored() {
    let stub = stub(&["get:nth=1:ignore-range", "get:nth=2:ignore-conditions"]);
    let mut wire = Wire::connect(&stub);
    let whole = wire.get("/b/k", &[("range", "bytes=5-9")]);
    assert_eq!((whole.status, whole.body.len()), (200, LEN));
    assert_eq!(wire.get("/b/k", &[("if-match", "\"other\"")]).status, 200);
    assert_eq!(wire.get("/b/k", &[("if-match", "\"other\"")]).status, 412);
}

#[test]
fn an_object_changes_or_goes_behind_the_clients_back() {
    let stub = stub(&["get:nth=1:change", "get:nth=2:remove"]);
    let mut wire = Wire::connect(&stub);
    let old = wire.get("/b/k", &[]);
    assert_eq!(old.body, body());
    let new = wire.get("/b/k", &[]);
    assert_ne!(new.header("etag"), old.header("etag"));
    assert!(new.body.iter().zip(&old.body).all(|(new, old)| *new == !*old));
    assert_eq!(wire.get("/b/k", &[]).status, 404);
}

#[test]
fn listings_repeat_fail_and_forget_tokens() {
    let config = StubConfig { page_size: 2, ..StubConfig::default() };
    let stub = Stub::start(config.clone());
    let v1 = Stub::start(StubConfig { list_v1_only: true, ..config });
    for key in ["a", "b", "c", "d", "e"] {
        stub.put("b", key, "x");
        v1.put("b", key, "x");
    }
    let page = |stub: &Stub, query: &str| Wire::connect(stub).get(&format!("/b?{query}"), &[]).text();
    let first = page(&stub, "list-type=2");
    let token = first.split("<NextContinuationToken>").nth(1).unwrap().split('<').next().unwrap();
    let next = format!("list-type=2&continuation-token={token}");
    assert!(page(&stub, &next).contains("<Key>c</Key>"));
    stub.set_faults(plan(&["list:nth=2:status=503", "list:nth=3:repeat-page", "list:nth=4:error200"]));
    page(&stub, "list-type=2");
    assert!(page(&stub, &next).contains("<Code>SlowDown</Code>"));
    assert!(page(&stub, &next).contains("<Key>a</Key>"));
    assert!(page(&stub, &next).contains("<Code>SlowDown</Code>"));

    let old = page(&v1, &next);
    assert!(old.contains("<Key>a</Key>") && !old.contains("NextContinuationToken"));
    assert!(page(&v1, "marker=b").contains("<Key>c</Key>"));
}

#[test]
fn keys_in_listings_are_encoded_on_request() {
    let stub = Stub::start(StubConfig::default());
    stub.put("b", "d/a b&<\u{1}>\u{e9}", "x");
    let plain = Wire::connect(&stub).get("/b?list-type=2", &[]).text();
    assert!(plain.contains("<Key>d/a b&amp;&lt;&#x1;&gt;\u{e9}</Key>"), "{plain}");
    let encoded = Wire::connect(&stub).get("/b?list-type=2&encoding-type=url", &[]).text();
    assert!(encoded.contains("<Key>d/a%20b%26%3C%01%3E%C3%A9</Key>"), "{encoded}");
}

#[test]
fn requests_over_a_limit_are_turned_away() {
    let stub = stub(&["head:limit=3"]);
    let mut wire = Wire::connect(&stub);
    // More requests than two seconds let through, sent in less than one.
    let refused = (0..20).filter(|_| wire.request("HEAD", "/b/k", &[]).status == 429).count();
    assert!((1..=17).contains(&refused), "{refused}");
}

#[test]
fn writes_fail_too() {
    let config = StubConfig { refuse_trailers: true, ..StubConfig::default().bucket("b") };
    let stub = Stub::start(config);
    stub.set_faults(plan(&["put:nth=1:status=500", "complete:error200"]));
    let mut wire = Wire::connect(&stub);
    assert_eq!(wire.send("PUT", "/b/new", &[], b"x").status, 500);
    assert!(stub.get("b", "new").is_none());
    let trailer = ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER");
    assert_eq!(wire.send("PUT", "/b/new", &[trailer], b"1\r\nx\r\n0\r\n\r\n").status, 501);
    let chunked = ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD");
    assert_eq!(wire.send("PUT", "/b/new", &[chunked], b"1\r\nx\r\n0\r\n\r\n").status, 200);
    assert_eq!(stub.get("b", "new").unwrap(), "x");
    let completed = wire.send("POST", "/b/new?uploadId=1", &[], b"<x/>");
    assert_eq!(completed.status, 200);
    assert!(completed.text().contains("<Code>SlowDown</Code>"));
}

#[test]
fn a_black_hole_swallows_connections() {
    let hole = BlackHole::open().unwrap();
    let address = hole.url().trim_start_matches("http://").parse().unwrap();
    let error = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(200)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
}

#[test]
fn stopping_closes_connections() {
    let stub = stub(&["get:silent=1h"]);
    std::thread::scope(|scope| {
        let mut wire = Wire::connect(&stub);
        let waiting = scope.spawn(move || wire.get("/b/k", &[]));
        assert!(stub.wait_until(Duration::from_secs(5), |counts| counts.faulted == 1));
        stub.take_down();
        assert_ne!(waiting.join().unwrap().end, End::Whole);
    });
    let address = stub.address();
    stub.stop();
    assert!(std::net::TcpStream::connect(address).is_err());
}
