//! From records to descriptors: which blocks a batch needs, the leases on them, and the runs that say where the records lie.

use super::failure::StreamFailure;
use super::gather::Gather;
use super::walk::{Picked, Piece};
use crate::budget::Permit;
use crate::loader::{Handle, Loader};
use crate::pool::{BlockKey, BlockRef, Lease};
use crate::record::Frame;
use feedline_proto::shm::{BatchHeader, BatchWriter, Mark};
use futures_util::future::try_join_all;
use std::collections::HashMap;
use std::sync::Arc;

/// Number of the only pool segment.
const SEGMENT: u16 = 0;

/// What a stream holds: blocks behind batches that are ready or with the client.
#[derive(Debug)]
pub(super) struct Held {
    lease: Lease,
    blocks: HashMap<BlockKey, (u32, BlockRef)>,
    /// What each batch that is out holds.
    batches: HashMap<u64, Claim>,
}

/// What a batch holds.
#[derive(Debug)]
enum Claim {
    /// Blocks of shards, which other batches may hold as well.
    Shared(Vec<BlockKey>),
    /// Slots of its own.
    Own(Vec<BlockRef>),
}

impl Held {
    pub(super) fn new(lease: Lease) -> Self {
        Self { lease, blocks: HashMap::new(), batches: HashMap::new() }
    }

    /// Batches that are ready or with the client.
    pub(super) fn batches(&self) -> usize {
        self.batches.len()
    }

    pub(super) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Reserves blocks for a batch that is put together elsewhere; `None` if that must wait for returns.
    pub(super) fn reserve(
        &mut self,
        gather: &Gather,
        block_bytes: u64,
    ) -> Result<Option<Permit>, StreamFailure> {
        let (slots, limit) = (gather.slots(block_bytes), self.lease.limit());
        if slots >= limit {
            let (batch_bytes, blocks) = (gather.bytes, slots + 1);
            return Err(StreamFailure::PoolTooSmall { batch_bytes, blocks, block_bytes, limit });
        }
        let spare = self.lease.share().saturating_sub(self.lease.held() + slots);
        let blocks = slots + spare.clamp(1, gather.most_helpers());
        if !self.lease.may_take(blocks) {
            return Ok(None);
        }
        let taken = self.lease.try_take_apart(blocks);
        taken.map_err(|error| StreamFailure::pool_too_small(&error, gather.bytes, block_bytes))
    }

    /// Batch `id` holds these slots of its own; what was reserved beyond them is free again.
    pub(super) fn keep(&mut self, id: u64, permit: Permit, blocks: Vec<BlockRef>) {
        let spare = permit.bytes() - blocks.len() as u64;
        self.lease.adopt(permit);
        self.lease.give_back(spare);
        self.batches.insert(id, Claim::Own(blocks));
    }

    /// The client has given a batch back; `false` if it was not out.
    pub(super) fn give_back(&mut self, batch: u64) -> bool {
        let Some(claim) = self.batches.remove(&batch) else { return false };
        let mut freed = 0;
        match claim {
            Claim::Own(blocks) => freed = blocks.len() as u64,
            Claim::Shared(keys) => {
                for key in keys {
                    if let Some((count, _)) = self.blocks.get_mut(&key) {
                        *count -= 1;
                        if *count == 0 {
                            self.blocks.remove(&key);
                            freed += 1;
                        }
                    }
                }
            }
        }
        if freed > 0 {
            self.lease.give_back(freed);
        }
        true
    }
}

/// The blocks that a batch needs, each once, in the order of its records.
#[derive(Debug)]
pub(super) struct Needs {
    picked: Picked,
    blocks: Vec<(BlockKey, Arc<Handle>)>,
    pub(super) bytes: u64,
}

impl Needs {
    /// Blocks are `1 << shift` bytes long.
    pub(super) fn of(picked: Picked, shift: u32) -> Self {
        let mut blocks: Vec<(BlockKey, Arc<Handle>)> = Vec::new();
        let mut bytes = 0;
        for piece in &picked.pieces {
            let shard = piece.handle.id();
            let mut next = 0;
            for frame in &piece.frames {
                bytes += frame.len;
                let first = frame.payload_offset >> shift;
                let last = (frame.payload_offset + frame.len.max(1) - 1) >> shift;
                for block in first.max(next)..=last {
                    let key = BlockKey { shard, block };
                    // Pads and neighbouring pieces can need a block again; nearly always it is the last one.
                    if blocks.last().is_none_or(|(last, _)| *last != key)
                        && !blocks.iter().any(|(known, _)| *known == key)
                    {
                        blocks.push((key, Arc::clone(&piece.handle)));
                    }
                }
                next = last;
            }
        }
        Self { picked, blocks, bytes }
    }

