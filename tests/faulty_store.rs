//! Risk: a store that throttles, breaks off, stalls or lies stops a run that could go on, or lets one go on that must stop.

mod common;

use common::bucket::{Bucket, assert_same, read_to_end, url};
use common::{Daemon, LIMIT, Setup, tagged};
use feedline_client::{DaemonError, Error, Remainder, Status, StreamOptions};
use feedline_proto::v1::ErrorCode;
use feedline_s3_stub::{Action, FaultPlan, Operation, Rule, StubConfig};
use std::time::{Duration, Instant};

/// Short enough for a test, long enough for a busy machine.
fn impatient(setup: Setup) -> Setup {
    setup.with("store.stall_timeout", "400ms")
}

fn stream(pattern: &str) -> StreamOptions {
    StreamOptions::new(url(pattern)).batch_size(7).remainder(Remainder::Partial)
}

fn get(action: Action) -> Rule {
    Rule::on(Operation::Get, action)
}

fn status(code: u16) -> Action {
    Action::Status { code, name: None, retry_after: None }
}

fn retries(status: &Status) -> u64 {
    status.store.expect("in every status").retries
}

/// The error of an opened or refused stream, after which everything is back at zero.
fn failure(daemon: &Daemon, options: &StreamOptions) -> DaemonError {
    let error = match daemon.try_open(options) {
        Ok(stream) => read_to_end(stream).1.expect("the store does not give it"),
        Err(Error::Daemon(error)) => error,
        Err(other) => panic!("{other}"),
    };
    daemon.wait_until_idle();
    error
}

/// A store and a daemon, and a fresh shard of ten blocks for each set of faults.
struct Bench {
    bucket: Bucket,
    daemon: Daemon,
    cases: u64,
}

impl Bench {
    fn new() -> Self {
        let bucket = Bucket::new();
        let daemon = Daemon::start(impatient(bucket.setup()));
        Self { bucket, daemon, cases: 0 }
    }

    /// Reads under faults; gives the attempts that were repeated.
    fn survives(&mut self, what: &str, plan: impl Into<FaultPlan>) -> u64 {
        self.cases += 1;
        let prefix = format!("case-{:03}", self.cases);
        let expected = self.bucket.put_shards(&prefix, &[120], |s, r| tagged(self.cases << 8 | s, r, 5_000));
        let before = retries(&self.daemon.status());
        self.bucket.stub.set_faults(plan);
        assert_same(&self.daemon.records(&stream(&format!("{prefix}*"))), &expected);
        self.bucket.stub.set_faults(FaultPlan::none());
        let after = self.daemon.wait_until_idle();
        let corrupt = after.store.expect("in every status").corrupt_transfers;
        assert_eq!(corrupt, 0, "{what} damages nothing");
        retries(&after) - before
    }
}

#[test]
fn every_transient_status_is_tried_again() {
    let mut bench = Bench::new();
    let codes = (1..).zip([503, 429, 500, 502, 504, 408]);
    let plan = codes.fold(FaultPlan::none(), |plan, (nth, code)| plan.with(get(status(code)).nth(nth)));
    assert_eq!(bench.survives("a refusal", plan), 6);
    // A 200 with an error in it is one, too.
    let slow_down = Action::ErrorIn200 { name: None };
    assert!(bench.survives("an error in 200", get(slow_down).max(3)) > 0);
    assert_eq!(bench.survives("a lost ETag", get(Action::DropETag).max(1)), 1);
}

#[test]
fn the_wish_of_the_store_for_a_pause_is_kept() {
    let mut bench = Bench::new();
    for code in [429, 503] {
        let wish = Action::Status { code, name: None, retry_after: Some(2) };
        let start = Instant::now();
        assert_eq!(bench.survives("a pause", get(wish).nth(1)), 1);
        assert!(start.elapsed() > Duration::from_millis(1_900), "{:?}", start.elapsed());
    }
}

#[test]
fn broken_bodies_are_resumed_where_they_broke() {
    let mut bench = Bench::new();
    for reset in [false, true] {
        let cut = |after| get(Action::CutBody { after, reset });
        assert!(bench.survives("a cut body", cut(20_000).every(3)) > 0);
        assert!(bench.survives("a body without bytes", cut(0).max(2)) > 0);
        assert!(bench.survives("no answer", get(Action::Close { reset }).max(2)) > 0);
    }
    // Nothing is fetched twice: ten blocks, and the cut ones a second time from where they broke.
    let before = bench.bucket.stub.counts().get_bytes;
    bench.survives("a cut body", get(Action::CutBody { after: 50_000, reset: false }).max(3));
    let sent = bench.bucket.stub.counts().get_bytes - before;
    // The reset case may lose what was under way; a clean end does not.
    assert!(sent < 120 * 5_100 + 3 * 8_192, "{sent} bytes");
}

