//! One rank's way through its job: from global batches to the records in shards.
//!
//! Counts are learned as the walk goes on. A corrupt record that may not be passed over ends the sequence at its position:
//! what lies before is delivered, then the error.

use super::datasets::Dataset;
use super::failure::StreamFailure;
use crate::loader::{Handle, Loader};
use crate::order::{Counts, Deal, EpochOrder, Located, Share, Shuffle};
use crate::record::{CorruptPolicy, Frame, RecordError, ShardIndex};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// What a walk needs to know of its job.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) dataset: Arc<Dataset>,
    pub(super) deal: Deal,
    pub(super) shuffle: Shuffle,
    pub(super) seed: u64,
    /// 0 for ever.
    pub(super) epochs: u64,
    pub(super) corrupt: CorruptPolicy,
    /// Blocks to look ahead.
    pub(super) window: u64,
}

/// Records of one shard that follow each other in a batch.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) handle: Arc<Handle>,
    pub(super) frames: Vec<Frame>,
}

/// The records of one batch of this rank.
#[derive(Debug)]
pub(super) struct Picked {
    pub(super) epoch: u64,
    pub(super) global_batch: u64,
    pub(super) position: u64,
    pub(super) records: u64,
    pub(super) pads: u64,
    pub(super) pieces: Vec<Piece>,
}

/// The next thing on the way.
#[derive(Debug)]
pub(super) enum Next {
    Batch(Picked),
    /// The last epoch is over.
    End,
}

/// The walk. Asks the loader for what it needs to know, and tells it what comes next.
#[derive(Debug)]
pub(super) struct Walk {
    loader: Loader,
    pub(super) plan: Plan,
    epoch: u64,
    batch: u64,
    order: EpochOrder,
    counts: Counts,
    /// Shards in use, by epoch and slot.
    handles: BTreeMap<(u64, u64), Arc<Handle>>,
    /// The sequence ends here with an error.
    poison: Option<(u64, RecordError)>,
    skipped_in_epoch: u64,
    pub(super) skipped: u64,
}

impl Walk {
    pub(super) fn new(loader: Loader, plan: Plan) -> Self {
        let shards = plan.dataset.shards.len() as u64;
        let order = EpochOrder::new(shards, plan.shuffle, plan.seed, 0);
        Self {
            loader,
            plan,
            epoch: 0,
            batch: 0,
            order,
            counts: Counts::new(shards),
            handles: BTreeMap::new(),
            poison: None,
            skipped_in_epoch: 0,
            skipped: 0,
        }
    }

    /// Epoch that the walk is in.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Number of shards in the dataset.
    pub(super) fn shards(&self) -> u64 {
        self.order.shards()
    }

    /// The shard at a slot of an epoch, this one or the next.
    pub(super) fn handle(&mut self, epoch: u64, slot: u64) -> Arc<Handle> {
        let (order, plan) = (self.order, &self.plan);
        let shard = if epoch == self.epoch {
            order.shard_at(slot)
        } else {
            EpochOrder::new(order.shards(), plan.shuffle, plan.seed, epoch).shard_at(slot)
        };
        let object = &plan.dataset.shards[usize::try_from(shard).expect("shards fit memory")];
        Arc::clone(self.handles.entry((epoch, slot)).or_insert_with(|| Arc::new(self.loader.open(object))))
    }

    /// Slot and block where the batch after the last one starts, as far as that is known.
    pub(super) fn place(&mut self) -> (u64, u64, u64) {
        let epoch = self.epoch;
        let position = self.plan.deal.full(self.batch).start;
        match self.counts.locate(position) {
            Located::At { slot, record } => {
                let handle = self.handle(epoch, slot);
                let frame = nth_frame(&handle.index(), record);
                (epoch, slot, frame.map_or(0, |frame| frame.payload_offset / self.loader.block_bytes()))
            }
            Located::Unknown { slot } => {
                let scanned = self.handle(epoch, slot).index().block_crcs().len() as u64;
                (epoch, slot, scanned)
            }
            Located::PastEnd { .. } => (epoch + 1, 0, 0),
        }
    }

    /// Lets go of shards before a place.
    pub(super) fn forget_before(&mut self, epoch: u64, slot: u64) {
        self.handles = self.handles.split_off(&(epoch, slot));
    }

    /// Lets go of all shards.
    pub(super) fn forget_all(&mut self) {
        self.handles.clear();
    }

    /// Whether there is an epoch of this number.
    pub(super) fn has_epoch(&self, epoch: u64) -> bool {
        self.plan.epochs == 0 || epoch < self.plan.epochs
    }

    /// The next batch. Waits for shards to be scanned; can be dropped and called again.
    pub(super) async fn next(&mut self) -> Result<Next, StreamFailure> {
        loop {
            if !self.has_epoch(self.epoch) {
                return Ok(Next::End);
            }
            let end = (self.batch + 1) * self.plan.deal.global_batch();
            if let Some((position, error)) = self.poison.clone()
                && end > position
            {
                let own = self.plan.deal.full(self.batch);
                let own = own.start.min(position)..own.end.min(position);
                if own.is_empty() || own.end <= own.start {
                    return Err(error.into());
                }
                // What lies before the bad record is delivered; the next call comes here again and finds nothing.
                let picked = self.pick(&Share { own, pads: Vec::new() });
                self.batch += 1;
                return Ok(Next::Batch(picked));
            }
            let share = match self.counts.total() {
                _ if self.counts.certain() >= end => {
                    Share { own: self.plan.deal.full(self.batch), pads: Vec::new() }
                }
                Some(total) => match self.plan.deal.share(self.batch, total) {
                    Some(share) => share,
                    None => {
                        self.end_epoch(total)?;
                        continue;
                    }
                },
                None => {
                    self.learn().await?;
                    continue;
                }
            };
            let picked = self.pick(&share);
            self.batch += 1;
            return Ok(Next::Batch(picked));
        }
    }

