//! Mixed orders, resuming and elastic worlds: each record once per epoch, in an order that only seed and numbers decide.

mod common;

use common::bucket::{Bucket, read_to_end, url};
use common::{Daemon, LIMIT, Setup, batches, pattern, tagged, write_shards};
use feedline_client::{Epochs, Error, Remainder, Shuffle, StreamOptions, Token};
use std::collections::BTreeSet;
use std::time::Duration;

const COUNTS: [u64; 9] = [40, 0, 75, 1, 60, 33, 90, 12, 51];
const TOTAL: usize = 362;

fn payload(shard: u64, record: u64) -> Vec<u8> {
    tagged(shard, record, 200 + usize::try_from((shard * 37 + record * 91) % 3_000).expect("small"))
}

fn expected() -> Vec<Vec<u8>> {
    let mut all: Vec<_> =
        (0..).zip(COUNTS).flat_map(|(s, count)| (0..count).map(move |r| payload(s, r))).collect();
    all.sort();
    all
}

fn orders(options: &StreamOptions) -> Vec<StreamOptions> {
    let blocks = options.clone().shuffle(Shuffle::Blocks);
    vec![
        options.clone(),
        options.clone().shuffle(Shuffle::Shards),
        blocks.clone().mixing(3, 4, 32),
        blocks.mixing(100, 1, 10_000),
        options.clone().shuffle(Shuffle::Full),
    ]
}

fn sorted(mut records: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    records.sort();
    records
}

/// A daemon on a dataset whose counts are known, since it was read once.
fn counted() -> (Daemon, StreamOptions) {
    let daemon = Daemon::start(Setup::default());
    let data = daemon.dir().join("data");
    write_shards(&data, &COUNTS, payload);
    let options = StreamOptions::new(pattern(&data)).batch_size(7).remainder(Remainder::Partial).seed(5);
    assert_eq!(daemon.records(&options).len(), TOTAL);
    (daemon, options)
}

#[test]
fn every_order_is_each_record_once_and_the_same_again_whatever_the_speed() {
    let bucket = Bucket::new();
    bucket.put_shards("d", &COUNTS, payload);
    let options = StreamOptions::new(url("d*")).batch_size(7).remainder(Remainder::Partial).seed(5).epochs(2);
    let mut first: Option<Vec<Vec<Vec<u8>>>> = None;
    for (threads, pool) in [("1", "16 MiB"), ("24", "1 MiB")] {
        let setup = bucket.setup().with("prefetch.threads", threads).with("pool.bytes", pool);
        let setup = setup.with("prefetch.inflight_bytes", "256 KiB").with("prefetch.window_bytes", "256 KiB");
        let daemon = Daemon::start(setup);
        // The mixed order of blocks is read cold; the full permutation needs the counts first.
        let mut found = Vec::new();
        for options in orders(&options) {
            let records = daemon.records(&options);
            assert_eq!(records.len(), 2 * TOTAL, "{options:?}");
            for epoch in records.chunks(TOTAL) {
                assert_eq!(sorted(epoch.to_vec()), expected(), "{options:?}");
            }
            found.push(records);
            daemon.wait_until_idle();
        }
        let distinct: BTreeSet<_> = found.iter().flat_map(|records| records.chunks(TOTAL)).collect();
        assert_eq!(distinct.len(), 9, "ten epochs, of which the two sequential ones are alike");
        assert!(*first.get_or_insert_with(|| found.clone()) == found, "another order with {threads} threads");
    }
}

