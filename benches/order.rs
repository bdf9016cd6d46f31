//! How well each order mixes, and what it costs. Prints tables: `cargo bench --bench order`.
//!
//! The dataset is the worst case: shards sorted by label, one label each. Beside Feedline's orders stand a true
//! permutation (Fisher-Yates) and what tf.data does with shuffled shards and a shuffle buffer of 10,000 records: the buffer
//! is filled in order, each draw takes a random place, and the next record takes that place.
#![allow(clippy::print_stdout, reason = "the result of a benchmark")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]

use feedline::order::{Counts, EpochOrder, Located, Mixing, Parts, Shuffle};
use std::hint::black_box;
use std::num::NonZeroU64;
use std::time::Instant;

const SHARDS: u64 = 100;
const PER_SHARD: u64 = 1_000;
const BATCH: usize = 256;
const BUFFER: usize = 10_000;
const EPOCHS: u64 = 10;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^= value >> 31;
        usize::try_from((u128::from(value) * limit as u128) >> 64).expect("below the limit")
    }
}

fn number(number: u64) -> NonZeroU64 {
    NonZeroU64::new(number).expect("not zero")
}

/// The epoch as record numbers; the label of a record is its shard.
fn ours(shuffle: Shuffle, parts: Option<Parts>, epoch: u64) -> Vec<u64> {
    let order = EpochOrder::new(SHARDS, shuffle, parts, 1, epoch);
    let mut counts = Counts::new(SHARDS);
    (0..SHARDS).for_each(|_| counts.learn(PER_SHARD));
    let record = |position| match order.locate(position, &counts) {
        Located::At { slot, record } => order.shard_at(slot) * PER_SHARD + record,
        other => panic!("{other:?}"),
    };
    (0..SHARDS * PER_SHARD).map(record).collect()
}

fn true_permutation(epoch: u64) -> Vec<u64> {
    let mut random = Random(epoch);
    let mut all: Vec<u64> = (0..SHARDS * PER_SHARD).collect();
    (1..all.len()).rev().for_each(|at| all.swap(at, random.below(at + 1)));
    all
}

fn shards_and_buffer(epoch: u64) -> Vec<u64> {
    let mut random = Random(!epoch);
    let mut shards: Vec<u64> = (0..SHARDS).collect();
    (1..shards.len()).rev().for_each(|at| shards.swap(at, random.below(at + 1)));
    let mut source =
        shards.into_iter().flat_map(|shard| (0..PER_SHARD).map(move |record| shard * PER_SHARD + record));
    let mut buffer: Vec<u64> = source.by_ref().take(BUFFER).collect();
    let mut out = Vec::new();
    while !buffer.is_empty() {
        let at = random.below(buffer.len());
        out.push(match source.next() {
            Some(next) => std::mem::replace(&mut buffer[at], next),
            None => buffer.swap_remove(at),
        });
    }
    out
}

/// Mean length of runs of one label.
fn run_length(sequence: &[u64]) -> f64 {
    let changes = sequence.windows(2).filter(|pair| pair[0] / PER_SHARD != pair[1] / PER_SHARD).count();
    sequence.len() as f64 / (changes + 1) as f64
}

/// Chi-square of the labels of a batch over its degrees of freedom, mean over all whole batches: 1 if drawn at random.
fn chi_square(sequence: &[u64]) -> f64 {
    let expected = BATCH as f64 / SHARDS as f64;
    let batches = sequence.chunks_exact(BATCH).map(|batch| {
        let mut counts = vec![0_u32; usize::try_from(SHARDS).expect("few")];
        batch.iter().for_each(|record| counts[usize::try_from(record / PER_SHARD).expect("few")] += 1);
        counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum::<f64>()
            / (SHARDS - 1) as f64
    });
    let values: Vec<f64> = batches.collect();
    values.iter().sum::<f64>() / values.len() as f64
}

