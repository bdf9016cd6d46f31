//! Reading one range of one object, to the end or to an error that says why not.

use super::Object;
use super::backoff::Backoff;
use super::cancel::Cancel;
use super::classify::Place;
use super::error::SourceError;
use super::http::Note;
use super::local;
use super::open::{Policy, Store};
use super::stats::SourceStats;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use object_store::{GetRange, GetResult, GetResultPayload};
use std::future::Future;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// An attempt that brought this much refills the retry budget.
const PROGRESS: u64 = 64 * 1024;
/// A server that ignores ranges is still read if at most this much has to be thrown away per request.
const SKIP_LIMIT: u64 = 64 * 1024 * 1024;

/// Reads `range` (bytes of the object) and hands the pieces to `sink` in order, each byte once.
///
/// The content is the one that was listed: every request carries `If-Match`, and ETag and size of each reply are
/// compared as well. Failures that pass by themselves are retried after a pause and resume at the first missing byte;
/// `stall_timeout` counts from the last byte received, so a slow but steady body is never cut, and the time that `sink`
/// takes does not count.
///
/// # Errors
/// Any [`SourceError`] about this object; after an error the sink has received a prefix of the range.
pub async fn read_range(
    store: &Store,
    object: &Object,
    range: Range<u64>,
    sink: impl FnMut(&[u8]),
) -> Result<(), SourceError> {
    read_range_until(store, object, range, &Cancel::new(), sink).await
}

/// [`read_range`] that ends with [`SourceError::Cancelled`] soon after `cancel` is set.
///
/// # Errors
/// As [`read_range`].
pub async fn read_range_until(
    store: &Store,
    object: &Object,
    range: Range<u64>,
    cancel: &Cancel,
    sink: impl FnMut(&[u8]),
) -> Result<(), SourceError> {
    if range.start >= range.end {
        return Ok(());
    }
    if range.end > object.size {
        let why = format!("bytes {}..{} lie beyond its size of {}", range.start, range.end, object.size);
        return Err(SourceError::Unsupported { url: object.url.clone(), why });
    }
    let mut reading = Reading { store, object, at: range.start, end: range.end, cancel, sink };
    let result = reading.run().await;
    if result.is_err() && !cancel.is_cancelled() {
        SourceStats::add(&store.stats.failed, 1);
    }
    result
}

/// Pauses and tries again while failures are transient; shared by reads, look-ups and listings.
pub(crate) struct Retrying<'a> {
    store: &'a Store,
    backoff: Backoff,
    failures: u32,
}

impl<'a> Retrying<'a> {
    pub(crate) fn new(store: &'a Store) -> Self {
        static READERS: AtomicU64 = AtomicU64::new(0);
        let seed = READERS.fetch_add(1, Ordering::Relaxed) ^ (u64::from(std::process::id()) << 32);
        Self { store, backoff: Backoff::new(seed), failures: 0 }
    }

    /// There was progress: the budget is whole again.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
        self.backoff.reset();
    }

    /// Waits before the next attempt, or returns the error if there is to be none.
    pub(crate) async fn pause(&mut self, error: SourceError) -> Result<(), SourceError> {
        self.failures += 1;
        let error = error.after(self.failures);
        let Some(cause) = error.retry_cause() else {
            return Err(error);
        };
        if self.failures > self.store.policy.retries {
            return Err(error);
        }
        self.store.stats.retry(cause);
        let pause = self.backoff.next(error.wished_pause());
        tracing::debug!(%error, ?pause, attempt = self.failures, "store request is tried again");
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

/// Waits for `future` no longer than the stall time-out.
pub(crate) async fn in_time<T>(
    policy: &Policy,
    place: Place<'_>,
    future: impl Future<Output = T>,
) -> Result<T, SourceError> {
    tokio::time::timeout(policy.stall_timeout, future).await.map_err(|_| SourceError::Stalled {
        url: place.url.to_owned(),
        offset: place.at,
        waited: policy.stall_timeout,
    })
}

struct Reading<'a, S> {
    store: &'a Store,
    object: &'a Object,
    /// First byte not yet handed on.
    at: u64,
    end: u64,
    cancel: &'a Cancel,
    sink: S,
}

