//! Ranks: equally many batches, each record to exactly one of them, in an order that nothing but the seed decides.

mod common;

use common::{Daemon, LIMIT, Setup, batches, pattern, tagged, write_shards};
use feedline_client::{Epochs, Error, Remainder, Shuffle, StreamOptions};
use std::path::Path;

const ALL: [Remainder; 3] = [Remainder::Drop, Remainder::Pad, Remainder::Partial];

fn payload(shard: u64, record: u64) -> Vec<u8> {
    tagged(shard, record, 40)
}

fn options(dir: &Path) -> StreamOptions {
    StreamOptions::new(pattern(dir))
}

/// A rank's batches of an epoch: own records and pads.
type Epoch = Vec<(Vec<Vec<u8>>, Vec<Vec<u8>>)>;

/// Reads all ranks at once; for each rank its epochs.
fn read_ranks(daemons: &[&Daemon], options: &StreamOptions, ranks: u32) -> Vec<Vec<Epoch>> {
    let streams: Vec<_> = (0..ranks)
        .map(|rank| daemons[rank as usize % daemons.len()].open(&options.clone().rank(rank, ranks)))
        .collect();
    let readers = streams.into_iter().map(|stream| {
        std::thread::spawn(move || {
            let mut epochs: Vec<Epoch> = Vec::new();
            for batch in batches(stream) {
                let batch = batch.expect("a batch");
                let epoch = usize::try_from(batch.epoch()).expect("few epochs");
                epochs.resize_with(epochs.len().max(epoch + 1), Vec::new);
                assert!(batch.len() > 0, "an empty batch");
                assert_eq!(batch.global_batch(), epochs[epoch].len() as u64);
                let mut records: Vec<Vec<u8>> = batch.iter().map(<[u8]>::to_vec).collect();
                let pads = records.split_off(batch.len() - batch.pads());
                epochs[epoch].push((records, pads));
            }
            epochs
        })
    });
    let readers: Vec<_> = readers.collect();
    readers.into_iter().map(|reader| reader.join().expect("a rank")).collect()
}

/// Checks that the ranks' epoch is the dataset, dealt out.
fn assert_dealt(ranks: &[Vec<Epoch>], epoch: usize, all: &[Vec<u8>], batch: usize, remainder: Remainder) {
    let what = format!("{remainder:?}, epoch {epoch}");
    let count = ranks[0][epoch].len();
    assert!(ranks.iter().all(|rank| rank[epoch].len() == count), "{what}: unequal batch counts");
    let global = batch * ranks.len();
    let expected = if remainder == Remainder::Drop { all.len() / global } else { all.len().div_ceil(global) };
    assert_eq!(count, expected, "{what}");
    let mut seen = Vec::new();
    for number in 0..count {
        for rank in ranks {
            let (own, pads) = &rank[epoch][number];
            let full = own.len() + pads.len() == batch;
            assert!(full || (remainder == Remainder::Partial && number + 1 == count), "{what}");
            assert!(pads.is_empty() || number + 1 == count, "{what}");
            assert!(pads.iter().all(|pad| all.contains(pad)), "{what}");
            seen.extend(own.iter().cloned());
        }
    }
    if remainder == Remainder::Drop {
        assert_eq!(seen, all[..count * global], "{what}");
    } else {
        assert_eq!(seen, all, "{what}: in the order of the sequence, each once");
    }
}

fn expected(counts: &[u64]) -> Vec<Vec<u8>> {
    (0..)
        .zip(counts)
        .flat_map(|(shard, &count)| (0..count).map(move |record| payload(shard, record)))
        .collect()
}

#[test]
fn uneven_shards_over_any_number_of_ranks_cold_and_warm() {
    let daemon = Daemon::start(Setup::default());
    let cases: [(&str, &[u64], u32, u32); 5] = [
        ("uneven", &[10, 20, 30, 1, 39], 3, 4),
        ("one shard", &[100], 4, 7),
        ("more ranks than records", &[2, 3], 8, 2),
        ("empty shards", &[5, 0, 9, 0, 0, 4, 7, 1, 0, 3, 2, 8, 0, 6, 5, 5], 4, 3),
        ("single records", &[1, 1, 1, 1, 1, 1, 1, 1], 2, 2),
    ];
    for (name, counts, ranks, batch) in cases {
        for remainder in ALL {
            let all = expected(counts);
            let batch_size = usize::try_from(batch).expect("small");
            if remainder == Remainder::Drop && all.len() < batch_size * ranks as usize {
                continue;
            }
            // A folder of its own for each, so that the first time is cold.
            let dir = daemon.dir().join(format!("{name}-{remainder:?}"));
            write_shards(&dir, counts, payload);
            let options = options(&dir).batch_size(batch).remainder(remainder).epochs(3);
            for state in ["cold", "warm"] {
                let read = read_ranks(&[&daemon], &options, ranks);
                for epoch in 0..3 {
                    assert_dealt(&read, epoch, &all, batch_size, remainder);
                }
                daemon.wait_until_idle();
                let stream = daemon.open(&options.clone().rank(0, ranks));
                assert_eq!(stream.records(), Some(all.len() as u64), "{name} {state}: known now");
                assert_eq!(stream.batches(), Some(read[0][0].len() as u64), "{name} {state}");
            }
        }
    }
}

