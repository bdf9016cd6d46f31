//! What a file is, by its first bytes.

use super::crc::masked_crc32c;

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Frames as they stand.
    TfRecord,
    /// A gzip stream, presumably of frames.
    Gzip,
    /// A zlib stream, presumably of frames.
    Zlib,
    /// No bytes at all.
    Empty,
    /// Something else, named.
    Foreign(&'static str),
    /// Nothing known; perhaps a TFRecord file with a damaged start.
    Corrupt,
}

/// Magic numbers at the start of a file, longest first where one begins like another.
const MAGIC: &[(&[u8], &str)] = &[
    (b"version https://git-lfs", "Git LFS pointer: fetch the real file with git lfs pull"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"\x89HDF\r\n\x1a\n", "HDF5"),
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"ARROW1", "Arrow IPC file"),
    (b"FEA1", "Feather file"),
    (b"\x93NUMPY", "NumPy array"),
    (b"\xfd7zXZ\0", "xz stream"),
    (b"PAR1", "Parquet"),
    (b"Obj\x01", "Avro"),
    (b"ORC", "ORC"),
    (b"PK\x03\x04", "zip archive"),
    (b"PK\x05\x06", "zip archive"),
    (b"\x28\xb5\x2f\xfd", "zstd stream"),
    (b"\x04\x22\x4d\x18", "LZ4 stream"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"BZh", "bzip2 stream"),
    (b"\x7fELF", "program"),
    (b"SEQ\x06", "Hadoop sequence file"),
    (b"%PDF", "PDF"),
];

/// Tells a file by its first bytes (4,096 are plenty). `whole` says that there are no more.
///
/// A TFRecord file is recognised by the checksum of its first length, so nothing else is taken for one.
pub fn sniff(first_bytes: &[u8], whole: bool) -> Format {
    if first_bytes.is_empty() {
        return Format::Empty;
    }
    if let Some(header) = first_bytes.get(..12)
        && masked_crc32c(&header[..8]).to_le_bytes() == header[8..]
    {
        return Format::TfRecord;
    }
    if first_bytes.starts_with(&[0x1f, 0x8b, 8]) {
        return Format::Gzip;
    }
    if is_zlib(first_bytes) && text(first_bytes, whole).is_none() {
        return Format::Zlib;
    }
    if let Some((_, name)) = MAGIC.iter().find(|(magic, _)| first_bytes.starts_with(magic)) {
        return Format::Foreign(name);
    }
    if first_bytes.get(257..262) == Some(b"ustar") {
        return Format::Foreign("tar archive");
    }
    if first_bytes.get(..4) == Some(b"RIFF") {
        return Format::Foreign("RIFF media (WAV, WebP)");
    }
    text(first_bytes, whole).map_or(Format::Corrupt, Format::Foreign)
}

/// A zlib header with the usual 32 KiB window, whose two bytes make a multiple of 31 (RFC 1950), and no dictionary.
fn is_zlib(bytes: &[u8]) -> bool {
    let &[0x78, flags, ..] = bytes else { return false };
    // A damaged TFRecord header may begin like this as well, but then zeros follow, the upper bytes of a length; no
    // deflate stream has five of them there (a stored block needs its length's complement, and codes would be missing).
    let length_of_a_record = bytes.get(3..8) == Some(&[0; 5]);
    (0x7800 | u16::from(flags)).is_multiple_of(31) && flags & 0x20 == 0 && !length_of_a_record
}

/// Text, and what kind.
fn text(bytes: &[u8], whole: bool) -> Option<&'static str> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // The piece may end within a character.
        Err(error) if !whole && bytes.len() - error.valid_up_to() < 4 => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    if text.chars().any(|character| character.is_control() && !character.is_whitespace()) {
        return None;
    }
    match text.trim_start().chars().next() {
        Some('{' | '[') => Some("JSON"),
        Some('<') => Some("XML or HTML"),
        _ => Some("text or CSV"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::append_record;
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    #[test]
    fn formats_are_told_by_content() {
        let mut record = Vec::new();
        append_record(&mut record, b"{\"json\": \"inside\"}");
        assert_eq!(sniff(&record, true), Format::TfRecord);
        assert_eq!(sniff(&[], true), Format::Empty);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&record).unwrap();
        assert_eq!(sniff(&gzip.finish().unwrap(), true), Format::Gzip);
        for level in 0..10 {
            let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(level));
            zlib.write_all(&record).unwrap();
            assert_eq!(sniff(&zlib.finish().unwrap(), true), Format::Zlib, "level {level}");
        }
        let mut tar = vec![0; 512];
        tar[..5].copy_from_slice(b"a.txt");
        tar[257..262].copy_from_slice(b"ustar");
        let named: &[(&[u8], &str)] = &[
            (b"PAR1\x15\x04\x15", "Parquet"),
            (&tar, "tar archive"),
            (b" {\"a\": 1}", "JSON"),
            (b"<html>", "XML or HTML"),
            (b"id,label\n1,2\n", "text or CSV"),
            (b"x^3 is text as well, even with an \xc3\xa9", "text or CSV"),
            (
                b"version https://git-lfs.github.com/spec/v1\noid sha256:00",
                "Git LFS pointer: fetch the real file with git lfs pull",
            ),
        ];
        for (bytes, name) in named {
            assert_eq!(sniff(bytes, true), Format::Foreign(name));
        }
        record[3] ^= 1;
        assert_eq!(sniff(&record, true), Format::Corrupt);
        // A header with a damaged checksum is no zlib stream, whatever its length looks like.
        for flags in [0x01, 0x5e, 0x9c, 0xda] {
            assert_eq!(sniff(&[0x78, flags, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6], true), Format::Corrupt);
        }
    }

    #[test]
    fn every_magic_number_has_its_name() {
        for (magic, name) in MAGIC {
            let bytes = [magic, &[0xfe_u8, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9][..]].concat();
            assert_eq!(sniff(&bytes, true), Format::Foreign(name));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_something(bytes in prop::collection::vec(any::<u8>(), 0..300), whole in any::<bool>()) {
            sniff(&bytes, whole);
        }
    }
}