impl<S: FnMut(&[u8])> Reading<'_, S> {
    async fn run(&mut self) -> Result<(), SourceError> {
        let mut retrying = Retrying::new(self.store);
        loop {
            let before = self.at;
            let Err(error) = self.attempt().await else {
                return Ok(());
            };
            if self.at - before >= PROGRESS {
                retrying.reset();
            }
            let cancel = self.cancel;
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(self.cancelled()),
                paused = retrying.pause(error) => paused?,
            }
        }
    }

    fn place(&self) -> Place<'_> {
        Place { url: &self.object.url, etag: self.object.etag.as_deref(), at: self.at, end: self.end }
    }

    fn cancelled(&self) -> SourceError {
        SourceError::Cancelled { url: self.object.url.clone() }
    }

    /// Awaits `future` unless it stalls or the read is cancelled.
    async fn guarded<T>(&self, future: impl Future<Output = T>) -> Result<T, SourceError> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(self.cancelled()),
            done = in_time(&self.store.policy, self.place(), future) => done,
        }
    }

    /// One request from `self.at` on; moves `self.at` as far as bytes came.
    async fn attempt(&mut self) -> Result<(), SourceError> {
        let note = Note::default();
        let range = GetRange::Bounded(self.at..self.end);
        let options = self.object.conditional().with_range(Some(range)).with_extensions(note.extensions());
        match self.guarded(self.store.inner.get_opts(&self.object.path, options)).await? {
            Ok(reply) => self.take(reply, 0).await,
            // The whole object came instead of the range, which the store layer treats as an error.
            Err(_) if note.status() == Some(200) => self.attempt_unranged().await,
            Err(error) => Err(self.place().refused(error, &note)),
        }
    }

    async fn attempt_unranged(&mut self) -> Result<(), SourceError> {
        if self.at > SKIP_LIMIT {
            let why = "the server ignores range requests, and the object is too large to be read without"
                .to_owned();
            return Err(SourceError::Unsupported { url: self.object.url.clone(), why });
        }
        SourceStats::add(&self.store.stats.unranged, 1);
        let note = Note::default();
        let options = self.object.conditional().with_extensions(note.extensions());
        let reply = self.guarded(self.store.inner.get_opts(&self.object.path, options)).await?;
        let reply = reply.map_err(|error| self.place().refused(error, &note))?;
        self.take(reply, self.at).await
    }

    /// Hands the body on, without its first `skip` bytes.
    async fn take(&mut self, reply: GetResult, skip: u64) -> Result<(), SourceError> {
        if self.object.etag.is_some() && reply.meta.e_tag.is_none() {
            // Nothing shows that this is the content that was listed, or an object at all: stores also put error
            // texts into successful replies.
            let source = "the reply has no ETag, though the listing had one".into();
            return Err(SourceError::Server {
                url: self.object.url.clone(),
                status: 200,
                attempts: 1,
                source,
            });
        }
        self.object.same_content(&reply.meta)?;
        if reply.range.start + skip != self.at {
            return Err(self.place().cut(None));
        }
        match reply.payload {
            GetResultPayload::File(file, _) => {
                SourceStats::add(&self.store.stats.requests, 1);
                let range = self.at..self.end;
                self.take_stream(local::pieces(file, range), 0).await
            }
            GetResultPayload::Stream(stream) => self.take_stream(stream, skip).await,
        }
    }

    async fn take_stream(
        &mut self,
        mut stream: BoxStream<'static, object_store::Result<Bytes>>,
        mut skip: u64,
    ) -> Result<(), SourceError> {
        while self.at < self.end {
            // A piece that is there already needs neither timer nor waker.
            let piece = match stream.next().now_or_never() {
                Some(piece) if !self.cancel.is_cancelled() => piece,
                Some(_) => return Err(self.cancelled()),
                None => self.guarded(stream.next()).await?,
            };
            let piece = match piece {
                Some(Ok(piece)) => piece,
                Some(Err(error)) => return Err(self.place().cut(Some(error))),
                None => return Err(self.place().cut(None)),
            };
            let skipped = usize::try_from(skip).unwrap_or(usize::MAX).min(piece.len());
            let missing = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
            let wanted = &piece[skipped..];
            let wanted = &wanted[..wanted.len().min(missing)];
            skip -= skipped as u64;
            if !wanted.is_empty() {
                (self.sink)(wanted);
                self.at += wanted.len() as u64;
                SourceStats::add(&self.store.stats.bytes, wanted.len() as u64);
            }
        }
        Ok(())
    }
}
