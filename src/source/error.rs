//! What can go wrong with a store, in words that say what to do.

use super::settings::Mistake;
use super::stats::RetryCause;
use std::time::Duration;

/// The cause below an error, as the store layer reported it.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Any failure of listing or reading. Each names the object or pattern.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The text is not a URL that can be used.
    #[error("{url}: {why}")]
    Url {
        /// As written, without a query.
        url: String,
        /// What is wrong and what to write.
        why: String,
    },
    /// A pattern that no object matches.
    #[error("no object matches {pattern}: {seen} objects lie under {prefix}{}", for_example(.example.as_deref()))]
    NoMatch {
        /// The pattern.
        pattern: String,
        /// Where was listed.
        prefix: String,
        /// Objects seen there.
        seen: u64,
        /// One of them.
        example: Option<String>,
    },
    /// The object or bucket does not exist.
    #[error("{url} does not exist{}", hinted(.hint))]
    NotFound {
        /// The object.
        url: String,
        /// What to check; may be empty.
        hint: String,
    },
    /// The store refuses access.
    #[error("access to {url} is denied: {hint}")]
    Denied {
        /// The object.
        url: String,
        /// What to check.
        hint: String,
    },
    /// The object is not the one that was listed.
    #[error("{url} changed since it was listed (expected {expected}, found {found}); list the dataset again")]
    Changed {
        /// The object.
        url: String,
        /// ETag or size when listed.
        expected: String,
        /// What the store has now.
        found: String,
    },
    /// 429 or 503 until the retries were used up.
    #[error("{url} is throttled by the store (status {status}) after {attempts} attempts without progress")]
    Throttled {
        /// The object.
        url: String,
        /// The last HTTP status.
        status: u16,
        /// Attempts made since the last progress.
        attempts: u32,
        /// The store's wish for a pause.
        retry_after: Option<Duration>,
    },
    /// The store fails (500, 502, 504, 408).
    #[error("the store fails on {url} (status {status}) after {attempts} attempts without progress")]
    Server {
        /// The object.
        url: String,
        /// The last HTTP status.
        status: u16,
        /// Attempts made since the last progress.
        attempts: u32,
        /// The cause.
        source: Cause,
    },
    /// No byte arrived in time.
    #[error("{url} stalled at byte {offset}: nothing arrived for {} s (stall_timeout)", .waited.as_secs_f32())]
    Stalled {
        /// The object.
        url: String,
        /// First byte that is missing.
        offset: u64,
        /// The stall time-out.
        waited: Duration,
    },
    /// The body ended early.
    #[error("{url} was cut at byte {offset}, before byte {end}")]
    Cut {
        /// The object.
        url: String,
        /// First byte that is missing.
        offset: u64,
        /// End of the range, exclusive.
        end: u64,
        /// The cause, if the connection named one.
        source: Option<Cause>,
    },
    /// No connection, or it broke before a reply.
    #[error("{url} cannot be reached; check endpoint, proxy and ca_bundle")]
    Unreachable {
        /// The object.
        url: String,
        /// The cause.
        source: Cause,
    },
    /// Something this store cannot do.
    #[error("{url}: {why}")]
    Unsupported {
        /// The object or URL.
        url: String,
        /// What, and what to do instead.
        why: String,
    },
    /// There are no keys for this store.
    #[error("no credentials for {origin}: {hint}")]
    Credentials {
        /// `scheme://bucket`.
        origin: String,
        /// Where they are looked for.
        hint: String,
    },
    /// Options that cannot be used; all mistakes at once.
    #[error("{}", mistakes(.0))]
    Settings(Vec<Mistake>),
    /// The reader gave up.
    #[error("the read of {url} was cancelled")]
    Cancelled {
        /// The object.
        url: String,
    },
    /// The receiver of the bytes panicked.
    #[error("internal error: the receiver of {url} panicked: {message}")]
    Panicked {
        /// The object.
        url: String,
        /// The panic's text.
        message: String,
    },
    /// Whatever the store layer reports beyond this.
    #[error("{url} cannot be read")]
    Other {
        /// The object.
        url: String,
        /// The cause.
        source: Cause,
    },
}

impl SourceError {
    /// The reason to try again, for failures that pass by themselves.
    pub fn retry_cause(&self) -> Option<RetryCause> {
        match self {
            Self::Throttled { .. } => Some(RetryCause::Throttled),
            Self::Server { .. } => Some(RetryCause::Server),
            Self::Stalled { .. } => Some(RetryCause::Stalled),
            Self::Cut { .. } => Some(RetryCause::Cut),
            Self::Unreachable { .. } => Some(RetryCause::Unreachable),
            _ => None,
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        self.retry_cause().is_some()
    }

    /// Fills in how often was tried.
    pub(crate) fn after(mut self, tried: u32) -> Self {
        if let Self::Throttled { attempts, .. } | Self::Server { attempts, .. } = &mut self {
            *attempts = tried;
        }
        self
    }

    /// The store's own wish for a pause before the next attempt.
    pub(crate) fn wished_pause(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

fn hinted(hint: &str) -> String {
    if hint.is_empty() { String::new() } else { format!(": {hint}") }
}

fn for_example(example: Option<&str>) -> String {
    example.map_or_else(String::new, |url| format!(", for example {url}"))
}

fn mistakes(list: &[Mistake]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
