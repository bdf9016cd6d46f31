//! The task behind one stream: keeps some batches ready in the ring, takes back what the trainer returns, sleeps otherwise.

mod mixed;

use super::batch::{Held, Needs};
use super::failure::StreamFailure;
use super::jobs::Member;
use super::lookahead::LookAhead;
use super::registry::{Entry, Waits};
use super::walk::{Next, Walk};
use crate::loader::Loader;
use crate::telemetry::table::FIRST_BATCH;
use feedline_proto::frame;
use feedline_proto::shm::layout::{KIND_BATCH, KIND_END, KIND_ERROR};
use feedline_proto::shm::producer::RingDescriptors;
use feedline_proto::shm::{BatchWriter, Mark, Producer, Violation};
use prost::Message;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::watch;

/// Bytes of a stream's descriptor ring. Larger batches flow through in pieces.
pub(super) const RING_BYTES: u64 = 256 << 10;
/// Entries of the return ring: batches that can be out at the same time.
pub(super) const RETURN_ENTRIES: u64 = 4096;

/// How long a stream that holds nothing waits for others before the log says so.
const STARVING: Duration = Duration::from_secs(10);

/// One stream.
#[derive(Debug)]
pub(super) struct Stream {
    loader: Loader,
    pub(super) walk: Walk,
    lookahead: LookAhead,
    held: Held,
    producer: Producer,
    wake: UnixStream,
    client: OwnedFd,
    /// Before the entry: a stream that the status does not show any more has its place on disk.
    member: Option<Member>,
    entry: Entry,
    ready: u64,
    sent: u64,
    returns: watch::Receiver<u64>,
    writer: BatchWriter,
    payload: Vec<u8>,
    told_of_starving: bool,
    /// Places behind the batches that were sent and not yet taken.
    marks: VecDeque<Mark>,
}

/// Descriptors to pass to the client, in the order of the protocol.
#[derive(Debug)]
pub(super) struct StreamDescriptors {
    pub(super) rings: RingDescriptors,
    pub(super) client: OwnedFd,
    pub(super) daemon: OwnedFd,
}

impl Stream {
    /// Sets up rings and events; `ready` batches are kept ready.
    pub(super) fn new(
        loader: Loader,
        walk: Walk,
        held: Held,
        entry: Entry,
        member: Option<Member>,
        ready: u64,
    ) -> Result<(Self, StreamDescriptors), StreamFailure> {
        let system = |what| move |cause: io::Error| StreamFailure::System { what, cause };
        let ring_error = system("cannot make shared memory");
        let event_error = system("cannot make an event");
        let (producer, rings) = Producer::create(RING_BYTES, RETURN_ENTRIES).map_err(ring_error)?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let client = eventfd(0, flags).map_err(|error| event_error(error.into()))?;
        let (wake, daemon) = UnixStream::pair().map_err(event_error)?;
        let daemon = daemon.into_std().map_err(event_error)?.into();
        let passed = StreamDescriptors { rings, client: client.try_clone().map_err(event_error)?, daemon };
        let returns = held.lease().returns();
        let stream = Self {
            loader,
            walk,
            lookahead: LookAhead::default(),
            held,
            producer,
            wake,
            client,
            entry,
            ready: ready.clamp(1, RETURN_ENTRIES / 2),
            sent: 0,
            returns,
            writer: BatchWriter::default(),
            payload: Vec::new(),
            member,
            told_of_starving: false,
            marks: VecDeque::new(),
        };
        Ok((stream, passed))
    }

