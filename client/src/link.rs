//! One stream at one daemon: its shared memory and the waiting on it.

use crate::{Client, Error};
use feedline_proto::shm::{Consumer, Entry, PoolView};
use feedline_proto::v1::{OpenStream, StreamOpened};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) consumer: Consumer,
    event: OwnedFd,
    /// Shared with the batches: while one of them lives the daemon must not take its blocks for free.
    socket: Arc<UnixStream>,
    pub(crate) opened: StreamOpened,
}

impl Link {
    pub(crate) fn open(client: Client, request: OpenStream) -> Result<Self, Error> {
        let (socket, opened, descriptors) = client.ask(request)?;
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
        Ok(Self { consumer: consumer.map_err(map)?, event, socket: Arc::new(socket), opened })
    }

    /// Keeps the connection open.
    pub(crate) fn hold(&self) -> Arc<UnixStream> {
        Arc::clone(&self.socket)
    }

    /// Sleeps until an entry is there, the daemon is gone, or the time is over.
    pub(crate) fn wait(&mut self, start: Instant, limit: Option<Duration>) -> Result<Entry, Error> {
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
