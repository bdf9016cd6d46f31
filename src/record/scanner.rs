//! The walk over a shard's bytes, in pieces.

use super::crc::{mask, masked_crc32c, narrow};
use super::error::Check;
use super::frame::{FOOTER_BYTES, HEADER_BYTES};
use super::index::{BadFrame, BrokenTail, ShardIndex};
use crc_fast::{CrcAlgorithm, Digest};

/// What the next byte belongs to.
#[derive(Debug, Clone)]
enum State {
    /// A header; what has come of it is in `partial`.
    Header,
    /// A payload with so many bytes to come; its checksum so far.
    Payload { left: u64, length: u64, crc: Box<Digest> },
    /// The checksum behind a payload, of which `computed` is what it should be.
    Footer { length: u64, computed: u32 },
    /// A length could not be trusted: the rest is not looked at.
    Broken,
}

/// Walks frames in bytes that come in pieces of any size. Keeps at most 12 bytes and a running checksum.
#[derive(Debug, Clone)]
pub struct Scanner {
    state: State,
    partial: Vec<u8>,
    offset: u64,
    frame_start: u64,
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

impl Scanner {
    /// At the start of a shard.
    pub fn new() -> Self {
        Self { state: State::Header, partial: Vec::with_capacity(12), offset: 0, frame_start: 0 }
    }

    /// Bytes fed so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Offset of the frame that is being read, or would start next.
    pub fn frame_start(&self) -> u64 {
        self.frame_start
    }

    /// Whether a length could not be trusted, so that nothing more can be read.
    pub fn is_broken(&self) -> bool {
        matches!(self.state, State::Broken)
    }

    /// Takes the next bytes of the shard and adds what they complete to `index`.
    pub fn feed(&mut self, bytes: &[u8], index: &mut ShardIndex) {
        let mut rest = bytes;
        while !rest.is_empty() && !self.is_broken() {
            let before = rest.len();
            match &mut self.state {
                State::Header => {
                    if !(self.partial.is_empty() && self.whole_frames(&mut rest, index)) {
                        self.header(&mut rest, index);
                    }
                }
                State::Payload { left, length, crc } => {
                    let take = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    crc.update(&rest[..take]);
                    *left -= take as u64;
                    rest = &rest[take..];
                    if *left == 0 {
                        let computed = mask(narrow(crc.finalize()));
                        self.state = State::Footer { length: *length, computed };
                    }
                }
                State::Footer { length, computed } => {
                    let (length, computed) = (*length, *computed);
                    if let Some(footer) = collect(&mut self.partial, &mut rest, FOOTER_BYTES) {
                        let stored = u32::from_le_bytes(footer[..4].try_into().expect("four bytes"));
                        self.end_frame(length, stored, computed, index);
                        self.state = State::Header;
                    }
                }
                State::Broken => {}
            }
            self.offset += (before - rest.len()) as u64;
        }
        // What lies behind a broken length still counts as content.
        self.offset += rest.len() as u64;
    }

    /// Reads frames that lie whole in `rest`; whether there was at least one. The fast path: nothing is copied.
    fn whole_frames(&mut self, rest: &mut &[u8], index: &mut ShardIndex) -> bool {
        let mut any = false;
        while let Some((header, body)) = rest.split_at_checked(12) {
            let length = u64::from_le_bytes(header[..8].try_into().expect("eight bytes"));
            let stored = u32::from_le_bytes(header[8..].try_into().expect("four bytes"));
            if stored != masked_crc32c(&header[..8]) {
                break;
            }
            let Ok(size) = usize::try_from(length) else { break };
            let Some((payload, behind)) = body.split_at_checked(size) else { break };
            let Some((footer, next)) = behind.split_at_checked(4) else { break };
            let stored = u32::from_le_bytes(footer.try_into().expect("four bytes"));
            self.end_frame(length, stored, masked_crc32c(payload), index);
            *rest = next;
            any = true;
        }
        any
    }

