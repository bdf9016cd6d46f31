//! How a record can be bad, and what is said about it.

use std::fmt;

/// The check that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Check {
    /// The checksum of the length: where the next record starts is unknown.
    LengthCrc,
    /// The checksum of the payload.
    DataCrc,
    /// The file ends within the record.
    Truncated,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LengthCrc => "length CRC",
            Self::DataCrc => "data CRC",
            Self::Truncated => "end of file",
        })
    }
}

/// What a reader does about bad records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CorruptPolicy {
    /// The first one is an error.
    #[default]
    Fail,
    /// Up to `max` per epoch and stream are counted and passed over; one more is an error.
    Skip {
        /// Most records passed over.
        max: u64,
    },
}

/// A bad record, named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordError {
    /// URL of the shard.
    pub key: String,
    /// Number of the record in its shard, from 0.
    pub record: u64,
    /// Offset of the frame in the shard's (uncompressed) content, in bytes.
    pub offset: u64,
    /// Which check failed.
    pub check: Check,
    /// The checksum in the file: what was expected.
    pub stored: u32,
    /// The checksum of the bytes: what was found.
    pub computed: u32,
    /// Length of the payload in bytes, where it is known.
    pub length: Option<u64>,
    /// The limit that was reached, if bad records are passed over.
    pub skip_limit: Option<u64>,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, record, offset, check, stored, computed, .. } = self;
        write!(f, "record {record} at byte {offset} of {key}: ")?;
        match check {
            Check::Truncated => match self.length {
                Some(length) => write!(f, "the file ends within its payload of {length} bytes")?,
                None => f.write_str("the file ends within its header")?,
            },
            Check::LengthCrc | Check::DataCrc => {
                write!(f, "{check} is {computed:#010x}, expected {stored:#010x}")?;
                if let Some(length) = self.length {
                    write!(f, " (payload of {length} bytes)")?;
                }
            }
        }
        match self.skip_limit {
            Some(limit) => write!(f, "; the limit of {limit} skipped records is used up"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for RecordError {}

impl RecordError {
    /// What a person can do about it. Not part of the message: it travels beside it.
    pub fn hint(&self) -> &'static str {
        match self.check {
            Check::Truncated => {
                "the writer was probably not closed: write the shard again, or allow skipping with corrupt = { skip = N }"
            }
            Check::LengthCrc => {
                "no record behind it can be found: write the shard again, or allow skipping with corrupt = { skip = N }"
            }
            Check::DataCrc => "write the shard again, or allow skipping with corrupt = { skip = N }",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_object_record_offset_check_and_both_sums() {
        let mut error = RecordError {
            key: "s3://b/k".to_owned(),
            record: 17,
            offset: 18_360,
            check: Check::DataCrc,
            stored: 0x1234,
            computed: 0xfedc_ba98,
            length: Some(1064),
            skip_limit: None,
        };
        let start = "record 17 at byte 18360 of s3://b/k: ";
        let sums = "data CRC is 0xfedcba98, expected 0x00001234 (payload of 1064 bytes)";
        assert_eq!(error.to_string(), format!("{start}{sums}"));
        error.skip_limit = Some(3);
        assert_eq!(error.to_string(), format!("{start}{sums}; the limit of 3 skipped records is used up"));
        (error.skip_limit, error.check) = (None, Check::Truncated);
        assert_eq!(error.to_string(), format!("{start}the file ends within its payload of 1064 bytes"));
        error.length = None;
        assert_eq!(error.to_string(), format!("{start}the file ends within its header"));
        error.check = Check::LengthCrc;
        assert_eq!(error.to_string(), format!("{start}length CRC is 0xfedcba98, expected 0x00001234"));
    }
}
