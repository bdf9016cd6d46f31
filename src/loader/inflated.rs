//! The pass over a compressed shard: its blocks are what comes out of the decompressor, one after the other.
//!
//! The pass takes its whole share of the in-flight budget at once (two pieces of input, two blocks of output) and holds
//! nothing while it waits for the trainer, so passes cannot block each other.
//!
//! Damage at the source cannot be told apart from damage in transfer, and shows in the compressed stream or, often earlier,
//! in a record. No reader sees it before the shard has been fetched again: the same fault at the same place is the source's
//! own. A pass that comes upon a fault reads on for the others, unseen, so that the next one knows them all.

use super::block::Loader;
use super::error::LoadError;
use super::landing::Landing;
use super::pass::{Outcome, SNIFFED_BYTES};
use super::scan::Scan;
use super::shard::Shard;
use super::transfer::Transfer;
use crate::budget::{Lane, Permit};
use crate::fetch;
use crate::pool::SlotMut;
use crate::record::{Format, InflateError, Inflater, sniff};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Blocks' worth of the in-flight budget that a running pass holds.
const SHARE: u64 = 4;

struct Inflated<'a> {
    loader: &'a Loader,
    shard: &'a Arc<Shard>,
    landing: Landing,
    scan: Scan,
    permit: Option<Permit>,
    output: Option<SlotMut>,
    filled: usize,
    blocks: u64,
    /// What was wrong the last time.
    before: Vec<Fault>,
    /// What is wrong this time.
    found: Vec<Fault>,
    /// Only looks for faults; nothing is shown to readers.
    unseen: bool,
    /// The last attempt: takes what comes.
    last: bool,
}

/// Passes over a shard before what comes is taken for the source's own.
const ATTEMPTS: usize = 3;

/// What was wrong with the bytes that came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Stream(#[from] InflateError),
    #[error("a record that ends in block {block} is corrupt")]
    Record {
        block: u64,
        /// Checksums of the blocks that the record lies in.
        crcs: Vec<u32>,
    },
}

/// Why a pass did not come to its end.
enum Failure {
    Load(LoadError),
    Inflate(InflateError),
    /// Something may be the transfer's fault.
    Suspect,
    Abandoned,
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl From<InflateError> for Failure {
    fn from(error: InflateError) -> Self {
        Self::Inflate(error)
    }
}

pub(super) async fn run(
    loader: &Loader,
    shard: &Arc<Shard>,
    format: Format,
    first: Vec<u8>,
) -> Result<Outcome, LoadError> {
    let (mut first, mut before) = (Some(first), Vec::new());
    for attempt in 1..=ATTEMPTS {
        // Blocks of an earlier attempt count no more, though some may still be in the pool.
        shard.pass().done = 0;
        let mut pass = Inflated {
            loader,
            shard,
            landing: Landing::open(loader, shard, shard.object().size),
            scan: Scan::new(loader.parts().pool.block_bytes()),
            permit: None,
            output: None,
            filled: 0,
            blocks: 0,
            before: std::mem::take(&mut before),
            found: Vec::new(),
            unseen: false,
            last: attempt == ATTEMPTS,
        };
        let end = pass.run(format, first.take()).await;
        if let Err(Failure::Inflate(error)) = &end {
            pass.found.push(Fault::Stream(error.clone()));
        }
        if !matches!(end, Err(Failure::Abandoned))
            && pass.before.iter().any(|fault| !pass.found.contains(fault))
        {
            loader.stats().corrupt_transfers.fetch_add(1, Relaxed);
        }
        match end {
            Ok(()) => return Ok(Outcome::Done),
            Err(Failure::Abandoned) => return Ok(Outcome::Abandoned),
            Err(Failure::Load(error)) => return Err(error),
            Err(Failure::Inflate(error)) if pass.last || pass.is_known(&Fault::Stream(error.clone())) => {
                let url = shard.object().url.clone();
                return Err(LoadError::Inflate { url, cause: Arc::new(error) });
            }
            Err(Failure::Inflate(_) | Failure::Suspect) => {}
        }
        let faults = pass.found.len();
        let first = pass.found.first().map(ToString::to_string);
        tracing::warn!(url = shard.object().url, faults, first, "compressed shard is fetched again");
        before = std::mem::take(&mut pass.found);
    }
    unreachable!("the last attempt ends in a result")
}

impl Inflated<'_> {
    async fn run(&mut self, format: Format, first: Option<Vec<u8>>) -> Result<(), Failure> {
        let (size, piece) = (self.shard.object().size, self.loader.block_bytes());
        let mut inflater = Inflater::new(format);
        let mut offset = first.as_ref().map_or(0, |first| first.len() as u64);
        let mut ready = first;
        self.resume().await?;
        let mut coming: Option<Transfer<Vec<u8>>> = None;
        loop {
            // The next piece travels while this one is inflated.
            let next = (offset < size).then(|| {
                let length = piece.min(size - offset);
                let buffer = vec![0; usize::try_from(length).expect("a block fits memory")];
                let (threads, object) = (&self.loader.parts().threads, self.shard.object());
                Transfer::start(threads, object, offset..offset + length, fetch::Lane::Ahead, buffer)
            });
            offset = size.min(offset + piece);
            if let Some(raw) = ready.take() {
                match self.inflate(&mut inflater, &raw).await {
                    // `finish` tells it again.
                    Err(Failure::Inflate(InflateError::Trailing { .. })) => break,
                    other => other?,
                }
            }
            if let Some(mut transfer) = std::mem::replace(&mut coming, next) {
                ready = Some(transfer.finish().await?);
            } else if coming.is_none() {
                break;
            }
        }
        match inflater.finish() {
            // The stream is whole: what somebody put behind it is worth a warning, not the records.
            Err(InflateError::Trailing { offset, byte }) => {
                let url = &self.shard.object().url;
                tracing::warn!(url, offset, byte, "bytes behind the end of the compressed data are ignored");
            }
            other => other?,
        }
        self.finish().await
    }

