//! A dataset in parts, so that each node of a cluster reads and caches its own.
//!
//! The shards are divided into parts of equally many, the same in every epoch. The sequence takes `chunk` records of each
//! part in turn, so a global batch of `parts * chunk` records has equally many of each, and ranks that follow each other
//! read neighbouring parts. Once a part has less than a chunk left, what is left of all parts follows, part after part.
//! Records never leave their part but for that rest, and the order inside a part is new in each epoch.

use super::counts::Counts;
use std::num::NonZeroU64;

/// How a dataset is divided. Part of the order, like the seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// Number of parts.
    pub count: NonZeroU64,
    /// Records that are taken of each part in turn.
    pub chunk: NonZeroU64,
}

impl Parts {
    /// First slot of a part, of `shards` in all.
    fn first_slot(&self, part: u64, shards: u64) -> u64 {
        let place = u128::from(shards) * u128::from(part) / u128::from(self.count.get());
        u64::try_from(place).expect("at most the number of shards")
    }

    /// First slot of the part that the first turn takes `position` from.
    pub(super) fn slot_at_start(&self, position: u64, shards: u64) -> u64 {
        let slot = self.first_slot(position / self.chunk % self.count, shards);
        slot.min(shards.saturating_sub(1))
    }

    /// The part's slots that `slot` is one of: first, and one behind the last.
    pub(super) fn slots_around(&self, slot: u64, shards: u64) -> (u64, u64) {
        // The inverse of `first_slot`, rounded: the last part that starts at or before the slot.
        let part = u128::from(slot + 1) * u128::from(self.count.get());
        let part = u64::try_from(part.div_ceil(u128::from(shards)) - 1).expect("at most the number of parts");
        (self.first_slot(part, shards), self.first_slot(part + 1, shards))
    }
}

/// The parts' sizes in records: from a position to a place in part after part, and back.
#[derive(Debug)]
pub(super) struct PartCounts<'a> {
    parts: &'a Parts,
    shards: u64,
    counts: &'a Counts,
    /// Turns in which every part gives a whole chunk.
    turns: u64,
    total: u64,
}

impl<'a> PartCounts<'a> {
    /// `None` before all counts are known.
    pub(super) fn of(parts: &'a Parts, shards: u64, counts: &'a Counts) -> Option<Self> {
        let total = counts.total()?;
        let mut known = Self { parts, shards, counts, turns: 0, total };
        known.turns = (0..parts.count.get()).map(|part| known.records(part) / parts.chunk).min().unwrap_or(0);
        Some(known)
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    fn start(&self, part: u64) -> u64 {
        self.counts.start_of(self.parts.first_slot(part, self.shards)).unwrap_or(0)
    }

    fn records(&self, part: u64) -> u64 {
        self.start(part + 1) - self.start(part)
    }

    /// Records that each part gives in turns.
    fn even(&self) -> u64 {
        self.turns * self.parts.chunk.get()
    }

    /// Where a position lies when the parts stand one behind another.
    pub(super) fn to_place(&self, position: u64) -> u64 {
        let (count, chunk) = (self.parts.count.get(), self.parts.chunk.get());
        if position < self.even() * count {
            let (turn, within) = (position / (count * chunk), position % (count * chunk));
            return self.start(within / chunk) + turn * chunk + within % chunk;
        }
        let mut left = position - self.even() * count;
        for part in 0..count {
            let rest = self.records(part) - self.even();
            if left < rest {
                return self.start(part) + self.even() + left;
            }
            left -= rest;
        }
        unreachable!("positions lie below the total")
    }

    /// The inverse of [`Self::to_place`].
    pub(super) fn to_position(&self, place: u64) -> u64 {
        let (count, chunk) = (self.parts.count.get(), self.parts.chunk.get());
        let mut rests = 0;
        for part in 0..count {
            let (start, records) = (self.start(part), self.records(part));
            if place < start + records {
                let within = place - start;
                return match within.checked_sub(self.even()) {
                    None => within / chunk * (count * chunk) + part * chunk + within % chunk,
                    Some(rest) => self.even() * count + rests + rest,
                };
            }
            rests += records - self.even();
        }
        unreachable!("places lie below the total")
    }
}
