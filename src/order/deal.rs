//! Global batches, and each rank's part of them.

use std::ops::Range;

/// What becomes of the records that do not fill the last global batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Remainder {
    /// They are left out.
    #[default]
    Drop,
    /// The batch is filled up with the epoch's first records, from its start and over again, marked as pads.
    Pad,
    /// They are shared out as evenly as possible; a rank that would get none gets one pad.
    Partial,
}

/// How a job's records are dealt to one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deal {
    /// Records per rank and batch, at least 1 and below 2^32.
    pub batch_size: u64,
    /// Number of ranks, at least 1 and below 2^32.
    pub world_size: u64,
    /// This rank, below `world_size`.
    pub rank: u64,
    /// Rule for the last batch.
    pub remainder: Remainder,
}

/// One rank's part of a global batch: never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Positions of the records that are this rank's own.
    pub own: Range<u64>,
    /// Positions of records repeated to fill up, in order.
    pub pads: Vec<u64>,
}

impl Deal {
    /// Records of a global batch.
    pub fn global_batch(&self) -> u64 {
        self.batch_size * self.world_size
    }

    /// Batches of an epoch of `total` records; the same on every rank.
    pub fn batches(&self, total: u64) -> u64 {
        match self.remainder {
            Remainder::Drop => total / self.global_batch(),
            Remainder::Pad | Remainder::Partial => total.div_ceil(self.global_batch()),
        }
    }

    /// This rank's part of global batch `batch` when that batch is full.
    pub fn full(&self, batch: u64) -> Range<u64> {
        let start = batch * self.global_batch() + self.rank * self.batch_size;
        start..start + self.batch_size
    }

    /// This rank's part of global batch `batch` in an epoch of `total` records; `None` behind the last batch.
    pub fn share(&self, batch: u64, total: u64) -> Option<Share> {
        self.share_from(0, batch, total)
    }

