//! Names and URLs to sorted lists of objects, shared by all streams that read the same.

use super::failure::StreamFailure;
use crate::config;
use crate::loader::Loader;
use crate::record::CorruptPolicy;
use crate::source::{Object, SourceUrl, Stores};
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
    known_records: OnceLock<u64>,
}

impl Dataset {
    /// Records that can be read, if all shards have been scanned before. Reads indexes from disk at the first success; call it
    /// where blocking is allowed.
    pub(super) fn known_records(&self, loader: &Loader) -> Option<u64> {
        if let Some(&records) = self.known_records.get() {
            return Some(records);
        }
        let mut records = 0;
        for object in &self.shards {
            let handle = loader.open(object);
            let index = handle.index();
            if !index.complete() {
                return None;
            }
            records += index.good();
        }
        Some(*self.known_records.get_or_init(|| records))
    }
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

    /// The dataset behind a configured name, or behind URLs and patterns.
    pub(super) async fn resolve(&self, asked: &[String]) -> Result<Arc<Dataset>, StreamFailure> {
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
        let mut key = urls.clone();
        key.push(label.clone());
        let turn = self.turn(key);
        let mut live = turn.lock().await;
        if let Some(dataset) = live.upgrade() {
            return Ok(dataset);
        }
        let parsed = urls.iter().map(|url| SourceUrl::parse(url)).collect::<Result<Vec<_>, _>>()?;
        let shards: Vec<_> = self.stores.list(&parsed).await?.into_iter().map(Arc::new).collect();
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
        let dataset = Arc::new(Dataset { label, title, shards, corrupt, known_records: OnceLock::new() });
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
