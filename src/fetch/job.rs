//! What the threads are asked to do, and what they have done.

use crate::source::{Cancel, Object, SourceError};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Takes the bytes of a job: offset within the job's range, and the piece. Offsets are contiguous from 0, each byte
/// comes once, and after an error no more come.
pub type Sink = Box<dyn FnMut(u64, &[u8]) + Send>;
/// Called once, on the fetch thread, when all bytes have arrived or none will any more.
pub type Done = Box<dyn FnOnce(Result<(), SourceError>) + Send>;

/// Names a submitted job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub(crate) u64);

/// How urgent a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Someone waits for it.
    Demand,
    /// It will be needed.
    Ahead,
}

/// A range of an object to be read.
pub struct Job {
    /// The object.
    pub object: Arc<Object>,
    /// Bytes of the object.
    pub range: Range<u64>,
    /// How urgent it is.
    pub lane: Lane,
    /// Takes the bytes. Dropped before `done` is called.
    pub sink: Sink,
    /// Takes the result; [`SourceError::Cancelled`] also if the threads shut down before the job's end.
    pub done: Done,
    /// Set it to give the job up, queued or running.
    pub cancel: Cancel,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("url", &self.object.url)
            .field("range", &self.range)
            .field("lane", &self.lane)
            .finish_non_exhaustive()
    }
}

/// Counters and gauges of the threads; read with [`FetchStats::snapshot`].
#[derive(Debug, Default)]
pub struct FetchStats {
    pub(crate) queued_demand: AtomicU64,
    pub(crate) queued_ahead: AtomicU64,
    pub(crate) running: AtomicU64,
    pub(crate) completed: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) panicked: AtomicU64,
    pub(crate) promoted: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// The values of [`FetchStats`] at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FetchCounts {
    /// Jobs waiting in the demand lane now.
    pub queued_demand: u64,
    /// Jobs waiting in the ahead lane now.
    pub queued_ahead: u64,
    /// Jobs being read now.
    pub running: u64,
    /// Jobs that delivered all bytes.
    pub completed: u64,
    /// Jobs that ended in an error, panics included.
    pub failed: u64,
    /// Jobs given up by their owner or by the shutdown.
    pub cancelled: u64,
    /// Jobs whose sink or end panicked.
    pub panicked: u64,
    /// Jobs moved to the demand lane.
    pub promoted: u64,
    /// Bytes of completed jobs.
    pub bytes: u64,
}

impl FetchStats {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn less(gauge: &AtomicU64) {
        gauge.fetch_sub(1, Ordering::Relaxed);
    }

    /// All values, each read on its own: they may be a few events apart.
    pub fn snapshot(&self) -> FetchCounts {
        let get = |value: &AtomicU64| value.load(Ordering::Relaxed);
        FetchCounts {
            queued_demand: get(&self.queued_demand),
            queued_ahead: get(&self.queued_ahead),
            running: get(&self.running),
            completed: get(&self.completed),
            failed: get(&self.failed),
            cancelled: get(&self.cancelled),
            panicked: get(&self.panicked),
            promoted: get(&self.promoted),
            bytes: get(&self.bytes),
        }
    }
}
