//! Memory that an operation may own while the kernel works on it.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Memory for one operation, handed to the engine by value and given back with the result.
///
/// The engine may drop it on one of its own threads (when the caller's future is gone), so `Drop` must not block.
///
/// # Safety
/// For as long as the value lives, wherever it is moved:
/// - `ptr()` gives the same address, and the `capacity()` bytes from there stay mapped and unmoved;
/// - the memory may be written through that address while a read is under way, and nobody else reads or writes the
///   range of that read; during a write nobody changes the range.
pub unsafe trait IoBuf: Send + 'static {
    /// Address of the first byte.
    fn ptr(&self) -> *mut u8;
    /// Size in bytes.
    fn capacity(&self) -> usize;
}

/// Zeroed heap memory at a page boundary (4,096 bytes), which suits O_DIRECT on every device.
pub struct AlignedBuf {
    start: NonNull<u8>,
    len: usize,
}

impl AlignedBuf {
    /// Alignment of the first byte.
    pub const ALIGN: usize = 4096;

    /// `len` bytes, zeroed.
    ///
    /// # Panics
    /// When `len` is so large that no allocation of that size can exist.
    pub fn new(len: usize) -> Self {
        let layout = Self::layout(len);
        // SAFETY: the layout has at least one byte.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        AlignedBuf { start, len }
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len.max(1), Self::ALIGN).expect("a buffer is smaller than the address space")
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `start` points to `len` bytes initialised at allocation, which live as long as `self`; while an
        // operation changes them it owns `self`, so no reference can exist.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The bytes, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout, and freed only here.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.len)) }
    }
}

// SAFETY: the memory is owned by the value alone and has no tie to a thread.
unsafe impl Send for AlignedBuf {}
// SAFETY: a shared reference gives only reading access.
unsafe impl Sync for AlignedBuf {}

// SAFETY: the allocation is neither moved nor freed before the value is dropped, `ptr` is where it starts, and only
// the owner of the value can reach it.
unsafe impl IoBuf for AlignedBuf {
    fn ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    fn capacity(&self) -> usize {
        self.len
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AlignedBuf").field("len", &self.len).finish_non_exhaustive()
    }
}

/// The buffer of an operation that moves no bytes.
pub(super) struct NoBuf;

// SAFETY: there are no bytes to reach.
unsafe impl IoBuf for NoBuf {
    fn ptr(&self) -> *mut u8 {
        NonNull::dangling().as_ptr()
    }

    fn capacity(&self) -> usize {
        0
    }
}
