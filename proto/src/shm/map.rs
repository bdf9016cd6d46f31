//! Sealed memfds and their mappings: the unsafe floor of the shared memory.

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Makes a memfd of `bytes` zero bytes that can neither shrink nor grow, so that no peer can turn a mapping of it into
/// a SIGBUS. Pages are taken from the system as they are first touched.
///
/// # Errors
/// As `memfd_create(2)`, `ftruncate(2)` and `fcntl(2)`.
pub fn create_sealed(name: &str, bytes: u64) -> io::Result<OwnedFd> {
    let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&fd, bytes)?;
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(fd)
}

/// Forbids every new writable mapping and every `write(2)`; mappings that exist stay writable. Called after the owner has
/// mapped the memory and before the descriptor is passed on.
///
/// # Errors
/// As `fcntl(2)`.
pub fn seal_against_new_writers(fd: impl AsFd) -> io::Result<()> {
    Ok(fcntl_add_seals(fd, SealFlags::FUTURE_WRITE | SealFlags::SEAL)?)
}

/// A shared mapping of a whole memfd. Accesses go through atomics and copies; a slice is handed out only by code that
/// knows that nobody writes there.
#[derive(Debug)]
pub struct Mapping {
    raw: MmapRaw,
}

impl Mapping {
    /// Maps `bytes` of `fd` for reading and writing.
    ///
    /// # Errors
    /// As `mmap(2)`; `InvalidData` if the file is shorter or not sealed against resizing.
    pub fn read_write(fd: impl AsFd, bytes: usize) -> io::Result<Self> {
        check(&fd, bytes)?;
        Ok(Self { raw: MmapOptions::new().len(bytes).map_raw(fd.as_fd().as_raw_fd())? })
    }

    /// Maps `bytes` of `fd` for reading.
    ///
    /// # Errors
    /// As [`Self::read_write`].
    pub fn read_only(fd: impl AsFd, bytes: usize) -> io::Result<Self> {
        check(&fd, bytes)?;
        Ok(Self { raw: MmapOptions::new().len(bytes).map_raw_read_only(fd.as_fd().as_raw_fd())? })
    }

    /// Length of the mapping in bytes.
    #[allow(clippy::len_without_is_empty, reason = "a mapping is never empty")]
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Address of the byte at `offset`.
    ///
    /// # Panics
    /// If `offset` lies outside.
    pub fn pointer(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.len());
        // SAFETY: the offset was just checked to lie within (or one behind) this mapping, which lives as long as self.
        unsafe { self.raw.as_mut_ptr().add(offset) }
    }

    /// The u64 counter at `offset`. Writing it through a read-only mapping faults, so each side writes only its own.
    ///
    /// # Panics
    /// If `offset` is not aligned or lies outside.
    pub fn counter(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.len());
        // SAFETY: in bounds and aligned (mappings start on a page); every access by either process is atomic, and the
        // mapping lives as long as the returned borrow.
        unsafe { AtomicU64::from_ptr(self.pointer(offset).cast()) }
    }

    /// The u32 flag at `offset`, as [`Self::counter`].
    ///
    /// # Panics
    /// If `offset` is not aligned or lies outside.
    pub fn flag(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.len());
        // SAFETY: as in `counter`.
        unsafe { AtomicU32::from_ptr(self.pointer(offset).cast()) }
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Panics
    /// If the span lies outside.
    pub fn copy_in(&self, offset: usize, bytes: &[u8]) {
        assert!(offset.checked_add(bytes.len()).is_some_and(|end| end <= self.len()));
        // SAFETY: the target is in bounds and writable (only owners of a writable mapping call this); the source is a
        // live slice of another object, so the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.pointer(offset), bytes.len()) }
    }

    /// Appends `length` bytes from `offset` to `out`.
    ///
    /// # Panics
    /// If the span lies outside.
    pub fn copy_out(&self, offset: usize, length: usize, out: &mut Vec<u8>) {
        assert!(offset.checked_add(length).is_some_and(|end| end <= self.len()));
        out.reserve(length);
        // SAFETY: the source is in bounds; the target has room for `length` bytes behind its end, which are all written
        // before the length is raised. A racing writer can only change which bytes are read, and bytes have no
        // invalid values.
        unsafe {
            std::ptr::copy_nonoverlapping(self.pointer(offset), out.as_mut_ptr().add(out.len()), length);
            out.set_len(out.len() + length);
        }
    }

    /// The bytes of a span.
    ///
    /// # Safety
    /// Nobody, in any process, may write to the span while the slice lives.
    ///
    /// # Panics
    /// If the span lies outside.
    pub unsafe fn slice(&self, offset: usize, length: usize) -> &[u8] {
        assert!(offset.checked_add(length).is_some_and(|end| end <= self.len()));
        // SAFETY: in bounds; the caller vouches that the bytes do not change.
        unsafe { std::slice::from_raw_parts(self.pointer(offset), length) }
    }

    /// The bytes of a span, for writing.
    ///
    /// # Safety
    /// The mapping is writable and nobody else reads or writes the span while the slice lives.
    ///
    /// # Panics
    /// If the span lies outside.
    #[allow(clippy::mut_from_ref, reason = "exclusive access is the caller's promise, not the borrow's")]
    pub unsafe fn slice_mut(&self, offset: usize, length: usize) -> &mut [u8] {
        assert!(offset.checked_add(length).is_some_and(|end| end <= self.len()));
        // SAFETY: in bounds; the caller vouches for exclusive access.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(offset), length) }
    }
}

fn check(fd: impl AsFd, bytes: usize) -> io::Result<()> {
    let size = fstat(&fd)?.st_size;
    let fits = usize::try_from(size).is_ok_and(|size| size >= bytes);
    let sealed = fcntl_get_seals(&fd)?.contains(SealFlags::SHRINK);
    if bytes == 0 || !fits || !sealed {
        let text =
            format!("shared memory of {size} bytes does not hold {bytes} bytes sealed against shrinking");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_can_neither_write_nor_resize_a_segment() {
        let fd = create_sealed("test", 8192).unwrap();
        let owner = Mapping::read_write(&fd, 8192).unwrap();
        seal_against_new_writers(&fd).unwrap();
        assert!(Mapping::read_write(&fd, 8192).is_err());
        assert!(ftruncate(&fd, 0).is_err());
        assert!(ftruncate(&fd, 16384).is_err());
        assert!(rustix::io::pwrite(&fd, b"x", 0).is_err());
        let reader = Mapping::read_only(&fd, 8192).unwrap();
        owner.copy_in(100, b"seen");
        let mut out = Vec::new();
        reader.copy_out(100, 4, &mut out);
        assert_eq!(out, b"seen");
    }

    #[test]
    fn a_file_that_could_shrink_is_refused() {
        let fd = memfd_create("loose", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, 4096).unwrap();
        assert_eq!(Mapping::read_only(&fd, 4096).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let sealed = create_sealed("short", 4096).unwrap();
        assert!(Mapping::read_only(&sealed, 8192).is_err());
    }
}
