//! Where the files of a cache directory lie, and the few operations on them.
//!
//! Files are 0600, folders 0700, symbolic links are never followed below the directory itself.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, OFlags, Timespec, Timestamps};

use super::error::CacheError;
use super::id::ShardId;

/// Name of the marker file.
pub(super) const MARKER: &str = "feedline-cache";
/// Name of the lock file.
pub(super) const LOCK: &str = "lock";

/// What a file of ours is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    Meta,
    Index,
}

impl Kind {
    fn suffix(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Meta => "meta",
            Self::Index => "idx",
        }
    }

    fn parse(suffix: &str) -> Option<Self> {
        [Self::Data, Self::Meta, Self::Index].into_iter().find(|kind| kind.suffix() == suffix)
    }
}

/// The paths of one cache directory.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) dir: PathBuf,
    sequence: AtomicU64,
}

impl Layout {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir, sequence: AtomicU64::new(0) }
    }

    pub(super) fn root(&self, kind: Kind) -> PathBuf {
        self.dir.join(if kind == Kind::Index { "index" } else { "shards" })
    }

    pub(super) fn tmp(&self) -> PathBuf {
        self.dir.join("tmp")
    }

    pub(super) fn folder(&self, id: &ShardId, kind: Kind) -> PathBuf {
        self.root(kind).join(id.folder())
    }

    pub(super) fn file(&self, id: &ShardId, kind: Kind) -> PathBuf {
        self.folder(id, kind).join(format!("{id}.{}", kind.suffix()))
    }

    /// A new name under `tmp/`; no two calls give the same.
    pub(super) fn temp(&self, id: &ShardId, kind: Kind) -> Temp {
        let n = self.sequence.fetch_add(1, Ordering::Relaxed);
        Temp { path: Some(self.tmp().join(format!("{id}.{n:016x}.{}", kind.suffix()))) }
    }
}

/// Whether `name` is one that [`Layout::file`] makes in `folder`; the id and what it is for.
pub(super) fn parse_name(folder: &str, name: &str) -> Option<(ShardId, Kind)> {
    let (stem, suffix) = name.split_once('.')?;
    let id = ShardId::parse(stem)?;
    (id.folder() == folder).then_some((id, Kind::parse(suffix)?))
}

/// Whether `name` is one that [`Layout::temp`] makes.
pub(super) fn is_temp_name(name: &str) -> bool {
    let mut parts = name.split('.');
    let known = parts.next().is_some_and(|stem| ShardId::parse(stem).is_some())
        && parts.next().is_some_and(|n| n.len() == 16 && n.bytes().all(|digit| digit.is_ascii_hexdigit()))
        && parts.next().is_some_and(|suffix| Kind::parse(suffix).is_some());
    known && parts.next().is_none()
}

/// A file under `tmp/` that is removed on drop unless it has been renamed to its place.
#[derive(Debug)]
pub(super) struct Temp {
    path: Option<PathBuf>,
}

impl Temp {
    pub(super) fn path(&self) -> &Path {
        self.path.as_deref().expect("the path is taken only by value, in `rename`")
    }

    pub(super) fn rename(mut self, to: &Path) -> Result<(), CacheError> {
        fs::rename(self.path(), to).map_err(|error| CacheError::io("rename a new file to", to, error))?;
        self.path = None;
        Ok(())
    }

    /// Creates the file with these bytes and forces them to disk.
    pub(super) fn fill(&self, bytes: &[u8]) -> Result<(), CacheError> {
        let write = || {
            let mut file = options().write(true).create_new(true).open(self.path())?;
            io::Write::write_all(&mut file, bytes)?;
            file.sync_all()
        };
        write().map_err(|error| CacheError::io("write", self.path(), error))
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            remove(path);
        }
    }
}

/// Open options for files of ours.
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).expect("open flags are small positive numbers");
    options.mode(0o600).custom_flags(flags);
    options
}

/// Makes a folder; `false` if it was there.
pub(super) fn make_dir(path: &Path) -> io::Result<bool> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            match fs::symlink_metadata(path)?.is_dir() {
                true => Ok(false),
                false => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

/// Forces the names in a folder to disk.
pub(super) fn sync_dir(path: &Path) -> Result<(), CacheError> {
    File::open(path)
        .and_then(|dir| dir.sync_all())
        .map_err(|error| CacheError::io("sync folder", path, error))
}

/// The whole of a regular file of at most `limit` bytes, with its time of last use.
pub(super) fn read_small(path: &Path, limit: u64) -> io::Result<(Vec<u8>, SystemTime)> {
    let file = options().read(true).open(path)?;
    let stat = file.metadata()?;
    if !stat.is_file() || stat.len() > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file of a plausible size"));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(stat.len()).unwrap_or_default());
    file.take(limit).read_to_end(&mut bytes)?;
    Ok((bytes, stat.modified().unwrap_or(UNIX_EPOCH)))
}

/// Removes a file; one that is gone already is fine. Returns whether it is gone now.
pub(super) fn remove(path: &Path) -> bool {
    match fs::remove_file(path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot remove a cache file");
            false
        }
    }
}

/// Marks a file as used now, in its modification time, which orders the entries after a restart.
pub(super) fn touch(path: &Path) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let time = Timespec {
        tv_sec: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(now.subsec_nanos()),
    };
    let times = Timestamps { last_access: time, last_modification: time };
    if let Err(error) = rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW) {
        tracing::debug!(path = %path.display(), %error, "cannot note the use of a cache file");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_names_are_own() {
        let layout = Layout::new("/c".into());
        let id = ShardId([0xab; 16]);
        let text = id.to_string();
        assert_eq!(layout.file(&id, Kind::Data), Path::new("/c/shards/ab").join(format!("{text}.data")));
        assert_eq!(layout.file(&id, Kind::Index), Path::new("/c/index/ab").join(format!("{text}.idx")));
        assert_eq!(parse_name("ab", &format!("{text}.meta")), Some((id, Kind::Meta)));
        for foreign in ["x.meta", &format!("{text}.meta.bak"), &text, &format!("{text}.tfrecord")] {
            assert_eq!(parse_name("ab", foreign), None, "{foreign}");
        }
        assert_eq!(parse_name("aa", &format!("{text}.meta")), None, "in another folder it is not ours");
        let temp = layout.temp(&id, Kind::Data);
        let name = temp.path().file_name().unwrap().to_str().unwrap().to_owned();
        assert!(is_temp_name(&name));
        for foreign in ["notes.txt", &format!("{text}.data"), &format!("{name}.gz")] {
            assert!(!is_temp_name(foreign), "{foreign}");
        }
    }
}
