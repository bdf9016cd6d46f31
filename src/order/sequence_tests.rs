use super::*;
use proptest::prelude::*;

fn mixing(shards: u64, run: u64, window: u64) -> Mixing {
    let number = |number| NonZeroU64::new(number).unwrap();
    Mixing { shards: number(shards), run: number(run), window: number(window) }
}

fn counts(records: &[u64], order: &EpochOrder) -> Counts {
    let mut counts = Counts::new(records.len() as u64);
    (0..records.len() as u64)
        .for_each(|slot| counts.learn(records[usize::try_from(order.shard_at(slot)).unwrap()]));
    counts
}

/// The whole epoch as (shard, record).
fn sequence(records: &[u64], shuffle: Shuffle, seed: u64, epoch: u64) -> Vec<(u64, u64)> {
    parted(records, shuffle, None, seed, epoch)
}

fn parted(records: &[u64], shuffle: Shuffle, parts: Option<Parts>, seed: u64, epoch: u64) -> Vec<(u64, u64)> {
    let order = EpochOrder::new(records.len() as u64, shuffle, parts, seed, epoch);
    assert!((0..order.shards()).all(|slot| order.slot_of(order.shard_at(slot)) == slot));
    let counts = counts(records, &order);
    let record = |position| match order.locate(position, &counts) {
        Located::At { slot, record } => {
            assert_eq!(order.position(slot, record, &counts), Some(position), "{shuffle:?}");
            (order.shard_at(slot), record)
        }
        other => panic!("position {position}: {other:?}"),
    };
    (0..records.iter().sum()).map(record).collect()
}

fn all(records: &[u64]) -> Vec<(u64, u64)> {
    (0..).zip(records).flat_map(|(shard, &count)| (0..count).map(move |record| (shard, record))).collect()
}

fn sorted(mut sequence: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    sequence.sort_unstable();
    sequence
}

#[test]
fn each_epoch_has_its_own_order_and_the_same_again() {
    let order = |epoch| {
        let order = EpochOrder::new(14, Shuffle::Shards, None, 9, epoch);
        (0..14).map(|slot| order.shard_at(slot)).collect::<Vec<_>>()
    };
    assert_eq!(order(0), order(0));
    assert!(order(0) != order(1) && order(1) != order(2) && order(0) != order(2));
    let mut sorted = order(2);
    sorted.sort_unstable();
    assert_eq!(sorted, (0..14).collect::<Vec<_>>());
    let order = EpochOrder::new(14, Shuffle::Shards, None, 9, 2);
    assert!((0..14).all(|slot| order.slot_of(order.shard_at(slot)) == slot));
}

#[test]
fn sequences_are_the_same_in_every_version() {
    let records = [3, 0, 5, 1, 4];
    let first = |shuffle| sequence(&records, shuffle, 7, 3)[..6].to_vec();
    assert_eq!(first(Shuffle::Sequential), [(0, 0), (0, 1), (0, 2), (2, 0), (2, 1), (2, 2)]);
    assert_eq!(first(Shuffle::Shards), SHARDS);
    assert_eq!(first(Shuffle::Blocks(mixing(3, 2, 5))), BLOCKS);
    assert_eq!(first(Shuffle::Full), FULL);
}

/// Made by another program, from the description in this folder's essay.
const SHARDS: [(u64, u64); 6] = [(3, 0), (0, 0), (0, 1), (0, 2), (2, 0), (2, 1)];
const BLOCKS: [(u64, u64); 6] = [(0, 2), (0, 1), (0, 0), (3, 0), (2, 2), (4, 3)];
const FULL: [(u64, u64); 6] = [(2, 1), (4, 2), (4, 1), (4, 3), (4, 0), (2, 4)];

#[test]
fn blocks_stay_within_their_group_and_runs_within_their_windows() {
    let records = vec![100; 20];
    let order = EpochOrder::new(20, Shuffle::Blocks(mixing(4, 10, 50)), None, 1, 0);
    let counts = counts(&records, &order);
    for position in 0..2_000 {
        let Located::At { slot, .. } = order.locate(position, &counts) else { panic!("known") };
        assert_eq!(slot / 4, position / 400, "position {position}");
    }
    // A window of five runs touches five places of ten records and no more.
    for window in 0..40 {
        let mut places: Vec<_> = (window * 50..window * 50 + 50)
            .map(|position| match order.locate(position, &counts) {
                Located::At { slot, record } => (slot, record / 10),
                other => panic!("{other:?}"),
            })
            .collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 5, "window {window}");
    }
}

