//! The order of the shards in an epoch.

use super::permutation::{Permutation, epoch_key};

/// How an epoch's sequence is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shuffle {
    /// Shards by key, bytewise; the same in every epoch.
    #[default]
    Sequential,
    /// Shards permuted anew in each epoch.
    Shards,
}

/// The shards of one epoch in order. A *slot* is a place in that order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochOrder {
    shards: u64,
    permutation: Option<Permutation>,
}

impl EpochOrder {
    /// The order of `shards` shards (numbered by key) in epoch `epoch`.
    pub fn new(shards: u64, shuffle: Shuffle, seed: u64, epoch: u64) -> Self {
        let permutation = match shuffle {
            Shuffle::Sequential => None,
            Shuffle::Shards => Some(Permutation::new(shards, epoch_key(seed, epoch, "shards"))),
        };
        Self { shards, permutation }
    }

    /// Number of shards.
    pub fn shards(&self) -> u64 {
        self.shards
    }

    /// The shard at slot `slot`.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn shard_at(&self, slot: u64) -> u64 {
        assert!(slot < self.shards, "slot {slot} of {} shards", self.shards);
        self.permutation.map_or(slot, |permutation| permutation.forward(slot))
    }

    /// The slot of shard `shard`.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn slot_of(&self, shard: u64) -> u64 {
        assert!(shard < self.shards, "shard {shard} of {}", self.shards);
        self.permutation.map_or(shard, |permutation| permutation.inverse(shard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_epoch_has_its_own_order_and_the_same_again() {
        let order = |epoch| {
            let order = EpochOrder::new(14, Shuffle::Shards, 9, epoch);
            (0..14).map(|slot| order.shard_at(slot)).collect::<Vec<_>>()
        };
        assert_eq!(order(0), order(0));
        assert!(order(0) != order(1) && order(1) != order(2) && order(0) != order(2));
        let mut sorted = order(2);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..14).collect::<Vec<_>>());
        let order = EpochOrder::new(14, Shuffle::Shards, 9, 2);
        assert!((0..14).all(|slot| order.slot_of(order.shard_at(slot)) == slot));
    }
}
