//! The sequence of an epoch: from a position to a record, and back.

use super::counts::{Counts, Located};
use super::parts::{PartCounts, Parts};
use super::permutation::{Permutation, epoch_key, sub_key};
use std::num::NonZeroU64;

/// How far `Shuffle::Blocks` mixes. Part of the order: a job goes on only with the numbers that it began with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mixing {
    /// Shards of a group: the mixing radius. Only within its group does a record move. This many shards are opened
    /// before the first batch.
    pub shards: NonZeroU64,
    /// Records that stay together when a group is shuffled: how much is read at one place.
    pub run: NonZeroU64,
    /// Records of neighbouring runs that are shuffled singly. What a batch can touch is `window / run` places.
    pub window: NonZeroU64,
}

impl Default for Mixing {
    /// 32 shards, runs of 32 records, windows of 4,096: 128 places at a time.
    fn default() -> Self {
        let number = |number| NonZeroU64::new(number).expect("not zero");
        Self { shards: number(32), run: number(32), window: number(4_096) }
    }
}

/// How an epoch's sequence is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shuffle {
    /// Shards by key, bytewise; the same in every epoch.
    #[default]
    Sequential,
    /// Shards permuted anew in each epoch; the records of a shard as they stand.
    Shards,
    /// Shards permuted, runs of records permuted within groups of shards, records permuted within windows.
    Blocks(Mixing),
    /// One permutation of all records.
    Full,
}

impl Shuffle {
    /// Whether neighbours in the sequence are neighbours in a shard.
    pub fn keeps_records_together(&self) -> bool {
        matches!(self, Self::Sequential | Self::Shards)
    }
}

/// The order of one epoch. A *slot* is a place of a shard in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochOrder {
    shards: u64,
    shuffle: Shuffle,
    parts: Option<Parts>,
    /// Which shards make which part; the same in every epoch. Without parts the identity.
    membership: Option<Permutation>,
    shard_key: u64,
    record_key: u64,
}

impl EpochOrder {
    /// The order of `shards` shards (numbered by key) in epoch `epoch`.
    pub fn new(shards: u64, shuffle: Shuffle, parts: Option<Parts>, seed: u64, epoch: u64) -> Self {
        // Neighbouring keys are often alike, so a part is drawn from all over the dataset; but what is sequential stays so.
        let membership = (parts.is_some() && shuffle != Shuffle::Sequential)
            .then(|| Permutation::new(shards, epoch_key(seed, 0, "parts")));
        Self {
            shards,
            shuffle,
            parts,
            membership,
            shard_key: epoch_key(seed, epoch, "shards"),
            record_key: epoch_key(seed, epoch, "records"),
        }
    }

    /// Slots of the part that `slot` belongs to: first, and one behind the last.
    fn part_of(&self, slot: u64) -> (u64, u64) {
        self.parts.map_or((0, self.shards), |parts| parts.slots_around(slot, self.shards))
    }

    /// Key and first slot of the permutation of the shards of the slot's part.
    fn shard_permutation(&self, slot: u64) -> Option<(u64, Permutation)> {
        match self.shuffle {
            // A permutation of all records has no use for one of the shards.
            Shuffle::Sequential | Shuffle::Full => None,
            Shuffle::Shards | Shuffle::Blocks(_) => {
                let (first, end) = self.part_of(slot);
                let key = if first == 0 { self.shard_key } else { sub_key(self.shard_key, first) };
                Some((first, Permutation::new(end - first, key)))
            }
        }
    }

    /// Number of shards.
    pub fn shards(&self) -> u64 {
        self.shards
    }

