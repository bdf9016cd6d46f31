//! Risk: bytes that went bad on the wire, on the disk or at the source reach a trainer, or are kept, or cannot be found.

mod common;

use common::bucket::{BUCKET, Bucket, assert_same, read_to_end, shard, url};
use common::{Daemon, LIMIT, Setup, batches, tagged};
use feedline_client::{DaemonError, Remainder, Status, Stream, StreamOptions};
use feedline_proto::v1::ErrorCode;
use feedline_s3_stub::{Action, Operation, Rule};
use std::path::{Path, PathBuf};

/// Bytes of a block in these tests.
const BLOCK: u64 = 64 << 10;

/// A pool so small that every epoch reads the disk, or the store.
fn tiny_pool(setup: Setup) -> Setup {
    setup
        .with("pool.bytes", "1 MiB")
        .with("prefetch.inflight_bytes", "512 KiB")
        .with("prefetch.window_bytes", "256 KiB")
}

fn stream(pattern: &str) -> StreamOptions {
    StreamOptions::new(url(pattern)).batch_size(7).remainder(Remainder::Partial)
}

/// Files of the cache with this suffix, largest first.
fn cache_files(daemon: &Daemon, suffix: &str) -> Vec<PathBuf> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).expect("the cache can be listed").flatten() {
            if entry.path().is_dir() { walk(&entry.path(), found) } else { found.push(entry.path()) }
        }
    }
    let mut found = Vec::new();
    walk(&daemon.cache_dir(), &mut found);
    found.retain(|path| path.extension().is_some_and(|extension| extension == suffix));
    found.sort_by_key(|path| (std::cmp::Reverse(path.metadata().expect("a file").len()), path.clone()));
    found
}

/// Inverts the byte at a share (in thousandths) of a file's length.
fn flip(path: &Path, thousandths: usize) {
    let mut bytes = std::fs::read(path).expect("a file of the cache");
    let at = bytes.len() * thousandths / 1000;
    bytes[at] ^= 0xff;
    std::fs::write(path, bytes).expect("a file of the cache");
}

fn flip_at(at: u64) -> Action {
    Action::FlipByte { at: Some(at) }
}

fn on_get(key: &str, action: Action) -> Rule {
    Rule::on(Operation::Get, action).key(key)
}

fn transfers(status: &Status) -> u64 {
    status.store.expect("in every status").corrupt_transfers
}

fn skipped(daemon: &Daemon, stream: &Stream) -> u64 {
    let status = daemon.status();
    status.streams.iter().find(|other| other.stream == stream.id()).expect("it is open").skipped
}

fn corrupt_blocks(status: &Status) -> u64 {
    status.cache.as_ref().expect("in every status").corrupt
}

#[test]
fn bytes_that_rot_in_the_cache_are_found_before_delivery_and_fetched_again() {
    let bucket = Bucket::new();
    let expected = bucket.put_shards("rot", &[180, 200, 220], |s, r| tagged(s, r, 5_000));
    let daemon = Daemon::start(tiny_pool(bucket.setup()));
    assert_same(&daemon.records(&stream("rot*")), &expected);
    daemon.wait_until_idle();
    flip(&cache_files(&daemon, "data")[0], 700);
    let before = bucket.gets();
    assert_same(&daemon.records(&stream("rot*")), &expected);
    assert_eq!(corrupt_blocks(&daemon.wait_until_idle()), 1);
    assert!(bucket.gets() > before, "the bad block came from the store");
    // It finds its way back into the cache, good this time.
    assert_same(&daemon.records(&stream("rot*")), &expected);
    daemon.wait_until_idle();
    let before = bucket.gets();
    assert_same(&daemon.records(&stream("rot*")), &expected);
    assert_eq!((bucket.gets(), corrupt_blocks(&daemon.wait_until_idle())), (before, 1));
    assert!(daemon.log().contains("damaged"), "{}", daemon.log());
}

