//! Stored record indexes: small files beside the shards that outlive them, so that a shard fetched again need not be
//! scanned again. Their bytes count toward the limit and have an allowance of their own; the least recently used go
//! first. The cache does not look inside: the format has its own magic, version and checksum (`src/record`).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use lru::LruCache;

use super::error::CacheError;
use super::files::{self, Kind, Layout};
use super::id::ShardId;
use super::ledger::Ledger;
use super::recover::Found;

/// Largest index file that is read: 2^27 records. Bytes.
pub(super) const MAX_BYTES: u64 = 1 << 30;

/// How stale the noted time of last use on disk may be.
pub(super) const TOUCH_EVERY: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Entry {
    bytes: u64,
    used: SystemTime,
}

/// The stored indexes of one directory, least recently used last in `order`.
#[derive(Debug)]
pub(super) struct Indexes {
    allowance: u64,
    order: Mutex<LruCache<ShardId, Entry>>,
}

impl Indexes {
    pub(super) fn new(allowance: u64) -> Self {
        Self { allowance, order: Mutex::new(LruCache::unbounded()) }
    }

    pub(super) fn allowance(&self) -> u64 {
        self.allowance
    }

    pub(super) fn found(&self, found: &Found, ledger: &Ledger) {
        ledger.found_index(found.bytes);
        self.lock().put(found.id, Entry { bytes: found.bytes, used: found.used });
    }

    /// Removes the least recently used index; `false` if there is none.
    pub(super) fn evict_one(&self, layout: &Layout, ledger: &Ledger) -> bool {
        let Some((id, entry)) = self.lock().pop_lru() else { return false };
        if files::remove(&layout.file(&id, Kind::Index)) {
            ledger.release_index(entry.bytes);
        }
        true
    }

    /// Removes one index, if it is there.
    pub(super) fn remove(&self, id: &ShardId, layout: &Layout, ledger: &Ledger) {
        let entry = self.lock().pop(id);
        if let Some(entry) = entry
            && files::remove(&layout.file(id, Kind::Index))
        {
            ledger.release_index(entry.bytes);
        }
    }

    /// Writes the file under its final name; the `bytes` it takes are reserved already and are settled here.
    pub(super) fn store(
        &self,
        id: &ShardId,
        content: &[u8],
        bytes: u64,
        layout: &Layout,
        ledger: &Ledger,
    ) -> Result<(), CacheError> {
        let write = || {
            let temp = layout.temp(id, Kind::Index);
            temp.fill(content)?;
            temp.rename(&layout.file(id, Kind::Index))
        };
        match write() {
            Ok(()) => {
                ledger.settle_index(bytes);
                self.lock().put(*id, Entry { bytes, used: SystemTime::now() });
                Ok(())
            }
            Err(error) => {
                ledger.release(bytes);
                Err(error)
            }
        }
    }

    /// Notes a use. `None`: no such index; otherwise whether the time on disk is due.
    pub(super) fn touch(&self, id: &ShardId) -> Option<bool> {
        let mut order = self.lock();
        let entry = order.get_mut(id)?;
        Some(due(&mut entry.used))
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<ShardId, Entry>> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the time of last use on disk, last written at `used`, is to be written again; then `used` is now.
pub(super) fn due(used: &mut SystemTime) -> bool {
    let now = SystemTime::now();
    // A clock set back gives an error: write then, too.
    let due = now.duration_since(*used).map_or(true, |age| age >= TOUCH_EVERY);
    if due {
        *used = now;
    }
    due
}
