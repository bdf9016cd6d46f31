//! The loader: shards in use, joined loads, and the way from a block's name to its bytes.

use super::error::LoadError;
use super::pass;
use super::shard::{Handle, Shard};
use super::transfer::Transfer;
use crate::budget::{ByteBudget, Lane};
use crate::cache::{Cache, CachedShard, ShardId};
use crate::fetch::{self, FetchThreads};
use crate::pool::{BlockKey, BlockRef, Pool, SlotMut};
use crate::record::{ShardIndex, crc32c};
use crate::source::Object;
use crate::telemetry::one_line;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::runtime::Handle as Runtime;
use tokio::sync::oneshot;

/// What the loader works with.
#[derive(Debug)]
pub struct LoaderParts {
    /// Shared memory.
    pub pool: Pool,
    /// Local disk.
    pub cache: Arc<Cache>,
    /// Prefetch threads.
    pub threads: Arc<FetchThreads>,
    /// Bytes on their way in, or from the pool to disk.
    pub in_flight: ByteBudget,
    /// Where passes run.
    pub runtime: Runtime,
    /// Ranges of one shard that are fetched at the same time.
    pub ranges_per_shard: usize,
}

/// Counters of the loader.
#[derive(Debug, Default)]
pub struct LoaderStats {
    /// Passes that read the store.
    pub passes: AtomicU64,
    /// Shards that were streamed through because the cache had no room for them.
    pub bypassed: AtomicU64,
    /// Transfers whose bytes were wrong and right when fetched again.
    pub corrupt_transfers: AtomicU64,
    /// Corrupt records found at the source while scanning.
    pub corrupt_records: AtomicU64,
    /// Bytes scanned.
    pub scanned_bytes: AtomicU64,
}

