//! `[prefetch]`: threads that read from the store, and how far they look ahead.

use super::Pool;
use super::reader::{Reader, quoted};
use super::surroundings::Surroundings;
use super::units::{GIB, Size};

/// Prefetch threads and their bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefetch {
    /// Threads.
    pub threads: usize,
    /// Requests in flight per thread.
    pub requests_per_thread: usize,
    /// Look-ahead of each stream in bytes.
    pub window_bytes: u64,
    /// Bytes on their way from the store at most.
    pub inflight_bytes: u64,
}

/// What is wrong with `[prefetch]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrefetchError {
    /// More than the pool.
    #[error("more than the pool, which has {}", Size(*.pool))]
    MoreThanPool {
        /// Size of the pool in bytes.
        pool: u64,
    },
    /// More than the part of the pool that is not kept for streams.
    #[error("more than half of the pool, which has {}: the other half is for batches", Size(*.pool))]
    MoreThanHalf {
        /// Size of the pool in bytes.
        pool: u64,
    },
    /// Less than a block.
    #[error("less than one block, which has {}", Size(*.block))]
    LessThanBlock {
        /// Size of a block in bytes.
        block: u64,
    },
    /// Fewer blocks than it takes to inflate one shard.
    #[error("fewer than {LEAST_BLOCKS} blocks, which have {} each", Size(*.block))]
    FewBlocks {
        /// Size of a block in bytes.
        block: u64,
    },
}

/// A compressed shard needs this many blocks in flight: two pieces of input, two blocks of output.
const LEAST_BLOCKS: u64 = 4;

impl Prefetch {
    pub(super) fn read(reader: &mut Reader<'_>, pool: &Pool, around: &Surroundings) -> Self {
        let mut why = String::new();
        let threads = reader.number("threads").unwrap_or_else(|| {
            let (wanted, how) = match around.gpus {
                0 => (around.cpus, format!("{} CPUs allowed, no GPU seen", around.cpus)),
                gpus => {
                    let how = format!("3 for each of {gpus} GPUs, {} CPUs allowed", around.cpus);
                    (gpus.saturating_mul(3).min(around.cpus), how)
                }
            };
            why = how;
            u64::try_from(wanted.clamp(2, 32)).unwrap_or(32)
        });
        reader.note("threads", threads, &why);
        let requests = reader.number("requests_per_thread").unwrap_or(4);
        reader.note("requests_per_thread", requests, "");

        let block = u64::from(pool.block_bytes);
        let window = (pool.bytes / 4).clamp((4 * block).min(pool.bytes), (8 * GIB).max(4 * block));
        let window_bytes =
            bytes(reader, "window_bytes", pool, window, "a quarter of the pool, at most 8 GiB");
        let inflight = threads.saturating_mul(requests).saturating_mul(block);
        let inflight = inflight.min(pool.bytes / 2).max(LEAST_BLOCKS * block);
        let why = "one block per request, at most half of the pool";
        let inflight_bytes = bytes(reader, "inflight_bytes", pool, inflight, why);
        if inflight_bytes > pool.bytes / 2 {
            reader.refuse("inflight_bytes", PrefetchError::MoreThanHalf { pool: pool.bytes });
        } else if inflight_bytes < LEAST_BLOCKS * block {
            reader.refuse("inflight_bytes", PrefetchError::FewBlocks { block });
        }
        Self {
            threads: usize::try_from(threads).unwrap_or(usize::MAX),
            requests_per_thread: usize::try_from(requests).unwrap_or(usize::MAX),
            window_bytes,
            inflight_bytes,
        }
    }
}

fn bytes(reader: &mut Reader<'_>, key: &str, pool: &Pool, auto: u64, why: &str) -> u64 {
    let given = reader.number(key);
    let block = u64::from(pool.block_bytes);
    match given {
        Some(bytes) if bytes > pool.bytes => {
            reader.refuse(key, PrefetchError::MoreThanPool { pool: pool.bytes });
        }
        Some(bytes) if bytes < block => reader.refuse(key, PrefetchError::LessThanBlock { block }),
        _ => {}
    }
    let bytes = given.unwrap_or(auto);
    reader.note(key, quoted(&Size(bytes).to_string()), why);
    bytes
}
