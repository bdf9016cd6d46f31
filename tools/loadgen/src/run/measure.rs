//! The figures of an epoch while they are being taken.

use super::report::{DaemonUse, EpochReport, Quantiles, WaitReport};
use crate::units::float;
use hdrhistogram::Histogram;
use std::time::Duration;

/// An hour in nanoseconds: longer waits are counted as one hour.
const LONGEST: u64 = 3_600_000_000_000;

/// CPU time of the calling thread.
pub(super) fn thread_cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.try_into().unwrap_or_default(), now.tv_nsec.try_into().unwrap_or_default())
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 3).expect("constant bounds are valid")
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// One rank's part of an epoch.
pub(super) struct RankEpoch {
    pub(super) epoch: u64,
    pub(super) batches: u64,
    pub(super) records: u64,
    pub(super) bytes: u64,
    /// Waiting, consuming and computing.
    pub(super) busy: Duration,
    pub(super) waited: Duration,
    pub(super) compute: Duration,
    pub(super) cpu: Duration,
    ready_calls: Histogram<u64>,
    waited_calls: Histogram<u64>,
}

impl RankEpoch {
    pub(super) fn new(epoch: u64) -> Self {
        Self {
            epoch,
            batches: 0,
            records: 0,
            bytes: 0,
            busy: Duration::ZERO,
            waited: Duration::ZERO,
            compute: Duration::ZERO,
            cpu: Duration::ZERO,
            ready_calls: histogram(),
            waited_calls: histogram(),
        }
    }

    /// Notes one call of `next()`.
    pub(super) fn call(&mut self, took: Duration, ready: bool) {
        let calls = if ready { &mut self.ready_calls } else { &mut self.waited_calls };
        calls.saturating_record(nanos(took).max(1));
        if !ready {
            self.waited += took;
        }
        self.busy += took;
    }
}

/// What is compared between ranks.
#[derive(Clone, Copy)]
pub(super) struct Share {
    pub(super) batches: u64,
}

/// Sums over ranks, and over epochs for the total.
struct Sum {
    batches: u64,
    records: u64,
    bytes: u64,
    slowest: Duration,
    busy: Duration,
    waited: Duration,
    compute: Duration,
    cpu: Duration,
    daemon: DaemonUse,
    ready_calls: Histogram<u64>,
    waited_calls: Histogram<u64>,
}

impl Sum {
    fn new() -> Self {
        Self {
            batches: 0,
            records: 0,
            bytes: 0,
            slowest: Duration::ZERO,
            busy: Duration::ZERO,
            waited: Duration::ZERO,
            compute: Duration::ZERO,
            cpu: Duration::ZERO,
            daemon: DaemonUse::default(),
            ready_calls: histogram(),
            waited_calls: histogram(),
        }
    }

    fn add_rank(&mut self, part: &RankEpoch) {
        self.batches += part.batches;
        self.records += part.records;
        self.bytes += part.bytes;
        self.slowest = self.slowest.max(part.busy);
        self.busy += part.busy;
        self.waited += part.waited;
        self.compute += part.compute;
        self.cpu += part.cpu;
        self.add_calls(&part.ready_calls, &part.waited_calls);
    }

    fn add_calls(&mut self, ready: &Histogram<u64>, waited: &Histogram<u64>) {
        self.ready_calls.add(ready).expect("equal bounds");
        self.waited_calls.add(waited).expect("equal bounds");
    }

    fn add_epoch(&mut self, epoch: &Self) {
        self.batches += epoch.batches;
        self.records += epoch.records;
        self.bytes += epoch.bytes;
        // Epochs follow one another, ranks run side by side.
        self.slowest += epoch.slowest;
        self.busy += epoch.busy;
        self.waited += epoch.waited;
        self.compute += epoch.compute;
        self.cpu += epoch.cpu;
        self.daemon.add(&epoch.daemon);
        self.add_calls(&epoch.ready_calls, &epoch.waited_calls);
    }

    fn report(&self, epoch: Option<u64>) -> EpochReport {
        let seconds = self.slowest.as_secs_f64();
        let per = |amount: f64, unit: f64| if unit > 0.0 { amount / unit } else { 0.0 };
        let gigabytes = float(self.bytes) / 1e9;
        let busy = self.busy.as_secs_f64();
        let mut calls = histogram();
        calls.add(&self.ready_calls).expect("equal bounds");
        calls.add(&self.waited_calls).expect("equal bounds");
        EpochReport {
            epoch,
            seconds,
            batches: self.batches,
            records: self.records,
            bytes: self.bytes,
            bytes_per_second: per(float(self.bytes), seconds),
            records_per_second: per(float(self.records), seconds),
            wait: WaitReport {
                share_of_time: per(self.waited.as_secs_f64(), busy),
                seconds: self.waited.as_secs_f64(),
                all: quantiles(&calls),
                ready: quantiles(&self.ready_calls),
                waited: quantiles(&self.waited_calls),
            },
            compute_share_of_time: per(self.compute.as_secs_f64(), busy),
            client_cpu_seconds: self.cpu.as_secs_f64(),
            client_cpu_seconds_per_gb: per(self.cpu.as_secs_f64(), gigabytes),
            daemon_cpu_seconds_per_gb: per(self.daemon.cpu_seconds, gigabytes),
            daemon: self.daemon.clone(),
        }
    }
}

fn quantiles(calls: &Histogram<u64>) -> Quantiles {
    let micros = |nanos: u64| float(nanos) / 1e3;
    let at = |quantile| micros(calls.value_at_quantile(quantile));
    Quantiles {
        calls: calls.len(),
        p50_us: at(0.5),
        p90_us: at(0.9),
        p99_us: at(0.99),
        max_us: micros(calls.max()),
    }
}

/// The epoch that is running and the total of those before it.
pub(super) struct Tally {
    epoch: Sum,
    total: Sum,
    shares: Vec<Share>,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self { epoch: Sum::new(), total: Sum::new(), shares: Vec::new() }
    }

    pub(super) fn add(&mut self, part: &RankEpoch) {
        self.epoch.add_rank(part);
        self.shares.push(Share { batches: part.batches });
    }

    /// What each rank had of the epoch that is running, in the order in which they ended it.
    pub(super) fn ranks(&self) -> &[Share] {
        &self.shares
    }

    pub(super) fn close(&mut self, epoch: u64, daemon: &DaemonUse) -> EpochReport {
        self.epoch.daemon = daemon.clone();
        self.total.add_epoch(&self.epoch);
        self.shares.clear();
        std::mem::replace(&mut self.epoch, Sum::new()).report(Some(epoch))
    }

    pub(super) fn total(&self) -> EpochReport {
        self.total.report(None)
    }
}