    fn header(&mut self, rest: &mut &[u8], index: &mut ShardIndex) {
        let Some(header) = collect(&mut self.partial, rest, HEADER_BYTES) else { return };
        let length = u64::from_le_bytes(header[..8].try_into().expect("eight bytes"));
        let stored = u32::from_le_bytes(header[8..12].try_into().expect("four bytes"));
        let computed = masked_crc32c(&header[..8]);
        if stored != computed {
            index.tail = Some(BrokenTail {
                offset: self.frame_start,
                record: index.frames(),
                check: Check::LengthCrc,
                stored,
                computed,
                length: None,
            });
            self.state = State::Broken;
        } else if length == 0 {
            self.state = State::Footer { length, computed: masked_crc32c(&[]) };
        } else {
            let crc = Box::new(Digest::new(CrcAlgorithm::Crc32Iscsi));
            self.state = State::Payload { left: length, length, crc };
        }
    }

    fn end_frame(&mut self, length: u64, stored: u32, computed: u32, index: &mut ShardIndex) {
        if stored != computed {
            index.bad.push(BadFrame { record: index.frames(), stored, computed });
        }
        // The sum fits: all these bytes have been fed, and their number does.
        self.frame_start += HEADER_BYTES + length + FOOTER_BYTES;
        index.starts.push(self.frame_start);
    }

    /// The shard is at its end: a frame that is not whole makes a broken tail.
    pub fn finish(&mut self, index: &mut ShardIndex) {
        let length = match &self.state {
            State::Header if self.partial.is_empty() => None,
            State::Header => Some(None),
            State::Payload { length, .. } | State::Footer { length, .. } => Some(Some(*length)),
            State::Broken => None,
        };
        if let Some(length) = length {
            index.tail = Some(BrokenTail {
                offset: self.frame_start,
                record: index.frames(),
                check: Check::Truncated,
                stored: 0,
                computed: 0,
                length,
            });
        }
        index.content_len = self.offset;
        index.complete = true;
        index.starts.shrink_to_fit();
    }
}

/// Moves bytes from `rest` to `partial` until there are `wanted`; then gives them, zero-padded to 12, and empties it.
fn collect(partial: &mut Vec<u8>, rest: &mut &[u8], wanted: u64) -> Option<[u8; 12]> {
    let wanted = usize::try_from(wanted).expect("at most 12");
    let take = (wanted - partial.len()).min(rest.len());
    partial.extend_from_slice(&rest[..take]);
    *rest = &rest[take..];
    if partial.len() < wanted {
        return None;
    }
    let mut bytes = [0; 12];
    bytes[..wanted].copy_from_slice(partial);
    partial.clear();
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::frame::append_record;
    use super::*;
    use proptest::prelude::*;

    fn shard(lengths: &[usize]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, &length) in lengths.iter().enumerate() {
            let payload: Vec<u8> =
                (0..length).map(|at| u8::try_from((at * 7 + number) % 251).unwrap()).collect();
            append_record(&mut bytes, &payload);
        }
        bytes
    }

    fn scan(bytes: &[u8], pieces: impl Iterator<Item = usize>) -> ShardIndex {
        let (mut scanner, mut index, mut rest) = (Scanner::new(), ShardIndex::new(), bytes);
        for piece in pieces {
            if rest.is_empty() {
                break;
            }
            let (now, later) = rest.split_at(piece.clamp(1, rest.len()));
            scanner.feed(now, &mut index);
            rest = later;
        }
        scanner.feed(rest, &mut index);
        scanner.finish(&mut index);
        index
    }

    #[test]
    fn a_cut_anywhere_in_the_last_record_is_a_truncation_and_the_others_arrive() {
        let bytes = shard(&[3, 0, 4]);
        for cut in 1..20 {
            let index = scan(&bytes[..bytes.len() - cut], std::iter::empty());
            assert_eq!(index.frames(), 2, "cut by {cut}");
            let tail = index.tail().unwrap();
            assert_eq!((tail.offset, tail.record, tail.check), (35, 2, Check::Truncated));
            assert_eq!(tail.length, (cut <= 8).then_some(4), "cut by {cut}");
        }
        assert!(
            scan(&bytes[..35], std::iter::empty()).tail().is_none(),
            "a cut between records is a clean end"
        );
    }

