//! What is known of a shard's records.

use super::error::{Check, RecordError};
use super::frame::{FRAME_BYTES, HEADER_BYTES};

/// Offsets of all records of a shard, what is wrong with some, and the checksums of its blocks.
///
/// Eight bytes of memory per record once complete; while it grows, up to twice that. Grows while a shard is scanned; a
/// reader sees only whole frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardIndex {
    /// Start of each frame, and behind the last one its end.
    pub(super) starts: Vec<u64>,
    pub(super) bad: Vec<BadFrame>,
    pub(super) tail: Option<BrokenTail>,
    pub(super) content_len: u64,
    pub(super) complete: bool,
    pub(super) block_bytes: u32,
    pub(super) block_crcs: Vec<u32>,
}

/// Where a payload lies in the shard's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Offset of its first byte.
    pub payload_offset: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// A whole frame whose payload is not what its checksum says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadFrame {
    /// Number of the record, from 0.
    pub record: u64,
    /// The checksum in the file: what was expected.
    pub stored: u32,
    /// The checksum of the payload: what was found.
    pub computed: u32,
}

/// Where the readable part of a shard ends before the shard does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokenTail {
    /// Offset of the frame that cannot be read.
    pub offset: u64,
    /// Number that its record would have.
    pub record: u64,
    /// Why it cannot be read: [`Check::LengthCrc`] or [`Check::Truncated`].
    pub check: Check,
    /// The checksum in the file, for [`Check::LengthCrc`].
    pub stored: u32,
    /// The checksum of the length bytes, for [`Check::LengthCrc`].
    pub computed: u32,
    /// Length of the payload, if the header is whole and good.
    pub length: Option<u64>,
}

/// A state to come back to with [`ShardIndex::truncate_to`].
#[derive(Debug, Clone, Copy)]
pub struct IndexMark {
    starts: usize,
    bad: usize,
    blocks: usize,
    broken: bool,
    complete: bool,
    content_len: u64,
}

impl Default for ShardIndex {
    fn default() -> Self {
        Self::new()
    }
}