#[test]
fn stalls_and_silence_are_noticed() {
    let mut bench = Bench::new();
    let start = Instant::now();
    let stall = |after| get(Action::Stall { after, for_ms: 60_000 });
    assert!(bench.survives("a stall", stall(10_000).max(2)) >= 2);
    assert!(bench.survives("a stall before the first byte", stall(0).max(1)) >= 1);
    assert!(bench.survives("silence", get(Action::NeverAnswer { for_ms: 60_000 }).max(2)) >= 2);
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
}

#[test]
fn a_slow_body_that_goes_on_is_never_cut() {
    let mut bench = Bench::new();
    // Ten blocks at once at this rate take several times the stall time-out.
    let slow = Action::Throttle { bytes_per_second: 50_000, shared: false };
    let start = Instant::now();
    assert_eq!(bench.survives("patience", get(slow)), 0);
    assert!(start.elapsed() > Duration::from_millis(1_200), "{:?}", start.elapsed());
}

#[test]
fn lies_about_length_and_range_do_no_harm() {
    let mut bench = Bench::new();
    assert!(bench.survives("a short reply", get(Action::ShortLength { by: 100 }).max(3)) > 0);
    assert!(bench.survives("an empty reply", get(Action::EmptyBody).max(2)) > 0);
    bench.survives("a reply without length", get(Action::Chunked));
    bench.survives("a server without ranges", get(Action::IgnoreRange));
    for bytes in [1, 13] {
        bench.survives("small pieces", get(Action::PieceSize { bytes }).every(3));
    }
}

#[test]
fn a_store_that_is_away_for_a_moment_is_waited_for() {
    let bucket = Bucket::new();
    let daemon = Daemon::start(impatient(bucket.setup()));
    let expected = bucket.put_shards("away", &[400, 400], |s, r| tagged(s, r, 5_000));
    // Slow, so that the first batches come before all is fetched.
    bucket.stub.set_faults(get(Action::Latency { min_ms: 20, max_ms: 20 }));
    let mut reading = daemon.open(&stream("away*").ready(1));
    let first = reading.next_batch_within(LIMIT).expect("no fault").expect("not the end");
    let mut records: Vec<_> = first.iter().map(<[u8]>::to_vec).collect();
    drop(first);
    bucket.stub.take_down();
    let reader = std::thread::spawn(move || {
        let (rest, error) = read_to_end(reading);
        records.extend(rest);
        (records, error)
    });
    daemon.wait_until("a retry", |status| retries(status) > 0);
    bucket.stub.bring_up().expect("the port is still free");
    let (records, error) = reader.join().expect("the reader ends");
    assert_eq!(error, None);
    assert_same(&records, &expected);
    daemon.wait_until_idle();
}

#[test]
fn a_store_that_never_recovers_ends_the_stream_with_its_name_and_not_the_daemon() {
    let bucket = Bucket::new();
    let daemon = Daemon::start(impatient(bucket.setup()).with("store.retries", "1"));
    let cases = [
        (status(503), "is throttled by the store (status 503) after 2 attempts"),
        (status(429), "is throttled by the store (status 429)"),
        (status(500), "the store fails on"),
        (Action::NeverAnswer { for_ms: 60_000 }, "stalled at byte 0"),
        (Action::Stall { after: 100, for_ms: 60_000 }, "stalled at byte"),
        (Action::CutBody { after: 100, reset: true }, "was cut at byte"),
        (Action::ShortLength { by: 70_000 }, "was cut at byte"),
        (Action::Close { reset: true }, "cannot be reached"),
    ];
    let expected = bucket.put_shards("dead", &[40, 40], |s, r| tagged(s, r, 5_000));
    for (action, said) in cases {
        bucket.stub.set_faults(get(action.clone()).key("dead-00000"));
        let error = failure(&daemon, &stream("dead*"));
        assert!(error.message.contains(said), "{action:?}: {error}");
        assert!(error.message.contains(&url("dead-00000.tfrecord")), "{error}");
        assert_eq!(error.code, ErrorCode::Unavailable, "{error}");
    }
    bucket.stub.set_faults(FaultPlan::none());
    assert_same(&daemon.records(&stream("dead*")), &expected);
    daemon.wait_until_idle();
}

#[test]
fn an_object_that_vanished_behind_the_listing_is_named() {
    let bucket = Bucket::new();
    let daemon = Daemon::start(bucket.setup());
    let expected = bucket.put_shards("gone", &[20, 20, 20], |s, r| tagged(s, r, 1_000));
    bucket.stub.set_faults(Rule::on(Operation::Get, status(404)).key("gone-00001"));
    let (records, error) = read_to_end(daemon.open(&stream("gone*").batch_size(5)));
    assert_same(&records, &expected[..20]);
    let error = error.expect("a third of the data is missing");
    assert_eq!(error.code, ErrorCode::NotFound, "{error}");
    assert!(error.message.contains(&url("gone-00001.tfrecord")), "{error}");
    assert_eq!(retries(&daemon.wait_until_idle()), 0, "that does not pass by itself");
    bucket.stub.set_faults(FaultPlan::none());
    assert_same(&daemon.records(&stream("gone*")), &expected);
    daemon.wait_until_idle();
}

