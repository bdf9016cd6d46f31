//! The cache itself: look-up, room, eviction, admission.
//!
//! Two locks. `table` guards the table of shards and is held for moments only, never over I/O, so a look-up does not wait for a
//! slow disk. `files` serialises whoever renames or removes files that have their final names (eviction, admission,
//! discard, index): without it, removing an evicted shard could hit the same shard just committed anew. The ledger has
//! its own lock, innermost. Order: `files`, `table`, ledger.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ring::Ring;

use super::dir::{self, DirLock};
use super::error::{CacheError, ReserveError};
use super::files::{self, Kind, Layout};
use super::id::{ObjectIdentity, ShardId};
use super::index::{self, Indexes};
use super::ledger::{Ledger, index_charge};
use super::policy::Lru;
use super::recover;
use super::reserve::Reservation;
use super::shard::CachedShard;
use super::stats::{CacheStats, one};
use super::table::Table;
use super::writer::ShardWriter;

/// What a cache directory is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSettings {
    /// The directory; made if it is not there.
    pub dir: PathBuf,
    /// Hard limit for everything in it, in bytes, but for [`super::MARGIN_BYTES`].
    pub bytes: u64,
    /// The part of `bytes` that stored record indexes may take, in bytes.
    pub index_bytes: u64,
}

impl CacheSettings {
    /// With one thirty-second of the limit for indexes: enough for records of 256 bytes and up.
    pub fn new(dir: impl Into<PathBuf>, bytes: u64) -> Self {
        Self { dir: dir.into(), bytes, index_bytes: bytes / 32 }
    }
}

/// How full the cache is. Bytes are those on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Hard limit.
    pub limit: u64,
    /// Shards and indexes; `used + reserved <= limit`.
    pub used: u64,
    /// The part of `used` taken by indexes.
    pub index: u64,
    /// Set aside for shards being written.
    pub reserved: u64,
    /// Number of shards that can be found.
    pub shards: usize,
}

/// The cache of one directory.
pub struct Cache {
    pub(super) layout: Layout,
    pub(super) ring: Ring,
    pub(super) ledger: Arc<Ledger>,
    pub(super) stats: Arc<CacheStats>,
    pub(super) indexes: Indexes,
    table: Mutex<Table>,
    files: Mutex<()>,
    _lock: DirLock,
}

impl Cache {
    /// Takes possession of the directory, reads what is in it, removes left-overs of an interrupted run, and evicts what
    /// is beyond the limit. Blocks for the time of the scan.
    ///
    /// # Errors
    /// [`CacheError::Locked`], [`CacheError::Foreign`], [`CacheError::Layout`], [`CacheError::Access`], and
    /// [`CacheError::Io`] if the directory cannot be listed.
    pub fn open(settings: CacheSettings, ring: Ring) -> Result<Arc<Self>, CacheError> {
        let lock = dir::take(&settings.dir)?;
        let layout = Layout::new(settings.dir);
        let stats = Arc::new(CacheStats::default());
        let ledger = Arc::new(Ledger::new(settings.bytes));
        let recovered = recover::scan(&layout, &stats)?;
        let mut table = Table::new(Box::new(Lru::new()));
        for found in recovered.shards {
            table.insert(found.id, ledger.found(found.bytes), found.used);
        }
        let indexes = Indexes::new(settings.index_bytes.min(settings.bytes));
        for found in &recovered.indexes {
            indexes.found(found, &ledger);
        }
        let cache = Self {
            layout,
            ring,
            ledger,
            stats,
            indexes,
            table: Mutex::new(table),
            files: Mutex::default(),
            _lock: lock,
        };
        {
            let _files = cache.files();
            cache.fit_indexes(0);
            // What cannot be removed stays counted; the cache then only admits less.
            let _fits = cache.make_room(0);
        }
        Ok(Arc::new(cache))
    }

    /// The shard, if it is there and its metadata are still whole; the `Arc` keeps it from eviction. Reads one small
    /// file unless somebody has the shard open already.
    pub fn lookup(&self, id: &ShardId) -> Option<Arc<CachedShard>> {
        let found = self.find(id);
        one(if found.is_some() { &self.stats.hits } else { &self.stats.misses });
        found
    }

