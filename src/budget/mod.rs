//! One limit on bytes, reserved before they are used.
//!
//! **What.** Everything that holds memory for data on its way (requests in flight, blocks being filled) first takes a
//! [`Permit`] from a [`ByteBudget`]. The sum of live permits never exceeds the limit, so memory use is decided by
//! configuration and not by how fast a store answers. Dropping a permit returns its bytes at once.
//!
//! **Order.** There are two lanes. [`Lane::Demand`] is for bytes that a reader waits for now, [`Lane::Ahead`] for
//! look-ahead. Each lane is first come, first served, and `Ahead` is served only while nobody waits in `Demand`.
//! A large request at the head of its lane holds back the smaller ones behind it: without that, a stream of small
//! requests would starve it for ever. The price is that some bytes may lie free for a moment.
//!
//! **Cancelling.** A future that waits can be dropped at any time: its place in the queue goes with it, and whoever
//! stood behind it is served if that is now possible. A permit granted to a future that was dropped in the same
//! moment returns by its own drop.
//!
//! **Limits.** A request larger than the whole limit can never succeed and is refused with both numbers. `Ahead`
//! can wait as long as `Demand` keeps the budget full; that is intended. No I/O and no timers: the only outside
//! thing is a oneshot channel that wakes the waiting task, on whatever runtime it lives.

mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use state::{Granted, State};

/// Who is served first when bytes come free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// A reader waits for these bytes now.
    Demand,
    /// Look-ahead: served only while nobody waits in [`Lane::Demand`].
    Ahead,
}

/// Why bytes could not be reserved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// The request alone is larger than the limit, so waiting would never end.
    #[error(
        "{asked} bytes cannot be reserved from a budget of {limit} bytes; raise the limit or ask for smaller pieces"
    )]
    TooLarge {
        /// Bytes asked for.
        asked: u64,
        /// The whole budget, in bytes.
        limit: u64,
    },
}

/// A shared byte budget. Clones are handles to the same budget.
#[derive(Debug, Clone)]
pub struct ByteBudget {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limit: u64,
    state: Mutex<State>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is whole between any two statements that could panic, so a poisoned lock is still good.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what was granted. Must run without the lock: a permit that its receiver no longer wants is dropped
    /// here, and that drop takes the lock again.
    fn deliver(self: &Arc<Self>, granted: Vec<Granted>) {
        for grant in granted {
            let permit = Permit { shared: Arc::clone(self), bytes: grant.bytes };
            drop(grant.wake.send(permit));
        }
    }
}

impl ByteBudget {
    /// A budget of `limit` bytes, all free.
    pub fn new(limit: u64) -> Self {
        Self { shared: Arc::new(Shared { limit, state: Mutex::new(State::default()) }) }
    }

    /// Waits until `bytes` are free and it is this request's turn, and takes them.
    ///
    /// # Errors
    /// [`BudgetError::TooLarge`] when `bytes` exceeds the limit.
    pub async fn reserve(&self, bytes: u64, lane: Lane) -> Result<Permit, BudgetError> {
        let (ticket, woken) = {
            let mut state = self.shared.lock();
            if self.take_now(&mut state, bytes, lane)? {
                return Ok(Permit { shared: Arc::clone(&self.shared), bytes });
            }
            let (wake, woken) = tokio::sync::oneshot::channel();
            (state.enqueue(bytes, lane, wake), woken)
        };
        let _place = Place { shared: &self.shared, ticket, lane };
        Ok(woken.await.expect("the sender leaves the queue only by a grant or by this future's own drop"))
    }

    /// Takes `bytes` if they are free and nobody with an equal or better claim waits; `None` otherwise.
    ///
    /// # Errors
    /// [`BudgetError::TooLarge`] when `bytes` exceeds the limit.
    pub fn try_reserve(&self, bytes: u64, lane: Lane) -> Result<Option<Permit>, BudgetError> {
        let mut state = self.shared.lock();
        let taken = self.take_now(&mut state, bytes, lane)?;
        Ok(taken.then(|| Permit { shared: Arc::clone(&self.shared), bytes }))
    }

    fn take_now(&self, state: &mut State, bytes: u64, lane: Lane) -> Result<bool, BudgetError> {
        let limit = self.shared.limit;
        if bytes > limit {
            return Err(BudgetError::TooLarge { asked: bytes, limit });
        }
        Ok(state.take(bytes, lane, limit))
    }

    /// The whole budget, in bytes.
    pub fn limit(&self) -> u64 {
        self.shared.limit
    }

    /// Bytes held by live permits.
    pub fn used(&self) -> u64 {
        self.shared.lock().used()
    }

    /// The most bytes that were ever held at one time.
    pub fn peak(&self) -> u64 {
        self.shared.lock().peak()
    }

    /// Requests that wait, in both lanes.
    pub fn waiting(&self) -> usize {
        self.shared.lock().waiting()
    }
}

/// A hold on some bytes of a budget; dropping it returns them and wakes whoever they suffice for.
#[derive(Debug)]
#[must_use = "dropping a permit returns its bytes at once"]
pub struct Permit {
    shared: Arc<Shared>,
    bytes: u64,
}

impl Permit {
    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns all but `bytes` of the hold, for a request that turned out smaller than feared. Asking for more than
    /// is held changes nothing.
    pub fn shrink(&mut self, bytes: u64) {
        if bytes < self.bytes {
            let back = self.bytes - bytes;
            self.bytes = bytes;
            let granted = self.shared.lock().give_back(back, self.shared.limit);
            self.shared.deliver(granted);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let granted = self.shared.lock().give_back(self.bytes, self.shared.limit);
        self.shared.deliver(granted);
    }
}

/// A waiting request's place in its queue: leaves with the future, whether it was served or given up.
struct Place<'a> {
    shared: &'a Arc<Shared>,
    ticket: u64,
    lane: Lane,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let granted = self.shared.lock().leave(self.ticket, self.lane, self.shared.limit);
        self.shared.deliver(granted);
    }
}

#[cfg(test)]
mod tests;
