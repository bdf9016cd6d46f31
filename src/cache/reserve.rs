//! Room set aside before the first byte of a shard is written.

use std::sync::Arc;

use super::error::ReserveError;
use super::ledger::{Charge, footprint};
use super::store::Cache;

/// Room on disk for one shard, metadata included. Given back on drop.
#[derive(Debug)]
pub struct Reservation {
    cache: Arc<Cache>,
    content: u64,
    held: u64,
}

impl Reservation {
    pub(super) fn new(cache: &Arc<Cache>, content: u64) -> Result<Self, ReserveError> {
        let held = footprint(content);
        cache.obtain(held)?;
        Ok(Self { cache: Arc::clone(cache), content, held })
    }

    /// Content bytes that may be written.
    pub fn content_bytes(&self) -> u64 {
        self.content
    }

    /// Bytes of the limit that are held.
    pub fn held_bytes(&self) -> u64 {
        self.held
    }

    /// Asks for `more` content bytes, evicting as [`Cache::reserve`] does. On error nothing changes.
    ///
    /// # Errors
    /// As [`Cache::reserve`]; the numbers are those of the whole shard.
    pub fn grow(&mut self, more: u64) -> Result<(), ReserveError> {
        let content = self.content.saturating_add(more);
        self.raise(footprint(content))?;
        self.content = content;
        Ok(())
    }

    /// Holds at least `total` bytes of the limit.
    pub(super) fn raise(&mut self, total: u64) -> Result<(), ReserveError> {
        let limit = self.cache.usage().limit;
        if total > limit {
            return Err(ReserveError::TooLarge { asked: total, limit });
        }
        self.cache.obtain(total.saturating_sub(self.held))?;
        self.held = self.held.max(total);
        Ok(())
    }

    /// The shard is on disk and takes `charge <= held` bytes; the rest is free.
    pub(super) fn settle(mut self, charge: u64) -> Arc<Charge> {
        let held = std::mem::take(&mut self.held);
        self.cache.ledger.settle(held, charge)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.cache.ledger.release(self.held);
    }
}