/// Rank correlation (Spearman) of the records' positions in two epochs: 0 if the epochs have nothing in common.
fn correlation(one: &[u64], other: &[u64]) -> f64 {
    let mut place = vec![0_usize; one.len()];
    other.iter().enumerate().for_each(|(at, &record)| place[usize::try_from(record).expect("few")] = at);
    let squares = one
        .iter()
        .enumerate()
        .map(|(at, &record)| (at as f64 - place[usize::try_from(record).expect("few")] as f64).powi(2));
    let n = one.len() as f64;
    1.0 - 6.0 * squares.sum::<f64>() / (n * (n * n - 1.0))
}

fn quality(name: &str, epoch: impl Fn(u64) -> Vec<u64>) {
    let epochs: Vec<Vec<u64>> = (0..EPOCHS).map(epoch).collect();
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let runs = mean(epochs.iter().map(|epoch| run_length(epoch)).collect());
    let chi = mean(epochs.iter().map(|epoch| chi_square(epoch)).collect());
    let correlations: Vec<f64> =
        epochs.windows(2).map(|pair| correlation(&pair[0], &pair[1]).abs()).collect();
    println!("| {name} | {runs:.2} | {chi:.2} | {:.3} |", mean(correlations));
}

fn cost(name: &str, shuffle: Shuffle, shards: u64, per_shard: u64) {
    let start = Instant::now();
    let order = EpochOrder::new(shards, shuffle, None, 1, 0);
    let mut counts = Counts::new(shards);
    (0..shards).for_each(|_| counts.learn(per_shard));
    let made = start.elapsed();
    let place = shards * per_shard / 10 * 9;
    let start = Instant::now();
    for position in place..place + 100_000 {
        black_box(order.locate(position, &counts));
    }
    let each = start.elapsed().as_nanos() / 100_000;
    println!("| {name} | {:.1} | {each} |", made.as_secs_f64() * 1e3);
}

fn main() {
    println!(
        "{SHARDS} shards of {PER_SHARD} records, one label each, batches of {BATCH}, means over {EPOCHS} epochs\n"
    );
    println!(
        "| order | mean run of one label | chi-square of a batch's labels / d.f. | rank correlation between epochs |"
    );
    println!("| --- | --- | --- | --- |");
    let mixing = |shards, run, window| {
        Shuffle::Blocks(Mixing { shards: number(shards), run: number(run), window: number(window) })
    };
    let parts = |count| Some(Parts { count: number(count), chunk: number(BATCH as u64 / count) });
    quality("true permutation", true_permutation);
    quality("full", |epoch| ours(Shuffle::Full, None, epoch));
    quality("blocks, 100 shards", |epoch| ours(mixing(100, 32, 4_096), None, epoch));
    quality("blocks, 16 shards", |epoch| ours(mixing(16, 32, 4_096), None, epoch));
    quality("blocks (32 shards, the default)", |epoch| ours(Shuffle::Blocks(Mixing::default()), None, epoch));
    quality("tf.data's shards and buffer of 10,000", shards_and_buffer);
    quality("shards", |epoch| ours(Shuffle::Shards, None, epoch));
    quality("sequential", |epoch| ours(Shuffle::Sequential, None, epoch));
    quality("full, sticky on 4 nodes", |epoch| ours(Shuffle::Full, parts(4), epoch));
    quality("blocks, sticky on 4 nodes", |epoch| ours(Shuffle::Blocks(Mixing::default()), parts(4), epoch));
    quality("shards, sticky on 4 nodes", |epoch| ours(Shuffle::Shards, parts(4), epoch));
    println!("\n1,000,000 shards of 1,000 records\n");
    println!("| order | made in, ms | a record at 90 % found in, ns |");
    println!("| --- | --- | --- |");
    for (name, shuffle) in [
        ("sequential", Shuffle::Sequential),
        ("shards", Shuffle::Shards),
        ("blocks", Shuffle::Blocks(Mixing::default())),
        ("full", Shuffle::Full),
    ] {
        cost(name, shuffle, 1_000_000, 1_000);
    }
}