    /// All content is out.
    async fn finish(&mut self) -> Result<(), Failure> {
        if let Some(slot) = self.output.take() {
            self.block_full(slot).await?;
        }
        if self.unseen {
            return Err(Failure::Suspect);
        }
        self.shard.pass().finishing = true;
        let scan = std::mem::replace(&mut self.scan, Scan::new(self.loader.parts().pool.block_bytes()));
        let index = scan.finish(self.shard);
        self.shard.touch();
        let landing = std::mem::replace(&mut self.landing, Landing::without_cache(self.loader, self.shard));
        landing.commit(&index).await;
        Ok(())
    }

    /// Whether the fault was there the last time; a pass that has met new ones gives no verdict.
    fn is_known(&self, fault: &Fault) -> bool {
        !self.unseen && self.before.contains(fault)
    }

    /// Looks at a corrupt record in the block just scanned: one that is new is not believed yet.
    fn judge(&mut self, block: u64) {
        if !self.scan.is_suspect() {
            return;
        }
        let crcs = (self.scan.suspect_from()..=block).filter_map(|block| self.scan.crc(block)).collect();
        let fault = Fault::Record { block, crcs };
        if !self.is_known(&fault) {
            if self.last {
                self.landing.distrust();
            } else {
                self.unseen = true;
            }
        }
        self.found.push(fault);
    }

    async fn resume(&mut self) -> Result<(), LoadError> {
        if self.permit.is_none() {
            let bytes = SHARE * self.loader.block_bytes();
            let permit = self.loader.parts().in_flight.reserve(bytes, Lane::Demand).await;
            self.permit = Some(permit.map_err(|_| LoadError::Stopping)?);
        }
        Ok(())
    }

    async fn inflate(&mut self, inflater: &mut Inflater, mut raw: &[u8]) -> Result<(), Failure> {
        let capacity = usize::try_from(self.loader.block_bytes()).expect("a block fits memory");
        loop {
            let mut slot = match self.output.take() {
                Some(slot) => slot,
                None => {
                    self.wait_for_readers().await?;
                    self.loader.parts().pool.slot().await
                }
            };
            let step = match inflater.inflate(raw, &mut slot.bytes_mut()[self.filled..]) {
                Ok(step) => step,
                Err(error) => {
                    // What came out before is good and is needed still.
                    self.output = Some(slot);
                    return Err(error.into());
                }
            };
            raw = &raw[step.consumed..];
            self.filled += step.produced;
            if self.filled == capacity {
                self.block_full(slot).await?;
            } else {
                self.output = Some(slot);
                // Room was left, so the decompressor has given all that this input holds.
                if raw.is_empty() || step.finished {
                    return Ok(());
                }
            }
        }
    }

    async fn block_full(&mut self, slot: SlotMut) -> Result<(), Failure> {
        let (block, length) = (self.blocks, std::mem::take(&mut self.filled));
        if length == 0 {
            return Ok(());
        }
        self.scan.feed(block, slot.bytes(length));
        if block == 0 {
            self.check_format(slot.bytes(length))?;
        }
        self.judge(block);
        self.loader.stats().scanned_bytes.fetch_add(length as u64, Relaxed);
        self.blocks += 1;
        if self.unseen {
            self.scan.accept_unseen();
            self.output = Some(slot);
            return if self.shard.has_readers() { Ok(()) } else { Err(Failure::Abandoned) };
        }
        self.landing.publish(block, slot, u32::try_from(length).expect("a block fits 32 bits"), None);
        // The share covers two blocks of output: this one on its way to disk, and the next.
        self.landing.flush(1).await;
        let faults = self.scan.accept(self.shard);
        self.loader.stats().corrupt_records.fetch_add(faults as u64, Relaxed);
        self.shard.pass().done = self.blocks;
        self.shard.touch();
        Ok(())
    }

    /// What is no TFRecord file before compression is none after it.
    fn check_format(&self, first_block: &[u8]) -> Result<(), LoadError> {
        let start = &first_block[..first_block.len().min(SNIFFED_BYTES)];
        let looks_like = match sniff(start, start.len() == first_block.len()) {
            Format::Foreign(name) => format!("{name} within a compressed stream"),
            Format::Gzip | Format::Zlib => "data that was compressed twice".to_owned(),
            Format::TfRecord | Format::Empty | Format::Corrupt => return Ok(()),
        };
        Err(LoadError::Format { url: self.shard.object().url.clone(), looks_like })
    }

    /// Before a new block is begun: waits until somebody looks that far ahead, holding no memory of the budget.
    async fn wait_for_readers(&mut self) -> Result<(), Failure> {
        loop {
            let mut changes = self.shard.changes();
            if self.blocks < self.shard.wanted() {
                return Ok(self.resume().await?);
            }
            if !self.shard.has_readers() {
                return Err(Failure::Abandoned);
            }
            self.landing.flush(0).await;
            self.permit = None;
            let _ = changes.changed().await;
        }
    }
}