    #[test]
    fn a_length_of_half_the_address_space_with_a_good_checksum_allocates_nothing() {
        let header = [0, 0, 0, 0, 0, 0, 0, 0x80, 0x95, 0x08, 0x67, 0xb6];
        let mut bytes = header.to_vec();
        bytes.extend_from_slice(&[1; 500]);
        let index = scan(&bytes, std::iter::repeat(64));
        let tail = index.tail().unwrap();
        assert_eq!((tail.offset, tail.check, tail.length), (0, Check::Truncated, Some(1 << 63)));
        assert!(index.heap_bytes() < 1024);
    }

    #[test]
    fn a_bad_payload_costs_one_record_and_a_bad_length_the_rest() {
        let mut bytes = shard(&[10, 10, 10]);
        bytes[26 + 12] ^= 1;
        let index = scan(&bytes, std::iter::empty());
        assert_eq!((index.frames(), index.good(), index.bad()[0].record), (3, 2, 1));
        let text = index.bad_error(&index.bad()[0], "s3://b/k").to_string();
        assert!(text.starts_with("record 1 at byte 26 of s3://b/k: data CRC is 0x"), "{text}");
        bytes[26] ^= 1;
        let index = scan(&bytes, std::iter::empty());
        assert_eq!((index.frames(), index.tail().unwrap().check), (1, Check::LengthCrc));
        assert_eq!(index.content_len(), bytes.len() as u64);
    }

    /// The header of a record whose length cannot be wrong.
    fn header(length: u64) -> Vec<u8> {
        let length = length.to_le_bytes();
        [length.to_vec(), masked_crc32c(&length).to_le_bytes().to_vec()].concat()
    }

    #[test]
    fn records_of_many_megabytes_need_no_memory() {
        let piece = vec![0x5a; 1 << 20];
        for length in [65_u64 << 20, 300 << 20] {
            let (mut scanner, mut index) = (Scanner::new(), ShardIndex::new());
            scanner.feed(&shard(&[5]), &mut index);
            scanner.feed(&header(length), &mut index);
            let (mut left, mut crc) = (length, Digest::new(CrcAlgorithm::Crc32Iscsi));
            while left > 0 {
                let bytes = &piece[..usize::try_from(left).unwrap().min(piece.len())];
                crc.update(bytes);
                scanner.feed(bytes, &mut index);
                left -= bytes.len() as u64;
            }
            assert_eq!(index.frames(), 1, "not before its checksum is there");
            scanner.feed(&mask(narrow(crc.finalize())).to_le_bytes(), &mut index);
            scanner.feed(&shard(&[6]), &mut index);
            scanner.finish(&mut index);
            let found: Vec<u64> = index.frame_slice(0, 9).map(|frame| frame.len).collect();
            assert_eq!(found, [5, length, 6]);
            assert!(index.bad().is_empty() && index.tail().is_none() && index.heap_bytes() < 256);
        }
    }

    #[test]
    fn the_largest_lengths_overflow_nothing() {
        for length in [u64::MAX, u64::MAX - 15, 1 << 63, 1 << 32] {
            let bytes = [header(length), vec![0; 40]].concat();
            for piece in [1, 12, 64] {
                let index = scan(&bytes, std::iter::repeat(piece));
                let tail = index.tail().unwrap();
                assert_eq!((index.frames(), tail.check, tail.length), (0, Check::Truncated, Some(length)));
            }
        }
    }

    #[test]
    fn an_empty_shard_is_whole_and_a_shard_of_empty_records_is_not_empty() {
        let index = scan(&[], std::iter::empty());
        assert_eq!(
            (index.frames(), index.tail(), index.complete(), index.nth_good(0)),
            (0, None, true, None)
        );
        let index = scan(&shard(&[0; 100]), std::iter::repeat(7));
        assert_eq!((index.frames(), index.good(), index.content_len()), (100, 100, 1600));
    }

