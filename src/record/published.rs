//! The record indexes of many shards in one object beside them. What follows defines the format, byte for byte; a change
//! needs a new magic number.
//!
//! ```text
//! 0   8  magic and version "FLDSIX01"
//! 8   4  block_bytes of all indexes       12  4  entries
//! 16  8  length of the table
//! 24     table, for each entry: length of the name 2, name, object size 8, length of the version 2, version,
//!        length of the index 4, CRC-32C of the index 4
//! …   4  CRC-32C of everything before
//! …      the indexes, one behind another, each as `record/index_bytes.rs` says
//! ```
//! All numbers are little-endian. A name is the shard's URL without the folder that the object lies in; a version is the
//! ETag as the store writes it, or what stands for it. Names are sorted bytewise, each once.

use super::crc::crc32c;
use super::index_bytes::IndexError;
use std::ops::Range;

const MAGIC: &[u8; 8] = b"FLDSIX01";
/// Bytes before the table.
pub const PUBLISHED_HEADER: u64 = 24;

/// What the table says of one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedEntry {
    /// URL without the folder.
    pub name: String,
    /// Bytes of the object.
    pub size: u64,
    /// Version of the object; empty if none is known.
    pub version: String,
    /// Where in the published object its index lies.
    pub span: Range<u64>,
    crc: u32,
}

impl PublishedEntry {
    /// Whether these are the bytes that the table promises.
    pub fn is_intact(&self, bytes: &[u8]) -> bool {
        bytes.len() as u64 == self.span.end - self.span.start && crc32c(bytes) == self.crc
    }
}

/// The table of a published object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedTable {
    /// Block size that the indexes were made for.
    pub block_bytes: u32,
    /// Sorted by name.
    pub entries: Vec<PublishedEntry>,
}

/// The bytes of an object with these indexes: name, size, version and index of each shard.
///
/// # Panics
/// If a name or version is longer than 65,535 bytes, or an index than 4 GiB.
pub fn published_bytes(block_bytes: u32, mut shards: Vec<(String, u64, String, Vec<u8>)>) -> Vec<u8> {
    shards.sort_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
    shards.dedup_by(|a, b| a.0 == b.0);
    let mut table = Vec::new();
    let text = |table: &mut Vec<u8>, text: &str| {
        let length = u16::try_from(text.len()).expect("keys and versions are short");
        table.extend_from_slice(&length.to_le_bytes());
        table.extend_from_slice(text.as_bytes());
    };
    for (name, size, version, index) in &shards {
        text(&mut table, name);
        table.extend_from_slice(&size.to_le_bytes());
        text(&mut table, version);
        let length = u32::try_from(index.len()).expect("an index is below 4 GiB");
        table.extend_from_slice(&length.to_le_bytes());
        table.extend_from_slice(&crc32c(index).to_le_bytes());
    }
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&block_bytes.to_le_bytes());
    out.extend_from_slice(&u32::try_from(shards.len()).expect("fewer than 2^32 shards").to_le_bytes());
    out.extend_from_slice(&(table.len() as u64).to_le_bytes());
    out.append(&mut table);
    let crc = crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    shards.iter().for_each(|(_, _, _, index)| out.extend_from_slice(index));
    out
}

/// How many bytes of the object hold header and table, by its first [`PUBLISHED_HEADER`] bytes.
///
/// # Errors
/// [`IndexError::Magic`] if it is something else.
pub fn table_bytes(header: &[u8]) -> Result<u64, IndexError> {
    if header.get(..8) != Some(MAGIC) {
        return Err(IndexError::Magic);
    }
    let length = header.get(16..24).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    length.and_then(|length| length.checked_add(PUBLISHED_HEADER + 4)).ok_or(IndexError::Contradiction)
}

