//! Memory, descriptors, time: every budget is kept at its limits, returned at the end, and flat over a long run.

mod common;

use common::bucket::{Bucket, assert_same, read_to_end, shard, url};
use common::{Daemon, LIMIT, Setup, batches, pattern, tagged, write_shards};
use feedline_client::{DaemonError, Epochs, Error, Remainder, Shuffle, Status, StreamOptions};
use feedline_proto::v1::ErrorCode;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// A daemon whose every budget is near its minimum.
fn tiny() -> Setup {
    Setup::default()
        .with("pool.bytes", "1 MiB")
        .with("prefetch.inflight_bytes", "256 KiB")
        .with("prefetch.window_bytes", "128 KiB")
}

fn options(pattern: &str) -> StreamOptions {
    StreamOptions::new(pattern).batch_size(8).remainder(Remainder::Partial)
}

fn failure(daemon: &Daemon, options: &StreamOptions) -> DaemonError {
    match daemon.try_open(options) {
        Ok(stream) => read_to_end(stream).1.expect("it cannot be served"),
        Err(Error::Daemon(error)) => error,
        Err(other) => panic!("{other}"),
    }
}

fn assert_peaks(status: &Status, inflight: u64) {
    let budget = status.inflight.expect("told");
    assert_eq!(budget.limit_bytes, inflight);
    assert!(budget.peak_bytes <= inflight && budget.peak_bytes > 0, "{budget:?}");
}

#[test]
fn records_from_nothing_to_many_blocks_pass_through_a_tiny_pool() {
    let bucket = Bucket::new();
    let daemon = Daemon::start(tiny().s3(&bucket.stub.url(), "key", "secret"));
    // Around the borders of a block of 64 KiB, and up to half of what streams may hold.
    let lengths = [0, 1, 65_519, 65_520, 65_521, 65_536, 131_072, 131_073, 250_000, 3];
    let records: Vec<_> = (0..).zip(lengths).map(|(number, length)| vec![number + 1_u8; length]).collect();
    for (key, rotate) in [("a", 0), ("b", 3), ("c", 7)] {
        let mut records = records.clone();
        records.rotate_left(rotate);
        bucket.put(key, shard(&records));
        for size in [1, 2] {
            let options = options(&url(key)).batch_size(size).epochs(2);
            assert_same(&daemon.records(&options), &[&records[..], &records].concat());
        }
    }
    assert_peaks(&daemon.wait_until_idle(), 256 << 10);
}

#[test]
fn a_batch_that_no_pool_can_hold_is_refused_with_the_numbers_and_the_rest_is_served() {
    let daemon = Daemon::start(tiny());
    let data = daemon.dir().join("data");
    // One record of 3 MiB behind two small ones.
    let length = |record| if record == 2 { 3 << 20 } else { 100 };
    write_shards(&data, &[5], |shard, record| tagged(shard, record, length(record)));
    let error = failure(&daemon, &options(&pattern(&data)));
    assert_eq!(error.code, ErrorCode::ResourceExhausted, "{error}");
    assert!(error.to_string().contains("pool.bytes"), "{error}");
    let stream = daemon.open(&options(&pattern(&data)).batch_size(1));
    let (found, error) = read_to_end(stream);
    assert_eq!((found.len(), error.expect("the third").code), (2, ErrorCode::ResourceExhausted));
    daemon.wait_until_idle();

    // The hint is right: with that much it works.
    let hint = daemon_hint(&failure(&daemon, &options(&pattern(&data)).batch_size(1)));
    let roomy = Daemon::start(tiny().with("pool.bytes", &hint.to_string()));
    assert_eq!(roomy.records(&options(&pattern(&data)).batch_size(1)).len(), 5);
    roomy.wait_until_idle();
}

/// The number of bytes that the hint names.
fn daemon_hint(error: &DaemonError) -> u64 {
    let number: String =
        error.hint.iter().flat_map(|hint| hint.chars()).filter(char::is_ascii_digit).collect();
    number.parse().expect("a number")
}

#[test]
fn large_records_in_a_pool_of_ordinary_size() {
    let bucket = Bucket::new();
    let setup = bucket.setup().with("pool.bytes", "768 MiB").with("pool.block_bytes", "4 MiB");
    let setup = setup.with("cache.bytes", "1 GiB").with("prefetch.inflight_bytes", "64 MiB");
    let daemon = Daemon::start(setup.with("prefetch.window_bytes", "32 MiB"));
    // 65 MiB is what one transfer could never hold, 300 MiB more than the in-flight budget several times over.
    let records = vec![tagged(0, 0, 65 << 20), tagged(0, 1, 10), tagged(0, 2, 300 << 20)];
    bucket.put("large", shard(&records));
    for _ in 0..2 {
        assert_same(&daemon.records(&options(&url("large")).batch_size(1)), &records);
    }
    let status = daemon.wait_until_idle();
    assert_peaks(&status, 64 * MIB);
    assert!(status.resident_bytes < 1_000 * MIB, "{} bytes resident", status.resident_bytes);
}

