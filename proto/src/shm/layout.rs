//! Offsets and sizes of the two rings, in bytes. A change here is a change of [`crate::PROTOCOL_VERSION`].
//!
//! Counters that different sides write lie on different cache lines.

/// First eight bytes of the descriptor ring.
pub const RING_MAGIC: u64 = u64::from_le_bytes(*b"FLRING01");
/// First eight bytes of the return ring.
pub const RETURN_MAGIC: u64 = u64::from_le_bytes(*b"FLRETN01");

/// Where the data of either ring starts: one page for the counters.
pub const DATA_OFFSET: usize = 4096;

/// Descriptor ring, u64: bytes written since the start.
pub const RING_HEAD: usize = 64;
/// Descriptor ring, u64: the daemon wants to be woken once `taken + returned` has reached this; `u64::MAX` for never.
pub const RING_WAKE_AT: usize = 128;

/// Return ring, u64: bytes of the descriptor ring consumed since the start.
pub const RETURN_TAIL: usize = 64;
/// Return ring, u64: batches taken out of the descriptor ring since the start.
pub const RETURN_TAKEN: usize = 128;
/// Return ring, u64: batches given back since the start, which is also the number of entries written.
pub const RETURN_HEAD: usize = 192;
/// Return ring, u32: 1 while the client sleeps or is about to.
pub const RETURN_WAITING: usize = 256;
/// Return ring, u64: nanoseconds that the client has waited for batches so far, by its own clock.
pub const RETURN_WAITED: usize = 320;

/// Bytes of an entry's header in the descriptor ring: u32 length of the whole entry (header, payload, padding to 8),
/// u16 kind, u16 flags, u32 length of the payload, u32 zero.
pub const ENTRY_HEADER: usize = 16;

/// Entry kinds.
pub const KIND_BATCH: u16 = 1;
/// The stream has ended; no payload.
pub const KIND_END: u16 = 2;
/// The stream has failed; the payload is a [`crate::v1::Error`].
pub const KIND_ERROR: u16 = 3;

/// Entry flag: the payload goes on in the next entry, since a batch may be larger than the ring.
pub const FLAG_MORE: u16 = 1;

/// Bytes of a [`super::BatchHeader`].
pub const BATCH_HEADER: usize = 88;
/// Bytes of a [`super::Run`].
pub const RUN_BYTES: usize = 16;
/// Run flag: the last record of this run goes on in the next run.
pub const RUN_CONTINUES: u16 = 1;

/// Bytes from the end of one payload to the start of the next within a run: a data CRC and the next frame's header.
pub const FRAME_GAP: u64 = 16;
