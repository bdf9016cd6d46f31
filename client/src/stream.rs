//! One rank's stream of batches.

use crate::{Batch, DaemonError, Error};
use feedline_proto::frame;
use feedline_proto::shm::{Consumer, Entry, PoolView};
use feedline_proto::v1::{self, StreamOpened};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How the trainer's waiting adds up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waits {
    /// Batches that were ready when asked for.
    pub ready: u64,
    /// Batches that had to be waited for.
    pub waited: u64,
    /// Time spent waiting in all.
    pub time: Duration,
}

/// Batches of one rank, in order. An iterator that ends after the last epoch; dropping it closes the stream.
#[derive(Debug)]
pub struct Stream {
    consumer: Consumer,
    event: OwnedFd,
    socket: UnixStream,
    opened: StreamOpened,
    waits: Waits,
    finished: bool,
}

impl Stream {
    pub(crate) fn new(
        socket: UnixStream,
        opened: StreamOpened,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Self, Error> {
        let mut descriptors = descriptors.into_iter();
        let mut next = || {
            descriptors
                .next()
                .ok_or_else(|| Error::Protocol("the daemon passed too few descriptors".to_owned()))
        };
        let (ring, returns, event, wake_daemon) = (next()?, next()?, next()?, next()?);
        let segments = opened.segments.iter().map(|segment| Ok((next()?, segment.bytes, segment.slot_bytes)));
        let segments = segments.collect::<Result<Vec<_>, Error>>()?;
        let map = |cause| Error::System { what: "cannot map the daemon's shared memory", cause };
        let pool = Arc::new(PoolView::map(segments).map_err(map)?);
        let consumer =
            Consumer::new(ring, opened.ring_bytes, returns, opened.return_entries, wake_daemon, pool);
        let consumer = consumer.map_err(map)?;
        Ok(Self { consumer, event, socket, opened, waits: Waits::default(), finished: false })
    }

    /// Number of shards in the dataset.
    pub fn shards(&self) -> u64 {
        self.opened.shards
    }

    /// Records of an epoch, if the daemon knew every shard's count when the stream was opened.
    pub fn records(&self) -> Option<u64> {
        self.opened.records
    }

    /// Batches of an epoch on each rank, if known when the stream was opened.
    pub fn batches(&self) -> Option<u64> {
        self.opened.batches
    }

    /// The daemon's number for this stream.
    pub fn id(&self) -> u64 {
        self.opened.stream
    }

    /// How the waiting adds up so far.
    pub fn waits(&self) -> Waits {
        self.waits
    }

    /// The next batch; waits for it. `None` after the last epoch.
    ///
    /// # Errors
    /// [`Error::DaemonGone`] at once when the daemon dies; [`Error::Daemon`] when the stream fails, for example at a
    /// corrupt record, after all batches before it. An error ends the stream.
    pub fn next_batch(&mut self) -> Result<Option<Batch>, Error> {
        self.next_before(None)
    }

    /// As [`Self::next_batch`], but waits no longer than `limit`. After a time-out the stream can be asked again.
    ///
    /// # Errors
    /// [`Error::TimedOut`] and those of [`Self::next_batch`].
    pub fn next_batch_within(&mut self, limit: Duration) -> Result<Option<Batch>, Error> {
        self.next_before(Some(limit))
    }

    fn next_before(&mut self, limit: Option<Duration>) -> Result<Option<Batch>, Error> {
        if self.finished {
            return Ok(None);
        }
        if let Some(entry) = self.consumer.take()? {
            self.waits.ready += 1;
            return self.deliver(entry);
        }
        let start = Instant::now();
        let outcome = self.wait(start, limit);
        let waited = start.elapsed();
        self.waits.time += waited;
        self.consumer.add_waited(waited);
        match outcome {
            Ok(entry) => {
                self.waits.waited += 1;
                self.deliver(entry)
            }
            Err(error) => {
                self.finished = !matches!(error, Error::TimedOut(_));
                Err(error)
            }
        }
    }

    fn deliver(&mut self, entry: Entry) -> Result<Option<Batch>, Error> {
        match entry {
            Entry::Batch(records) => Ok(Some(Batch::new(records))),
            Entry::End => {
                self.finished = true;
                Ok(None)
            }
            Entry::Error(bytes) => {
                self.finished = true;
                let error: v1::Error = frame::decode(&bytes)?;
                Err(DaemonError::from(error).into())
            }
        }
    }

    /// Sleeps until an entry is there, the daemon is gone, or the time is over.
    fn wait(&mut self, start: Instant, limit: Option<Duration>) -> Result<Entry, Error> {
        loop {
            if self.consumer.prepare_to_wait() {
                let left = limit.map(|limit| limit.saturating_sub(start.elapsed()));
                let gone = self.sleep(left);
                self.consumer.stop_waiting();
                let gone = gone?;
                // What the daemon wrote before it died is still good.
                match self.consumer.take()? {
                    Some(entry) => return Ok(entry),
                    None if gone => return Err(Error::DaemonGone),
                    None if left.is_some_and(|left| left.is_zero()) => {
                        return Err(Error::TimedOut(limit.unwrap_or_default()));
                    }
                    None => {}
                }
            } else if let Some(entry) = self.consumer.take()? {
                return Ok(entry);
            }
        }
    }

    /// One `poll` on the event and the socket; whether the daemon has hung up.
    fn sleep(&self, left: Option<Duration>) -> Result<bool, Error> {
        let system =
            |cause: rustix::io::Errno| Error::System { what: "cannot wait for a batch", cause: cause.into() };
        let timeout = left.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        // The daemon sends nothing on this socket once the stream runs: readable means that it has hung up.
        let mut fds = [
            PollFd::new(&self.event, PollFlags::IN),
            PollFd::new(&self.socket, PollFlags::IN | PollFlags::RDHUP),
        ];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(false),
            Err(errno) => return Err(system(errno)),
        }
        let (event, hung_up) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
        if event {
            match rustix::io::read(&self.event, &mut [0_u8; 8]) {
                Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(system(errno)),
            }
        }
        Ok(hung_up)
    }
}

impl Iterator for Stream {
    type Item = Result<Batch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().transpose()
    }
}

/// A stream is at its end after an error, so looking again gives `None`.
impl std::iter::FusedIterator for Stream {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_and_batches_may_move_between_threads() {
        fn send<T: Send>() {}
        fn share<T: Send + Sync>() {}
        send::<Stream>();
        share::<Batch>();
    }
}
