//! The thread that owns the ring. Everything the kernel may touch is owned by [`Owner`] until its completion.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use io_uring::squeue::Entry;
use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, opcode};
use rustix::io::Errno;

use super::super::op::{Kind, Op};
use super::inbox::Inbox;

/// Marks the read of the bell; operations are marked with their slot.
const BELL: u64 = u64::MAX;
/// Pause after a failed `io_uring_enter` before it is tried again.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) struct Owner {
    ring: IoUring,
    inbox: Arc<Inbox>,
    /// One for each operation that may be in the ring; an operation stays until its last completion.
    slots: Vec<Option<Op>>,
    free: Vec<usize>,
    /// Slots whose next step is to be put into the submission queue.
    ready: VecDeque<usize>,
    /// Steps given to the ring, the bell's included, whose completion has not been seen.
    in_kernel: usize,
    bell_armed: bool,
    /// Where the kernel puts the bell's counter.
    bell_count: Box<UnsafeCell<u64>>,
    /// Scratch: completions between their removal from the ring and their handling.
    completed: Vec<(u64, i32)>,
    failing: bool,
}

impl Owner {
    pub(super) fn new(ring: IoUring, inbox: Arc<Inbox>, depth: u32) -> Owner {
        let depth = depth as usize;
        Owner {
            ring,
            inbox,
            slots: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
            ready: VecDeque::with_capacity(depth),
            in_kernel: 0,
            bell_armed: false,
            bell_count: Box::new(UnsafeCell::new(0)),
            completed: Vec::with_capacity(depth + 1),
            failing: false,
        }
    }

    /// Until the inbox is stopped and the kernel holds nothing more.
    pub(super) fn run(&mut self) {
        loop {
            self.admit();
            if self.inbox.is_stopping() && self.in_kernel == 0 && self.ready.is_empty() {
                // Looked at once more after the flag was seen: what comes later is refused by its sender.
                return self.inbox.refuse_all();
            }
            self.push();
            // At a full ring new work must wait in any case, so only a completion is worth waking for.
            let want = usize::from(self.free.is_empty() || self.inbox.may_sleep());
            self.enter(want);
            self.inbox.awake();
            self.reap();
            self.complete_reaped();
        }
    }

    /// Moves operations from the queue into free slots.
    fn admit(&mut self) {
        if self.inbox.is_stopping() {
            return self.inbox.refuse_all();
        }
        while let Some(&slot) = self.free.last() {
            match self.inbox.take() {
                None => break,
                Some(op) if op.is_abandoned() => op.skip(),
                Some(op) => {
                    self.slots[slot] = Some(op);
                    self.free.pop();
                    self.ready.push_back(slot);
                }
            }
        }
    }

    /// Fills the submission queue. What does not fit stays for the next round.
    fn push(&mut self) {
        let mut queue = self.ring.submission();
        if !self.bell_armed && !self.inbox.is_stopping() {
            let into = self.bell_count.get().cast::<u8>();
            let entry = opcode::Read::new(Fd(self.inbox.bell()), into, 8).build().user_data(BELL);
            // SAFETY: the eventfd is open as long as `inbox`, and the eight bytes live as long as `bell_count`; both
            // are given up only when the completion has been seen (`Drop`). Nothing else reads or writes them.
            if unsafe { queue.push(&entry) }.is_ok() {
                self.bell_armed = true;
                self.in_kernel += 1;
            }
        }
        while let Some(&slot) = self.ready.front() {
            if let Some(op) = &self.slots[slot] {
                let entry = entry(op).user_data(slot as u64);
                // SAFETY: the step lies inside the buffer that the operation owns, which neither moves nor is freed
                // while the operation lives, and which nobody else touches against it (`IoBuf`); the operation owns
                // the open file too. It stays in its slot until this step's completion has been seen.
                if unsafe { queue.push(&entry) }.is_err() {
                    break;
                }
                self.in_kernel += 1;
            }
            self.ready.pop_front();
        }
    }

    /// Submits, and waits for `want` completions.
    fn enter(&mut self, want: usize) {
        match self.ring.submit_and_wait(want) {
            Ok(_) => self.failing = false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The kernel is short of memory. What was submitted goes on; the rest is tried again.
            Err(error) => {
                if !mem::replace(&mut self.failing, true) {
                    tracing::warn!("io_uring_enter fails and is repeated: {error}");
                }
                std::thread::park_timeout(PAUSE);
            }
        }
    }

    /// Removes all completions from the ring.
    fn reap(&mut self) {
        for entry in self.ring.completion() {
            self.in_kernel -= 1;
            if entry.user_data() == BELL {
                self.bell_armed = false;
            }
            self.completed.push((entry.user_data(), entry.result()));
        }
    }

    fn complete_reaped(&mut self) {
        for number in 0..self.completed.len() {
            let (mark, answer) = self.completed[number];
            self.complete(mark, answer);
        }
        self.completed.clear();
    }

    fn complete(&mut self, mark: u64, answer: i32) {
        let slot = usize::try_from(mark).unwrap_or(usize::MAX);
        let Some(place) = self.slots.get_mut(slot) else { return };
        let Some(mut op) = place.take() else { return };
        let answer = usize::try_from(answer).map_err(|_| Errno::from_raw_os_error(answer.wrapping_neg()));
        match op.advance(answer) {
            ControlFlow::Continue(()) => {
                *place = Some(op);
                self.ready.push_back(slot);
            }
            ControlFlow::Break(result) => {
                self.free.push(slot);
                op.finish(result);
            }
        }
    }

    /// Waits until the kernel holds nothing, and drops each operation then; `false` when that cannot be learned.
    fn drain(&mut self) -> bool {
        if self.bell_armed {
            self.inbox.ring_bell();
        }
        while self.in_kernel > 0 {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return false,
                _ => self.reap(),
            }
        }
        true
    }
}

/// After a normal end there is nothing to wait for. While a panic unwinds there may be: memory must not be freed
/// under the kernel's hands, so it is waited for, and when even that fails it is leaked.
impl Drop for Owner {
    fn drop(&mut self) {
        self.inbox.stop();
        if !self.drain() {
            mem::forget(mem::take(&mut self.slots));
            mem::forget(mem::replace(&mut self.bell_count, Box::new(UnsafeCell::new(0))));
            mem::forget(Arc::clone(&self.inbox));
        }
        self.inbox.refuse_all();
    }
}

fn entry(op: &Op) -> Entry {
    let step = op.step();
    let fd = Fd(op.fd().as_raw_fd());
    // A step is at most 1 GiB.
    let len = u32::try_from(step.len).unwrap_or(u32::MAX);
    match step.kind {
        Kind::Read => opcode::Read::new(fd, step.ptr, len).offset(step.offset).build(),
        Kind::Write => opcode::Write::new(fd, step.ptr, len).offset(step.offset).build(),
        Kind::Sync => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
    }
}
