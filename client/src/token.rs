//! Where a job is, to be kept with the trainer's checkpoint.

use crate::Error;
use crc_fast::{CrcAlgorithm, checksum};
use feedline_proto::frame;
use feedline_proto::shm::Mark;
use feedline_proto::v1::ResumeToken;
use prost::Message;
use std::fmt;
use std::str::FromStr;

/// A place in a job between two global batches, and what the job reads: content, order, seed.
///
/// As text it is `flt1-` and some hundred hexadecimal digits. Any rank of a job that took as many batches has the same
/// token, and any number of ranks, with any batch size, can go on with it: see
/// [`StreamOptions::resume`](crate::StreamOptions::resume).
#[derive(Debug, Clone, PartialEq)]
pub struct Token(pub(crate) ResumeToken);

impl Token {
    pub(crate) fn at(token: &ResumeToken, mark: &Mark) -> Self {
        let Mark { epoch, position, batch, slot, slot_position } = *mark;
        Self(ResumeToken { epoch, position, batch, slot, slot_position, ..token.clone() })
    }

    /// Epoch of the next record, from 0.
    pub fn epoch(&self) -> u64 {
        self.0.epoch
    }

    /// Records of the epoch that lie before, over all ranks.
    pub fn position(&self) -> u64 {
        self.0.position
    }

    /// Global batches of the epoch that lie before.
    pub fn global_batch(&self) -> u64 {
        self.0.batch
    }
}

const PREFIX: &str = "flt1-";

fn check(bytes: &[u8]) -> [u8; 4] {
    let crc = checksum(CrcAlgorithm::Crc32Iscsi, bytes).to_le_bytes();
    [crc[0], crc[1], crc[2], crc[3]]
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.encode_to_vec();
        f.write_str(PREFIX)?;
        bytes.iter().chain(&check(&bytes)).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Token {
    type Err = Error;

    /// Reads what `to_string` gave.
    ///
    /// # Errors
    /// [`Error::Option`] if it is cut, changed, or something else.
    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = |problem: &str| Error::Option { option: "resume", problem: problem.to_owned() };
        let digits = text.trim().strip_prefix(PREFIX).ok_or_else(|| {
            refuse(
                "is no token of this version: one begins with flt1-, as Stream::token().to_string() gives it",
            )
        })?;
        let damaged = || refuse("is a damaged token: a part of it is missing or changed");
        let bytes = digits.as_bytes().chunks(2).map(|pair| {
            let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
            u8::from_str_radix(pair, 16).ok()
        });
        let bytes: Vec<u8> = bytes.collect::<Option<_>>().ok_or_else(damaged)?;
        let (body, crc) = bytes.split_last_chunk::<4>().ok_or_else(damaged)?;
        if check(body) != *crc {
            return Err(damaged());
        }
        Ok(Self(frame::decode(body)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        Token(ResumeToken {
            content: vec![7; 16],
            shards: 1_024,
            position: 1 << 40,
            ..ResumeToken::default()
        })
    }

    #[test]
    fn text_and_back_gives_the_same_text() {
        let text = token().to_string();
        let read: Token = text.parse().unwrap();
        assert_eq!((read.clone(), read.to_string()), (token(), text.clone()));
        assert!(text.len() < 300, "{text}");
        assert_eq!(format!(" {text}\n").parse::<Token>().unwrap(), token());
    }

    #[test]
    fn every_changed_or_missing_character_is_noticed() {
        let text = token().to_string();
        for at in 0..text.len() {
            assert!(text[..at].parse::<Token>().is_err(), "cut at {at}");
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'1' { b'2' } else { b'1' };
            assert!(String::from_utf8(changed).unwrap().parse::<Token>().is_err(), "changed at {at}");
        }
        assert!("flt1-é".parse::<Token>().is_err());
    }
}
