//! Object stores: what a URL means, how its store is opened, listed and read.
//!
//! # What
//! [`SourceUrl`] takes a URL or pattern apart. [`Stores`] holds settings and keys, opens a [`Store`] for an origin
//! (bucket, web host, file system), and lists patterns into sorted [`Object`]s. [`read_range`] reads one range of one
//! object into a callback.
//!
//! # Why it is built this way
//! The protocols are `object_store`'s. Time-outs, retries and resume are ours, because only the reader knows whether
//! there is progress: the layer's retries are off, and each failure is classified here from the HTTP status that
//! a thin client wrapper notes. From that follow the promises:
//!
//! - A slow body lives as long as bytes arrive; a stalled one is given up after `stall_timeout` and resumed by range
//!   at the first missing byte, in a request that is signed anew. No byte is delivered twice.
//! - Progress refills the retry budget, so a connection cut a hundred times still delivers, while a store that refuses
//!   ten times in a row does not keep anyone waiting. Pauses are jittered and honour `Retry-After`.
//! - Content never mixes: every request carries `If-Match`, and replies are compared with the listing too, since some
//!   servers ignore the header. Without an ETag the modification time takes its place.
//! - The retry that ends in an error names the object, the byte and what to change.
//!
//! Settings come from the configuration, by URL prefix, then from the environment, which is read through a function so
//! that tests need no process variables. Without keys a private store is an error at once: nothing falls back to
//! instance metadata unasked. Every mistake in the options is reported together. Keys live in [`Secret`].
//!
//! A store belongs to the runtime of the thread that uses it: connections are driven there. Open one per thread.
//!
//! # Limits
//! - Keys with empty, `.` or `..` parts, or control characters, cannot be addressed; a listing that meets one fails
//!   and names it. A key that begins with `/` is not told apart from the same key without.
//! - Local names that end in `#` and digits are skipped in listings.
//! - A listing is held in memory, about 300 bytes an object.
//! - A settings prefix that is longer than a pattern's literal beginning does not apply to the pattern.
//! - `?` and `[...]` in patterns match one byte, so not a character outside ASCII.
//! - Web servers: one object per URL. Those that ignore ranges can be read up to a 64 MiB offset.

mod backoff;
mod cancel;
mod classify;
mod endpoint;
mod environment;
mod error;
mod http;
mod list;
mod local;
mod object;
mod open;
mod pattern;
mod read;
mod secret;
mod settings;
mod stats;
#[cfg(test)]
pub(crate) mod tests;
mod url;
mod validate;

pub use cancel::Cancel;
pub use environment::{Environment, process_environment};
pub use error::{Cause, SourceError};
pub use object::Object;
pub use open::{Policy, Store, Stores};
pub use pattern::{KeyPattern, escape};
pub use read::{read_range, read_range_until};
pub use secret::Secret;
pub use settings::{Addressing, Mistake, SourceSettings, StoreSettings};
pub use stats::{RetryCause, SourceCounts, SourceStats};
pub use url::{Origin, OriginId, Scheme, SourceUrl};
