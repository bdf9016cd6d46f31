//! Wrong bytes: at the source, on the wire, in the cache. None is delivered, each is named or counted.

mod common;

use common::{Daemon, Setup, batches, pattern, tagged, write_shards};
use feedline_client::{Error, Remainder, StreamOptions};
use feedline_s3_stub::{Rule, Stub, StubConfig};
use std::path::{Path, PathBuf};

const RECORDS: u64 = 300;

fn payload(shard: u64, record: u64) -> Vec<u8> {
    let mut payload = tagged(shard, record, 1000);
    payload.truncate(1000);
    payload
}

fn expected(shards: u64) -> Vec<Vec<u8>> {
    (0..shards).flat_map(|shard| (0..RECORDS).map(move |record| payload(shard, record))).collect()
}

fn options(dataset: &str) -> StreamOptions {
    StreamOptions::new(dataset).batch_size(16).remainder(Remainder::Partial)
}

/// Offset of the first payload byte of record `record`, all payloads being equally long.
fn payload_offset(record: u64) -> usize {
    let length = payload(0, 0).len();
    usize::try_from(record).expect("small") * (length + 16) + 12
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).expect("a file");
    bytes[at] ^= 0x40;
    std::fs::write(path, bytes).expect("a file");
}

/// Records up to the error, and the error.
fn until_error(daemon: &Daemon, options: &StreamOptions) -> (Vec<Vec<u8>>, Option<Error>) {
    let mut records = Vec::new();
    for batch in batches(daemon.open(options)) {
        match batch {
            Ok(batch) => records.extend(batch.iter().map(<[u8]>::to_vec)),
            Err(error) => return (records, Some(error)),
        }
    }
    (records, None)
}

