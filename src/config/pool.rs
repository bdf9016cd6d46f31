//! `[pool]`: shared memory.

use super::reader::{Reader, quoted};
use super::surroundings::Surroundings;
use super::units::{GIB, KIB, MIB, Size};
use super::value::Reading;

/// Blocks that a pool must hold at least: with fewer, streams would wait for each other's blocks all the time.
const LEAST_BLOCKS: u64 = 8;

/// Shared memory that clients map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// Size of the pool in bytes, a multiple of the block size.
    pub bytes: u64,
    /// Size of a block in bytes, a power of two.
    pub block_bytes: u32,
}

/// What is wrong with `[pool]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// Too few blocks fit.
    #[error("a pool of {} holds fewer than {LEAST_BLOCKS} blocks of this size", Size(*.pool))]
    FewBlocks {
        /// Size of the pool in bytes.
        pool: u64,
    },
    /// More than there is.
    #[error("more than the {} of memory that the control group or the machine allows", Size(*.memory))]
    NoMemory {
        /// Memory allowed, in bytes.
        memory: u64,
    },
}

impl Pool {
    pub(super) fn read(reader: &mut Reader<'_>, around: &Surroundings) -> Self {
        let memory = around.memory;
        let share = |percent: u64| memory / 100 * percent + memory % 100 * percent / 100;
        let mut why = String::new();
        let bytes = match reader.reading("bytes") {
            Some(Reading::Number(bytes)) => bytes,
            // A percentage of a small machine still has to make a working pool.
            Some(Reading::Percent(percent)) => share(percent).max(64 * MIB),
            _ => {
                why = format!("25 % of {} allowed, within 64 MiB and 64 GiB", Size(memory));
                share(25).clamp(64 * MIB, 64 * GIB)
            }
        };
        if reader.clean() && bytes > memory {
            reader.refuse("bytes", PoolError::NoMemory { memory });
        }
        let given = reader.number("block_bytes");
        let block = given.unwrap_or_else(|| {
            let fits = (bytes / 16).max(1);
            (1 << fits.ilog2()).clamp(64 * KIB, 4 * MIB)
        });
        if reader.clean() && bytes / block < LEAST_BLOCKS {
            reader.refuse("block_bytes", PoolError::FewBlocks { pool: bytes });
        }
        let bytes = bytes / block * block;
        reader.note("bytes", quoted(&Size(bytes).to_string()), &why);
        reader.note("block_bytes", quoted(&Size(block).to_string()), "");
        let block_bytes = u32::try_from(block).expect("the table bounds a block to 64 MiB");
        Self { bytes, block_bytes }
    }
}
