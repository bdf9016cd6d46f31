//! The pass over a shard that is TFRecord as it stands: its ranges are its blocks.

use super::block::Loader;
use super::error::LoadError;
use super::landing::Landing;
use super::pass::Outcome;
use super::scan::Scan;
use super::shard::Shard;
use super::transfer::Transfer;
use crate::budget::{Lane, Permit};
use crate::cache::CachedShard;
use crate::fetch;
use crate::pool::{BlockKey, BlockRef, SlotMut};
use crate::telemetry::one_line;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Transfers of a suspect block before its fault counts as the source's own.
const SUSPECT_TRIES: usize = 2;

/// Where the blocks come from.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    /// The object store.
    Store,
    /// The cache, which has the shard but not its index.
    Disk(Arc<CachedShard>),
}

/// The first block, fetched to see the format.
#[derive(Debug)]
pub(super) struct First {
    pub(super) slot: SlotMut,
    pub(super) permit: Permit,
}

/// A block that has arrived, in order.
enum Part {
    /// Its bytes, not yet checked.
    Filled(SlotMut, Permit),
    /// It was in the pool already, so it has been checked.
    Pooled(BlockRef, Permit),
}

struct Plain<'a> {
    loader: &'a Loader,
    shard: &'a Arc<Shard>,
    origin: Origin,
    landing: Landing,
    /// `None` if the records are known, and only the bytes are wanted.
    scan: Option<Scan>,
    content: u64,
}

pub(super) async fn run(
    loader: &Loader,
    shard: &Arc<Shard>,
    origin: Origin,
    first: Option<First>,
) -> Result<Outcome, LoadError> {
    let known = shard.index().complete();
    let (content, landing) = match &origin {
        Origin::Store => (shard.object().size, Landing::open(loader, shard, shard.object().size)),
        Origin::Disk(cached) => (cached.meta().content_len, Landing::without_cache(loader, shard)),
    };
    shard.pass().plain = matches!(origin, Origin::Store);
    let scan = (!known).then(|| Scan::new(loader.parts().pool.block_bytes()));
    Plain { loader, shard, origin, landing, scan, content }.run(first).await
}