#[test]
fn many_streams_share_a_tiny_pool_and_all_come_to_their_end() {
    // 124 blocks are for streams, four for each at the least.
    let daemon = Daemon::start(tiny().with("pool.bytes", "8 MiB"));
    let data = daemon.dir().join("data");
    write_shards(&data, &[40; 6], |shard, record| tagged(shard, record, 4_000));
    let expected: Vec<_> = (0..6).flat_map(|s| (0..40).map(move |r| tagged(s, r, 4_000))).collect();
    // Every second one is a rank of a pair.
    let readers: Vec<_> = (0..24_u32)
        .map(|number| {
            let options = options(&pattern(&data)).epochs(2).job(format!("job {}", number / 2));
            let options = if number % 4 < 2 { options } else { options.rank(number % 2, 2) };
            let stream = daemon.open(&options);
            std::thread::spawn(move || read_to_end(stream))
        })
        .collect();
    for (number, reader) in readers.into_iter().enumerate() {
        let (found, error) = reader.join().expect("a reader");
        assert_eq!(error, None, "reader {number}");
        if number % 4 < 2 {
            assert_same(&found, &[&expected[..], &expected].concat());
        } else {
            assert_eq!(found.len(), expected.len(), "half of two epochs");
        }
    }
    assert_peaks(&daemon.wait_until_idle(), 256 << 10);
}

#[test]
fn mixed_batches_come_through_a_pool_of_a_few_blocks_for_one_stream_and_for_many() {
    let daemon = Daemon::start(tiny());
    let data = daemon.dir().join("data");
    write_shards(&data, &[40; 6], |shard, record| tagged(shard, record, 4_000));
    let mut expected: Vec<_> = (0..6).flat_map(|s| (0..40).map(move |r| tagged(s, r, 4_000))).collect();
    expected.sort();
    assert_eq!(daemon.records(&options(&pattern(&data))).len(), 240);
    for shuffle in [Shuffle::Blocks, Shuffle::Full] {
        // Twelve blocks are for streams. A batch of 120 records fills eight of them, and one more is needed to fill them.
        for (size, streams) in [(120, 1), (120, 3), (8, 3)] {
            let options = options(&pattern(&data)).shuffle(shuffle).batch_size(size).epochs(2);
            let streams: Vec<_> = (0..streams).map(|_| daemon.open(&options)).collect();
            let readers: Vec<_> =
                streams.into_iter().map(|stream| std::thread::spawn(move || read_to_end(stream))).collect();
            for reader in readers {
                let (found, error) = reader.join().expect("a reader");
                assert_eq!(error, None);
                for epoch in found.chunks(240) {
                    let mut epoch = epoch.to_vec();
                    epoch.sort();
                    assert!(epoch == expected, "{} records", epoch.len());
                }
                assert_eq!(found.len(), 480);
            }
            daemon.wait_until_idle();
        }
    }
    let error = failure(&daemon, &options(&pattern(&data)).shuffle(Shuffle::Full).batch_size(200));
    assert_eq!(error.code, ErrorCode::ResourceExhausted, "{error}");
    daemon.wait_until_idle();
}

#[test]
fn more_streams_than_the_pool_has_room_for_are_refused_and_ranks_that_wait_for_each_other_go_on() {
    let daemon = Daemon::start(tiny());
    let data = daemon.dir().join("data");
    write_shards(&data, &[40; 6], |shard, record| tagged(shard, record, 4_000));
    for shuffle in [Shuffle::Sequential, Shuffle::Blocks] {
        let options = options(&pattern(&data)).batch_size(2).epochs(2).shuffle(shuffle);
        let mut streams: Vec<_> = (0..3).map(|rank| daemon.open(&options.clone().rank(rank, 3))).collect();
        let error = failure(&daemon, &options);
        assert_eq!(error.code, ErrorCode::ResourceExhausted);
        assert!(
            error.to_string().contains("3 streams are open")
                && error.to_string().contains("raise pool.bytes")
        );
        // A barrier behind every batch; each rank holds its own until it has the next.
        let mut held: Vec<_> = Vec::new();
        loop {
            let batches: Vec<_> =
                streams.iter_mut().map(|stream| stream.next_batch_within(LIMIT).expect("a batch")).collect();
            if batches.iter().all(Option::is_none) {
                break;
            }
            held = batches;
        }
        drop((held, streams));
        daemon.wait_until_idle();
    }
}

#[test]
fn a_thousand_shards_smaller_than_a_page() {
    let bucket = Bucket::new();
    let mut daemon = Daemon::start(bucket.setup());
    let expected = bucket.put_shards("tiny", &[2; 1_000], |s, r| tagged(s, r, 50));
    assert_same(&daemon.records(&options(&url("tiny*"))), &expected);
    assert_eq!(daemon.wait_until_idle().cache.expect("told").shards, 1_000);
    let before = bucket.gets();
    daemon.kill_and_restart();
    assert_same(&daemon.records(&options(&url("tiny*"))), &expected);
    assert_eq!(bucket.gets(), before, "all cached");
    daemon.wait_until_idle();
}

