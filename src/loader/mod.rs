//! Answers one question: *give me block k of shard s*, from the nearest place that has it.
//!
//! **Places.** The pool (shared memory), the NVMe cache, a pass that is bringing the shard in, the store. Whoever asks
//! waits for one load: requests for the same block join.
//!
//! **Passes.** A shard whose records are not known yet, or that is not cached, is brought in by a *pass* ([`pass`]): its
//! blocks are fetched in parallel, scanned in order (framing, checksums, record index), published in the pool where
//! trainers can have them at once, and written to the cache, which gets the shard when the last block is safe. A shard
//! found in the cache without an index is scanned the same way, with the disk in the place of the store. Compressed
//! shards are inflated on the way ([`inflated`]); from then on they are like any other.
//!
//! **Pace.** A pass runs no further than the streams that read the shard look ahead ([`shard::Handle::want`]), so a slow
//! trainer does not fill the pool with blocks that are evicted before it comes to them. A pass that nobody wants any
//! more ends, and what it has not finished leaves no trace.
//!
//! **Damage.** Bytes are checked before anyone can see them. A block from the cache that fails its checksum takes the
//! whole shard out of the cache and is read from the store. A fault in what the store sent is fetched again: if the same
//! bytes come twice, the source is corrupt and the index says so (what happens then is the dataset's policy); if
//! other bytes come, the transfer was at fault and the good ones count.
//!
//! **Limits.** A block that was scanned and evicted from the pool before its shard is committed is fetched once more. A
//! compressed shard that the cache has no room for is inflated anew for each pass over it.

mod block;
mod error;
mod inflated;
mod landing;
mod pass;
mod plain;
mod record;
mod scan;
mod shard;
mod transfer;

pub use block::{Loader, LoaderParts, LoaderStats};
pub use error::LoadError;
pub use record::Payload;
pub use shard::{Handle, Shard};
