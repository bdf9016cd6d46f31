//! What can go wrong in the cache, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use super::meta::MetaError;

/// Why room was not set aside. Neither is fatal: the shard is streamed through without being cached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReserveError {
    /// The shard can never fit.
    #[error(
        "shard needs {asked} bytes of cache but the limit is {limit}: it is streamed without being cached; raise \
         cache.bytes above {asked} to keep it"
    )]
    TooLarge {
        /// Bytes on disk asked for, metadata included.
        asked: u64,
        /// The limit of the directory in bytes.
        limit: u64,
    },
    /// It would fit, but what is there is being read or written now.
    #[error(
        "no room for {asked} bytes of cache: {in_use} of {limit} bytes are in use by running streams; the shard is \
         streamed without being cached; raise cache.bytes to keep it"
    )]
    AllInUse {
        /// Bytes on disk asked for, metadata included.
        asked: u64,
        /// The limit of the directory in bytes.
        limit: u64,
        /// Bytes that cannot be evicted now.
        in_use: u64,
    },
}

/// Errors of the cache. Those of [`super::Cache::open`] end the start; the others concern one shard.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// Another daemon works in the directory.
    #[error("cache directory {} is in use by {holder}: stop it, or give this daemon another cache.dir", dir.display())]
    Locked {
        /// The directory.
        dir: PathBuf,
        /// "process N", or "another process" where it left no number.
        holder: String,
    },
    /// The directory has contents that are not a cache.
    #[error(
        "{} is not empty and not a feedline cache (it holds {found:?}): give an empty or new directory as cache.dir, \
         nothing in this one was touched", dir.display()
    )]
    Foreign {
        /// The directory.
        dir: PathBuf,
        /// One of the names found in it.
        found: String,
    },
    /// The directory is a cache of a layout this release does not know.
    #[error(
        "cache directory {} has layout {found:?}, this release knows {known:?}: use the release that made it, or give \
         another cache.dir", dir.display()
    )]
    Layout {
        /// The directory.
        dir: PathBuf,
        /// Text of the marker file.
        found: String,
        /// Text this release writes.
        known: &'static str,
    },
    /// Owner or mode of the directory do not allow a cache.
    #[error(
        "cache directory {} cannot be used: {reason} (mode {mode:04o}, owner {owner}, this process runs as {user}); \
         give a directory that user {user} owns and may write, or a new sub-directory", dir.display()
    )]
    Access {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
        /// Permission bits.
        mode: u32,
        /// Owner's user id.
        owner: u32,
        /// User id of this process.
        user: u32,
    },
    /// The disk under the cache has no room or no inodes left (or a quota is spent), before the logical limit.
    #[error("no room on the disk to {action} {}: lower cache.bytes or free space; the shard is streamed", path.display())]
    Full {
        /// What was being done.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The disk or the file system failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A block on disk is not what was written. The caller discards the shard and fetches it again.
    #[error(
        "cached copy of {url} is damaged: block {block} at byte {offset} has crc32c {found:08x}, expected \
         {expected:08x}; it is dropped and fetched again"
    )]
    Corrupt {
        /// URL of the object.
        url: String,
        /// Number of the block.
        block: u64,
        /// First content byte of the block.
        offset: u64,
        /// Checksum recorded when the block was written.
        expected: u32,
        /// Checksum of the bytes read.
        found: u32,
    },
    /// The data file ended before the block did. The caller discards the shard and fetches it again.
    #[error(
        "cached copy of {url} is cut: block {block} at byte {offset} has {found} bytes, expected {expected}; it is \
         dropped and fetched again"
    )]
    Cut {
        /// URL of the object.
        url: String,
        /// Number of the block.
        block: u64,
        /// First content byte of the block.
        offset: u64,
        /// Content bytes of the block.
        expected: u64,
        /// Bytes read.
        found: u64,
    },
    /// A block number beyond the content.
    #[error("{url} has {blocks} blocks, block {block} was asked for")]
    NoSuchBlock {
        /// URL of the object.
        url: String,
        /// Block asked for.
        block: u64,
        /// Blocks there are.
        blocks: u64,
    },
    /// More was to be written than was set aside.
    #[error("write of {url} up to byte {end} is beyond the {reserved} bytes reserved for it")]
    Unreserved {
        /// URL of the object.
        url: String,
        /// End of the refused write.
        end: u64,
        /// Content bytes reserved.
        reserved: u64,
    },
    /// A commit before all bytes were written.
    #[error("{url} cannot be committed: {written} of {content_len} bytes were written")]
    Incomplete {
        /// URL of the object.
        url: String,
        /// Bytes written.
        written: u64,
        /// Content bytes announced.
        content_len: u64,
    },
    /// A commit whose numbers contradict each other.
    #[error("metadata of {url} is inconsistent")]
    Meta {
        /// URL of the object.
        url: String,
        /// Which numbers.
        source: MetaError,
    },
    /// No room could be set aside.
    #[error(transparent)]
    Reserve(#[from] ReserveError),
}

impl CacheError {
    /// Wraps a system error; "no room" and "no inodes" become [`CacheError::Full`].
    pub(super) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { action, path, source },
            _ => Self::Io { action, path, source },
        }
    }

    /// Whether the cached copy is bad and must be discarded (the object itself may be fine).
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::Cut { .. })
    }
}