#[test]
fn counts_are_unknown_before_and_a_dataset_that_fills_no_batch_is_an_error() {
    let daemon = Daemon::start(Setup::default());
    let dir = daemon.dir().join("d");
    write_shards(&dir, &[4, 6], payload);
    let mut stream = daemon.open(&options(&dir).batch_size(4).rank(1, 8));
    assert_eq!((stream.records(), stream.batches()), (None, None));
    let error = stream.next_batch_within(LIMIT).expect_err("nothing fits");
    let Error::Daemon(error) = error else { panic!("{error}") };
    assert!(error.message.contains("10 records") && error.message.contains("32"), "{error}");
    assert!(error.hint.is_some_and(|hint| hint.contains("partial")));

    let empty = daemon.dir().join("empty");
    write_shards(&empty, &[0, 0, 0], payload);
    let error = daemon.try_open(&options(&empty).epochs(Epochs::Forever)).expect_err("no records");
    assert!(error.to_string().contains("no records in 3 objects"), "{error}");
}

#[test]
fn the_shuffled_order_depends_on_the_seed_and_the_epoch_alone() {
    let counts: Vec<u64> = (0..14).map(|shard| 3 + shard % 5).collect();
    let mut daemons = Vec::new();
    for threads in ["1", "8"] {
        let daemon = Daemon::start(Setup::default().with("prefetch.threads", threads));
        write_shards(&daemon.dir().join("d"), &counts, payload);
        daemons.push(daemon);
    }
    let order = |daemon: &Daemon, seed: u64| {
        let options = options(&daemon.dir().join("d")).shuffle(Shuffle::Shards).seed(seed).epochs(3);
        daemon.records(&options.batch_size(5).remainder(Remainder::Partial))
    };
    let cold = order(&daemons[0], 7);
    assert_eq!(cold, order(&daemons[0], 7), "cold and warm");
    assert_eq!(cold, order(&daemons[1], 7), "one thread and eight, on another daemon");
    assert_ne!(cold, order(&daemons[0], 8), "another seed");
    let size = usize::try_from(counts.iter().sum::<u64>()).expect("small");
    let epochs: Vec<&[Vec<u8>]> = cold.chunks(size).collect();
    assert!(epochs[0] != epochs[1] && epochs[1] != epochs[2] && epochs[0] != epochs[2]);
    for epoch in epochs {
        let mut sorted = epoch.to_vec();
        let mut all = expected(&counts);
        sorted.sort();
        all.sort();
        assert_eq!(sorted, all);
    }
}

#[test]
fn the_ranks_of_a_job_on_two_daemons_and_several_jobs_on_one() {
    let (first, second) = (Daemon::start(Setup::default()), Daemon::start(Setup::default()));
    let counts = [30, 41, 7, 22];
    let dir = first.dir().join("d");
    write_shards(&dir, &counts, payload);
    let all = expected(&counts);
    let read =
        read_ranks(&[&first, &second], &options(&dir).batch_size(6).remainder(Remainder::Pad).epochs(2), 3);
    (0..2).for_each(|epoch| assert_dealt(&read, epoch, &all, 6, Remainder::Pad));

    std::thread::scope(|scope| {
        for (ranks, batch, remainder) in
            [(1, 100, Remainder::Partial), (2, 9, Remainder::Drop), (5, 3, Remainder::Pad)]
        {
            let (first, all, dir) = (&first, &all, &dir);
            scope.spawn(move || {
                let options = options(dir).batch_size(batch).remainder(remainder);
                let read = read_ranks(&[first], &options, ranks);
                assert_dealt(&read, 0, all, usize::try_from(batch).expect("small"), remainder);
            });
        }
    });
    first.wait_until_idle();
    second.wait_until_idle();
}

#[test]
fn for_ever_is_for_ever_and_a_rank_that_stops_early_hurts_nobody() {
    let daemon = Daemon::start(Setup::default());
    let dir = daemon.dir().join("d");
    write_shards(&dir, &[25, 35], payload);
    let forever = options(&dir).batch_size(10).epochs(Epochs::Forever);
    let mut early = daemon.open(&forever.clone().rank(1, 2));
    let mut patient = daemon.open(&forever.rank(0, 2));
    for _ in 0..3 {
        early.next_batch_within(LIMIT).expect("a batch");
    }
    drop(early);
    for number in 0..1_000_u64 {
        let batch = patient.next_batch_within(LIMIT).expect("a batch").expect("no end");
        assert_eq!((batch.epoch(), batch.global_batch(), batch.len()), (number / 3, number % 3, 10));
    }
    drop(patient);
    daemon.wait_until_idle();
}

#[test]
fn records_passed_over_leave_the_ranks_equal() {
    let daemon = Daemon::start(Setup::default());
    let dir = daemon.dir().join("d");
    let paths = write_shards(&dir, &[20, 20, 20], payload);
    let mut bytes = std::fs::read(&paths[1]).expect("a shard");
    bytes[20] ^= 1;
    std::fs::write(&paths[1], bytes).expect("a shard");
    let mut all = expected(&[20, 20, 20]);
    all.remove(20);
    let options = options(&dir).batch_size(4).skip_corrupt(1).epochs(2);
    for remainder in ALL {
        let read = read_ranks(&[&daemon], &options.clone().remainder(remainder), 3);
        (0..2).for_each(|epoch| assert_dealt(&read, epoch, &all, 4, remainder));
    }
}