/// Reads header and table; `object_bytes` is the size of the whole object.
///
/// # Errors
/// [`IndexError`] if it is damaged, cut or something else.
pub fn read_table(bytes: &[u8], object_bytes: u64) -> Result<PublishedTable, IndexError> {
    if table_bytes(bytes)? != bytes.len() as u64 {
        return Err(IndexError::Contradiction);
    }
    let (body, crc) = bytes.split_last_chunk::<4>().ok_or(IndexError::Checksum)?;
    if crc32c(body) != u32::from_le_bytes(*crc) {
        return Err(IndexError::Checksum);
    }
    let mut rest = Rest(&body[8..]);
    let (block_bytes, count, _) = (rest.u32()?, rest.u32()?, rest.u64()?);
    let mut entries: Vec<PublishedEntry> = Vec::new();
    let mut start = bytes.len() as u64;
    for _ in 0..count {
        let (name, size, version) = (rest.text()?, rest.u64()?, rest.text()?);
        let (length, crc) = (rest.u32()?, rest.u32()?);
        let span = start..start + u64::from(length);
        start = span.end;
        if entries.last().is_some_and(|last| last.name.as_bytes() >= name.as_bytes()) {
            return Err(IndexError::Contradiction);
        }
        entries.push(PublishedEntry { name, size, version, span, crc });
    }
    if !rest.0.is_empty() || start != object_bytes {
        return Err(IndexError::Contradiction);
    }
    Ok(PublishedTable { block_bytes, entries })
}

struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take(&mut self, count: usize) -> Result<&[u8], IndexError> {
        let (now, later) = self.0.split_at_checked(count).ok_or(IndexError::Contradiction)?;
        self.0 = later;
        Ok(now)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], IndexError> {
        self.take(N)?.try_into().map_err(|_| IndexError::Contradiction)
    }

    fn u32(&mut self) -> Result<u32, IndexError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, IndexError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn text(&mut self) -> Result<String, IndexError> {
        let length = u16::from_le_bytes(self.array()?);
        String::from_utf8(self.take(usize::from(length))?.to_vec()).map_err(|_| IndexError::Contradiction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn damage_and_cuts_are_noticed() {
        let shards = vec![
            ("b".to_owned(), 5, "v1".to_owned(), b"abc".to_vec()),
            ("a".to_owned(), 9, String::new(), vec![]),
        ];
        let bytes = published_bytes(65_536, shards);
        let length = usize::try_from(table_bytes(&bytes).unwrap()).unwrap();
        let table = read_table(&bytes[..length], bytes.len() as u64).unwrap();
        assert_eq!(table.entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let span = table.entries[1].span.clone();
        assert!(table.entries[1].is_intact(&bytes[usize::try_from(span.start).unwrap()..]));
        assert!(!table.entries[1].is_intact(b"abd"));
        for at in 0..length {
            let mut damaged = bytes[..length].to_vec();
            damaged[at] ^= 1;
            assert!(read_table(&damaged, bytes.len() as u64).is_err(), "byte {at}");
            assert!(read_table(&bytes[..at], bytes.len() as u64).is_err(), "cut at {at}");
        }
        assert!(read_table(&bytes[..length], bytes.len() as u64 - 1).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            shards in prop::collection::btree_map("[a-z/é]{0,12}", (any::<u64>(), "[ -~]{0,9}", prop::collection::vec(any::<u8>(), 0..40)), 0..20),
        ) {
            let list: Vec<_> = shards.iter().map(|(name, (size, version, index))| (name.clone(), *size, version.clone(), index.clone())).collect();
            let bytes = published_bytes(4_096, list);
            let length = usize::try_from(table_bytes(&bytes).unwrap()).unwrap();
            let table = read_table(&bytes[..length], bytes.len() as u64).unwrap();
            prop_assert_eq!(table.entries.len(), shards.len());
            for (entry, (name, (size, version, index))) in table.entries.iter().zip(&shards) {
                prop_assert_eq!((&entry.name, entry.size, &entry.version), (name, *size, version));
                let span = usize::try_from(entry.span.start).unwrap()..usize::try_from(entry.span.end).unwrap();
                prop_assert_eq!(&bytes[span.clone()], &index[..]);
                prop_assert!(entry.is_intact(&bytes[span]));
            }
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200), size in any::<u64>()) {
            let with_magic = [&MAGIC[..], &bytes].concat();
            for bytes in [bytes, with_magic] {
                let _ = (table_bytes(&bytes), read_table(&bytes, size));
            }
        }
    }
}
