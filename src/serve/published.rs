//! Indexes that lie beside the data, so that one node counts and all know.
//!
//! `feedline dataset index --publish` stores one object, [`NAME`], in the folder of the dataset's URL (format:
//! `record/published.rs`). A daemon that lists the dataset and lacks the index of some shard looks for it. Entries are used
//! for shards of the same name, size and version and for the block size in force; anything else in it is passed over, so
//! a stale or foreign object costs a look and does no harm. What is used is kept with the cache's own indexes.

use super::datasets::Dataset;
use super::failure::StreamFailure;
use crate::loader::Loader;
use crate::record::{
    PUBLISHED_HEADER, PublishedEntry, PublishedTable, ShardIndex, published_bytes, read_table, table_bytes,
};
use crate::source::{Object, SourceError, SourceUrl, Store, Stores, escape, read_range};
use crate::telemetry::one_line;
use futures_util::stream::{self, StreamExt};
use object_store::buffered::BufWriter;
use object_store::path::Path;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;

/// Name of the object; one of this name is never taken for a shard.
pub(super) const NAME: &str = "_feedline.index";
/// Indexes that lie near each other are read together, in pieces of about this many bytes.
const PIECE: u64 = 16 << 20;
/// Pieces read at the same time.
const PIECES_AT_ONCE: usize = 8;
/// A table longer than this is none of ours: 2^24 shards.
const LONGEST_TABLE: u64 = 4 << 30;

/// The folder of a URL, to its last slash, as it stands before each shard's name.
fn folder(url: &SourceUrl) -> String {
    let prefix = url.literal_prefix();
    prefix[..=prefix.rfind('/').unwrap_or(0)].to_owned()
}

/// A published object that was found.
struct Found {
    store: Store,
    object: Object,
    table: PublishedTable,
}

impl Found {
    async fn read(&self, range: Range<u64>) -> Result<Vec<u8>, SourceError> {
        read(&self.store, &self.object, range).await
    }
}

async fn read(store: &Store, object: &Object, range: Range<u64>) -> Result<Vec<u8>, SourceError> {
    let mut bytes = Vec::new();
    read_range(store, object, range, |piece| bytes.extend_from_slice(piece)).await?;
    Ok(bytes)
}

/// Looks for a published index in `folder`; `None` if there is none, or none that can be used.
async fn find(stores: &Stores, folder: &str) -> Option<Found> {
    let text = format!("{folder}{NAME}");
    let url = SourceUrl::parse(&escape(&text)).ok()?;
    let object = match stores.list(std::slice::from_ref(&url)).await {
        Ok(mut objects) => objects.pop()?,
        Err(SourceError::NotFound { .. }) => return None,
        Err(error) => {
            tracing::info!(url = text, error = one_line(&error), "no published index can be looked for");
            return None;
        }
    };
    let unusable = |why: String| tracing::warn!(url = text, why, "published index is not used");
    let opened = async {
        let store = stores.open(&object.origin).map_err(|error| error.to_string())?;
        if object.size < PUBLISHED_HEADER {
            return Err("it is too short".to_owned());
        }
        let header = read(&store, &object, 0..PUBLISHED_HEADER).await.map_err(|error| error.to_string())?;
        let length = table_bytes(&header).map_err(|error| error.to_string())?;
        if length > object.size.min(LONGEST_TABLE) {
            return Err(format!("its table of {length} bytes does not fit its {} bytes", object.size));
        }
        let table = read(&store, &object, 0..length).await.map_err(|error| error.to_string())?;
        let table = read_table(&table, object.size).map_err(|error| error.to_string())?;
        Ok((store, table))
    };
    match opened.await {
        Ok((store, table)) => Some(Found { store, object, table }),
        Err(why) => {
            unusable(why);
            None
        }
    }
}

fn version(object: &Object) -> &str {
    object.etag.as_deref().or(object.version.as_deref()).unwrap_or_default()
}

/// Takes over what is published of the shards whose records are not known yet. Gives the number of shards that it helped.
pub(super) async fn adopt(
    stores: &Stores,
    urls: &[SourceUrl],
    dataset: &Arc<Dataset>,
    loader: &Loader,
) -> usize {
    let mut folders: Vec<String> = urls.iter().filter(|url| !url.scheme().is_web()).map(folder).collect();
    folders.sort_unstable();
    folders.dedup();
    let mut adopted = 0;
    for folder in folders {
        let Some(found) = find(stores, &folder).await else { continue };
        let block_bytes = loader.parts().pool.block_bytes();
        if found.table.block_bytes != block_bytes {
            let (url, theirs) = (&found.object.url, found.table.block_bytes);
            tracing::warn!(url, theirs, block_bytes, "published index is for another pool.block_bytes");
            continue;
        }
        let shards: HashMap<&str, &Arc<Object>> = dataset
            .shards
            .iter()
            .filter_map(|shard| Some((shard.url.strip_prefix(&folder)?, shard)))
            .collect();
        let mut wanted = Vec::new();
        let mut stale = 0;
        for entry in &found.table.entries {
            let Some(&shard) = shards.get(entry.name.as_str()) else { continue };
            if entry.size != shard.size || entry.version != version(shard) {
                stale += 1;
            } else if !loader.open(shard).index().complete() {
                wanted.push((entry.clone(), Arc::clone(shard)));
            }
        }
        let used = take(&found, wanted, loader).await;
        tracing::info!(url = found.object.url, used, stale, shards = dataset.shards.len(), "published index");
        adopted += used;
    }
    adopted
}

