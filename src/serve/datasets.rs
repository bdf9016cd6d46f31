//! Names and URLs to sorted lists of objects, shared by all streams that read the same.

use super::failure::StreamFailure;
use super::published;
use crate::config;
use crate::loader::Loader;
use crate::record::CorruptPolicy;
use crate::source::{Object, SourceUrl, Stores};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// A dataset as one or more streams read it.
#[derive(Debug)]
pub(super) struct Dataset {
    /// Configured name, or `adhoc`: a bounded set, good for metric labels.
    pub(super) label: String,
    /// As asked for, for people.
    pub(super) title: String,
    /// Shards, sorted bytewise by URL.
    pub(super) shards: Vec<Arc<Object>>,
    /// What the configuration says of corrupt records.
    pub(super) corrupt: CorruptPolicy,
    /// Identity of the content: see `feedline.v1.ResumeToken`.
    pub(super) content: [u8; 16],
    counts: OnceLock<Vec<ShardCount>>,
}

/// Records of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ShardCount {
    /// Records that can be read.
    pub(super) good: u64,
    /// Corrupt ones, a broken end counted as one.
    pub(super) bad: u64,
}

impl Dataset {
    /// The shard of this number, in the order of the keys.
    pub(super) fn shard(&self, number: u64) -> &Arc<Object> {
        &self.shards[usize::try_from(number).expect("shards fit memory")]
    }

    /// Bytes of all shards as they are stored.
    pub(super) fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.size).sum()
    }

    /// Counts of all shards, if [`Self::count`] has found them.
    pub(super) fn counts(&self) -> Option<&[ShardCount]> {
        self.counts.get().map(Vec::as_slice)
    }

    /// Counts as [`Self::count`] does, away from the runtime's threads; whether all is known.
    pub(super) async fn is_counted(self: &Arc<Self>, loader: &Loader) -> bool {
        let (dataset, loader) = (Arc::clone(self), loader.clone());
        tokio::task::spawn_blocking(move || dataset.count(&loader).is_some()).await.unwrap_or(false)
    }

    /// Records that can be read, if all shards have been scanned before. Reads indexes from disk at the first success; call it
    /// where blocking is allowed.
    pub(super) fn count(&self, loader: &Loader) -> Option<u64> {
        if self.counts.get().is_none() {
            let counts = self.shards.iter().map(|object| {
                let handle = loader.open(object);
                let index = handle.index();
                let bad = index.bad().len() as u64 + u64::from(index.tail().is_some());
                index.complete().then(|| ShardCount { good: index.good(), bad })
            });
            let counts: Vec<ShardCount> = counts.collect::<Option<_>>()?;
            let _ = self.counts.set(counts);
        }
        self.counts().map(|counts| counts.iter().map(|count| count.good).sum())
    }
}

/// The first bytes of SHA-256 over each shard's URL, size and version, each with its length before it.
fn content(shards: &[Arc<Object>]) -> [u8; 16] {
    let mut hash = Sha256::new();
    for shard in shards {
        let version = shard.etag.as_deref().or(shard.version.as_deref()).unwrap_or_default();
        for part in [shard.url.as_bytes(), &shard.size.to_le_bytes(), version.as_bytes()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    hash.finalize()[..16].try_into().expect("a digest has 32 bytes")
}

/// Resolves datasets; a listing lives as long as a stream uses it.
#[derive(Debug)]
pub(super) struct Datasets {
    stores: Stores,
    configured: BTreeMap<String, config::Dataset>,
    /// One listing at a time per dataset keeps ranks that open together on the same one.
    live: Mutex<HashMap<Vec<String>, Arc<Turn>>>,
}

type Turn = tokio::sync::Mutex<Weak<Dataset>>;

impl Datasets {
    pub(super) fn new(stores: Stores, configured: BTreeMap<String, config::Dataset>) -> Self {
        Self { stores, configured, live: Mutex::default() }
    }

    /// The stores behind the datasets.
    pub(super) fn stores(&self) -> &Stores {
        &self.stores
    }

    /// Label, policy and URLs of a configured name, or of URLs and patterns.
    fn meant(&self, asked: &[String]) -> Result<(String, CorruptPolicy, Vec<String>), StreamFailure> {
        let named = match asked {
            [name] => self.configured.get(name).map(|dataset| (name.clone(), dataset)),
            _ => None,
        };
        if let [name] = asked
            && named.is_none()
            && !name.contains('/')
        {
            let known: Vec<&str> = self.configured.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none is configured".to_owned() } else { known.join(", ") };
            return Err(StreamFailure::Invalid {
                message: format!("no dataset is named {name:?}, and it is not a URL"),
                hint: format!("configured datasets: {known}; a local path needs a slash, as in ./{name}"),
            });
        }
        let (label, corrupt, urls) = match named {
            Some((name, dataset)) => (name, dataset.corrupt, dataset.urls.clone()),
            None => ("adhoc".to_owned(), CorruptPolicy::Fail, asked.to_vec()),
        };
        if urls.is_empty() {
            return Err(StreamFailure::Invalid {
                message: "the request names no dataset".to_owned(),
                hint: "give a dataset name or a URL".to_owned(),
            });
        }
        Ok((label, corrupt, urls))
    }

    /// The URLs and patterns of a dataset.
    pub(super) fn urls(&self, asked: &[String]) -> Result<Vec<SourceUrl>, StreamFailure> {
        let (_, _, urls) = self.meant(asked)?;
        Ok(urls.iter().map(|url| SourceUrl::parse(url)).collect::<Result<_, _>>()?)
    }

    /// The dataset behind a configured name, or behind URLs and patterns.
    pub(super) async fn resolve(
        &self,
        asked: &[String],
        loader: &Loader,
    ) -> Result<Arc<Dataset>, StreamFailure> {
        let (label, corrupt, urls) = self.meant(asked)?;
        let mut key = urls.clone();
        key.push(label.clone());
        let turn = self.turn(key);
        let mut live = turn.lock().await;
        if let Some(dataset) = live.upgrade() {
            return Ok(dataset);
        }
        let parsed = urls.iter().map(|url| SourceUrl::parse(url)).collect::<Result<Vec<_>, _>>()?;
        let mut objects = self.stores.list(&parsed).await?;
        objects.retain(|object| object.url.rsplit('/').next().is_none_or(|name| name != published::NAME));
        let shards: Vec<_> = objects.into_iter().map(Arc::new).collect();
        if shards.iter().all(|shard| shard.size == 0) {
            return Err(StreamFailure::Empty {
                message: format!(
                    "no records in {} objects of {}: all are empty",
                    shards.len(),
                    urls.join(", ")
                ),
                hint: "check the job that wrote them".to_owned(),
            });
        }
        for shard in shards.iter().filter(|shard| shard.size == 0) {
            tracing::warn!(url = shard.url, "empty shard");
        }
        let title = asked.join(" ");
        let content = content(&shards);
        let dataset = Arc::new(Dataset { label, title, shards, corrupt, content, counts: OnceLock::new() });
        if !dataset.is_counted(loader).await
            && published::adopt(&self.stores, &parsed, &dataset, loader).await > 0
        {
            dataset.is_counted(loader).await;
        }
        *live = Arc::downgrade(&dataset);
        Ok(dataset)
    }

    fn turn(&self, key: Vec<String>) -> Arc<Turn> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.retain(|_, turn| {
            Arc::strong_count(turn) > 1 || turn.try_lock().is_ok_and(|dataset| dataset.strong_count() > 0)
        });
        Arc::clone(live.entry(key).or_default())
    }
}
