//! The meeting of all ranks at the end of each epoch.
//!
//! A barrier that ranks may leave: one that fails or ends early must not keep the others waiting for ever.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct State {
    members: usize,
    arrived: usize,
    meeting: u64,
    broken: bool,
}

pub(super) struct Gate {
    state: Mutex<State>,
    opened: Condvar,
}

/// What a rank does after a meeting.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// All are there.
    Open,
    /// Another rank has failed: stop.
    Broken,
}

impl Gate {
    pub(super) fn new(members: usize) -> Self {
        Self { state: Mutex::new(State { members, ..State::default() }), opened: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all members. The last one to come runs `close` before anybody goes on; if that fails, the gate breaks.
    pub(super) fn meet<E>(&self, close: impl FnOnce() -> Result<(), E>) -> Result<Pass, E> {
        let mut state = self.lock();
        state.arrived += 1;
        let meeting = state.meeting;
        while !state.broken && state.meeting == meeting {
            if state.arrived >= state.members {
                let closed = close();
                state.broken |= closed.is_err();
                state.arrived = 0;
                state.meeting += 1;
                self.opened.notify_all();
                closed?;
                break;
            }
            state = self.opened.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(if state.broken { Pass::Broken } else { Pass::Open })
    }

    /// A member goes for good; `failed` breaks the gate for the others.
    pub(super) fn leave(&self, failed: bool) {
        let mut state = self.lock();
        state.members -= 1;
        state.broken |= failed;
        self.opened.notify_all();
    }

    pub(super) fn is_broken(&self) -> bool {
        self.lock().broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn exactly_one_member_closes_each_meeting() {
        let (gate, closed) = (Gate::new(4), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let pass = gate.meet(|| {
                            closed.fetch_add(1, Ordering::Relaxed);
                            Ok::<(), ()>(())
                        });
                        assert_eq!(pass, Ok(Pass::Open));
                    }
                });
            }
        });
        assert_eq!(closed.into_inner(), 50);
    }

    #[test]
    fn a_member_that_leaves_is_not_waited_for() {
        let gate = Gate::new(2);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.meet(|| Ok::<(), ()>(())));
            gate.leave(false);
            assert_eq!(waiting.join().unwrap(), Ok(Pass::Open));
        });
    }

    #[test]
    fn a_failed_member_or_close_stops_the_others() {
        let gate = Gate::new(2);
        gate.leave(true);
        assert_eq!(gate.meet(|| Ok::<(), ()>(())), Ok(Pass::Broken));
        let gate = Gate::new(1);
        assert_eq!(gate.meet(|| Err("no status")), Err("no status"));
        assert!(gate.is_broken());
    }
}
