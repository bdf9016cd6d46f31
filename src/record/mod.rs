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
//! A frame that the file ends within is a broken tail as well, never a clean end. So is the frame of a length that no
//! file can have: nothing is allocated by a length, good checksum or not, since payloads are never kept here.
//!
//! **Policy.** The index says what is there, not what to do about it: [`CorruptPolicy`] belongs to the reader, and two
//! readers of one shard may have different ones. [`RecordError`] carries what a person needs: object, record, offset,
//! check, the checksum found and the one expected.
//!
//! **Compression.** TensorFlow compresses whole files (gzip or zlib). [`sniff()`] goes by content, never by name, and
//! [`Inflater`] turns such a stream into plain frames. Whatever came before damage, a cut or foreign bytes is given first.
//!
//! **On disk.** [`ShardIndex::to_bytes`] is the index file, byte for byte the same for the same index; its layout is the
//! head of `index_bytes.rs`. It belongs to one object content; who stores it ties it to URL, ETag and size.
//!
//! Limits: a compressed shard can only be read from its start, so a record in its middle costs all before it. An index
//! of frames cannot find its way past a bad length. Formats other than TFRecord are named by their first 4 KiB only: a
//! `tar` inside gzip is gzip here, and fails at its first record.

mod crc;
mod error;
mod frame;
mod index;
mod index_bytes;
mod inflate;
mod published;
mod scanner;
mod sniff;
#[cfg(test)]
mod tests;

pub use crc::{crc32c, mask, masked_crc32c};
pub use error::{Check, CorruptPolicy, RecordError};
pub use frame::{FOOTER_BYTES, FRAME_BYTES, FrameIter, HEADER_BYTES, append_record, frames};
pub use index::{BadFrame, BrokenTail, Frame, IndexMark, ShardIndex};
pub use index_bytes::IndexError;
pub use inflate::{InflateError, Inflater, Step};
pub use published::{
    PUBLISHED_HEADER, PublishedEntry, PublishedTable, published_bytes, read_table, table_bytes,
};
pub use scanner::Scanner;
pub use sniff::{Format, sniff};
