//! Which shard goes first when room is needed. Pure: knows ids and their order, nothing of files or bytes.
//!
//! The cache asks for candidates in order of eviction and passes over those that are in use, so a policy cannot take
//! a shard in use even by mistake.

use lru::LruCache;

use super::id::ShardId;

/// An order of eviction over the shards of one cache directory.
pub trait EvictionPolicy: Send {
    /// A shard is now in the cache, as the one that should go last. Called once per shard, oldest first on a warm
    /// restart.
    fn admit(&mut self, id: ShardId);
    /// A shard was asked for. Ids that were never admitted are ignored.
    fn touch(&mut self, id: &ShardId);
    /// A shard is no longer in the cache, for whatever reason.
    fn forget(&mut self, id: &ShardId);
    /// All shards, the first to go first.
    fn victims(&self) -> Box<dyn Iterator<Item = ShardId> + '_>;
}

/// Least recently used goes first.
pub struct Lru {
    order: LruCache<ShardId, ()>,
}

impl Lru {
    /// An empty order. It has no capacity of its own: the cache counts bytes, not entries.
    pub fn new() -> Self {
        Self { order: LruCache::unbounded() }
    }
}

impl Default for Lru {
    fn default() -> Self {
        Self::new()
    }
}

impl EvictionPolicy for Lru {
    fn admit(&mut self, id: ShardId) {
        self.order.put(id, ());
    }

    fn touch(&mut self, id: &ShardId) {
        self.order.promote(id);
    }

    fn forget(&mut self, id: &ShardId) {
        self.order.pop(id);
    }

    fn victims(&self) -> Box<dyn Iterator<Item = ShardId> + '_> {
        Box::new(self.order.iter().rev().map(|(id, ())| *id))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(n: u8) -> ShardId {
        ShardId([n; 16])
    }

    proptest! {
        #[test]
        fn lru_keeps_the_order_of_a_plain_list(steps in prop::collection::vec((0u8..3, 0u8..8), 0..200)) {
            let mut policy = Lru::new();
            let mut list: Vec<ShardId> = Vec::new();
            for (step, n) in steps {
                let id = id(n);
                let known = list.iter().position(|other| *other == id);
                match (step, known) {
                    (0, None) => { policy.admit(id); list.push(id); }
                    (1, Some(at)) => { policy.touch(&id); list.remove(at); list.push(id); }
                    (1, None) => policy.touch(&id),
                    (2, at) => { policy.forget(&id); if let Some(at) = at { list.remove(at); } }
                    _ => {}
                }
                prop_assert_eq!(policy.victims().collect::<Vec<_>>(), list.clone());
            }
        }
    }
}
