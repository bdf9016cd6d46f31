use proptest::prelude::*;

use super::*;

fn sample() -> ShardMeta {
    let identity = ObjectIdentity {
        url: "s3://bucket/train/00.tfrecord".into(),
        etag: Some("\"9b2c\"".into()),
        version: None,
        size: 100_000,
    };
    ShardMeta::new(identity, 100_000, 65536, vec![0x0102_0304, 0xa0b0_c0d0]).unwrap()
}

/// The layout byte for byte. If this test fails the layout has changed: raise `VERSION`, update `docs/disk-format.md`,
/// then this test.
#[test]
fn golden_bytes() {
    let mut expected = Vec::new();
    expected.extend_from_slice(b"FEEDMETA");
    expected.extend_from_slice(&[1, 0, 0, 0]); // version
    expected.extend_from_slice(&[120, 0, 0, 0]); // length of the file
    expected.extend_from_slice(&[0xa0, 0x86, 1, 0, 0, 0, 0, 0]); // object size
    expected.extend_from_slice(&[0xa0, 0x86, 1, 0, 0, 0, 0, 0]); // content bytes
    expected.extend_from_slice(&[0, 0, 1, 0]); // bytes per block
    expected.extend_from_slice(&[2, 0, 0, 0]); // blocks
    expected.extend_from_slice(&[29, 0, 0, 0]); // URL
    expected.extend_from_slice(&[6, 0, 0, 0]); // ETag
    expected.extend_from_slice(&[0xff, 0xff, 0xff, 0xff]); // version id: none
    expected.extend_from_slice(&[0, 0, 0, 0]);
    expected.extend_from_slice(&[
        0x03, 0x62, 0xaa, 0x5a, 0xf3, 0x64, 0x43, 0x63, 0xfa, 0x73, 0x9d, 0xcf, 0xd2, 0x44, 0xd6, 0x14,
    ]);
    expected.extend_from_slice(b"s3://bucket/train/00.tfrecord\"9b2c\"");
    expected.push(0); // up to a multiple of four
    expected.extend_from_slice(&[4, 3, 2, 1, 0xd0, 0xc0, 0xb0, 0xa0]);
    expected.extend_from_slice(&0x51f8dcf2_u32.to_le_bytes());
    assert_eq!(sample().to_bytes().unwrap(), expected);
    assert_eq!(ShardMeta::from_bytes(&expected), Ok(sample()));
}

#[test]
fn every_flipped_bit_and_every_cut_is_found() {
    let bytes = sample().to_bytes().unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(ShardMeta::from_bytes(&bad).is_err(), "bit {bit}");
    }
    for len in 0..bytes.len() {
        assert!(ShardMeta::from_bytes(&bytes[..len]).is_err(), "length {len}");
    }
    let longer = [&bytes[..], &[0; 4]].concat();
    assert_eq!(ShardMeta::from_bytes(&longer), Err(MetaError::Length));
}

#[test]
fn other_versions_and_other_names_are_refused() {
    let mut bytes = sample().to_bytes().unwrap();
    assert_eq!(ShardMeta::of_file(&ShardId([0; 16]), &bytes), Err(MetaError::Id));
    bytes[8] = 2;
    assert_eq!(ShardMeta::from_bytes(&bytes), Err(MetaError::Version(2)));
}

#[test]
fn numbers_must_fit_each_other() {
    let identity = sample().identity;
    for (len, block, crcs) in [(1, 65536, 0), (65537, 65536, 1), (0, 65536, 1), (1, 1000, 1), (1, 1 << 27, 1)]
    {
        let made = ShardMeta::new(identity.clone(), len, block, vec![0; crcs]);
        assert_eq!(made, Err(MetaError::Blocks), "{len} {block} {crcs}");
    }
    let empty = ShardMeta::new(identity, 0, 65536, Vec::new()).unwrap();
    assert_eq!(empty.block_span(0), None);
    assert_eq!(sample().block_span(1), Some((65536, 100_000 - 65536)));
    assert_eq!(sample().block_span(2), None);
    assert_eq!(sample().block_span(u64::MAX), None);
}

prop_compose! {
    fn metas()(
        url in ".{0,40}",
        etag in prop::option::of(".{0,10}"),
        version in prop::option::of(".{0,10}"),
        size: u64,
        block_crcs in prop::collection::vec(any::<u32>(), 0..20),
        short in 0u64..65536,
    ) -> ShardMeta {
        let content = (block_crcs.len() as u64 * 65536).saturating_sub(short);
        ShardMeta::new(ObjectIdentity { url, etag, version, size }, content, 65536, block_crcs).unwrap()
    }
}

proptest! {
    #[test]
    fn reads_back(meta in metas()) {
        prop_assert_eq!(ShardMeta::from_bytes(&meta.to_bytes().unwrap()), Ok(meta));
    }

    /// Hostile bytes with a right checksum get past it, and must still be refused or make sense.
    #[test]
    fn never_panics(
        meta in metas(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
        noise in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = ShardMeta::from_bytes(&noise);
        let mut bytes = meta.to_bytes().unwrap();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = ShardMeta::from_bytes(&bytes[..cut.index(bytes.len())]);
        let body = bytes.len() - 4;
        let crc = crc32c(&bytes[..body]);
        bytes[body..].copy_from_slice(&crc.to_le_bytes());
        if let Ok(read) = ShardMeta::from_bytes(&bytes) {
            prop_assert_eq!(read.to_bytes().unwrap(), bytes);
        }
    }
}
