//! The client's end: takes batches, hands out their records as slices, gives them back.

use super::batch::{BatchHeader, BatchReader, MalformedBatch};
use super::layout::{
    DATA_OFFSET, ENTRY_HEADER, FLAG_MORE, FRAME_GAP, KIND_BATCH, KIND_END, KIND_ERROR, RETURN_HEAD,
    RETURN_MAGIC, RETURN_TAIL, RETURN_TAKEN, RETURN_WAITED, RETURN_WAITING, RING_HEAD, RING_MAGIC,
    RING_WAKE_AT,
};
use super::map::Mapping;
use rustix::net::SendFlags;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::fence;
use std::sync::{Arc, Mutex, PoisonError};

/// The pool as a client sees it: every segment mapped read-only.
#[derive(Debug)]
pub struct PoolView {
    segments: Vec<(Mapping, u64)>,
}

impl PoolView {
    /// Maps the segments, given as descriptor, bytes and slot size in bytes, in the order of their numbers.
    ///
    /// # Errors
    /// If a descriptor is not what the daemon announced.
    pub fn map(segments: impl IntoIterator<Item = (OwnedFd, u64, u32)>) -> io::Result<Self> {
        let segments = segments.into_iter().map(|(fd, bytes, slot)| {
            let bytes = usize::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            Ok((Mapping::read_only(&fd, bytes)?, u64::from(slot)))
        });
        Ok(Self { segments: segments.collect::<io::Result<_>>()? })
    }

    /// Where a span of a slot lies in its segment, if it lies within the slot and the segment.
    fn locate(&self, segment: u16, slot: u32, offset: u64, length: u32) -> Option<usize> {
        let (mapping, slot_bytes) = self.segments.get(usize::from(segment))?;
        let end = offset.checked_add(u64::from(length))?;
        let start = u64::from(slot).checked_mul(*slot_bytes)?;
        let fits = end <= *slot_bytes && start.checked_add(end)? <= mapping.len() as u64;
        if fits { usize::try_from(start + offset).ok() } else { None }
    }
}

/// Where a record's bytes are.
#[derive(Debug, Clone, Copy)]
enum Span {
    /// In the pool.
    Shared { segment: u16, length: u32, offset: usize },
    /// Put together from parts: index into the batch's own copies.
    Assembled(usize),
}

/// The records of one batch. Dropping it gives the batch back to the daemon; until then the bytes do not change.
pub struct Records {
    header: BatchHeader,
    spans: Vec<Span>,
    assembled: Vec<Box<[u8]>>,
    pool: Arc<PoolView>,
    returns: Arc<ReturnQueue>,
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records")
            .field("header", &self.header)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl Records {
    /// What the daemon says about the batch.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Number of records, pads included.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none; the daemon never sends such a batch.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Payload of record `index`, or `None` past the end.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.spans.get(index).map(|&span| self.bytes(span))
    }

