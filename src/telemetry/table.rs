//! Every metric of the daemon.

use super::handles::{Bound, Counter, Gauge, Histogram, Kind, Metric};

/// From 10 microseconds (a ready batch) to a minute (a store that hangs).
const WAITS: &[Bound] = &[
    10_000,
    30_000,
    100_000,
    300_000,
    1_000_000,
    3_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
    300_000_000,
    1_000_000_000,
    3_000_000_000,
    10_000_000_000,
    60_000_000_000,
];

/// How many labels a metric has.
const fn count(labels: &[&str]) -> usize {
    labels.len()
}

macro_rules! kind {
    (Counter) => {
        Kind::Counter
    };
    (Gauge) => {
        Kind::Gauge
    };
    (Histogram $bounds:expr) => {
        Kind::Histogram($bounds)
    };
}

macro_rules! table {
    ($($const:ident = $type:ident $(($bounds:expr))? $name:literal, $unit:literal, [$($label:literal),*], $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $const: $type<{ count(&[$($label),*]) }> = $type { name: $name, labels: [$($label),*] };
        )*

        /// All of them, in the order of the documentation.
        pub const METRICS: &[Metric] = &[$(Metric {
            name: $name,
            kind: kind!($type $($bounds)?),
            unit: $unit,
            labels: &[$($label),*],
            help: $help,
        }),*];
    };
}

table! {
    BUILD_INFO = Gauge "feedline_build_info", "", ["version"], "Always 1; the label has the version that runs.";
    OPEN_FDS = Gauge "feedline_open_fds", "files", [], "Open file descriptors of the daemon.";
    CLIENTS = Gauge "feedline_clients", "clients", [], "Connected clients.";

    STORE_REQUESTS = Counter "feedline_store_requests_total", "requests", [],
        "Requests sent to object stores; every attempt counts.";
    STORE_BYTES = Counter "feedline_store_read_bytes_total", "bytes", [], "Body bytes received from object stores.";
    STORE_RETRIES = Counter "feedline_store_retries_total", "requests", ["cause"],
        "Attempts repeated, by cause: throttled, server, stalled, cut, unreachable.";
    STORE_FAILURES = Counter "feedline_store_failures_total", "requests", [],
        "Reads and listings that ended in an error after all retries.";
    STORE_LISTED = Counter "feedline_store_listed_objects_total", "objects", [], "Objects seen in listings.";
    STORE_UNRANGED = Counter "feedline_store_unranged_replies_total", "replies", [],
        "Replies with a whole object although a range was asked for.";
    INFLIGHT_BYTES = Gauge "feedline_inflight_bytes", "bytes", [],
        "Bytes reserved for data on its way from the store; never above the limit.";
    INFLIGHT_LIMIT = Gauge "feedline_inflight_limit_bytes", "bytes", [], "prefetch.inflight_bytes.";

    CACHE_HITS = Counter "feedline_cache_hits_total", "blocks", ["tier"],
        "Blocks found without asking a store, by tier: pool (memory), disk.";
    CACHE_HIT_BYTES = Counter "feedline_cache_hit_bytes_total", "bytes", ["tier"],
        "Bytes of the blocks found, by tier: pool (memory), disk.";
    CACHE_MISSES = Counter "feedline_cache_misses_total", "blocks", [], "Blocks that had to come from a store.";
    CACHE_MISS_BYTES = Counter "feedline_cache_miss_bytes_total", "bytes", [],
        "Bytes of the blocks that had to come from a store.";
    CACHE_EVICTIONS = Counter "feedline_cache_evictions_total", "shards", [], "Shards evicted from disk for room.";
    CACHE_EVICTED_BYTES = Counter "feedline_cache_evicted_bytes_total", "bytes", [], "Disk space freed by eviction.";
    CACHE_CORRUPT = Counter "feedline_cache_corrupt_blocks_total", "blocks", [],
        "Blocks on disk with a wrong checksum or length; they are dropped and fetched again.";
    CACHE_USED = Gauge "feedline_cache_used_bytes", "bytes", [], "Disk space of cached shards.";
    CACHE_RESERVED = Gauge "feedline_cache_reserved_bytes", "bytes", [],
        "Disk space reserved for shards that are being written.";
    CACHE_LIMIT = Gauge "feedline_cache_limit_bytes", "bytes", [], "cache.bytes.";
    CACHE_SHARDS = Gauge "feedline_cache_shards", "shards", [], "Shards on disk.";
    DISK_IN_FLIGHT = Gauge "feedline_disk_in_flight_requests", "requests", [], "Disk requests in flight.";

    POOL_BLOCKS = Gauge "feedline_pool_blocks", "blocks", [], "Blocks of the pool that hold data.";
    POOL_USED = Gauge "feedline_pool_used_bytes", "bytes", [], "Bytes of the blocks of the pool that hold data.";
    POOL_LEASED = Gauge "feedline_pool_leased_bytes", "bytes", [],
        "Bytes of blocks that clients hold; they cannot be used again until they are given back.";
    POOL_LIMIT = Gauge "feedline_pool_limit_bytes", "bytes", [], "pool.bytes.";

    STREAMS = Gauge "feedline_streams", "streams", ["job"], "Open streams.";
    BATCHES = Counter "feedline_batches_total", "batches", ["job"], "Batches handed to clients.";
    RECORDS = Counter "feedline_records_total", "records", ["job"], "Records handed to clients.";
    SERVED_BYTES = Counter "feedline_served_bytes_total", "bytes", ["job"], "Payload bytes handed to clients.";
    SKIPPED = Counter "feedline_skipped_records_total", "records", ["job"],
        "Records with a bad checksum that the data set's policy skipped.";
    BATCH_WAIT = Histogram(WAITS) "feedline_batch_wait_seconds", "seconds", ["job"],
        "Time that clients waited for a batch: near zero when the trainer is the slower one.";
}
