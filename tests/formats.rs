//! Risk: a shard that is empty, oddly compressed or no TFRecord file at all crashes, hangs or is read wrongly.

mod common;

use common::bucket::{BUCKET, Bucket, assert_same, gzip, read_to_end, shard, url, zlib};
use common::{Daemon, Setup, tagged};
use feedline_client::{DaemonError, Epochs, Error, Remainder, StreamOptions};
use feedline_proto::v1::ErrorCode;
use std::time::{Duration, Instant};

fn stream(pattern: &str) -> StreamOptions {
    StreamOptions::new(url(pattern)).batch_size(7).remainder(Remainder::Partial)
}

fn records(seed: u64, count: u64, length: usize) -> Vec<Vec<u8>> {
    (0..count).map(|r| tagged(seed, r, length)).collect()
}

fn failure(daemon: &Daemon, options: &StreamOptions) -> DaemonError {
    let error = match daemon.try_open(options) {
        Ok(stream) => read_to_end(stream).1.expect("there is nothing to read"),
        Err(Error::Daemon(error)) => error,
        Err(other) => panic!("{other}"),
    };
    daemon.wait_until_idle();
    error
}

#[test]
fn another_format_is_named_with_what_to_do() {
    let bucket = Bucket::new();
    let daemon = Daemon::start(bucket.setup());
    let mut tar = vec![0; 1_024];
    tar[..6].copy_from_slice(b"x.json");
    tar[257..263].copy_from_slice(b"ustar\0");
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n";
    let files: &[(&str, &[u8], &str)] = &[
        ("parquet", b"PAR1\x15\x04\x15\x08\x15\x0cPAR1", "Parquet"),
        ("tar", &tar, "tar archive"),
        ("json", b"{\"label\": 1, \"image\": \"aGVsbG8=\"}\n{\"label\": 2}\n", "JSON"),
        ("text", b"this is the list of the files that somebody uploaded instead of them\n", "text"),
        ("lfs", pointer, "git lfs pull"),
        ("png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01", "PNG"),
        ("zip", b"PK\x03\x04\x14\0\0\0\x08\0", "zip archive"),
    ];
    let good = records(0, 9, 100);
    for (name, bytes, said) in files {
        bucket.put(&format!("{name}-0.tfrecord"), shard(&good));
        bucket.put(&format!("{name}-1.tfrecord"), bytes.to_vec());
        let (found, error) = read_to_end(daemon.open(&stream(&format!("{name}*")).batch_size(3)));
        assert_same(&found, &good);
        let error = error.expect("that is no shard");
        assert_eq!(error.code, ErrorCode::CorruptData, "{error}");
        let key = url(&format!("{name}-1.tfrecord"));
        assert_eq!(error.key.as_deref(), Some(key.as_str()));
        let text = error.to_string();
        assert!(text.contains(&key) && text.contains(said), "{name}: {text}");
        assert!(text.contains("correct the pattern, or convert the data") || *name == "lfs", "{text}");
        daemon.wait_until_idle();
    }
}

#[test]
fn foreign_data_inside_a_compressed_shard_is_named_as_well() {
    let bucket = Bucket::new();
    let daemon = Daemon::start(bucket.setup());
    let mut tar = vec![0; 1_024];
    tar[..6].copy_from_slice(b"x.json");
    tar[257..263].copy_from_slice(b"ustar\0");
    for (name, bytes, said) in
        [("tar.gz", tar, "tar archive"), ("json.gz", b"{\"label\": 1}\n".repeat(99), "JSON")]
    {
        bucket.put(name, gzip(&bytes, 6));
        let error = failure(&daemon, &stream(name));
        assert_eq!((error.code, error.key), (ErrorCode::CorruptData, Some(url(name))));
        assert!(error.message.contains(said), "{}", error.message);
    }
}

#[test]
fn compression_is_found_by_content_whatever_the_name_or_the_header_says() {
    let bucket = Bucket::new();
    let daemon = Daemon::start(bucket.setup());
    let parts: Vec<_> = (0..6).map(|s| records(s, 40, 3_000)).collect();
    let plain: Vec<_> = parts.iter().map(|part| shard(part)).collect();
    bucket.put("mix-0.tfrecord.gz", plain[0].clone());
    bucket.put("mix-1.tfrecord", gzip(&plain[1], 9));
    bucket.put("mix-2.txt", zlib(&plain[2]));
    bucket.put("mix-3.zz", [gzip(&plain[3][..7_001], 1), gzip(&plain[3][7_001..], 9)].concat());
    // Nobody on the way may take that header as an order: the object's bytes are what was listed.
    bucket.stub.put_encoded(BUCKET, "mix-4", gzip(&plain[4], 6), "gzip");
    bucket.stub.put_encoded(BUCKET, "mix-5", plain[5].clone(), "gzip");
    let expected = parts.concat();
    assert_same(&daemon.records(&stream("mix*")), &expected);
    daemon.wait_until_idle();
    let before = bucket.gets();
    assert_same(&daemon.records(&stream("mix*").epochs(2)), &[&expected[..], &expected[..]].concat());
    assert_eq!(bucket.gets(), before, "all six are cached");
    daemon.wait_until_idle();
}