    /// As [`Self::share`], for an epoch that is gone on with at position `from`, where batch 0 begins. Pads still repeat the
    /// records at the epoch's start.
    pub fn share_from(&self, from: u64, batch: u64, total: u64) -> Option<Share> {
        if batch >= self.batches(total.saturating_sub(from)) {
            return None;
        }
        let start = from + batch * self.global_batch();
        let left = total - start;
        if left >= self.global_batch() {
            let own = self.full(batch);
            return Some(Share { own: from + own.start..from + own.end, pads: Vec::new() });
        }
        let share = match self.remainder {
            Remainder::Drop => return None,
            Remainder::Pad => {
                let own =
                    (self.rank * self.batch_size).min(left)..((self.rank + 1) * self.batch_size).min(left);
                // Pads are numbered over the ranks, so that no two ranks get the same one while there are others.
                let first = (self.rank * self.batch_size).max(left) - left;
                let count = self.batch_size - (own.end - own.start);
                let pads = (first..first + count).map(|pad| pad % total).collect();
                Share { own: start + own.start..start + own.end, pads }
            }
            Remainder::Partial => {
                let (each, more) = (left / self.world_size, left % self.world_size);
                let first = self.rank * each + self.rank.min(more);
                let count = each + u64::from(self.rank < more);
                let pads = if count == 0 { vec![(self.rank - more) % total] } else { Vec::new() };
                Share { own: start + first..start + first + count, pads }
            }
        };
        Some(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Remainder; 3] = [Remainder::Drop, Remainder::Pad, Remainder::Partial];

    fn deal(batch_size: u64, world_size: u64, rank: u64, remainder: Remainder) -> Deal {
        Deal { batch_size, world_size, rank, remainder }
    }

    #[test]
    fn counts_from_the_field() {
        // An exact multiple has no extra batch, and a large odd count gives the count that iteration yields.
        assert!(ALL.iter().all(|&remainder| deal(8, 1, 0, remainder).batches(24) == 3));
        assert_eq!(deal(200, 6, 0, Remainder::Drop).batches(17_091_657), 14_243);
        assert_eq!(deal(200, 6, 0, Remainder::Partial).batches(17_091_657), 14_244);
        let sizes: Vec<u64> = (0..3)
            .map(|batch| deal(16, 1, 0, Remainder::Partial).share(batch, 42).unwrap().own.count() as u64)
            .collect();
        assert_eq!(sizes, [16, 16, 10]);
        assert!(deal(16, 1, 0, Remainder::Partial).share(3, 42).is_none());
        assert!(ALL.iter().all(|&remainder| deal(4, 2, 1, remainder).share(0, 0).is_none()));
    }

    /// Own records and pads of every batch of every rank.
    fn sizes(batch_size: u64, world_size: u64, total: u64, remainder: Remainder) -> Vec<Vec<(u64, u64)>> {
        let of = |rank| {
            let deal = deal(batch_size, world_size, rank, remainder);
            let share = |batch| deal.share(batch, total).expect("there are so many batches");
            let size = |share: Share| (share.own.end - share.own.start, share.pads.len() as u64);
            (0..deal.batches(total)).map(|batch| size(share(batch))).collect()
        };
        (0..world_size).map(of).collect()
    }

    #[test]
    fn one_shard_over_four_ranks_is_split_by_record() {
        let ranks = sizes(10, 4, 1000, Remainder::Drop);
        assert!(ranks.iter().all(|batches| batches[..] == [(10, 0); 25]));
    }

    #[test]
    fn uneven_shards_give_all_ranks_the_same_number_of_batches() {
        // Shards of 10, 20, 30, 1 and 39 records: only their sum counts. The last global batch has 4 of 12.
        assert!(sizes(4, 3, 100, Remainder::Drop).iter().all(|batches| batches[..] == [(4, 0); 8]));
        let last = |remainder| {
            let ranks = sizes(4, 3, 100, remainder);
            assert!(ranks.iter().all(|batches| batches.len() == 9 && batches[..8] == [(4, 0); 8]));
            ranks.iter().map(|batches| batches[8]).collect::<Vec<_>>()
        };
        assert_eq!(last(Remainder::Pad), [(4, 0), (0, 4), (0, 4)]);
        assert_eq!(last(Remainder::Partial), [(2, 0), (1, 0), (1, 0)]);
    }

    #[test]
    fn only_the_final_batch_may_be_short() {
        for (total, batch_size, world_size) in [(100, 4, 8), (200, 8, 8)] {
            let ranks = sizes(batch_size, world_size, total, Remainder::Partial);
            assert_eq!(ranks.iter().flatten().map(|(own, _)| own).sum::<u64>(), total);
            // 4 records are left of 100: four ranks get one each, the others a pad.
            assert!(ranks.iter().flatten().all(|&(own, pads)| pads == u64::from(own == 0)));
            assert!(ranks.iter().all(|batches| batches[..3] == [(batch_size, 0); 3]));
            for batch in sizes(batch_size, world_size, total, Remainder::Drop).iter().flatten() {
                assert_eq!(*batch, (batch_size, 0));
            }
        }
    }

    #[test]
    fn ten_records_over_four_ranks_of_three_repeat_only_as_pads() {
        let shares: Vec<Share> =
            (0..4).map(|rank| deal(3, 4, rank, Remainder::Pad).share(0, 10).unwrap()).collect();
        assert_eq!(shares[2], Share { own: 6..9, pads: vec![] });
        assert_eq!(shares[3], Share { own: 9..10, pads: vec![0, 1] });
    }

    #[test]
    fn steps_of_an_epoch_depend_on_ranks_and_batch_size_alone() {
        assert!(ALL.iter().all(|&remainder| deal(20, 2, 1, remainder).batches(8000) == 200));
    }

    #[test]
    fn a_global_batch_is_the_same_for_all_worlds_of_its_size() {
        for (batch_size, world_size) in [(12, 1), (6, 2), (3, 4), (1, 12)] {
            let of = |rank| deal(batch_size, world_size, rank, Remainder::Drop).share(5, 1000).unwrap().own;
            assert_eq!((0..world_size).flat_map(of).collect::<Vec<_>>(), (60..72).collect::<Vec<_>>());
        }
    }

    #[test]
    fn more_ranks_than_records() {
        let shares =
            |remainder| (0..8).map(|rank| deal(3, 8, rank, remainder).share(0, 2)).collect::<Vec<_>>();
        assert!(shares(Remainder::Drop).iter().all(Option::is_none));
        for share in shares(Remainder::Partial).into_iter().flatten() {
            assert_eq!(share.own.count() + share.pads.len(), 1);
        }
        for share in shares(Remainder::Pad).into_iter().flatten() {
            assert_eq!(share.own.count() + share.pads.len(), 3);
        }
    }

    proptest! {
        #[test]
        fn a_job_that_stops_and_goes_on_with_other_ranks_sees_every_record_once(
            (batch_size, world_size) in (1_u64..9, 1_u64..9), total in 0_u64..300, stop in 0_u64..40,
            (new_batch, new_world) in (1_u64..9, 1_u64..9),
        ) {
            for remainder in [Remainder::Pad, Remainder::Partial] {
                let before = deal(batch_size, world_size, 0, remainder);
                let stop = stop.min(before.batches(total));
                let from = (stop * before.global_batch()).min(total);
                let mut seen: Vec<u64> = Vec::new();
                for rank in 0..world_size {
                    let deal = deal(batch_size, world_size, rank, remainder);
                    seen.extend((0..stop).flat_map(|batch| deal.share(batch, total).unwrap().own));
                }
                for rank in 0..new_world {
                    let deal = deal(new_batch, new_world, rank, remainder);
                    let batches = deal.batches(total - from);
                    seen.extend((0..batches).flat_map(|batch| deal.share_from(from, batch, total).unwrap().own));
                    prop_assert!(deal.share_from(from, batches, total).is_none());
                }
                seen.sort_unstable();
                prop_assert_eq!(seen, (0..total).collect::<Vec<_>>());
            }
        }

        #[test]
        fn every_record_goes_to_one_rank_and_all_ranks_are_equal(
            batch_size in 1_u64..9, world_size in 1_u64..9, total in 0_u64..300,
        ) {
            for remainder in ALL {
                let (mut seen, mut last) = (Vec::new(), Vec::new());
                let batches = deal(batch_size, world_size, 0, remainder).batches(total);
                for rank in 0..world_size {
                    let deal = deal(batch_size, world_size, rank, remainder);
                    prop_assert_eq!(deal.batches(total), batches);
                    for batch in 0..batches {
                        let share = deal.share(batch, total).unwrap();
                        if batch + 1 == batches {
                            last.push(share.clone());
                        }
                        let size = share.own.clone().count() + share.pads.len();
                        prop_assert!(size > 0 && size as u64 <= batch_size);
                        prop_assert!(remainder == Remainder::Partial || size as u64 == batch_size);
                        prop_assert!(share.pads.iter().all(|&pad| pad < total));
                        prop_assert!(batch + 1 == batches || share.pads.is_empty());
                        seen.extend(share.own);
                    }
                    prop_assert!(deal.share(batches, total).is_none());
                }
                // In the last batch own records come first, rank by rank, and pads go round from the epoch's start.
                let pads: Vec<u64> = last.iter().flat_map(|share| share.pads.iter().copied()).collect();
                let round: Vec<u64> = (0..total).cycle().take(pads.len()).collect();
                prop_assert_eq!(pads, round);
                let counts = last.iter().map(|share| share.own.end - share.own.start);
                let spread = counts.clone().max().unwrap_or(0) - counts.min().unwrap_or(0);
                prop_assert!(remainder == Remainder::Pad || spread <= 1);
                let owners = last.iter().filter(|share| !share.own.is_empty());
                prop_assert!(owners.is_sorted_by_key(|share| share.own.start));
                seen.sort_unstable();
                let expected = if remainder == Remainder::Drop { batches * batch_size * world_size } else { total };
                prop_assert_eq!(seen, (0..expected).collect::<Vec<_>>());
            }
        }
    }
}
