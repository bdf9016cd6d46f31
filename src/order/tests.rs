//! The parts of this folder together: jobs that stop and go on, over any dataset.

use super::*;
use proptest::prelude::*;
use std::num::NonZeroU64;

fn number(number: u64) -> NonZeroU64 {
    NonZeroU64::new(number).unwrap()
}

/// A batch as one rank sees it: its own records, as shard and record, and the number of its pads.
type Seen = (Vec<(u64, u64)>, usize);

/// What ranks see of an epoch from `from` on, batch by batch.
fn run(
    order: &EpochOrder,
    counts: &Counts,
    (ranks, batch_size): (u64, u64),
    remainder: Remainder,
    from: u64,
    batches: u64,
) -> Vec<Vec<Seen>> {
    let total = counts.total().unwrap();
    let record = |position| match order.locate(position, counts) {
        Located::At { slot, record } => (order.shard_at(slot), record),
        other => panic!("{other:?}"),
    };
    let rank = |rank| {
        let deal = Deal { batch_size, world_size: ranks, rank, remainder };
        let shares = (0..batches).map_while(|batch| deal.share_from(from, batch, total));
        shares.map(|share| (share.own.map(record).collect(), share.pads.len())).collect()
    };
    (0..ranks).map(rank).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]
    #[test]
    fn any_job_that_stops_anywhere_and_goes_on_with_any_ranks_sees_every_record_once(
        records in prop::collection::vec(0_u64..30, 1..14),
        (seed, epoch) in (any::<u64>(), 0_u64..100),
        shuffle in prop_oneof![
            Just(Shuffle::Sequential),
            Just(Shuffle::Shards),
            Just(Shuffle::Full),
            (1_u64..20, 1_u64..12, 1_u64..60).prop_map(|(shards, run, window)| {
                Shuffle::Blocks(Mixing { shards: number(shards), run: number(run), window: number(window) })
            }),
        ],
        parts in prop::option::of((1_u64..6, 1_u64..12)),
        (before, after) in ((1_u64..8, 1_u64..9), (1_u64..8, 1_u64..9)),
        remainder in prop_oneof![Just(Remainder::Drop), Just(Remainder::Pad), Just(Remainder::Partial)],
        stop in 0_u64..30,
    ) {
        let parts = parts.map(|(count, chunk)| Parts { count: number(count), chunk: number(chunk) });
        let order = EpochOrder::new(records.len() as u64, shuffle, parts, seed, epoch);
        let mut counts = Counts::new(records.len() as u64);
        for slot in 0..records.len() as u64 {
            counts.learn(records[usize::try_from(order.shard_at(slot)).unwrap()]);
        }
        let total: u64 = records.iter().sum();
        let first = run(&order, &counts, before, remainder, 0, stop);
        let done = first[0].len() as u64;
        let from = (done * before.0 * before.1).min(total);
        let second = run(&order, &counts, after, remainder, from, u64::MAX);
        let mut seen = Vec::new();
        for ranks in [&first, &second] {
            prop_assert!(ranks.iter().all(|rank| rank.len() == ranks[0].len()), "unequal counts");
            for (own, pads) in ranks.iter().flatten() {
                prop_assert!(!own.is_empty() || *pads > 0, "an empty batch");
                prop_assert!(remainder != Remainder::Drop || *pads == 0);
                seen.extend(own.iter().copied());
            }
        }
        let left_out = if remainder == Remainder::Drop { (total - from) % (after.0 * after.1) } else { 0 };
        prop_assert_eq!(seen.len() as u64, total - left_out);
        let again = run(&order, &counts, after, remainder, from, u64::MAX);
        prop_assert_eq!(again, second, "not the same again");
        seen.sort_unstable();
        seen.dedup();
        prop_assert_eq!(seen.len() as u64, total - left_out, "a record twice");
        prop_assert!(seen.iter().all(|&(shard, record)| record < records[usize::try_from(shard).unwrap()]));
    }
}