#[test]
fn ranks_of_mixed_orders_have_the_records_once_and_equally_many_batches() {
    let (daemon, options) = counted();
    for options in orders(&options) {
        for (ranks, batch) in [(1, 7), (4, 3), (7, 20), (3, 200)] {
            for remainder in [Remainder::Drop, Remainder::Pad, Remainder::Partial] {
                let options = options.clone().batch_size(batch).remainder(remainder);
                let global = usize::try_from(batch * ranks).expect("small");
                if remainder == Remainder::Drop && global > TOTAL {
                    continue;
                }
                let streams: Vec<_> =
                    (0..ranks).map(|rank| daemon.open(&options.clone().rank(rank, ranks))).collect();
                let known = streams[0].batches();
                let mut own = Vec::new();
                let counts: Vec<u64> = streams
                    .into_iter()
                    .map(|stream| {
                        let batches = batches(stream).map(|batch| batch.expect("a batch"));
                        let mut count = 0;
                        for batch in batches {
                            own.extend(batch.iter().take(batch.len() - batch.pads()).map(<[u8]>::to_vec));
                            count += 1;
                        }
                        count
                    })
                    .collect();
                assert!(
                    counts.iter().all(|&count| Some(count) == known),
                    "{counts:?} of {known:?}: {options:?}"
                );
                let whole = if remainder == Remainder::Drop { TOTAL / global * global } else { TOTAL };
                assert_eq!(own.len(), whole, "{options:?}");
                assert_eq!(own.iter().collect::<BTreeSet<_>>().len(), whole, "a record twice: {options:?}");
            }
        }
    }
    daemon.wait_until_idle();
}

/// Reads so many batches; the own records, and the token behind them.
fn read_some(daemon: &Daemon, options: &StreamOptions, count: u64) -> (Vec<Vec<u8>>, Token) {
    let mut stream = daemon.open(options);
    let mut records = Vec::new();
    for _ in 0..count {
        let batch = stream.next_batch_within(LIMIT).expect("a batch").expect("not the end");
        records.extend(batch.iter().take(batch.len() - batch.pads()).map(<[u8]>::to_vec));
    }
    let token = stream.token();
    assert_eq!(token.to_string().parse::<Token>().expect("its own text"), token);
    (records, token)
}

#[test]
fn a_job_goes_on_with_the_next_record_on_any_number_of_ranks_at_any_batch() {
    let (daemon, options) = counted();
    for options in orders(&options) {
        let options = options.epochs(2);
        let whole = daemon.records(&options);
        for stop in [0, 1, 5, 17, 51, 52, 53, 70, 103] {
            let (before, token) = read_some(&daemon, &options, stop);
            assert_eq!(before, whole[..before.len()]);
            // On one rank: the very same sequence.
            let after = daemon.records(&options.clone().resume(token.clone()));
            assert!([&before[..], &after].concat() == whole, "stopped at {stop}: {options:?}");
            // A token is a place, not a count of the stream: taken again at once it is the same.
            let again = daemon.open(&options.clone().resume(token.clone())).token();
            assert_eq!(again.to_string(), token.to_string());
            // On three ranks with another batch size: the same records, once.
            let streams: Vec<_> = (0..3)
                .map(|rank| daemon.open(&options.clone().resume(token.clone()).rank(rank, 3).batch_size(5)))
                .collect();
            let after: Vec<_> = streams.into_iter().flat_map(|stream| read_to_end(stream).0).collect();
            let pads = before.len() + after.len() - whole.len();
            assert!(pads <= 6, "{pads} pads");
            let union: BTreeSet<_> = before.iter().chain(&after).collect();
            assert_eq!(union.len(), TOTAL, "stopped at {stop}: {options:?}");
        }
    }
    daemon.wait_until_idle();
}

#[test]
fn a_token_works_on_a_daemon_that_has_never_seen_the_data_and_reads_nothing_twice() {
    let bucket = Bucket::new();
    bucket.put_shards("d", &[100; 10], payload);
    let options = StreamOptions::new(url("d*")).batch_size(10).shuffle(Shuffle::Shards).seed(9);
    let first = Daemon::start(bucket.setup());
    let whole = first.records(&options);
    let (before, token) = read_some(&first, &options, 85);
    drop(first);
    let second = Daemon::start(bucket.setup());
    let gets = bucket.gets();
    let after = second.records(&options.clone().resume(token));
    assert!([&before[..], &after].concat() == whole);
    let status = second.wait_until_idle();
    assert!(status.cache.expect("told").shards <= 2, "only what is left was read");
    assert!(bucket.gets() - gets < 12, "{} requests", bucket.gets() - gets);
}

