//! What was read once is not read from the store again, whatever happened in between; and the cache keeps to its limit.

mod common;

use common::{Daemon, LIMIT, Setup, batches, pattern, tagged, write_shards};
use feedline_client::{Remainder, StreamOptions};
use feedline_s3_stub::{Operation, Stub, StubConfig};
use std::collections::BTreeMap;
use std::path::Path;

const RECORDS: u64 = 200;
const SHARDS: u64 = 6;

fn payload(shard: u64, record: u64) -> Vec<u8> {
    tagged(shard, record, 500 + usize::try_from((shard * 37 + record * 91) % 3000).expect("small"))
}

/// A server with [`SHARDS`] shards of [`RECORDS`] records, about 400 kB each.
fn stub() -> Stub {
    let stub = Stub::start(StubConfig::default().bucket("bkt").key("key", "secret"));
    for shard in 0..SHARDS {
        let mut bytes = Vec::new();
        for record in 0..RECORDS {
            feedline::record::append_record(&mut bytes, &payload(shard, record));
        }
        stub.put("bkt", &format!("d/part-{shard}.tfrecord"), bytes);
    }
    stub
}

fn expected() -> Vec<Vec<u8>> {
    (0..SHARDS).flat_map(|shard| (0..RECORDS).map(move |record| payload(shard, record))).collect()
}

fn options() -> StreamOptions {
    StreamOptions::new("s3://bkt/d/*.tfrecord").batch_size(32).remainder(Remainder::Partial)
}

/// GETs of object data.
fn gets(stub: &Stub) -> usize {
    stub.log().iter().filter(|entry| entry.operation == Some(Operation::Get)).count()
}

#[test]
fn the_second_epoch_and_a_killed_and_restarted_daemon_ask_the_store_for_nothing() {
    let stub = stub();
    // The pool holds less than half of the data, so blocks come back from disk.
    let setup = Setup::default()
        .with("pool.bytes", "1 MiB")
        .with("prefetch.inflight_bytes", "256 KiB")
        .with("prefetch.window_bytes", "256 KiB")
        .s3(&stub.url(), "key", "secret");
    let mut daemon = Daemon::start(setup);
    let twice: Vec<Vec<u8>> = expected().into_iter().chain(expected()).collect();
    assert_eq!(daemon.records(&options().epochs(2)), twice);
    daemon.wait_until_idle();
    let blocks: u64 = {
        let sizes =
            (0..SHARDS).map(|shard| stub.get("bkt", &format!("d/part-{shard}.tfrecord")).expect("it").len());
        sizes.map(|size| (size as u64).div_ceil(64 << 10)).sum()
    };
    assert_eq!(gets(&stub) as u64, blocks, "each block was fetched once in two epochs");

    for signal in ["SIGKILL", "SIGTERM"] {
        stub.reset_counts();
        if signal == "SIGTERM" {
            assert!(daemon.terminate().success());
        }
        daemon.kill_and_restart();
        assert_eq!(daemon.records(&options()), expected(), "after {signal}");
        assert_eq!(stub.counts().gets, 0, "after {signal}");
        let status = daemon.wait_until_idle();
        assert!(status.cache.unwrap_or_default().read_bytes > 0);
    }
}

#[test]
fn kills_in_mid_download_leave_nothing_behind_and_lose_nothing() {
    let stub = stub();
    stub.set_faults("get:*:latency=5ms..20ms".parse::<feedline_s3_stub::Rule>().expect("a rule"));
    let mut daemon = Daemon::start(Setup::default().s3(&stub.url(), "key", "secret"));
    for round in 1..=5 {
        let stream = daemon.open(&options());
        assert!(stub.wait_until(LIMIT, |counts| counts.gets >= 2 * round), "round {round}");
        daemon.kill_and_restart();
        drop(stream);
        let temporary = std::fs::read_dir(daemon.cache_dir().join("tmp")).expect("the folder").count();
        assert_eq!(temporary, 0, "round {round}");
    }
    assert_eq!(daemon.records(&options()), expected());
    let cache = daemon.wait_until_idle().cache.unwrap_or_default();
    assert_eq!(cache.shards, SHARDS);
    let on_disk = files(&daemon.cache_dir());
    let data: u64 = on_disk.iter().filter(|(name, _)| name.contains("shards/")).map(|(_, bytes)| bytes).sum();
    assert!(cache.used_bytes >= data, "{} used, {data} on disk", cache.used_bytes);
}

/// Files below a directory with their lengths in bytes.
fn files(dir: &Path) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => folders.push(entry.path()),
                Ok(meta) => {
                    found.insert(entry.path().display().to_string(), meta.len());
                }
                Err(_) => {}
            }
        }
    }
    found
}

#[test]
fn a_cache_smaller_than_the_data_or_than_one_shard_still_delivers_and_keeps_its_limit() {
    let stub = stub();
    for limit in ["1 MiB", "256 KiB"] {
        let setup = Setup::default().with("cache.bytes", limit).s3(&stub.url(), "key", "secret");
        let daemon = Daemon::start(setup);
        let twice: Vec<Vec<u8>> = expected().into_iter().chain(expected()).collect();
        let mut records = Vec::new();
        for batch in batches(daemon.open(&options().epochs(2))) {
            records.extend(batch.expect("a batch").iter().map(<[u8]>::to_vec));
            let cache = daemon.status().cache.unwrap_or_default();
            assert!(cache.used_bytes + cache.reserved_bytes <= cache.limit_bytes, "{cache:?}");
        }
        assert_eq!(records, twice, "limit {limit}");
        daemon.wait_until_idle();
    }
}

#[test]
fn data_that_fits_is_fetched_once_by_four_ranks_over_five_epochs() {
    let stub = stub();
    let daemon = Daemon::start(Setup::default().s3(&stub.url(), "key", "secret"));
    let ranks: Vec<_> = (0..4)
        .map(|rank| daemon.open(&options().rank(rank, 4).epochs(5).batch_size(10)))
        .map(|stream| {
            std::thread::spawn(move || {
                batches(stream).map(|batch| batch.expect("a batch").len()).sum::<usize>()
            })
        })
        .collect();
    let records: usize = ranks.into_iter().map(|rank| rank.join().expect("a rank")).sum();
    assert_eq!(records as u64, 5 * SHARDS * RECORDS);
    let status = daemon.wait_until_idle();
    let size: usize =
        (0..SHARDS).map(|s| stub.get("bkt", &format!("d/part-{s}.tfrecord")).expect("it").len()).sum();
    assert_eq!(status.store.unwrap_or_default().bytes, size as u64, "bytes from the store");
}

#[test]
fn another_dataset_pushes_out_what_is_not_in_use() {
    let setup = Setup::default().with("cache.bytes", "1 MiB");
    let mut daemon = Daemon::start(setup);
    let (first, second) = (daemon.dir().join("a"), daemon.dir().join("b"));
    write_shards(&first, &[200, 200], payload);
    write_shards(&second, &[200, 200], |shard, record| payload(shard + 7, record));
    let read = |daemon: &Daemon, dir: &Path| {
        let options = StreamOptions::new(pattern(dir)).batch_size(50).remainder(Remainder::Partial);
        assert_eq!(daemon.records(&options).len(), 400);
        daemon.wait_until_idle().cache.unwrap_or_default()
    };
    assert_eq!(read(&daemon, &first).shards, 2);
    daemon.kill_and_restart();
    assert_eq!(daemon.status().cache.unwrap_or_default().shards, 2, "found again after the restart");
    let cache = read(&daemon, &second);
    assert!(cache.evictions > 0 && cache.used_bytes <= cache.limit_bytes, "{cache:?}");
}
