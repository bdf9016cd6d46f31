//! Making room: which files go, and the promise that nothing goes in vain.

use std::sync::Arc;

use super::error::{CacheError, ReserveError};
use super::files::{self, Kind};
use super::id::ShardId;
use super::ledger::Charge;
use super::stats::{add, one};
use super::store::Cache;

impl Cache {
    /// Reserves `bytes` of the limit, evicting if need be.
    pub(super) fn obtain(&self, bytes: u64) -> Result<(), ReserveError> {
        let limit = self.ledger.limit();
        if bytes > limit {
            return Err(ReserveError::TooLarge { asked: bytes, limit });
        }
        if self.ledger.try_reserve(bytes) {
            return Ok(());
        }
        let _files = self.files();
        self.make_room(bytes)
    }

    /// As [`Cache::obtain`]; the caller holds `files`, so no two evict at once and neither sees room that the other has
    /// already taken out of the table but not yet freed.
    pub(super) fn make_room(&self, bytes: u64) -> Result<(), ReserveError> {
        while !self.ledger.try_reserve(bytes) {
            let counts = self.ledger.counts();
            let need = self.ledger.missing(bytes);
            let refused = |available: u64| ReserveError::AllInUse {
                asked: bytes,
                limit: self.ledger.limit(),
                in_use: counts.total().saturating_sub(available),
            };
            let victims = self.table().take_victims(need, counts.index).map_err(refused)?;
            if victims.is_empty() && need > 0 && !self.indexes.evict_one(&self.layout, &self.ledger) {
                return Err(refused(0));
            }
            for (id, charge) in victims {
                self.evict(&id, charge);
            }
        }
        Ok(())
    }

    /// Removes indexes until one of `more` bytes fits into their allowance; the caller holds `files`.
    pub(super) fn fit_indexes(&self, more: u64) {
        while self.ledger.counts().index.saturating_add(more) > self.indexes.allowance()
            && self.indexes.evict_one(&self.layout, &self.ledger)
        {
            one(&self.stats.index_evictions);
        }
    }

    /// The disk is fuller than the limit allows for: gives up the next shard in the order. `false` if there is none.
    pub(super) fn relieve(&self) -> bool {
        let _files = self.files();
        let victims = self.table().take_victims(1, 0).unwrap_or_default();
        let any = !victims.is_empty();
        for (id, charge) in victims {
            self.evict(&id, charge);
        }
        any
    }

    /// A write failed. If the disk is full it gets room, so that the next shard fits where this one did not.
    pub(super) fn failed(&self, error: &CacheError) {
        self.count_failure(error);
        if matches!(error, CacheError::Full { .. }) {
            self.relieve();
        }
    }

    fn evict(&self, id: &ShardId, charge: Arc<Charge>) {
        one(&self.stats.evictions);
        add(&self.stats.evicted_bytes, charge.bytes());
        self.remove_files(id, charge);
    }

    /// Removes both files of a shard that is no longer in the table, the metadata first: a crash in between leaves data
    /// that the next start knows for a left-over.
    pub(super) fn remove_files(&self, id: &ShardId, charge: Arc<Charge>) {
        let meta_gone = files::remove(&self.layout.file(id, Kind::Meta));
        if !files::remove(&self.layout.file(id, Kind::Data)) || !meta_gone {
            one(&self.stats.io_errors);
            // The bytes are still on the disk: they stay counted until the next start looks again.
            std::mem::forget(charge);
        }
    }
}
