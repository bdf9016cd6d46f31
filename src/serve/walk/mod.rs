//! One rank's way through its job: from global batches to the records in shards.
//!
//! Counts are learned as the walk goes on, or known beforehand if every shard has been read once. A corrupt record that may
//! not be passed over ends the sequence at its position, or where records are mixed at the start of its group: what lies
//! before is delivered, then the error.
//!
//! A walk may start anywhere ([`Mark`]): the mark names a slot and the position of its first record, so nothing before has
//! to be counted again.

mod learn;
mod pick;

pub(super) use pick::{Picked, Piece};

use super::datasets::Dataset;
use super::failure::StreamFailure;
use crate::loader::{Handle, Loader};
use crate::order::{Counts, Deal, EpochOrder, Located, Parts, Share, Shuffle};
use crate::record::{CorruptPolicy, RecordError};
use feedline_proto::shm::Mark;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a walk needs to know of its job.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) dataset: Arc<Dataset>,
    pub(super) deal: Deal,
    pub(super) shuffle: Shuffle,
    pub(super) parts: Option<Parts>,
    pub(super) seed: u64,
    /// 0 for ever.
    pub(super) epochs: u64,
    pub(super) corrupt: CorruptPolicy,
    /// Blocks to look ahead.
    pub(super) window: u64,
}

impl Plan {
    /// The order of an epoch.
    pub(super) fn order(&self, epoch: u64) -> EpochOrder {
        EpochOrder::new(self.dataset.shards.len() as u64, self.shuffle, self.parts, self.seed, epoch)
    }
}

/// The next thing on the way.
#[derive(Debug)]
pub(super) enum Next {
    Batch(Picked),
    /// The last epoch is over.
    End,
}

/// Shards whose records are mixed with each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Group {
    /// First slot, and one behind the last.
    pub(super) slots: (u64, u64),
    /// How much of it is used up, from 0 to 1.
    pub(super) used: f64,
}

/// A rank that reads from more parts than this gets the shards of the others as it comes to them.
const MOST_GROUPS: usize = 64;

/// The walk. Asks the loader for what it needs to know, and tells it what comes next.
#[derive(Debug)]
pub(super) struct Walk {
    loader: Loader,
    pub(super) plan: Plan,
    epoch: u64,
    /// Where this epoch was entered: its start, or where an earlier job left it.
    from: u64,
    /// Global batches of the epoch before that.
    batches_before: u64,
    /// Batches of this walk in this epoch.
    batch: u64,
    order: EpochOrder,
    counts: Counts,
    /// Counts from the epoch's start, for pads, if the epoch was entered in the middle.
    head: Option<Counts>,
    /// Shards in use, by epoch and slot.
    handles: BTreeMap<(u64, u64), Arc<Handle>>,
    /// The sequence ends here with an error.
    poison: Option<(u64, RecordError)>,
    skipped_in_epoch: u64,
    pub(super) skipped: u64,
}

impl Walk {
    /// A walk from `start` on.
    pub(super) fn new(loader: Loader, plan: Plan, start: Mark) -> Self {
        let order = plan.order(start.epoch);
        let shards = order.shards();
        let mut walk = Self {
            loader,
            plan,
            epoch: start.epoch,
            from: start.position,
            batches_before: start.batch,
            batch: 0,
            order,
            counts: Counts::from_slot(shards, start.slot, start.slot_position),
            head: (start.slot > 0).then(|| Counts::new(shards)),
            handles: BTreeMap::new(),
            poison: None,
            skipped_in_epoch: 0,
            skipped: 0,
        };
        walk.take_known_counts();
        walk
    }

    /// Epoch that the walk is in.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether records that follow each other follow each other in a shard.
    pub(super) fn keeps_records_together(&self) -> bool {
        self.order.keeps_records_together()
    }

    /// Number of shards in the dataset.
    pub(super) fn shards(&self) -> u64 {
        self.order.shards()
    }

    /// The shard at a slot of an epoch, this one or the next.
    pub(super) fn handle(&mut self, epoch: u64, slot: u64) -> Arc<Handle> {
        let order = if epoch == self.epoch { self.order } else { self.plan.order(epoch) };
        let object = self.plan.dataset.shard(order.shard_at(slot));
        Arc::clone(self.handles.entry((epoch, slot)).or_insert_with(|| Arc::new(self.loader.open(object))))
    }

    /// Epoch, slot and block where the next batch starts, as far as that is known.
    pub(super) fn place(&mut self) -> (u64, u64, u64) {
        let epoch = self.epoch;
        let position = self.from + self.plan.deal.full(self.batch).start;
        match self.counts.locate(position) {
            Located::At { slot, record } => {
                let handle = self.handle(epoch, slot);
                let frame = pick::nth_frame(&handle.index(), record);
                (epoch, slot, frame.map_or(0, |frame| frame.payload_offset / self.loader.block_bytes()))
            }
            Located::Unknown { slot } => {
                let scanned = self.handle(epoch, slot).index().block_crcs().len() as u64;
                (epoch, slot, scanned)
            }
            Located::PastEnd { .. } => (epoch + 1, 0, 0),
        }
    }

