//! The two-lane queue that all threads share.

use super::job::{FetchStats, Job, JobId, Lane};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;

#[derive(Debug)]
pub(crate) struct Queue {
    lanes: Mutex<Lanes>,
    /// One permit per queued job. A sleeping thread is woken for exactly one job; none is lost or handed out twice.
    ready: Semaphore,
    stats: Arc<FetchStats>,
}

#[derive(Debug, Default)]
struct Lanes {
    demand: VecDeque<(JobId, Job)>,
    ahead: VecDeque<(JobId, Job)>,
    next: u64,
    closed: bool,
}

impl Queue {
    pub(crate) fn new(stats: Arc<FetchStats>) -> Self {
        Self { lanes: Mutex::default(), ready: Semaphore::new(0), stats }
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        // Nothing under this lock can panic half-way, so a poisoned queue is still a whole one.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job at the end of its lane; hands it back if the queue is closed.
    pub(crate) fn push(&self, job: Job) -> Result<JobId, Box<Job>> {
        let mut lanes = self.lanes();
        if lanes.closed {
            return Err(Box::new(job));
        }
        let id = JobId(lanes.next);
        lanes.next += 1;
        match job.lane {
            Lane::Demand => {
                lanes.demand.push_back((id, job));
                FetchStats::add(&self.stats.queued_demand, 1);
            }
            Lane::Ahead => {
                lanes.ahead.push_back((id, job));
                FetchStats::add(&self.stats.queued_ahead, 1);
            }
        }
        drop(lanes);
        self.ready.add_permits(1);
        Ok(id)
    }

    /// Moves a job that waits in the ahead lane to the end of the demand lane. False if it is not there (any more).
    pub(crate) fn promote(&self, id: JobId) -> bool {
        let mut lanes = self.lanes();
        // Ids grow along a lane, since jobs only ever join it at the end.
        let Ok(position) = lanes.ahead.binary_search_by_key(&id, |(id, _)| *id) else {
            return false;
        };
        let Some((id, mut job)) = lanes.ahead.remove(position) else {
            return false;
        };
        job.lane = Lane::Demand;
        lanes.demand.push_back((id, job));
        FetchStats::less(&self.stats.queued_ahead);
        FetchStats::add(&self.stats.queued_demand, 1);
        FetchStats::add(&self.stats.promoted, 1);
        true
    }

    /// The next job, most urgent first; waits for one. `None` once the queue is closed.
    pub(crate) async fn pop(&self) -> Option<Job> {
        self.ready.acquire().await.ok()?.forget();
        self.take()
    }

    fn take(&self) -> Option<Job> {
        let mut lanes = self.lanes();
        if let Some((_, job)) = lanes.demand.pop_front() {
            FetchStats::less(&self.stats.queued_demand);
            return Some(job);
        }
        let (_, job) = lanes.ahead.pop_front()?;
        FetchStats::less(&self.stats.queued_ahead);
        Some(job)
    }

    /// Refuses further jobs, wakes all threads, and hands out what nobody has taken.
    pub(crate) fn close(&self) -> Vec<Job> {
        self.lanes().closed = true;
        self.ready.close();
        std::iter::from_fn(|| self.take()).collect()
    }
}