#[test]
fn damaged_metadata_costs_one_fetch_and_nothing_else() {
    let bucket = Bucket::new();
    let expected = bucket.put_shards("meta", &[200, 200], |s, r| tagged(s, r, 5_000));
    let mut daemon = Daemon::start(tiny_pool(bucket.setup()));
    assert_same(&daemon.records(&stream("meta*")), &expected);
    daemon.wait_until_idle();
    for restart in [false, true] {
        flip(&cache_files(&daemon, "meta")[0], 500);
        if restart {
            daemon.kill_and_restart();
        }
        let before = bucket.gets();
        assert_same(&daemon.records(&stream("meta*")), &expected);
        daemon.wait_until_idle();
        assert!(bucket.gets() > before, "restart {restart}: one shard was gone");
        assert_same(&daemon.records(&stream("meta*")), &expected);
        daemon.wait_until_idle();
        let before = bucket.gets();
        assert_same(&daemon.records(&stream("meta*")), &expected);
        daemon.wait_until_idle();
        assert_eq!(bucket.gets(), before, "restart {restart}: both are back");
    }
}

#[test]
fn a_damaged_index_is_built_again_from_the_cached_bytes() {
    let bucket = Bucket::new();
    let expected = bucket.put_shards("index", &[400], |s, r| tagged(s, r, 5_000));
    let mut daemon = Daemon::start(tiny_pool(bucket.setup()));
    assert_same(&daemon.records(&stream("index*")), &expected);
    // The reader stays behind the scan, so that it counts on records that a scan from the start has yet to find.
    let slow = stream("index*").batch_size(1).ready(1);
    for with_data in [false, true] {
        daemon.wait_until_idle();
        flip(&cache_files(&daemon, "idx")[0], 500);
        if with_data {
            // The scan has shown records to the trainer when it comes to the damage.
            flip(&cache_files(&daemon, "data")[0], 900);
        }
        daemon.kill_and_restart();
        let before = bucket.gets();
        assert_same(&daemon.records(&slow), &expected);
        let status = daemon.wait_until_idle();
        assert_eq!(bucket.gets() > before, with_data, "the store is asked only if the bytes are lost");
        assert_eq!(corrupt_blocks(&status), u64::from(with_data));
    }
}

#[test]
fn the_index_of_another_shard_is_not_believed() {
    let bucket = Bucket::new();
    // Equal sizes, other records.
    let lengths = |s: u64, r: u64| if (s + r).is_multiple_of(2) { 3_000 } else { 5_000 };
    let expected = bucket.put_shards("swap", &[40, 40], |s, r| vec![u8::try_from(r).unwrap(); lengths(s, r)]);
    for cached in [true, false] {
        let mut daemon = Daemon::start(tiny_pool(bucket.setup()));
        assert_same(&daemon.records(&stream("swap*")), &expected);
        daemon.wait_until_idle();
        daemon.terminate();
        let files = cache_files(&daemon, "idx");
        let (a, b) = (std::fs::read(&files[0]).unwrap(), std::fs::read(&files[1]).unwrap());
        std::fs::write(&files[0], b).unwrap();
        std::fs::write(&files[1], a).unwrap();
        if !cached {
            for path in cache_files(&daemon, "meta").into_iter().chain(cache_files(&daemon, "data")) {
                std::fs::remove_file(path).unwrap();
            }
        }
        daemon.kill_and_restart();
        assert_same(&daemon.records(&stream("swap*")), &expected);
        daemon.wait_until_idle();
    }
}

