//! The engine on io_uring: one thread owns the ring, callers put operations into a queue.
//!
//! The thread sleeps in `io_uring_enter`. A read of an eventfd is always in the ring, so new work ends the sleep
//! like any completion does; the eventfd is written only when the thread says that it sleeps, which under load
//! saves the call. With `depth` operations in the ring the thread takes no more from the queue until one completes,
//! so neither of the kernel's queues can overflow.

mod inbox;
mod owner;
mod setup;

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use self::inbox::Inbox;
use self::owner::Owner;
use super::engine::Shared;
use super::op::Op;
use super::probe::words;

pub(super) struct Uring {
    inbox: Arc<Inbox>,
}

impl Uring {
    /// Starts the owner thread; the error is the reason why io_uring cannot be used here.
    pub(super) fn start(depth: u32, shared: &Arc<Shared>) -> Result<Uring, String> {
        let inbox = Inbox::new().map_err(|error| format!("eventfd: {}", words(&error)))?;
        let inbox = Arc::new(inbox);
        let (tell, told) = sync_channel(1);
        let guard = shared.thread();
        let theirs = Arc::clone(&inbox);
        let own = move || {
            let _guard = guard;
            // The ring is made here because the kernel binds it to the thread that makes it.
            match setup::ring(depth) {
                Ok(ring) => {
                    let mut owner = Owner::new(ring, theirs, depth);
                    drop(tell.send(Ok(())));
                    owner.run();
                }
                Err(reason) => drop(tell.send(Err(reason))),
            }
        };
        let builder = std::thread::Builder::new().name("disk-io-uring".to_owned()).stack_size(256 << 10);
        builder.spawn(own).map_err(|error| format!("thread: {}", words(&error)))?;
        told.recv().unwrap_or_else(|_| Err("its thread ended at the start".to_owned()))?;
        Ok(Uring { inbox })
    }

    pub(super) fn submit(&self, op: Op) {
        self.inbox.put(op);
    }

    pub(super) fn stop(&self) {
        self.inbox.stop();
    }
}
