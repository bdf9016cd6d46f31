//! How many blocks each stream may hold.
//!
//! A stream reserves blocks here before it loads or holds them. Its share is the whole part set aside for streams
//! divided by one more than the number of streams, so that there is always something left for one that comes. A batch
//! that alone needs more than the share gets it when it is free, if the stream holds nothing else; one that needs more
//! than exists is refused with the numbers. So a client that keeps its batches reaches its own share and waits there,
//! and nobody else waits for it.

use crate::budget::{BudgetError, ByteBudget, Lane, Permit};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::watch;

/// The part of the pool that streams may hold, in blocks.
#[derive(Debug, Clone)]
pub struct Leases {
    blocks: ByteBudget,
    streams: Arc<AtomicU64>,
    returns: watch::Sender<u64>,
}

/// One stream's account. Dropping it returns everything.
#[derive(Debug)]
pub struct Lease {
    leases: Leases,
    permits: Vec<Permit>,
    held: u64,
}

impl Leases {
    /// A part of `blocks` blocks.
    pub fn new(blocks: u64) -> Self {
        Self { blocks: ByteBudget::new(blocks), streams: Arc::default(), returns: watch::Sender::new(0) }
    }

    /// Number of streams that have an account.
    pub fn streams(&self) -> u64 {
        self.streams.load(Relaxed)
    }

    /// Opens an account for a stream.
    pub fn open(&self) -> Lease {
        self.streams.fetch_add(1, Relaxed);
        Lease { leases: self.clone(), permits: Vec::new(), held: 0 }
    }

    /// Blocks that all streams together may hold.
    pub fn limit(&self) -> u64 {
        self.blocks.limit()
    }

    /// Blocks that streams have reserved now, counted once per stream.
    pub fn used(&self) -> u64 {
        self.blocks.used()
    }
}

impl Lease {
    /// Blocks that this stream has reserved.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Blocks that all streams together may hold.
    pub fn limit(&self) -> u64 {
        self.leases.limit()
    }

    /// Blocks that this stream may hold now.
    pub fn share(&self) -> u64 {
        let streams = self.leases.streams.load(Relaxed);
        (self.leases.limit() / (streams + 1)).max(1)
    }

    /// Whether `blocks` more fit the share now, or the stream holds nothing and may go beyond it.
    pub fn may_take(&self, blocks: u64) -> bool {
        blocks == 0 || self.held == 0 || self.held + blocks <= self.share()
    }

    /// Reserves `blocks` more, all or none; `false` while other streams hold what is needed.
    ///
    /// # Errors
    /// [`BudgetError::TooLarge`] if the pool has fewer blocks for streams at all.
    pub fn try_take(&mut self, blocks: u64) -> Result<bool, BudgetError> {
        if blocks > 0 {
            let Some(permit) = self.leases.blocks.try_reserve(blocks, Lane::Demand)? else {
                return Ok(false);
            };
            self.permits.push(permit);
            self.held += blocks;
        }
        Ok(true)
    }

    /// As [`Self::try_take`], but the reservation is handed out, for work that may outlive this account. It counts as held
    /// until it comes back with [`Self::adopt`].
    ///
    /// # Errors
    /// As [`Self::try_take`].
    pub fn try_take_apart(&mut self, blocks: u64) -> Result<Option<Permit>, BudgetError> {
        let permit = self.leases.blocks.try_reserve(blocks, Lane::Demand)?;
        self.held += permit.as_ref().map_or(0, Permit::bytes);
        Ok(permit)
    }

    /// Takes a reservation back into the account.
    pub fn adopt(&mut self, permit: Permit) {
        self.permits.push(permit);
    }

    /// Sees every return of blocks by any stream: take it before trying.
    pub fn returns(&self) -> watch::Receiver<u64> {
        self.leases.returns.subscribe()
    }

    /// Returns `blocks` of what was reserved.
    pub fn give_back(&mut self, mut blocks: u64) {
        self.held -= blocks;
        while let Some(permit) = self.permits.last_mut() {
            if permit.bytes() > blocks {
                permit.shrink(permit.bytes() - blocks);
                break;
            }
            blocks -= permit.bytes();
            self.permits.pop();
        }
        self.leases.returns.send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.leases.streams.fetch_sub(1, Relaxed);
        self.permits.clear();
        self.leases.returns.send_modify(|count| *count = count.wrapping_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hoarder_reaches_its_share_and_a_newcomer_finds_room() {
        let leases = Leases::new(12);
        let mut hoarder = leases.open();
        while hoarder.may_take(1) {
            assert!(hoarder.try_take(1).unwrap());
        }
        assert_eq!(hoarder.held(), 6);
        let mut newcomer = leases.open();
        assert!(newcomer.may_take(4));
        assert!(newcomer.try_take(4).unwrap());
        hoarder.give_back(5);
        assert_eq!((hoarder.held(), leases.used()), (1, 5));
        drop((hoarder, newcomer));
        assert_eq!(leases.used(), 0);
    }

    #[test]
    fn what_is_handed_out_counts_until_it_is_back_and_goes_with_its_holder() {
        let leases = Leases::new(12);
        let mut lease = leases.open();
        let permit = lease.try_take_apart(5).unwrap().unwrap();
        assert_eq!((lease.held(), lease.may_take(1), lease.may_take(2)), (5, true, false));
        lease.adopt(permit);
        lease.give_back(3);
        assert_eq!((lease.held(), leases.used()), (2, 2));
        let permit = lease.try_take_apart(4).unwrap().unwrap();
        drop(lease);
        assert_eq!(leases.used(), 4);
        drop(permit);
        assert_eq!(leases.used(), 0);
    }

    #[test]
    fn a_batch_beyond_the_share_goes_alone_and_one_beyond_the_pool_is_refused() {
        let leases = Leases::new(12);
        let mut lease = leases.open();
        assert!(lease.may_take(11));
        assert!(lease.try_take(11).unwrap());
        assert!(!lease.may_take(1));
        lease.give_back(11);
        assert!(matches!(lease.try_take(13), Err(BudgetError::TooLarge { asked: 13, limit: 12 })));
    }
}
