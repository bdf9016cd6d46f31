//! What both engines share, and the choice between them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::error::RingError;
use super::op::Op;
use super::threads::Threads;
use super::uring::Uring;

/// The option `io.engine`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineChoice {
    /// io_uring when it can be used, else threads.
    #[default]
    Auto,
    /// io_uring, or an error.
    IoUring,
    /// The thread pool.
    Threads,
}

/// Totals of a ring. Relaxed counters: each is exact, together they are not a snapshot.
#[derive(Debug, Default)]
pub struct RingStats {
    /// Reads that ended well.
    pub reads: AtomicU64,
    /// Bytes they gave.
    pub read_bytes: AtomicU64,
    /// Writes that ended well.
    pub writes: AtomicU64,
    /// Bytes they wrote.
    pub written_bytes: AtomicU64,
    /// Syncs that ended well.
    pub syncs: AtomicU64,
    /// Operations that the system answered with an error.
    pub errors: AtomicU64,
    /// Operations not started because their caller had gone.
    pub skipped: AtomicU64,
}

/// State that operations, engine threads and handles have in common.
pub(super) struct Shared {
    /// Most bytes for one system call.
    pub(super) step: usize,
    pub(super) stats: RingStats,
    in_flight: AtomicUsize,
    /// Engine threads that are still running.
    running: Mutex<usize>,
    ended: Condvar,
}

impl Shared {
    pub(super) fn new(step: usize) -> Self {
        Shared {
            step,
            stats: RingStats::default(),
            in_flight: AtomicUsize::new(0),
            running: Mutex::new(0),
            ended: Condvar::new(),
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    pub(super) fn entered(&self) {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn left(&self) {
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
    }

    fn running(&self) -> MutexGuard<'_, usize> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Taken for each engine thread before it is spawned, and held by it until its end.
    pub(super) fn thread(self: &Arc<Self>) -> ThreadGuard {
        *self.running() += 1;
        ThreadGuard(Arc::clone(self))
    }

    pub(super) fn wait_until_ended(&self) {
        let mut running = self.running();
        while *running > 0 {
            running = self.ended.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

pub(super) struct ThreadGuard(Arc<Shared>);

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        *self.0.running() -= 1;
        self.0.ended.notify_all();
    }
}

pub(super) enum Engine {
    Uring(Uring),
    Threads(Threads),
}

impl Engine {
    /// Starts the engine of `choice`. `why` gets a sentence when it is not the best one.
    pub(super) fn start(
        choice: EngineChoice,
        depth: u32,
        shared: &Arc<Shared>,
        why: &mut Vec<String>,
    ) -> Result<Engine, RingError> {
        match choice {
            EngineChoice::Auto | EngineChoice::IoUring => match Uring::start(depth, shared) {
                Ok(uring) => return Ok(Engine::Uring(uring)),
                Err(reason) if choice == EngineChoice::IoUring => {
                    return Err(RingError::Unavailable { reason });
                }
                Err(reason) => why.push(reason),
            },
            EngineChoice::Threads => why.push("chosen by io.engine".to_owned()),
        }
        Ok(Engine::Threads(Threads::start(depth, shared)?))
    }

    /// As in `ProbeReport::engine`.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Engine::Uring(_) => "io_uring",
            Engine::Threads(_) => "threads",
        }
    }

    /// Takes the operation; it is answered in any case.
    pub(super) fn submit(&self, op: Op) {
        match self {
            Engine::Uring(uring) => uring.submit(op),
            Engine::Threads(threads) => threads.submit(op),
        }
    }

    /// Begins the end of the engine and does not wait for it.
    pub(super) fn stop(&self) {
        match self {
            Engine::Uring(uring) => uring.stop(),
            Engine::Threads(threads) => threads.stop(),
        }
    }
}