#[test]
fn a_corrupt_record_is_named_and_what_lies_before_it_is_delivered() {
    let bucket = Bucket::new();
    let expected = bucket.put_shards("named", &[30; 100], |s, r| tagged(s, r, 300));
    let key = "named-00063.tfrecord";
    let mut bytes = bucket.stub.get(BUCKET, key).unwrap().to_vec();
    let lengths: Vec<u64> = expected[63 * 30..64 * 30].iter().map(|r| r.len() as u64 + 16).collect();
    let offset: u64 = lengths[..17].iter().sum();
    bytes[usize::try_from(offset).unwrap() + 12 + 100] ^= 1;
    bucket.put(key, bytes);
    let daemon = Daemon::start(bucket.setup());
    let (records, error) = read_to_end(daemon.open(&stream("named*")));
    assert_same(&records, &expected[..63 * 30 + 17]);
    let error = error.expect("the default policy fails");
    assert_eq!(error.code, ErrorCode::CorruptData);
    assert_eq!(
        (error.key.as_deref(), error.record, error.offset),
        (Some(url(key).as_str()), Some(17), Some(offset))
    );
    let start = format!("record 17 at byte {offset} of {}: data CRC is 0x", url(key));
    assert!(error.message.starts_with(&start), "{error}");
    assert!(error.hint.as_deref().is_some_and(|hint| hint.contains("skip")), "{error:?}");
    assert!(daemon.log().contains(&start), "{}", daemon.log());
    let status = daemon.wait_until_idle();
    assert_eq!(transfers(&status), 0, "the same bytes came twice: the source is at fault");
}

/// Four shards of 25 records, of which those in `bad` (shard, record) have a wrong checksum. Gives the good ones.
fn put_bad(bucket: &Bucket, prefix: &str, bad: &[(u64, u64)]) -> Vec<Vec<u8>> {
    let mut good = Vec::new();
    for s in 0..4 {
        let mut bytes = Vec::new();
        for r in 0..25 {
            let payload = tagged(s, r, 400);
            let mut framed = shard(std::slice::from_ref(&payload));
            if bad.contains(&(s, r)) {
                framed[20] ^= 1;
            } else {
                good.push(payload);
            }
            bytes.extend(framed);
        }
        bucket.put(&format!("{prefix}-{s}.tfrecord"), bytes);
    }
    good
}

#[test]
fn allowed_corrupt_records_are_skipped_and_counted_and_not_one_more() {
    let bucket = Bucket::new();
    let bad = [(0, 3), (1, 0), (1, 24), (3, 7)];
    let good = put_bad(&bucket, "bad", &bad);
    let daemon = Daemon::start(bucket.setup());
    let skipping = |skip| stream("bad*").skip_corrupt(skip);
    for skip in [4, 9] {
        let mut reading = daemon.open(&skipping(skip).epochs(2));
        let mut records = Vec::new();
        while let Some(batch) = reading.next_batch_within(LIMIT).expect("allowed") {
            records.extend(batch.iter().map(<[u8]>::to_vec));
        }
        assert_same(&records, &[&good[..], &good[..]].concat());
        assert_eq!(skipped(&daemon, &reading), 8, "four in each epoch");
    }
    // Record 7 of shard 3 is the fourth: 22 + 24 + ... good ones lie before it.
    let before = good.len() - 17;
    for (skip, before) in [(3, before), (1, 24), (0, 3)] {
        let (records, error) = read_to_end(daemon.open(&skipping(skip)));
        assert_same(&records, &good[..before]);
        let error = error.expect("one too many");
        let said = error.message.contains(&format!("the limit of {skip} skipped records is used up"));
        assert_eq!((error.code, said), (ErrorCode::CorruptData, skip > 0), "{error}");
    }
    daemon.wait_until_idle();
}

#[test]
fn the_configuration_of_a_dataset_allows_skipping() {
    let bucket = Bucket::new();
    let good = put_bad(&bucket, "conf", &[(2, 2), (2, 3)]);
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("feedline.toml");
    let text = format!(
        "[dataset.x]\nurl = \"{url}\"\ncorrupt = {{ skip = 2 }}\n[dataset.strict]\nurl = \"{url}\"\n",
        url = url("conf*")
    );
    std::fs::write(&config, text).unwrap();
    let daemon = Daemon::start(bucket.setup().env("FEEDLINE_CONFIG", config.to_str().unwrap()));
    let open = |name: &str| StreamOptions::new(name).batch_size(10).remainder(Remainder::Partial);
    assert_same(&daemon.records(&open("x")), &good);
    let (records, error) = read_to_end(daemon.open(&open("strict")));
    assert_eq!((records.len(), error.expect("the default fails").record), (52, Some(2)));
    let (_, error) = read_to_end(daemon.open(&open("x").skip_corrupt(1)));
    assert_eq!(error.expect("the client's word goes first").record, Some(3));
    daemon.wait_until_idle();
}

