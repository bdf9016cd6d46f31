//! Counting all records of a dataset on request, for `feedline dataset index`.
//!
//! Every shard whose records are not known is brought in by a pass, several at a time; the bytes go to the cache as far as
//! it has room, so the work also warms it. The client asks again and again on one connection and hears how far it is; when
//! it hangs up, the work stops.

use super::datasets::{Dataset, Datasets};
use super::failure::StreamFailure;
use super::published;
use crate::loader::{LoadError, Loader};
use crate::source::Object;
use feedline_proto::v1::{IndexDataset, IndexProgress};
use futures_util::stream::{self, TryStreamExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Shards that are read at the same time.
const SHARDS_AT_ONCE: usize = 16;
/// How long a request waits before it tells how far the work is.
const REPORT_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
struct Progress {
    shards: AtomicU64,
    records: AtomicU64,
    bad: AtomicU64,
}

/// Work under way on one connection.
#[derive(Debug)]
pub(super) struct Indexing {
    request: IndexDataset,
    dataset: Arc<Dataset>,
    progress: Arc<Progress>,
    work: JoinHandle<Result<Option<(String, u64)>, StreamFailure>>,
}

impl Drop for Indexing {
    fn drop(&mut self) {
        self.work.abort();
    }
}

impl Indexing {
    async fn start(
        request: &IndexDataset,
        datasets: &Arc<Datasets>,
        loader: &Loader,
    ) -> Result<Self, StreamFailure> {
        let dataset = datasets.resolve(&request.dataset, loader).await?;
        let progress = Arc::new(Progress::default());
        let (counted, all, loader) = (Arc::clone(&progress), Arc::clone(&dataset), loader.clone());
        let (asked, publish, datasets) = (request.dataset.clone(), request.publish, Arc::clone(datasets));
        let work = tokio::spawn(async move {
            let counts =
                all.shards.iter().map(|object| Ok(count(loader.clone(), Arc::clone(object), &counted)));
            stream::iter(counts).try_for_each_concurrent(SHARDS_AT_ONCE, |count| count).await?;
            if !publish {
                return Ok(None);
            }
            let urls = datasets.urls(&asked)?;
            published::publish(datasets.stores(), &urls, &all, &loader).await.map(Some)
        });
        Ok(Self { request: request.clone(), dataset, progress, work })
    }

    /// Starts the work or goes on with it; tells how far it is.
    pub(super) async fn go_on(
        running: &mut Option<Self>,
        request: &IndexDataset,
        datasets: &Arc<Datasets>,
        loader: &Loader,
    ) -> Result<IndexProgress, StreamFailure> {
        let indexing = match running {
            Some(running) if running.request == *request => running,
            _ => running.insert(Self::start(request, datasets, loader).await?),
        };
        let done = tokio::time::timeout(REPORT_EVERY, &mut indexing.work).await;
        let (done, published) = match done {
            Err(_) => (false, None),
            Ok(outcome) => {
                let dead = |error| StreamFailure::System {
                    what: "the work broke off",
                    cause: std::io::Error::other(error),
                };
                let outcome = outcome.map_err(dead);
                let finished = running.take();
                let published = outcome.and_then(|outcome| outcome)?;
                return Ok(finished.map_or_else(IndexProgress::default, |last| last.report(true, published)));
            }
        };
        Ok(indexing.report(done, published))
    }

    fn report(&self, done: bool, published: Option<(String, u64)>) -> IndexProgress {
        let (published_url, published_bytes) = published.unwrap_or_default();
        IndexProgress {
            shards: self.dataset.shards.len() as u64,
            counted_shards: self.progress.shards.load(Relaxed),
            records: self.progress.records.load(Relaxed),
            bad_records: self.progress.bad.load(Relaxed),
            done,
            published_url,
            published_bytes,
        }
    }
}

/// Waits until the shard's records are known, and counts them.
async fn count(loader: Loader, object: Arc<Object>, progress: &Progress) -> Result<(), LoadError> {
    let handle = loader.open(&object);
    loop {
        let mut changes = handle.changes();
        {
            let index = handle.index();
            if index.complete() {
                let bad = index.bad().len() as u64 + u64::from(index.tail().is_some());
                progress.records.fetch_add(index.good(), Relaxed);
                progress.bad.fetch_add(bad, Relaxed);
                progress.shards.fetch_add(1, Relaxed);
                return Ok(());
            }
        }
        if let Some(failure) = handle.failure() {
            return Err(failure);
        }
        handle.want(u64::MAX);
        loader.ensure(&handle);
        // The sender lives in the handle.
        let _ = changes.changed().await;
    }
}