    /// The shard at slot `slot`.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn shard_at(&self, slot: u64) -> u64 {
        assert!(slot < self.shards, "slot {slot} of {} shards", self.shards);
        let place = match self.shard_permutation(slot) {
            Some((first, permutation)) => first + permutation.forward(slot - first),
            None => slot,
        };
        self.membership.map_or(place, |membership| membership.forward(place))
    }

    /// The slot of shard `shard`.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn slot_of(&self, shard: u64) -> u64 {
        assert!(shard < self.shards, "shard {shard} of {}", self.shards);
        let place = self.membership.map_or(shard, |membership| membership.inverse(shard));
        match self.shard_permutation(place) {
            Some((first, permutation)) => first + permutation.inverse(place - first),
            None => place,
        }
    }

    /// Slots whose records are mixed with those of `slot`: first, and one behind the last.
    pub fn group(&self, slot: u64) -> (u64, u64) {
        match self.shuffle {
            Shuffle::Sequential | Shuffle::Shards => (slot, slot + 1),
            Shuffle::Blocks(Mixing { shards, .. }) => {
                let (part, end) = self.part_of(slot);
                let first = part + (slot - part) / shards * shards.get();
                (first, end.min(first.saturating_add(shards.get())))
            }
            Shuffle::Full => self.part_of(slot),
        }
    }

    /// The group behind that of `slot` in the same part, if there is one.
    pub fn next_group(&self, slot: u64) -> Option<(u64, u64)> {
        let (_, end) = self.group(slot);
        (end < self.part_of(slot).1).then(|| self.group(end))
    }

    /// The group in which the part of `slot` begins.
    pub fn first_group(&self, slot: u64) -> (u64, u64) {
        self.group(self.part_of(slot).0)
    }

    /// The group that the first turn of the epoch takes `position` from. Needs no counts.
    pub fn group_at_start(&self, position: u64) -> (u64, u64) {
        self.group(self.parts.map_or(0, |parts| parts.slot_at_start(position, self.shards)))
    }

    /// Whether records that follow each other in the sequence follow each other in a shard.
    pub fn keeps_records_together(&self) -> bool {
        self.parts.is_none() && self.shuffle.keeps_records_together()
    }

    /// Positions whose records can be told with these counts: all below this one.
    pub fn certain(&self, counts: &Counts) -> u64 {
        let Some(unknown) = counts.first_unknown() else { return counts.certain() };
        match self.shuffle {
            _ if self.parts.is_some() => 0,
            Shuffle::Sequential | Shuffle::Shards => counts.certain(),
            Shuffle::Blocks(_) => counts.start_of(self.group(unknown).0).unwrap_or(0),
            Shuffle::Full => 0,
        }
    }

    /// The record at `position`.
    pub fn locate(&self, position: u64, counts: &Counts) -> Located {
        let unknown = |place| counts.first_unknown().map_or(place, |slot| Located::Unknown { slot });
        let position = match &self.parts {
            None => position,
            Some(parts) => match PartCounts::of(parts, self.shards, counts) {
                Some(known) if position < known.total() => known.to_place(position),
                Some(known) => return Located::PastEnd { total: known.total() },
                None => return unknown(counts.locate(position)),
            },
        };
        let place = counts.locate(position);
        let Located::At { slot, .. } = place else { return place };
        let Some((start, length)) = self.span(slot, counts) else { return unknown(place) };
        match self.shuffle {
            Shuffle::Sequential | Shuffle::Shards => place,
            Shuffle::Blocks(mixing) => {
                let group = Group::new(mixing, length, sub_key(self.record_key, self.group(slot).0));
                counts.locate(start + group.forward(position - start))
            }
            Shuffle::Full => counts.locate(start + self.full(slot, length).forward(position - start)),
        }
    }

    /// The position of a record; the inverse of [`Self::locate`]. `None` before the counts that it needs are known.
    pub fn position(&self, slot: u64, record: u64, counts: &Counts) -> Option<u64> {
        let place = counts.start_of(slot)? + record;
        let (start, length) = self.span(slot, counts)?;
        let place = match self.shuffle {
            Shuffle::Sequential | Shuffle::Shards => place,
            Shuffle::Blocks(mixing) => {
                let group = Group::new(mixing, length, sub_key(self.record_key, self.group(slot).0));
                start + group.inverse(place - start)
            }
            Shuffle::Full => start + self.full(slot, length).inverse(place - start),
        };
        match &self.parts {
            None => Some(place),
            Some(parts) => Some(PartCounts::of(parts, self.shards, counts)?.to_position(place)),
        }
    }

    /// The permutation of all records of the slot's part.
    fn full(&self, slot: u64, records: u64) -> Permutation {
        let first = self.part_of(slot).0;
        Permutation::new(records, if first == 0 { self.record_key } else { sub_key(self.record_key, first) })
    }

    /// A slot from which on `position` can be told without counting what lies before, and the slot's first position.
    pub fn anchor(&self, position: u64, counts: &Counts) -> (u64, u64) {
        if self.parts.is_some() {
            return (0, 0);
        }
        let (slot, start) = counts.anchor(position);
        match self.shuffle {
            Shuffle::Sequential | Shuffle::Shards => (slot, start),
            Shuffle::Blocks(_) => {
                let first = self.group(slot.min(self.shards.saturating_sub(1))).0;
                counts.start_of(first).map_or((0, 0), |start| (first, start))
            }
            Shuffle::Full => (0, 0),
        }
    }

    /// First position and number of records of the slot's group, if that is known.
    fn span(&self, slot: u64, counts: &Counts) -> Option<(u64, u64)> {
        if self.shuffle.keeps_records_together() {
            return Some((0, 0));
        }
        let (first, end) = self.group(slot);
        let start = counts.start_of(first)?;
        Some((start, counts.start_of(end)? - start))
    }
}