    /// Feeds the client until the last epoch or an error, which are both told to it in order; then takes back what comes.
    /// Ends by itself only if the client breaks the protocol; otherwise it is dropped when the client has gone.
    pub(super) async fn run(mut self) -> StreamFailure {
        let fed =
            if self.walk.keeps_records_together() { self.feed().await } else { self.feed_mixed().await };
        // A client may keep the stream for a while; the shards and what failed with them are no longer of interest.
        self.walk.forget_all();
        let (kind, payload) = match fed {
            Ok(()) => (KIND_END, Vec::new()),
            Err(StreamFailure::Violation(violation)) => return violation.into(),
            Err(failure) => {
                let info = &self.entry.info;
                tracing::warn!(stream = info.id, job = info.about.job, rank = info.about.rank, error = %failure, "stream failed");
                (KIND_ERROR, failure.to_wire().encode_to_vec())
            }
        };
        match self.send(kind, &payload).await {
            Ok(()) => self.drain().await.into(),
            Err(violation) => violation.into(),
        }
    }

    async fn feed(&mut self) -> Result<(), StreamFailure> {
        loop {
            self.take_returns()?;
            self.lookahead.advance(&mut self.walk, &self.loader);
            self.wait_for_room().await?;
            self.entry.info.set_waits(Waits::Store);
            let next = self.walk.next().await;
            // Also what is skipped behind the last batch counts.
            self.entry.info.skipped.store(self.walk.skipped, Relaxed);
            let picked = match next? {
                Next::Batch(picked) => picked,
                Next::End => return Ok(()),
            };
            let needs = Needs::of(picked, self.loader.block_shift());
            self.lease(&needs).await?;
            self.entry.info.set_waits(Waits::Blocks);
            needs.load(&self.loader, &mut self.held, self.sent).await?;
            self.entry.info.set_waits(Waits::Nothing);
            self.emit(&needs).await?;
        }
    }

    async fn emit(&mut self, needs: &Needs) -> Result<(), StreamFailure> {
        let mut payload = std::mem::take(&mut self.payload);
        needs.describe(&self.held, self.sent, self.loader.block_shift(), &mut self.writer, &mut payload);
        self.send(KIND_BATCH, &payload).await?;
        self.payload = payload;
        self.count_sent(needs.next(), needs.records(), needs.bytes);
        Ok(())
    }

    /// A batch more has gone out.
    fn count_sent(&mut self, next: Mark, records: u64, bytes: u64) {
        self.sent += 1;
        self.marks.push_back(next);
        let info = &self.entry.info;
        if self.sent == 1 {
            FIRST_BATCH.with([&info.about.label]).record(info.opened.elapsed());
        }
        info.batches.fetch_add(1, Relaxed);
        info.records.fetch_add(records, Relaxed);
        info.bytes.fetch_add(bytes, Relaxed);
        info.epoch.store(self.walk.epoch(), Relaxed);
    }

    /// Waits until fewer batches than wanted are ready, and a return could be recorded for one more.
    async fn wait_for_room(&mut self) -> Result<(), Violation> {
        loop {
            self.take_returns()?;
            let ready = self.sent - self.producer.taken()?.min(self.sent);
            if ready < self.ready && (self.held.batches() as u64) < RETURN_ENTRIES {
                return Ok(());
            }
            self.entry.info.set_waits(if ready < self.ready { Waits::Leases } else { Waits::Trainer });
            // One wake-up for several batches, unless a return is what is needed.
            let events = if ready < self.ready { 1 } else { self.ready.div_ceil(2) };
            if self.producer.arm(events)? {
                self.woken().await;
            }
        }
    }

    /// Reserves the blocks of a batch; waits for returns, the client's own and those of others.
    async fn lease(&mut self, needs: &Needs) -> Result<(), StreamFailure> {
        loop {
            self.returns.borrow_and_update();
            self.take_returns()?;
            if needs.try_lease(&mut self.held, self.loader.block_bytes())? {
                return Ok(());
            }
            self.wait_for_returns().await?;
        }
    }

