//! Counters of the cache; they only grow while the daemon runs.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// Live counters of one cache directory.
        #[derive(Debug, Default)]
        pub struct CacheStats { $($(#[$doc])* pub $name: AtomicU64),+ }

        impl CacheStats {
            /// Name and value of every counter, for export.
            pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.load(Ordering::Relaxed))),+]
            }
        }
    };
}

counters! {
    /// Lookups that found their shard.
    hits,
    /// Lookups that did not.
    misses,
    /// Shards committed.
    commits,
    /// Bytes on disk of the shards committed.
    committed_bytes,
    /// Shards begun; those never committed were dropped half-way.
    creates,
    /// Shards evicted for room.
    evictions,
    /// Bytes on disk freed by eviction.
    evicted_bytes,
    /// Content bytes read from disk and found right.
    read_bytes,
    /// Bytes written to data files.
    written_bytes,
    /// Blocks whose checksum or length was wrong.
    corrupt_blocks,
    /// Metadata files that were damaged, of an unknown version, or without their data.
    bad_metas,
    /// Left-overs of an interrupted run removed at start.
    orphans_removed,
    /// Files in the cache's folders that it did not make and leaves alone.
    foreign_files,
    /// Shards dropped by their reader as damaged or stale.
    discards,
    /// Operations refused for want of room or inodes on the disk.
    disk_full,
    /// Other failures of the disk or file system.
    io_errors,
    /// Index look-ups that found one.
    index_hits,
    /// Index look-ups that did not.
    index_misses,
    /// Indexes stored.
    index_saves,
    /// Indexes removed for room.
    index_evictions,
}

pub(super) fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

pub(super) fn one(counter: &AtomicU64) {
    add(counter, 1);
}
