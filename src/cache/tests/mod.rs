//! Tests of the cache on a real directory, through a real ring.

mod crash;
mod directory;
mod life;
mod model;
mod room;

use std::fs;
use std::future::Future;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use crate::ring::{AlignedBuf, EngineChoice, Ring};

pub(super) const BLOCK: usize = 64 << 10;

/// A place for a cache directory, and a ring on it.
pub(super) struct Place {
    pub(super) home: TempDir,
    pub(super) ring: Ring,
    pub(super) bytes: u64,
}

impl Place {
    pub(super) fn new(bytes: u64) -> Self {
        let home = tempfile::tempdir().unwrap();
        let ring = Ring::probe(home.path(), EngineChoice::Threads, 4).unwrap();
        Self { home, ring, bytes }
    }

    pub(super) fn dir(&self) -> PathBuf {
        self.home.path().join("cache")
    }

    pub(super) fn open(&self) -> Arc<Cache> {
        self.try_open().unwrap()
    }

    pub(super) fn try_open(&self) -> Result<Arc<Cache>, CacheError> {
        Cache::open(CacheSettings::new(self.dir(), self.bytes), self.ring.clone())
    }

    pub(super) fn file(&self, n: u64, suffix: &str) -> PathBuf {
        let id = identity(n).id().to_string();
        self.dir().join("shards").join(&id[..2]).join(format!("{id}.{suffix}"))
    }
}

pub(super) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

pub(super) fn identity(n: u64) -> ObjectIdentity {
    ObjectIdentity {
        url: format!("s3://bucket/{n:05}.tfrecord"),
        etag: Some(format!("\"{n}\"")),
        version: None,
        size: n,
    }
}

pub(super) fn content(n: u64, len: usize) -> Vec<u8> {
    let mut state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .collect()
}

pub(super) fn crcs(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(BLOCK).map(crate::record::crc32c).collect()
}

/// Begins shard `n` and writes all its blocks, last first.
pub(super) fn begin(cache: &Arc<Cache>, n: u64, len: usize) -> Result<ShardWriter, CacheError> {
    let writer = cache.create(identity(n), cache.reserve(len as u64)?)?;
    let bytes = content(n, len);
    for (k, block) in bytes.chunks(BLOCK).enumerate().rev() {
        let mut buf = AlignedBuf::new(BLOCK);
        buf.as_mut_slice()[..block.len()].copy_from_slice(block);
        let padded = block.len().next_multiple_of(4096);
        wait(writer.write_block((k * BLOCK) as u64, buf, 0, padded)).0?;
    }
    Ok(writer)
}

pub(super) fn commit(writer: ShardWriter, n: u64, len: usize) -> Result<Arc<CachedShard>, CacheError> {
    wait(writer.commit(len as u64, u32::try_from(BLOCK).unwrap(), crcs(&content(n, len))))
}

pub(super) fn put(cache: &Arc<Cache>, n: u64, len: usize) -> Result<Arc<CachedShard>, CacheError> {
    commit(begin(cache, n, len)?, n, len)
}

pub(super) fn read(shard: &CachedShard) -> Result<Vec<u8>, CacheError> {
    let mut out = Vec::new();
    for k in 0..shard.meta().blocks() {
        let (len, buf) = wait(shard.read_block(k, AlignedBuf::new(BLOCK)));
        out.extend_from_slice(&buf.as_slice()[..len?]);
    }
    Ok(out)
}

/// Whether shard `n` is there and right, byte for byte.
pub(super) fn holds(cache: &Cache, n: u64, len: usize) -> bool {
    cache.lookup(&identity(n).id()).is_some_and(|shard| read(&shard).unwrap() == content(n, len))
}

/// Bytes that a directory really takes.
pub(super) fn du(path: &Path) -> u64 {
    let stat = fs::symlink_metadata(path).unwrap();
    let inside = match stat.is_dir() {
        true => fs::read_dir(path).unwrap().map(|entry| du(&entry.unwrap().path())).sum(),
        false => 0,
    };
    stat.blocks() * 512 + inside
}

pub(super) fn count(cache: &Cache, name: &str) -> u64 {
    cache.stats().snapshot().into_iter().find(|(known, _)| *known == name).unwrap().1
}

pub(super) fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}