    /// All payloads in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.spans.iter().map(|&span| self.bytes(span))
    }

    /// Bytes that were copied to put records together that crossed a block border.
    pub fn assembled_bytes(&self) -> usize {
        self.assembled.iter().map(|record| record.len()).sum()
    }

    fn bytes(&self, span: Span) -> &[u8] {
        match span {
            // SAFETY: the span was checked against the segment when the batch was decoded. The daemon writes to a block
            // only when no client holds a batch over it, and this batch is given back in Drop, after which no slice
            // borrowed from self can live. The mapping is read-only here.
            Span::Shared { segment, length, offset } => unsafe {
                self.pool.segments[usize::from(segment)].0.slice(offset, length as usize)
            },
            Span::Assembled(index) => &self.assembled[index],
        }
    }

    fn decode(
        bytes: &[u8],
        pool: &Arc<PoolView>,
        returns: &Arc<ReturnQueue>,
    ) -> Result<Self, MalformedBatch> {
        let reader = BatchReader::new(bytes)?;
        // From here on the batch is given back on every path, the early ones included.
        let mut records = Self {
            header: reader.header,
            spans: Vec::with_capacity(reader.header.records.min(1 << 20) as usize),
            assembled: Vec::new(),
            pool: Arc::clone(pool),
            returns: Arc::clone(returns),
        };
        let mut lengths = reader.lengths();
        let mut partial: Option<Vec<u8>> = None;
        for run in reader.runs() {
            let mut offset = u64::from(run.offset);
            for index in 0..run.count {
                let length = lengths.next().ok_or(MalformedBatch("fewer lengths than its runs need"))?;
                let at = pool
                    .locate(run.segment, run.slot, offset, length)
                    .ok_or(MalformedBatch("a record lies outside its block"))?;
                offset += u64::from(length) + FRAME_GAP;
                let span = Span::Shared { segment: run.segment, length, offset: at };
                let goes_on = run.continues() && index + 1 == run.count;
                match (&mut partial, goes_on) {
                    (None, false) => records.spans.push(span),
                    (None, true) => partial = Some(records.bytes(span).to_vec()),
                    (Some(record), _) => {
                        record.extend_from_slice(records.bytes(span));
                        if !goes_on {
                            records.spans.push(Span::Assembled(records.assembled.len()));
                            records.assembled.push(partial.take().unwrap_or_default().into_boxed_slice());
                        }
                    }
                }
            }
        }
        if partial.is_some() || lengths.len() > 0 || records.spans.len() != records.header.records as usize {
            return Err(MalformedBatch("counts do not fit its runs"));
        }
        Ok(records)
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        self.returns.give_back(self.header.id);
    }
}

/// The return ring and the event that wakes the daemon. Shared by all batches of a stream.
#[derive(Debug)]
struct ReturnQueue {
    ring: Arc<Mapping>,
    returns: Mapping,
    entries: u64,
    head: Mutex<u64>,
    wake_daemon: OwnedFd,
}

impl ReturnQueue {
    fn give_back(&self, id: u64) {
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = usize::try_from(*head % self.entries).expect("within the ring");
        self.returns.counter(DATA_OFFSET + entry * 8).store(id, Relaxed);
        *head += 1;
        self.returns.counter(RETURN_HEAD).store(*head, Release);
        drop(head);
        self.wake_if_wanted();
    }