impl Plain<'_> {
    async fn run(mut self, first: Option<First>) -> Result<Outcome, LoadError> {
        let blocks = self.content.div_ceil(self.loader.block_bytes());
        let mut queue: FuturesOrdered<BoxFuture<'static, Result<Part, LoadError>>> = FuturesOrdered::new();
        let (mut next, mut done) = (0, 0);
        if let Some(First { slot, permit }) = first {
            queue.push_back(Box::pin(async move { Ok(Part::Filled(slot, permit)) }));
            next = 1;
        }
        loop {
            let mut changes = self.shard.changes();
            while next < blocks
                && next < self.shard.wanted()
                && queue.len() < self.loader.parts().ranges_per_shard
            {
                let Some(permit) = self.permit(queue.is_empty()).await? else { break };
                queue.push_back(self.part(next, permit));
                next += 1;
            }
            match queue.next().await {
                Some(part) => {
                    self.arrived(done, part?).await?;
                    done += 1;
                    self.shard.pass().done = done;
                    self.shard.touch();
                }
                None if next == blocks => break,
                None if !self.shard.has_readers() => return Ok(Outcome::Abandoned),
                None => {
                    let _ = changes.changed().await;
                }
            }
        }
        self.shard.pass().finishing = true;
        let index = match self.scan.take() {
            Some(scan) => scan.finish(self.shard),
            None => self.shard.index().clone(),
        };
        self.shard.touch();
        self.landing.commit(&index).await;
        Ok(Outcome::Done)
    }

    /// A block's share of the in-flight budget. Waits for it only while nothing else of this pass is under way, so that
    /// no pass holds some and waits for more.
    async fn permit(&self, idle: bool) -> Result<Option<Permit>, LoadError> {
        let (budget, bytes) = (&self.loader.parts().in_flight, self.loader.block_bytes());
        let permit = if idle {
            budget.reserve(bytes, Lane::Demand).await.map(Some)
        } else {
            budget.try_reserve(bytes, Lane::Ahead)
        };
        permit.map_err(|_| LoadError::Stopping)
    }

    fn part(&self, block: u64, permit: Permit) -> BoxFuture<'static, Result<Part, LoadError>> {
        let (loader, shard, origin) = (self.loader.clone(), Arc::clone(self.shard), self.origin.clone());
        let known = self.scan.is_none();
        Box::pin(async move {
            let pool = &loader.parts().pool;
            if known && let Some(block) = pool.get(BlockKey { shard: shard.id(), block }) {
                return Ok(Part::Pooled(block, permit));
            }
            let slot = pool.slot().await;
            let slot = match origin {
                Origin::Store => {
                    loader.transfer_block(&shard, block, fetch::Lane::Ahead, slot).finish().await?
                }
                Origin::Disk(cached) => {
                    let (result, slot) = cached.read_block(block, slot).await;
                    if let Err(error) = result {
                        tracing::warn!(
                            url = shard.object().url,
                            block,
                            error = one_line(&error),
                            "cached shard dropped"
                        );
                        loader.discard_cached(&shard);
                        // The next pass reads the store.
                        return Err(LoadError::Restart);
                    }
                    slot
                }
            };
            Ok(Part::Filled(slot, permit))
        })
    }

    async fn arrived(&mut self, block: u64, part: Part) -> Result<(), LoadError> {
        self.landing.poll_writes();
        let length = self.loader.block_length(self.content, block);
        match part {
            Part::Pooled(published, permit) => self.landing.write(block, &published, length, Some(permit)),
            Part::Filled(slot, permit) => {
                let slot = match &mut self.scan {
                    Some(_) => self.scanned(block, slot).await?,
                    None => self.loader.check_block(self.shard, block, slot).await?,
                };
                self.landing.publish(block, slot, length, Some(permit));
                if let Some(scan) = &mut self.scan {
                    let faults = scan.accept(self.shard);
                    self.loader.stats().corrupt_records.fetch_add(faults as u64, Relaxed);
                }
            }
        }
        Ok(())
    }

    /// Scans the block; a fault makes the transfer suspect, and the blocks that the record spans are fetched again.
    async fn scanned(&mut self, block: u64, mut slot: SlotMut) -> Result<SlotMut, LoadError> {
        let scan = self.scan.as_mut().expect("called while scanning");
        let length = self.loader.block_length(self.content, block) as usize;
        scan.feed(block, slot.bytes(length));
        self.loader.stats().scanned_bytes.fetch_add(length as u64, Relaxed);
        let mut tries = 0;
        while scan.is_suspect() && tries < SUSPECT_TRIES && matches!(self.origin, Origin::Store) {
            tries += 1;
            let mut corrected = false;
            let from = scan.suspect_from();
            let before: Vec<Option<u32>> = (from..=block).map(|number| scan.crc(number)).collect();
            scan.rewind(from);
            for (number, before) in (from..=block).zip(before) {
                // On the heap: a pass must not wait for pool room while it holds some, and this is rare.
                let bytes = self.loader.block_length(self.content, number) as usize;
                let start = number * self.loader.block_bytes();
                let range = start..start + bytes as u64;
                let (threads, object) = (&self.loader.parts().threads, self.shard.object());
                let fresh = vec![0; bytes];
                let fresh =
                    Transfer::start(threads, object, range, fetch::Lane::Demand, fresh).finish().await?;
                if Some(scan.feed(number, &fresh)) == before {
                    continue;
                }
                corrected = true;
                if number == block {
                    slot.bytes_mut()[..bytes].copy_from_slice(&fresh);
                } else {
                    self.landing.rewrite(number, &fresh).await;
                }
            }
            if !corrected {
                return Ok(slot);
            }
            self.loader.stats().corrupt_transfers.fetch_add(1, Relaxed);
            tracing::warn!(url = self.shard.object().url, block, "corrupt transfer fetched again");
            scan.replace(self.shard);
        }
        if tries > 0 && scan.is_suspect() {
            self.landing.distrust();
        }
        Ok(slot)
    }
}