    /// Whether a look-up would find the shard. Changes nothing.
    pub fn contains(&self, id: &ShardId) -> bool {
        self.table().contains(id)
    }

    /// Sets room aside for a shard of `bytes` content bytes and its metadata, evicting shards that nobody uses, least
    /// recently used first, and stored indexes after them. Evicts nothing if that would not be enough. Blocks for the
    /// time of removing files.
    ///
    /// # Errors
    /// [`ReserveError::TooLarge`], [`ReserveError::AllInUse`].
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Reservation, ReserveError> {
        Reservation::new(self, bytes)
    }

    /// Begins a shard in the room that was set aside for it.
    ///
    /// # Errors
    /// [`CacheError::Full`] if the disk has no room or no inodes, [`CacheError::Io`].
    pub fn create(
        self: &Arc<Self>,
        identity: ObjectIdentity,
        reservation: Reservation,
    ) -> Result<ShardWriter, CacheError> {
        ShardWriter::new(self, identity, reservation)
    }

    /// Drops a shard that is damaged or stale. Readers that hold it keep their open file; its room is free when the last
    /// of them is done. Its stored index stays: it belongs to the content, not to the copy.
    pub fn discard(&self, id: &ShardId) {
        let _files = self.files();
        if let Some(charge) = self.table().take(id) {
            one(&self.stats.discards);
            self.remove_files(id, charge);
        }
    }

    /// Stores the record index of a shard, whether or not the shard is cached, removing the least recently used indexes
    /// beyond the allowance. An index larger than the allowance is not stored. Blocks for one small durable write.
    ///
    /// # Errors
    /// [`CacheError::Reserve`] if running streams hold all room, [`CacheError::Full`], [`CacheError::Io`]. Losing an
    /// index costs a scan at the next fetch, nothing else.
    pub fn save_index(&self, id: &ShardId, content: &[u8]) -> Result<(), CacheError> {
        // A file that says itself whose it is cannot be taken for another's.
        let content = [&id.0[..], content].concat();
        let bytes = index_charge(content.len() as u64);
        if bytes > self.indexes.allowance() || content.len() as u64 > index::MAX_BYTES {
            return Ok(());
        }
        let _files = self.files();
        self.indexes.remove(id, &self.layout, &self.ledger);
        self.fit_indexes(bytes);
        if !self.ledger.try_reserve(bytes) {
            self.make_room(bytes)?;
        }
        let stored = self.indexes.store(id, &content, bytes, &self.layout, &self.ledger);
        match &stored {
            Ok(()) => one(&self.stats.index_saves),
            Err(error) => self.count_failure(error),
        }
        stored
    }

    /// The stored record index of a shard. The bytes are as they came from the disk: their reader checks them; only that
    /// they belong to this shard is sure.
    pub fn load_index(&self, id: &ShardId) -> Option<Vec<u8>> {
        let found = self.indexes.touch(id).and_then(|touch| {
            let path = self.layout.file(id, Kind::Index);
            if touch {
                files::touch(&path);
            }
            let (bytes, _) = files::read_small(&path, index::MAX_BYTES).ok()?;
            bytes.strip_prefix(&id.0[..]).map(<[u8]>::to_vec)
        });
        one(if found.is_some() { &self.stats.index_hits } else { &self.stats.index_misses });
        found
    }

    /// How full the cache is.
    pub fn usage(&self) -> Usage {
        let shards = self.table().len();
        let counts = self.ledger.counts();
        Usage {
            limit: self.ledger.limit(),
            used: counts.shards.saturating_add(counts.index),
            index: counts.index,
            reserved: counts.reserved,
            shards,
        }
    }

    /// Live counters.
    pub fn stats(&self) -> &CacheStats {
        &self.stats
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.layout.dir
    }

    pub(super) fn count_failure(&self, error: &CacheError) {
        match error {
            CacheError::Full { .. } => one(&self.stats.disk_full),
            CacheError::Io { .. } => one(&self.stats.io_errors),
            _ => {}
        }
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn files(&self) -> MutexGuard<'_, ()> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("dir", &self.layout.dir)
            .field("usage", &self.usage())
            .finish_non_exhaustive()
    }
}
