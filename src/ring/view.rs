//! Looking at the bytes that an operation left in a buffer.

use super::buf::IoBuf;

/// The first `len` bytes of a buffer that the caller has back from the engine, for checks on what was read.
///
/// # Panics
/// When the buffer is shorter than `len`.
pub fn view<B: IoBuf>(buf: &B, len: usize) -> &[u8] {
    assert!(len <= buf.capacity(), "{len} bytes leave the buffer of {} bytes", buf.capacity());
    // SAFETY: `IoBuf` promises that `capacity()` bytes at `ptr()` stay mapped for as long as the value lives, which
    // the borrow outlasts; the memory came from the system zeroed or was filled, so it is initialised; no operation is
    // under way, since an operation owns its buffer, and the kernel was the only writer.
    unsafe { std::slice::from_raw_parts(buf.ptr(), len) }
}