    /// The groups that the next batch of this rank reads, in this epoch or the next one.
    pub(super) fn groups(&self) -> (u64, Vec<Group>) {
        let own = self.plan.deal.full(self.batch);
        let own = self.from + own.start..self.from + own.end;
        let step = self.plan.parts.map_or(u64::MAX, |parts| parts.chunk.get());
        let mut groups: Vec<Group> = Vec::new();
        let mut position = own.start;
        while position < own.end && groups.len() < MOST_GROUPS {
            // Without parts, what a position is near is known before the very record is.
            let place = match self.plan.parts {
                None => self.counts.locate(position),
                Some(_) => self.order.locate(position, &self.counts),
            };
            match place {
                Located::At { slot, .. } | Located::Unknown { slot } => {
                    let slots = self.order.group(slot);
                    if groups.iter().all(|group| group.slots != slots) {
                        groups.push(Group { slots, used: self.used(slots, position) });
                    }
                }
                Located::PastEnd { .. } if groups.is_empty() => {
                    let order = self.plan.order(self.epoch + 1);
                    let slots = order.group_at_start(self.plan.deal.full(0).start);
                    return (self.epoch + 1, vec![Group { slots, used: 0.0 }]);
                }
                Located::PastEnd { .. } => break,
            }
            position = position.saturating_add(step);
        }
        (self.epoch, groups)
    }

    /// How much of a group lies before a position, from 0 to 1.
    #[allow(clippy::cast_precision_loss, reason = "a part of a group need not be exact")]
    fn used(&self, slots: (u64, u64), position: u64) -> f64 {
        let (Some(start), Some(end)) = (self.counts.start_of(slots.0), self.counts.start_of(slots.1)) else {
            return 0.0;
        };
        let before = match &self.plan.parts {
            None => position.saturating_sub(start),
            // Every part is used up as the whole is.
            Some(_) => return position as f64 / self.counts.total().unwrap_or(u64::MAX) as f64,
        };
        if end > start { (before as f64 / (end - start) as f64).min(1.0) } else { 0.0 }
    }

    /// Lets go of shards other than those of `keep`, given as epoch and slots.
    pub(super) fn forget_others(&mut self, keep: &[(u64, (u64, u64))]) {
        let kept = |epoch: u64, slot: u64| {
            keep.iter().any(|&(e, (first, end))| e == epoch && (first..end).contains(&slot))
        };
        self.handles.retain(|&(epoch, slot), _| kept(epoch, slot));
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
            let own = self.plan.deal.full(self.batch);
            let own = self.from + own.start..self.from + own.end;
            let end = self.from + (self.batch + 1) * self.plan.deal.global_batch();
            if let Some((position, error)) = self.poison.clone()
                && end > position
            {
                let own = own.start.min(position)..own.end.min(position);
                if own.is_empty() {
                    return Err(error.into());
                }
                // What lies before the bad record is delivered; the next call comes here again and finds nothing.
                return Ok(Next::Batch(self.take(&Share { own, pads: Vec::new() }, end)));
            }
            let share = match self.counts.total() {
                _ if self.order.certain(&self.counts) >= end => Share { own, pads: Vec::new() },
                Some(total) => match self.plan.deal.share_from(self.from, self.batch, total) {
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
            if let Some(head) = &self.head
                && share.pads.iter().any(|&pad| self.needs_head(head, pad))
            {
                self.learn_head().await?;
                continue;
            }
            return Ok(Next::Batch(self.take(&share, end)));
        }
    }

    /// Takes the share as the next batch; all ranks together come to position `end`.
    fn take(&mut self, share: &Share, end: u64) -> Picked {
        let mut picked = self.pick(share);
        self.batch += 1;
        picked.next = self.mark(end);
        picked
    }

    /// Where all ranks are at position `end` of this epoch.
    fn mark(&self, end: u64) -> Mark {
        if let Some(total) = self.counts.total()
            && self.batch >= self.plan.deal.batches(total.saturating_sub(self.from))
        {
            return Mark { epoch: self.epoch + 1, ..Mark::default() };
        }
        let (slot, slot_position) = self.order.anchor(end, &self.counts);
        let batch = self.batches_before + self.batch;
        Mark { epoch: self.epoch, position: end, batch, slot, slot_position }
    }

    fn end_epoch(&mut self, total: u64) -> Result<(), StreamFailure> {
        if self.batch == 0 && self.from == 0 {
            return Err(self.empty(total));
        }
        self.epoch += 1;
        (self.from, self.batches_before, self.batch) = (0, 0, 0);
        self.skipped_in_epoch = 0;
        self.order = self.plan.order(self.epoch);
        (self.counts, self.head) = (Counts::new(self.order.shards()), None);
        if self.plan.shuffle == Shuffle::Full {
            // All shards are in use in every epoch, at the same slots.
            let kept = std::mem::take(&mut self.handles);
            self.handles = kept.into_iter().map(|((_, slot), handle)| ((self.epoch, slot), handle)).collect();
        }
        self.take_known_counts();
        Ok(())
    }

    fn empty(&self, total: u64) -> StreamFailure {
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
        StreamFailure::Empty { message, hint: hint.to_owned() }
    }
}
