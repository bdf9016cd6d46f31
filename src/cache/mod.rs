//! The NVMe cache: one directory, one hard byte limit, whole shards.
//!
//! **What.** A shard is two files: the data (plain TFRecord bytes, padded to whole pages so that direct I/O can read it)
//! and a small metadata file that names the object, its version and the CRC-32C of every block. The metadata file *is*
//! the shard: without a valid one there is no shard, and it gets its name last. `docs/disk-format.md` has every byte.
//!
//! **Why files, and no database or slab.** The file system already does allocation, crash recovery and accounting; what
//! is left for us is one rename per shard of hundreds of megabytes. `ls`, `du` and `rm` work on it, and a damaged entry
//! costs one shard.
//!
//! **How a shard gets in.** [`Cache::reserve`] sets the room aside before a byte is fetched and evicts for it;
//! [`Cache::create`] opens a file under `tmp/`; [`ShardWriter::write_block`] writes through the ring, in any order;
//! [`ShardWriter::commit`] forces data, metadata and names to disk in the order that makes a crash at any point leave
//! either the whole shard or garbage that the next start recognises by name. Dropping the writer undoes everything.
//!
//! **How it gets out.** [`Cache::lookup`] gives an `Arc` that pins the shard; [`CachedShard::read_block`] checks every
//! block before it is handed on. A bad block is an error that says so; the caller calls [`Cache::discard`] and fetches
//! again. Eviction takes what nobody holds, in the order of an [`EvictionPolicy`], and takes nothing if that would not
//! make enough room.
//!
//! **What it promises.** Files take at most the limit plus [`MARGIN_BYTES`] on disk, metadata and indexes included, at
//! every moment (two exceptions: room of a dropped writer whose last writes are still in the ring, for the moment until
//! they are done, and files that the disk refuses to delete). What was committed is a hit after SIGKILL and power loss.
//! Nothing that the cache did not make is deleted, and a directory that holds anything else is refused.
//!
//! **Limits.** Whole shards only: a shard larger than the limit is not cached ([`ReserveError::TooLarge`]). The order of
//! use is kept across a restart to the minute. Look-ups, reservations and index calls do small blocking file operations
//! (a slow disk makes them slow); reads, writes and commits are asynchronous. Content is compared by identity: two objects
//! under different URLs are two shards.

mod admit;
mod dir;
mod error;
mod files;
mod id;
mod index;
mod ledger;
mod meta;
mod policy;
mod recover;
mod reserve;
mod room;
mod shard;
mod stats;
mod store;
mod table;
mod writer;

pub use error::{CacheError, ReserveError};
pub use id::{ObjectIdentity, ShardId};
pub use ledger::MARGIN_BYTES;
pub use meta::{MetaError, ShardMeta};
pub use policy::{EvictionPolicy, Lru};
pub use reserve::Reservation;
pub use shard::CachedShard;
pub use stats::CacheStats;
pub use store::{Cache, CacheSettings, Usage};
pub use writer::ShardWriter;

#[cfg(test)]
mod tests;
