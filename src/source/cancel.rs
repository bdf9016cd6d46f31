//! Telling a running read to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// A flag that can be awaited. Clones share it; once set it stays set.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<State>);

#[derive(Debug, Default)]
struct State {
    set: AtomicBool,
    wake: Notify,
}

impl Cancel {
    /// A flag that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the flag and wakes everyone who waits for it.
    pub fn cancel(&self) {
        self.0.set.store(true, Ordering::Release);
        self.0.wake.notify_waiters();
    }

    /// Whether the flag is set.
    pub fn is_cancelled(&self) -> bool {
        self.0.set.load(Ordering::Acquire)
    }

    /// Returns once the flag is set.
    pub async fn cancelled(&self) {
        let mut woken = std::pin::pin!(self.0.wake.notified());
        // Registered before the flag is looked at, so a call in between is not missed.
        woken.as_mut().enable();
        if !self.is_cancelled() {
            woken.await;
        }
    }
}
