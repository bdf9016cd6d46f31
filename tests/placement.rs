//! A job over several nodes: what each reads and caches, and that together they read each record once.

mod common;

use common::bucket::{Bucket, read_to_end, url};
use common::{Daemon, tagged};
use feedline_client::{Error, Remainder, Shuffle, StreamOptions};
use std::collections::BTreeSet;

const SHARDS: usize = 24;
const RECORDS: u64 = 40;

fn payload(shard: u64, record: u64) -> Vec<u8> {
    tagged(shard, record, 2_000)
}

fn options() -> StreamOptions {
    StreamOptions::new(url("d*")).batch_size(10).seed(3).remainder(Remainder::Partial)
}

fn counted(daemon: &Daemon) {
    let mut client = daemon.client();
    while !client.index(&[url("d*")], true).expect("counted").done {}
}

/// Records of each of four ranks, two on each node; all at the same time.
fn read(nodes: &[Daemon; 2], options: &StreamOptions) -> Vec<Vec<Vec<u8>>> {
    let streams: Vec<_> =
        (0..4).map(|rank| nodes[rank as usize / 2].open(&options.clone().rank(rank, 4))).collect();
    let readers: Vec<_> =
        streams.into_iter().map(|stream| std::thread::spawn(|| read_to_end(stream))).collect();
    let read = readers.into_iter().map(|reader| reader.join().expect("a rank"));
    read.map(|(records, error)| {
        assert_eq!(error, None);
        records
    })
    .collect()
}

fn cached(node: &Daemon) -> u64 {
    node.wait_until_idle().cache.expect("told").shards
}

#[test]
fn two_nodes_read_each_record_once_and_cache_half_each_if_they_are_to() {
    let bucket = Bucket::new();
    let mut all = bucket.put_shards("d", &[RECORDS; SHARDS], payload);
    all.sort();
    counted(&Daemon::start(bucket.setup()));
    for shuffle in [Shuffle::Sequential, Shuffle::Shards, Shuffle::Blocks, Shuffle::Full] {
        for sticky in [true, false] {
            let nodes = [Daemon::start(bucket.setup()), Daemon::start(bucket.setup())];
            // Blocks of a few shards: mixed within a node's part, and over more than one group.
            let options = options().shuffle(shuffle).mixing(4, 4, 40).sticky(if sticky { 2 } else { 0 });
            let mut orders = BTreeSet::new();
            for epoch in 0..3 {
                let options = options.clone().seed(3 + epoch);
                let ranks = read(&nodes, &options);
                assert!(ranks.iter().all(|rank| rank.len() == ranks[0].len()), "unequal ranks");
                orders.insert(ranks.clone());
                let mut union = ranks.concat();
                union.sort();
                assert!(
                    union == all,
                    "{shuffle:?}, sticky {sticky}: {} of {} records",
                    union.len(),
                    all.len()
                );
                if sticky && epoch == 0 {
                    let cached = nodes.each_ref().map(cached);
                    assert_eq!(cached, [SHARDS as u64 / 2; 2], "{shuffle:?}");
                }
            }
            assert_eq!(orders.len(), if shuffle == Shuffle::Sequential { 1 } else { 3 }, "{shuffle:?}");
        }
    }
}

#[test]
fn a_node_keeps_its_shards_over_the_epochs_of_a_job() {
    let bucket = Bucket::new();
    bucket.put_shards("d", &[RECORDS; SHARDS], payload);
    counted(&Daemon::start(bucket.setup()));
    let cached_after = |sticky: u64| {
        let nodes = [Daemon::start(bucket.setup()), Daemon::start(bucket.setup())];
        read(&nodes, &options().shuffle(Shuffle::Shards).epochs(4).sticky(sticky));
        nodes.each_ref().map(cached)
    };
    assert_eq!(cached_after(2), [12, 12]);
    let spread = cached_after(0);
    assert!(spread.iter().all(|&shards| shards > 18), "{spread:?}");
}

#[test]
fn a_sticky_job_goes_on_with_other_ranks_and_batches() {
    let bucket = Bucket::new();
    // Uneven shards, so parts leave a rest.
    let counts: Vec<u64> = (0..13).map(|shard| 7 + shard * shard % 50).collect();
    let mut all = bucket.put_shards("d", &counts, payload);
    all.sort();
    let daemon = Daemon::start(bucket.setup());
    counted(&daemon);
    for shuffle in [Shuffle::Shards, Shuffle::Blocks, Shuffle::Full] {
        let options = options().shuffle(shuffle).mixing(3, 4, 16).sticky(4).batch_size(12);
        let whole = daemon.records(&options);
        for stop in [1, 7, 15, 20] {
            let mut stream = daemon.open(&options);
            let mut records = Vec::new();
            for batch in stream.by_ref().take(stop) {
                records.extend(batch.expect("a batch").iter().map(<[u8]>::to_vec));
            }
            let token = stream.token();
            let on = options.clone().resume(token);
            let rest = daemon.records(&on);
            assert!([&records[..], &rest].concat() == whole, "{shuffle:?} stopped at {stop}");
            let ranks = (0..2).map(|rank| daemon.open(&on.clone().rank(rank, 2).batch_size(8)));
            let ranks: Vec<_> = ranks.collect();
            records.extend(ranks.into_iter().flat_map(|stream| read_to_end(stream).0));
            let union: BTreeSet<_> = records.iter().collect();
            assert_eq!(union.len(), all.len(), "{shuffle:?} stopped at {stop}");
        }
    }
}

#[test]
fn what_sticky_needs_is_said() {
    let bucket = Bucket::new();
    bucket.put_shards("d", &[RECORDS; 4], payload);
    let daemon = Daemon::start(bucket.setup());
    let refusal = |options: StreamOptions| match daemon.try_open(&options) {
        Err(Error::Daemon(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(refusal(options().sticky(2)).contains("feedline dataset index"));
    counted(&daemon);
    assert!(refusal(options().sticky(3)).contains("10 records cannot be divided among 3 parts"));
    assert!(refusal(options().sticky(100_000)).contains("too many"));
    let token = daemon.open(&options().sticky(2)).token();
    assert!(refusal(options().resume(token)).contains("number of parts is 2, and this stream's is 0"));
}
