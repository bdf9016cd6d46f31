//! Whether O_DIRECT works in a directory, found by using it.
//!
//! What a file system says about itself is not enough: some accept the flag at `open` and fail at the first write,
//! some want whole pages, some ignore it. So a small file is written and read back with the smallest alignment that
//! is claimed, then with larger ones. The file has no name where the file system can do that, and loses its name at
//! once where not, so nothing is left behind by a kill.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use super::buf::AlignedBuf;
use super::error::RingError;
use super::file_system::FileSystem;

/// Blocks of the pool start at page boundaries: a device that wants more cannot be given them.
const LARGEST_MEMORY_ALIGN: u32 = 4096;
/// The smallest block is a multiple of this; larger units could not hold it.
const LARGEST_OFFSET_ALIGN: u32 = 64 << 10;
/// Tried, in this order, when the kernel does not tell.
const USUAL_ALIGNMENTS: [(u32, u32); 2] = [(512, 512), (4096, 4096)];

/// The finding.
pub(super) struct Direct {
    /// Alignment of offsets and lengths, and of addresses; `None`: files are buffered.
    pub(super) alignment: Option<(u32, u32)>,
    pub(super) file_system: String,
    /// Why files are buffered, or what could not be verified.
    pub(super) why: Option<String>,
}

/// Tries direct I/O in `dir`.
pub(super) fn direct_io(dir: &Path) -> Result<Direct, RingError> {
    let system = FileSystem::of(dir);
    // Also proves, before anything is fetched, that the directory can be written.
    let buffered = probe_file(dir, OFlags::empty());
    let (alignment, why) = match buffered {
        Err(errno) if is_full(errno) => {
            (None, Some(format!("no file for trying O_DIRECT could be made: {}", words(&errno.into()))))
        }
        Err(errno) => return Err(RingError::Directory { dir: dir.to_owned(), source: errno.into() }),
        Ok(_) if system.in_memory => (None, Some(format!("{} has no O_DIRECT", system.name))),
        Ok(_) => match probe_file(dir, OFlags::DIRECT) {
            Ok(file) => find_alignment(&file, &system.name),
            Err(Errno::INVAL) => (None, Some(format!("{} has no O_DIRECT", system.name))),
            Err(errno) => (None, Some(refusal(&system.name, &errno.into()))),
        },
    };
    Ok(Direct { alignment, file_system: system.name, why })
}

fn refusal(file_system: &str, error: &io::Error) -> String {
    format!("{file_system} refuses O_DIRECT: {}", words(error))
}

/// A full disk must not stop a warm restart.
fn is_full(errno: Errno) -> bool {
    matches!(errno, Errno::NOSPC | Errno::DQUOT)
}

fn probe_file(dir: &Path, extra: OFlags) -> Result<OwnedFd, Errno> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let flags = OFlags::RDWR | OFlags::CLOEXEC | extra;
    let mode = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(dir, flags | OFlags::TMPFILE, mode) {
        // What kernels and file systems without nameless files answer; EINVAL may also mean O_DIRECT.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
        other => return other,
    }
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = dir.join(format!(".feedline-probe-{}-{number}", std::process::id()));
    let opened = rustix::fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode);
    // Some file systems create the file and then refuse O_DIRECT, so the name goes in either case.
    if opened.as_ref().err() != Some(&Errno::EXIST) {
        match rustix::fs::unlink(&path) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) if opened.is_ok() => return Err(error),
            Err(_) => {}
        }
    }
    opened
}

/// The smallest alignment that works, with a reason when none does.
fn find_alignment(file: &OwnedFd, file_system: &str) -> (Option<(u32, u32)>, Option<String>) {
    let told = told_alignment(file);
    if told == Some((0, 0)) {
        return (None, Some(format!("{file_system} has no O_DIRECT")));
    }
    if let Some((offset, memory)) = told
        && (offset > LARGEST_OFFSET_ALIGN || memory > LARGEST_MEMORY_ALIGN)
    {
        return (
            None,
            Some(format!("{file_system} wants O_DIRECT in units of {offset} bytes at addresses of {memory}")),
        );
    }
    let mut last = None;
    for candidate in told.into_iter().chain(USUAL_ALIGNMENTS) {
        match try_alignment(file, candidate) {
            Ok(()) => return (Some(candidate), None),
            Err(error) if Errno::from_io_error(&error).is_some_and(is_full) => {
                let trusted = told.unwrap_or(USUAL_ALIGNMENTS[1]);
                return (Some(trusted), Some(format!("O_DIRECT not tried out: {}", words(&error))));
            }
            Err(error) => last = Some(error),
        }
    }
    (None, last.map(|error| refusal(file_system, &error)))
}

/// What the kernel says (Linux 6.1 and later): `None` when it does not know, zeros when direct I/O is impossible.
fn told_alignment(file: &OwnedFd) -> Option<(u32, u32)> {
    let stat = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let known = stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    known.then_some((stat.stx_dio_offset_align, stat.stx_dio_mem_align))
}

/// Writes two units and reads the second one back into the address that is aligned no better than claimed.
fn try_alignment(file: &OwnedFd, (offset, memory): (u32, u32)) -> io::Result<()> {
    let (unit, shift) = (offset as usize, memory as usize);
    if unit == 0 || shift == 0 {
        return Err(Errno::INVAL.into());
    }
    let mut buf = AlignedBuf::new(2 * unit + shift);
    for (byte, value) in buf.as_mut_slice().iter_mut().zip((0..=250).cycle()) {
        *byte = value;
    }
    let written = rustix::io::pwrite(file, &buf.as_slice()[shift..], 0)?;
    let mut back = AlignedBuf::new(unit + shift);
    let read = rustix::io::pread(file, &mut back.as_mut_slice()[shift..], u64::from(offset))?;
    let same = back.as_slice()[shift..] == buf.as_slice()[shift + unit..];
    if written == 2 * unit && read == unit && same {
        Ok(())
    } else {
        Err(io::Error::other("a probe file read back differently"))
    }
}

/// The system's text for a sentence: lower case, without the error number.
pub(super) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_texts_fit_into_a_sentence() {
        assert_eq!(words(&Errno::PERM.into()), "operation not permitted");
        assert_eq!(words(&io::Error::other("Odd")), "odd");
    }

    #[test]
    fn a_probe_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        direct_io(dir.path()).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn files_in_memory_are_buffered_with_a_reason() {
        let found = direct_io(Path::new("/dev/shm")).unwrap();
        assert_eq!(found.alignment, None);
        assert_eq!(found.why.as_deref(), Some("tmpfs has no O_DIRECT"));
    }

    #[test]
    fn a_missing_directory_is_named() {
        let Err(error) = direct_io(Path::new("/no/such/dir")) else { panic!("the directory does not exist") };
        assert!(error.to_string().contains("/no/such/dir"), "{error}");
    }
}
