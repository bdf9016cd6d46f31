//! The daemon's end of a stream's two rings.
//!
//! One producer per stream, used by one task. Everything read from the client's memory is checked: counters only grow,
//! never pass what the daemon has written, and the caller checks each returned batch number against its own list.

use super::layout::{
    DATA_OFFSET, ENTRY_HEADER, FLAG_MORE, RETURN_HEAD, RETURN_MAGIC, RETURN_TAIL, RETURN_TAKEN,
    RETURN_WAITED, RETURN_WAITING, RING_HEAD, RING_MAGIC, RING_WAKE_AT,
};
use super::map::{Mapping, create_sealed, seal_against_new_writers};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::fence;

/// The client broke the rules of the shared memory; its stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("client broke the shared-memory protocol: {0}")]
pub struct Violation(pub &'static str);

/// Writes batch descriptors and reads returns.
#[derive(Debug)]
pub struct Producer {
    ring: Mapping,
    returns: Mapping,
    ring_bytes: u64,
    return_entries: u64,
    head: u64,
    tail_seen: u64,
    taken_seen: u64,
    returned: u64,
}

/// Descriptors of the two rings, to be passed to the client.
#[derive(Debug)]
pub struct RingDescriptors {
    /// Descriptor ring; the client can only map it read-only.
    pub ring: OwnedFd,
    /// Return ring; the client writes it.
    pub returns: OwnedFd,
}

impl Producer {
    /// Makes both rings: `ring_bytes` of descriptor data (a power of two of at least 4 KiB) and `return_entries` returns.
    ///
    /// # Errors
    /// If the system refuses the memory.
    pub fn create(ring_bytes: u64, return_entries: u64) -> io::Result<(Self, RingDescriptors)> {
        assert!(
            ring_bytes.is_power_of_two() && ring_bytes >= 4096,
            "a ring is a power of two of at least a page"
        );
        let size =
            |bytes: u64| usize::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
        let (ring_len, returns_len) =
            (DATA_OFFSET as u64 + ring_bytes, DATA_OFFSET as u64 + return_entries * 8);
        let ring_fd = create_sealed("feedline-ring", ring_len)?;
        let returns_fd = create_sealed("feedline-returns", returns_len)?;
        let ring = Mapping::read_write(&ring_fd, size(ring_len)?)?;
        let returns = Mapping::read_write(&returns_fd, size(returns_len)?)?;
        seal_against_new_writers(&ring_fd)?;
        ring.counter(0).store(RING_MAGIC, Relaxed);
        ring.counter(RING_WAKE_AT).store(u64::MAX, Relaxed);
        returns.counter(0).store(RETURN_MAGIC, Release);
        let producer = Self {
            ring,
            returns,
            ring_bytes,
            return_entries,
            head: 0,
            tail_seen: 0,
            taken_seen: 0,
            returned: 0,
        };
        Ok((producer, RingDescriptors { ring: ring_fd, returns: returns_fd }))
    }

    /// Longest payload that one entry should carry, so that a large batch flows through in pieces.
    pub fn max_piece(&self) -> usize {
        usize::try_from(self.ring_bytes / 4).unwrap_or(usize::MAX) - ENTRY_HEADER
    }

    /// Appends an entry if there is room; `false` if there is none yet.
    ///
    /// # Errors
    /// [`Violation`] if the client's counter is impossible.
    pub fn push(&mut self, kind: u16, more: bool, payload: &[u8]) -> Result<bool, Violation> {
        let length = (ENTRY_HEADER + payload.len()).next_multiple_of(8);
        let tail = self.returns.counter(RETURN_TAIL).load(Acquire);
        if tail < self.tail_seen || tail > self.head {
            return Err(Violation("the read position is impossible"));
        }
        self.tail_seen = tail;
        if self.ring_bytes - (self.head - tail) < length as u64 {
            return Ok(false);
        }
        let mut header = [0_u8; ENTRY_HEADER];
        header[..4].copy_from_slice(&u32::try_from(length).expect("a piece is short").to_le_bytes());
        header[4..6].copy_from_slice(&kind.to_le_bytes());
        header[6..8].copy_from_slice(&(if more { FLAG_MORE } else { 0 }).to_le_bytes());
        header[8..12].copy_from_slice(&u32::try_from(payload.len()).expect("a piece is short").to_le_bytes());
        self.write_wrapped(self.head, &header);
        self.write_wrapped(self.head + ENTRY_HEADER as u64, payload);
        self.head += length as u64;
        self.ring.counter(RING_HEAD).store(self.head, Release);
        Ok(true)
    }

    fn write_wrapped(&self, position: u64, bytes: &[u8]) {
        let at = usize::try_from(position & (self.ring_bytes - 1)).expect("within the ring");
        let first = bytes.len().min(usize::try_from(self.ring_bytes).expect("mapped") - at);
        self.ring.copy_in(DATA_OFFSET + at, &bytes[..first]);
        self.ring.copy_in(DATA_OFFSET, &bytes[first..]);
    }

    /// Whether the client sleeps and must be woken by its eventfd. Ask after each push.
    pub fn client_waits(&self) -> bool {
        fence(SeqCst);
        self.returns.flag(RETURN_WAITING).load(Relaxed) != 0
    }

    /// Batches that the client has taken out of the ring so far.
    ///
    /// # Errors
    /// [`Violation`] if the counter runs backwards.
    pub fn taken(&mut self) -> Result<u64, Violation> {
        let taken = self.returns.counter(RETURN_TAKEN).load(Acquire);
        if taken < self.taken_seen {
            return Err(Violation("the count of taken batches runs backwards"));
        }
        self.taken_seen = taken;
        Ok(taken)
    }

    /// Batches whose return has been read with [`Self::next_return`].
    pub fn returned(&self) -> u64 {
        self.returned
    }

    /// The next batch number that the client has given back. The caller checks that it is really out.
    ///
    /// # Errors
    /// [`Violation`] if the client claims more returns than fit.
    pub fn next_return(&mut self) -> Result<Option<u64>, Violation> {
        let head = self.returns.counter(RETURN_HEAD).load(Acquire);
        if head < self.returned || head - self.returned > self.return_entries {
            return Err(Violation("the count of returned batches is impossible"));
        }
        if head == self.returned {
            return Ok(None);
        }
        let entry = usize::try_from(self.returned % self.return_entries).expect("within the ring");
        let id = self.returns.counter(DATA_OFFSET + entry * 8).load(Relaxed);
        self.returned += 1;
        Ok(Some(id))
    }

    /// Asks to be woken once the client has taken or returned `events` (at least 1) more batches than now known; `false`
    /// if that is so already, and then there is nothing to wait for.
    ///
    /// # Errors
    /// As [`Self::taken`].
    pub fn arm(&mut self, events: u64) -> Result<bool, Violation> {
        let wake_at = (self.taken_seen + self.returned).saturating_add(events.max(1));
        self.ring.counter(RING_WAKE_AT).store(wake_at, Relaxed);
        fence(SeqCst);
        let now = self.taken()?.saturating_add(self.returns.counter(RETURN_HEAD).load(Acquire));
        if now < wake_at {
            return Ok(true);
        }
        self.disarm();
        Ok(false)
    }

    /// Asks to be woken when the client next frees ring space; `false` if it has done so since the last push.
    pub fn arm_for_space(&mut self) -> bool {
        self.ring.counter(RING_WAKE_AT).store(0, Relaxed);
        fence(SeqCst);
        if self.returns.counter(RETURN_TAIL).load(Acquire) == self.tail_seen {
            return true;
        }
        self.disarm();
        false
    }

    /// No more wake-ups wanted.
    pub fn disarm(&self) {
        self.ring.counter(RING_WAKE_AT).store(u64::MAX, Relaxed);
    }

    /// Seconds that the client has waited for batches so far, as it says itself.
    pub fn client_waited(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.returns.counter(RETURN_WAITED).load(Relaxed))
    }
}
