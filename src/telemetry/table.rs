//! Every metric of the daemon.

use super::handles::{Bound, Counter, Gauge, Histogram, Kind, Metric};

/// From a millisecond (all in memory) to ten minutes (a store that hangs).
const FIRST_BATCHES: &[Bound] = &[
    1_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
    300_000_000,
    1_000_000_000,
    3_000_000_000,
    10_000_000_000,
    30_000_000_000,
    100_000_000_000,
    600_000_000_000,
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
    CPU_SECONDS = Gauge "feedline_cpu_seconds", "seconds", [], "User and system time of the daemon so far.";

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

    POOL_HITS = Counter "feedline_pool_hits_total", "blocks", [], "Look-ups of a block that found it in memory.";
    POOL_MISSES = Counter "feedline_pool_misses_total", "blocks", [], "Look-ups of a block that did not.";
    POOL_EVICTIONS = Counter "feedline_pool_evictions_total", "blocks", [],
        "Blocks in memory that gave way to others.";
    CACHE_HITS = Counter "feedline_cache_hits_total", "shards", [], "Look-ups of a shard that found it on disk.";
    CACHE_MISSES = Counter "feedline_cache_misses_total", "shards", [], "Look-ups of a shard that did not.";
    CACHE_READ_BYTES = Counter "feedline_cache_read_bytes_total", "bytes", [],
        "Content bytes read from disk and found right.";
    CACHE_WRITTEN_BYTES = Counter "feedline_cache_written_bytes_total", "bytes", [], "Bytes written to data files.";
    CACHE_BYPASSED = Counter "feedline_cache_bypassed_total", "shards", [],
        "Shards streamed through because the cache had no room for them.";
    CORRUPT_TRANSFERS = Counter "feedline_corrupt_transfers_total", "transfers", [],
        "Transfers whose bytes were wrong and were fetched again.";
    CORRUPT_RECORDS = Counter "feedline_corrupt_records_total", "records", [],
        "Corrupt records found at the source while scanning.";
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
    FIRST_BATCH = Histogram(FIRST_BATCHES) "feedline_first_batch_seconds", "seconds", ["job"],
        "Time from the opening of a stream until its first batch is ready.";
    TRAINER_WAIT = Gauge "feedline_trainer_wait_seconds", "seconds", ["job"],
        "Time that trainers have waited for batches since the daemon started, all ranks of a job together; it only \
         grows, and stays at 0 when the trainer is always the slower one.";
}
