//! What defaults depend on: environment, user, machine, disk.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::topology::Topology;

/// Everything outside the configuration that a default depends on.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Environment variables; those that are not UTF-8 are left out.
    pub vars: BTreeMap<String, String>,
    /// Effective user number.
    pub uid: u32,
    /// Processors that we may use.
    pub cpus: usize,
    /// Memory that we may use, in bytes.
    pub memory: u64,
    /// GPUs on the node.
    pub gpus: usize,
    /// The directory that stands for `/` when the usual files are searched.
    pub root: PathBuf,
    /// Looks at the disk that a directory is, or would be, on.
    pub space: fn(&Path) -> io::Result<Space>,
}

/// The disk below a directory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Free for us.
    pub free: u64,
    /// Taken by what the cache in that directory already holds.
    pub cached: u64,
    /// It is the root file system, which others need to live.
    pub root: bool,
}

impl Surroundings {
    /// Looks at the running process and machine.
    pub fn detect() -> Self {
        let topology = Topology::detect();
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self {
            vars: std::env::vars_os().filter_map(text).collect(),
            uid: rustix::process::geteuid().as_raw(),
            cpus: topology.cpus.usable,
            memory: topology.memory.allowed(),
            gpus: topology.gpus.count(),
            root: PathBuf::from("/"),
            space: disk_space,
        }
    }

    /// A variable that is set and not empty.
    pub(super) fn var(&self, name: &str) -> Option<&str> {
        self.vars.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A base directory as the XDG rules have it: the variable if it is an absolute path, else `below` in the home
    /// directory.
    pub(super) fn base_dir(&self, variable: &str, below: &str) -> Option<PathBuf> {
        let named = self.var(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        named.or_else(|| self.var("HOME").map(|home| Path::new(home).join(below)))
    }

    /// `~/x` in the home directory; other paths as they are. `None` for a relative path.
    pub(super) fn absolute(&self, text: &str) -> Option<PathBuf> {
        let path = match text.strip_prefix("~/") {
            Some(rest) => Path::new(self.var("HOME")?).join(rest),
            None => PathBuf::from(text),
        };
        path.is_absolute().then_some(path)
    }
}

fn disk_space(dir: &Path) -> io::Result<Space> {
    // The directory may not be there yet: its nearest ancestor tells the file system.
    let (existing, device) = dir
        .ancestors()
        .find_map(|path| rustix::fs::stat(path).ok().map(|stat| (path, stat.st_dev)))
        .ok_or(io::ErrorKind::NotFound)?;
    let stat = rustix::fs::statvfs(existing)?;
    Ok(Space {
        free: stat.f_bavail.saturating_mul(stat.f_frsize),
        cached: held_by_cache(dir),
        root: rustix::fs::stat("/")?.st_dev == device,
    })
}

/// Disk space of the files in the two levels of `shards/`, in bytes.
fn held_by_cache(dir: &Path) -> u64 {
    let entries = |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries(&dir.join("shards"))
        .flat_map(|group| entries(&group.path()))
        .filter_map(|file| file.metadata().ok())
        .map(|meta| std::os::unix::fs::MetadataExt::blocks(&meta).saturating_mul(512))
        .sum()
}
