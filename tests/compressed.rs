//! gzip and zlib shards, whatever they are called, whatever lies behind them, and however little room there is.

mod common;

use common::{Daemon, LIMIT, Setup, batches, pattern, tagged};
use feedline::record::append_record;
use feedline_client::{Error, Remainder, StreamOptions};
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use std::io::Write;
use std::path::Path;

fn frames(shard: u64, records: u64, payload: impl Fn(u64, u64) -> Vec<u8>) -> Vec<u8> {
    let mut bytes = Vec::new();
    (0..records).for_each(|record| append_record(&mut bytes, &payload(shard, record)));
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn payload(shard: u64, record: u64) -> Vec<u8> {
    tagged(shard, record, 700)
}

fn expected(shards: u64, records: u64) -> Vec<Vec<u8>> {
    (0..shards).flat_map(|shard| (0..records).map(move |record| payload(shard, record))).collect()
}

fn options(dataset: &str) -> StreamOptions {
    StreamOptions::new(dataset).batch_size(20).remainder(Remainder::Partial)
}

/// Six shards of 400 records, compressed in every way, with names that say something else.
fn write_mixed(dir: &Path) {
    std::fs::create_dir_all(dir).expect("a folder");
    for shard in 0..6 {
        let plain = frames(shard, 400, payload);
        let (name, bytes) = match shard % 3 {
            0 => ("tfrecord", gzip(&plain)),
            1 => ("tfrecord.gz", plain),
            _ => ("tfrecord.zz", zlib(&plain)),
        };
        std::fs::write(dir.join(format!("part-{shard}.{name}")), bytes).expect("a file");
    }
}

#[test]
fn mixed_compression_under_misleading_names_cold_warm_and_restarted() {
    let mut daemon = Daemon::start(Setup::default());
    let dir = daemon.dir().join("d");
    write_mixed(&dir);
    let twice: Vec<Vec<u8>> = expected(6, 400).into_iter().chain(expected(6, 400)).collect();
    assert_eq!(daemon.records(&options(&pattern(&dir)).epochs(2)), twice);
    let before = daemon.wait_until_idle().store.unwrap_or_default().bytes;
    daemon.kill_and_restart();
    assert_eq!(daemon.records(&options(&pattern(&dir))), expected(6, 400));
    let after = daemon.wait_until_idle().store.unwrap_or_default().bytes;
    assert!(before > 0 && after == 0, "{before} then {after}");
}

#[test]
fn a_cache_too_small_for_any_shard_streams_through_for_two_ranks() {
    let setup = Setup::default().with("cache.bytes", "64 KiB").with("pool.bytes", "1 MiB");
    let setup = setup.with("prefetch.inflight_bytes", "512 KiB").with("prefetch.window_bytes", "128 KiB");
    let daemon = Daemon::start(setup);
    let dir = daemon.dir().join("d");
    write_mixed(&dir);
    let ranks: Vec<_> = (0..2)
        .map(|rank| daemon.open(&options(&pattern(&dir)).rank(rank, 2).epochs(2)))
        .map(|stream| {
            std::thread::spawn(move || {
                let mut records = Vec::new();
                for batch in batches(stream) {
                    records.extend(batch.expect("a batch").iter().map(<[u8]>::to_vec));
                }
                records
            })
        })
        .collect();
    let mut records: Vec<Vec<u8>> = ranks.into_iter().flat_map(|rank| rank.join().expect("a rank")).collect();
    let mut wanted: Vec<Vec<u8>> = expected(6, 400).into_iter().chain(expected(6, 400)).collect();
    records.sort();
    wanted.sort();
    assert!(records == wanted, "{} of {}", records.len(), wanted.len());
    daemon.wait_until_idle();
}

#[test]
fn a_ratio_of_a_hundred_and_what_the_cache_charges_for_it() {
    let daemon = Daemon::start(Setup::default());
    let path = daemon.dir().join("zeros.tfrecord");
    std::fs::write(&path, gzip(&frames(0, 1000, |_, _| vec![0; 5000]))).expect("a file");
    let records = daemon.records(&options(&path.display().to_string()));
    assert!(records.len() == 1000 && records.iter().all(|record| *record == vec![0; 5000]));
    let cache = daemon.wait_until_idle().cache.unwrap_or_default();
    assert!(cache.shards == 1 && cache.used_bytes > 5_000_000, "{cache:?}");
}

#[test]
fn what_lies_behind_the_stream() {
    let daemon = Daemon::start(Setup::default());
    let plain = frames(0, 30, payload);
    let path = daemon.dir().join("padded.tfrecord");
    let mut bytes = gzip(&plain);
    bytes.extend([0; 512]);
    std::fs::write(&path, &bytes).expect("a file");
    assert_eq!(daemon.records(&options(&path.display().to_string())), expected(1, 30));

    let path = daemon.dir().join("littered.tfrecord");
    bytes.extend(b"0123456789");
    std::fs::write(&path, &bytes).expect("a file");
    assert_eq!(daemon.records(&options(&path.display().to_string())), expected(1, 30));
    let offset = format!("offset={}", bytes.len() - 10);
    assert!(daemon.log().contains(&offset), "the rest is reported with its offset");

    let path = daemon.dir().join("members.tfrecord");
    let (first, second) = plain.split_at(1000);
    std::fs::write(&path, [gzip(first), gzip(second)].concat()).expect("a file");
    assert_eq!(daemon.records(&options(&path.display().to_string())), expected(1, 30));

    for (name, damage) in [("cut", 40), ("torn", 0)] {
        let path = daemon.dir().join(format!("{name}.tfrecord"));
        let mut bytes = gzip(&frames(0, 3000, payload));
        bytes.truncate(bytes.len() - damage);
        if damage == 0 {
            let middle = bytes.len() / 2;
            bytes[middle..middle + 50].fill(0xff);
        }
        std::fs::write(&path, &bytes).expect("a file");
        let mut stream = daemon.open(&options(&path.display().to_string()));
        let error = loop {
            match stream.next_batch_within(LIMIT) {
                Ok(Some(_)) => {}
                Ok(None) => panic!("{name}: a clean end"),
                Err(error) => break error,
            }
        };
        let Error::Daemon(error) = error else { panic!("{name}: {error}") };
        assert!(error.key.is_some_and(|key| key.ends_with(&format!("{name}.tfrecord"))), "{}", error.message);
        assert!(error.message.contains("byte"), "{}", error.message);
    }
    daemon.wait_until_idle();
}
