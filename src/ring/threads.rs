//! The engine without io_uring: threads that block in `pread` and `pwrite`.

use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam::channel::{Receiver, Sender, unbounded};
use rustix::io::Errno;

use super::engine::Shared;
use super::error::RingError;
use super::op::{Kind, Op};

/// More threads than this bring no more from one device and cost switches.
const MOST_THREADS: u32 = 16;
/// A worker's stack: system calls and the drop of a buffer.
const STACK_BYTES: usize = 256 << 10;

enum Work {
    Op(Op),
    Stop,
}

pub(super) struct Threads {
    sender: Sender<Work>,
    /// Only to clear out what came after the end.
    receiver: Receiver<Work>,
    stopping: Arc<AtomicBool>,
    count: u32,
}

impl Threads {
    pub(super) fn start(depth: u32, shared: &Arc<Shared>) -> Result<Threads, RingError> {
        let (sender, receiver) = unbounded();
        let stopping = Arc::new(AtomicBool::new(false));
        let mut threads = Threads { sender, receiver, stopping, count: 0 };
        for number in 0..depth.min(MOST_THREADS) {
            let receiver = threads.receiver.clone();
            let stopping = Arc::clone(&threads.stopping);
            let guard = shared.thread();
            let worker = move || {
                let _guard = guard;
                work(&receiver, &stopping);
            };
            let builder =
                std::thread::Builder::new().name(format!("disk-io-{number}")).stack_size(STACK_BYTES);
            match builder.spawn(worker) {
                Ok(_) => threads.count += 1,
                // A pool that is smaller than wished for still works.
                Err(_) if threads.count > 0 => break,
                Err(source) => return Err(RingError::Thread { source }),
            }
        }
        Ok(threads)
    }

    pub(super) fn submit(&self, op: Op) {
        // The channel cannot be closed while `self` holds both ends; if it were, the operation answers by its drop.
        drop(self.sender.send(Work::Op(op)));
        // Sent behind the last `Stop`: no worker may be left to take it.
        if self.stopping.load(Ordering::SeqCst) {
            self.refuse_queued();
        }
    }

    pub(super) fn stop(&self) {
        if !self.stopping.swap(true, Ordering::SeqCst) {
            self.refuse_queued();
            for _ in 0..self.count {
                drop(self.sender.send(Work::Stop));
            }
        }
    }

    /// Drops queued operations, which answers them, and leaves the workers' orders to stop in the queue.
    fn refuse_queued(&self) {
        let mut stops = 0;
        while let Ok(work) = self.receiver.try_recv() {
            match work {
                Work::Op(op) => drop(op),
                Work::Stop => stops += 1,
            }
        }
        for _ in 0..stops {
            drop(self.sender.send(Work::Stop));
        }
    }
}

fn work(receiver: &Receiver<Work>, stopping: &AtomicBool) {
    while let Ok(Work::Op(op)) = receiver.recv() {
        if stopping.load(Ordering::SeqCst) {
            drop(op);
        } else if op.is_abandoned() {
            op.skip();
        } else {
            run(op);
        }
    }
}

fn run(mut op: Op) {
    loop {
        let answer = call(&op);
        if let ControlFlow::Break(result) = op.advance(answer) {
            return op.finish(result);
        }
    }
}

fn call(op: &Op) -> Result<usize, Errno> {
    let step = op.step();
    match step.kind {
        Kind::Read => {
            // SAFETY: the step lies inside the buffer that `op` owns, which stays mapped while `op` lives and which
            // nobody else touches during a read (`IoBuf`). Whether it is initialised does not matter here.
            let into =
                unsafe { std::slice::from_raw_parts_mut(step.ptr.cast::<MaybeUninit<u8>>(), step.len) };
            let (read, _rest) = rustix::io::pread(op.fd(), into, step.offset)?;
            Ok(read.len())
        }
        Kind::Write => {
            // SAFETY: as above; nobody changes the range during a write (`IoBuf`), and its bytes were given by the
            // caller to be written, so they are initialised.
            let from = unsafe { std::slice::from_raw_parts(step.ptr.cast_const(), step.len) };
            rustix::io::pwrite(op.fd(), from, step.offset)
        }
        Kind::Sync => rustix::fs::fdatasync(op.fd()).map(|()| 0),
    }
}
