//! The threads and the life of a job on them.

use super::job::{Done, FetchStats, Job, JobId};
use super::queue::Queue;
use crate::source::{Cancel, Origin, OriginId, SourceError, Store, Stores, read_range_until};
use futures_util::FutureExt;
use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::LocalSet;

/// How long a shutdown waits for file reads that hang in the kernel.
const LAST_READS: Duration = Duration::from_secs(2);

/// Threads for `prefetch.threads = "auto"`: three per GPU, or one per CPU without GPUs; never more than the CPUs that
/// may be used, and within 2..=32.
pub fn auto_threads(gpus: usize, allowed_cpus: usize) -> usize {
    let wanted = if gpus > 0 { gpus.saturating_mul(3) } else { allowed_cpus };
    wanted.min(allowed_cpus).clamp(2, 32)
}

/// N prefetch threads; see the [module](super) for how they work. Dropping it shuts them down.
#[derive(Debug)]
pub struct FetchThreads {
    queue: Arc<Queue>,
    stats: Arc<FetchStats>,
    stop: Cancel,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl FetchThreads {
    /// Starts `threads` threads (at least one) with up to `requests_per_thread` reads each (at least one).
    ///
    /// # Errors
    /// The system's, if a thread or its runtime cannot be made.
    pub fn start(threads: usize, requests_per_thread: usize, stores: Stores) -> std::io::Result<Self> {
        let stats = Arc::new(FetchStats::default());
        let queue = Arc::new(Queue::new(stats.clone()));
        let started = Self { queue, stats, stop: Cancel::new(), threads: Mutex::default() };
        for number in 0..threads.max(1) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let worker = Worker {
                queue: started.queue.clone(),
                stats: started.stats.clone(),
                stop: started.stop.clone(),
                stores: stores.clone(),
                open: RefCell::default(),
            };
            let thread =
                std::thread::Builder::new().name(format!("feedline-fetch-{number}")).spawn(move || {
                    LocalSet::new().block_on(&runtime, Rc::new(worker).run(requests_per_thread.max(1)));
                    runtime.shutdown_timeout(LAST_READS);
                })?;
            started.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(started)
    }

    /// Queues a job. After [`Self::shutdown`] its `done` is called at once, with [`SourceError::Cancelled`].
    pub fn submit(&self, job: Job) -> JobId {
        self.queue.push(job).unwrap_or_else(|job| {
            abandon(*job, &self.stats);
            JobId(u64::MAX)
        })
    }

    /// Makes a queued job urgent. False if it is running, finished, or urgent already.
    pub fn promote(&self, id: JobId) -> bool {
        self.queue.promote(id)
    }

    /// What the threads have done and are doing.
    pub fn stats(&self) -> &Arc<FetchStats> {
        &self.stats
    }

    /// Gives up all jobs, queued and running, and waits until every `done` was called and the threads have ended.
    /// Must not be called from a sink or a `done`.
    pub fn shutdown(&self) {
        self.stop.cancel();
        for job in self.queue.close() {
            abandon(job, &self.stats);
        }
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a prefetch thread panicked outside of a job");
            }
        }
    }
}

impl Drop for FetchThreads {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// Answers a job that will not run.
fn abandon(job: Job, stats: &FetchStats) {
    let Job { object, sink, done, .. } = job;
    drop(sink);
    finish(done, Err(SourceError::Cancelled { url: object.url.clone() }), stats);
}

/// Calls `done`, whose panic must not take the thread along.
fn finish(done: Done, result: Result<(), SourceError>, stats: &FetchStats) {
    let counter = match &result {
        Ok(()) => &stats.completed,
        Err(SourceError::Cancelled { .. }) => &stats.cancelled,
        Err(_) => &stats.failed,
    };
    FetchStats::add(counter, 1);
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| done(result))) {
        FetchStats::add(&stats.panicked, 1);
        tracing::error!(message = panic_text(panic.as_ref()), "the end of a fetch panicked");
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

struct Worker {
    queue: Arc<Queue>,
    stats: Arc<FetchStats>,
    stop: Cancel,
    stores: Stores,
    open: RefCell<HashMap<OriginId, Store>>,
}

impl Worker {
    async fn run(self: Rc<Self>, requests: usize) {
        let places = Arc::new(Semaphore::new(requests));
        loop {
            // The place comes first: a job is not taken from the shared queue to wait in this thread.
            let place = places.clone().acquire_owned().await.expect("the semaphore is never closed");
            let Some(job) = self.queue.pop().await else {
                break;
            };
            let worker = self.clone();
            tokio::task::spawn_local(async move {
                worker.job(job).await;
                drop(place);
            });
        }
        let all = u32::try_from(requests).unwrap_or(u32::MAX);
        let _ended = places.acquire_many(all).await;
    }

    async fn job(&self, job: Job) {
        FetchStats::add(&self.stats.running, 1);
        let Job { object, range, mut sink, done, cancel, .. } = job;
        let length = range.end.saturating_sub(range.start);
        let read = async {
            let store = self.store(&object.origin)?;
            let mut offset = 0;
            read_range_until(&store, &object, range, &cancel, |piece| {
                sink(offset, piece);
                offset += piece.len() as u64;
            })
            .await
        };
        let url = || object.url.clone();
        let result = tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(SourceError::Cancelled { url: url() }),
            () = cancel.cancelled() => Err(SourceError::Cancelled { url: url() }),
            outcome = AssertUnwindSafe(read).catch_unwind() => outcome.unwrap_or_else(|panic| {
                FetchStats::add(&self.stats.panicked, 1);
                Err(SourceError::Panicked { url: url(), message: panic_text(panic.as_ref()) })
            }),
        };
        drop(sink);
        if result.is_ok() {
            FetchStats::add(&self.stats.bytes, length);
        }
        FetchStats::less(&self.stats.running);
        finish(done, result, &self.stats);
    }

    /// This thread's store for an origin, opened at first use.
    fn store(&self, origin: &Arc<Origin>) -> Result<Store, SourceError> {
        if let Some(store) = self.open.borrow().get(origin) {
            return Ok(store.clone());
        }
        let store = self.stores.open(origin)?;
        self.open.borrow_mut().insert(origin.clone(), store.clone());
        Ok(store)
    }
}
