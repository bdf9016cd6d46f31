//! Brings the metrics up to date from the counters of the parts, just before they are read.

use super::session::Shared;
use super::status::{cpu_seconds, open_descriptors};
use crate::telemetry::http::Refresh;
use crate::telemetry::table;
use crate::telemetry::{Counter, Gauge};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[allow(
    clippy::cast_precision_loss,
    reason = "a gauge is a float; what is lost is below a millionth of a per cent"
)]
fn set<const N: usize>(gauge: &Gauge<N>, labels: [&str; N], value: u64) {
    gauge.with(labels).set(value as f64);
}

fn total<const N: usize>(counter: &Counter<N>, labels: [&str; N], value: u64) {
    counter.with(labels).absolute(value);
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}

/// The function that the exporter calls before each rendering.
pub(super) fn refresh(shared: Arc<Shared>) -> Refresh {
    Arc::new(move || {
        set(&table::BUILD_INFO, [env!("CARGO_PKG_VERSION")], 1);
        set(&table::OPEN_FDS, [], open_descriptors());
        table::CPU_SECONDS.get().set(cpu_seconds());
        stores(&shared);
        cache(&shared);
        pool(&shared);
        jobs(&shared);
    })
}

fn stores(shared: &Shared) {
    let counts = shared.datasets.stores().stats().snapshot();
    total(&table::STORE_REQUESTS, [], counts.requests);
    total(&table::STORE_BYTES, [], counts.bytes);
    total(&table::STORE_FAILURES, [], counts.failed);
    total(&table::STORE_LISTED, [], counts.listed);
    total(&table::STORE_UNRANGED, [], counts.unranged);
    let causes = [
        ("throttled", counts.retries_throttled),
        ("server", counts.retries_server),
        ("stalled", counts.retries_stalled),
        ("cut", counts.retries_cut),
        ("unreachable", counts.retries_unreachable),
    ];
    for (cause, count) in causes {
        total(&table::STORE_RETRIES, [cause], count);
    }
    let in_flight = &shared.loader.parts().in_flight;
    set(&table::INFLIGHT_BYTES, [], in_flight.used());
    set(&table::INFLIGHT_LIMIT, [], in_flight.limit());
    total(&table::CORRUPT_TRANSFERS, [], load(&shared.loader.stats().corrupt_transfers));
    total(&table::CORRUPT_RECORDS, [], load(&shared.loader.stats().corrupt_records));
}

fn cache(shared: &Shared) {
    let cache = &shared.loader.parts().cache;
    let (usage, stats) = (cache.usage(), cache.stats());
    total(&table::CACHE_HITS, [], load(&stats.hits));
    total(&table::CACHE_MISSES, [], load(&stats.misses));
    total(&table::CACHE_READ_BYTES, [], load(&stats.read_bytes));
    total(&table::CACHE_WRITTEN_BYTES, [], load(&stats.written_bytes));
    total(&table::CACHE_BYPASSED, [], load(&shared.loader.stats().bypassed));
    total(&table::CACHE_EVICTIONS, [], load(&stats.evictions));
    total(&table::CACHE_EVICTED_BYTES, [], load(&stats.evicted_bytes));
    total(&table::CACHE_CORRUPT, [], load(&stats.corrupt_blocks));
    set(&table::CACHE_USED, [], usage.used);
    set(&table::CACHE_RESERVED, [], usage.reserved);
    set(&table::CACHE_LIMIT, [], usage.limit);
    set(&table::CACHE_SHARDS, [], usage.shards as u64);
    set(&table::DISK_IN_FLIGHT, [], shared.disk.in_flight() as u64);
}

fn pool(shared: &Shared) {
    let pool = &shared.loader.parts().pool;
    let (usage, block) = (pool.usage(), u64::from(pool.block_bytes()));
    let filled = usage.cached + usage.held;
    total(&table::POOL_HITS, [], usage.hits);
    total(&table::POOL_MISSES, [], usage.misses);
    total(&table::POOL_EVICTIONS, [], usage.evictions);
    set(&table::POOL_BLOCKS, [], filled);
    set(&table::POOL_USED, [], filled * block);
    set(&table::POOL_LEASED, [], shared.leases.used().min(usage.held) * block);
    set(&table::POOL_LIMIT, [], pool.bytes());
}

fn jobs(shared: &Shared) {
    for (label, totals) in shared.registry.totals() {
        let label = [label.as_str()];
        set(&table::STREAMS, label, totals.open);
        total(&table::BATCHES, label, totals.batches);
        total(&table::RECORDS, label, totals.records);
        total(&table::SERVED_BYTES, label, totals.bytes);
        total(&table::SKIPPED, label, totals.skipped);
        let waited = std::time::Duration::from_nanos(totals.waited_nanos);
        table::TRAINER_WAIT.with(label).set(waited.as_secs_f64());
    }
}