#[test]
fn a_compressed_shard_that_ends_early_gives_its_whole_batches_and_an_error_with_the_offset() {
    let bucket = Bucket::new();
    let daemon = Daemon::start(bucket.setup());
    let all = records(0, 200, 3_000);
    let mut bytes = gzip(&shard(&all), 1);
    bytes.truncate(bytes.len() / 2);
    let length = bytes.len();
    bucket.put("cut.gz", bytes);
    let (found, error) = read_to_end(daemon.open(&stream("cut.gz")));
    assert_same(&found, &all[..found.len()]);
    assert!(found.len() > 30, "{} records", found.len());
    let error = error.expect("half of it is missing");
    assert_eq!((error.code, error.key), (ErrorCode::CorruptData, Some(url("cut.gz"))));
    assert!(error.message.contains(&format!("ends at byte {length}")), "{}", error.message);
    let status = daemon.wait_until_idle();
    assert_eq!(status.store.unwrap().corrupt_transfers, 0, "it was the same both times");
    assert_eq!(status.cache.unwrap().shards, 0, "half a shard is not kept");
}

#[test]
fn corrupt_records_inside_a_compressed_shard_follow_the_policy() {
    let bucket = Bucket::new();
    let daemon = Daemon::start(bucket.setup());
    let all = records(0, 200, 3_000);
    let mut bytes = shard(&all);
    // In blocks of their own, one over a border of 64 KiB.
    for record in [5, 21, 150] {
        let before: usize = all[..record].iter().map(|payload| payload.len() + 16).sum();
        bytes[before + 12] ^= 1;
    }
    bucket.put("bad.gz", gzip(&bytes, 1));
    let (found, error) = read_to_end(daemon.open(&stream("bad.gz")));
    assert_same(&found, &all[..5]);
    assert_eq!(error.expect("the default fails").record, Some(5));
    let mut good = all.clone();
    [150, 21, 5].into_iter().for_each(|record| drop(good.remove(record)));
    assert_same(&daemon.records(&stream("bad.gz").skip_corrupt(3)), &good);
    let status = daemon.wait_until_idle();
    assert_eq!(status.store.unwrap().corrupt_transfers, 0, "the transfers were fine");
    let before = bucket.gets();
    assert_same(&daemon.records(&stream("bad.gz").skip_corrupt(3)), &good);
    assert_eq!(bucket.gets(), before, "known and cached");
    daemon.wait_until_idle();
}

#[test]
fn empty_shards_among_others_count_as_done() {
    let bucket = Bucket::new();
    let daemon = Daemon::start(bucket.setup());
    let mut expected = Vec::new();
    for s in 0..16 {
        let empty = s % 3 == 1;
        let part = if empty { Vec::new() } else { records(s, 11, 200) };
        // Empty as an object, and empty behind its compression.
        let bytes = if s == 7 { gzip(b"", 6) } else { shard(&part) };
        bucket.put(&format!("some-{s:02}"), bytes);
        expected.extend(part);
    }
    let streams: Vec<_> =
        (0..4).map(|rank| daemon.open(&stream("some*").rank(rank, 4).batch_size(4))).collect();
    let mut found: Vec<_> = streams.into_iter().flat_map(|stream| read_to_end(stream).0).collect();
    found.sort();
    expected.sort();
    assert_same(&found, &expected);
    daemon.wait_until_idle();
    let warnings = daemon.log().matches("empty shard").count();
    assert_eq!(warnings, 4, "once for each empty object: {}", daemon.log());
}

#[test]
fn a_dataset_without_records_is_an_error_within_seconds() {
    let bucket = Bucket::new();
    let daemon = Daemon::start(bucket.setup());
    for s in 0..8 {
        bucket.put(&format!("none-{s}"), Vec::new());
        bucket.put(&format!("zip-none-{s}"), gzip(b"", 6));
    }
    for pattern in ["none*", "zip-none*"] {
        let start = Instant::now();
        let error = failure(&daemon, &stream(pattern).epochs(Epochs::Forever));
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        assert!(error.message.contains("no records in 8 "), "{}", error.message);
    }
}

