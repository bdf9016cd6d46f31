//! The records of a batch, once their counts are known.

use super::Walk;
use crate::loader::Handle;
use crate::order::{Located, Share};
use crate::record::{Frame, ShardIndex};
use feedline_proto::shm::Mark;
use std::ops::Range;
use std::sync::Arc;

/// Records of one shard that follow each other in a batch.
#[derive(Debug)]
pub(in crate::serve) struct Piece {
    pub(in crate::serve) handle: Arc<Handle>,
    pub(in crate::serve) frames: Vec<Frame>,
}

/// The records of one batch of this rank.
#[derive(Debug)]
pub(in crate::serve) struct Picked {
    pub(in crate::serve) epoch: u64,
    pub(in crate::serve) global_batch: u64,
    pub(in crate::serve) position: u64,
    pub(in crate::serve) records: u64,
    pub(in crate::serve) pads: u64,
    pub(in crate::serve) pieces: Vec<Piece>,
    /// Where the job is behind this batch.
    pub(in crate::serve) next: Mark,
}

impl Walk {
    pub(super) fn pick(&mut self, share: &Share) -> Picked {
        let mut pieces = Vec::new();
        self.pick_range(share.own.clone(), &mut pieces);
        for &pad in &share.pads {
            self.pick_range(pad..pad + 1, &mut pieces);
        }
        let pads = share.pads.len() as u64;
        Picked {
            epoch: self.epoch,
            global_batch: self.batches_before + self.batch,
            position: share.own.start,
            records: share.own.end - share.own.start + pads,
            pads,
            pieces,
            next: Mark::default(),
        }
    }

    fn pick_range(&mut self, mut range: Range<u64>, pieces: &mut Vec<Piece>) {
        while range.start < range.end {
            let (slot, record) = self.located(range.start);
            let handle = self.handle(self.epoch, slot);
            if !self.order.keeps_records_together() {
                let frame = nth_frame(&handle.index(), record);
                let frame = frame.expect("counted records are known");
                match pieces.last_mut() {
                    Some(last) if Arc::ptr_eq(&last.handle, &handle) => last.frames.push(frame),
                    _ => pieces.push(Piece { handle, frames: vec![frame] }),
                }
                range.start += 1;
                continue;
            }
            let in_slot = self.counts.start_of(slot + 1).unwrap_or(u64::MAX) - range.start;
            let count = in_slot.min(range.end - range.start);
            let frames = {
                let index = handle.index();
                if index.bad().is_empty() {
                    index.frame_slice(record, count).collect()
                } else {
                    (record..record + count).filter_map(|record| nth_frame(&index, record)).collect()
                }
            };
            pieces.push(Piece { handle, frames });
            range.start += count;
        }
    }

    /// Slot and record of a position that is certain, or of a pad.
    fn located(&self, position: u64) -> (u64, u64) {
        let counts = [Some(&self.counts), self.head.as_ref()];
        let found =
            counts.into_iter().flatten().find_map(|counts| match self.order.locate(position, counts) {
                Located::At { slot, record } => Some((slot, record)),
                _ => None,
            });
        found.expect("only certain positions are picked")
    }
}

pub(super) fn nth_frame(index: &ShardIndex, record: u64) -> Option<Frame> {
    index.frame(index.nth_good(record)?)
}
