//! What the stub stores: buckets of objects in memory, over directories of files that are only read.

use crate::encode;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::{Bound, ControlFlow};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where an object's bytes come from.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// Held in memory; served as slices, never copied.
    Memory(Bytes),
    /// One unit over and over, cut at `len`: a large object that costs no memory.
    Repeat { unit: Bytes, len: u64 },
    /// A file, read while it is served.
    File { path: PathBuf, len: u64 },
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Repeat { len, .. } | Self::File { len, .. } => *len,
        }
    }

    /// Up to `max` bytes from `offset` (which is below `len`), without I/O. `None` for a file.
    pub(crate) fn slice(&self, offset: u64, max: u64) -> Option<Bytes> {
        let max = max.min(self.len() - offset);
        match self {
            Self::Memory(bytes) => {
                let start = to_usize(offset);
                Some(bytes.slice(start..start + to_usize(max)))
            }
            Self::Repeat { unit, .. } => {
                let start = to_usize(offset % unit.len() as u64);
                let end = unit.len().min(start.saturating_add(to_usize(max)));
                Some(unit.slice(start..end))
            }
            Self::File { .. } => None,
        }
    }

    /// The same as `slice` with file reads, which block.
    pub(crate) fn read(&self, offset: u64, max: u64) -> io::Result<Bytes> {
        let Self::File { path, len } = self else {
            return self.slice(offset, max).ok_or_else(|| io::ErrorKind::UnexpectedEof.into());
        };
        let mut piece = vec![0; to_usize(max.min(len - offset))];
        std::fs::File::open(path)?.read_exact_at(&mut piece, offset)?;
        Ok(piece.into())
    }
}

fn to_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// An object and the headers it is served with.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) content: Content,
    /// With its quotes.
    pub(crate) etag: String,
    /// Seconds since 1970.
    pub(crate) modified: i64,
    pub(crate) encoding: Option<String>,
}

impl Object {
    pub(crate) fn new(content: Content, modified: i64) -> Self {
        let etag = match &content {
            Content::Memory(bytes) => encode::etag_of(bytes),
            Content::Repeat { unit, len } => {
                encode::etag_of(format!("{}{len}", encode::etag_of(unit)).as_bytes())
            }
            Content::File { path, len } => encode::etag_of(format!("{}{len}", path.display()).as_bytes()),
        };
        Self { content, etag, modified, encoding: None }
    }
}

#[derive(Debug, Default)]
struct Bucket {
    objects: BTreeMap<String, Arc<Object>>,
    directory: Option<PathBuf>,
    /// Keys removed or hidden although the directory still has the file.
    hidden: BTreeSet<String>,
    /// Files and objects merged, kept over the pages of one listing; only with a directory.
    listing: Option<BTreeMap<String, Arc<Object>>>,
}

/// All buckets.
#[derive(Debug, Default)]
pub(crate) struct Objects(Mutex<BTreeMap<String, Bucket>>);

impl Objects {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Bucket>> {
        // Every change is a single insert or remove, so a map behind a poisoned lock is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn create_bucket(&self, bucket: &str) {
        self.lock().entry(bucket.to_owned()).or_default();
    }

    pub(crate) fn has_bucket(&self, bucket: &str) -> bool {
        self.lock().contains_key(bucket)
    }

    /// Shows the files below `directory` as keys of `bucket`. The files are never written or removed.
    pub(crate) fn back_with(&self, bucket: &str, directory: PathBuf) {
        self.lock().entry(bucket.to_owned()).or_default().directory = Some(directory);
    }

    pub(crate) fn put(&self, bucket: &str, key: &str, object: Object) {
        let mut buckets = self.lock();
        let bucket = buckets.entry(bucket.to_owned()).or_default();
        bucket.objects.insert(key.to_owned(), Arc::new(object));
        bucket.listing = None;
    }

    pub(crate) fn remove(&self, bucket: &str, key: &str) -> bool {
        let existed = self.get(bucket, key).is_some();
        if let Some(bucket) = self.lock().get_mut(bucket) {
            bucket.objects.remove(key);
            bucket.listing = None;
            if bucket.directory.is_some() {
                bucket.hidden.insert(key.to_owned());
            }
        }
        existed
    }

    pub(crate) fn get(&self, bucket: &str, key: &str) -> Option<Arc<Object>> {
        let buckets = self.lock();
        let bucket = buckets.get(bucket)?;
        if let Some(object) = bucket.objects.get(key) {
            return Some(object.clone());
        }
        let plain = key.split('/').all(|part| !matches!(part, "" | "." | ".."));
        let directory = bucket.directory.as_deref().filter(|_| plain && !bucket.hidden.contains(key))?;
        file_object(&directory.join(key)).map(Arc::new)
    }

    /// Calls `visit` with the keys behind `start` that do not sort below `prefix`, in byte order, until it breaks.
    /// `false` if there is no such bucket. A directory is read anew when `start` is empty: on a first page.
    pub(crate) fn visit(
        &self,
        bucket: &str,
        start: &str,
        prefix: &str,
        mut visit: impl FnMut(&str, &Object) -> ControlFlow<()>,
    ) -> bool {
        let mut buckets = self.lock();
        let Some(bucket) = buckets.get_mut(bucket) else { return false };
        bucket.refresh_listing(start.is_empty());
        let keys = bucket.listing.as_ref().unwrap_or(&bucket.objects);
        let behind = !start.is_empty() && start >= prefix;
        let from = if behind { Bound::Excluded(start) } else { Bound::Included(prefix) };
        for (key, object) in keys.range::<str, _>((from, Bound::Unbounded)) {
            if visit(key, object).is_break() {
                break;
            }
        }
        true
    }
}

impl Bucket {
    /// Merges files and objects for a listing. Without a directory `objects` is the listing already.
    fn refresh_listing(&mut self, anew: bool) {
        let Some(directory) = &self.directory else { return };
        if anew || self.listing.is_none() {
            let mut all = BTreeMap::new();
            walk(directory, "", &mut all);
            all.retain(|key, _| !self.hidden.contains(key));
            all.extend(self.objects.iter().map(|(key, object)| (key.clone(), object.clone())));
            self.listing = Some(all);
        }
    }
}

fn file_object(path: &Path) -> Option<Object> {
    let meta = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let identity = format!("{}:{}:{}:{}", meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec());
    let content = Content::File { path: path.to_owned(), len: meta.len() };
    let etag = encode::etag_of(identity.as_bytes());
    Some(Object { content, etag, modified: meta.mtime(), encoding: None })
}

/// Adds the files below `directory`. What cannot be read or is not UTF-8 is not an object.
fn walk(directory: &Path, prefix: &str, into: &mut BTreeMap<String, Arc<Object>>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = entry.path();
        // A link to a directory is not followed: it may lead back up.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&path, &format!("{prefix}{name}/"), into);
        } else if let Some(object) = file_object(&path) {
            into.insert(format!("{prefix}{name}"), Arc::new(object));
        }
    }
}