#[test]
fn a_shard_that_ends_within_a_record_is_never_taken_for_whole() {
    let bucket = Bucket::new();
    let daemon = Daemon::start(bucket.setup());
    for cut in [1, 5, 9, 13] {
        let records: Vec<_> = (0..20).map(|r| tagged(0, r, 400)).chain([b"last".to_vec()]).collect();
        let mut bytes = shard(&records);
        let offset = bytes.len() as u64 - 20;
        bytes.truncate(bytes.len() - cut);
        bucket.put(&format!("cut-{cut}.tfrecord"), bytes);
        let options = stream(&format!("cut-{cut}.tfrecord"));
        let (found, error) = read_to_end(daemon.open(&options));
        assert_same(&found, &records[..20]);
        let error = error.expect("the end is missing");
        assert_eq!((error.record, error.offset), (Some(20), Some(offset)), "cut by {cut}: {error}");
        assert!(error.message.contains("the file ends within"), "{error}");
        let mut reading = daemon.open(&options.clone().skip_corrupt(1));
        let mut found = Vec::new();
        while let Some(batch) = reading.next_batch_within(LIMIT).expect("allowed") {
            found.extend(batch.iter().map(<[u8]>::to_vec));
        }
        assert_same(&found, &records[..20]);
        assert_eq!(skipped(&daemon, &reading), 1, "cut by {cut}");
        drop(reading);
        assert!(daemon.log().contains("broken_end=true"), "{}", daemon.log());
        let (_, error) = read_to_end(daemon.open(&options.skip_corrupt(0)));
        assert_eq!(error.expect("none is allowed").record, Some(20));
    }
    daemon.wait_until_idle();
}

#[test]
fn a_length_of_half_the_address_space_takes_no_memory() {
    let bucket = Bucket::new();
    let header = [0, 0, 0, 0, 0, 0, 0, 0x80, 0x95, 0x08, 0x67, 0xb6];
    let mut bytes = shard(&[b"first".to_vec()]);
    bytes.extend(header);
    bytes.extend(vec![7; 100_000]);
    bucket.put("huge-1.tfrecord", bytes);
    bucket.put("huge-2.tfrecord", header.to_vec());
    let daemon = Daemon::start(bucket.setup());
    let before = daemon.status().resident_bytes;
    let (records, error) = read_to_end(daemon.open(&stream("huge-1*")));
    assert_same(&records, &[b"first".to_vec()]);
    let error = error.expect("there is no such record");
    assert_eq!((error.record, error.offset), (Some(1), Some(21)), "{error}");
    let (_, error) = read_to_end(daemon.open(&stream("huge-2*")));
    assert_eq!(error.expect("there is no such record").offset, Some(0));
    let grown = daemon.wait_until_idle().resident_bytes.saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes");
}

/// Reads with faults, then without after a restart; the second reading finds everything in the cache.
#[track_caller]
fn flipped_once(bucket: &Bucket, prefix: &str, expected: &[Vec<u8>], rule: Rule) {
    let mut daemon = Daemon::start(tiny_pool(bucket.setup()));
    bucket.stub.set_faults(rule);
    assert_same(&daemon.records(&stream(&format!("{prefix}*"))), expected);
    assert_eq!(transfers(&daemon.wait_until_idle()), 1, "{}", daemon.log());
    daemon.kill_and_restart();
    let before = bucket.gets();
    assert_same(&daemon.records(&stream(&format!("{prefix}*"))), expected);
    let status = daemon.wait_until_idle();
    assert_eq!((bucket.gets(), transfers(&status), corrupt_blocks(&status)), (before, 0, 0));
}

#[test]
fn a_byte_flipped_on_the_wire_once_is_fetched_again_and_the_bad_copy_forgotten() {
    let bucket = Bucket::new();
    let expected = bucket.put_shards("wire", &[60], |s, r| tagged(s, r, 5_000));
    // A payload, a length, and the part of a record that lies before a border: found only behind it.
    for at in [2_000, 5_019, BLOCK - 5] {
        flipped_once(&bucket, "wire", &expected, on_get("wire", flip_at(at)).nth(1));
    }
    // Anywhere in the third reply.
    flipped_once(&bucket, "wire", &expected, on_get("wire", Action::FlipByte { at: None }).nth(3));
}

