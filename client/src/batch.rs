//! A batch of records.

use feedline_proto::shm::Records;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Records of one step, as slices of shared memory.
///
/// The bytes stay as they are for as long as the batch lives; dropping it gives them back to the daemon. Batches may be
/// kept and dropped in any order and on any thread, and may outlive their stream.
#[derive(Debug)]
pub struct Batch {
    // Dropped in this order: given back first, and then the connection, if the stream is gone.
    records: Records,
    _connection: Arc<UnixStream>,
}

impl Batch {
    pub(crate) fn new(records: Records, connection: Arc<UnixStream>) -> Self {
        Self { records, _connection: connection }
    }

    /// Number of records, pads included; never 0.
    #[allow(clippy::len_without_is_empty, reason = "a batch is never empty")]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Payload of record `index`, or `None` past the end.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.records.get(index)
    }

    /// All payloads in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.records.iter()
    }

    /// Payload bytes of all records together.
    pub fn bytes(&self) -> u64 {
        self.iter().map(|record| record.len() as u64).sum()
    }

    /// Epoch, from 0.
    pub fn epoch(&self) -> u64 {
        self.records.header().epoch
    }

    /// Number of the global batch in its epoch, from 0: the same on every rank.
    pub fn global_batch(&self) -> u64 {
        self.records.header().global_batch
    }

    /// Position in the epoch's sequence of the first record.
    pub fn position(&self) -> u64 {
        self.records.header().position
    }

    /// How many records at the end are pads: repetitions that make the ranks equal.
    pub fn pads(&self) -> usize {
        self.records.header().pads as usize
    }

    /// Whether record `index` is a pad.
    pub fn is_pad(&self, index: usize) -> bool {
        index < self.len() && index >= self.len() - self.pads()
    }

    /// Bytes that had to be copied because their record crosses a block border.
    pub fn assembled_bytes(&self) -> usize {
        self.records.assembled_bytes()
    }
}

impl std::ops::Index<usize> for Batch {
    type Output = [u8];

    /// Payload of record `index`.
    ///
    /// # Panics
    /// If `index` is past the end; [`Batch::get`] does not.
    fn index(&self, index: usize) -> &[u8] {
        self.get(index).expect("record index within the batch")
    }
}
