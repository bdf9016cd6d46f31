use super::*;
use crate::source::tests::server::{Reply, Server};
use crate::source::tests::{content, stores};
use crate::source::{Cancel, Object, SourceError, SourceUrl};
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

type Outcome = Result<(), SourceError>;

fn listed(stores: &crate::source::Stores, url: &str) -> Arc<Object> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    Arc::new(runtime.block_on(stores.list(&[SourceUrl::parse(url).unwrap()])).unwrap().remove(0))
}

/// A file of known content, threads, and a channel for outcomes.
struct Bench {
    _dir: tempfile::TempDir,
    object: Arc<Object>,
    threads: FetchThreads,
    report: Sender<(u32, Outcome)>,
    reports: Receiver<(u32, Outcome)>,
}

impl Bench {
    fn new(threads: usize, requests: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x");
        std::fs::write(&file, content(3_000_000)).unwrap();
        let stores = stores("");
        let object = listed(&stores, file.to_str().unwrap());
        let threads = FetchThreads::start(threads, requests, stores).unwrap();
        let (report, reports) = channel();
        Self { _dir: dir, object, threads, report, reports }
    }

    fn job(&self, number: u32, range: Range<u64>, lane: Lane, sink: Sink) -> Job {
        let report = self.report.clone();
        Job {
            object: self.object.clone(),
            range,
            lane,
            sink,
            done: Box::new(move |outcome| drop(report.send((number, outcome)))),
            cancel: Cancel::new(),
        }
    }

    /// Fills the one place of a one-thread bench until the returned sender is dropped.
    fn block(&self) -> Sender<()> {
        let (release, released) = channel::<()>();
        let (started, has_started) = channel();
        let sink = move |_, _: &[u8]| {
            let _ = started.send(());
            let _ = released.recv();
        };
        self.threads.submit(self.job(0, 0..10, Lane::Ahead, Box::new(sink)));
        has_started.recv().unwrap();
        release
    }
}

#[test]
fn jobs_deliver_their_bytes_on_named_threads() {
    let bench = Bench::new(3, 2);
    let got: Vec<_> = (0..20).map(|_| Arc::new(Mutex::new(Vec::new()))).collect();
    for (number, got) in (0u32..).zip(&got) {
        let got = got.clone();
        let start = u64::from(number) * 100_000;
        let sink = move |offset: u64, piece: &[u8]| {
            assert!(std::thread::current().name().unwrap().starts_with("feedline-fetch-"));
            let mut got = got.lock().unwrap();
            assert_eq!(offset, got.len() as u64);
            got.extend_from_slice(piece);
        };
        bench.threads.submit(bench.job(number, start..start + 1_000_000, Lane::Ahead, Box::new(sink)));
    }
    for _ in 0..20 {
        bench.reports.recv().unwrap().1.unwrap();
    }
    let whole = content(3_000_000);
    for (number, got) in got.iter().enumerate() {
        assert!(*got.lock().unwrap() == whole[number * 100_000..][..1_000_000], "job {number} differs");
    }
    bench.threads.shutdown();
    let counts = bench.threads.stats().snapshot();
    assert_eq!((counts.completed, counts.running, counts.queued_ahead, counts.bytes), (20, 0, 0, 20_000_000));
}

#[test]
fn demand_goes_first_and_promotion_makes_urgent() {
    let bench = Bench::new(1, 1);
    let release = bench.block();
    let submit = |number, lane| bench.threads.submit(bench.job(number, 0..10, lane, Box::new(|_, _| {})));
    submit(1, Lane::Ahead);
    let second = submit(2, Lane::Ahead);
    submit(3, Lane::Ahead);
    let urgent = submit(4, Lane::Demand);
    assert!(bench.threads.promote(second));
    assert!(!bench.threads.promote(second) && !bench.threads.promote(urgent));
    assert_eq!(bench.threads.stats().snapshot().queued_demand, 2);
    drop(release);
    let order: Vec<_> = (0..5).map(|_| bench.reports.recv().unwrap().0).collect();
    assert_eq!(order, [0, 4, 2, 1, 3]);
}

