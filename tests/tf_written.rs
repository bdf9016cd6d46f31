//! Risk: shards that TensorFlow wrote do not read back as it wrote them.
//!
//! The pure path (sniff, inflate, scan) against the digests of `tests/data/tf-written/manifest.json`, with pieces of sizes
//! that put every header and checksum across an edge.

use feedline::record::{Format, Inflater, Scanner, ShardIndex, frames, sniff};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

struct Written {
    name: String,
    format: Format,
    records: u64,
    /// Lengths of the first records, in bytes.
    lengths: Vec<u64>,
    sha256: String,
    bytes: Vec<u8>,
}

const FIELDS: &str = "the manifest has all fields";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tf-written")
}

fn written() -> Vec<Written> {
    let manifest = std::fs::read(folder().join("manifest.json")).expect("the manifest is in the tree");
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("the manifest is JSON");
    let files = manifest["files"].as_object().expect(FIELDS);
    let entry = |(name, file): (&String, &serde_json::Value)| Written {
        name: name.clone(),
        format: match file["compression"].as_str().expect(FIELDS) {
            "NONE" => Format::TfRecord,
            "GZIP" => Format::Gzip,
            "ZLIB" => Format::Zlib,
            other => panic!("compression {other}"),
        },
        records: file["records"].as_u64().expect(FIELDS),
        lengths: file["lengths"]
            .as_array()
            .expect(FIELDS)
            .iter()
            .map(|length| length.as_u64().expect(FIELDS))
            .collect(),
        sha256: file["sha256"].as_str().expect(FIELDS).to_owned(),
        bytes: std::fs::read(folder().join(name)).expect("files of the manifest are in the tree"),
    };
    files.iter().map(entry).collect()
}

/// The content of a file, through a decompressor that gets `piece` bytes at a time and has room for `room`.
fn content(file: &Written, piece: usize, room: usize) -> Vec<u8> {
    if file.format == Format::TfRecord {
        return file.bytes.clone();
    }
    let (mut inflater, mut out, mut buffer) = (Inflater::new(file.format), Vec::new(), vec![0; room]);
    for mut rest in file.bytes.chunks(piece) {
        loop {
            let step = inflater.inflate(rest, &mut buffer).expect("TensorFlow wrote it");
            out.extend_from_slice(&buffer[..step.produced]);
            rest = &rest[step.consumed..];
            if rest.is_empty() && step.produced < room {
                break;
            }
        }
    }
    inflater.finish().expect("the stream is whole");
    out
}

fn scan(content: &[u8], piece: usize) -> ShardIndex {
    let (mut scanner, mut index) = (Scanner::new(), ShardIndex::new());
    content.chunks(piece).for_each(|bytes| scanner.feed(bytes, &mut index));
    scanner.finish(&mut index);
    index
}

fn digest<'a>(payloads: impl Iterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    payloads.for_each(|payload| hash.update(payload));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_file_is_recognised_by_content() {
    let files = written();
    assert!(files.len() >= 10, "the manifest lists all files");
    for file in files {
        assert_eq!(sniff(&file.bytes[..file.bytes.len().min(4096)], false), file.format, "{}", file.name);
    }
}

#[test]
fn every_record_reads_back_with_its_length_and_digest() {
    for file in written() {
        for (piece, room) in [(usize::MAX, 1 << 20), (1, 1), (13, 7), (4096, 65_536), (65_537, 4095)] {
            let content = content(&file, piece, room);
            let index = scan(&content, piece);
            let name = format!("{} in pieces of {piece}", file.name);
            assert!(index.bad().is_empty() && index.tail().is_none(), "{name}");
            assert_eq!(index.good(), file.records, "{name}");
            let lengths: Vec<u64> =
                index.frame_slice(0, file.lengths.len() as u64).map(|frame| frame.len).collect();
            assert_eq!(lengths, file.lengths, "{name}");
            let payload = |frame: feedline::record::Frame| {
                let start = usize::try_from(frame.payload_offset).unwrap();
                &content[start..start + usize::try_from(frame.len).unwrap()]
            };
            assert_eq!(digest(index.frame_slice(0, u64::MAX).map(payload)), file.sha256, "{name}");
        }
        let content = content(&file, usize::MAX, 1 << 16);
        assert_eq!(digest(frames(&content)), file.sha256, "{}", file.name);
    }
}

#[test]
fn compression_changes_nothing_of_the_content() {
    let files = written();
    let of = |name: &str| {
        let file = files.iter().find(|file| file.name == name).unwrap();
        content(file, 1000, 3000)
    };
    let plain = of("raw.tfrecord");
    assert!(plain == of("raw.tfrecord.gz") && plain == of("raw.tfrecord.zz"));
}

#[test]
fn a_stored_index_is_the_scanned_one() {
    for file in written() {
        let index = scan(&content(&file, 4096, 4096), 4096);
        assert_eq!(ShardIndex::from_bytes(&index.to_bytes()).unwrap(), index, "{}", file.name);
    }
}
