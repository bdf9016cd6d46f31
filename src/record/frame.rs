//! Writing frames, and walking frames that lie in memory as a whole.

use super::crc::masked_crc32c;

/// Bytes before a payload: its length and the length's checksum.
pub const HEADER_BYTES: u64 = 12;
/// Bytes behind a payload: its checksum.
pub const FOOTER_BYTES: u64 = 4;
/// What a frame has beside its payload.
pub const FRAME_BYTES: u64 = HEADER_BYTES + FOOTER_BYTES;

/// Appends one record to `out`.
pub fn append_record(out: &mut Vec<u8>, payload: &[u8]) {
    let length = (payload.len() as u64).to_le_bytes();
    out.reserve(payload.len() + 16);
    out.extend_from_slice(&length);
    out.extend_from_slice(&masked_crc32c(&length).to_le_bytes());
    out.extend_from_slice(payload);
    out.extend_from_slice(&masked_crc32c(payload).to_le_bytes());
}

/// Payloads of a byte string of frames, each checked. Ends at the first that is cut or wrong; [`FrameIter::offset`] says
/// where that was.
pub fn frames(bytes: &[u8]) -> FrameIter<'_> {
    FrameIter { bytes, offset: 0 }
}

/// See [`frames`].
#[derive(Debug, Clone)]
pub struct FrameIter<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl FrameIter<'_> {
    /// Offset of the next frame, in bytes; the length of the input once all frames were good.
    pub fn offset(&self) -> usize {
        self.offset
    }
}

impl<'a> Iterator for FrameIter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = &self.bytes[self.offset..];
        let (header, body) = rest.split_at_checked(12)?;
        let (length, crc) = header.split_at(8);
        if crc != masked_crc32c(length).to_le_bytes() {
            return None;
        }
        let length = usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok()?;
        let (payload, footer) = body.split_at_checked(length)?;
        if footer.get(..4)? != masked_crc32c(payload).to_le_bytes() {
            return None;
        }
        self.offset += length + 16;
        Some(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_any_cut_is_seen() {
        let mut bytes = Vec::new();
        for payload in [&b"one"[..], b"", b"three"] {
            append_record(&mut bytes, payload);
        }
        let mut iter = frames(&bytes);
        assert_eq!(iter.by_ref().collect::<Vec<_>>(), [&b"one"[..], b"", b"three"]);
        assert_eq!(iter.offset(), bytes.len());
        for cut in 1..21 {
            let mut iter = frames(&bytes[..bytes.len() - cut]);
            assert_eq!(iter.by_ref().count(), 2, "cut by {cut}");
            assert_eq!(iter.offset(), 19 + 16);
        }
    }
}
