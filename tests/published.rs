//! The record index: counted on request, published beside the data, used by other nodes, never believed when it is stale.

mod common;

use common::bucket::{BUCKET, Bucket, assert_same, gzip, shard, url};
use common::{Daemon, tagged};
use feedline_client::{Error, IndexProgress, Remainder, Shuffle, StreamOptions};
use std::process::Command;

fn payload(shard: u64, record: u64) -> Vec<u8> {
    tagged(shard, record, 1_000)
}

fn index(daemon: &Daemon, dataset: &str, publish: bool) -> Result<IndexProgress, Error> {
    let mut client = daemon.client();
    loop {
        let progress = client.index(&[url(dataset)], publish)?;
        if progress.done {
            return Ok(progress);
        }
    }
}

fn full(dataset: &str) -> StreamOptions {
    StreamOptions::new(url(dataset)).batch_size(9).shuffle(Shuffle::Full).remainder(Remainder::Partial)
}

/// A dataset of plain, compressed and empty shards; its records, sorted.
fn dataset(bucket: &Bucket) -> Vec<Vec<u8>> {
    let mut all = bucket.put_shards("d/a", &[40, 1, 77], payload);
    let records: Vec<_> = (0..50).map(|record| payload(9, record)).collect();
    bucket.put("d/b.gz", gzip(&shard(&records), 1));
    bucket.put("d/c", Vec::new());
    all.extend(records);
    all.sort();
    all
}

fn sorted(mut records: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    records.sort();
    records
}

#[test]
fn one_node_counts_and_another_knows() {
    let bucket = Bucket::new();
    let all = dataset(&bucket);
    let first = Daemon::start(bucket.setup());
    let done = index(&first, "d/*", true).expect("counted");
    assert_eq!((done.shards, done.counted_shards, done.records, done.bad_records), (5, 5, 168, 0));
    assert_eq!(done.published_url, url("d/_feedline.index"));
    assert_same(&sorted(first.records(&full("d/*"))), &all);
    first.wait_until_idle();
    // Published again it is the same, and costs no reading of shards.
    let stored = bucket.stub.get(BUCKET, "d/_feedline.index").expect("there");
    let before = bucket.gets();
    index(&first, "d/*", true).expect("known");
    assert_eq!(bucket.stub.get(BUCKET, "d/_feedline.index").expect("there"), stored);
    assert!(bucket.gets() - before <= 2, "the old table");
    drop(first);

    let second = Daemon::start(bucket.setup());
    let stream = second.open(&full("d/*"));
    assert_eq!((stream.records(), stream.batches(), stream.shards()), (Some(168), Some(19), 5));
    drop(stream);
    assert_same(&sorted(second.records(&full("d/*"))), &all);
    let status = second.wait_until_idle();
    assert_eq!(status.store.expect("told").corrupt_transfers, 0);
}

#[test]
fn stale_foreign_and_damaged_indexes_are_passed_over() {
    let bucket = Bucket::new();
    let mut all = dataset(&bucket);
    let first = Daemon::start(bucket.setup());
    index(&first, "d/*", true).expect("published");
    drop(first);
    // One shard has changed since, and one is new.
    let changed: Vec<_> = (0..33).map(|record| payload(100, record)).collect();
    bucket.put("d/a-00000.tfrecord", shard(&changed));
    let added: Vec<_> = (0..5).map(|record| payload(101, record)).collect();
    bucket.put("d/z", shard(&added));
    let gone: Vec<_> = (0..40).map(|record| payload(0, record)).collect();
    all.retain(|record| !gone.contains(record));
    all.extend(changed.into_iter().chain(added));
    all.sort();
    let second = Daemon::start(bucket.setup());
    let error = second.try_open(&full("d/*")).expect_err("two shards are unknown").to_string();
    assert!(error.contains("feedline dataset index"), "{error}");
    assert!(second.log().contains("used=3 stale=1"), "{}", second.log());
    index(&second, "d/*", false).expect("counted");
    assert_same(&sorted(second.records(&full("d/*"))), &all);
    second.wait_until_idle();
    drop(second);

    let stored = bucket.stub.get(BUCKET, "d/_feedline.index").expect("there").to_vec();
    for damage in [0, 30, stored.len() - 1] {
        let mut bytes = stored.clone();
        bytes[damage] ^= 1;
        bucket.put("d/_feedline.index", bytes);
        let daemon = Daemon::start(bucket.setup());
        let records = daemon.records(&full("d/*").shuffle(Shuffle::Sequential));
        assert_same(&sorted(records), &all);
        assert!(daemon.log().contains("published index"), "{}", daemon.log());
    }
    for foreign in [&b"text"[..], b"FLDSIX01 and more that is no table at all", &stored[..stored.len() / 2]] {
        bucket.put("d/_feedline.index", foreign.to_vec());
        let daemon = Daemon::start(bucket.setup());
        assert_same(&sorted(daemon.records(&full("d/*").shuffle(Shuffle::Blocks))), &all);
    }
    // Made for other blocks.
    bucket.put("d/_feedline.index", stored);
    let daemon = Daemon::start(bucket.setup().with("pool.block_bytes", "128 KiB"));
    assert_same(&sorted(daemon.records(&full("d/*").shuffle(Shuffle::Sequential))), &all);
    assert!(daemon.log().contains("another pool.block_bytes"), "{}", daemon.log());
}

#[test]
fn the_command_shows_what_it_did_and_what_is_wrong() {
    let bucket = Bucket::new();
    dataset(&bucket);
    let daemon = Daemon::start(bucket.setup());
    let command = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_feedline"));
        command.args(["dataset", "index"]).args(args).env("FEEDLINE_SOCKET", daemon.socket());
        let output = command.output().expect("it runs");
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), text)
    };
    let (code, text) = command(&[&url("d/*"), "--publish"]);
    assert!(code == Some(0) && text.contains("168 records in 5 shards, 0 corrupt"), "{text}");
    assert!(text.contains("published: s3://bkt/d/_feedline.index"), "{text}");
    let (code, text) = command(&[&url("d/*"), "--json"]);
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(code == Some(0) && document["records"] == 168, "{text}");
    let (code, text) = command(&[&url("none*")]);
    assert!(code == Some(1) && text.contains("none*"), "{text}");
    let (code, text) = command(&[&url("d/a*"), &url("d/b*"), "--publish"]);
    assert!(code == Some(1) && text.contains("one URL or pattern at a time"), "{text}");
    let mut bytes = bucket.stub.get(BUCKET, "d/a-00000.tfrecord").expect("there").to_vec();
    bytes[20] ^= 1;
    bucket.put("e/bad", bytes);
    let (code, text) = command(&[&url("e/*")]);
    assert!(code == Some(1) && text.contains("39 records in 1 shards, 1 corrupt"), "{text}");
    bucket.put("f/parquet", &b"PAR1 and more"[..]);
    let (code, text) = command(&[&url("f/*")]);
    assert!(code == Some(1) && text.contains("f/parquet") && text.contains("Parquet"), "{text}");
    daemon.wait_until_idle();
}
