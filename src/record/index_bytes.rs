//! The record index as bytes on disk. What follows defines the format, byte for byte; a change needs a new magic number.
//!
//! ```text
//! 0   8  magic and version "FLINDEX1"
//! 8   4  block_bytes            12  4  flags: 1 a broken tail follows, 2 complete (always set)
//! 16  8  content_len            24  8  frames
//! 32  8  bad frames             40  8  blocks
//! 48     tail, if flagged: offset 8, record 8, check 1, length known 1, zero 2, stored 4, computed 4, zero 4, length 8
//!        blocks: CRC-32C, 4 each
//!        bad frames: record 8, stored 4, computed 4 each
//!        frames: payload lengths as LEB128
//! end    CRC-32C of everything before, 4
//! ```
//! All numbers are little-endian. A check is 1 for a length CRC, 3 for a file that ends within the record.
//!
//! A reader believes nothing: the checksum is looked at first, counts are held against the bytes that are there before
//! memory is taken, and the numbers must fit each other (frames reach up to the tail or the end, one CRC per block).

use super::crc::crc32c;
use super::error::Check;
use super::frame::FRAME_BYTES;
use super::index::{BadFrame, BrokenTail, ShardIndex};

const MAGIC: &[u8; 8] = b"FLINDEX1";
const TAIL_FOLLOWS: u32 = 1;
const COMPLETE: u32 = 2;

/// Bytes that are not a record index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// Another kind of file, or another version.
    #[error("record index has no magic number of this version")]
    Magic,
    /// The checksum over the file does not fit.
    #[error("record index fails its checksum")]
    Checksum,
    /// The numbers in it contradict each other.
    #[error("record index contradicts itself")]
    Contradiction,
}

impl ShardIndex {
    /// The index as bytes. Only a complete one is accepted by [`Self::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.starts.len() * 3 + self.block_crcs.len() * 4);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&self.block_bytes.to_le_bytes());
        let tail = if self.tail.is_some() { TAIL_FOLLOWS } else { 0 };
        let complete = if self.complete { COMPLETE } else { 0 };
        out.extend_from_slice(&(tail | complete).to_le_bytes());
        for number in [self.content_len, self.frames(), self.bad.len() as u64, self.block_crcs.len() as u64] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        if let Some(tail) = &self.tail {
            out.extend_from_slice(&tail.offset.to_le_bytes());
            out.extend_from_slice(&tail.record.to_le_bytes());
            out.extend_from_slice(&[check_code(tail.check), u8::from(tail.length.is_some()), 0, 0]);
            for number in [tail.stored, tail.computed, 0] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            out.extend_from_slice(&tail.length.unwrap_or(0).to_le_bytes());
        }
        for crc in &self.block_crcs {
            out.extend_from_slice(&crc.to_le_bytes());
        }
        for bad in &self.bad {
            out.extend_from_slice(&bad.record.to_le_bytes());
            out.extend_from_slice(&bad.stored.to_le_bytes());
            out.extend_from_slice(&bad.computed.to_le_bytes());
        }
        for frame in self.frame_slice(0, u64::MAX) {
            push_leb128(&mut out, frame.len);
        }
        let crc = crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads what [`Self::to_bytes`] wrote. A stored index is always of a whole shard.
    ///
    /// # Errors
    /// [`IndexError`]; nothing is allocated beyond a small multiple of the input.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, IndexError> {
        if bytes.get(..8) != Some(MAGIC) {
            return Err(IndexError::Magic);
        }
        let (body, crc) = bytes.split_last_chunk::<4>().ok_or(IndexError::Checksum)?;
        if crc32c(body) != u32::from_le_bytes(*crc) {
            return Err(IndexError::Checksum);
        }
        let mut reader = Reader { bytes: &body[8..] };
        let (block_bytes, flags) = (reader.u32()?, reader.u32()?);
        let (content_len, frames, bad, blocks) = (reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?);
        let tail = if flags & TAIL_FOLLOWS != 0 { Some(reader.tail()?) } else { None };
        // Every entry takes at least a byte, so counts beyond the input's length are lies.
        let limit = reader.bytes.len() as u64;
        if frames > limit || bad > limit / 16 || blocks > limit / 4 || flags & !TAIL_FOLLOWS != COMPLETE {
            return Err(IndexError::Contradiction);
        }
        let block_crcs = (0..blocks).map(|_| reader.u32()).collect::<Result<_, _>>()?;
        let bad = (0..bad).map(|_| reader.bad()).collect::<Result<Vec<_>, _>>()?;
        let mut starts =
            Vec::with_capacity(usize::try_from(frames + 1).map_err(|_| IndexError::Contradiction)?);
        let mut start = 0_u64;
        starts.push(start);
        for _ in 0..frames {
            let length = reader.leb128()?.checked_add(FRAME_BYTES).ok_or(IndexError::Contradiction)?;
            start = start.checked_add(length).ok_or(IndexError::Contradiction)?;
            starts.push(start);
        }
        let ordered = bad.windows(2).all(|pair| pair[0].record < pair[1].record);
        let ends = match &tail {
            None => start == content_len,
            Some(tail) => tail.offset == start && tail.record == frames && start < content_len,
        };
        let covered = block_bytes == 0 && blocks == 0
            || block_bytes != 0 && blocks == content_len.div_ceil(u64::from(block_bytes));
        let known = bad.last().is_none_or(|bad| bad.record < frames);
        if !(reader.bytes.is_empty() && ordered && known && ends && covered) {
            return Err(IndexError::Contradiction);
        }
        Ok(Self { starts, bad, tail, content_len, complete: true, block_bytes, block_crcs })
    }
}

