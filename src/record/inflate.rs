//! gzip and zlib streams to plain bytes, piece by piece.

use super::sniff::Format;
use flate2::{Decompress, FlushDecompress, Status};

/// A compressed stream that cannot be read. Offsets count compressed bytes from the start of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InflateError {
    /// The compressed data makes no sense, or its checksum does not fit.
    #[error("compressed data is damaged at byte {offset}: {reason}")]
    Damaged {
        /// Where.
        offset: u64,
        /// What the decompressor says.
        reason: String,
    },
    /// The file ends within the stream.
    #[error("compressed data ends at byte {offset}, within a stream")]
    Cut {
        /// The file's length.
        offset: u64,
    },
    /// Something other than zeros or another gzip member lies behind the stream.
    #[error("byte {offset}, behind the end of the compressed data, is {byte:#04x} and should not be there")]
    Trailing {
        /// Where.
        offset: u64,
        /// What.
        byte: u8,
    },
}

/// How far one call came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Bytes taken from the input.
    pub consumed: usize,
    /// Bytes written to the output.
    pub produced: usize,
    /// The stream has ended; what may still come is another gzip member or zeros.
    pub finished: bool,
}

#[derive(Debug)]
enum State {
    /// Within a stream.
    Within(Box<Decompress>),
    /// Behind a stream; so many bytes of a possible next gzip header have been seen.
    Behind { seen: usize },
    /// Behind the last stream, in zeros.
    Zeros,
    /// Nothing more can be read, and why.
    Failed(InflateError),
}

/// The first bytes of a gzip member with deflate.
const GZIP_MAGIC: [u8; 3] = [0x1f, 0x8b, 8];

/// Decompresses one file, of one zlib stream or of any number of gzip members. Holds a fixed 32 KiB window and some
/// tables, whatever the ratio; any number of zero bytes may follow the last stream.
#[derive(Debug)]
pub struct Inflater {
    gzip: bool,
    state: State,
    offset: u64,
}

impl Inflater {
    /// For a file that [`super::sniff()`] took for `format`, which is gzip or zlib.
    pub fn new(format: Format) -> Self {
        let gzip = format == Format::Gzip;
        Self { gzip, state: State::Within(Box::new(decompressor(gzip))), offset: 0 }
    }

