//! Writing one shard: blocks in any order into a file under `tmp/`, then one commit that makes it exist.
//!
//! Order of the commit: data forced to disk, metadata written and forced to disk, data renamed, metadata renamed, folder
//! forced to disk. The rename of the metadata is the instant at which the shard exists; whatever happens before leaves
//! only files that the next start removes. Dropping the writer (also half-way, also with writes under way in the ring)
//! removes the file and gives the room back; the ring itself keeps the open file until its writes are done.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ring::{IoBuf, RingFile};

use super::error::{CacheError, ReserveError};
use super::files::{self, Kind, Layout, Temp};
use super::id::{ObjectIdentity, ShardId};
use super::ledger::{charge_of, pages};
use super::meta::ShardMeta;
use super::reserve::Reservation;
use super::shard::CachedShard;
use super::stats::{add, one};
use super::store::Cache;

/// A shard being written; invisible to everyone until [`ShardWriter::commit`] returns.
#[derive(Debug)]
pub struct ShardWriter {
    cache: Arc<Cache>,
    identity: ObjectIdentity,
    id: ShardId,
    file: RingFile,
    side: File,
    written: AtomicU64,
    // In this order: the file is gone before its room is given back.
    temp: Temp,
    reservation: Mutex<Reservation>,
}

impl ShardWriter {
    pub(super) fn new(
        cache: &Arc<Cache>,
        identity: ObjectIdentity,
        reservation: Reservation,
    ) -> Result<Self, CacheError> {
        let id = identity.id();
        let temp = cache.layout.temp(&id, Kind::Data);
        let opened = open(cache, temp.path(), reservation.content_bytes()).or_else(|error| {
            // No room or no inodes on the disk although the limit allows it: make some, once.
            files::remove(temp.path());
            match error {
                CacheError::Full { .. } if cache.relieve() => {
                    open(cache, temp.path(), reservation.content_bytes())
                }
                error => Err(error),
            }
        });
        let (file, side) = opened.inspect_err(|error| cache.count_failure(error))?;
        one(&cache.stats.creates);
        Ok(Self {
            cache: Arc::clone(cache),
            identity,
            id,
            file,
            side,
            written: AtomicU64::new(0),
            temp,
            reservation: Mutex::new(reservation),
        })
    }

    /// The id under which the shard will be found.
    pub fn id(&self) -> ShardId {
        self.id
    }

    /// Writes `len` bytes from `buf[buf_offset..]` at content offset `offset`; blocks may come in any order and in
    /// parallel, each once. `offset` is a multiple of 4,096 and so is `len`: the caller pads the last block with zeros.
    ///
    /// # Errors
    /// [`CacheError::Unreserved`] beyond the reservation, [`CacheError::Full`] if the disk has no room (stream the
    /// shard instead), [`CacheError::Io`]. The buffer always comes back.
    pub async fn write_block<B: IoBuf>(
        &self,
        offset: u64,
        buf: B,
        buf_offset: usize,
        len: usize,
    ) -> (Result<(), CacheError>, B) {
        let end = offset.saturating_add(len as u64);
        let reserved = self.reservation().content_bytes();
        if end > pages(reserved) {
            let url = self.identity.url.clone();
            return (Err(CacheError::Unreserved { url, end, reserved }), buf);
        }
        let (result, buf) = self.cache.ring.write_at(&self.file, offset, buf, buf_offset, len).await;
        let result = result.map_err(|error| CacheError::io("write", self.temp.path(), error));
        match &result {
            Ok(()) => {
                self.written.fetch_add(len as u64, Ordering::Relaxed);
                add(&self.cache.stats.written_bytes, len as u64);
            }
            Err(error) => {
                self.cache.failed(error);
            }
        }
        (result, buf)
    }

    /// Asks for `bytes` more content bytes, for a shard that inflates to more than was guessed. May remove files.
    ///
    /// # Errors
    /// As [`Cache::reserve`]; what was reserved before stays.
    pub fn reserve_more(&self, bytes: u64) -> Result<(), ReserveError> {
        self.reservation().grow(bytes)
    }

