//! What a run found, as it is printed and written as JSON. All names carry their unit.

use super::measure::Tally;
use super::{Consume, Plan, Status};
use serde::Serialize;

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// URL, pattern or name of the dataset.
    pub dataset: String,
    /// Number of ranks.
    pub clients: u32,
    /// Records per batch and rank.
    pub batch_size: u32,
    /// What each rank did with the records.
    pub consume: Consume,
    /// Version of the daemon.
    pub daemon_version: String,
    /// Process id of the daemon.
    pub daemon_pid: u32,
    /// The daemon's disk engine and why it was chosen.
    pub io_engine: String,
    /// One entry per epoch.
    pub epochs: Vec<EpochReport>,
    /// All epochs together.
    pub total: Option<EpochReport>,
    /// What verification found; absent if it was not asked for.
    pub verification: Option<Verification>,
}

/// Figures of one epoch, or of all.
#[derive(Clone, Debug, Serialize)]
pub struct EpochReport {
    /// Epoch from 0; absent in the total.
    pub epoch: Option<u64>,
    /// Time of the slowest rank: waiting, consuming and computing.
    pub seconds: f64,
    /// Batches of all ranks.
    pub batches: u64,
    /// Records of all ranks, pads included.
    pub records: u64,
    /// Payload bytes of these records.
    pub bytes: u64,
    /// Payload bytes of all ranks by `seconds`.
    pub bytes_per_second: f64,
    /// Records of all ranks by `seconds`.
    pub records_per_second: f64,
    /// The calls of `next()`.
    pub wait: WaitReport,
    /// Share of the ranks' time spent in simulated work: the utilisation of the simulated device, 0 to 1.
    pub compute_share_of_time: f64,
    /// CPU seconds of all ranks' threads.
    pub client_cpu_seconds: f64,
    /// The same by 10^9 payload bytes.
    pub client_cpu_seconds_per_gb: f64,
    /// CPU seconds of the daemon by 10^9 payload bytes.
    pub daemon_cpu_seconds_per_gb: f64,
    /// What the daemon did meanwhile.
    pub daemon: DaemonUse,
}

/// How long `next()` took.
#[derive(Clone, Debug, Serialize)]
pub struct WaitReport {
    /// Share of the ranks' time spent in calls that had to wait, 0 to 1.
    pub share_of_time: f64,
    /// The same in seconds, summed over ranks.
    pub seconds: f64,
    /// All calls.
    pub all: Quantiles,
    /// Calls whose batch was ready at once.
    pub ready: Quantiles,
    /// Calls that had to wait.
    pub waited: Quantiles,
}

/// Quantiles of call times in microseconds; all 0 without calls.
#[derive(Clone, Debug, Serialize)]
pub struct Quantiles {
    /// Number of calls.
    pub calls: u64,
    /// Median.
    pub p50_us: f64,
    /// 90 % took no longer.
    pub p90_us: f64,
    /// 99 % took no longer.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// Differences of the daemon's counters.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DaemonUse {
    /// User and system CPU time in seconds.
    pub cpu_seconds: f64,
    /// Requests to object stores for data.
    pub store_requests: u64,
    /// Objects seen in listings.
    pub store_objects_listed: u64,
    /// Bytes received from object stores.
    pub store_bytes: u64,
    /// Requests that had to be repeated.
    pub store_retries: u64,
    /// Bytes read from the disk cache.
    pub cache_read_bytes: u64,
    /// Bytes written to the disk cache.
    pub cache_written_bytes: u64,
    /// Blocks that were still in memory when needed again.
    pub pool_hits: u64,
}

/// What verification found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Verification {
    /// At least one record was checked and nothing was wrong.
    pub ok: bool,
    /// Records checked, pads included.
    pub records: u64,
    /// Records damaged, foreign, lost or seen twice, and epochs dealt unequally.
    pub problems: u64,
    /// The first problems in words.
    pub described: Vec<String>,
}

impl Report {
    pub(super) fn new(plan: &Plan, status: &Status) -> Self {
        Self {
            dataset: plan.dataset.clone(),
            clients: plan.clients,
            batch_size: plan.batch_size,
            consume: plan.consume,
            daemon_version: status.version.clone(),
            daemon_pid: status.pid,
            io_engine: status.io_engine.clone(),
            epochs: Vec::new(),
            total: None,
            verification: None,
        }
    }

    pub(super) fn add(&mut self, epoch: EpochReport) {
        self.epochs.push(epoch);
    }

    pub(super) fn finish(&mut self, tally: Tally, verification: Option<Verification>) {
        self.total = Some(tally.total());
        self.verification = verification;
    }

    /// Whether verification was not asked for or found nothing wrong.
    pub fn is_sound(&self) -> bool {
        self.verification.as_ref().is_none_or(|verification| verification.ok)
    }
}

impl DaemonUse {
    /// What was used between two readings; of a daemon that was restarted in between, what it has used since.
    pub(super) fn between(before: &Status, after: &Status) -> Self {
        let of = |status: &Status| {
            let (store, cache, pool) = (
                status.store.unwrap_or_default(),
                status.cache.clone().unwrap_or_default(),
                status.pool.unwrap_or_default(),
            );
            Self {
                cpu_seconds: status.cpu_seconds,
                store_requests: store.requests,
                store_objects_listed: store.objects_listed,
                store_bytes: store.bytes,
                store_retries: store.retries,
                cache_read_bytes: cache.read_bytes,
                cache_written_bytes: cache.written_bytes,
                pool_hits: pool.hits,
            }
        };
        let nothing = Status::default();
        let (a, b) = (of(if before.pid == after.pid { before } else { &nothing }), of(after));
        Self {
            cpu_seconds: (b.cpu_seconds - a.cpu_seconds).max(0.0),
            store_requests: b.store_requests.saturating_sub(a.store_requests),
            store_objects_listed: b.store_objects_listed.saturating_sub(a.store_objects_listed),
            store_bytes: b.store_bytes.saturating_sub(a.store_bytes),
            store_retries: b.store_retries.saturating_sub(a.store_retries),
            cache_read_bytes: b.cache_read_bytes.saturating_sub(a.cache_read_bytes),
            cache_written_bytes: b.cache_written_bytes.saturating_sub(a.cache_written_bytes),
            pool_hits: b.pool_hits.saturating_sub(a.pool_hits),
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.cpu_seconds += other.cpu_seconds;
        self.store_requests += other.store_requests;
        self.store_objects_listed += other.store_objects_listed;
        self.store_bytes += other.store_bytes;
        self.store_retries += other.store_retries;
        self.cache_read_bytes += other.cache_read_bytes;
        self.cache_written_bytes += other.cache_written_bytes;
        self.pool_hits += other.pool_hits;
    }
}