    /// Takes some of `input` and fills some of `output`. Call again with the rest of the input, or with more room, until the
    /// input is used up and the output not full. Bytes in front of an error are given first: the error comes with the next
    /// call, or from [`Self::finish`].
    ///
    /// # Errors
    /// [`InflateError::Damaged`], or [`InflateError::Trailing`] after all content has come out.
    pub fn inflate(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, InflateError> {
        let mut step = Step { consumed: 0, produced: 0, finished: false };
        loop {
            let rest = &input[step.consumed..];
            match &mut self.state {
                State::Within(stream) => {
                    let (taken, given) = (stream.total_in(), stream.total_out());
                    let status = stream.decompress(rest, &mut output[step.produced..], FlushDecompress::None);
                    let taken = stream.total_in() - taken;
                    step.consumed += usize::try_from(taken).expect("at most the input");
                    step.produced += usize::try_from(stream.total_out() - given).expect("at most the output");
                    self.offset += taken;
                    match status {
                        Ok(Status::StreamEnd) => self.state = State::Behind { seen: 0 },
                        Ok(Status::Ok | Status::BufError) => return Ok(step),
                        Err(error) => {
                            let reason = error.to_string();
                            return self.fail(InflateError::Damaged { offset: self.offset, reason }, step);
                        }
                    }
                }
                State::Behind { seen } => {
                    let Some(&byte) = rest.first() else { break };
                    if self.gzip && byte == GZIP_MAGIC[*seen] {
                        *seen += 1;
                        self.offset += 1;
                        step.consumed += 1;
                        if *seen == GZIP_MAGIC.len() {
                            let mut stream = Box::new(decompressor(true));
                            // The decompressor wants the header bytes that have been looked at.
                            stream
                                .decompress(&GZIP_MAGIC, &mut [], FlushDecompress::None)
                                .expect("these bytes start every member");
                            self.state = State::Within(stream);
                        }
                    } else if byte == 0 && *seen == 0 {
                        self.state = State::Zeros;
                    } else {
                        let offset = self.offset - *seen as u64;
                        let byte = if *seen > 0 { GZIP_MAGIC[0] } else { byte };
                        return self.fail(InflateError::Trailing { offset, byte }, step);
                    }
                }
                State::Zeros => {
                    if let Some(at) = rest.iter().position(|&byte| byte != 0) {
                        let (offset, byte) = (self.offset + at as u64, rest[at]);
                        return self.fail(InflateError::Trailing { offset, byte }, step);
                    }
                    self.offset += rest.len() as u64;
                    step.consumed = input.len();
                    break;
                }
                State::Failed(error) => return Err(error.clone()),
            }
        }
        step.finished = true;
        Ok(step)
    }

    /// Keeps the error for later if this call has bytes to give.
    fn fail(&mut self, error: InflateError, step: Step) -> Result<Step, InflateError> {
        self.state = State::Failed(error.clone());
        if step.produced > 0 { Ok(step) } else { Err(error) }
    }

    /// The file is at its end.
    ///
    /// # Errors
    /// [`InflateError::Cut`] if the stream is not, or the error that ended it.
    pub fn finish(&self) -> Result<(), InflateError> {
        match &self.state {
            State::Failed(error) => Err(error.clone()),
            State::Within(_) => Err(InflateError::Cut { offset: self.offset }),
            State::Behind { seen } if *seen > 0 => {
                Err(InflateError::Trailing { offset: self.offset - *seen as u64, byte: GZIP_MAGIC[0] })
            }
            State::Behind { .. } | State::Zeros => Ok(()),
        }
    }
}

fn decompressor(gzip: bool) -> Decompress {
    if gzip { Decompress::new_gzip(15) } else { Decompress::new(true) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};
    use proptest::prelude::*;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn inflate(format: Format, input: &[u8], piece: usize, room: usize) -> Result<Vec<u8>, InflateError> {
        let (mut inflater, mut out) = (Inflater::new(format), Vec::new());
        for mut rest in input.chunks(piece) {
            loop {
                let mut buffer = vec![0; room];
                let step = inflater.inflate(rest, &mut buffer)?;
                out.extend_from_slice(&buffer[..step.produced]);
                rest = &rest[step.consumed..];
                if step.produced < room && (rest.is_empty() || step.finished) {
                    break;
                }
            }
        }
        inflater.finish().map(|()| out)
    }

    #[test]
    fn zeros_behind_the_stream_are_padding_and_anything_else_is_named() {
        let mut bytes = gzip(b"payload");
        let end = bytes.len() as u64;
        bytes.extend([0; 512]);
        assert_eq!(inflate(Format::Gzip, &bytes, 7, 3).unwrap(), b"payload");
        bytes.extend(b"x");
        let error = inflate(Format::Gzip, &bytes, 7, 3).unwrap_err();
        assert_eq!(error, InflateError::Trailing { offset: end + 512, byte: b'x' });
        let mut bytes = zlib(b"payload");
        let end = bytes.len() as u64;
        bytes.extend(gzip(b"more"));
        let error = inflate(Format::Zlib, &bytes, 7, 3).unwrap_err();
        assert_eq!(error, InflateError::Trailing { offset: end, byte: 0x1f });
        let mut half_magic = gzip(b"payload");
        half_magic.extend([0x1f, 0x8b]);
        assert!(matches!(inflate(Format::Gzip, &half_magic, 64, 64), Err(InflateError::Trailing { .. })));
    }

    #[test]
    fn what_comes_before_an_error_is_given_first() {
        let content: Vec<u8> = (0..2000_u32).flat_map(u32::to_le_bytes).collect();
        let whole = gzip(&content);
        let foreign = [whole.clone(), b"0123456789".to_vec()].concat();
        let mut damaged = whole.clone();
        let checksum = damaged.len() - 8;
        damaged[checksum] ^= 1;
        for (packed, trailing) in
            [(foreign, true), (damaged, false), (whole[..whole.len() - 3].to_vec(), false)]
        {
            for room in [100, 16_000] {
                let (mut inflater, mut rest, mut out) =
                    (Inflater::new(Format::Gzip), &packed[..], Vec::new());
                let error = loop {
                    let mut buffer = vec![0; room];
                    match inflater.inflate(rest, &mut buffer) {
                        Ok(step) if step.consumed + step.produced == 0 => {
                            break inflater.finish().unwrap_err();
                        }
                        Ok(step) => {
                            rest = &rest[step.consumed..];
                            out.extend_from_slice(&buffer[..step.produced]);
                        }
                        Err(error) => break error,
                    }
                };
                assert!(out == content, "{error}");
                assert_eq!(inflater.finish().unwrap_err(), error);
                let expected = InflateError::Trailing { offset: whole.len() as u64, byte: b'0' };
                assert_eq!(error == expected, trailing, "{error}");
            }
        }
    }

    #[test]
    fn a_hundredfold_ratio_needs_no_memory_for_it() {
        let zeros = vec![0; 3_000_000];
        assert_eq!(inflate(Format::Gzip, &gzip(&zeros), 1000, 4096).unwrap(), zeros);
    }

    proptest! {
        #[test]
        fn members_come_out_one_behind_the_other(
            members in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..400), 1..4), piece in 1_usize..50, room in 1_usize..90,
        ) {
            let packed: Vec<u8> = members.iter().flat_map(|member| gzip(member)).collect();
            prop_assert_eq!(inflate(Format::Gzip, &packed, piece, room).unwrap(), members.concat());
            prop_assert_eq!(inflate(Format::Zlib, &zlib(&members[0]), piece, room).unwrap(), members[0].clone());
        }