#[test]
fn a_record_of_many_blocks_with_a_flip_in_its_first_is_fetched_again() {
    let bucket = Bucket::new();
    let expected = bucket.put_shards("long", &[2], |s, r| tagged(s, r, 180_000));
    flipped_once(&bucket, "long", &expected, on_get("long", flip_at(1_000)).nth(1));
}

#[test]
fn a_byte_flipped_within_a_compressed_shard_is_fetched_again() {
    let bucket = Bucket::new();
    let records: Vec<_> = (0..60).map(|r| tagged(0, r, 5_000)).collect();
    // Level 0 stores: the flip shows in the record's checksum first, and in the stream's only at the end.
    for (name, level) in [("stored", 0), ("deflated", 6)] {
        bucket.put(&format!("{name}.gz"), common::bucket::gzip(&shard(&records), level));
        for at in [3_000, BLOCK - 9] {
            flipped_once(&bucket, name, &records, on_get(name, flip_at(at)).nth(1));
        }
    }
}

#[test]
fn a_store_that_sends_other_bytes_each_time_is_not_tried_for_ever_and_not_cached() {
    let bucket = Bucket::new();
    let expected = bucket.put_shards("never", &[40], |s, r| tagged(s, r, 1_000));
    let daemon = Daemon::start(bucket.setup());
    let always = || on_get("never", Action::FlipByte { at: None });
    bucket.stub.set_faults(always());
    let (_, error) = read_to_end(daemon.open(&stream("never*")));
    assert_eq!(error.expect("no good copy comes").code, ErrorCode::CorruptData);
    assert!(bucket.gets() < 10, "{} requests", bucket.gets());
    let status = daemon.wait_until_idle();
    assert!(transfers(&status) >= 1);
    // What came is known to be wrong: the next stream asks again.
    bucket.stub.set_faults(feedline_s3_stub::FaultPlan::none());
    assert_same(&daemon.records(&stream("never*")), &expected);
    daemon.wait_until_idle();
    assert_same(&daemon.records(&stream("never*")), &expected);
}

#[test]
fn a_store_that_sends_the_same_wrong_bytes_has_a_corrupt_object() {
    let bucket = Bucket::new();
    let expected = bucket.put_shards("same", &[40], |s, r| tagged(s, r, 1_000));
    let daemon = Daemon::start(bucket.setup());
    bucket.stub.set_faults(on_get("same", flip_at(2_500)));
    let (records, error) = read_to_end(daemon.open(&stream("same*")));
    assert_same(&records, &expected[..2]);
    assert_eq!(error.expect("the default fails").record, Some(2));
    assert_eq!(transfers(&daemon.wait_until_idle()), 0, "not the transfer's fault");
    assert!(bucket.gets() < 10, "{} requests", bucket.gets());
    let rest = daemon.records(&stream("same*").skip_corrupt(1));
    assert_same(&rest, &[&expected[..2], &expected[3..]].concat());
    daemon.wait_until_idle();
}

#[track_caller]
fn assert_changed(error: &DaemonError, key: &str) {
    assert_eq!(error.code, ErrorCode::ContentChanged, "{error}");
    assert!(error.message.contains(&url(key)) && error.message.contains("changed"), "{error}");
}