    /// Records in the batch, pads included.
    pub(super) fn records(&self) -> u64 {
        self.picked.records
    }

    /// Where the job is behind the batch.
    pub(super) fn next(&self) -> Mark {
        self.picked.next
    }

    /// Blocks that the stream does not hold yet.
    pub(super) fn new_blocks(&self, held: &Held) -> u64 {
        self.blocks.iter().filter(|(key, _)| !held.blocks.contains_key(key)).count() as u64
    }

    /// Reserves what is missing; `false` if that must wait for returns.
    pub(super) fn try_lease(&self, held: &mut Held, block_bytes: u64) -> Result<bool, StreamFailure> {
        let wanted = self.new_blocks(held);
        if wanted > held.lease.limit() {
            let (blocks, limit) = (wanted, held.lease.limit());
            return Err(StreamFailure::PoolTooSmall { batch_bytes: self.bytes, blocks, block_bytes, limit });
        }
        if !held.lease.may_take(wanted) {
            return Ok(false);
        }
        held.lease
            .try_take(wanted)
            .map_err(|error| StreamFailure::pool_too_small(&error, self.bytes, block_bytes))
    }

    /// Loads the blocks, which have been reserved, and records that the batch holds them.
    pub(super) async fn load(&self, loader: &Loader, held: &mut Held, id: u64) -> Result<(), StreamFailure> {
        let missing = self.blocks.iter().filter(|(key, _)| !held.blocks.contains_key(key));
        let loads =
            missing.map(|(key, handle)| async move { Ok((*key, loader.block(handle, key.block).await?)) });
        let loaded: Vec<(BlockKey, BlockRef)> = try_join_all(loads).await.map_err(StreamFailure::Load)?;
        held.blocks.extend(loaded.into_iter().map(|(key, block)| (key, (0, block))));
        for (key, _) in &self.blocks {
            if let Some((count, _)) = held.blocks.get_mut(key) {
                *count += 1;
            }
        }
        held.batches.insert(id, Claim::Shared(self.blocks.iter().map(|(key, _)| *key).collect()));
        Ok(())
    }

    /// Writes the batch's descriptor.
    pub(super) fn describe(
        &self,
        held: &Held,
        id: u64,
        shift: u32,
        writer: &mut BatchWriter,
        out: &mut Vec<u8>,
    ) {
        writer.clear();
        for Piece { handle, frames } in &self.picked.pieces {
            let shard = handle.id();
            let slot = |block| held.blocks[&BlockKey { shard, block }].1.slot();
            describe_frames(frames.iter().copied(), slot, shift, writer);
        }
        writer.encode(&header(&self.picked, id), out);
    }
}

/// Writes the runs of frames in one shard, or one batch, whose blocks lie in the slots that `slot_of` gives.
pub(super) fn describe_frames(
    frames: impl Iterator<Item = Frame>,
    slot_of: impl Fn(u64) -> u32,
    shift: u32,
    writer: &mut BatchWriter,
) {
    let narrow = |number: u64| u32::try_from(number).expect("offsets and parts lie within a block");
    let mut open = None;
    let mut expected = 0;
    let mut slot = 0;
    for frame in frames {
        let mut at = frame.payload_offset;
        let end = at + frame.len;
        let mut first = true;
        loop {
            let block = at >> shift;
            let part_end = end.min((block + 1) << shift);
            if open != Some(block) {
                slot = slot_of(block);
            }
            let follows = open == Some(block) && first && at == expected;
            if !follows {
                writer.open_run(SEGMENT, slot, narrow(at - (block << shift)));
            }
            open = Some(block);
            writer.push_length(narrow(part_end - at));
            if part_end == end {
                break;
            }
            writer.mark_continues();
            at = part_end;
            first = false;
        }
        // The rest of a record that crossed a border stands alone: the run ends behind it.
        expected = if first { end + crate::record::FRAME_BYTES } else { u64::MAX };
    }
}

/// The header of a batch.
pub(super) fn header(picked: &Picked, id: u64) -> BatchHeader {
    BatchHeader {
        id,
        epoch: picked.epoch,
        global_batch: picked.global_batch,
        position: picked.position,
        records: u32::try_from(picked.records).expect("a batch size has 32 bits"),
        pads: u32::try_from(picked.pads).expect("a batch size has 32 bits"),
        next: picked.next,
    }
}