impl ShardIndex {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self {
            starts: vec![0],
            bad: Vec::new(),
            tail: None,
            content_len: 0,
            complete: false,
            block_bytes: 0,
            block_crcs: Vec::new(),
        }
    }

    /// Whole frames known so far, bad ones included.
    pub fn frames(&self) -> u64 {
        self.starts.len() as u64 - 1
    }

    /// Frames that are not bad.
    pub fn good(&self) -> u64 {
        self.frames() - self.bad.len() as u64
    }

    /// Where record `record` lies, if it is known.
    pub fn frame(&self, record: u64) -> Option<Frame> {
        self.frame_slice(record, 1).next()
    }

    /// Records `first..first + count`, as far as they are known.
    pub fn frame_slice(&self, first: u64, count: u64) -> impl ExactSizeIterator<Item = Frame> {
        let last = self.starts.len() - 1;
        let from = usize::try_from(first).unwrap_or(last).min(last);
        let to = usize::try_from(first.saturating_add(count)).unwrap_or(last).min(last);
        self.starts[from..=to].windows(2).map(|pair| Frame {
            payload_offset: pair[0] + HEADER_BYTES,
            len: pair[1] - pair[0] - FRAME_BYTES,
        })
    }

    /// The bad frames, by record number.
    pub fn bad(&self) -> &[BadFrame] {
        &self.bad
    }

    /// Whether record `record` is known to be bad.
    pub fn is_bad(&self, record: u64) -> bool {
        self.first_bad_in(record, 1).is_some()
    }

    /// The first bad frame among records `first..first + count`.
    pub fn first_bad_in(&self, first: u64, count: u64) -> Option<&BadFrame> {
        let at = self.bad.partition_point(|bad| bad.record < first);
        self.bad.get(at).filter(|bad| bad.record - first < count)
    }

    /// Number of the `nth` frame that is not bad (both from 0).
    pub fn nth_good(&self, nth: u64) -> Option<u64> {
        // Before the i-th bad frame there are `record - i` good ones; the answer skips all bad ones up to there.
        let mut low = 0;
        let mut high = self.bad.len();
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.bad[middle].record - middle as u64 <= nth { low = middle + 1 } else { high = middle }
        }
        nth.checked_add(low as u64).filter(|&record| record < self.frames())
    }

    /// Where and why the readable part ends early, if it does.
    pub fn tail(&self) -> Option<&BrokenTail> {
        self.tail.as_ref()
    }

    /// Whether the shard has been scanned to its end.
    pub fn complete(&self) -> bool {
        self.complete
    }

    /// Bytes of (uncompressed) content; 0 until complete.
    pub fn content_len(&self) -> u64 {
        self.content_len
    }

    /// Content covered by whole frames, in bytes.
    pub fn frames_end(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// CRC-32C of each block scanned so far.
    pub fn block_crcs(&self) -> &[u32] {
        &self.block_crcs
    }

    /// Adds the checksum of the next block.
    pub fn push_block_crc(&mut self, crc: u32) {
        self.block_crcs.push(crc);
    }

    /// Bytes of a block; 0 if no blocks are kept.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Says how long the blocks are.
    pub fn set_block_bytes(&mut self, bytes: u32) {
        self.block_bytes = bytes;
    }

    /// Heap memory in use.
    pub fn heap_bytes(&self) -> usize {
        self.starts.capacity() * 8
            + self.bad.capacity() * size_of::<BadFrame>()
            + self.block_crcs.capacity() * 4
    }

    /// Makes this a copy of `newer`, which has grown out of it; only what is new is copied.
    pub fn extend_from(&mut self, newer: &Self) {
        let known = self.starts.len().min(newer.starts.len());
        self.starts.extend_from_slice(&newer.starts[known..]);
        let known = self.bad.len().min(newer.bad.len());
        self.bad.extend_from_slice(&newer.bad[known..]);
        let known = self.block_crcs.len().min(newer.block_crcs.len());
        self.block_crcs.extend_from_slice(&newer.block_crcs[known..]);
        (self.tail, self.content_len) = (newer.tail, newer.content_len);
        (self.complete, self.block_bytes) = (newer.complete, newer.block_bytes);
    }

    /// The present state.
    pub fn mark(&self) -> IndexMark {
        IndexMark {
            starts: self.starts.len(),
            bad: self.bad.len(),
            blocks: self.block_crcs.len(),
            broken: self.tail.is_some(),
            complete: self.complete,
            content_len: self.content_len,
        }
    }

    /// Forgets everything since `mark`.
    pub fn truncate_to(&mut self, mark: IndexMark) {
        self.starts.truncate(mark.starts);
        self.bad.truncate(mark.bad);
        self.block_crcs.truncate(mark.blocks);
        if !mark.broken {
            self.tail = None;
        }
        (self.complete, self.content_len) = (mark.complete, mark.content_len);
    }

    /// The error for a bad frame of this shard.
    pub fn bad_error(&self, bad: &BadFrame, key: &str) -> RecordError {
        let frame = self.frame(bad.record);
        RecordError {
            key: key.to_owned(),
            record: bad.record,
            offset: frame.map_or(0, |frame| frame.payload_offset - HEADER_BYTES),
            check: Check::DataCrc,
            stored: bad.stored,
            computed: bad.computed,
            length: frame.map(|frame| frame.len),
            skip_limit: None,
        }
    }

    /// The error for the broken end of this shard.
    pub fn tail_error(tail: &BrokenTail, key: &str) -> RecordError {
        RecordError {
            key: key.to_owned(),
            record: tail.record,
            offset: tail.offset,
            check: tail.check,
            stored: tail.stored,
            computed: tail.computed,
            length: tail.length,
            skip_limit: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nth_good_counts_past_the_bad(frames in 0_u64..60, bad in prop::collection::btree_set(0_u64..60, 0..20)) {
            let mut index = ShardIndex::new();
            for record in 0..frames {
                index.starts.push((record + 1) * 20);
                if bad.contains(&record) {
                    index.bad.push(BadFrame { record, stored: 0, computed: 1 });
                }
            }
            let good: Vec<u64> = (0..frames).filter(|record| !bad.contains(record)).collect();
            prop_assert_eq!(index.good(), good.len() as u64);
            for (nth, record) in good.iter().enumerate() {
                prop_assert_eq!(index.nth_good(nth as u64), Some(*record));
            }
            prop_assert_eq!(index.nth_good(good.len() as u64), None);
            for first in 0..frames {
                prop_assert_eq!(index.is_bad(first), bad.contains(&first));
                let expected = bad.iter().find(|&&record| record >= first && record < (first + 5).min(frames));
                prop_assert_eq!(index.first_bad_in(first, 5).map(|bad| bad.record), expected.copied());
            }
        }
    }
}
