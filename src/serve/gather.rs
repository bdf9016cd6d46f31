//! Batches of records from all over the place: copied together into slots of their own.
//!
//! Where records are mixed, a batch of 256 may lie in 256 blocks, and handing out those would lease a hundred times what
//! the batch needs. So its records are copied, once, into as few slots as they fill, laid out like frames: 16 bytes between
//! payloads. The trainer reads them as it reads any batch, and none crosses a slot's border unless it is larger.
//!
//! They come from blocks in the pool where neighbours will be needed soon ([`Reading::Blocks`]), or one by one from the
//! disk ([`Reading::Records`]). A few blocks at a time are held for that; they are leased with the batch.

use super::failure::StreamFailure;
use super::walk::{Picked, Piece};
use crate::loader::{Handle, LoadError, Loader, Payload};
use crate::order::{Mixing, Shuffle};
use crate::pool::{BlockKey, BlockRef, SlotMut};
use crate::record::{FRAME_BYTES, Frame};
use feedline_proto::shm::BatchWriter;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::collections::HashMap;
use std::sync::Arc;

/// Blocks held at the same time while a batch is put together.
const BLOCKS_AT_ONCE: u64 = 8;
/// Records read from disk at the same time for a batch.
const RECORDS_AT_ONCE: usize = 64;

/// Where the records of mixed batches are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// In whole blocks, which stay in the pool for the batches that follow.
    Blocks,
    /// Each for itself.
    Records,
}

impl Reading {
    /// Whole blocks, if the pool holds those that a window of records lies in twice over.
    pub(super) fn of(shuffle: Shuffle, slots: u64) -> Self {
        match shuffle {
            Shuffle::Blocks(Mixing { run, window, .. }) if window.get().div_ceil(run.get()) <= slots / 4 => {
                Self::Blocks
            }
            _ => Self::Records,
        }
    }
}

/// A part of a record: where it lies, and where it goes.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// Offset in its block.
    from: usize,
    length: usize,
    /// Offset in the batch.
    to: u64,
}

/// A batch to be put together.
#[derive(Debug)]
pub(super) struct Gather {
    picked: Picked,
    /// Bytes from the first payload to the end of the last, with the gaps between.
    length: u64,
    pub(super) bytes: u64,
    reading: Reading,
}

impl Gather {
    pub(super) fn of(picked: Picked, block_bytes: u64, reading: Reading) -> Self {
        let (mut at, mut length, mut bytes) = (0, 0, 0);
        for frame in picked.pieces.iter().flat_map(|piece| &piece.frames) {
            at = placed(at, frame.len, block_bytes);
            // A record of no bytes has a place as well.
            length = at + frame.len.max(1);
            at += frame.len + FRAME_BYTES;
            bytes += frame.len;
        }
        Self { picked, length, bytes, reading }
    }

    /// Slots that the batch fills.
    pub(super) fn slots(&self, block_bytes: u64) -> u64 {
        self.length.div_ceil(block_bytes)
    }

    /// Blocks to hold meanwhile, at most; one is enough.
    pub(super) fn most_helpers(&self) -> u64 {
        self.picked.records.clamp(1, BLOCKS_AT_ONCE)
    }

    /// Puts the batch together. The caller has leased [`Self::slots`] and `helpers` blocks more, at least one.
    pub(super) async fn run(self, loader: Loader, helpers: u64) -> Result<Gathered, StreamFailure> {
        let block_bytes = loader.block_bytes();
        let mut slots = Vec::new();
        for _ in 0..self.slots(block_bytes) {
            slots.push(loader.parts().pool.slot().await);
        }
        let mut target = Target { slots, shift: loader.block_shift() };
        let mut to = 0;
        let mut records = Vec::new();
        for piece in &self.picked.pieces {
            for &frame in &piece.frames {
                to = placed(to, frame.len, block_bytes);
                records.push((Arc::clone(&piece.handle), frame, to));
                to += frame.len + FRAME_BYTES;
            }
        }
        if self.reading == Reading::Records {
            records = read_records(&loader, records, &mut target).await;
        }
        let helpers = usize::try_from(helpers).expect("few");
        read_blocks(&loader, &records, &mut target, helpers).await.map_err(StreamFailure::Load)?;
        let last = self.length - (target.slots.len() as u64 - 1) * block_bytes;
        let count = target.slots.len();
        let blocks = target.slots.into_iter().enumerate().map(|(number, slot)| {
            let length = if number + 1 == count { last } else { block_bytes };
            slot.freeze(u32::try_from(length).expect("a block fits 32 bits"))
        });
        Ok(Gathered { blocks: blocks.collect(), picked: self.picked, bytes: self.bytes })
    }
}

