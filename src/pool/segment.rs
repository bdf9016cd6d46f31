//! The memfd behind the pool.

use feedline_proto::shm::{Mapping, create_sealed, seal_against_new_writers};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A sealed memfd, mapped writable here and nowhere else.
#[derive(Debug)]
pub(super) struct Segment {
    fd: OwnedFd,
    mapping: Mapping,
    slot_bytes: usize,
}

impl Segment {
    pub(super) fn create(slots: u32, slot_bytes: u32) -> io::Result<Self> {
        let bytes = u64::from(slots) * u64::from(slot_bytes);
        let length = usize::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let fd = create_sealed("feedline-pool", bytes)?;
        let mapping = Mapping::read_write(&fd, length)?;
        seal_against_new_writers(&fd)?;
        Ok(Self { fd, mapping, slot_bytes: slot_bytes as usize })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.mapping.len() as u64
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn pointer(&self, slot: u32) -> *mut u8 {
        self.mapping.pointer(slot as usize * self.slot_bytes)
    }

    /// The bytes of a published block.
    ///
    /// # Safety
    /// The slot is published and stays so while the slice lives.
    pub(super) unsafe fn slice(&self, slot: u32, length: usize) -> &[u8] {
        assert!(length <= self.slot_bytes);
        // SAFETY: nobody writes to a published slot, which the caller vouches for.
        unsafe { self.mapping.slice(slot as usize * self.slot_bytes, length) }
    }

    /// The bytes of a slot that is being filled.
    ///
    /// # Safety
    /// The caller is the only holder of the slot.
    #[allow(clippy::mut_from_ref, reason = "exclusive access is the caller's promise, not the borrow's")]
    pub(super) unsafe fn slice_mut(&self, slot: u32) -> &mut [u8] {
        // SAFETY: exclusive by the caller's promise; the mapping is writable.
        unsafe { self.mapping.slice_mut(slot as usize * self.slot_bytes, self.slot_bytes) }
    }
}
