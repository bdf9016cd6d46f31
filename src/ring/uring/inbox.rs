//! The queue between callers and the owner thread, and the agreement about sleep.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

use crossbeam::queue::SegQueue;
use rustix::event::{EventfdFlags, eventfd};

use super::super::op::Op;

pub(super) struct Inbox {
    queue: SegQueue<Op>,
    /// The owner is asleep, or has decided to be, and wants to know of new work.
    sleeping: AtomicBool,
    stopping: AtomicBool,
    bell: OwnedFd,
}

impl Inbox {
    pub(super) fn new() -> io::Result<Inbox> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Inbox {
            queue: SegQueue::new(),
            sleeping: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            bell,
        })
    }

    /// Takes the operation, which is answered in any case.
    pub(super) fn put(&self, op: Op) {
        self.queue.push(op);
        // Pairs with the fence in `may_sleep`: either the owner sees the operation there, or its wish is seen here.
        fence(Ordering::SeqCst);
        if self.is_stopping() {
            // The owner may have gone; after the fence each side sees either the flag or the operation.
            self.refuse_all();
        } else if self.sleeping.swap(false, Ordering::SeqCst) {
            self.ring_bell();
        }
    }

    pub(super) fn take(&self) -> Option<Op> {
        self.queue.pop()
    }

    /// Drops what is queued, which answers it.
    pub(super) fn refuse_all(&self) {
        while let Some(op) = self.queue.pop() {
            drop(op);
        }
    }

    pub(super) fn stop(&self) {
        if !self.stopping.swap(true, Ordering::SeqCst) {
            self.ring_bell();
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// The owner's question before it sleeps with room for more work. After `true`, the next `put` rings the bell.
    pub(super) fn may_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.queue.is_empty() {
            return true;
        }
        self.awake();
        false
    }

    pub(super) fn awake(&self) {
        self.sleeping.store(false, Ordering::SeqCst);
    }

    pub(super) fn ring_bell(&self) {
        // One at a time cannot bring the counter to its top, where a write would wait.
        if let Err(error) = rustix::io::write(&self.bell, &1u64.to_ne_bytes()) {
            tracing::error!("cannot wake the disk thread: {error}");
        }
    }

    /// The eventfd, open as long as the inbox.
    pub(super) fn bell(&self) -> RawFd {
        self.bell.as_raw_fd()
    }
}