    /// Waits until this client or another gives something back.
    async fn wait_for_returns(&mut self) -> Result<(), Violation> {
        let starved = self.held.lease().held() == 0;
        self.entry.info.set_waits(if starved { Waits::Pool } else { Waits::Leases });
        let told = std::mem::take(&mut self.told_of_starving);
        if self.producer.arm(1)? {
            tokio::select! {
                () = woken(&self.wake) => {}
                // The sender lives in the lease.
                _ = self.returns.changed() => {}
                () = tokio::time::sleep(STARVING), if starved && !told => {
                    let info = &self.entry.info;
                    tracing::warn!(
                        stream = info.id, job = info.about.job, rank = info.about.rank,
                        blocks = self.held.lease().limit(),
                        "other streams hold all blocks that the pool has for streams; if they wait for this one, \
                         none will go on: raise pool.bytes, or lower the batch size"
                    );
                    self.told_of_starving = true;
                }
            }
            self.producer.disarm();
        }
        Ok(())
    }

    /// Sends an entry, in pieces if it is long; waits for room in the ring.
    async fn send(&mut self, kind: u16, payload: &[u8]) -> Result<(), Violation> {
        let piece = self.producer.max_piece();
        let pieces = payload.len().div_ceil(piece).max(1);
        for number in 0..pieces {
            let bytes = &payload[number * piece..payload.len().min((number + 1) * piece)];
            while !self.producer.push(kind, number + 1 < pieces, bytes)? {
                if self.producer.arm_for_space() {
                    self.woken().await;
                }
            }
            if self.producer.client_waits() {
                // The only way to fail is a full counter, and then the client is awake already.
                let _ = rustix::io::write(&self.client, &1_u64.to_ne_bytes());
            }
        }
        Ok(())
    }

    /// After the end: only returns can still come.
    async fn drain(&mut self) -> Violation {
        loop {
            if let Err(violation) = self.take_returns() {
                return violation;
            }
            self.entry.info.set_waits(Waits::End);
            match self.producer.arm(1) {
                Ok(true) => self.woken().await,
                Ok(false) => {}
                Err(violation) => return violation,
            }
        }
    }

    fn take_returns(&mut self) -> Result<(), Violation> {
        while let Some(batch) = self.producer.next_return()? {
            if !self.held.give_back(batch) {
                return Err(Violation("a batch was given back that was not out"));
            }
        }
        let taken = self.producer.taken()?;
        if taken > self.sent || self.producer.returned() > taken {
            return Err(Violation("more batches were taken or given back than were sent"));
        }
        let mut last = None;
        while self.marks.len() as u64 > self.sent - taken {
            last = self.marks.pop_front();
        }
        if let (Some(member), Some(mark)) = (&self.member, last) {
            member.took(mark);
        }
        let info = &self.entry.info;
        info.ready.store(self.sent - taken, Relaxed);
        info.held.store(taken - self.producer.returned(), Relaxed);
        info.leased.store(self.held.lease().held(), Relaxed);
        info.lease_limit.store(self.held.lease().share(), Relaxed);
        info.waited_nanos
            .store(u64::try_from(self.producer.client_waited().as_nanos()).unwrap_or(u64::MAX), Relaxed);
        Ok(())
    }

    async fn woken(&mut self) {
        woken(&self.wake).await;
        self.producer.disarm();
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // What was taken since the last look counts for the job. A client that lies is noted no more.
        let _ = self.take_returns();
    }
}

/// Waits for the client's sign and takes it away.
async fn woken(wake: &UnixStream) {
    loop {
        // The descriptor is ours and open, so waiting for it cannot fail.
        if wake.readable().await.is_err() {
            return;
        }
        match wake.try_read(&mut [0; 64]) {
            // The client has closed its end: it is going, and the session hears of that by itself.
            Ok(0) => std::future::pending().await,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => return,
        }
    }
}

/// The bytes of an error reply.
pub(super) fn error_reply(failure: &StreamFailure) -> Vec<u8> {
    use feedline_proto::v1::{Reply, reply};
    frame::encode(&Reply { body: Some(reply::Body::Error(failure.to_wire())) })
}