type Wanted = Vec<(PublishedEntry, Arc<Object>)>;

/// Reads the indexes and keeps them; gives how many are good.
async fn take(found: &Found, mut wanted: Wanted, loader: &Loader) -> usize {
    wanted.sort_unstable_by_key(|(entry, _)| entry.span.start);
    let mut pieces: Vec<Wanted> = Vec::new();
    for one in wanted {
        match pieces.last_mut() {
            Some(piece) if one.0.span.end - piece[0].0.span.start <= PIECE => piece.push(one),
            _ => pieces.push(vec![one]),
        }
    }
    let reads = pieces.into_iter().map(|piece| async move {
        let start = piece[0].0.span.start;
        let end = piece.last().map_or(start, |(entry, _)| entry.span.end);
        match found.read(start..end).await {
            Ok(bytes) => {
                let loader = loader.clone();
                let kept = tokio::task::spawn_blocking(move || keep(&piece, start, &bytes, &loader)).await;
                kept.unwrap_or(0)
            }
            Err(error) => {
                tracing::warn!(
                    url = found.object.url,
                    error = one_line(&error),
                    "a part of the published index cannot be read"
                );
                0
            }
        }
    });
    stream::iter(reads).buffer_unordered(PIECES_AT_ONCE).fold(0, |sum, kept| async move { sum + kept }).await
}

fn keep(piece: &Wanted, start: u64, bytes: &[u8], loader: &Loader) -> usize {
    let offset = |at: u64| usize::try_from(at - start).expect("a piece fits memory");
    let good = piece.iter().filter(|(entry, shard)| {
        let bytes = &bytes[offset(entry.span.start)..offset(entry.span.end)];
        let fits =
            |index: &ShardIndex| index.complete() && index.block_bytes() == loader.parts().pool.block_bytes();
        let intact = entry.is_intact(bytes) && ShardIndex::from_bytes(bytes).is_ok_and(|index| fits(&index));
        if !intact {
            tracing::warn!(url = shard.url, "published index of this shard is damaged");
            return false;
        }
        let saved = loader.parts().cache.save_index(&loader.open(shard).id(), bytes);
        saved
            .inspect_err(|error| {
                tracing::warn!(url = shard.url, error = one_line(error), "index cannot be kept")
            })
            .is_ok()
    });
    good.count()
}

/// Stores the indexes of all shards, which are known, in the folder of the dataset's URL. Entries of other shards that lie
/// there already stay. Gives URL and size of the object.
pub(super) async fn publish(
    stores: &Stores,
    urls: &[SourceUrl],
    dataset: &Arc<Dataset>,
    loader: &Loader,
) -> Result<(String, u64), StreamFailure> {
    let refuse = |message: String, hint: &str| StreamFailure::Invalid { message, hint: hint.to_owned() };
    let [url] = urls else {
        return Err(refuse(
            format!("{} URLs have no folder in common to publish an index in", urls.len()),
            "index one URL or pattern at a time",
        ));
    };
    let folder = folder(url);
    let (own, all) = (folder.clone(), (Arc::clone(dataset), loader.clone()));
    let indexes = tokio::task::spawn_blocking(move || collect(&own, &all.0, &all.1)).await;
    let mut shards = indexes.unwrap_or_default();
    let block_bytes = loader.parts().pool.block_bytes();
    if let Some(found) = find(stores, &folder).await.filter(|found| found.table.block_bytes == block_bytes) {
        let own: std::collections::HashSet<&str> = shards.iter().map(|(name, ..)| name.as_str()).collect();
        let others: Vec<_> =
            found.table.entries.iter().filter(|entry| !own.contains(entry.name.as_str())).collect();
        let mut kept = Vec::new();
        for entry in others {
            let bytes = found.read(entry.span.clone()).await?;
            kept.push((entry.name.clone(), entry.size, entry.version.clone(), bytes));
        }
        shards.append(&mut kept);
    }
    let bytes = published_bytes(block_bytes, shards);
    let text = format!("{folder}{NAME}");
    let failed =
        |cause: std::io::Error| StreamFailure::System { what: "cannot store the published index", cause };
    let store = stores.open_to_write(&stores.origin(url))?;
    let key = text.splitn(4, '/').nth(3).unwrap_or(NAME);
    let path =
        Path::parse(key).map_err(|error| refuse(format!("{text}: {error}"), "choose another folder"))?;
    let mut writer = BufWriter::new(store, path);
    writer.write_all(&bytes).await.map_err(failed)?;
    writer.shutdown().await.map_err(failed)?;
    tracing::info!(url = text, bytes = bytes.len(), shards = dataset.shards.len(), "index published");
    Ok((text, bytes.len() as u64))
}

type Published = (String, u64, String, Vec<u8>);

fn collect(folder: &str, dataset: &Dataset, loader: &Loader) -> Vec<Published> {
    let known = dataset.shards.iter().filter_map(|shard| {
        let handle = loader.open(shard);
        let index = handle.index();
        let name = shard.url.strip_prefix(folder)?;
        (index.complete() && shard.size > 0)
            .then(|| (name.to_owned(), shard.size, version(shard).to_owned(), index.to_bytes()))
    });
    known.collect()
}