fn cached_files(daemon: &Daemon, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![daemon.cache_dir()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn a_bad_record_is_named_and_what_lies_before_it_is_delivered() {
    let daemon = Daemon::start(Setup::default());
    let paths = write_shards(&daemon.dir().join("d"), &[RECORDS; 10], payload);
    flip(&paths[6], payload_offset(17) + 5);
    let dataset = pattern(&daemon.dir().join("d"));
    let (records, error) = until_error(&daemon, &options(&dataset));
    let bad = usize::try_from(6 * RECORDS + 17).expect("small");
    assert_eq!(records, expected(10)[..bad]);
    let Some(Error::Daemon(error)) = error else { panic!("{error:?}") };
    let key = error.key.clone().expect("a key");
    assert!(key.ends_with("part-00006.tfrecord"), "{key}");
    assert_eq!((error.record, error.offset), (Some(17), Some(payload_offset(17) as u64 - 12)));
    assert!(error.message.contains("data CRC") && error.hint.is_some(), "{error}");

    // Passing over it: all others, in order, and the count says so.
    let (records, none) = until_error(&daemon, &options(&dataset).skip_corrupt(3));
    let mut wanted = expected(10);
    wanted.remove(bad);
    assert!(none.is_none() && records == wanted);
    daemon.wait_until_idle();
}

#[test]
fn the_number_of_records_passed_over_is_limited_per_epoch() {
    let daemon = Daemon::start(Setup::default());
    let paths = write_shards(&daemon.dir().join("d"), &[RECORDS; 2], payload);
    for record in [3, 100, 200] {
        flip(&paths[0], payload_offset(record));
    }
    flip(&paths[1], payload_offset(9));
    let dataset = pattern(&daemon.dir().join("d"));
    let (records, error) = until_error(&daemon, &options(&dataset).skip_corrupt(3));
    let Some(Error::Daemon(error)) = error else { panic!("{error:?}") };
    assert_eq!((records.len() as u64, error.record), (RECORDS - 3 + 9, Some(9)));
    assert!(error.message.contains("limit of 3"), "{error}");
    let (records, error) = until_error(&daemon, &options(&dataset).skip_corrupt(4).epochs(3));
    assert_eq!((records.len() as u64, error.is_none()), (3 * (2 * RECORDS - 4), true));
    assert_eq!(until_error(&daemon, &options(&dataset).skip_corrupt(0)).0.len(), 3);
}

#[test]
fn a_cut_file_gives_its_whole_records_and_then_says_where_it_breaks_off() {
    let daemon = Daemon::start(Setup::default());
    let frame = payload(0, 0).len() + 16;
    for cut in [1, 5, 9 + 1000, frame - 3] {
        let dir = daemon.dir().join(format!("cut-{cut}"));
        let path = write_shards(&dir, &[5], payload).remove(0);
        let bytes = std::fs::read(&path).expect("a file");
        std::fs::write(&path, &bytes[..bytes.len() - cut]).expect("a file");
        let (records, error) = until_error(&daemon, &options(&pattern(&dir)));
        let Some(Error::Daemon(error)) = error else { panic!("cut {cut}: {error:?}") };
        assert_eq!(
            (records.len(), error.record, error.offset),
            (4, Some(4), Some(4 * frame as u64)),
            "{error}"
        );
        let (records, error) = until_error(&daemon, &options(&pattern(&dir)).skip_corrupt(1));
        assert!(records.len() == 4 && error.is_none(), "cut {cut}: {error:?}");
        assert!(daemon.log().contains("broken_end=true"), "the tail is reported when it is passed over");
    }
}

#[test]
fn a_huge_length_with_a_good_checksum_is_refused_without_memory_for_it() {
    let daemon = Daemon::start(Setup::default());
    let path = daemon.dir().join("huge.tfrecord");
    let mut bytes = vec![0, 0, 0, 0, 0, 0, 0, 0x80, 0x95, 0x08, 0x67, 0xb6];
    bytes.extend([7; 300]);
    std::fs::write(&path, bytes).expect("a file");
    let before = daemon.status().resident_bytes;
    let (records, error) = until_error(&daemon, &options(&path.display().to_string()));
    let Some(Error::Daemon(error)) = error else { panic!("{error:?}") };
    assert!(records.is_empty() && error.offset == Some(0) && error.key.is_some(), "{error}");
    assert!(daemon.status().resident_bytes < before + (16 << 20));
}

#[test]
fn damage_in_the_cache_is_found_before_delivery_and_fetched_again() {
    // A pool that cannot hold the data, so that every epoch comes from disk.
    let setup = Setup::default().with("pool.bytes", "1 MiB").with("prefetch.inflight_bytes", "256 KiB");
    let mut daemon = Daemon::start(setup.with("prefetch.window_bytes", "128 KiB"));
    write_shards(&daemon.dir().join("d"), &[RECORDS; 8], payload);
    let dataset = pattern(&daemon.dir().join("d"));
    assert_eq!(daemon.records(&options(&dataset)), expected(8));
    daemon.wait_until_idle();

    // While the daemon runs, in a data file.
    flip(&cached_files(&daemon, "data")[3], 70_000);
    assert_eq!(daemon.records(&options(&dataset)), expected(8), "after a flipped data byte");
    let cache = daemon.wait_until_idle().cache.unwrap_or_default();
    assert_eq!((cache.corrupt, cache.shards), (1, 8), "found, dropped, cached again");
    assert_eq!(daemon.records(&options(&dataset)), expected(8));
    assert_eq!(
        daemon.wait_until_idle().cache.unwrap_or_default().corrupt,
        1,
        "the bad copy is not used again"
    );

    // While it does not, in every kind of file.
    for extension in ["data", "meta", "idx"] {
        daemon.terminate();
        let files = cached_files(&daemon, extension);
        assert_eq!(files.len(), 8, "{extension}");
        flip(&files[0], 60);
        daemon.kill_and_restart();
        assert_eq!(
            daemon.records(&options(&dataset)),
            expected(8),
            "after a flipped byte in a {extension} file"
        );
        assert_eq!(daemon.wait_until_idle().cache.unwrap_or_default().shards, 8, "{extension}");
    }
}

fn served(shards: u64) -> (Stub, Daemon) {
    let stub = Stub::start(StubConfig::default().bucket("bkt").key("key", "secret"));
    for shard in 0..shards {
        let mut bytes = Vec::new();
        (0..RECORDS).for_each(|record| feedline::record::append_record(&mut bytes, &payload(shard, record)));
        stub.put("bkt", &format!("d/part-{shard}.tfrecord"), bytes);
    }
    let daemon = Daemon::start(Setup::default().s3(&stub.url(), "key", "secret"));
    (stub, daemon)
}

const DATASET: &str = "s3://bkt/d/*.tfrecord";

#[test]
fn a_byte_flipped_on_the_wire_is_fetched_again() {
    let (stub, mut daemon) = served(3);
    // The first, a middle and a late response; the second hits a record that begins in the block before.
    for rule in ["get:*:nth=1:flip=40", "get:*:nth=4:flip", "get:*:nth=9:flip"] {
        stub.set_faults(rule.parse::<Rule>().expect("a rule"));
        assert_eq!(daemon.records(&options(DATASET)), expected(3), "{rule}");
        let status = daemon.wait_until_idle();
        let hit = stub.log().into_iter().rfind(|entry| !entry.faults.is_empty());
        let corrected = status.store.unwrap_or_default().corrupt_transfers;
        assert!(corrected >= 1, "{rule} hit {hit:?}\n{}", daemon.log());
        daemon.terminate();
        std::fs::remove_dir_all(daemon.cache_dir()).expect("a cache");
        daemon.kill_and_restart();
    }
    // What was cached after a repair is whole.
    stub.set_faults("get:*:nth=2:flip".parse::<Rule>().expect("a rule"));
    assert_eq!(daemon.records(&options(DATASET)), expected(3));
    daemon.wait_until_idle();
    daemon.kill_and_restart();
    stub.set_faults("get:*:status=500".parse::<Rule>().expect("a rule"));
    assert_eq!(daemon.records(&options(DATASET)), expected(3), "from the cache alone");
}

#[test]
fn a_source_that_is_always_wrong_is_an_error_after_bounded_tries() {
    let (stub, daemon) = served(1);
    stub.set_faults("get:*part-0*:flip=2000".parse::<Rule>().expect("a rule"));
    let (_, error) = until_error(&daemon, &options(DATASET));
    let Some(Error::Daemon(error)) = error else { panic!("{error:?}") };
    assert!(error.message.contains("CRC"), "{error}");
    assert!(stub.counts().gets < 40, "{} requests", stub.counts().gets);
    daemon.wait_until_idle();
}

#[test]
fn an_overwritten_object_is_new_content_and_never_mixed() {
    let (stub, daemon) = served(2);
    assert_eq!(daemon.records(&options(DATASET)), expected(2));
    let mut bytes = Vec::new();
    (0..RECORDS).for_each(|record| feedline::record::append_record(&mut bytes, &payload(40, record)));
    stub.put("bkt", "d/part-0.tfrecord", bytes.clone());
    let mut wanted: Vec<Vec<u8>> = (0..RECORDS).map(|record| payload(40, record)).collect();
    wanted.extend((0..RECORDS).map(|record| payload(1, record)));
    assert_eq!(daemon.records(&options(DATASET)), wanted, "a new stream sees the new object");

    // In mid-download: an error that says so.
    stub.put("bkt", "e/part-0.tfrecord", bytes);
    stub.set_faults("get:e/*:nth=2:change".parse::<Rule>().expect("a rule"));
    let (records, error) = until_error(&daemon, &options("s3://bkt/e/*.tfrecord"));
    assert!(records.len() < 300, "{}", records.len());
    let Some(Error::Daemon(error)) = error else { panic!("{error:?}") };
    assert!(error.message.contains("changed"), "{error}");
    daemon.wait_until_idle();
}