#[test]
fn an_object_overwritten_between_epochs_is_new_content_on_a_new_stream() {
    let bucket = Bucket::new();
    let old = bucket.put_shards("over", &[100, 100], |s, r| tagged(s, r, 2_000));
    let daemon = Daemon::start(tiny_pool(bucket.setup()));
    let mut reading = daemon.open(&stream("over*").epochs(2));
    let first = batches(daemon.open(&stream("over*"))).count();
    assert!(first > 0);
    let new: Vec<_> = (0..100).map(|r| tagged(9, r, 2_000)).collect();
    bucket.put("over-00001.tfrecord", shard(&new));
    // A running stream keeps to what it listed, from the cache, or says that it is gone.
    let mut records = Vec::new();
    let error = loop {
        match reading.next_batch_within(LIMIT) {
            Ok(Some(batch)) => records.extend(batch.iter().map(<[u8]>::to_vec)),
            Ok(None) => break None,
            Err(feedline_client::Error::Daemon(error)) => break Some(error),
            Err(other) => panic!("{other}"),
        }
    };
    drop(reading);
    let twice = [&old[..], &old[..]].concat();
    assert_same(&records, &twice[..records.len()]);
    error.iter().for_each(|error| assert_changed(error, "over-00001.tfrecord"));
    assert!(error.is_some() || records.len() == 400);
    daemon.wait_until_idle();
    assert_same(&daemon.records(&stream("over*")), &[&old[..100], &new[..]].concat());
    daemon.wait_until_idle();
}

#[test]
fn an_object_overwritten_in_mid_download_is_never_mixed() {
    let bucket = Bucket::new();
    let old = bucket.put_shards("mid", &[200], |s, r| tagged(s, r, 5_000));
    let daemon = Daemon::start(tiny_pool(bucket.setup()));
    // Behind the third reply the object has other bytes, the same size and another ETag.
    bucket.stub.set_faults(on_get("mid", Action::ChangeObject).nth(3));
    let (records, error) = read_to_end(daemon.open(&stream("mid*")));
    assert_same(&records, &old[..records.len()]);
    assert!(records.len() < old.len());
    assert_changed(&error.expect("the rest is gone"), "mid-00000.tfrecord");
    daemon.wait_until_idle();
    // Every byte was inverted: the new object is no TFRecord file, and nothing of the old one is delivered.
    let (records, error) = read_to_end(daemon.open(&stream("mid*")));
    assert!(records.is_empty());
    assert_eq!(error.expect("inverted bytes are no records").code, ErrorCode::CorruptData);
    bucket.put("mid-00000.tfrecord", shard(&old));
    assert_same(&daemon.records(&stream("mid*")), &old);
    daemon.wait_until_idle();
}

#[test]
fn a_reader_far_behind_another_gets_blocks_that_have_left_the_pool() {
    let bucket = Bucket::new();
    let records: Vec<_> = (0..500).map(|r| tagged(0, r, 5_000)).collect();
    bucket.put("plain-lag", shard(&records));
    bucket.put("gzip-lag", common::bucket::gzip(&shard(&records), 1));
    for cache in ["256 MiB", "1 MiB"] {
        let daemon = Daemon::start(tiny_pool(bucket.setup()).with("cache.bytes", cache));
        for key in ["plain-lag", "gzip-lag"] {
            let mut first = daemon.open(&stream(key));
            let mut ahead = Vec::new();
            // Far enough that the start is out of the pool, and the shard not yet whole.
            while ahead.len() < 300 {
                let batch = first.next_batch_within(LIMIT).expect("no fault").expect("not the end");
                ahead.extend(batch.iter().map(<[u8]>::to_vec));
            }
            assert_same(&daemon.records(&stream(key)), &records);
            ahead.extend(read_to_end(first).0);
            assert_same(&ahead, &records);
            daemon.wait_until_idle();
        }
    }
}

#[test]
fn a_stream_that_failed_and_is_kept_does_not_stand_in_the_way_of_the_next() {
    let bucket = Bucket::new();
    let expected = bucket.put_shards("kept", &[10], |s, r| tagged(s, r, 1_000));
    let daemon = Daemon::start(bucket.setup());
    let denied = Action::Status { code: 403, name: None, retry_after: None };
    bucket.stub.set_faults(on_get("kept", denied));
    let mut failed = daemon.open(&stream("kept*"));
    failed.next_batch_within(LIMIT).expect_err("nothing can be read");
    bucket.stub.set_faults(feedline_s3_stub::FaultPlan::none());
    assert_same(&daemon.records(&stream("kept*")), &expected);
    drop(failed);
    daemon.wait_until_idle();
}
