//! What is known of a shard while somebody reads it.

use super::error::LoadError;
use crate::cache::{CachedShard, ShardId};
use crate::record::ShardIndex;
use crate::source::Object;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::watch;

/// A shard in use: its object, its growing index, and the state of the pass that brings it in.
#[derive(Debug)]
pub struct Shard {
    object: Arc<Object>,
    id: ShardId,
    index: RwLock<ShardIndex>,
    pass: Mutex<PassState>,
    /// Blocks below this are wanted.
    want: AtomicU64,
    readers: AtomicU64,
    /// Keeps the shard in the cache while it is read.
    pin: Mutex<Option<Arc<CachedShard>>>,
    changed: watch::Sender<u64>,
}

/// The pass, as others see it.
#[derive(Debug, Default, Clone)]
pub(super) struct PassState {
    /// Whether one runs.
    pub(super) running: bool,
    /// Blocks that it has published; they may have been evicted since.
    pub(super) done: u64,
    /// The object is TFRecord as it stands: its ranges are its blocks.
    pub(super) plain: bool,
    /// All blocks are published, and the shard is being committed.
    pub(super) finishing: bool,
    /// Why the last one failed, until somebody new asks.
    pub(super) failure: Option<LoadError>,
}

impl Shard {
    pub(super) fn new(object: Arc<Object>, id: ShardId, index: ShardIndex) -> Self {
        Self {
            object,
            id,
            index: RwLock::new(index),
            pass: Mutex::default(),
            want: AtomicU64::new(0),
            readers: AtomicU64::new(0),
            pin: Mutex::default(),
            changed: watch::Sender::new(0),
        }
    }

    /// The object behind the shard.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// Identity of the content.
    pub fn id(&self) -> ShardId {
        self.id
    }

    /// What is known of the records. Held only for a moment: a pass that has scanned a block waits for it.
    pub fn index(&self) -> RwLockReadGuard<'_, ShardIndex> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn index_mut(&self) -> RwLockWriteGuard<'_, ShardIndex> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pass(&self) -> MutexGuard<'_, PassState> {
        self.pass.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wanted(&self) -> u64 {
        self.want.load(Acquire)
    }

    /// Forgets what was wanted. Those who wait for a block say it again.
    pub(super) fn want_afresh(&self, blocks: u64) {
        self.want.store(blocks, Release);
    }

    pub(super) fn has_readers(&self) -> bool {
        self.readers.load(Acquire) > 0
    }

    pub(super) fn pin(&self) -> MutexGuard<'_, Option<Arc<CachedShard>>> {
        self.pin.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells everyone who waits that something has changed.
    pub(super) fn touch(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// A receiver that sees every change from now on: take it before looking.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// The error of the last pass, if it failed.
    pub fn failure(&self) -> Option<LoadError> {
        self.pass().failure.clone()
    }
}

/// A reader's hold on a shard. While one lives, the shard's pass goes on.
#[derive(Debug)]
pub struct Handle {
    shard: Arc<Shard>,
}

impl Handle {
    pub(super) fn new(shard: Arc<Shard>) -> Self {
        if shard.readers.fetch_add(1, AcqRel) == 0 {
            // The first reader in a while: what was wanted and what failed before is no longer of interest.
            shard.pass().failure = None;
            if !shard.pass().running {
                shard.want.store(0, Release);
            }
        }
        Self { shard }
    }

    /// The shard.
    pub fn shard(&self) -> &Arc<Shard> {
        &self.shard
    }

    /// Says that blocks below `blocks` will be needed soon.
    pub fn want(&self, blocks: u64) {
        if self.shard.want.fetch_max(blocks, AcqRel) < blocks {
            self.shard.touch();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.shard.readers.fetch_sub(1, AcqRel) == 1 {
            *self.shard.pin() = None;
            self.shard.touch();
        }
    }
}

impl std::ops::Deref for Handle {
    type Target = Shard;

    fn deref(&self) -> &Shard {
        &self.shard
    }
}
