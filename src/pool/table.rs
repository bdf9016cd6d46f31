//! Which slot holds what, and which goes next: pure state, no memory is touched.

use crate::cache::ShardId;
use lru::LruCache;
use std::collections::{HashMap, VecDeque};
use tokio::sync::oneshot;

/// Names a block: the shard's content and the number of the block in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockKey {
    /// Content of the shard.
    pub shard: ShardId,
    /// Number of the block, from 0.
    pub block: u64,
}

#[derive(Debug, Default)]
struct SlotState {
    /// Set while published under this key; a block that was replaced has no key but may still be held.
    key: Option<BlockKey>,
    refs: u32,
    length: u32,
}

#[derive(Debug)]
pub(super) struct Table {
    slots: Vec<SlotState>,
    free: Vec<u32>,
    blocks: HashMap<BlockKey, u32>,
    /// Published slots without holders, oldest first.
    unused: LruCache<u32, ()>,
    waiting: VecDeque<oneshot::Sender<u32>>,
    filling: u32,
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) evictions: u64,
}

/// Slots by what they are doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Census {
    pub(super) free: u64,
    pub(super) cached: u64,
    pub(super) filling: u64,
    pub(super) held: u64,
}

impl Table {
    pub(super) fn new(slots: u32) -> Self {
        Self {
            slots: (0..slots).map(|_| SlotState::default()).collect(),
            free: (0..slots).rev().collect(),
            blocks: HashMap::new(),
            unused: LruCache::unbounded(),
            waiting: VecDeque::new(),
            filling: 0,
            hits: 0,
            misses: 0,
            evictions: 0,
        }
    }

    /// A holder for the block, if it is here. Returns slot and length.
    pub(super) fn get(&mut self, key: &BlockKey) -> Option<(u32, u32)> {
        let Some(&slot) = self.blocks.get(key) else {
            self.misses += 1;
            return None;
        };
        self.hits += 1;
        self.retain(slot);
        Some((slot, self.slots[slot as usize].length))
    }

    pub(super) fn contains(&self, key: &BlockKey) -> bool {
        self.blocks.contains_key(key)
    }

    /// A slot to fill: a free one, or that of the block unused longest. With neither, the sender waits its turn.
    pub(super) fn take(&mut self) -> Result<u32, oneshot::Receiver<u32>> {
        if self.waiting.is_empty()
            && let Some(slot) = self.next_free()
        {
            return Ok(slot);
        }
        let (sender, receiver) = oneshot::channel();
        self.waiting.push_back(sender);
        Err(receiver)
    }