    /// Makes the shard exist, durably, with `content_len` bytes in blocks of `block_bytes` whose CRC-32Cs (content only,
    /// without padding) are `block_crcs`. Every write must have returned. If the same shard was committed meanwhile,
    /// that one is returned and this one dropped.
    ///
    /// # Errors
    /// [`CacheError::Incomplete`], [`CacheError::Meta`] for numbers that contradict each other, [`CacheError::Full`] and
    /// [`CacheError::Io`]; in each case nothing is left behind.
    pub async fn commit(
        self,
        content_len: u64,
        block_bytes: u32,
        block_crcs: Vec<u32>,
    ) -> Result<Arc<CachedShard>, CacheError> {
        let cache = Arc::clone(&self.cache);
        self.force_and_publish(content_len, block_bytes, block_crcs)
            .await
            .inspect_err(|error| cache.failed(error))
    }

    async fn force_and_publish(
        self,
        content_len: u64,
        block_bytes: u32,
        block_crcs: Vec<u32>,
    ) -> Result<Arc<CachedShard>, CacheError> {
        let url = self.identity.url.clone();
        let written = self.written.load(Ordering::Relaxed);
        if written < content_len {
            return Err(CacheError::Incomplete { url, written, content_len });
        }
        let meta = ShardMeta::new(self.identity.clone(), content_len, block_bytes, block_crcs)
            .map_err(|source| CacheError::Meta { url, source })?;
        let io = |error| CacheError::io("force to disk", self.temp.path(), error);
        self.side.set_len(pages(content_len)).map_err(io)?;
        self.cache.ring.sync(&self.file).await.map_err(io)?;
        // Small blocking steps, but with an fsync each: not on a thread that drives downloads.
        let dir = self.cache.dir().to_owned();
        match tokio::task::spawn_blocking(move || self.publish(meta)).await {
            Ok(result) => result,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(error) => {
                let source = io::Error::new(io::ErrorKind::Interrupted, error);
                Err(CacheError::Io { action: "commit a shard in", path: dir, source })
            }
        }
    }

    fn publish(self, meta: ShardMeta) -> Result<Arc<CachedShard>, CacheError> {
        let Self { cache, identity, id, file, side, temp, reservation, .. } = self;
        drop((file, side));
        let bytes = meta.to_bytes().map_err(|source| CacheError::Meta { url: identity.url, source })?;
        let charge = charge_of(meta.content_len, bytes.len() as u64);
        let mut reservation = reservation.into_inner().unwrap_or_else(PoisonError::into_inner);
        reservation.raise(charge)?;
        let meta_temp = cache.layout.temp(&id, Kind::Meta);
        meta_temp.fill(&bytes)?;
        cache.admit(&id, meta, NewFiles { data: temp, meta: meta_temp }, reservation, charge)
    }

    fn reservation(&self) -> MutexGuard<'_, Reservation> {
        self.reservation.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The two finished files of a shard, still under `tmp/`.
#[derive(Debug)]
pub(super) struct NewFiles {
    pub(super) data: Temp,
    pub(super) meta: Temp,
}

impl NewFiles {
    /// Gives both their final names, the metadata last, and forces the names to disk.
    pub(super) fn publish(self, layout: &Layout, id: &ShardId) -> Result<(), CacheError> {
        let folder = layout.folder(id, Kind::Data);
        let (data, meta) = (layout.file(id, Kind::Data), layout.file(id, Kind::Meta));
        self.data.rename(&data)?;
        let named = self.meta.rename(&meta).and_then(|()| files::sync_dir(&folder));
        if named.is_err() {
            files::remove(&meta);
            files::remove(&data);
        }
        named
    }
}

/// Creates the data file and asks the file system for all its room now, so that a full disk is known at once and
/// parallel writes at many offsets do not scatter it.
fn open(cache: &Cache, path: &Path, content: u64) -> Result<(RingFile, File), CacheError> {
    let file = cache.ring.create(path).map_err(|error| CacheError::io("create", path, error))?;
    let io = |error| CacheError::io("open", path, error);
    let side = files::options().write(true).open(path).map_err(io)?;
    if content > 0 {
        use rustix::io::Errno;
        match rustix::fs::fallocate(&side, rustix::fs::FallocateFlags::empty(), 0, pages(content)) {
            // Not every file system can; then the room is found while writing.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
            Err(error) => return Err(CacheError::io("find room for", path, error.into())),
        }
    }
    Ok((file, side))
}