/// A group's shuffle: its records, shard after shard, are cut into runs; the runs are permuted; and what comes out is cut
/// into windows, within which the records are permuted.
#[derive(Debug, Clone, Copy)]
struct Group {
    mixing: Mixing,
    length: u64,
    key: u64,
    runs: Permutation,
    /// Where the last run, which may be short, is put.
    short_at: u64,
    /// Its length.
    short: u64,
}

impl Group {
    fn new(mixing: Mixing, length: u64, key: u64) -> Self {
        let count = length.div_ceil(mixing.run.get());
        let runs = Permutation::new(count, sub_key(key, u64::MAX));
        let short = length - count.saturating_sub(1) * mixing.run.get();
        let short_at = if count == 0 { 0 } else { runs.inverse(count - 1) };
        Self { mixing, length, key, runs, short_at, short }
    }

    /// Window of a position, and the permutation within it: start and permutation.
    fn window(&self, position: u64) -> (u64, Permutation) {
        let number = position / self.mixing.window;
        let start = number * self.mixing.window.get();
        let length = self.mixing.window.get().min(self.length - start);
        (start, Permutation::new(length, sub_key(self.key, number)))
    }

    fn forward(&self, position: u64) -> u64 {
        let (start, window) = self.window(position);
        let mixed = start + window.forward(position - start);
        let (run, before) = (self.mixing.run.get(), self.short_at * self.mixing.run.get());
        let (place, offset) = if mixed < before {
            (mixed / run, mixed % run)
        } else if mixed < before + self.short {
            (self.short_at, mixed - before)
        } else {
            // Counted as if the short run were not there; it is one place further.
            ((mixed - self.short) / run + 1, (mixed - self.short) % run)
        };
        self.runs.forward(place) * run + offset
    }

    fn inverse(&self, record: u64) -> u64 {
        let run = self.mixing.run.get();
        let place = self.runs.inverse(record / run);
        let start = if place <= self.short_at { place * run } else { (place - 1) * run + self.short };
        let mixed = start + record % run;
        let (start, window) = self.window(mixed);
        start + window.inverse(mixed - start)
    }
}

#[cfg(test)]
#[path = "sequence_tests.rs"]
mod tests;
