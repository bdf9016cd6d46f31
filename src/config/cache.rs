//! `[cache]`: the cache directory.

use std::path::PathBuf;

use super::reader::{Reader, quoted};
use super::surroundings::Surroundings;
use super::units::{MIB, Size};

/// The least that is chosen without being told: below, a default would surprise more than a refusal.
const LEAST_DEFAULT: u64 = 256 * MIB;

/// The cache directory on a local disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// The directory, absolute.
    pub dir: PathBuf,
    /// Hard limit of cached shards in bytes.
    pub bytes: u64,
    /// Memory for record indexes in bytes.
    pub index_bytes: u64,
}

/// What is wrong with `[cache]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// The path is relative.
    #[error("the path is relative, or starts with ~ while HOME is not set")]
    Relative,
    /// No directory can be chosen.
    #[error(
        "no directory was given, and neither CACHE_DIRECTORY, XDG_CACHE_HOME nor HOME is set; set cache.dir"
    )]
    NoHome,
    /// The disk cannot be looked at.
    #[error("the file system of {} cannot be examined ({error}); set cache.bytes or another cache.dir", dir.display())]
    Space {
        /// The directory.
        dir: PathBuf,
        /// What the kernel said.
        error: String,
    },
    /// The disk is nearly full.
    #[error(
        "only {} are free below {}, too few to choose a limit (at least {} are needed); set cache.bytes or another cache.dir",
        Size(*.free), dir.display(), Size(LEAST_DEFAULT)
    )]
    Full {
        /// The directory.
        dir: PathBuf,
        /// Bytes free, with those that the cache already holds.
        free: u64,
    },
}

impl Cache {
    pub(super) fn read(reader: &mut Reader<'_>, around: &Surroundings) -> Self {
        let mut why = "";
        let dir = match reader.text("dir") {
            Some(text) => {
                let dir = around.absolute(&text);
                if dir.is_none() {
                    reader.refuse("dir", CacheError::Relative);
                }
                dir
            }
            None if reader.given("dir").is_some() => None,
            None => {
                let found = default_dir(around);
                if found.is_none() {
                    reader.refuse("dir", CacheError::NoHome);
                }
                found.map(|(dir, found)| {
                    why = found;
                    dir
                })
            }
        };
        let given = reader.number("bytes");
        let mut chosen = String::new();
        let mut bytes = given.unwrap_or(LEAST_DEFAULT);
        if let (None, Some(dir), None) = (given, &dir, reader.given("bytes")) {
            match default_bytes(around, dir) {
                Ok((limit, how)) => (bytes, chosen) = (limit, how),
                Err(error) => reader.refuse("bytes", error),
            }
        }
        let dir = dir.unwrap_or_default();
        reader.note("dir", quoted(&dir.to_string_lossy()), why);
        reader.note("bytes", quoted(&Size(bytes).to_string()), &chosen);
        let index_bytes = reader.number("index_bytes").unwrap_or(256 * MIB);
        reader.note("index_bytes", quoted(&Size(index_bytes).to_string()), "");
        Self { dir, bytes, index_bytes }
    }
}

fn default_dir(around: &Surroundings) -> Option<(PathBuf, &'static str)> {
    let unit = around.var("CACHE_DIRECTORY").and_then(|dirs| dirs.split(':').next()).map(PathBuf::from);
    if let Some(dir) = unit.filter(|dir| dir.is_absolute()) {
        return Some((dir, "from CACHE_DIRECTORY"));
    }
    let dir = around.base_dir("XDG_CACHE_HOME", ".cache")?.join("feedline");
    Some((dir, "the user's cache directory"))
}

/// A share of what is free or already ours. The sum keeps the limit the same from start to start, while the cache
/// fills. The root file system gives a small share only: filling it takes the whole node down.
fn default_bytes(around: &Surroundings, dir: &std::path::Path) -> Result<(u64, String), CacheError> {
    let space = (around.space)(dir)
        .map_err(|error| CacheError::Space { dir: dir.to_owned(), error: error.to_string() })?;
    let free = space.free.saturating_add(space.cached);
    let most = free / 5 * 4;
    if most < LEAST_DEFAULT {
        return Err(CacheError::Full { dir: dir.to_owned(), free });
    }
    if space.root {
        let how = format!("10 % of {} free, on the root file system; set cache.bytes for more", Size(free));
        return Ok(((free / 10).max(LEAST_DEFAULT), how));
    }
    Ok((most, format!("80 % of {} free", Size(free))))
}
