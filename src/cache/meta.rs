//! The metadata file of a shard: what the data file holds and how to know that it is whole.
//!
//! Little-endian, version 1; `docs/disk-format.md` has the table. A shard exists exactly if this file is valid. The
//! bytes come from disk and may be anything: no length is used before it has been checked against the bytes there are,
//! and the checksum over the whole comes before all else.

use super::id::{ObjectIdentity, ShardId};
use crate::record::crc32c;

/// First eight bytes of a metadata file.
pub(super) const MAGIC: [u8; 8] = *b"FEEDMETA";
/// Version of the layout. Any change of the bytes raises it; older and newer ones are dropped and fetched again.
pub(super) const VERSION: u32 = 1;
/// Largest metadata file that is read. Enough for 256 GiB in the smallest blocks. Bytes.
pub(super) const MAX_BYTES: u64 = 17 << 20;

const HEADER: usize = 72;
const ABSENT: u32 = u32::MAX;

/// What is known of a cached shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardMeta {
    /// The object this is the content of.
    pub identity: ObjectIdentity,
    /// Bytes of content (after decompression).
    pub content_len: u64,
    /// Bytes per block: a power of two, 64 KiB to 64 MiB.
    pub block_bytes: u32,
    /// CRC-32C of each block's content bytes, without padding.
    pub block_crcs: Vec<u32>,
}

/// Why bytes are not a metadata file, or numbers cannot be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MetaError {
    /// Too short, or the length inside is not the length of the file.
    #[error("length is wrong")]
    Length,
    /// Not a metadata file.
    #[error("magic is wrong")]
    Magic,
    /// A layout of another release.
    #[error("version {0} is not {VERSION}")]
    Version(u32),
    /// Bits have changed.
    #[error("crc32c is {found:08x}, expected {expected:08x}")]
    Checksum {
        /// In the file.
        expected: u32,
        /// Of the bytes read.
        found: u32,
    },
    /// Block size out of range, or the number of checksums does not fit the content.
    #[error("blocks do not fit the content")]
    Blocks,
    /// URL, ETag or version id too long or not UTF-8, or padding not zero.
    #[error("text is malformed")]
    Text,
    /// The id inside does not follow from the identity, or is not the file's name.
    #[error("id does not match")]
    Id,
}

impl ShardMeta {
    /// Checks the numbers against each other.
    pub fn new(
        identity: ObjectIdentity,
        content_len: u64,
        block_bytes: u32,
        block_crcs: Vec<u32>,
    ) -> Result<Self, MetaError> {
        let allowed = block_bytes.is_power_of_two() && (64 << 10..=64 << 20).contains(&block_bytes);
        if !allowed || u64::try_from(block_crcs.len()) != Ok(content_len.div_ceil(u64::from(block_bytes))) {
            return Err(MetaError::Blocks);
        }
        Ok(Self { identity, content_len, block_bytes, block_crcs })
    }

    /// Number of blocks; the last one may be short.
    pub fn blocks(&self) -> u64 {
        self.content_len.div_ceil(u64::from(self.block_bytes))
    }

    /// First content byte of block `k` and its content bytes; `None` beyond the content.
    pub fn block_span(&self, k: u64) -> Option<(u64, usize)> {
        let offset = k.checked_mul(u64::from(self.block_bytes))?;
        let rest = self.content_len.checked_sub(offset).filter(|rest| *rest > 0)?;
        Some((offset, usize::try_from(rest.min(u64::from(self.block_bytes))).ok()?))
    }

