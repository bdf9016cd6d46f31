use super::*;
use crate::dataset::{Compression, Profile};
use std::io::Read as _;

fn made(profile: Profile, compression: Compression, dir: &std::path::Path) -> (Manifest, Summary) {
    let manifest = Manifest::new(profile, 3, 40, None, compression, 11).unwrap();
    let summary = make(dir.to_str().unwrap(), &manifest, 2, &ProgressBar::hidden()).unwrap();
    (manifest, summary)
}

/// A reader that shares no code with the writer: lengths and bitwise CRC-32C straight from the format's description.
fn records(content: &[u8]) -> Vec<&[u8]> {
    fn masked(bytes: &[u8]) -> u32 {
        let mut crc = u32::MAX;
        for byte in bytes {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            }
        }
        (!crc).rotate_right(15).wrapping_add(0xa282_ead8)
    }
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    let (mut found, mut rest) = (Vec::new(), content);
    while !rest.is_empty() {
        assert_eq!(masked(&rest[..8]), number(&rest[8..12]));
        let len = usize::try_from(u64::from_le_bytes(rest[..8].try_into().unwrap())).unwrap();
        let payload = &rest[12..12 + len];
        assert_eq!(masked(payload), number(&rest[12 + len..16 + len]));
        found.push(payload);
        rest = &rest[16 + len..];
    }
    found
}

#[test]
fn an_independent_reader_finds_every_record() {
    for compression in [Compression::None, Compression::Gzip, Compression::Zlib] {
        let dir = tempfile::tempdir().unwrap();
        let (manifest, summary) = made(Profile::Small, compression, dir.path());
        let (mut stored, mut seen) = (0, 0);
        for shard in 0..3 {
            let object = std::fs::read(dir.path().join(manifest.shard_name(shard))).unwrap();
            stored += object.len() as u64;
            let mut content = Vec::new();
            match compression {
                Compression::None => content = object,
                Compression::Gzip => {
                    flate2::read::GzDecoder::new(&object[..]).read_to_end(&mut content).map(|_| ()).unwrap();
                }
                Compression::Zlib => {
                    flate2::read::ZlibDecoder::new(&object[..])
                        .read_to_end(&mut content)
                        .map(|_| ())
                        .unwrap();
                }
            }
            for record in records(&content) {
                let id = manifest.check_record(record, &mut Vec::new(), &mut Vec::new()).unwrap();
                assert_eq!(id, seen);
                seen += 1;
            }
        }
        assert_eq!(seen, 120);
        assert_eq!(summary.stored_bytes, stored);
    }
}

#[test]
fn making_twice_gives_the_same_bytes_and_larger_than_a_part_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = Manifest::new(Profile::Images, 1, 200, None, Compression::None, 3).unwrap();
    let url = format!("file://{}/deep/folder", dir.path().display());
    let path = dir.path().join("deep/folder").join(manifest.shard_name(0));
    make(&url, &manifest, 4, &ProgressBar::hidden()).unwrap();
    let first = std::fs::read(&path).unwrap();
    assert!(first.len() > 2 * PART_BYTES, "{} bytes", first.len());
    make(&url, &manifest, 1, &ProgressBar::hidden()).unwrap();
    assert!(std::fs::read(&path).unwrap() == first);
    assert_eq!(
        Manifest::from_json(&std::fs::read(path.with_file_name(MANIFEST_NAME)).unwrap()).unwrap(),
        manifest
    );
}

#[test]
fn shards_of_another_dataset_are_not_mixed_in() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("shard-00007-of-00008.tfrecord"), b"").unwrap();
    let manifest = Manifest::new(Profile::Tiny, 1, 1, None, Compression::None, 0).unwrap();
    let error = make(dir.path().to_str().unwrap(), &manifest, 1, &ProgressBar::hidden()).unwrap_err();
    assert!(error.to_string().contains("shard-00007-of-00008.tfrecord"), "{error}");
    assert!(!dir.path().join(MANIFEST_NAME).exists());
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let manifest = Manifest::new(Profile::Tiny, 1, 1, None, Compression::None, 0).unwrap();
    let error = make("/proc/feedline-none", &manifest, 1, &ProgressBar::hidden()).unwrap_err();
    assert!(format!("{error:#}").contains("/proc/feedline-none"), "{error:#}");
}

#[test]
fn a_dataset_below_the_folder_is_in_nobodys_way() {
    let dir = tempfile::tempdir().unwrap();
    let (_, inner) = made(Profile::Tiny, Compression::None, &dir.path().join("inner"));
    let manifest = Manifest::new(Profile::Tiny, 1, 1, None, Compression::None, 0).unwrap();
    let outer = make(dir.path().to_str().unwrap(), &manifest, 1, &ProgressBar::hidden()).unwrap();
    assert_eq!((inner.records, outer.records), (120, 1));
}