    fn end_epoch(&mut self, total: u64) -> Result<(), StreamFailure> {
        if self.batch == 0 {
            let deal = self.plan.deal;
            let (message, hint) = if total == 0 {
                let shards = self.plan.dataset.shards.len();
                (
                    format!("no records in {shards} shards of {}", self.plan.dataset.title),
                    "check the job that wrote them",
                )
            } else {
                (
                    format!(
                        "an epoch of {total} records does not fill one global batch of {} ({} ranks of {})",
                        deal.global_batch(),
                        deal.world_size,
                        deal.batch_size
                    ),
                    "set the remainder to pad or partial, or lower the batch size",
                )
            };
            return Err(StreamFailure::Empty { message, hint: hint.to_owned() });
        }
        self.epoch += 1;
        self.batch = 0;
        self.skipped_in_epoch = 0;
        let shards = self.order.shards();
        self.order = EpochOrder::new(shards, self.plan.shuffle, self.plan.seed, self.epoch);
        self.counts = Counts::new(shards);
        Ok(())
    }

    /// Learns more of the first shard that is not known whole: at once if possible, else by waiting for the scan.
    async fn learn(&mut self) -> Result<(), StreamFailure> {
        let slot = self.counts.first_unknown().expect("called while counts are missing");
        let handle = self.handle(self.epoch, slot);
        let mut changes = handle.changes();
        let before = self.counts.certain();
        let (known, scanned) = {
            let index = handle.index();
            self.take_counts(slot, &index, &handle.object().url);
            (index.complete(), index.block_crcs().len() as u64)
        };
        if known || self.poison.is_some() || self.counts.certain() > before {
            return Ok(());
        }
        if let Some(failure) = handle.failure() {
            return Err(failure.into());
        }
        handle.want(scanned + self.plan.window);
        self.loader.ensure(&handle);
        // The sender lives in the handle.
        let _ = changes.changed().await;
        Ok(())
    }

    /// Reads from an index how many records count, and whether the sequence ends in it.
    fn take_counts(&mut self, slot: u64, index: &ShardIndex, url: &str) {
        let start = self.counts.start_of(slot).expect("all slots before are known");
        let (max, limit) = match self.plan.corrupt {
            CorruptPolicy::Fail => (0, None),
            CorruptPolicy::Skip { max } => (max, Some(max)),
        };
        let allowed = max - self.skipped_in_epoch;
        let bad = index.bad();
        let over = usize::try_from(allowed).ok().and_then(|allowed| bad.get(allowed));
        let tail = index.tail().filter(|_| index.complete() && bad.len() as u64 == allowed);
        let error = match (over, tail) {
            (Some(over), _) => Some((over.record - allowed, index.bad_error(over, url))),
            (None, Some(tail)) => Some((index.good(), ShardIndex::tail_error(tail, url))),
            (None, None) => None,
        };
        if let Some((record, mut error)) = error {
            error.skip_limit = limit;
            self.poison = Some((start + record, error));
            self.counts.learn_at_least(record);
            return;
        }
        if index.complete() {
            let skipped = bad.len() as u64 + u64::from(index.tail().is_some());
            if skipped > 0 {
                tracing::warn!(url, skipped, broken_end = index.tail().is_some(), "corrupt records skipped");
            }
            self.skipped_in_epoch += skipped;
            self.skipped += skipped;
            self.counts.learn(index.good());
        } else {
            self.counts.learn_at_least(index.good());
        }
    }

    fn pick(&mut self, share: &Share) -> Picked {
        let mut pieces = Vec::new();
        self.pick_range(share.own.clone(), &mut pieces);
        for &pad in &share.pads {
            self.pick_range(pad..pad + 1, &mut pieces);
        }
        let pads = share.pads.len() as u64;
        Picked {
            epoch: self.epoch,
            global_batch: self.batch,
            position: share.own.start,
            records: share.own.end - share.own.start + pads,
            pads,
            pieces,
        }
    }

    fn pick_range(&mut self, mut range: Range<u64>, pieces: &mut Vec<Piece>) {
        while range.start < range.end {
            let Located::At { slot, record } = self.counts.locate(range.start) else {
                unreachable!("only certain positions are picked")
            };
            let in_slot = self.counts.start_of(slot + 1).unwrap_or(u64::MAX) - range.start;
            let count = in_slot.min(range.end - range.start);
            let handle = self.handle(self.epoch, slot);
            let frames = {
                let index = handle.index();
                if index.bad().is_empty() {
                    index.frame_slice(record, count).collect()
                } else {
                    (record..record + count).filter_map(|record| nth_frame(&index, record)).collect()
                }
            };
            pieces.push(Piece { handle, frames });
            range.start += count;
        }
    }
}

fn nth_frame(index: &ShardIndex, record: u64) -> Option<Frame> {
    index.frame(index.nth_good(record)?)
}