#[test]
fn a_group_can_be_told_as_soon_as_its_shards_are_counted() {
    let order = EpochOrder::new(10, Shuffle::Blocks(mixing(4, 2, 8)), None, 1, 0);
    let mut counts = Counts::new(10);
    for slot in 0..10 {
        let certain = [0, 0, 0, 0, 12, 12, 12, 12, 24, 24][usize::try_from(slot).unwrap()];
        assert_eq!(order.certain(&counts), certain);
        if slot % 4 == 3 {
            counts.learn_at_least(2);
            assert_eq!(order.certain(&counts), certain, "a part of a shard is not enough");
            assert_eq!(order.locate(certain, &counts), Located::Unknown { slot });
        }
        counts.learn(3);
    }
    assert_eq!(order.certain(&counts), 30);
    assert_eq!((order.group(5), order.group(9)), ((4, 8), (8, 10)));
}

#[test]
fn each_part_gives_its_chunk_in_turn_and_keeps_its_shards_in_every_epoch() {
    let records = [50; 12];
    let number = |number| NonZeroU64::new(number).unwrap();
    let parts = Some(Parts { count: number(3), chunk: number(20) });
    for shuffle in [Shuffle::Shards, Shuffle::Blocks(mixing(2, 5, 20)), Shuffle::Full] {
        let mut of_part: Vec<Vec<Vec<u64>>> = Vec::new();
        for epoch in 0..3 {
            let sequence = parted(&records, shuffle, parts, 9, epoch);
            let shards = (0..3).map(|part| {
                let own = sequence.chunks(20).skip(part).step_by(3).flatten();
                let mut shards: Vec<u64> = own.map(|&(shard, _)| shard).collect();
                shards.sort_unstable();
                shards.dedup();
                shards
            });
            of_part.push(shards.collect());
        }
        assert!(of_part[0].iter().all(|shards| shards.len() == 4), "{of_part:?}");
        assert!(of_part.iter().all(|epoch| *epoch == of_part[0]), "{of_part:?}");
        let first = |epoch| parted(&records, shuffle, parts, 9, epoch)[..20].to_vec();
        assert_ne!(first(0), first(1), "a new order in each epoch");
    }
}

#[test]
fn parts_of_unequal_size_leave_a_rest_and_lose_nothing() {
    let number = |number| NonZeroU64::new(number).unwrap();
    let parts = Some(Parts { count: number(2), chunk: number(4) });
    // Parts of 5 and 13 records: one turn of four each, then the rests of 1 and 9.
    let sequence = parted(&[5, 0, 13, 0], Shuffle::Sequential, parts, 0, 0);
    assert_eq!(sequence[..4], [(0, 0), (0, 1), (0, 2), (0, 3)]);
    assert_eq!(sequence[4..8], [(2, 0), (2, 1), (2, 2), (2, 3)]);
    assert_eq!(sequence[8..10], [(0, 4), (2, 4)]);
    // More parts than shards.
    let parts = Some(Parts { count: number(7), chunk: number(4) });
    assert_eq!(sorted(parted(&[5, 3], Shuffle::Full, parts, 0, 0)), all(&[5, 3]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn every_record_comes_once_in_every_order(
        records in prop::collection::vec(0_u64..40, 1..12), seed in any::<u64>(), epoch in 0_u64..5,
        (shards, run, window) in (1_u64..14, 1_u64..20, 1_u64..50), (parts, chunk) in (1_u64..6, 1_u64..9),
    ) {
        for shuffle in [Shuffle::Sequential, Shuffle::Shards, Shuffle::Full, Shuffle::Blocks(mixing(shards, run, window))] {
            let whole = sequence(&records, shuffle, seed, epoch);
            prop_assert_eq!(sorted(whole), all(&records));
            let number = |number| NonZeroU64::new(number).unwrap();
            let parts = Some(Parts { count: number(parts), chunk: number(chunk) });
            prop_assert_eq!(sorted(parted(&records, shuffle, parts, seed, epoch)), all(&records));
        }
    }
}