#[test]
fn memory_and_descriptors_are_flat_over_forty_epochs() {
    let daemon = Daemon::start(tiny());
    let data = daemon.dir().join("data");
    write_shards(&data, &[100; 20], |shard, record| tagged(shard, record, 1_500));
    let mut stream = daemon.open(&options(&pattern(&data)).epochs(Epochs::Forever));
    let mut run = |epochs: u64| {
        for _ in 0..epochs * 250 {
            stream.next_batch_within(LIMIT).expect("a batch").expect("no end");
        }
        daemon.status()
    };
    let before = run(8);
    let after = run(40);
    assert!(after.open_descriptors <= before.open_descriptors + 8, "{before:?}\n{after:?}");
    // Allocators keep a little; a leak of one block an epoch would be ten times this.
    let grown = after.resident_bytes.saturating_sub(before.resident_bytes);
    assert!(grown < 4 * MIB, "{grown} bytes more after forty epochs");
    drop(stream);
    daemon.wait_until_idle();
}

#[test]
fn a_daemon_with_an_idle_stream_uses_no_cpu() {
    let daemon = Daemon::start(tiny());
    let data = daemon.dir().join("data");
    write_shards(&data, &[100; 4], |shard, record| tagged(shard, record, 1_500));
    let mut stream = daemon.open(&options(&pattern(&data)).epochs(Epochs::Forever));
    let held = stream.next_batch_within(LIMIT).expect("a batch").expect("no end");
    daemon.wait_until("all that is kept ready", |status| status.streams[0].ready == 8);
    let before = daemon.status().cpu_seconds;
    let error = stream_waits(Duration::from_secs(3));
    let used = daemon.status().cpu_seconds - before;
    assert!(used < 0.03, "{used} s of CPU in 3 s ({error:?})");
    drop((held, stream));
    daemon.wait_until_idle();
}

/// Passes time without a busy loop: waits on a socket that nothing comes through.
fn stream_waits(time: Duration) -> std::io::ErrorKind {
    use std::io::Read;
    let (mut left, _right) = std::os::unix::net::UnixStream::pair().expect("a pair");
    left.set_read_timeout(Some(time)).expect("a time-out");
    left.read(&mut [0]).expect_err("nothing comes").kind()
}

#[test]
fn a_batch_larger_than_the_descriptor_ring_flows_through_in_pieces() {
    let daemon = Daemon::start(Setup::default().with("pool.bytes", "64 MiB"));
    let data = daemon.dir().join("data");
    // 200,000 lengths of four bytes are more than three rings of 256 KiB.
    write_shards(&data, &[200_000, 1], |_, record| vec![7; usize::try_from(record % 9).expect("small")]);
    let options = options(&pattern(&data)).batch_size(200_000).ready(2).epochs(2);
    let sizes: Vec<_> = batches(daemon.open(&options)).map(|batch| batch.expect("a batch").len()).collect();
    assert_eq!(sizes, [200_000, 1, 200_000, 1]);
    daemon.wait_until_idle();
}

#[test]
fn the_forced_thread_pool_and_a_cache_without_direct_io_serve_the_same() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { panic!("no /dev/shm") };
    let start = Instant::now();
    for (engine, said) in [("threads", "thread pool"), ("auto", "io_uring")] {
        let setup = tiny().with("io.engine", engine);
        let mut daemon = Daemon::start(setup.clone());
        let data = daemon.dir().join("data");
        write_shards(&data, &[60; 4], |shard, record| tagged(shard, record, 20_000));
        let expected: Vec<_> = (0..4).flat_map(|s| (0..60).map(move |r| tagged(s, r, 20_000))).collect();
        assert_same(
            &daemon.records(&options(&pattern(&data)).epochs(2)),
            &[&expected[..], &expected].concat(),
        );
        let status = daemon.wait_until_idle();
        assert!(status.io_engine.contains(said), "{}", status.io_engine);
        assert!(status.cache.expect("told").read_bytes > 0, "from disk");
        // The same directory, on a file system in memory.
        daemon.terminate();
        let cache = memory.path().join(engine);
        let mut setup = setup;
        setup.options.push(("cache.dir".to_owned(), cache.display().to_string()));
        daemon.restart_with(setup);
        assert_same(
            &daemon.records(&options(&pattern(&data)).epochs(2)),
            &[&expected[..], &expected].concat(),
        );
        let status = daemon.wait_until_idle();
        assert_eq!(status.cache.expect("told").dir, cache.display().to_string());
    }
    assert!(start.elapsed() < LIMIT * 4);
}
