//! Where scanned blocks land: in the pool at once, on disk soon after.

use super::block::Loader;
use super::shard::Shard;
use crate::budget::Permit;
use crate::cache::{CacheError, ObjectIdentity, ShardWriter};
use crate::pool::{BlockKey, BlockRef, SlotMut};
use crate::record::ShardIndex;
use crate::ring::{AlignedBuf, IoBuf};
use crate::telemetry::one_line;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::task::JoinSet;

/// Lengths of writes are multiples of this; the gap behind the last block is zeros.
const WRITE_ALIGN: usize = 4096;

/// Publishes blocks and writes them to the cache, as long as the cache takes them.
#[derive(Debug)]
pub(super) struct Landing {
    loader: Loader,
    shard: Arc<Shard>,
    writer: Option<Arc<ShardWriter>>,
    reserved: u64,
    writes: JoinSet<Result<(), CacheError>>,
    trusted: bool,
}

impl Landing {
    /// For blocks that need not be written: they come from the cache.
    pub(super) fn without_cache(loader: &Loader, shard: &Arc<Shard>) -> Self {
        let (loader, shard) = (loader.clone(), Arc::clone(shard));
        Self { loader, shard, writer: None, reserved: 0, writes: JoinSet::new(), trusted: true }
    }

    /// Reserves room for `bytes` of content; without room the shard is streamed through.
    pub(super) fn open(loader: &Loader, shard: &Arc<Shard>, bytes: u64) -> Self {
        let object = shard.object();
        let identity = ObjectIdentity {
            url: object.url.clone(),
            etag: object.etag.clone(),
            version: object.version.clone(),
            size: object.size,
        };
        let cache = &loader.parts().cache;
        let writer = match cache.reserve(bytes) {
            Ok(reservation) => cache.create(identity, reservation).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let mut landing = Self { reserved: bytes, ..Self::without_cache(loader, shard) };
        match writer {
            Ok(writer) => landing.writer = Some(Arc::new(writer)),
            Err(error) => landing.bypass(&error),
        }
        landing
    }

    /// Gives up caching this shard.
    fn bypass(&mut self, reason: &str) {
        self.writer = None;
        self.loader.stats().bypassed.fetch_add(1, Relaxed);
        tracing::info!(url = self.shard.object().url, reason, "shard is streamed without being cached");
    }

    /// The store sent other bytes each time: what came is good for those who wait for it now, and for nobody later.
    pub(super) fn distrust(&mut self) {
        self.writer = None;
        self.trusted = false;
        let url = &self.shard.object().url;
        tracing::warn!(url, "the store sends other bytes each time; the shard is not kept");
    }

    /// Makes block `block` visible to trainers and queues its write. The permit is held until both are done.
    pub(super) fn publish(&mut self, block: u64, mut slot: SlotMut, length: u32, permit: Option<Permit>) {
        let padded = (length as usize).next_multiple_of(WRITE_ALIGN).min(slot.bytes_mut().len());
        slot.bytes_mut()[length as usize..padded].fill(0);
        let published = slot.publish(BlockKey { shard: self.shard.id(), block }, length);
        self.write(block, &published, length, permit);
    }

    /// Queues the write of a block that is in the pool already.
    pub(super) fn write(&mut self, block: u64, published: &BlockRef, length: u32, permit: Option<Permit>) {
        self.write_from(block, published.to_disk_source(), length, permit);
    }

    /// Writes a corrected block again. The copy in the pool is found no more; nobody has seen the wrong bytes, since the
    /// record that they belong to is only complete now.
    pub(super) async fn rewrite(&mut self, block: u64, bytes: &[u8]) {
        self.loader.parts().pool.forget(&BlockKey { shard: self.shard.id(), block });
        self.flush(0).await;
        let mut buffer = AlignedBuf::new(bytes.len().next_multiple_of(WRITE_ALIGN));
        buffer.as_mut_slice()[..bytes.len()].copy_from_slice(bytes);
        self.write_from(block, buffer, u32::try_from(bytes.len()).expect("a block fits 32 bits"), None);
    }

    fn write_from(&mut self, block: u64, source: impl IoBuf, length: u32, permit: Option<Permit>) {
        let Some(writer) = self.writer.clone() else { return };
        let offset = block * self.loader.block_bytes();
        let end = offset + u64::from(length);
        if end > self.reserved {
            // A shard that grows as it is inflated takes room block by block.
            let more = end - self.reserved;
            if let Err(error) = writer.reserve_more(more) {
                drop(writer);
                return self.bypass(&error.to_string());
            }
            self.reserved += more;
        }
        let padded = (length as usize).next_multiple_of(WRITE_ALIGN);
        self.writes.spawn_on(
            async move {
                let (result, _) = writer.write_block(offset, source, 0, padded).await;
                drop(permit);
                result
            },
            &self.loader.parts().runtime,
        );
    }

    /// Waits until at most `pending` writes are under way.
    pub(super) async fn flush(&mut self, pending: usize) {
        while self.writes.len() > pending {
            let outcome = self.writes.join_next().await;
            if let Some(Ok(Err(error))) = outcome
                && self.writer.is_some()
            {
                tracing::warn!(url = self.shard.object().url, error = one_line(&error), "cache write failed");
                self.bypass(&error.to_string());
            }
        }
    }

    /// Looks at writes that have ended, without waiting.
    pub(super) fn poll_writes(&mut self) {
        while let Some(outcome) = self.writes.try_join_next() {
            if let Ok(Err(error)) = outcome
                && self.writer.is_some()
            {
                self.bypass(&error.to_string());
            }
        }
    }

    /// All blocks are out: stores the index, and the shard if it was written whole.
    pub(super) async fn commit(mut self, index: &ShardIndex) {
        if !self.trusted {
            return self.flush(0).await;
        }
        let (cache, id) = (&self.loader.parts().cache, self.shard.id());
        if let Err(error) = cache.save_index(&id, &index.to_bytes()) {
            tracing::warn!(
                url = self.shard.object().url,
                error = one_line(&error),
                "record index not stored"
            );
        }
        self.flush(0).await;
        let Some(writer) = self.writer.take().and_then(Arc::into_inner) else { return };
        let block_bytes = self.loader.parts().pool.block_bytes();
        if let Err(error) = writer.commit(index.content_len(), block_bytes, index.block_crcs().to_vec()).await
        {
            tracing::warn!(url = self.shard.object().url, error = one_line(&error), "shard not cached");
        }
    }
}
