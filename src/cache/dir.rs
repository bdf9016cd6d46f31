//! Taking possession of a directory: is it ours, may we write, is nobody else here.
//!
//! Nothing is created before the directory has proved to be empty or a cache already, so a mistyped path never turns
//! a directory with a user's data into a cache. The lock is `flock`, which the kernel drops with its holder: a lock
//! file left by a killed daemon does not hold anybody up. The number written in it is only for the message.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use rustix::fs::FlockOperation;

use super::error::CacheError;
use super::files::{self, LOCK, MARKER};

/// Text of the marker file; the number is the version of the layout of the directory.
pub(super) const MARKER_TEXT: &str = "feedline-cache 1\n";

/// Possession of a directory, until drop.
#[derive(Debug)]
pub(super) struct DirLock {
    _file: File,
}

/// Checks, marks and locks `dir`, making it if need be, and makes its folders.
pub(super) fn take(dir: &Path) -> Result<DirLock, CacheError> {
    let io = |action, source| CacheError::io(action, dir, source);
    match fs::metadata(dir) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                fs::create_dir_all(parent).map_err(|error| io("create the parent of", error))?;
            }
            DirBuilder::new().mode(0o700).create(dir).map_err(|error| io("create cache directory", error))?;
        }
        Err(error) => return Err(io("look at cache directory", error)),
    }
    check_access(dir)?;
    let marker = dir.join(MARKER);
    if fs::symlink_metadata(&marker).is_err() {
        check_empty(dir)?;
        // Empty at first: the text is written under the lock, so two starts at once cannot disturb each other.
        if let Err(error) = files::options().write(true).create_new(true).open(&marker)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(refused(dir, error));
        }
    }
    let lock = lock(dir)?;
    check_marker(dir, &marker)?;
    make_folders(dir)?;
    Ok(lock)
}

/// All folders at once: later, on a disk without inodes, making one would fail with room to spare.
fn make_folders(dir: &Path) -> Result<(), CacheError> {
    let make = |path: &Path| files::make_dir(path).map_err(|error| CacheError::io("create", path, error));
    make(&dir.join("tmp"))?;
    for root in ["shards", "index"].map(|name| dir.join(name)) {
        make(&root)?;
        let mut new = false;
        for n in 0..=255u8 {
            new |= make(&root.join(format!("{n:02x}")))?;
        }
        if new {
            files::sync_dir(&root)?;
        }
    }
    files::sync_dir(dir)
}

fn access(dir: &Path, reason: &'static str) -> CacheError {
    let (mode, owner) = fs::metadata(dir).map_or((0, 0), |stat| (stat.mode() & 0o7777, stat.uid()));
    let user = rustix::process::geteuid().as_raw();
    CacheError::Access { dir: dir.to_owned(), reason, mode, owner, user }
}

fn refused(dir: &Path, error: io::Error) -> CacheError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => access(dir, "it may not be written"),
        io::ErrorKind::ReadOnlyFilesystem => access(dir, "its file system is mounted read-only"),
        _ => CacheError::io("create a file in", dir, error),
    }
}

fn check_access(dir: &Path) -> Result<(), CacheError> {
    let stat = fs::metadata(dir).map_err(|error| CacheError::io("look at cache directory", dir, error))?;
    if !stat.is_dir() {
        return Err(access(dir, "it is not a directory"));
    }
    if stat.uid() != rustix::process::geteuid().as_raw() {
        return Err(access(dir, "it belongs to another user"));
    }
    if stat.mode() & 0o700 != 0o700 {
        return Err(access(dir, "its owner may not read and write it"));
    }
    if stat.mode() & 0o022 != 0 {
        let mode = format!("{:04o}", stat.mode() & 0o7777);
        tracing::warn!(dir = %dir.display(), mode, "other users may rename files in the cache directory: chmod 0700");
    }
    Ok(())
}

/// A fresh ext4 mount has a `lost+found` of its own; everything else means that the directory is somebody's.
fn check_empty(dir: &Path) -> Result<(), CacheError> {
    let io = |error| CacheError::io("list cache directory", dir, error);
    for entry in fs::read_dir(dir).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        if name != "lost+found" {
            return Err(CacheError::Foreign {
                dir: dir.to_owned(),
                found: name.to_string_lossy().into_owned(),
            });
        }
    }
    Ok(())
}

fn lock(dir: &Path) -> Result<DirLock, CacheError> {
    let path = dir.join(LOCK);
    let mut file = files::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|error| refused(dir, error))?;
    let io = |error: io::Error| CacheError::io("lock", &path, error);
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut text = String::new();
            let holder = match file.take(32).read_to_string(&mut text).map(|_| text.trim().parse::<u32>()) {
                Ok(Ok(pid)) => format!("process {pid}"),
                _ => "another process".to_owned(),
            };
            return Err(CacheError::Locked { dir: dir.to_owned(), holder });
        }
        Err(error) => return Err(io(error.into())),
    }
    file.set_len(0).map_err(io)?;
    file.rewind().map_err(io)?;
    writeln!(file, "{}", std::process::id()).map_err(io)?;
    Ok(DirLock { _file: file })
}

fn check_marker(dir: &Path, marker: &Path) -> Result<(), CacheError> {
    let io = |error: io::Error| CacheError::io("read", marker, error);
    let mut file = files::options().read(true).write(true).open(marker).map_err(io)?;
    let mut bytes = Vec::new();
    (&file).take(64).read_to_end(&mut bytes).map_err(io)?;
    if bytes.is_empty() {
        file.write_all(MARKER_TEXT.as_bytes()).and_then(|()| file.sync_all()).map_err(io)?;
    } else if bytes != MARKER_TEXT.as_bytes() {
        let found = String::from_utf8_lossy(&bytes).trim().to_owned();
        return Err(CacheError::Layout { dir: dir.to_owned(), found, known: MARKER_TEXT.trim_ascii_end() });
    }
    Ok(())
}
