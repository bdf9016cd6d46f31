//! The table of shards: id, charge, whether somebody has it open. About a hundred bytes per shard, so 200,000 entries
//! cost 20 MB; the metadata themselves stay on disk until a shard is opened.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use super::id::ShardId;
use super::index::due;
use super::ledger::Charge;
use super::policy::EvictionPolicy;
use super::shard::CachedShard;

struct Entry {
    /// Also the pin: a second holder is a reader, or a look-up on its way to become one.
    charge: Arc<Charge>,
    open: Weak<CachedShard>,
    /// Time of last use as noted on disk.
    used: SystemTime,
}

/// A shard kept from eviction while this lives.
pub(super) struct Pin {
    pub(super) charge: Arc<Charge>,
    pub(super) open: Option<Arc<CachedShard>>,
    /// The time of last use on disk is to be written.
    pub(super) touch: bool,
}

/// All shards that can be found, and their order of eviction.
pub(super) struct Table {
    entries: HashMap<ShardId, Entry>,
    policy: Box<dyn EvictionPolicy>,
}

impl Table {
    pub(super) fn new(policy: Box<dyn EvictionPolicy>) -> Self {
        Self { entries: HashMap::new(), policy }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn contains(&self, id: &ShardId) -> bool {
        self.entries.contains_key(id)
    }

    pub(super) fn insert(&mut self, id: ShardId, charge: Arc<Charge>, used: SystemTime) {
        self.entries.insert(id, Entry { charge, open: Weak::new(), used });
        self.policy.admit(id);
    }

    /// Counts as a use.
    pub(super) fn pin(&mut self, id: &ShardId) -> Option<Pin> {
        let entry = self.entries.get_mut(id)?;
        self.policy.touch(id);
        Some(Pin {
            charge: Arc::clone(&entry.charge),
            open: entry.open.upgrade(),
            touch: due(&mut entry.used),
        })
    }

    /// Makes `shard` the one that all look-ups share, unless another look-up was faster; returns the shared one.
    pub(super) fn share(
        &mut self,
        id: &ShardId,
        charge: &Arc<Charge>,
        shard: Arc<CachedShard>,
    ) -> Arc<CachedShard> {
        match self.entries.get_mut(id) {
            Some(entry) if Arc::ptr_eq(&entry.charge, charge) => match entry.open.upgrade() {
                Some(faster) => faster,
                None => {
                    entry.open = Arc::downgrade(&shard);
                    shard
                }
            },
            // Discarded meanwhile: this reader has its open file, nobody else will find it.
            _ => shard,
        }
    }

    /// Takes a shard out, pinned or not.
    pub(super) fn take(&mut self, id: &ShardId) -> Option<Arc<Charge>> {
        let entry = self.entries.remove(id)?;
        self.policy.forget(id);
        Some(entry.charge)
    }

    /// As [`Table::take`], if it is still the same copy.
    pub(super) fn take_same(&mut self, id: &ShardId, charge: &Arc<Charge>) -> Option<Arc<Charge>> {
        let same = self.entries.get(id).is_some_and(|entry| Arc::ptr_eq(&entry.charge, charge));
        if same { self.take(id) } else { None }
    }

    /// Takes out shards that nobody uses, in the policy's order, until they come to `need` bytes. If all of them and
    /// `other` bytes do not come to that, takes none and says how many bytes there would have been.
    pub(super) fn take_victims(&mut self, need: u64, other: u64) -> Result<Vec<(ShardId, Arc<Charge>)>, u64> {
        let mut chosen = Vec::new();
        let mut bytes = 0u64;
        for id in self.policy.victims() {
            if bytes >= need {
                break;
            }
            if let Some(entry) = self.entries.get(&id).filter(|entry| Arc::strong_count(&entry.charge) == 1) {
                bytes = bytes.saturating_add(entry.charge.bytes());
                chosen.push(id);
            }
        }
        match bytes.saturating_add(other) {
            available if available < need => Err(available),
            _ => Ok(chosen.into_iter().filter_map(|id| Some((id, self.take(&id)?))).collect()),
        }
    }
}
