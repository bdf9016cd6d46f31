//! Reply bodies: slices of an object without a copy, or step by step when a fault wants a say.

use crate::conn::Conn;
use crate::fault::BodyFaults;
use crate::journal::Journal;
use crate::objects::Content;
use crate::s3::Operation;
use bytes::Bytes;
use futures_util::stream::{self, Stream};
use hyper::body::{Body, Frame, SizeHint};
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::sleep;

/// Bytes handed to hyper at a time. Large enough to cost nothing, small enough that the count of bytes sent is
/// near the truth when a client hangs up.
const SLICE: u64 = 1 << 20;

/// How long an RST waits behind the last bytes: it would overtake those still queued for sending.
const RESET_DELAY: Duration = Duration::from_millis(20);

/// Counts a reply's bytes, and enters its end when dropped.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) journal: Arc<Journal>,
    pub(crate) number: u64,
    pub(crate) operation: Option<Operation>,
    pub(crate) sent: u64,
    pub(crate) length: u64,
}

impl Meter {
    fn add(&mut self, bytes: &Bytes) {
        self.sent += bytes.len() as u64;
        self.journal.sent(self.operation, bytes.len() as u64);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.journal.finished(self.number, self.sent, self.sent == self.length);
    }
}

enum Source {
    /// Memory and no faults: nothing to wait for.
    Direct {
        content: Content,
        rest: Range<u64>,
    },
    Stepwise(Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>),
}

/// The body of a reply.
pub(crate) struct ReplyBody {
    source: Source,
    meter: Meter,
}

impl ReplyBody {
    /// Sends `range` of `content` on `conn`.
    pub(crate) fn new(
        content: Content,
        range: Range<u64>,
        faults: BodyFaults,
        conn: Arc<Conn>,
        meter: Meter,
    ) -> Self {
        let in_memory = !matches!(content, Content::File { .. });
        let source = if faults.is_none() && in_memory {
            Source::Direct { content, rest: range }
        } else {
            let steps = Steps { content, start: range.start, rest: range, faults, conn };
            Source::Stepwise(Box::pin(stream::unfold(Some(steps), |steps| async move {
                match steps?.next().await {
                    Ok((bytes, steps)) => bytes.map(|bytes| (Ok(bytes), Some(steps))),
                    Err(cause) => Some((Err(cause), None)),
                }
            })))
        };
        Self { source, meter }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let next = match &mut self.source {
            Source::Direct { rest, .. } if rest.is_empty() => None,
            Source::Direct { content, rest } => {
                let piece = content.read(rest.start, SLICE.min(rest.end - rest.start))?;
                rest.start += piece.len() as u64;
                Some(piece)
            }
            Source::Stepwise(steps) => ready!(steps.as_mut().poll_next(cx)).transpose()?,
        };
        if let Some(piece) = &next {
            self.meter.add(piece);
        }
        Poll::Ready(next.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.source, Source::Direct { rest, .. } if rest.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        // The length header is always set by hand (or left away by a fault), so hyper needs no hint.
        SizeHint::default()
    }
}

/// A body under faults. Offsets in `faults` count from `start`.
struct Steps {
    content: Content,
    start: u64,
    rest: Range<u64>,
    faults: BodyFaults,
    conn: Arc<Conn>,
}

impl Steps {
    /// The next piece, `None` at the end, an error to cut the connection.
    async fn next(mut self) -> io::Result<(Option<Bytes>, Self)> {
        if self.rest.is_empty() {
            return Ok((None, self));
        }
        let sent = self.rest.start - self.start;
        if let Some((_, length)) = self.faults.stall.filter(|(after, _)| *after == sent) {
            self.conn.flushed().await;
            sleep(length).await;
            self.faults.stall = None;
        }
        if let Some((_, reset)) = self.faults.cut.filter(|(after, _)| *after == sent) {
            self.conn.flushed().await;
            if reset {
                sleep(RESET_DELAY).await;
                self.conn.reset_on_close();
            }
            return Err(io::Error::other("cut by a fault rule"));
        }
        if self.faults.piece.is_some() && sent > 0 {
            self.conn.flushed().await;
        }
        let len = self.piece_length(sent);
        for pacer in &self.faults.pacers {
            tokio::time::sleep_until(pacer.book(len)).await;
        }
        let piece = self.read(len).await?;
        let piece = self.flip(piece);
        self.rest.start += piece.len() as u64;
        Ok((Some(piece), self))
    }

    /// Up to the next point where something happens.
    fn piece_length(&self, sent: u64) -> u64 {
        let boundaries = [self.faults.cut.map(|(after, _)| after), self.faults.stall.map(|(after, _)| after)];
        let to_boundary =
            boundaries.into_iter().flatten().filter(|after| *after > sent).map(|after| after - sent);
        let paced = self.faults.pacers.iter().map(|pacer| pacer.piece());
        let limit = to_boundary.chain(paced).chain(self.faults.piece).min().unwrap_or(SLICE);
        limit.min(SLICE).min(self.rest.end - self.rest.start)
    }

    async fn read(&self, len: u64) -> io::Result<Bytes> {
        let offset = self.rest.start;
        match self.content.slice(offset, len) {
            Some(piece) => Ok(piece),
            None => {
                let content = self.content.clone();
                tokio::task::spawn_blocking(move || content.read(offset, len))
                    .await
                    .map_err(io::Error::other)?
            }
        }
    }

    fn flip(&self, piece: Bytes) -> Bytes {
        let start = self.rest.start;
        let hit = |at: &u64| usize::try_from(at.checked_sub(start)?).ok().filter(|i| *i < piece.len());
        let hits: Vec<_> = self.faults.flips.iter().filter_map(hit).collect();
        if hits.is_empty() {
            return piece;
        }
        let mut changed = piece.to_vec();
        for i in hits {
            changed[i] = !changed[i];
        }
        changed.into()
    }
}