    /// The bytes of the metadata file.
    ///
    /// # Errors
    /// [`MetaError::Length`] if it would be longer than [`MAX_BYTES`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, MetaError> {
        let identity = &self.identity;
        let texts = [Some(identity.url.as_str()), identity.etag.as_deref(), identity.version.as_deref()];
        let text_len: usize = texts.iter().flatten().map(|text| text.len()).sum();
        let total = HEADER + text_len.next_multiple_of(4) + 4 * self.block_crcs.len() + 4;
        if total as u64 > MAX_BYTES {
            return Err(MetaError::Length);
        }
        let number = |n: usize| u32::try_from(n).expect("below MAX_BYTES");
        let mut out = Vec::with_capacity(total);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&number(total).to_le_bytes());
        out.extend_from_slice(&identity.size.to_le_bytes());
        out.extend_from_slice(&self.content_len.to_le_bytes());
        out.extend_from_slice(&self.block_bytes.to_le_bytes());
        out.extend_from_slice(&number(self.block_crcs.len()).to_le_bytes());
        for text in texts {
            out.extend_from_slice(&text.map_or(ABSENT, |text| number(text.len())).to_le_bytes());
        }
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&identity.id().0);
        for text in texts.into_iter().flatten() {
            out.extend_from_slice(text.as_bytes());
        }
        out.resize(out.len().next_multiple_of(4), 0);
        for crc in &self.block_crcs {
            out.extend_from_slice(&crc.to_le_bytes());
        }
        out.extend_from_slice(&crc32c(&out).to_le_bytes());
        Ok(out)
    }

    /// Reads the bytes of a metadata file.
    ///
    /// # Errors
    /// The first check that fails; never panics, whatever the bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, MetaError> {
        if bytes.len() < HEADER + 4 || !bytes.len().is_multiple_of(4) {
            return Err(MetaError::Length);
        }
        let mut rest = Reader(bytes);
        if rest.take(8)? != MAGIC {
            return Err(MetaError::Magic);
        }
        match rest.u32()? {
            VERSION => {}
            other => return Err(MetaError::Version(other)),
        }
        if usize::try_from(rest.u32()?) != Ok(bytes.len()) {
            return Err(MetaError::Length);
        }
        let (body, tail) = bytes.split_at(bytes.len() - 4);
        let (expected, found) = (Reader(tail).u32()?, crc32c(body));
        if expected != found {
            return Err(MetaError::Checksum { expected, found });
        }
        let (size, content_len) = (rest.u64()?, rest.u64()?);
        let (block_bytes, block_count) = (rest.u32()?, rest.u32()?);
        let lengths = [rest.u32()?, rest.u32()?, rest.u32()?];
        if rest.u32()? != 0 {
            return Err(MetaError::Text);
        }
        let id = rest.take(16)?;
        let url = rest.text(lengths[0])?.ok_or(MetaError::Text)?;
        let (etag, version) = (rest.text(lengths[1])?, rest.text(lengths[2])?);
        while !(bytes.len() - rest.0.len()).is_multiple_of(4) {
            if rest.take(1)? != [0] {
                return Err(MetaError::Text);
            }
        }
        if usize::try_from(block_count).ok().and_then(|n| n.checked_mul(4)) != Some(rest.0.len() - 4) {
            return Err(MetaError::Blocks);
        }
        let mut block_crcs = Vec::with_capacity(rest.0.len() / 4 - 1);
        for _ in 0..block_count {
            block_crcs.push(rest.u32()?);
        }
        let identity = ObjectIdentity { url, etag, version, size };
        if identity.id().0 != id {
            return Err(MetaError::Id);
        }
        Self::new(identity, content_len, block_bytes, block_crcs)
    }

    /// As [`ShardMeta::from_bytes`], and it must be the file of shard `id`.
    pub(super) fn of_file(id: &ShardId, bytes: &[u8]) -> Result<Self, MetaError> {
        Self::from_bytes(bytes).and_then(|meta| match meta.identity.id() == *id {
            true => Ok(meta),
            false => Err(MetaError::Id),
        })
    }
}

/// Takes from the front; everything asked for beyond the end is a wrong length.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], MetaError> {
        let (head, rest) = self.0.split_at_checked(n).ok_or(MetaError::Length)?;
        self.0 = rest;
        Ok(head)
    }

    fn u32(&mut self) -> Result<u32, MetaError> {
        self.take(4).map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes were taken")))
    }

    fn u64(&mut self) -> Result<u64, MetaError> {
        self.take(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes were taken")))
    }

    /// Leaves the trailing checksum alone: the texts may not reach into it.
    fn text(&mut self, len: u32) -> Result<Option<String>, MetaError> {
        if len == ABSENT {
            return Ok(None);
        }
        let len = usize::try_from(len).map_err(|_| MetaError::Text)?;
        if len > self.0.len().saturating_sub(4) {
            return Err(MetaError::Text);
        }
        String::from_utf8(self.take(len)?.to_vec()).map(Some).map_err(|_| MetaError::Text)
    }
}

#[cfg(test)]
#[path = "meta_tests.rs"]
mod tests;
