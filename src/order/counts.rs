//! Record counts along an epoch's sequence, as they become known.

/// Where a position is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Located {
    /// In the shard at this slot, this record of those that count.
    At {
        /// Place of the shard in the epoch.
        slot: u64,
        /// Record within the shard, from 0.
        record: u64,
    },
    /// Cannot be said before more is known of the shard at this slot.
    Unknown {
        /// Place of the shard in the epoch.
        slot: u64,
    },
    /// Beyond the last record.
    PastEnd {
        /// Records in the epoch.
        total: u64,
    },
}

/// Prefix sums of the records at each slot. Counts are learned in the order of the slots: exactly for a slot that is known
/// whole, as "at least so many" for the first that is not.
#[derive(Debug, Clone)]
pub struct Counts {
    slots: u64,
    /// Slot at which the counting began.
    first: u64,
    /// Records before each known slot from `first` on, and behind the last.
    before: Vec<u64>,
    at_least: u64,
}

impl Counts {
    /// Nothing is known of `slots` slots.
    pub fn new(slots: u64) -> Self {
        Self::from_slot(slots, 0, 0)
    }

    /// Nothing is known of `slots` slots but that those before slot `first` have `position` records together. Single
    /// positions before that one cannot be found.
    pub fn from_slot(slots: u64, first: u64, position: u64) -> Self {
        Self { slots, first, before: vec![position], at_least: 0 }
    }

    /// The first slot whose count is not known exactly, if there is one.
    pub fn first_unknown(&self) -> Option<u64> {
        let known = self.first + self.before.len() as u64 - 1;
        (known < self.slots).then_some(known)
    }

    /// The first unknown slot has exactly `records` records, whatever it was said to have at least.
    ///
    /// # Panics
    /// If all slots are known.
    pub fn learn(&mut self, records: u64) {
        assert!(self.first_unknown().is_some(), "all counts are known");
        self.before.push(self.known() + records);
        self.at_least = 0;
    }

    /// The first unknown slot has at least `records` records. Says nothing new once all slots are known.
    pub fn learn_at_least(&mut self, records: u64) {
        if self.first_unknown().is_some() {
            self.at_least = self.at_least.max(records);
        }
    }

    fn known(&self) -> u64 {
        self.before.last().copied().unwrap_or(0)
    }

    /// Records of the epoch, once all slots are known.
    pub fn total(&self) -> Option<u64> {
        self.first_unknown().is_none().then(|| self.known())
    }

    /// Records that are certain to exist.
    pub fn certain(&self) -> u64 {
        self.known() + self.at_least
    }

    /// Position of the first record at `slot`, if it is known.
    pub fn start_of(&self, slot: u64) -> Option<u64> {
        self.before.get(usize::try_from(slot.checked_sub(self.first)?).ok()?).copied()
    }

    /// The last slot that is known to start at or before `position`, and its first position; the first slot counted if
    /// all start behind.
    pub fn anchor(&self, position: u64) -> (u64, u64) {
        let at = self.before.partition_point(|&before| before <= position).max(1) - 1;
        (self.first + at as u64, self.before[at])
    }

    /// Where `position` is.
    pub fn locate(&self, position: u64) -> Located {
        if position < self.known() {
            let slot = self.before.partition_point(|&before| before <= position);
            let Some(slot) = slot.checked_sub(1) else { return Located::Unknown { slot: 0 } };
            return Located::At { slot: self.first + slot as u64, record: position - self.before[slot] };
        }
        match self.first_unknown() {
            None => Located::PastEnd { total: self.known() },
            Some(slot) if position < self.certain() => Located::At { slot, record: position - self.known() },
            Some(slot) => Located::Unknown { slot },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn positions_are_found_as_counts_come_in() {
        let mut counts = Counts::new(3);
        assert_eq!(counts.locate(0), Located::Unknown { slot: 0 });
        counts.learn_at_least(2);
        assert_eq!(counts.locate(1), Located::At { slot: 0, record: 1 });
        assert_eq!(counts.locate(2), Located::Unknown { slot: 0 });
        counts.learn(2);
        assert_eq!(counts.locate(2), Located::Unknown { slot: 1 });
        counts.learn(0);
        counts.learn(1);
        assert_eq!(counts.locate(2), Located::At { slot: 2, record: 0 });
        assert_eq!(counts.locate(3), Located::PastEnd { total: 3 });
        assert_eq!(Counts::new(0).locate(0), Located::PastEnd { total: 0 });
    }

    #[test]
    fn counting_may_begin_in_the_middle() {
        let mut counts = Counts::from_slot(5, 3, 100);
        assert_eq!((counts.first_unknown(), counts.certain(), counts.total()), (Some(3), 100, None));
        assert_eq!(counts.locate(99), Located::Unknown { slot: 0 });
        assert_eq!(counts.locate(100), Located::Unknown { slot: 3 });
        counts.learn(7);
        counts.learn(2);
        assert_eq!(counts.locate(107), Located::At { slot: 4, record: 0 });
        assert_eq!(
            (counts.start_of(2), counts.start_of(3), counts.start_of(5)),
            (None, Some(100), Some(109))
        );
        assert_eq!(counts.total(), Some(109));
        assert_eq!(Counts::from_slot(5, 5, 30).total(), Some(30));
    }

    #[test]
    fn a_position_found_early_stays_where_it_was() {
        let (mut counts, records) = (Counts::new(4), [3_u64, 0, 2, 1]);
        let mut found = Vec::new();
        for in_slot in records {
            for certain in 0..=in_slot {
                counts.learn_at_least(certain);
                found.resize(usize::try_from(counts.certain()).unwrap(), None);
                for (position, known) in (0..).zip(&mut found) {
                    let located = counts.locate(position);
                    assert!(matches!(located, Located::At { .. }), "position {position} is certain");
                    assert_eq!(*known.get_or_insert(located), located);
                }
                assert_eq!(counts.total(), None);
            }
            counts.learn(in_slot);
        }
        counts.learn_at_least(100);
        assert_eq!((counts.total(), counts.certain(), found.len()), (Some(6), 6, 6));
    }

    proptest! {
        #[test]
        fn every_record_has_one_position(records in prop::collection::vec(0_u64..6, 0..20)) {
            let mut counts = Counts::new(records.len() as u64);
            records.iter().for_each(|&records| counts.learn(records));
            let mut position = 0;
            for (slot, &in_slot) in records.iter().enumerate() {
                for record in 0..in_slot {
                    prop_assert_eq!(counts.locate(position), Located::At { slot: slot as u64, record });
                    position += 1;
                }
            }
            prop_assert_eq!(counts.locate(position), Located::PastEnd { total: position });
        }
    }
}
