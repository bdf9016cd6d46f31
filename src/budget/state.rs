//! The queues and the sum behind a budget, without locks or tasks.

use std::collections::VecDeque;

use tokio::sync::oneshot::Sender;

use super::{Lane, Permit};

/// A request that was just served; the permit is made and sent outside the lock.
pub(super) struct Granted {
    pub(super) bytes: u64,
    pub(super) wake: Sender<Permit>,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    bytes: u64,
    wake: Sender<Permit>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    used: u64,
    peak: u64,
    tickets: u64,
    demand: VecDeque<Waiter>,
    ahead: VecDeque<Waiter>,
}

impl State {
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    pub(super) fn peak(&self) -> u64 {
        self.peak
    }

    pub(super) fn waiting(&self) -> usize {
        self.demand.len() + self.ahead.len()
    }

    /// Takes the bytes when they are free and nobody who comes first waits.
    pub(super) fn take(&mut self, bytes: u64, lane: Lane, limit: u64) -> bool {
        let first = self.demand.is_empty() && (lane == Lane::Demand || self.ahead.is_empty());
        let takes = first && bytes <= limit - self.used;
        if takes {
            self.hold(bytes);
        }
        takes
    }

    pub(super) fn enqueue(&mut self, bytes: u64, lane: Lane, wake: Sender<Permit>) -> u64 {
        self.tickets += 1;
        let ticket = self.tickets;
        self.queue(lane).push_back(Waiter { ticket, bytes, wake });
        ticket
    }

    pub(super) fn give_back(&mut self, bytes: u64, limit: u64) -> Vec<Granted> {
        self.used -= bytes;
        self.grant(limit)
    }

    /// Removes a waiter if it is still there. Those behind it may now fit.
    pub(super) fn leave(&mut self, ticket: u64, lane: Lane, limit: u64) -> Vec<Granted> {
        let queue = self.queue(lane);
        // Tickets only grow, so each queue is sorted by them.
        match queue.binary_search_by_key(&ticket, |waiter| waiter.ticket) {
            Ok(at) => {
                queue.remove(at);
                self.grant(limit)
            }
            Err(_) => Vec::new(),
        }
    }

    fn grant(&mut self, limit: u64) -> Vec<Granted> {
        let mut granted = Vec::new();
        loop {
            let lane = if self.demand.is_empty() { Lane::Ahead } else { Lane::Demand };
            let free = limit - self.used;
            let queue = self.queue(lane);
            if queue.front().is_none_or(|first| first.bytes > free) {
                return granted;
            }
            let waiter = queue.pop_front().expect("the queue has a first");
            self.hold(waiter.bytes);
            granted.push(Granted { bytes: waiter.bytes, wake: waiter.wake });
        }
    }

    fn hold(&mut self, bytes: u64) {
        self.used += bytes;
        self.peak = self.peak.max(self.used);
    }

    fn queue(&mut self, lane: Lane) -> &mut VecDeque<Waiter> {
        match lane {
            Lane::Demand => &mut self.demand,
            Lane::Ahead => &mut self.ahead,
        }
    }
}
