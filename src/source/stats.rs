//! Counters of everything that is asked of a store.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a request was tried again; each cause has its counter in [`SourceStats`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryCause {
    /// 429 or 503: the store asks for less.
    Throttled,
    /// Another transient status: 408, 500, 502, 504.
    Server,
    /// No byte arrived within the stall time-out.
    Stalled,
    /// The body ended or broke before its length was reached.
    Cut,
    /// No connection, or it broke before a reply.
    Unreachable,
}

/// Counters since start, shared by all threads; read with [`SourceStats::snapshot`].
#[derive(Debug, Default)]
pub struct SourceStats {
    pub(crate) requests: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) listed: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) unranged: AtomicU64,
    throttled: AtomicU64,
    server: AtomicU64,
    stalled: AtomicU64,
    cut: AtomicU64,
    unreachable: AtomicU64,
}

/// The values of [`SourceStats`] at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceCounts {
    /// HTTP requests sent (every attempt counts), and opened files.
    pub requests: u64,
    /// Body bytes received and handed on.
    pub bytes: u64,
    /// Objects seen in listings, before filtering.
    pub listed: u64,
    /// Reads and listings that ended in an error.
    pub failed: u64,
    /// Replies with the whole object although a range was asked for.
    pub unranged: u64,
    /// Attempts repeated after 429 or 503.
    pub retries_throttled: u64,
    /// Attempts repeated after 408, 500, 502 or 504.
    pub retries_server: u64,
    /// Attempts repeated because nothing arrived for the stall time-out.
    pub retries_stalled: u64,
    /// Attempts repeated because the body was cut short.
    pub retries_cut: u64,
    /// Attempts repeated because there was no connection or no reply.
    pub retries_unreachable: u64,
}

impl SourceStats {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn retry(&self, cause: RetryCause) {
        let counter = match cause {
            RetryCause::Throttled => &self.throttled,
            RetryCause::Server => &self.server,
            RetryCause::Stalled => &self.stalled,
            RetryCause::Cut => &self.cut,
            RetryCause::Unreachable => &self.unreachable,
        };
        Self::add(counter, 1);
    }

    /// All counters, each read on its own: they may be a few events apart.
    pub fn snapshot(&self) -> SourceCounts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SourceCounts {
            requests: get(&self.requests),
            bytes: get(&self.bytes),
            listed: get(&self.listed),
            failed: get(&self.failed),
            unranged: get(&self.unranged),
            retries_throttled: get(&self.throttled),
            retries_server: get(&self.server),
            retries_stalled: get(&self.stalled),
            retries_cut: get(&self.cut),
            retries_unreachable: get(&self.unreachable),
        }
    }
}

impl SourceCounts {
    /// All repeated attempts.
    pub fn retries(&self) -> u64 {
        self.retries_throttled
            + self.retries_server
            + self.retries_stalled
            + self.retries_cut
            + self.retries_unreachable
    }
}
