//! Brings in what a stream will need next, a bounded window ahead of it.
//!
//! The window is counted in blocks of the sequence, goes over shard and epoch borders, and moves with the stream: each block is
//! asked for once. Blocks in the cache are read into the pool; shards that are not cached or not known are fetched whole
//! as far as the window reaches into them.

use super::walk::{Group, Walk};
use crate::loader::{Handle, Loader};
use crate::order::Shuffle;
use std::collections::VecDeque;

/// A shard that the window has entered.
#[derive(Debug)]
struct Entered {
    epoch: u64,
    slot: u64,
    /// Blocks of the sequence before this shard, counted from the stream's start.
    before: u64,
    /// Blocks of this shard, as far as known.
    blocks: u64,
}

/// The far end of the window.
#[derive(Debug, Default)]
pub(super) struct LookAhead {
    entered: VecDeque<Entered>,
    /// Next block to ask for, in the last shard entered.
    block: u64,
}

impl LookAhead {
    /// Moves the window to where the stream is. Never waits; what finds no room is asked for at the next call.
    pub(super) fn advance(&mut self, walk: &mut Walk, loader: &Loader) {
        let (epoch, slot, block) = walk.place();
        if !walk.has_epoch(epoch) {
            return;
        }
        walk.forget_before(epoch, slot);
        self.entered.retain(|entered| (entered.epoch, entered.slot) >= (epoch, slot));
        if self.entered.is_empty() {
            self.block = block;
            self.enter(walk, loader, epoch, slot, 0);
        }
        let window = walk.plan.window;
        walk.handle(epoch, slot).want(block + window);
        let here = self.entered.front().map_or(0, |entered| entered.before) + block;
        loop {
            let Some(last) = self.entered.back_mut() else { return };
            let handle = walk.handle(last.epoch, last.slot);
            // A compressed shard has another number of blocks than its size says.
            last.blocks = content_blocks(&handle, loader);
            if last.before + self.block >= here + window {
                return;
            }
            if self.block >= last.blocks {
                let (before, next) = (last.before + last.blocks, last.slot + 1);
                let (epoch, slot) =
                    if next < walk.shards() { (last.epoch, next) } else { (last.epoch + 1, 0) };
                // A dataset smaller than the window is not entered twice at once: its blocks are there already.
                if !walk.has_epoch(epoch) || self.entered.len() as u64 >= walk.shards() {
                    return;
                }
                self.block = 0;
                self.enter(walk, loader, epoch, slot, before);
                continue;
            }
            let ready = handle.index().complete() && loader.parts().cache.contains(&handle.id());
            if ready {
                if !loader.prefetch(&handle, self.block) {
                    return;
                }
            } else {
                handle.want(self.block + 1);
            }
            self.block += 1;
        }
    }

    fn enter(&mut self, walk: &mut Walk, loader: &Loader, epoch: u64, slot: u64, before: u64) {
        let handle = walk.handle(epoch, slot);
        loader.ensure(&handle);
        let blocks = content_blocks(&handle, loader);
        self.entered.push_back(Entered { epoch, slot, before, blocks });
    }
}

/// The far end of the window where records are mixed: groups of shards instead of blocks.
#[derive(Debug, Default)]
pub(super) struct GroupAhead {
    /// Epoch, and of each group in use the first slot and how many parts of it are used up.
    at: (u64, Vec<(u64, u64)>),
}

impl GroupAhead {
    /// A group comes in whole; while it is used up, the next comes in at the same pace.
    const PARTS: u64 = 64;

    /// Moves on to where the stream is. Never waits.
    pub(super) fn advance(&mut self, walk: &mut Walk, loader: &Loader) {
        if walk.plan.shuffle == Shuffle::Full {
            // Every shard is as near as any other: each comes in when its first record is needed, and stays.
            return;
        }
        let (epoch, groups) = walk.groups();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to PARTS")]
        let part = |group: &Group| (group.used * Self::PARTS as f64) as u64;
        let at = (epoch, groups.iter().map(|group| (group.slots.0, part(group))).collect());
        if !walk.has_epoch(epoch) || self.at == at {
            return;
        }
        self.at = at;
        let mut keep: Vec<(u64, (u64, u64))> = groups.iter().map(|group| (epoch, group.slots)).collect();
        let order = walk.plan.order(epoch);
        for group in &groups {
            let first = group.slots.0;
            let next = match order.next_group(first) {
                Some(slots) => (epoch, slots),
                None => (epoch + 1, walk.plan.order(epoch + 1).first_group(first)),
            };
            bring(walk, loader, epoch, group.slots, Self::PARTS);
            // The next group of a part that is one group is the same shards.
            if walk.has_epoch(next.0) && next.1 != group.slots {
                bring(walk, loader, next.0, next.1, part(group));
                keep.push(next);
            }
        }
        walk.forget_others(&keep);
    }
}

/// Has so many parts of each shard brought into the cache that is not there.
fn bring(walk: &mut Walk, loader: &Loader, epoch: u64, slots: (u64, u64), parts: u64) {
    for slot in slots.0..slots.1 {
        let handle = walk.handle(epoch, slot);
        if handle.index().complete() && loader.parts().cache.contains(&handle.id()) {
            continue;
        }
        let blocks = content_blocks(&handle, loader);
        handle.want(if parts == GroupAhead::PARTS { u64::MAX } else { blocks * parts / GroupAhead::PARTS });
        loader.ensure(&handle);
    }
}

/// Blocks of a shard, as far as known: before its content is, those of the object as it stands.
fn content_blocks(handle: &Handle, loader: &Loader) -> u64 {
    let index = handle.index();
    let content = if index.complete() { index.content_len() } else { handle.object().size };
    content.div_ceil(loader.block_bytes())
}
