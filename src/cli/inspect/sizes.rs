//! Record sizes in a fixed amount of memory.

/// Sub-buckets of each power of two: the median is right within 1/64.
const STEPS: u32 = 6;
/// Values below this have a bucket each.
const EXACT: u64 = 1 << (STEPS + 1);

/// Counts of sizes in buckets that grow with the size; least and greatest are exact.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    counts: Vec<u64>,
    total: u64,
    bytes: u64,
    min: Option<u64>,
    max: u64,
}

impl Sizes {
    pub(super) fn add(&mut self, size: u64) {
        let bucket = bucket(size);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.total += 1;
        self.bytes = self.bytes.saturating_add(size);
        self.min = Some(self.min.map_or(size, |min| min.min(size)));
        self.max = self.max.max(size);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.min = self.min.into_iter().chain(other.min).min();
        self.max = self.max.max(other.max);
    }

    /// Payload bytes of all records.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Least, median and greatest size; `None` without records.
    pub(super) fn summary(&self) -> Option<(u64, u64, u64)> {
        let min = self.min?;
        let half = self.total.div_ceil(2);
        let mut seen = 0;
        let middle = self.counts.iter().position(|count| {
            seen += count;
            seen >= half
        })?;
        Some((min, low_end(middle).clamp(min, self.max), self.max))
    }
}

fn bucket(size: u64) -> usize {
    let bucket = if size < EXACT {
        size
    } else {
        let shift = size.ilog2() - STEPS;
        // The leading bit is set, so the mantissa runs from 64 to 127.
        u64::from(shift) * (EXACT / 2) + (size >> shift)
    };
    usize::try_from(bucket).expect("there are fewer than 64 * 64 + 128 buckets")
}

/// The least size that falls into a bucket.
fn low_end(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < EXACT {
        return bucket;
    }
    let shift = (bucket - EXACT / 2) / (EXACT / 2);
    (bucket - shift * (EXACT / 2)) << shift
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_sizes_are_exact() {
        let mut sizes = Sizes::default();
        assert_eq!(sizes.summary(), None);
        for size in [0, 7, 7, 100, 5] {
            sizes.add(size);
        }
        assert_eq!(sizes.summary(), Some((0, 7, 100)));
        assert_eq!(sizes.bytes(), 119);
    }

    proptest! {
        #[test]
        fn a_bucket_holds_what_lies_in_it(size in any::<u64>()) {
            let low = low_end(bucket(size));
            prop_assert!(low <= size && size - low <= low / 64, "{low} {size}");
        }

        #[test]
        fn the_median_is_close_however_the_sizes_were_split(
            values in prop::collection::vec(0u64..(1 << 40), 1..80), split in 0usize..80,
        ) {
            let (mut left, mut right) = (Sizes::default(), Sizes::default());
            for (at, &value) in values.iter().enumerate() {
                if at < split { left.add(value) } else { right.add(value) }
            }
            left.merge(&right);
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let exact = sorted[(sorted.len() - 1) / 2];
            let (min, median, max) = left.summary().unwrap();
            prop_assert_eq!((min, max), (sorted[0], *sorted.last().unwrap()));
            prop_assert!(median.abs_diff(exact) <= exact / 64, "{median} {exact}");
        }
    }
}
