//! Writes a dataset: shards as multipart uploads, side by side on a few threads, then the manifest.
//!
//! Each thread owns a store and a single-threaded runtime and takes the next shard when it is free. It holds one part
//! being filled and at most [`PARTS_IN_FLIGHT`] parts on the way, so memory is bounded by threads, not by shard sizes.
//! An upload becomes visible as a whole or not at all; the manifest is removed first and written last.
//!
//! Limits: objects that an earlier dataset left under the same URL are refused rather than deleted, unless this one
//! writes over them.

mod shard;

use crate::dataset::{MANIFEST_NAME, Manifest};
use crate::store::{Folder, block_on};
use anyhow::{Context as _, Result, bail};
use indicatif::ProgressBar;
use object_store::ObjectStoreExt as _;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of one part of an upload; S3 wants at least 5 MiB and at most 10,000 parts, so shards may have 80 GB.
const PART_BYTES: usize = 8 << 20;
/// Parts of one shard that are on their way while the next one is filled.
const PARTS_IN_FLIGHT: usize = 2;

/// What was written.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The dataset's URL.
    pub url: String,
    /// A pattern that matches its shards and nothing else of it.
    pub pattern: String,
    /// Shards written.
    pub shards: u64,
    /// Records in all shards.
    pub records: u64,
    /// Bytes of all records, without their frames.
    pub record_bytes: u64,
    /// Bytes of all frames: the shards' content before compression.
    pub content_bytes: u64,
    /// Bytes of all objects as stored.
    pub stored_bytes: u64,
    /// Wall time in seconds.
    pub seconds: f64,
}

#[derive(Default)]
struct Totals {
    next: AtomicU64,
    stop: AtomicBool,
    record_bytes: AtomicU64,
    content_bytes: AtomicU64,
    stored_bytes: AtomicU64,
}

/// Makes the dataset at `url`, with `threads` shards at a time; `progress` counts records.
///
/// # Errors
/// The URL cannot be written to, or holds shards of another dataset; or the first shard that failed, by name.
pub fn make(url: &str, manifest: &Manifest, threads: usize, progress: &ProgressBar) -> Result<Summary> {
    let folder = Folder::parse(url)?;
    let began = std::time::Instant::now();
    block_on(prepare(&folder, manifest))?;
    let totals = Totals::default();
    progress.set_length(manifest.records());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1))
            .map(|_| scope.spawn(|| block_on(work(&folder, manifest, &totals, progress))))
            .collect();
        let ends: Vec<Result<()>> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        ends.into_iter().collect::<Result<()>>()
    })?;
    block_on(async {
        folder.open()?.put(&folder.path_of(MANIFEST_NAME), manifest.to_json().into()).await?;
        Ok(())
    })
    .with_context(|| format!("cannot write {}", folder.url_of(MANIFEST_NAME)))?;
    Ok(Summary {
        url: folder.url().to_owned(),
        pattern: folder.url_of("*.tfrecord"),
        shards: manifest.shards,
        records: manifest.records(),
        record_bytes: totals.record_bytes.into_inner(),
        content_bytes: totals.content_bytes.into_inner(),
        stored_bytes: totals.stored_bytes.into_inner(),
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// Refuses a place that holds other shards, and takes the manifest away before its shards change.
async fn prepare(folder: &Folder, manifest: &Manifest) -> Result<()> {
    let store = folder.open()?;
    let names: std::collections::HashSet<String> =
        (0..manifest.shards).map(|shard| manifest.shard_name(shard)).collect();
    let listed = match store.list_with_delimiter(Some(folder.path())).await {
        Ok(listed) => listed.objects,
        // A folder that is not there yet holds nothing; writing tells whether it can be made.
        Err(object_store::Error::NotFound { .. }) => Vec::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot list {}", folder.url())),
    };
    let mut old_manifest = None;
    for object in listed {
        let name = object.location.filename().unwrap_or_default();
        if name == MANIFEST_NAME {
            old_manifest = Some(object.location);
        } else if name.ends_with(".tfrecord") && !names.contains(name) {
            bail!(
                "{} already holds {name}, which is not part of this dataset: choose another URL or delete it",
                folder.url()
            );
        }
    }
    if let Some(location) = old_manifest {
        store.delete(&location).await.with_context(|| format!("cannot replace {location}"))?;
    }
    Ok(())
}

async fn work(folder: &Folder, manifest: &Manifest, totals: &Totals, progress: &ProgressBar) -> Result<()> {
    let store = folder.open()?;
    loop {
        let shard = totals.next.fetch_add(1, Ordering::Relaxed);
        if shard >= manifest.shards || totals.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let name = manifest.shard_name(shard);
        let written = shard::write(&store, folder.path_of(&name), manifest, shard, progress).await;
        match written {
            Ok(written) => {
                totals.record_bytes.fetch_add(written.record_bytes, Ordering::Relaxed);
                totals.content_bytes.fetch_add(written.content_bytes, Ordering::Relaxed);
                totals.stored_bytes.fetch_add(written.stored_bytes, Ordering::Relaxed);
            }
            Err(error) => {
                totals.stop.store(true, Ordering::Relaxed);
                return Err(error.context(format!("cannot write {}", folder.url_of(&name))));
            }
        }
    }
}

#[cfg(test)]
mod tests;