    fn wake_if_wanted(&self) {
        fence(SeqCst);
        let wake_at = self.ring.counter(RING_WAKE_AT).load(Relaxed);
        if wake_at == u64::MAX {
            return;
        }
        let events = self.returns.counter(RETURN_TAKEN).load(Relaxed)
            + self.returns.counter(RETURN_HEAD).load(Relaxed);
        if events >= wake_at {
            // Fails when the buffer is full, and then the daemon is awake already, or when the daemon has gone. Not a
            // plain write, so that no SIGPIPE hits the trainer.
            let _ = rustix::net::send(&self.wake_daemon, &[1], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
    }
}

/// What came out of the ring.
#[derive(Debug)]
pub enum Entry {
    /// A batch.
    Batch(Records),
    /// The stream is over.
    End,
    /// The stream failed; the bytes are a [`crate::v1::Error`].
    Error(Vec<u8>),
}

/// Reads batch descriptors and gives batches back.
#[derive(Debug)]
pub struct Consumer {
    ring: Arc<Mapping>,
    returns: Arc<ReturnQueue>,
    pool: Arc<PoolView>,
    ring_bytes: u64,
    tail: u64,
    taken: u64,
    waited: u64,
    payload: Vec<u8>,
}

impl Consumer {
    /// Maps the rings that the daemon passed.
    ///
    /// # Errors
    /// `InvalidData` if they are not what the daemon announced.
    pub fn new(
        ring: impl AsFd,
        ring_bytes: u64,
        returns: impl AsFd,
        return_entries: u64,
        wake_daemon: OwnedFd,
        pool: Arc<PoolView>,
    ) -> io::Result<Self> {
        let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        if !ring_bytes.is_power_of_two() || return_entries == 0 || return_entries > 1 << 32 {
            return Err(invalid("the daemon announced rings of an impossible size"));
        }
        let size =
            |bytes: u64| usize::try_from(bytes).map_err(|_| invalid("the daemon announced rings too large"));
        let ring = Arc::new(Mapping::read_only(ring, size(DATA_OFFSET as u64 + ring_bytes)?)?);
        let returns = Mapping::read_write(returns, size(DATA_OFFSET as u64 + return_entries * 8)?)?;
        if ring.counter(0).load(Acquire) != RING_MAGIC || returns.counter(0).load(Acquire) != RETURN_MAGIC {
            return Err(invalid("the rings do not start with their magic numbers"));
        }
        let returns = ReturnQueue {
            ring: Arc::clone(&ring),
            returns,
            entries: return_entries,
            head: Mutex::new(0),
            wake_daemon,
        };
        let returns = Arc::new(returns);
        Ok(Self { ring, returns, pool, ring_bytes, tail: 0, taken: 0, waited: 0, payload: Vec::new() })
    }

    /// Takes the next entry if one is whole; never waits.
    ///
    /// # Errors
    /// [`MalformedBatch`] if the daemon wrote nonsense.
    pub fn take(&mut self) -> Result<Option<Entry>, MalformedBatch> {
        loop {
            let available = self.ring.counter(RING_HEAD).load(Acquire).wrapping_sub(self.tail);
            if available == 0 {
                return Ok(None);
            }
            if available > self.ring_bytes || available < ENTRY_HEADER as u64 {
                return Err(MalformedBatch("the ring's counter is impossible"));
            }
            let mut header = Vec::with_capacity(ENTRY_HEADER);
            self.read_wrapped(self.tail, ENTRY_HEADER, &mut header);
            let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
            let (length, payload) = (u64::from(word(0)), word(8) as usize);
            let kind = u16::from_le_bytes([header[4], header[5]]);
            let more = u16::from_le_bytes([header[6], header[7]]) & FLAG_MORE != 0;
            if length > available || (ENTRY_HEADER + payload) as u64 > length {
                return Err(MalformedBatch("an entry is longer than the ring says"));
            }
            let mut bytes = std::mem::take(&mut self.payload);
            self.read_wrapped(self.tail + ENTRY_HEADER as u64, payload, &mut bytes);
            self.payload = bytes;
            self.tail += length;
            self.returns.returns.counter(RETURN_TAIL).store(self.tail, Release);
            if more {
                self.returns.wake_if_wanted();
                continue;
            }
            if kind == KIND_BATCH {
                self.taken += 1;
                self.returns.returns.counter(RETURN_TAKEN).store(self.taken, Release);
            }
            self.returns.wake_if_wanted();
            let entry = match kind {
                KIND_BATCH => Records::decode(&self.payload, &self.pool, &self.returns).map(Entry::Batch),
                KIND_END => Ok(Entry::End),
                KIND_ERROR => Ok(Entry::Error(self.payload.clone())),
                _ => Err(MalformedBatch("an entry of unknown kind")),
            };
            self.payload.clear();
            return entry.map(Some);
        }
    }

    fn read_wrapped(&self, position: u64, length: usize, out: &mut Vec<u8>) {
        let at = usize::try_from(position & (self.ring_bytes - 1)).expect("within the ring");
        let first = length.min(usize::try_from(self.ring_bytes).expect("mapped") - at);
        self.ring.copy_out(DATA_OFFSET + at, first, out);
        self.ring.copy_out(DATA_OFFSET, length - first, out);
    }

    /// Says that the client is about to sleep; `false` if something came in the meantime and it must not.
    pub fn prepare_to_wait(&self) -> bool {
        self.returns.returns.flag(RETURN_WAITING).store(1, Relaxed);
        fence(SeqCst);
        if self.ring.counter(RING_HEAD).load(Acquire) == self.tail {
            return true;
        }
        self.stop_waiting();
        false
    }

    /// The client is awake.
    pub fn stop_waiting(&self) {
        self.returns.returns.flag(RETURN_WAITING).store(0, Relaxed);
    }

    /// Adds to the time that the client says it has waited, for the daemon's status page.
    pub fn add_waited(&mut self, waited: std::time::Duration) {
        self.waited = self.waited.saturating_add(u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX));
        self.returns.returns.counter(RETURN_WAITED).store(self.waited, Relaxed);
    }
}