        #[test]
        fn a_cut_is_never_a_clean_end(bytes in prop::collection::vec(any::<u8>(), 0..400), cut in 1_usize..40) {
            for (format, packed) in [(Format::Gzip, gzip(&bytes)), (Format::Zlib, zlib(&bytes))] {
                let kept = packed.len().saturating_sub(cut);
                prop_assert!(inflate(format, &packed[..kept], 64, 64).is_err());
            }
        }

        #[test]
        fn damage_is_found_or_harmless(bytes in prop::collection::vec(any::<u8>(), 1..400), at in any::<prop::sample::Index>(), flip in 1_u8..) {
            let mut packed = gzip(&bytes);
            // The ten header bytes hold a time stamp and flags that change nothing.
            let at = 10 + at.index(packed.len() - 10);
            packed[at] ^= flip;
            // Bits that fill up the last byte of deflate data mean nothing either.
            let out = inflate(Format::Gzip, &packed, 64, 64);
            prop_assert!(out.is_err() || out == Ok(bytes));
        }

        #[test]
        fn bytes_of_any_kind_do_no_harm(
            start in 0_usize..40,
            behind in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(&GZIP_MAGIC[..]), Just(0)], 0..120),
            piece in 1_usize..30,
        ) {
            for format in [Format::Gzip, Format::Zlib] {
                // A good start, cut anywhere, leads into every state.
                let good = if format == Format::Gzip { gzip(b"some payload") } else { zlib(b"some payload") };
                let packed = [&good[..start.min(good.len())], &behind[..]].concat();
                match inflate(format, &packed, piece, 16) {
                    Err(
                        InflateError::Damaged { offset, .. }
                        | InflateError::Cut { offset }
                        | InflateError::Trailing { offset, .. },
                    ) => prop_assert!(offset <= packed.len() as u64),
                    // What was cut off may have come back by chance; then the stream is whole indeed.
                    Ok(out) => prop_assert!(out.is_empty() || packed.starts_with(&good)),
                }
            }
        }
    }
}
