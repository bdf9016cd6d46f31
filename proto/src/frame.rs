//! Framing of control messages: a varint length, then the protobuf bytes.

use prost::Message;
use std::io::{self, Read};

/// Longest control message that either side accepts, in bytes. A longer one is refused before anything is allocated.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// A message that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The other side closed the connection between two messages.
    #[error("the connection was closed")]
    Closed,
    /// The length prefix is longer than a varint may be, or names more than [`MAX_MESSAGE_BYTES`].
    #[error("control message of {0} bytes exceeds the limit of {MAX_MESSAGE_BYTES} bytes")]
    TooLong(u64),
    /// The bytes are not the expected message.
    #[error("control message is malformed")]
    Malformed(#[from] prost::DecodeError),
    /// The connection failed, or ended within a message.
    #[error("control connection failed")]
    Io(#[from] io::Error),
}

/// Encodes one message with its length.
pub fn encode<M: Message>(message: &M) -> Vec<u8> {
    message.encode_length_delimited_to_vec()
}

/// Splits one whole frame off the front of `buffer`: the message bytes' range and the frame's length, or `None` if more
/// bytes are needed.
///
/// # Errors
/// [`FrameError::TooLong`] as soon as the length prefix shows it.
pub fn split(buffer: &[u8]) -> Result<Option<(std::ops::Range<usize>, usize)>, FrameError> {
    let mut length = 0_u64;
    for (index, &byte) in buffer.iter().take(10).enumerate() {
        length |= u64::from(byte & 0x7f) << (7 * index).min(63);
        if byte & 0x80 == 0 {
            let length = usize::try_from(length).ok().filter(|&length| length <= MAX_MESSAGE_BYTES);
            let length = length.ok_or(FrameError::TooLong(u64::MAX))?;
            let start = index + 1;
            return Ok((buffer.len() >= start + length).then_some((start..start + length, start + length)));
        }
        if index >= 4 {
            return Err(FrameError::TooLong(u64::MAX));
        }
    }
    Ok(None)
}

/// Decodes the bytes of one message, without its length.
///
/// # Errors
/// [`FrameError::Malformed`].
pub fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M, FrameError> {
    Ok(M::decode(bytes)?)
}

/// Reads one message from a blocking reader.
///
/// # Errors
/// [`FrameError::Closed`] on an end of file between messages; see [`FrameError`] for the rest.
pub fn read<M: Message + Default>(reader: &mut impl Read) -> Result<M, FrameError> {
    let mut prefix = Vec::with_capacity(5);
    let length = loop {
        let mut byte = [0_u8; 1];
        match reader.read(&mut byte) {
            Ok(0) if prefix.is_empty() => return Err(FrameError::Closed),
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(_) => prefix.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        }
        if byte[0] & 0x80 == 0 {
            break prost::decode_length_delimiter(prefix.as_slice())?;
        }
        if prefix.len() >= 5 {
            return Err(FrameError::TooLong(u64::MAX));
        }
    };
    if length > MAX_MESSAGE_BYTES {
        return Err(FrameError::TooLong(length as u64));
    }
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes)?;
    decode(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::Hello;

    fn hello() -> Hello {
        Hello { protocol: 1, client: "test".repeat(100), pid: 7 }
    }

    #[test]
    fn a_frame_survives_any_cut() {
        let bytes = encode(&hello());
        for cut in 0..bytes.len() {
            assert!(split(&bytes[..cut]).unwrap().is_none(), "cut at {cut}");
        }
        let (range, used) = split(&bytes).unwrap().unwrap();
        assert_eq!(used, bytes.len());
        assert_eq!(Hello::decode(&bytes[range]).unwrap(), hello());
        assert_eq!(read::<Hello>(&mut bytes.as_slice()).unwrap(), hello());
    }

    #[test]
    fn a_huge_length_is_refused_before_allocation() {
        assert!(matches!(split(&[0xff, 0xff, 0xff, 0xff, 0x7f]), Err(FrameError::TooLong(_))));
        assert!(matches!(split(&[0xff; 12]), Err(FrameError::TooLong(_))));
        assert!(matches!(read::<Hello>(&mut [0xff_u8; 12].as_slice()), Err(FrameError::TooLong(_))));
    }

    #[test]
    fn an_end_between_messages_is_a_close_and_within_one_an_error() {
        assert!(matches!(read::<Hello>(&mut [].as_slice()), Err(FrameError::Closed)));
        let bytes = encode(&hello());
        assert!(matches!(read::<Hello>(&mut &bytes[..bytes.len() - 1]), Err(FrameError::Io(_))));
    }
}