#[test]
fn shards_of_one_record_and_records_of_no_bytes_are_ordinary() {
    let bucket = Bucket::new();
    let daemon = Daemon::start(bucket.setup());
    let expected = bucket.put_shards("one", &[1; 8], |s, r| tagged(s, r, 100));
    let streams: Vec<_> =
        (0..2).map(|rank| daemon.open(&stream("one*").rank(rank, 2).batch_size(2).epochs(3))).collect();
    let mut found: Vec<_> = streams.into_iter().flat_map(|stream| read_to_end(stream).0).collect();
    let mut expected = [&expected[..], &expected[..], &expected[..]].concat();
    found.sort();
    expected.sort();
    assert_same(&found, &expected);
    // Frames of 16 bytes: borders of blocks fall between and within them; a batch may have no bytes at all.
    let nothing: Vec<Vec<u8>> = vec![Vec::new(); 5_000];
    let mixed: Vec<Vec<u8>> = (0..5_000).map(|r| vec![7; if r % 5 == 4 { r % 40 } else { 0 }]).collect();
    for (key, expected) in [("nothing", nothing), ("mixed", mixed)] {
        bucket.put(key, shard(&expected));
        bucket.put(&format!("{key}.gz"), gzip(&shard(&expected), 6));
        assert_same(&daemon.records(&stream(key)), &expected);
        assert_same(&daemon.records(&stream(&format!("{key}.gz"))), &expected);
    }
    daemon.wait_until_idle();
}

#[test]
fn a_thousand_records_of_zeros_are_charged_as_what_they_take_on_disk() {
    let bucket = Bucket::new();
    let daemon = Daemon::start(bucket.setup());
    let zeros = vec![vec![0; 10_000]; 1_000];
    let bytes = gzip(&shard(&zeros), 6);
    assert!(bytes.len() * 80 < 10_000_000, "{} bytes", bytes.len());
    bucket.put("zeros.gz", bytes);
    for _ in 0..2 {
        assert_same(&daemon.records(&stream("zeros.gz")), &zeros);
        let cache = daemon.wait_until_idle().cache.unwrap();
        assert!((10_016_000..10_400_000).contains(&cache.used_bytes), "{} bytes", cache.used_bytes);
    }
}

#[test]
fn compressed_shards_that_no_cache_can_hold_are_streamed_to_two_ranks_and_to_two_jobs() {
    let bucket = Bucket::new();
    let setup = bucket.setup().with("cache.bytes", "1 MiB").with("pool.bytes", "2 MiB");
    let setup = setup.with("prefetch.inflight_bytes", "1 MiB").with("prefetch.window_bytes", "256 KiB");
    let daemon = Daemon::start(setup);
    let mut expected = Vec::new();
    for s in 0..3 {
        let part = records(s, 500, 5_000);
        bucket.put(&format!("big-{s}.gz"), gzip(&shard(&part), 1));
        expected.extend(part);
    }
    let ranks = (0..2).map(|rank| stream("big*").rank(rank, 2).batch_size(8));
    // Two ranks in step, and a job of its own that starts when they are under way.
    let readers: Vec<_> = ranks
        .chain([stream("big*")])
        .map(|options| daemon.open(&options))
        .map(|stream| std::thread::spawn(move || read_to_end(stream)))
        .collect();
    let mut found: Vec<_> = readers.into_iter().map(|reader| reader.join().expect("it ends")).collect();
    let (job, error) = found.pop().expect("three readers");
    assert_eq!(error, None);
    assert_same(&job, &expected);
    assert!(found.iter().all(|(_, error)| error.is_none()), "{:?}", found[0].1);
    let mut both: Vec<_> = found.into_iter().flat_map(|(records, _)| records).collect();
    both.sort();
    expected.sort();
    assert_same(&both, &expected);
    let cache = daemon.wait_until_idle().cache.unwrap();
    assert!(cache.bypassed > 0 && cache.used_bytes <= 1 << 20);
}

#[test]
fn pipes_devices_and_directories_are_no_shards() {
    let daemon = Daemon::start(Setup::default());
    let fifo = daemon.dir().join("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
    let fifo = fifo.display().to_string();
    let dir = daemon.dir().display().to_string();
    for (url, said) in
        [(fifo.as_str(), "no regular file"), ("/dev/zero", "no regular file"), (&dir, "directory")]
    {
        let error = failure(&daemon, &StreamOptions::new(url));
        assert!(error.message.contains(url) && error.message.contains(said), "{error}");
    }
    daemon.wait_until_idle();
}