#[test]
fn panics_end_their_job_only() {
    let bench = Bench::new(1, 2);
    bench.threads.submit(bench.job(1, 0..10, Lane::Demand, Box::new(|_, _| panic!("sink"))));
    let (_, outcome) = bench.reports.recv().unwrap();
    assert!(
        matches!(&outcome, Err(SourceError::Panicked { message, .. }) if message == "sink"),
        "{outcome:?}"
    );
    let mut job = bench.job(2, 0..10, Lane::Demand, Box::new(|_, _| {}));
    job.done = Box::new(|_| panic!("done"));
    bench.threads.submit(job);
    bench.threads.submit(bench.job(3, 0..10, Lane::Demand, Box::new(|_, _| {})));
    let (number, outcome) = bench.reports.recv().unwrap();
    assert!(number == 3 && outcome.is_ok());
    bench.threads.shutdown();
    assert_eq!(bench.threads.stats().snapshot().panicked, 2);
}

#[test]
fn a_queued_job_can_be_cancelled() {
    let bench = Bench::new(1, 1);
    let release = bench.block();
    let job = bench.job(1, 0..10, Lane::Demand, Box::new(|_, _| panic!("it was cancelled")));
    let cancel = job.cancel.clone();
    bench.threads.submit(job);
    cancel.cancel();
    drop(release);
    bench.reports.recv().unwrap().1.unwrap();
    assert!(matches!(bench.reports.recv().unwrap(), (1, Err(SourceError::Cancelled { .. }))));
}

#[test]
fn shutdown_answers_every_job() {
    let (asked, was_asked) = channel();
    let server = Server::start(move |request| {
        if request.method == "GET" {
            asked.send(()).unwrap();
        }
        Reply { stall: Some(3), ..Reply::object(request, &content(10), "\"v\"") }
    });
    let stores = stores(&server.settings().replace("300ms", "5m"));
    let object = listed(&stores, "s3://bkt/k");
    let threads = FetchThreads::start(1, 1, stores).unwrap();
    let (report, reports) = channel();
    let submit = || {
        let report = report.clone();
        threads.submit(Job {
            object: object.clone(),
            range: 0..10,
            lane: Lane::Demand,
            sink: Box::new(|_, _| {}),
            done: Box::new(move |outcome| drop(report.send(outcome))),
            cancel: Cancel::new(),
        })
    };
    submit();
    submit();
    was_asked.recv().unwrap();
    threads.shutdown();
    submit();
    for _ in 0..3 {
        let outcome = reports.try_recv().unwrap();
        assert!(matches!(outcome, Err(SourceError::Cancelled { .. })), "{outcome:?}");
    }
    assert_eq!(threads.stats().snapshot().cancelled, 3);
}

#[test]
fn a_store_that_cannot_be_opened_fails_the_job() {
    let bench = Bench::new(1, 1);
    let mut job = bench.job(1, 0..10, Lane::Demand, Box::new(|_, _| {}));
    let url = SourceUrl::parse("s3://b/k").unwrap();
    job.object = Arc::new(Object { origin: stores("").origin(&url), ..(*bench.object).clone() });
    bench.threads.submit(job);
    let (_, outcome) = bench.reports.recv().unwrap();
    assert!(matches!(outcome, Err(SourceError::Unsupported { .. })), "{outcome:?}");
}

#[test]
fn automatic_thread_counts() {
    for (gpus, cpus, want) in
        [(8, 128, 24), (8, 16, 16), (1, 64, 3), (0, 1, 2), (0, 12, 12), (0, 256, 32), (16, 256, 32)]
    {
        assert_eq!(auto_threads(gpus, cpus), want, "{gpus} GPUs, {cpus} CPUs");
    }
}
