//! The parts together, on shards as they come up in the field: told by content, inflated, scanned.

use super::*;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use std::io::Write;

const GOOD: usize = 1000;

/// Records of zeros, the content that compresses best.
fn zeros() -> Vec<u8> {
    let mut bytes = Vec::new();
    (0..GOOD).for_each(|_| append_record(&mut bytes, &[0; 1000]));
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// What a shard holds, and what is wrong with its compression. There is no name to go by.
fn read(shard: &[u8]) -> (Format, ShardIndex, Result<(), InflateError>) {
    let format = sniff(&shard[..shard.len().min(4096)], shard.len() <= 4096);
    let (mut scanner, mut index) = (Scanner::new(), ShardIndex::new());
    let mut outcome = Ok(());
    if matches!(format, Format::Gzip | Format::Zlib) {
        let (mut inflater, mut rest, mut room) = (Inflater::new(format), shard, [0; 4096]);
        outcome = loop {
            match inflater.inflate(rest, &mut room) {
                Ok(step) if step.consumed + step.produced == 0 => break inflater.finish(),
                Ok(step) => {
                    scanner.feed(&room[..step.produced], &mut index);
                    rest = &rest[step.consumed..];
                }
                Err(error) => break Err(error),
            }
        };
    } else {
        scanner.feed(shard, &mut index);
    }
    scanner.finish(&mut index);
    (format, index, outcome)
}

#[test]
fn plain_gzip_and_zlib_shards_hold_the_same_records_whatever_their_size_in_the_store() {
    let content = zeros();
    let (gzipped, zlibbed) = (gzip(&content), zlib(&content));
    assert!(gzipped.len() * 50 < content.len(), "the size in the store says nothing about the content");
    let (format, plain, outcome) = read(&content);
    assert_eq!((format, plain.good(), outcome), (Format::TfRecord, GOOD as u64, Ok(())));
    assert_eq!(plain.content_len(), content.len() as u64);
    assert_eq!(read(&gzipped), (Format::Gzip, plain.clone(), Ok(())));
    assert_eq!(read(&zlibbed), (Format::Zlib, plain, Ok(())));
}

#[test]
fn bytes_behind_a_compressed_shard_cost_no_record() {
    let whole = gzip(&zeros());
    let padded = [&whole[..], &[0; 512]].concat();
    let (_, index, outcome) = read(&padded);
    assert_eq!((index.good(), index.tail(), outcome), (GOOD as u64, None, Ok(())));
    let foreign = [&padded[..], &[0xa7; 10]].concat();
    let (_, index, outcome) = read(&foreign);
    assert_eq!((index.good(), index.tail()), (GOOD as u64, None));
    assert_eq!(outcome, Err(InflateError::Trailing { offset: padded.len() as u64, byte: 0xa7 }));
}

#[test]
fn a_compressed_shard_that_is_cut_gives_what_came_before_and_is_no_clean_end() {
    let mut content = Vec::new();
    for number in 0..GOOD as u64 {
        append_record(&mut content, &crc32c(&number.to_le_bytes()).to_le_bytes());
    }
    let whole = gzip(&content);
    let half = &whole[..whole.len() / 2];
    let (_, index, outcome) = read(half);
    assert_eq!(outcome, Err(InflateError::Cut { offset: half.len() as u64 }));
    assert!(index.good() > 100 && index.good() < GOOD as u64, "{} records", index.good());
    assert!(index.bad().is_empty());
}

#[test]
fn an_unclosed_writer_leaves_whole_records_and_a_named_tail() {
    let mut content = Vec::new();
    for payload in [&b"first"[..], b"second", b"last"] {
        append_record(&mut content, payload);
    }
    for (cut, within) in [(1, "payload of 4 bytes"), (5, "payload of 4 bytes"), (9, "header"), (13, "header")]
    {
        for shard in [content[..content.len() - cut].to_vec(), gzip(&content[..content.len() - cut])] {
            let (_, index, _) = read(&shard);
            assert_eq!(index.good(), 2, "cut by {cut}");
            let text = ShardIndex::tail_error(index.tail().unwrap(), "s3://b/k").to_string();
            assert_eq!(text, format!("record 2 at byte 43 of s3://b/k: the file ends within its {within}"));
        }
    }
}

#[test]
fn a_length_that_no_file_has_is_refused_by_name_and_without_memory() {
    let shard = [&[0, 0, 0, 0, 0, 0, 0, 0x80, 0x95, 0x08, 0x67, 0xb6][..], &[0; 100]].concat();
    let (format, index, _) = read(&shard);
    assert_eq!((format, index.frames()), (Format::TfRecord, 0));
    let text = ShardIndex::tail_error(index.tail().unwrap(), "s3://b/k").to_string();
    let expected = "the file ends within its payload of 9223372036854775808 bytes";
    assert_eq!(text, format!("record 0 at byte 0 of s3://b/k: {expected}"));
    assert!(index.heap_bytes() < 1024);
}

#[test]
fn an_empty_shard_is_whole() {
    let (format, index, outcome) = read(&[]);
    assert_eq!((format, index.frames(), index.tail(), outcome), (Format::Empty, 0, None, Ok(())));
    let (format, index, outcome) = read(&gzip(&[]));
    assert_eq!((format, index.frames(), index.tail(), outcome), (Format::Gzip, 0, None, Ok(())));
}