#[test]
fn a_token_of_another_job_is_refused_with_the_difference() {
    let (daemon, options) = counted();
    let blocks = options.clone().shuffle(Shuffle::Blocks).mixing(3, 4, 32);
    let (_, token) = read_some(&daemon, &blocks, 3);
    let other = daemon.dir().join("other");
    write_shards(&other, &[9, 9], payload);
    let resized = daemon.dir().join("resized");
    write_shards(&resized, &COUNTS, |shard, record| payload(shard, record + 1));
    let with = |data: &std::path::Path| {
        StreamOptions::new(pattern(data)).batch_size(7).seed(5).shuffle(Shuffle::Blocks).mixing(3, 4, 32)
    };
    let cases = [
        (blocks.clone().seed(6), "seed is 5, and this stream's is 6"),
        (
            blocks.clone().mixing(3, 4, 64),
            "windows of 32, and this stream's is 3 shards, runs of 4, windows of 64",
        ),
        (options.clone().shuffle(Shuffle::Full), "shuffle is blocks, and this stream's is full"),
        (with(&other), "number of shards is 9, and this stream's is 2"),
        (with(&resized), "size in bytes is"),
    ];
    for (options, said) in cases {
        match daemon.try_open(&options.resume(token.clone())) {
            Err(Error::Daemon(error)) => assert!(error.message.contains(said), "{said}: {error}"),
            other => panic!("{other:?}"),
        }
    }
    // Ranks, batch size and what becomes of the remainder may differ.
    let fine = blocks.resume(token).rank(1, 2).batch_size(3).remainder(Remainder::Drop);
    daemon.open(&fine);
    daemon.wait_until_idle();
}