fn check_code(check: Check) -> u8 {
    match check {
        Check::LengthCrc => 1,
        Check::DataCrc => 2,
        Check::Truncated => 3,
    }
}

fn push_leb128(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(u8::try_from(number & 0x7f).expect("seven bits") | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).expect("seven bits"));
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], IndexError> {
        let (now, later) = self.bytes.split_first_chunk::<N>().ok_or(IndexError::Contradiction)?;
        self.bytes = later;
        Ok(*now)
    }

    fn u32(&mut self) -> Result<u32, IndexError> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64, IndexError> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn leb128(&mut self) -> Result<u64, IndexError> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.take()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(IndexError::Contradiction);
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(IndexError::Contradiction)
    }

    fn bad(&mut self) -> Result<BadFrame, IndexError> {
        Ok(BadFrame { record: self.u64()?, stored: self.u32()?, computed: self.u32()? })
    }

    fn tail(&mut self) -> Result<BrokenTail, IndexError> {
        let (offset, record) = (self.u64()?, self.u64()?);
        let [check, known, _, _] = self.take()?;
        let (stored, computed, _) = (self.u32()?, self.u32()?, self.u32()?);
        let length = self.u64()?;
        let check = match check {
            1 => Check::LengthCrc,
            3 => Check::Truncated,
            _ => return Err(IndexError::Contradiction),
        };
        Ok(BrokenTail { offset, record, check, stored, computed, length: (known != 0).then_some(length) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::append_record;
    use super::super::scanner::Scanner;
    use super::*;
    use proptest::prelude::*;

    fn index(lengths: &[usize], flip: Option<usize>, cut: usize) -> ShardIndex {
        let mut bytes = Vec::new();
        for &length in lengths {
            append_record(&mut bytes, &vec![7; length]);
        }
        if let Some(at) = flip.filter(|&at| at < bytes.len()) {
            bytes[at] ^= 1;
        }
        bytes.truncate(bytes.len() - cut.min(bytes.len()));
        let (mut scanner, mut index) = (Scanner::new(), ShardIndex::new());
        index.set_block_bytes(64);
        for block in bytes.chunks(64) {
            scanner.feed(block, &mut index);
            index.push_block_crc(crc32c(block));
        }
        scanner.finish(&mut index);
        index
    }

    /// Bytes of a string of hexadecimal digits.
    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(pair).collect()
    }

    /// Made by another program, from the layout above.
    const GOLDEN: &str = "\
        46 4c 49 4e 44 45 58 31 \
        40 00 00 00 03 00 00 00 \
        f7 00 00 00 00 00 00 00 \
        02 00 00 00 00 00 00 00 \
        01 00 00 00 00 00 00 00 \
        04 00 00 00 00 00 00 00 \
        e9 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 \
        03 01 00 00 \
        00 00 00 00 00 00 00 00 00 00 00 00 \
        03 00 00 00 00 00 00 00 \
        09 0f 50 67 36 2b a2 d9 36 2b a2 d9 01 81 6e 17 \
        00 00 00 00 00 00 00 00 46 f8 f7 11 91 d4 f5 0b \
        01 c8 01 \
        47 b8 07 35";

    #[test]
    fn golden_bytes() {
        // Records of 1, 200 and 3 bytes; the first payload is damaged, the last record cut by five bytes.
        let index = index(&[1, 200, 3], Some(12), 5);
        let golden = hex(GOLDEN);
        assert_eq!(index.to_bytes(), golden, "a change here needs a new magic number");
        assert_eq!(ShardIndex::from_bytes(&golden).unwrap(), index);
    }

    #[test]
    fn lengths_beyond_32_bits_are_kept() {
        let mut index = ShardIndex::new();
        for length in [5, (1 << 31) + 10, 0, 1 << 40] {
            index.starts.push(index.frames_end() + length + FRAME_BYTES);
        }
        (index.content_len, index.complete) = (index.frames_end(), true);
        assert_eq!(ShardIndex::from_bytes(&index.to_bytes()).unwrap(), index);
        assert_eq!(index.frame(3).unwrap().len, 1 << 40);
    }

    #[test]
    fn an_unfinished_index_is_refused() {
        let mut index = index(&[5], None, 0);
        index.complete = false;
        assert_eq!(ShardIndex::from_bytes(&index.to_bytes()), Err(IndexError::Contradiction));
        assert_eq!(ShardIndex::from_bytes(&ShardIndex::new().to_bytes()), Err(IndexError::Contradiction));
    }

    #[test]
    fn numbers_that_do_not_fit_each_other_are_refused() {
        let good = index(&[5, 6], None, 0);
        let spoil = |spoil: fn(&mut ShardIndex)| {
            let mut index = good.clone();
            spoil(&mut index);
            ShardIndex::from_bytes(&index.to_bytes())
        };
        assert!(spoil(|_| ()).is_ok());
        assert!(spoil(|index| index.content_len += 1).is_err());
        assert!(spoil(|index| index.block_crcs.clear()).is_err());
        assert!(spoil(|index| index.bad.push(BadFrame { record: 2, stored: 0, computed: 1 })).is_err());
        assert!(spoil(|index| index.starts.truncate(2)).is_err());
    }

    #[test]
    fn hostile_counts_and_lengths_allocate_nothing() {
        for (frames, lengths) in
            [(u64::MAX, vec![]), (1 << 40, vec![0; 8]), (2, [[0xff; 9].as_slice(), &[1, 0xff]].concat())]
        {
            let mut bytes = MAGIC.to_vec();
            bytes.extend([0, 0, 0, 0, 2, 0, 0, 0]);
            for number in [0, frames, 0, 0] {
                bytes.extend(number.to_le_bytes());
            }
            bytes.extend(lengths);
            let crc = crc32c(&bytes);
            bytes.extend(crc.to_le_bytes());
            assert_eq!(ShardIndex::from_bytes(&bytes), Err(IndexError::Contradiction));
        }
    }

    proptest! {
        #[test]
        fn reading_gives_back_what_was_written(
            lengths in prop::collection::vec(0_usize..300, 0..20), flip in prop::option::of(0_usize..400), cut in 0_usize..30,
        ) {
            let index = index(&lengths, flip, cut);
            prop_assert_eq!(ShardIndex::from_bytes(&index.to_bytes()).unwrap(), index);
        }

        #[test]
        fn any_damage_is_refused(lengths in prop::collection::vec(0_usize..300, 0..20), at in any::<prop::sample::Index>(), flip in 1_u8..) {
            let mut bytes = index(&lengths, None, 0).to_bytes();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            prop_assert!(ShardIndex::from_bytes(&bytes).is_err());
        }

        #[test]
        fn hostile_bytes_with_a_good_checksum_do_no_harm(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = MAGIC.to_vec();
            bytes.extend(body);
            let crc = crc32c(&bytes);
            bytes.extend(crc.to_le_bytes());
            if let Ok(index) = ShardIndex::from_bytes(&bytes) {
                prop_assert!(index.heap_bytes() < 16 * bytes.len() + 64);
            }
        }
    }
}