/// Gives blocks. Clones are handles to the same loader.
#[derive(Debug, Clone)]
pub struct Loader {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) parts: LoaderParts,
    pub(super) stats: LoaderStats,
    shards: Mutex<HashMap<ShardId, Weak<Shard>>>,
    loads: Mutex<HashMap<BlockKey, Vec<oneshot::Sender<()>>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Loader {
    /// A loader over its parts.
    pub fn new(parts: LoaderParts) -> Self {
        let inner =
            Inner { parts, stats: LoaderStats::default(), shards: Mutex::default(), loads: Mutex::default() };
        Self { inner: Arc::new(inner) }
    }

    /// The parts.
    pub fn parts(&self) -> &LoaderParts {
        &self.inner.parts
    }

    /// Counters.
    pub fn stats(&self) -> &LoaderStats {
        &self.inner.stats
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> u64 {
        u64::from(self.inner.parts.pool.block_bytes())
    }

    /// Binary logarithm of [`Self::block_bytes`], which is a power of two.
    pub fn block_shift(&self) -> u32 {
        self.inner.parts.pool.block_bytes().trailing_zeros()
    }

    /// A hold on the shard of this object. Its index is read from disk if it is there.
    pub fn open(&self, object: &Arc<Object>) -> Handle {
        let tag = object.etag.as_deref().or(object.version.as_deref());
        let id = ShardId::of(&object.url, tag, object.size);
        let mut shards = lock(&self.inner.shards);
        if let Some(shard) = shards.get(&id).and_then(Weak::upgrade) {
            return Handle::new(shard);
        }
        if shards.len() > 1024 && shards.len().is_power_of_two() {
            shards.retain(|_, shard| shard.strong_count() > 0);
        }
        let shard = Arc::new(Shard::new(Arc::clone(object), id, self.known_index(&id, object.size)));
        shards.insert(id, Arc::downgrade(&shard));
        Handle::new(shard)
    }

    /// The stored index if it fits the block size in force; a new one otherwise.
    fn known_index(&self, id: &ShardId, size: u64) -> ShardIndex {
        let block_bytes = self.inner.parts.pool.block_bytes();
        if size == 0 {
            let mut index = self.empty_index();
            crate::record::Scanner::new().finish(&mut index);
            return index;
        }
        let stored =
            self.inner.parts.cache.load_index(id).and_then(|bytes| ShardIndex::from_bytes(&bytes).ok());
        stored
            .filter(|index| index.complete() && index.block_bytes() == block_bytes)
            .unwrap_or_else(|| self.empty_index())
    }

    pub(super) fn empty_index(&self) -> ShardIndex {
        let mut index = ShardIndex::new();
        index.set_block_bytes(self.inner.parts.pool.block_bytes());
        index
    }

    /// Sees to it that the shard's records become known and the shard gets into the cache: starts a pass if one is
    /// needed and none runs.
    pub fn ensure(&self, handle: &Handle) {
        let shard = handle.shard();
        if shard.object().size == 0 || shard.failure().is_some() {
            return;
        }
        let complete = shard.index().complete();
        if complete && self.inner.parts.cache.contains(&shard.id()) {
            return;
        }
        pass::start(self, shard);
    }

    /// Block `block` of the shard's content, which the index covers already.
    ///
    /// The caller has reserved a slot of the pool (a lease or a permit of the in-flight budget).
    ///
    /// # Errors
    /// [`LoadError`] if no place has it and the store cannot give it.
    pub async fn block(&self, handle: &Handle, block: u64) -> Result<BlockRef, LoadError> {
        let shard = handle.shard();
        let key = BlockKey { shard: shard.id(), block };
        loop {
            let mut changes = shard.changes();
            if let Some(found) = self.inner.parts.pool.get(key) {
                return Ok(found);
            }
            let state = shard.pass().clone();
            if state.running && (state.done <= block || state.finishing) {
                // The pass will publish it, or is about to have it in the cache.
                handle.want(block + 1);
                let _ = changes.changed().await;
                continue;
            }
            if let Some(failure) = state.failure {
                return Err(failure);
            }
            let Some(lead) = self.join(key).await else { continue };
            if let Some(found) = self.inner.parts.pool.get(key) {
                return Ok(found);
            }
            if let Some(cached) = self.cached(shard) {
                match self.read_cached(shard, &cached, key).await {
                    Some(found) => return Ok(found),
                    None => {
                        // The whole shard goes back into the cache, not only what this reader needs.
                        handle.want(u64::MAX);
                        pass::start(self, shard);
                        continue;
                    }
                }
            }
            let state = shard.pass().clone();
            if state.plain || shard.index().content_len() == shard.object().size {
                return self.fetch_block(shard, key).await;
            }
            // A compressed shard outside the cache: only a pass from its start leads to the block. One that has come by it
            // already goes to its end first, and may put the shard into the cache.
            drop(lead);
            if state.running {
                handle.want(u64::MAX);
                let _ = changes.changed().await;
            } else {
                shard.want_afresh(block + 1);
                pass::start(self, shard);
            }
        }
    }

    /// The shard in the cache, if it is cut into blocks of the size in force.
    pub(super) fn cached(&self, shard: &Shard) -> Option<Arc<CachedShard>> {
        let mut pin = shard.pin();
        if let Some(pinned) = &*pin {
            return Some(Arc::clone(pinned));
        }
        let cached = self.inner.parts.cache.lookup(&shard.id())?;
        if cached.meta().block_bytes != self.inner.parts.pool.block_bytes() {
            drop(cached);
            self.inner.parts.cache.discard(&shard.id());
            return None;
        }
        if shard.has_readers() {
            *pin = Some(Arc::clone(&cached));
        }
        Some(cached)
    }

    /// Takes the shard out of the cache: its copy there is no good.
    pub(super) fn discard_cached(&self, shard: &Shard) {
        *shard.pin() = None;
        self.inner.parts.cache.discard(&shard.id());
    }

    /// Loads the block ahead of need, if that is possible without waiting for room.
    pub fn prefetch(&self, handle: &Handle, block: u64) -> bool {
        let parts = &self.inner.parts;
        let key = BlockKey { shard: handle.id(), block };
        if parts.pool.contains(&key) {
            return true;
        }
        let Ok(Some(permit)) = parts.in_flight.try_reserve(self.block_bytes(), Lane::Ahead) else {
            return false;
        };
        let (loader, handle) = (self.clone(), Handle::new(Arc::clone(handle.shard())));
        parts.runtime.spawn(async move {
            // Whoever needs the block meets the same error and reports it.
            let _ = loader.block(&handle, block).await;
            drop(permit);
        });
        true
    }

    /// Becomes the one who loads the block, or waits for the one who does and gives `None`.
    async fn join(&self, key: BlockKey) -> Option<Lead> {
        let waiting = {
            let mut loads = lock(&self.inner.loads);
            match loads.get_mut(&key) {
                Some(others) => {
                    let (sender, receiver) = oneshot::channel();
                    others.push(sender);
                    Some(receiver)
                }
                None => {
                    loads.insert(key, Vec::new());
                    None
                }
            }
        };
        match waiting {
            Some(receiver) => {
                let _ = receiver.await;
                None
            }
            None => Some(Lead { inner: Arc::clone(&self.inner), key }),
        }
    }

    /// The block from disk; `None` if the disk does not have it after all, and then the shard is out of the cache.
    async fn read_cached(&self, shard: &Shard, cached: &Arc<CachedShard>, key: BlockKey) -> Option<BlockRef> {
        let slot = self.inner.parts.pool.slot().await;
        let (result, slot) = cached.read_block(key.block, slot).await;
        match result.map(u32::try_from) {
            Ok(Ok(length)) => Some(slot.publish(key, length)),
            Ok(Err(_)) => None,
            Err(error) => {
                let url = &cached.meta().identity.url;
                tracing::warn!(
                    url,
                    block = key.block,
                    error = one_line(&error),
                    "cached shard dropped, reading from the store"
                );
                self.discard_cached(shard);
                None
            }
        }
    }

    /// One block straight from the store, checked against the index.
    async fn fetch_block(&self, shard: &Arc<Shard>, key: BlockKey) -> Result<BlockRef, LoadError> {
        let parts = &self.inner.parts;
        let permit = parts.in_flight.reserve(self.block_bytes(), Lane::Demand).await;
        let _permit = permit.map_err(|_| LoadError::Stopping)?;
        let slot = self.fetch_checked(shard, key.block, fetch::Lane::Demand).await?;
        let length = self.block_length(shard.object().size, key.block);
        Ok(slot.publish(key, length))
    }

    /// Content bytes of block `block` in a shard of `content` bytes.
    pub(super) fn block_length(&self, content: u64, block: u64) -> u32 {
        let start = block * self.block_bytes();
        let length = content.saturating_sub(start).min(self.block_bytes());
        u32::try_from(length).expect("a block fits 32 bits")
    }

    pub(super) fn transfer_block(
        &self,
        shard: &Shard,
        block: u64,
        lane: fetch::Lane,
        slot: SlotMut,
    ) -> Transfer<SlotMut> {
        let start = block * self.block_bytes();
        let end = start + u64::from(self.block_length(shard.object().size, block));
        Transfer::start(&self.inner.parts.threads, shard.object(), start..end, lane, slot)
    }

    /// A block of a shard whose index knows its checksum; a wrong transfer is repeated.
    pub(super) async fn fetch_checked(
        &self,
        shard: &Arc<Shard>,
        block: u64,
        lane: fetch::Lane,
    ) -> Result<SlotMut, LoadError> {
        let slot = self.inner.parts.pool.slot().await;
        let slot = self.transfer_block(shard, block, lane, slot).finish().await?;
        self.check_block(shard, block, slot).await
    }

    /// Checks a fetched block against the index, and fetches it again if it differs.
    pub(super) async fn check_block(
        &self,
        shard: &Arc<Shard>,
        block: u64,
        mut slot: SlotMut,
    ) -> Result<SlotMut, LoadError> {
        let length = self.block_length(shard.object().size, block) as usize;
        let number = usize::try_from(block).expect("blocks of a shard fit memory");
        let expected = shard.index().block_crcs().get(number).copied();
        let mut previous = None;
        for _ in 0..3 {
            let found = crc32c(slot.bytes(length));
            if expected.is_none_or(|expected| expected == found) {
                return Ok(slot);
            }
            if previous == Some(found) {
                break;
            }
            previous = Some(found);
            self.inner.stats.corrupt_transfers.fetch_add(1, Relaxed);
            slot = self.transfer_block(shard, block, fetch::Lane::Demand, slot).finish().await?;
        }
        Err(LoadError::Inconsistent { url: shard.object().url.clone(), block })
    }
}

/// The right to load a block; dropping it wakes those who joined.
struct Lead {
    inner: Arc<Inner>,
    key: BlockKey,
}

impl Drop for Lead {
    fn drop(&mut self) {
        lock(&self.inner.loads).remove(&self.key);
    }
}