    fn next_free(&mut self) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            self.filling += 1;
            return Some(slot);
        }
        let (slot, ()) = self.unused.pop_lru()?;
        let state = &mut self.slots[slot as usize];
        if let Some(key) = state.key.take() {
            self.blocks.remove(&key);
        }
        self.evictions += 1;
        self.filling += 1;
        Some(slot)
    }

    /// Hands free slots to those who wait. A waiter that has gone away is passed over.
    fn serve_waiting(&mut self) {
        while !self.waiting.is_empty() {
            let Some(slot) = self.next_free() else { return };
            let mut slot = Some(slot);
            while let (Some(number), Some(sender)) = (slot, self.waiting.pop_front()) {
                slot = sender.send(number).err();
            }
            if let Some(slot) = slot {
                self.filling -= 1;
                self.free.push(slot);
            }
        }
    }

    /// A slot that was being filled holds the block now, with one holder. An older copy of the block loses its name.
    pub(super) fn publish(&mut self, slot: u32, key: BlockKey, length: u32) {
        self.filling -= 1;
        if let Some(old) = self.blocks.insert(key, slot) {
            self.slots[old as usize].key = None;
            if self.unused.pop(&old).is_some() {
                self.free.push(old);
            }
        }
        self.slots[slot as usize] = SlotState { key: Some(key), refs: 1, length };
        self.serve_waiting();
    }

    /// A slot that was being filled holds something without a name, with one holder; it comes free behind the last.
    pub(super) fn freeze(&mut self, slot: u32, length: u32) {
        self.filling -= 1;
        self.slots[slot as usize] = SlotState { key: None, refs: 1, length };
    }

    /// A slot that was being filled is given up.
    pub(super) fn abandon(&mut self, slot: u32) {
        self.filling -= 1;
        self.free.push(slot);
        self.serve_waiting();
    }

    pub(super) fn retain(&mut self, slot: u32) {
        let state = &mut self.slots[slot as usize];
        state.refs += 1;
        if state.refs == 1 {
            self.unused.pop(&slot);
        }
    }

    pub(super) fn release(&mut self, slot: u32) {
        let state = &mut self.slots[slot as usize];
        state.refs -= 1;
        if state.refs > 0 {
            return;
        }
        if state.key.is_some() {
            self.unused.put(slot, ());
        } else {
            self.free.push(slot);
        }
        self.serve_waiting();
    }

    /// The block is found no more; its slot comes free once nobody holds it.
    pub(super) fn forget(&mut self, key: &BlockKey) {
        if let Some(slot) = self.blocks.remove(key) {
            self.slots[slot as usize].key = None;
            if self.unused.pop(&slot).is_some() {
                self.free.push(slot);
                self.serve_waiting();
            }
        }
    }

    pub(super) fn census(&self) -> Census {
        let (free, cached, filling) =
            (self.free.len() as u64, self.unused.len() as u64, u64::from(self.filling));
        Census { free, cached, filling, held: self.slots.len() as u64 - free - cached - filling }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(block: u64) -> BlockKey {
        BlockKey { shard: ShardId([7; 16]), block }
    }

    #[test]
    fn the_block_unused_longest_gives_way_and_a_held_one_never() {
        let mut table = Table::new(2);
        for block in 0..2 {
            let slot = table.take().unwrap();
            table.publish(slot, key(block), 1);
        }
        assert!(table.take().is_err(), "both are held");
        table.waiting.clear();
        table.release(table.blocks[&key(1)]);
        table.release(table.blocks[&key(0)]);
        table.get(&key(1)).unwrap();
        let slot = table.take().unwrap();
        table.abandon(slot);
        assert!(table.contains(&key(1)) && !table.contains(&key(0)));
    }

    #[test]
    fn a_waiter_gets_the_slot_that_comes_free_and_a_vanished_one_is_skipped() {
        let mut table = Table::new(1);
        let slot = table.take().unwrap();
        let gone = table.take().unwrap_err();
        let mut patient = table.take().unwrap_err();
        drop(gone);
        table.abandon(slot);
        assert_eq!(patient.try_recv().unwrap(), slot);
        table.abandon(slot);
        assert_eq!(table.census(), Census { free: 1, ..Census::default() });
    }

    #[test]
    fn a_replaced_block_lives_on_for_its_holders_only() {
        let mut table = Table::new(2);
        let old = table.take().unwrap();
        table.publish(old, key(0), 1);
        let new = table.take().unwrap();
        table.publish(new, key(0), 1);
        assert_eq!(table.get(&key(0)).unwrap().0, new);
        table.release(old);
        assert_eq!(table.census().free, 1);
    }

    proptest! {
        /// Whatever is done, every slot is in one place and the counts add up.
        #[test]
        fn slots_are_never_lost(steps in prop::collection::vec((0_u8..7, 0_u64..6), 1..200)) {
            let mut table = Table::new(4);
            let (mut filling, mut held): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
            for (step, block) in steps {
                match step {
                    0 => match table.take() { Ok(slot) => filling.push(slot), Err(_) => table.waiting.clear() },
                    1 => if let Some(slot) = filling.pop() { table.publish(slot, key(block), 1); held.push(slot); },
                    2 => if let Some(slot) = filling.pop() { table.abandon(slot) },
                    3 => if let Some((slot, _)) = table.get(&key(block)) { held.push(slot) },
                    4 => if !held.is_empty() { let slot = held.swap_remove(usize::try_from(block).unwrap() % held.len()); table.release(slot) },
                    5 => if let Some(slot) = filling.pop() { table.freeze(slot, 1); held.push(slot); },
                    _ => table.forget(&key(block)),
                }
                let census = table.census();
                prop_assert_eq!(census.filling, filling.len() as u64);
                held.sort_unstable();
                let mut distinct = held.clone();
                distinct.dedup();
                prop_assert_eq!(census.held, distinct.len() as u64);
                prop_assert_eq!(census.free + census.cached + census.filling + census.held, 4);
            }
        }
    }
}
