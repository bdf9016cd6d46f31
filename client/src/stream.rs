//! One rank's stream of batches.

use crate::link::Link;
use crate::{Batch, Client, DaemonError, Error, Token};
use feedline_proto::frame;
use feedline_proto::shm::Entry;
use feedline_proto::v1::{self, ErrorCode, OpenStream, ResumeToken, StreamOpened};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// First and longest pause between two attempts to reach a daemon that has gone away.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

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
    link: Box<Link>,
    state: State,
    /// What was asked for, to ask again.
    request: OpenStream,
    path: PathBuf,
    reconnect: Duration,
    opened: StreamOpened,
    /// Where the trainer is.
    token: ResumeToken,
    waits: Waits,
}

#[derive(Debug)]
enum State {
    Open,
    /// The daemon has gone, at this time.
    Gone(Instant),
    Finished,
}

impl Stream {
    pub(crate) fn new(
        link: Link,
        path: PathBuf,
        request: OpenStream,
        reconnect: Duration,
    ) -> Result<Self, Error> {
        let opened = link.opened.clone();
        let token = opened.start.clone();
        let token = token
            .ok_or_else(|| Error::Protocol("the daemon does not say where the stream starts".to_owned()))?;
        Ok(Self {
            link: Box::new(link),
            state: State::Open,
            request,
            path,
            reconnect,
            opened,
            token,
            waits: Waits::default(),
        })
    }

    /// Number of shards in the dataset.
    pub fn shards(&self) -> u64 {
        self.opened.shards
    }

    /// Records of an epoch, if the daemon knew every shard's count when the stream was opened.
    pub fn records(&self) -> Option<u64> {
        self.opened.records
    }

    /// Batches of a whole epoch on each rank, if known when the stream was opened.
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

    /// Where the trainer is: behind the batches that it took. Kept with a checkpoint, it lets a later stream go on with the
    /// next record: see [`StreamOptions::resume`](crate::StreamOptions::resume).
    pub fn token(&self) -> Token {
        Token(self.token.clone())
    }

    /// The next batch; waits for it. `None` after the last epoch.
    ///
    /// # Errors
    /// [`Error::DaemonGone`] when the daemon has gone away and none came back in time; [`Error::Daemon`] when the stream
    /// fails, for example at a corrupt record, after all batches before it. An error ends the stream.
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
        let start = Instant::now();
        let outcome = loop {
            match self.state {
                State::Finished => return Ok(None),
                State::Gone(since) => {
                    if let Err(error) = self.come_back(since, start, limit) {
                        break Err(error);
                    }
                }
                State::Open => {
                    let link = &mut self.link;
                    let ready = match link.consumer.take() {
                        Ok(Some(entry)) => Some(entry),
                        Ok(None) => None,
                        Err(error) => break Err(error.into()),
                    };
                    if let Some(entry) = ready {
                        self.waits.ready += 1;
                        break Ok(entry);
                    }
                    let before = Instant::now();
                    let outcome = link.wait(start, limit);
                    let waited = before.elapsed();
                    self.waits.time += waited;
                    link.consumer.add_waited(waited);
                    match outcome {
                        Err(Error::DaemonGone) if !self.reconnect.is_zero() => {
                            self.state = State::Gone(Instant::now());
                        }
                        Ok(entry) => {
                            self.waits.waited += 1;
                            break Ok(entry);
                        }
                        Err(error) => break Err(error),
                    }
                }
            }
        };
        match outcome {
            Ok(Entry::Batch(records)) => {
                self.token = Token::at(&self.token, &records.header().next).0;
                Ok(Some(Batch::new(records, self.link.hold())))
            }
            Ok(Entry::End) => {
                self.state = State::Finished;
                Ok(None)
            }
            Ok(Entry::Error(bytes)) => {
                let error: DaemonError = frame::decode::<v1::Error>(&bytes)?.into();
                // A daemon that stops may say so; the next one goes on.
                if error.code == ErrorCode::ShuttingDown && !self.reconnect.is_zero() {
                    self.state = State::Gone(Instant::now());
                    return self.next_before(limit.map(|limit| limit.saturating_sub(start.elapsed())));
                }
                self.state = State::Finished;
                Err(error.into())
            }
            Err(error) => {
                if !matches!(error, Error::TimedOut(_)) {
                    self.state = State::Finished;
                }
                Err(error)
            }
        }
    }

    /// Looks for a daemon until one goes on with the stream, `limit` is over or too much time has passed `since` the last one
    /// went away.
    fn come_back(&mut self, since: Instant, start: Instant, limit: Option<Duration>) -> Result<(), Error> {
        let request =
            OpenStream { resume: Some(self.token.clone()), resume_job: false, ..self.request.clone() };
        let mut pause = PAUSES.0;
        loop {
            match Client::connect(&self.path).and_then(|client| Link::open(client, request.clone())) {
                Ok(link) => {
                    self.waits.time += since.elapsed();
                    (*self.link, self.state) = (link, State::Open);
                    return Ok(());
                }
                Err(Error::NoDaemon { .. } | Error::DaemonGone) => {}
                Err(Error::Daemon(error)) if error.code == ErrorCode::ShuttingDown => {}
                Err(error) => return Err(error),
            }
            let left = self.reconnect.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Err(Error::DaemonGone);
            }
            let left_here = limit.map_or(left, |limit| limit.saturating_sub(start.elapsed()));
            if left_here.is_zero() {
                return Err(Error::TimedOut(limit.unwrap_or_default()));
            }
            std::thread::sleep(pause.min(left).min(left_here));
            pause = PAUSES.1.min(pause * 2);
        }
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