/// Where a record of `length` bytes goes that would start at `at`: to the next slot, if it crosses a border for no need.
fn placed(at: u64, length: u64, block_bytes: u64) -> u64 {
    let next = at.next_multiple_of(block_bytes);
    if length <= block_bytes && at + length > next && at != next { next } else { at }
}

/// The slots of a batch being put together.
struct Target {
    slots: Vec<SlotMut>,
    shift: u32,
}

impl Target {
    fn put(&mut self, mut to: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let slot = usize::try_from(to >> self.shift).expect("slots fit memory");
            let at = usize::try_from(to & ((1 << self.shift) - 1)).expect("a block fits memory");
            let target = &mut self.slots[slot].bytes_mut()[at..];
            let count = target.len().min(bytes.len());
            target[..count].copy_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            to += count as u64;
        }
    }
}

/// A record to copy: its shard, its frame, its place in the batch.
type Wanted = (Arc<Handle>, Frame, u64);

/// Reads records one by one; gives those that have to be read in blocks.
async fn read_records(loader: &Loader, records: Vec<Wanted>, target: &mut Target) -> Vec<Wanted> {
    let mut left = Vec::new();
    let reads = records.into_iter().map(|record| read_record(loader.clone(), record));
    let mut reads = stream::iter(reads).buffer_unordered(RECORDS_AT_ONCE);
    while let Some((record, payload)) = reads.next().await {
        match payload {
            Some(payload) => target.put(record.2, payload.bytes()),
            None => left.push(record),
        }
    }
    left
}

async fn read_record(loader: Loader, record: Wanted) -> (Wanted, Option<Payload>) {
    // What is in the pool anyway needs no disk.
    let block = record.1.payload_offset >> loader.block_shift();
    if loader.parts().pool.contains(&BlockKey { shard: record.0.id(), block }) {
        return (record, None);
    }
    let payload = loader.record(&record.0, record.1).await;
    (record, payload)
}

async fn load(loader: Loader, handle: Arc<Handle>, key: BlockKey) -> Result<(BlockKey, BlockRef), LoadError> {
    Ok((key, loader.block(&handle, key.block).await?))
}

/// Copies records out of their blocks, each block loaded once.
async fn read_blocks(
    loader: &Loader,
    records: &[Wanted],
    target: &mut Target,
    at_once: usize,
) -> Result<(), LoadError> {
    let mut order = Vec::new();
    let mut parts: HashMap<BlockKey, Vec<Part>> = HashMap::new();
    let (shift, block_bytes) = (loader.block_shift(), loader.block_bytes());
    let narrow = |number: u64| usize::try_from(number).expect("within a block");
    for (handle, frame, to) in records {
        let (mut at, end) = (frame.payload_offset, frame.payload_offset + frame.len);
        while at < end {
            let block = at >> shift;
            let part_end = end.min((block + 1) << shift);
            let key = BlockKey { shard: handle.id(), block };
            let part = Part {
                from: narrow(at & (block_bytes - 1)),
                length: narrow(part_end - at),
                to: to + (at - frame.payload_offset),
            };
            let known = parts.entry(key).or_insert_with(|| {
                order.push((key, Arc::clone(handle)));
                Vec::new()
            });
            known.push(part);
            at = part_end;
        }
    }
    let loads = order.into_iter().map(|(key, handle)| load(loader.clone(), handle, key));
    let mut loads = stream::iter(loads).buffer_unordered(at_once);
    while let Some((key, block)) = loads.try_next().await? {
        for part in &parts[&key] {
            target.put(part.to, &block.bytes()[part.from..part.from + part.length]);
        }
    }
    Ok(())
}

/// A batch that has been put together.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) blocks: Vec<BlockRef>,
    pub(super) picked: Picked,
    pub(super) bytes: u64,
}

impl Gathered {
    /// Writes the runs of the batch.
    pub(super) fn describe(&self, shift: u32, writer: &mut BatchWriter) {
        let frames = self.picked.pieces.iter().flat_map(|piece: &Piece| &piece.frames);
        let mut to = 0;
        let placed = frames.map(|frame| {
            to = placed(to, frame.len, 1 << shift);
            let place = Frame { payload_offset: to, len: frame.len };
            to += frame.len + FRAME_BYTES;
            place
        });
        let slot = |block: u64| self.blocks[usize::try_from(block).expect("slots fit memory")].slot();
        super::batch::describe_frames(placed, slot, shift, writer);
    }
}
