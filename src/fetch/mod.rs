//! The prefetch threads: many ranged reads at once, each finished where it was started.
//!
//! # What
//! [`FetchThreads`] runs N operating-system threads, named `feedline-fetch-0` and so on. Each has a single-threaded
//! runtime and stores of its own, so a connection, its buffers and the code that consumes its bytes stay on one core.
//! A [`Job`] is a range of an object, a sink for its bytes and a function for its end.
//!
//! # Why it is built this way
//! - The sink and the end run on the fetch thread: bytes are copied and checked while they are in that core's cache,
//!   and the threads scale the checking together with the reading.
//! - One queue for all threads with two lanes. What a trainer waits for (`Demand`) goes before what it will need
//!   (`Ahead`), first in first out within a lane; [`FetchThreads::promote`] moves a queued job when a guess has become
//!   urgent. A thread takes a job only when one of its `requests_per_thread` places is free, so urgent work is never
//!   stuck behind a thread's private backlog.
//! - Nothing is bounded here. Whoever submits has reserved the memory for the bytes before, and thereby the queue.
//! - Idle threads sleep in the kernel; a counting semaphore hands each job to exactly one of them.
//! - A panic in a sink ends that job with an error, not the thread.
//!
//! # Limits
//! Between two pieces a job can be cancelled at once, but not inside the sink. Each thread has its own connections to a
//! store: N threads with r requests hold up to N × r of them.

mod job;
mod queue;
#[cfg(test)]
mod tests;
mod threads;

pub use job::{Done, FetchCounts, FetchStats, Job, JobId, Lane, Sink};
pub use threads::{FetchThreads, auto_threads};