    proptest! {
        #[test]
        fn bytes_of_any_kind_do_no_harm(
            lengths in prop::collection::vec(0_usize..60, 0..6),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            behind in prop::collection::vec(any::<u8>(), 0..60),
            piece in 1_usize..40,
        ) {
            let mut bytes = [shard(&lengths), behind].concat();
            for (at, value) in damage.iter().filter(|_| !lengths.is_empty()) {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            let index = scan(&bytes, std::iter::repeat(piece));
            prop_assert_eq!(&index, &scan(&bytes, std::iter::empty()));
            prop_assert_eq!(index.content_len(), bytes.len() as u64);
            // The slice walker agrees up to the first fault.
            let good = super::super::frame::frames(&bytes).count() as u64;
            let first_bad = index.bad().first().map_or(index.frames(), |bad| bad.record);
            prop_assert_eq!(good, first_bad);
            prop_assert_eq!(index.tail().is_some(), index.frames_end() < bytes.len() as u64);
        }

        #[test]
        fn pieces_of_any_size_give_the_same_index(
            lengths in prop::collection::vec(0_usize..300, 0..12),
            pieces in prop::collection::vec(1_usize..40, 1..60),
        ) {
            let bytes = shard(&lengths);
            let whole = scan(&bytes, std::iter::empty());
            prop_assert_eq!(&scan(&bytes, pieces.into_iter().cycle()), &whole);
            prop_assert_eq!(whole.frames(), lengths.len() as u64);
            let found: Vec<u64> = whole.frame_slice(0, u64::MAX).map(|frame| frame.len).collect();
            prop_assert_eq!(found, lengths.iter().map(|&length| length as u64).collect::<Vec<_>>());
        }

        #[test]
        fn one_changed_byte_is_always_found(
            lengths in prop::collection::vec(0_usize..60, 1..8), at in any::<prop::sample::Index>(), flip in 1_u8..,
        ) {
            let mut bytes = shard(&lengths);
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            let index = scan(&bytes, [5, 17].into_iter().cycle());
            prop_assert!(!index.bad().is_empty() || index.tail().is_some());
            prop_assert!(index.good() < lengths.len() as u64);
        }

        #[test]
        fn going_back_and_reading_again_gives_the_same(lengths in prop::collection::vec(0_usize..100, 1..10), cut in any::<prop::sample::Index>()) {
            let bytes = shard(&lengths);
            let (first, second) = bytes.split_at(cut.index(bytes.len()));
            let (mut scanner, mut index) = (Scanner::new(), ShardIndex::new());
            scanner.feed(first, &mut index);
            let (saved, mark) = (scanner.clone(), index.mark());
            let wrong: Vec<u8> = second.iter().map(|byte| byte ^ 0x55).collect();
            scanner.feed(&wrong, &mut index);
            index.truncate_to(mark);
            scanner = saved;
            scanner.feed(second, &mut index);
            scanner.finish(&mut index);
            prop_assert_eq!(index, scan(&bytes, std::iter::empty()));
        }

        #[test]
        fn a_mark_brings_back_the_whole_index_and_a_follower_equals_it(
            lengths in prop::collection::vec(0_usize..60, 1..10),
            damage in prop::option::of(any::<prop::sample::Index>()),
            pieces in prop::collection::vec(1_usize..50, 1..40),
        ) {
            let mut bytes = shard(&lengths);
            if let Some(at) = damage {
                let at = at.index(bytes.len());
                bytes[at] ^= 1;
            }
            let (mut scanner, mut index, mut follower) = (Scanner::new(), ShardIndex::new(), ShardIndex::new());
            let (mut rest, mut states) = (&bytes[..], Vec::new());
            for (number, piece) in (0..).zip(pieces) {
                states.push((index.mark(), index.clone()));
                let (now, later) = rest.split_at(piece.min(rest.len()));
                scanner.feed(now, &mut index);
                index.push_block_crc(number);
                follower.extend_from(&index);
                prop_assert_eq!(&follower, &index);
                rest = later;
            }
            states.push((index.mark(), index.clone()));
            scanner.finish(&mut index);
            follower.extend_from(&index);
            prop_assert_eq!(&follower, &index);
            states.push((index.mark(), index.clone()));
            for (mark, state) in states.into_iter().rev() {
                index.truncate_to(mark);
                prop_assert_eq!(&index, &state);
            }
        }
    }
}
