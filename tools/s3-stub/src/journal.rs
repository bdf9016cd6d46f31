//! What happened: one entry per request, and sums that a test can wait for.

use crate::s3::Operation;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One request.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct LogEntry {
    /// Counts from 1 since the stub's start.
    pub number: u64,
    /// Which connection it came on; counts from 1.
    pub connection: u64,
    /// Since the stub's start.
    pub at: Duration,
    /// The HTTP method.
    pub method: String,
    /// What was asked for; `None` if that could not be understood.
    pub operation: Option<Operation>,
    /// The bucket.
    pub bucket: String,
    /// The key, or the prefix of a listing.
    pub key: String,
    /// The query as sent.
    pub query: String,
    /// The `Range` header as sent.
    pub range: Option<String>,
    /// The `If-Match` header as sent.
    pub if_match: Option<String>,
    /// The status answered; 0 if there was none.
    pub status: u16,
    /// Error code in the body, if any.
    pub code: Option<String>,
    /// Body bytes handed to the connection so far.
    pub bytes: u64,
    /// Whether the whole body was handed over.
    pub complete: bool,
    /// The faults that were applied, in the words of the shorthand.
    pub faults: Vec<String>,
}

/// Sums over all requests since the start or the last reset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Requests of any kind.
    pub requests: u64,
    /// Object reads, ranged or not.
    pub gets: u64,
    /// Object HEADs.
    pub heads: u64,
    /// Listing pages.
    pub lists: u64,
    /// Object writes, parts included.
    pub puts: u64,
    /// Everything else.
    pub others: u64,
    /// Body bytes handed to connections for `gets`.
    pub get_bytes: u64,
    /// Body bytes handed to connections, all kinds.
    pub bytes: u64,
    /// Body bytes received.
    pub received: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Replies with status 400 and above.
    pub errors: u64,
    /// Requests that a fault rule applied to.
    pub faulted: u64,
    /// Replies that ended before their last byte.
    pub cut: u64,
}

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    log: VecDeque<LogEntry>,
    numbered: u64,
    connections: u64,
}

impl State {
    /// Changes an entry, if it is still kept. Numbers in the log have no gaps, so its place is known.
    fn update(&mut self, number: u64, change: impl FnOnce(&mut LogEntry)) {
        let place = self.log.front().and_then(|first| number.checked_sub(first.number));
        if let Some(entry) = place.and_then(|at| self.log.get_mut(usize::try_from(at).ok()?)) {
            change(entry);
        }
    }
}

/// The log and the sums.
#[derive(Debug)]
pub(crate) struct Journal {
    state: Mutex<State>,
    changed: Condvar,
    limit: usize,
    start: Instant,
}

impl Journal {
    /// Keeps at most `limit` entries; older ones are dropped.
    pub(crate) fn new(limit: usize) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), limit, start: Instant::now() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counters and a list of finished entries: nothing in it can be half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    pub(crate) fn connected(&self) -> u64 {
        self.change(|state| {
            state.counts.connections += 1;
            state.connections += 1;
            state.connections
        })
    }

    /// Enters a request that has arrived, with its number and time, and returns the number.
    pub(crate) fn arrived(&self, mut entry: LogEntry) -> u64 {
        self.change(|state| {
            state.numbered += 1;
            entry.number = state.numbered;
            entry.at = self.start.elapsed();
            state.counts.requests += 1;
            *match entry.operation {
                Some(Operation::Get) => &mut state.counts.gets,
                Some(Operation::Head) => &mut state.counts.heads,
                Some(Operation::List) => &mut state.counts.lists,
                Some(Operation::Put | Operation::Part) => &mut state.counts.puts,
                _ => &mut state.counts.others,
            } += 1;
            if self.limit > 0 {
                if state.log.len() == self.limit {
                    state.log.pop_front();
                }
                state.log.push_back(entry);
            }
            state.numbered
        })
    }

    /// Adds payload bytes received.
    pub(crate) fn received(&self, bytes: u64) {
        self.change(|state| state.counts.received += bytes);
    }

    /// Notes the faults chosen for a request.
    pub(crate) fn faulted(&self, number: u64, faults: Vec<String>) {
        if !faults.is_empty() {
            self.change(|state| {
                state.counts.faulted += 1;
                state.update(number, |entry| entry.faults = faults);
            });
        }
    }

    /// Notes what a request is answered; the body is still to come.
    pub(crate) fn answered(&self, number: u64, status: u16, code: Option<String>) {
        self.change(|state| {
            state.counts.errors += u64::from(status >= 400);
            state.update(number, |entry| {
                entry.status = status;
                entry.code = code;
            });
        });
    }

    /// Adds body bytes as they leave.
    pub(crate) fn sent(&self, operation: Option<Operation>, bytes: u64) {
        self.change(|state| {
            state.counts.bytes += bytes;
            if operation == Some(Operation::Get) {
                state.counts.get_bytes += bytes;
            }
        });
    }

    /// Notes the end of a reply.
    pub(crate) fn finished(&self, number: u64, bytes: u64, complete: bool) {
        self.change(|state| {
            state.counts.cut += u64::from(!complete);
            state.update(number, |entry| {
                entry.bytes = bytes;
                entry.complete = complete;
            });
        });
    }

    pub(crate) fn log(&self) -> Vec<LogEntry> {
        self.lock().log.iter().cloned().collect()
    }

    pub(crate) fn counts(&self) -> Counts {
        self.lock().counts
    }

    pub(crate) fn reset(&self) {
        self.change(|state| {
            state.counts = Counts::default();
            state.log.clear();
        });
    }

    pub(crate) fn wait_until(&self, timeout: Duration, mut done: impl FnMut(&Counts) -> bool) -> bool {
        let guard = self.lock();
        let waited = self.changed.wait_timeout_while(guard, timeout, |state| !done(&state.counts));
        waited.is_ok_and(|(_, result)| !result.timed_out())
    }
}
