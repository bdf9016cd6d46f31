//! A cached shard in use: its metadata, its open data file, and the pin that keeps it from eviction.

use std::fmt;
use std::sync::Arc;

use crate::ring::{AlignedBuf, IoBuf, Ring, RingFile, view};

use super::error::CacheError;
use super::ledger::{Charge, PAGE};
use super::meta::ShardMeta;
use super::stats::{CacheStats, add, one};
use crate::record::crc32c;

/// A shard that is on disk and whole. While any `Arc` of it lives it is not evicted.
pub struct CachedShard {
    meta: ShardMeta,
    path: std::path::PathBuf,
    file: RingFile,
    ring: Ring,
    stats: Arc<CacheStats>,
    // Last: the bytes are free again only after the file has been closed.
    charge: Arc<Charge>,
}

impl CachedShard {
    pub(super) fn new(
        meta: ShardMeta,
        path: std::path::PathBuf,
        file: RingFile,
        ring: Ring,
        stats: Arc<CacheStats>,
        charge: Arc<Charge>,
    ) -> Self {
        Self { meta, path, file, ring, stats, charge }
    }

    /// What the shard holds.
    pub fn meta(&self) -> &ShardMeta {
        &self.meta
    }

    /// Bytes the shard takes on disk, metadata included.
    pub fn disk_bytes(&self) -> u64 {
        self.charge.bytes()
    }

    /// Reads block `k` to the front of `buf` and checks its checksum. Gives the content bytes in the block; the buffer
    /// must hold those rounded up to 4,096, and may hold padding after them.
    ///
    /// # Errors
    /// [`CacheError::Corrupt`] and [`CacheError::Cut`]: the copy is bad, discard it ([`CacheError::is_damage`]).
    /// [`CacheError::Io`]: the disk failed. [`CacheError::NoSuchBlock`]: beyond the content. The buffer always comes
    /// back.
    pub async fn read_block<B: IoBuf>(&self, k: u64, buf: B) -> (Result<usize, CacheError>, B) {
        let url = || self.meta.identity.url.clone();
        let Some((offset, len)) = self.meta.block_span(k) else {
            return (Err(CacheError::NoSuchBlock { url: url(), block: k, blocks: self.meta.blocks() }), buf);
        };
        let padded = len.next_multiple_of(usize::try_from(PAGE).expect("a page fits any usize"));
        let (read, buf) = self.ring.read_at(&self.file, offset, buf, 0, padded).await;
        let found = match read {
            Ok(found) => found,
            Err(error) => {
                one(&self.stats.io_errors);
                return (Err(CacheError::io("read", &self.path, error)), buf);
            }
        };
        if found < len {
            one(&self.stats.corrupt_blocks);
            let (expected, found) = (len as u64, found as u64);
            return (Err(CacheError::Cut { url: url(), block: k, offset, expected, found }), buf);
        }
        let found = crc32c(view(&buf, len));
        let expected = usize::try_from(k).ok().and_then(|k| self.meta.block_crcs.get(k).copied());
        if expected != Some(found) {
            one(&self.stats.corrupt_blocks);
            let expected = expected.unwrap_or_default();
            return (Err(CacheError::Corrupt { url: url(), block: k, offset, expected, found }), buf);
        }
        add(&self.stats.read_bytes, len as u64);
        (Ok(len), buf)
    }

    /// Reads `len` bytes of content from `offset` on, unchecked: for pieces that carry a checksum of their own. The bytes
    /// are those of the buffer from the second value on.
    ///
    /// # Errors
    /// [`CacheError::Cut`] and [`CacheError::Io`], as [`Self::read_block`].
    pub async fn read_span(&self, offset: u64, len: usize) -> Result<(AlignedBuf, usize), CacheError> {
        let start = offset / PAGE * PAGE;
        let skip = usize::try_from(offset - start).expect("less than a page");
        let padded = (skip + len).next_multiple_of(usize::try_from(PAGE).expect("a page fits any usize"));
        let (read, buf) = self.ring.read_at(&self.file, start, AlignedBuf::new(padded), 0, padded).await;
        let found = read.map_err(|error| {
            one(&self.stats.io_errors);
            CacheError::io("read", &self.path, error)
        })?;
        if found < skip + len {
            one(&self.stats.corrupt_blocks);
            let block = offset / u64::from(self.meta.block_bytes);
            let (expected, found) = ((skip + len) as u64, found as u64);
            let url = self.meta.identity.url.clone();
            return Err(CacheError::Cut { url, block, offset: start, expected, found });
        }
        add(&self.stats.read_bytes, padded as u64);
        Ok((buf, skip))
    }
}

impl fmt::Debug for CachedShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedShard")
            .field("meta", &self.meta)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