#[test]
fn full_needs_counts_and_says_how_to_get_them() {
    let bucket = Bucket::new();
    bucket.put_shards("d", &COUNTS, payload);
    let daemon = Daemon::start(bucket.setup());
    match daemon.try_open(&StreamOptions::new(url("d*")).shuffle(Shuffle::Full)) {
        Err(Error::Daemon(error)) => {
            assert!(error.to_string().contains("feedline dataset index 's3://bkt/d*'"), "{error}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_daemon_killed_five_times_in_an_epoch_costs_no_record() {
    for number in 0..5 {
        let (mut daemon, options) = counted();
        let options = orders(&options).swap_remove(number).epochs(3);
        let whole = daemon.records(&options);
        let mut streams: Vec<_> = (0..2).map(|rank| daemon.open(&options.clone().rank(rank, 2))).collect();
        let mut found: Vec<Vec<Vec<Vec<u8>>>> = vec![Vec::new(); 2];
        let mut held = Vec::new();
        let mut round = 0;
        loop {
            let mut ended = 0;
            for (stream, found) in streams.iter_mut().zip(&mut found) {
                match stream.next_batch_within(LIMIT).expect("the daemon comes back") {
                    None => ended += 1,
                    Some(batch) => {
                        found.push(
                            batch.iter().take(batch.len() - batch.pads()).map(<[u8]>::to_vec).collect(),
                        );
                        // Batches of the daemon that died stay readable.
                        held.push(batch);
                        held.truncate(3);
                    }
                }
            }
            round += 1;
            if round % 5 == 0 && round <= 25 {
                let copies: Vec<Vec<u8>> =
                    held.iter().flat_map(|batch| batch.iter().map(<[u8]>::to_vec)).collect();
                daemon.kill_and_restart();
                assert!(held.iter().flat_map(|batch| batch.iter()).eq(copies.iter().map(Vec::as_slice)));
            }
            match ended {
                0 => {}
                2 => break,
                _ => panic!("one rank ends before the other"),
            }
        }
        let [left, right] = &found[..] else { panic!("two ranks") };
        let together: Vec<_> = left.iter().zip(right).flat_map(|(l, r)| l.iter().chain(r).cloned()).collect();
        assert!(together == whole, "{} of {} records, order {number}", together.len(), whole.len());
        drop((held, streams));
        daemon.wait_until_idle();
    }
}

#[test]
fn a_trainer_gives_up_when_its_time_is_over_and_a_time_out_is_no_end() {
    let (mut daemon, options) = counted();
    let mut stream =
        daemon.open(&options.epochs(Epochs::Forever).reconnect(Duration::from_millis(400)).ready(1));
    let first = stream.next_batch_within(LIMIT).expect("a batch");
    daemon.kill();
    let error = loop {
        match stream.next_batch_within(Duration::from_millis(50)) {
            Ok(_) | Err(Error::TimedOut(_)) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::DaemonGone), "{error}");
    assert!(stream.next_batch().expect("the end").is_none());
    drop(first);
}

/// Takes so many batches on each of two ranks, and ends as if killed.
fn run_job(daemon: &Daemon, options: &StreamOptions, counts: [usize; 2]) -> Vec<Vec<Vec<u8>>> {
    let streams: Vec<_> = (0..2).map(|rank| daemon.open(&options.clone().rank(rank, 2))).collect();
    let read = |(mut stream, count): (feedline_client::Stream, usize)| {
        let mut records = Vec::new();
        for _ in 0..count {
            match stream.next_batch_within(LIMIT).expect("a batch") {
                Some(batch) => records.extend(batch.iter().map(<[u8]>::to_vec)),
                None => break,
            }
        }
        records
    };
    streams.into_iter().zip(counts).map(read).collect()
}

#[test]
fn a_job_that_kept_no_token_goes_on_where_the_daemon_saw_it_last() {
    let (mut daemon, options) = counted();
    let options = options.batch_size(5).remainder(Remainder::Drop).shuffle(Shuffle::Blocks).mixing(3, 4, 32);
    let whole = daemon.records(&options.clone().batch_size(10));
    let named = options.clone().job("vision").resume_job();
    let mut found = Vec::new();
    // Rank 1 is a batch ahead when both die: the job is where the last one is.
    for (counts, kept) in [([4, 4], 4), ([7, 8], 7), ([0, 3], 0), ([5, 5], 5)] {
        let ranks = run_job(&daemon, &named, counts);
        for batch in 0..kept {
            found.extend(ranks.iter().flat_map(|rank| rank[batch * 5..batch * 5 + 5].to_vec()));
        }
        daemon.wait_until_idle();
        if kept == 7 {
            // What closed streams have taken stands on disk.
            daemon.kill_and_restart();
        }
    }
    assert!(found == whole[..found.len()] && found.len() == 160, "{} records", found.len());
    // On one rank, to the end; and then there is nothing left.
    let rest = daemon.records(&named.clone().batch_size(10));
    assert!([&found[..], &rest].concat() == whole);
    daemon.wait_until_idle();
    assert!(daemon.records(&named.clone().batch_size(10)).is_empty());
    // Without being asked to go on, it starts anew; under another name it has never been.
    assert_eq!(daemon.records(&options.clone().batch_size(10).job("vision")).len(), whole.len());
    assert_eq!(daemon.records(&named.clone().batch_size(10).job("other")).len(), whole.len());
    // What does not fit is refused, and what is damaged is not taken for a start.
    let refusal = |options: &StreamOptions| match daemon.try_open(options) {
        Err(Error::Daemon(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    daemon.wait_until_idle();
    assert!(refusal(&named.clone().seed(6)).contains("seed is 5"));
    assert!(refusal(&options.clone().resume_job()).contains("name"));
    for file in std::fs::read_dir(daemon.cache_dir().join("jobs")).expect("a directory") {
        let path = file.expect("a file").path();
        let mut bytes = std::fs::read(&path).expect("there");
        bytes[20] ^= 1;
        std::fs::write(path, bytes).expect("written");
    }
    assert!(refusal(&named).contains("damaged"), "{}", refusal(&named));
    daemon.wait_until_idle();
}

#[test]
fn a_rank_that_comes_back_while_the_others_go_on_continues_at_its_own_place() {
    let (daemon, options) = counted();
    let named = options.batch_size(5).remainder(Remainder::Drop).job("vision").resume_job();
    let take = |stream: &mut feedline_client::Stream, count: usize| -> Vec<u64> {
        (0..count)
            .map(|_| stream.next_batch_within(LIMIT).expect("one").expect("one").global_batch())
            .collect()
    };
    let mut stays = daemon.open(&named.clone().rank(0, 2));
    let mut leaves = daemon.open(&named.clone().rank(1, 2));
    assert_eq!(take(&mut stays, 6), [0, 1, 2, 3, 4, 5]);
    assert_eq!(take(&mut leaves, 3), [0, 1, 2]);
    drop(leaves);
    let mut back = daemon.open(&named.clone().rank(1, 2));
    assert_eq!(take(&mut back, 2), [3, 4]);
    assert_eq!(take(&mut stays, 1), [6]);
    drop((stays, back));
    daemon.wait_until_idle();
}
