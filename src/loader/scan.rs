//! Reading the records of a shard as its blocks come in, with a way back to before a suspect one.

use super::shard::Shard;
use crate::record::{IndexMark, Scanner, ShardIndex, crc32c};
use std::collections::VecDeque;

/// The scan of one pass. Works on an index of its own; readers see the shard's index grow behind it.
#[derive(Debug)]
pub(super) struct Scan {
    scanner: Scanner,
    index: ShardIndex,
    block_bytes: u64,
    /// State before each block that the record being scanned reaches back to.
    marks: VecDeque<(u64, Scanner, IndexMark)>,
    accepted_faults: usize,
}

impl Scan {
    pub(super) fn new(block_bytes: u32) -> Self {
        let mut index = ShardIndex::new();
        index.set_block_bytes(block_bytes);
        Self {
            scanner: Scanner::new(),
            index,
            block_bytes: u64::from(block_bytes),
            marks: VecDeque::new(),
            accepted_faults: 0,
        }
    }

    /// Scans block `block`; gives its checksum.
    pub(super) fn feed(&mut self, block: u64, bytes: &[u8]) -> u32 {
        let oldest = self.scanner.frame_start() / self.block_bytes;
        while self.marks.front().is_some_and(|(marked, ..)| *marked < oldest) {
            self.marks.pop_front();
        }
        self.marks.push_back((block, self.scanner.clone(), self.index.mark()));
        let crc = crc32c(bytes);
        self.scanner.feed(bytes, &mut self.index);
        self.index.push_block_crc(crc);
        crc
    }

    /// Whether a fault has come up that has not been accepted as the source's own.
    pub(super) fn is_suspect(&self) -> bool {
        self.faults() > self.accepted_faults
    }

    fn faults(&self) -> usize {
        self.index.bad().len() + usize::from(self.scanner.is_broken())
    }

    /// First block that the fault may lie in.
    pub(super) fn suspect_from(&self) -> u64 {
        self.marks.front().map_or(0, |(block, ..)| *block)
    }

    /// Checksum of a block scanned already.
    pub(super) fn crc(&self, block: u64) -> Option<u32> {
        self.index.block_crcs().get(usize::try_from(block).ok()?).copied()
    }

    /// Back to the state before block `block`, which is one of those since [`Self::suspect_from`].
    pub(super) fn rewind(&mut self, block: u64) {
        while let Some((marked, scanner, mark)) = self.marks.pop_back() {
            if marked == block {
                self.scanner = scanner;
                self.index.truncate_to(mark);
                return;
            }
        }
    }

    /// Takes what has been found as the truth and shows it to the readers. Gives the number of new faults.
    pub(super) fn accept(&mut self, shard: &Shard) -> usize {
        let new = self.faults() - self.accepted_faults;
        self.accepted_faults += new;
        let mut shared = shard.index_mut();
        if !shared.complete() && self.index.block_crcs().len() > shared.block_crcs().len() {
            shared.extend_from(&self.index);
        }
        new
    }

    /// Takes note of what has been found without showing it to anybody.
    pub(super) fn accept_unseen(&mut self) {
        self.accepted_faults = self.faults();
    }

    /// After transfers were corrected: the readers' copy is replaced, since earlier checksums have changed. One that is
    /// ahead of this scan stays: it comes from an earlier pass, and readers count on its records.
    pub(super) fn replace(&self, shard: &Shard) {
        let mut shared = shard.index_mut();
        if !shared.complete() && shared.block_crcs().len() <= self.index.block_crcs().len() {
            *shared = self.index.clone();
        }
    }

    /// The content is at its end. Gives the finished index.
    pub(super) fn finish(mut self, shard: &Shard) -> ShardIndex {
        self.scanner.finish(&mut self.index);
        let mut shared = shard.index_mut();
        if !shared.complete() {
            *shared = self.index.clone();
        }
        drop(shared);
        self.index
    }
}
