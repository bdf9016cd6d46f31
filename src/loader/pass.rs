//! Bringing a whole shard in: who starts it, what kind it is, how it ends.

use super::block::Loader;
use super::error::LoadError;
use super::plain::{First, Origin};
use super::shard::{PassState, Shard};
use super::{inflated, plain};
use crate::budget::{Lane, Permit};
use crate::fetch;
use crate::pool::SlotMut;
use crate::record::{Format, sniff};
use crate::telemetry::one_line;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// How a pass ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All records are known.
    Done,
    /// Nobody wants the rest.
    Abandoned,
}

/// As much of a shard's start as is looked at to tell its format.
pub(super) const SNIFFED_BYTES: usize = 4096;

/// Starts a pass over the shard unless one runs.
pub(super) fn start(loader: &Loader, shard: &Arc<Shard>) {
    {
        let mut state = shard.pass();
        if state.running || state.failure.is_some() {
            return;
        }
        *state = PassState { running: true, ..PassState::default() };
    }
    let guard = Ending { shard: Arc::clone(shard), failure: Some(LoadError::Stopping) };
    loader.parts().runtime.spawn(run_to_end(loader.clone(), guard));
}

async fn run_to_end(loader: Loader, mut guard: Ending) {
    let shard = Arc::clone(&guard.shard);
    guard.failure = run(&loader, &shard).await.err();
    if let Some(error) = &guard.failure {
        tracing::warn!(url = shard.object().url, error = one_line(error), "shard cannot be read");
    }
}

/// Says how the pass ended, also if it panicked or the runtime stopped.
struct Ending {
    shard: Arc<Shard>,
    failure: Option<LoadError>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        *self.shard.pass() = PassState { failure: self.failure.take(), ..PassState::default() };
        self.shard.touch();
    }
}

async fn run(loader: &Loader, shard: &Arc<Shard>) -> Result<Outcome, LoadError> {
    let (complete, content) = {
        let index = shard.index();
        (index.complete(), index.content_len())
    };
    if let Some(cached) = loader.cached(shard) {
        if complete {
            return Ok(Outcome::Done);
        }
        match plain::run(loader, shard, Origin::Disk(cached), None).await {
            // What has been learned stays: readers count on it, and the content is the same.
            Err(LoadError::Restart) => {}
            other => return other,
        }
    }
    loader.stats().passes.fetch_add(1, Relaxed);
    if complete && content == shard.object().size {
        return plain::run(loader, shard, Origin::Store, None).await;
    }
    let (format, first) = first_block(loader, shard).await?;
    match format {
        Format::Gzip | Format::Zlib => {
            let length = loader.block_length(shard.object().size, 0) as usize;
            let raw = first.slot.bytes(length).to_vec();
            drop(first);
            inflated::run(loader, shard, format, raw).await
        }
        Format::Foreign(name) => {
            Err(LoadError::Format { url: shard.object().url.clone(), looks_like: name.to_owned() })
        }
        // What looks like nothing known is scanned, and the scan says which record is wrong.
        Format::TfRecord | Format::Empty | Format::Corrupt => {
            plain::run(loader, shard, Origin::Store, Some(first)).await
        }
    }
}

/// The first block and the format it shows. One that makes no sense is fetched a second time.
async fn first_block(loader: &Loader, shard: &Arc<Shard>) -> Result<(Format, First), LoadError> {
    let permit = loader.parts().in_flight.reserve(loader.block_bytes(), Lane::Demand).await;
    let permit: Permit = permit.map_err(|_| LoadError::Stopping)?;
    let mut slot: SlotMut = loader.parts().pool.slot().await;
    let length = loader.block_length(shard.object().size, 0) as usize;
    let mut format = Format::Empty;
    for attempt in 0..2 {
        slot = loader.transfer_block(shard, 0, fetch::Lane::Demand, slot).finish().await?;
        format = sniff(slot.bytes(length.min(SNIFFED_BYTES)), length <= SNIFFED_BYTES);
        if matches!(format, Format::TfRecord | Format::Gzip | Format::Zlib) {
            if attempt > 0 {
                loader.stats().corrupt_transfers.fetch_add(1, Relaxed);
                tracing::warn!(url = shard.object().url, block = 0, "corrupt transfer fetched again");
            }
            break;
        }
    }
    Ok((format, First { slot, permit }))
}
