//! What is in the directory at start. Reads metadata files and sizes, never data: a block is checked when it is read.
//!
//! Rules, in this order: a shard exists exactly if its metadata file is valid and its data file has the length that
//! follows from it; data without metadata and files under `tmp/` are left-overs of an interrupted run, recognised by
//! name, and removed; whatever else lies there is somebody's and stays.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::error::CacheError;
use super::files::{self, Kind, Layout};
use super::id::ShardId;
use super::ledger::{charge_of, index_charge, pages};
use super::meta::{self, ShardMeta};
use super::stats::{CacheStats, one};

/// Threads that read metadata at start, and so requests that the disk sees at once.
const SCAN_THREADS: usize = 8;

/// A shard or index found, with what it takes on disk.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) id: ShardId,
    pub(super) bytes: u64,
    pub(super) used: SystemTime,
}

/// Everything found, least recently used first.
#[derive(Debug, Default)]
pub(super) struct Recovered {
    pub(super) shards: Vec<Found>,
    pub(super) indexes: Vec<Found>,
}

/// Scans the directory and removes left-overs.
pub(super) fn scan(layout: &Layout, stats: &CacheStats) -> Result<Recovered, CacheError> {
    for name in list(&layout.tmp())? {
        remove_orphan(&layout.tmp().join(&name), files::is_temp_name(&name), stats);
    }
    let mut recovered = Recovered {
        shards: for_folders(&layout.root(Kind::Data), stats, |folder, path, out| {
            scan_shards(layout, folder, path, stats, out)
        })?,
        indexes: for_folders(&layout.root(Kind::Index), stats, |folder, path, out| {
            scan_indexes(folder, path, stats, out)
        })?,
    };
    recovered.shards.sort_by_key(|found| (found.used, found.id));
    recovered.indexes.sort_by_key(|found| (found.used, found.id));
    Ok(recovered)
}

/// Scans the folders of `root` with several threads: after a reboot each entry waits for the disk.
fn for_folders(
    root: &Path,
    stats: &CacheStats,
    scan: impl Fn(&str, &Path, &mut Vec<Found>) -> Result<(), CacheError> + Sync,
) -> Result<Vec<Found>, CacheError> {
    let names = list(root)?;
    let next = AtomicUsize::new(0);
    let work = || {
        let mut out = Vec::new();
        while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
            let path = root.join(name);
            let ours =
                name.len() == 2 && name.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
            if ours && fs::symlink_metadata(&path).is_ok_and(|stat| stat.is_dir()) {
                scan(name, &path, &mut out)?;
            } else {
                foreign(&path, stats);
            }
        }
        Ok::<_, CacheError>(out)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..SCAN_THREADS).map(|_| scope.spawn(work)).collect();
        let mut all = Vec::new();
        for thread in threads {
            all.append(&mut thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(all)
    })
}

fn scan_shards(
    layout: &Layout,
    folder: &str,
    path: &Path,
    stats: &CacheStats,
    out: &mut Vec<Found>,
) -> Result<(), CacheError> {
    let mut seen: HashMap<ShardId, (bool, bool)> = HashMap::new();
    for name in list(path)? {
        match files::parse_name(folder, &name) {
            Some((id, Kind::Data)) => seen.entry(id).or_default().0 = true,
            Some((id, Kind::Meta)) => seen.entry(id).or_default().1 = true,
            _ => foreign(&path.join(name), stats),
        }
    }
    for (id, (_, has_meta)) in seen {
        let (data, meta) = (layout.file(&id, Kind::Data), layout.file(&id, Kind::Meta));
        if !has_meta {
            remove_orphan(&data, true, stats);
            continue;
        }
        match inspect(&id, &data, &meta) {
            Ok(found) => out.push(found),
            Err(reason) => {
                one(&stats.bad_metas);
                tracing::warn!(path = %meta.display(), reason, "cached shard dropped at start, it will be fetched again");
                files::remove(&meta);
                remove_orphan(&data, true, stats);
            }
        }
    }
    Ok(())
}

/// A shard's entry, or why it is none.
fn inspect(id: &ShardId, data: &Path, path: &Path) -> Result<Found, String> {
    let (bytes, used) = files::read_small(path, meta::MAX_BYTES).map_err(|error| error.to_string())?;
    let meta = ShardMeta::of_file(id, &bytes).map_err(|error| error.to_string())?;
    check_data(data, meta.content_len)?;
    Ok(Found { id: *id, bytes: charge_of(meta.content_len, bytes.len() as u64), used })
}

/// Whether the data file is a regular file of the right length.
pub(super) fn check_data(data: &Path, content_len: u64) -> Result<(), String> {
    let stat = fs::symlink_metadata(data).map_err(|error| format!("data file: {error}"))?;
    match (stat.is_file(), stat.len(), pages(content_len)) {
        (true, found, expected) if found == expected => Ok(()),
        (true, found, expected) => Err(format!("data file has {found} bytes, expected {expected}")),
        (false, ..) => Err("data file is not a regular file".to_owned()),
    }
}

fn scan_indexes(
    folder: &str,
    path: &Path,
    stats: &CacheStats,
    out: &mut Vec<Found>,
) -> Result<(), CacheError> {
    for name in list(path)? {
        let file = path.join(&name);
        let stat = fs::symlink_metadata(&file).ok().filter(fs::Metadata::is_file);
        match (files::parse_name(folder, &name), stat) {
            (Some((id, Kind::Index)), Some(stat)) => out.push(Found {
                id,
                bytes: index_charge(stat.len()),
                used: stat.modified().unwrap_or(UNIX_EPOCH),
            }),
            _ => foreign(&file, stats),
        }
    }
    Ok(())
}

/// Names in a folder. Names that are not UTF-8 are not ours; they come out mangled and match no pattern.
fn list(path: &Path) -> Result<Vec<String>, CacheError> {
    let read = || -> io::Result<Vec<String>> {
        fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    };
    read().map_err(|error| CacheError::io("list", path, error))
}

/// Removes a file of ours; a link, a folder or a foreign name stays.
fn remove_orphan(path: &Path, ours: bool, stats: &CacheStats) {
    match fs::symlink_metadata(path) {
        Ok(stat) if ours && stat.is_file() => {
            if files::remove(path) {
                one(&stats.orphans_removed);
            }
        }
        Ok(_) => foreign(path, stats),
        Err(_) => {}
    }
}

fn foreign(path: &Path, stats: &CacheStats) {
    one(&stats.foreign_files);
    tracing::warn!(path = %path.display(), "file in the cache directory is not from this cache and is left alone");
}
