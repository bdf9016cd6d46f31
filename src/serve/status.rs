//! What the daemon says of itself.

use super::registry::StreamInfo;
use super::session::Shared;
use feedline_proto::v1::{BudgetStatus, CacheStatus, PoolStatus, Status, StoreStatus, StreamStatus};
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// What does not change while the daemon runs.
#[derive(Debug)]
pub(super) struct Reporter {
    pub(super) started: Instant,
    pub(super) socket: String,
    pub(super) prefetch_threads: u32,
    pub(super) io_engine: String,
}

impl Reporter {
    pub(super) fn status(&self, shared: &Shared) -> Status {
        let parts = shared.loader.parts();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            cpu_seconds: cpu_seconds(),
            resident_bytes: resident_bytes(),
            socket: self.socket.clone(),
            io_engine: self.io_engine.clone(),
            prefetch_threads: self.prefetch_threads,
            open_descriptors: open_descriptors(),
            pool: Some(pool_status(shared)),
            cache: Some(cache_status(shared)),
            store: Some(store_status(shared)),
            streams: shared.registry.list().iter().map(|stream| stream_status(stream)).collect(),
            inflight: Some(BudgetStatus {
                limit_bytes: parts.in_flight.limit(),
                used_bytes: parts.in_flight.used(),
                peak_bytes: parts.in_flight.peak(),
                waiting: parts.in_flight.waiting() as u64,
            }),
        }
    }
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}

fn pool_status(shared: &Shared) -> PoolStatus {
    let pool = &shared.loader.parts().pool;
    let usage = pool.usage();
    // Blocks that streams hold; what is held beside them is on its way to disk.
    let leased = shared.leases.used().min(usage.held);
    PoolStatus {
        limit_bytes: pool.bytes(),
        block_bytes: pool.block_bytes().into(),
        slots: usage.slots,
        free: usage.free,
        cached: usage.cached,
        busy: usage.filling + usage.held - leased,
        leased,
        hits: usage.hits,
        misses: usage.misses,
        evictions: usage.evictions,
    }
}

fn cache_status(shared: &Shared) -> CacheStatus {
    let cache = &shared.loader.parts().cache;
    let (usage, stats) = (cache.usage(), cache.stats());
    CacheStatus {
        dir: cache.dir().display().to_string(),
        limit_bytes: usage.limit,
        used_bytes: usage.used,
        reserved_bytes: usage.reserved,
        shards: usage.shards as u64,
        hits: load(&stats.hits),
        misses: load(&stats.misses),
        evictions: load(&stats.evictions),
        corrupt: load(&stats.corrupt_blocks),
        read_bytes: load(&stats.read_bytes),
        written_bytes: load(&stats.written_bytes),
        bypassed: load(&shared.loader.stats().bypassed),
    }
}

fn store_status(shared: &Shared) -> StoreStatus {
    let stats = shared.datasets.stores().stats();
    let counts = stats.snapshot();
    StoreStatus {
        requests: counts.requests,
        bytes: counts.bytes,
        retries: counts.retries(),
        objects_listed: counts.listed,
        corrupt_transfers: load(&shared.loader.stats().corrupt_transfers),
    }
}

fn stream_status(stream: &StreamInfo) -> StreamStatus {
    StreamStatus {
        stream: stream.id,
        job: stream.about.job.clone(),
        dataset: stream.about.dataset.clone(),
        rank: stream.about.rank,
        world_size: stream.about.world_size,
        epoch: load(&stream.epoch),
        batches: load(&stream.batches),
        records: load(&stream.records),
        bytes: load(&stream.bytes),
        skipped: load(&stream.skipped),
        ready: load(&stream.ready),
        held: load(&stream.held),
        leased_blocks: load(&stream.leased),
        lease_limit: load(&stream.lease_limit),
        waits_for: stream.waits().name().to_owned(),
        trainer_waited_seconds: std::time::Duration::from_nanos(load(&stream.waited_nanos)).as_secs_f64(),
        pid: stream.about.pid,
        uid: stream.about.uid,
    }
}

/// User and system CPU time of this process so far, in seconds.
pub(super) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    std::time::Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanos).as_secs_f64()
}

/// Resident memory of this process in bytes, shared blocks that it has touched included; 0 if /proc is not there.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// Open descriptors of this process; 0 if /proc is not there.
pub(super) fn open_descriptors() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64)
}