#[test]
fn refused_access_says_what_to_check_and_is_not_tried_again() {
    let bucket = Bucket::new();
    let expected = bucket.put_shards("keys", &[20], |s, r| tagged(s, r, 1_000));
    let wrong = [
        (Setup::default().s3(&bucket.stub.url(), "key", "mistyped"), "check secret_key"),
        (Setup::default().s3(&bucket.stub.url(), "unknown", "secret"), "check access_key"),
    ];
    for (setup, said) in wrong {
        let daemon = Daemon::start(setup);
        // A pattern is listed, a name is looked up.
        for asked in ["keys*", "keys-00000.tfrecord"] {
            let error = failure(&daemon, &stream(asked));
            assert_eq!(error.code, ErrorCode::PermissionDenied, "{error}");
            assert!(error.message.contains(said), "{error}");
            assert!(!error.to_string().contains("mistyped"), "no secret in {error}");
        }
        assert_eq!(retries(&daemon.status()), 0);
    }
    let daemon = Daemon::start(bucket.setup());
    let named = |name: &str| Action::Status { code: 403, name: Some(name.to_owned()), retry_after: None };
    for (name, said) in [("RequestTimeTooSkewed", "clock"), ("AccessDenied", "the keys may not read it")] {
        bucket.stub.set_faults(get(named(name)));
        let error = failure(&daemon, &stream("keys*"));
        assert_eq!(error.code, ErrorCode::PermissionDenied, "{error}");
        assert!(error.message.contains(said), "{error}");
    }
    bucket.stub.set_faults(FaultPlan::none());
    assert_same(&daemon.records(&stream("keys*")), &expected);
}

#[test]
fn listings_of_many_pages_survive_faults_and_a_repeated_page_is_noticed() {
    let bucket = Bucket::with(StubConfig { page_size: 7, ..StubConfig::default() });
    let daemon = Daemon::start(impatient(bucket.setup()));
    let expected = bucket.put_shards("many", &[3; 50], |s, r| tagged(s, r, 100));
    let list = |action| Rule::on(Operation::List, action);
    let plan = FaultPlan::none()
        .with(list(status(503)).nth(2))
        .with(list(Action::CutBody { after: 300, reset: false }).nth(4))
        .with(list(Action::ErrorIn200 { name: None }).nth(6))
        .with(list(Action::NeverAnswer { for_ms: 60_000 }).nth(8));
    bucket.stub.set_faults(plan);
    assert_same(&daemon.records(&stream("many*")), &expected);
    assert_eq!(retries(&daemon.wait_until_idle()), 4);
    assert!(bucket.stub.counts().lists >= 8 + 4);
    bucket.stub.set_faults(list(Action::RepeatPage));
    let error = failure(&daemon, &stream("many*"));
    assert!(error.message.contains("same page again"), "{error}");
    bucket.stub.set_faults(FaultPlan::none());
    assert_same(&daemon.records(&stream("many*")), &expected);
    daemon.wait_until_idle();
}

#[test]
fn a_store_that_knows_only_the_old_listing_is_an_error_and_no_endless_loop() {
    let bucket = Bucket::with(StubConfig { page_size: 7, list_v1_only: true, ..StubConfig::default() });
    let daemon = Daemon::start(bucket.setup());
    bucket.put_shards("old", &[3; 20], |s, r| tagged(s, r, 100));
    let error = failure(&daemon, &stream("old*"));
    assert!(error.message.contains("list-type=2"), "{error}");
}

#[test]
fn four_ranks_get_every_record_once_from_a_store_that_refuses_one_request_in_ten() {
    let bucket = Bucket::with(StubConfig { seed: 11, threads: 2, ..StubConfig::default() });
    let counts: Vec<u64> = (0..12).map(|s| 40 + s * 3).collect();
    let expected = bucket.put_shards("ranks", &counts, |s, r| tagged(s, r, 5_000));
    let daemon = Daemon::start(bucket.setup());
    let plan = FaultPlan::none()
        .with(get(status(503)).probability(0.1))
        .with(get(Action::Latency { min_ms: 0, max_ms: 20 }));
    bucket.stub.set_faults(plan);
    let streams: Vec<_> =
        (0..4).map(|rank| daemon.open(&stream("ranks*").rank(rank, 4).batch_size(5))).collect();
    let readers: Vec<_> =
        streams.into_iter().map(|stream| std::thread::spawn(move || read_to_end(stream))).collect();
    let mut found = Vec::new();
    for reader in readers {
        let (records, error) = reader.join().expect("the reader ends");
        assert_eq!(error, None);
        found.extend(records);
    }
    let mut expected = expected;
    expected.sort();
    found.sort();
    assert_same(&found, &expected);
    let refused = bucket.stub.log().iter().filter(|entry| entry.status == 503).count() as u64;
    assert!(refused > 0);
    assert_eq!(retries(&daemon.wait_until_idle()), refused, "each is counted");
}
