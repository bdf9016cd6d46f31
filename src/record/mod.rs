//! TFRecord: framing, checksums, the record index, compression, and telling other formats apart. No I/O.
//!
//! A TFRecord file is a sequence of frames: `u64 length`, `u32 masked CRC-32C of the eight length bytes`, the payload,
//! `u32 masked CRC-32C of the payload`, all little-endian (the format is TensorFlow's; see its `record_writer.cc`). There
//! is no header, no count and no index, so records can only be found by walking from the start.
//!
//! **Walking once.** [`Scanner`] takes the bytes of a shard in pieces of any size, keeps nothing but a running checksum,
//! and writes what it finds into a [`ShardIndex`]: where each frame starts, which frames are bad, and whether the
//! file breaks off. The index is what every later reader works with; it is bound to a shard's content and kept on disk.
//!
//! **Trust.** A length is used only after its own checksum fits. A payload's checksum does not decide where the next
//! frame is, so a bad payload costs one record; a bad length ends the readable part of the shard, since there is
//! nothing to find the next frame by.
//!
//! **Policy.** The index says what is there, not what to do about it: [`CorruptPolicy`] belongs to the reader.
//!
//! **Compression.** TensorFlow compresses whole files (gzip or zlib). [`sniff`] goes by content, never by name, and
//! [`Inflater`] turns such a stream into plain frames.
//!
//! Limits: a payload may have up to 2^32 - 1 bytes in each block that it spans, and 2^63 in all; a compressed shard can
//! only be read from its start.

mod crc;
mod error;
mod frame;
mod index;
mod index_bytes;
mod inflate;
mod scanner;
mod sniff;

pub use crc::{crc32c, mask, masked_crc32c};
pub use error::{Check, CorruptPolicy, RecordError};
pub use frame::{FOOTER_BYTES, FRAME_BYTES, FrameIter, HEADER_BYTES, append_record, frames};
pub use index::{BadFrame, BrokenTail, Frame, IndexMark, ShardIndex};
pub use index_bytes::IndexError;
pub use inflate::{InflateError, Inflater, Step};
pub use scanner::Scanner;
pub use sniff::{Format, sniff};
