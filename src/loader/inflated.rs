//! The pass over a compressed shard: its blocks are what comes out of the decompressor, one after the other.
//!
//! The pass takes its whole share of the in-flight budget at once (two pieces of input, two blocks of output) and holds
//! nothing while it waits for the trainer, so passes cannot block each other.
//!
//! Damage at the source cannot be told apart from damage in transfer, and shows in the compressed stream or, often earlier,
//! in a record. No reader sees it before the whole shard has been fetched again: the same fault at the same place is the
//! source's own.

use super::block::Loader;
use super::error::LoadError;
use super::landing::Landing;
use super::pass::Outcome;
use super::scan::Scan;
use super::shard::Shard;
use super::transfer::Transfer;
use crate::budget::{Lane, Permit};
use crate::fetch;
use crate::pool::SlotMut;
use crate::record::{Format, InflateError, Inflater};
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
    /// What was wrong the last time, until it is known whether it was the transfer's fault.
    before: Option<Fault>,
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
    /// A corrupt record, which may be the transfer's fault.
    Suspect(Fault),
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
    let (mut first, mut before) = (Some(first), None);
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
            before: before.take(),
            last: attempt == ATTEMPTS,
        };
        let fault = match pass.run(format, first.take()).await {
            Ok(()) => return Ok(Outcome::Done),
            Err(Failure::Abandoned) => return Ok(Outcome::Abandoned),
            Err(Failure::Load(error)) => return Err(error),
            Err(Failure::Suspect(fault)) => {
                pass.transfer_was_at_fault();
                fault
            }
            Err(Failure::Inflate(error)) => {
                let fault = Fault::Stream(error.clone());
                if pass.last || pass.before.as_ref() == Some(&fault) {
                    let url = shard.object().url.clone();
                    return Err(LoadError::Inflate { url, cause: Arc::new(error) });
                }
                pass.transfer_was_at_fault();
                fault
            }
        };
        tracing::warn!(url = shard.object().url, error = %fault, "compressed shard is fetched again");
        before = Some(fault);
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
        self.transfer_was_at_fault();
        self.shard.pass().finishing = true;
        let scan = std::mem::replace(&mut self.scan, Scan::new(self.loader.parts().pool.block_bytes()));
        let index = scan.finish(self.shard);
        self.shard.touch();
        let landing = std::mem::replace(&mut self.landing, Landing::without_cache(self.loader, self.shard));
        landing.commit(&index).await;
        Ok(())
    }

    /// The place where something was wrong the last time has been passed, or something else is wrong now.
    fn transfer_was_at_fault(&mut self) {
        if self.before.take().is_some() {
            self.loader.stats().corrupt_transfers.fetch_add(1, Relaxed);
        }
    }

    /// Whether a corrupt record in the block just scanned is the source's own; if not, there is no fault any more.
    fn judge(&mut self, block: u64) -> Result<(), Failure> {
        let crcs = (self.scan.suspect_from()..=block).filter_map(|block| self.scan.crc(block)).collect();
        let fault = Fault::Record { block, crcs };
        let again = self.scan.is_suspect() && self.before.as_ref() == Some(&fault);
        if again {
            self.before = None;
        } else if matches!(self.before, Some(Fault::Record { block: suspect, .. }) if suspect <= block) {
            self.transfer_was_at_fault();
        }
        match self.scan.is_suspect() && !again {
            true if self.last => self.landing.distrust(),
            true => return Err(Failure::Suspect(fault)),
            false => {}
        }
        Ok(())
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
        self.judge(block)?;
        self.loader.stats().scanned_bytes.fetch_add(length as u64, Relaxed);
        self.landing.publish(block, slot, u32::try_from(length).expect("a block fits 32 bits"), None);
        // The share covers two blocks of output: this one on its way to disk, and the next.
        self.landing.flush(1).await;
        let faults = self.scan.accept(self.shard);
        self.loader.stats().corrupt_records.fetch_add(faults as u64, Relaxed);
        self.blocks += 1;
        self.shard.pass().done = self.blocks;
        self.shard.touch();
        Ok(())
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
