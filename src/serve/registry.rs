//! The streams that are open, for status and metrics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What a stream waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Waits {
    /// Nothing: it is at work.
    Nothing = 0,
    /// Records that are not known yet: the store, or a scan.
    Store = 1,
    /// Blocks: cache or store.
    Blocks = 2,
    /// Enough is ready; the trainer takes its time.
    Trainer = 3,
    /// The stream's share of the pool is used up by batches that the trainer keeps.
    Leases = 4,
    /// All that the pool has for streams is held by others.
    Pool = 6,
    /// The stream is over; the trainer still holds batches.
    End = 5,
}

impl Waits {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Store => "store",
            Self::Blocks => "blocks",
            Self::Trainer => "trainer",
            Self::Leases => "leases: the trainer holds too many batches",
            Self::Pool => "pool: other streams hold all of it; raise pool.bytes",
            Self::End => "end",
        }
    }

    fn of(number: u8) -> Self {
        [Self::Nothing, Self::Store, Self::Blocks, Self::Trainer, Self::Leases, Self::End, Self::Pool]
            .into_iter()
            .find(|waits| *waits as u8 == number)
            .unwrap_or(Self::Nothing)
    }
}

/// One open stream.
#[derive(Debug)]
pub(super) struct StreamInfo {
    pub(super) id: u64,
    pub(super) about: Opening,
    pub(super) opened: Instant,
    pub(super) epoch: AtomicU64,
    pub(super) batches: AtomicU64,
    pub(super) records: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) skipped: AtomicU64,
    pub(super) ready: AtomicU64,
    pub(super) held: AtomicU64,
    pub(super) leased: AtomicU64,
    pub(super) lease_limit: AtomicU64,
    pub(super) waited_nanos: AtomicU64,
    waits: AtomicU8,
}

impl StreamInfo {
    pub(super) fn set_waits(&self, waits: Waits) {
        self.waits.store(waits as u8, Relaxed);
    }

    pub(super) fn waits(&self) -> Waits {
        Waits::of(self.waits.load(Relaxed))
    }
}

/// What is said of a stream when it opens.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) job: String,
    pub(super) dataset: String,
    pub(super) label: String,
    pub(super) rank: u32,
    pub(super) world_size: u32,
    pub(super) pid: u32,
    pub(super) uid: u32,
}

/// What the streams of one label have done, the closed ones included.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    pub(super) open: u64,
    pub(super) batches: u64,
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) skipped: u64,
    pub(super) waited_nanos: u64,
}

impl Totals {
    fn add(&mut self, stream: &StreamInfo) {
        self.batches += stream.batches.load(Relaxed);
        self.records += stream.records.load(Relaxed);
        self.bytes += stream.bytes.load(Relaxed);
        self.skipped += stream.skipped.load(Relaxed);
        self.waited_nanos += stream.waited_nanos.load(Relaxed);
    }
}

/// All open streams.
#[derive(Debug, Default)]
pub(super) struct Registry {
    closed: Mutex<BTreeMap<String, Totals>>,
    streams: Mutex<BTreeMap<u64, Arc<StreamInfo>>>,
    next: AtomicU64,
}

/// An entry in the registry; dropping it removes the stream.
#[derive(Debug)]
pub(super) struct Entry {
    registry: Arc<Registry>,
    pub(super) info: Arc<StreamInfo>,
}

impl Registry {
    pub(super) fn enter(self: &Arc<Self>, opening: Opening) -> Entry {
        let id = self.next.fetch_add(1, Relaxed) + 1;
        let zero = || AtomicU64::new(0);
        let info = Arc::new(StreamInfo {
            id,
            about: opening,
            opened: Instant::now(),
            epoch: zero(),
            batches: zero(),
            records: zero(),
            bytes: zero(),
            skipped: zero(),
            ready: zero(),
            held: zero(),
            leased: zero(),
            lease_limit: zero(),
            waited_nanos: zero(),
            waits: AtomicU8::new(0),
        });
        self.lock().insert(id, Arc::clone(&info));
        Entry { registry: Arc::clone(self), info }
    }

    pub(super) fn list(&self) -> Vec<Arc<StreamInfo>> {
        self.lock().values().cloned().collect()
    }

    /// Sums by label.
    pub(super) fn totals(&self) -> BTreeMap<String, Totals> {
        let streams = self.lock();
        let mut totals = self.closed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let open: Vec<_> = streams.values().cloned().collect();
        for stream in open {
            let entry = totals.entry(stream.about.label.clone()).or_default();
            entry.open += 1;
            entry.add(&stream);
        }
        totals
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<StreamInfo>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // Both locks, in the order of `totals`: a stream is never counted twice or not at all.
        let mut streams = self.registry.lock();
        streams.remove(&self.info.id);
        let mut closed = self.registry.closed.lock().unwrap_or_else(PoisonError::into_inner);
        closed.entry(self.info.about.label.clone()).or_default().add(&self.info);
    }
}
