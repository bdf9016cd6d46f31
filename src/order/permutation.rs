//! A keyed permutation of `0..n` in constant memory, with its inverse.
//!
//! A balanced Feistel network permutes the smallest domain of an even number of bits that holds `n` values (sized by
//! the *count*, so that no value is left out at powers of two); values that fall outside are walked on until they fall
//! inside, which takes fewer than four steps on average. Feistel networks are invertible whatever the round function,
//! and cycle walking keeps that, so the map is a bijection for every `n` and key.
//!
//! The order of an epoch is part of what a job can be resumed with: key and permutation may not change between versions.

use sha2::{Digest, Sha256};

const ROUNDS: u64 = 6;

/// A bijection of `0..n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permutation {
    n: u64,
    key: u64,
    half_bits: u32,
}

/// A key for one purpose in one epoch: the first eight bytes of SHA-256 over seed, epoch (little-endian) and purpose.
pub fn epoch_key(seed: u64, epoch: u64, purpose: &str) -> u64 {
    let mut hash = Sha256::new();
    hash.update(seed.to_le_bytes());
    hash.update(epoch.to_le_bytes());
    hash.update(purpose.as_bytes());
    let digest = hash.finalize();
    u64::from_le_bytes(digest[..8].try_into().expect("a digest has 32 bytes"))
}

/// Mixes all bits of `value` into all bits of the result (the finaliser of SplitMix64).
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The `number`th key under `key`.
pub(super) fn sub_key(key: u64, number: u64) -> u64 {
    mix(key ^ mix(number.wrapping_add(0x9e37_79b9_7f4a_7c15)))
}

impl Permutation {
    /// The permutation of `0..n` that `key` chooses.
    pub fn new(n: u64, key: u64) -> Self {
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        Self { n, key, half_bits: bits.div_ceil(2).max(1) }
    }

    /// Where `index` goes.
    ///
    /// # Panics
    /// If `index` is not below `n`.
    pub fn forward(&self, index: u64) -> u64 {
        self.walk(index, |value| (0..ROUNDS).fold(value, |value, round| self.round(value, round)))
    }

    /// What goes to `index`: the inverse of [`Self::forward`].
    ///
    /// # Panics
    /// If `index` is not below `n`.
    pub fn inverse(&self, index: u64) -> u64 {
        self.walk(index, |value| (0..ROUNDS).rev().fold(value, |value, round| self.round_back(value, round)))
    }

    fn walk(&self, index: u64, step: impl Fn(u64) -> u64) -> u64 {
        assert!(index < self.n, "index {index} is not below {}", self.n);
        let mut value = step(index);
        while value >= self.n {
            value = step(value);
        }
        value
    }

    fn half_mask(&self) -> u64 {
        u64::MAX >> (u64::BITS - self.half_bits)
    }

    fn round_value(&self, half: u64, round: u64) -> u64 {
        mix(half ^ mix(self.key.wrapping_add((round + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))))
            & self.half_mask()
    }

    fn round(&self, value: u64, round: u64) -> u64 {
        let (left, right) = (value >> self.half_bits, value & self.half_mask());
        right << self.half_bits | (left ^ self.round_value(right, round))
    }

    fn round_back(&self, value: u64, round: u64) -> u64 {
        let (left, right) = (value >> self.half_bits, value & self.half_mask());
        (right ^ self.round_value(left, round)) << self.half_bits | left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_bijective(n: u64, key: u64) {
        let permutation = Permutation::new(n, key);
        let mut seen = vec![false; usize::try_from(n).unwrap()];
        for index in 0..n {
            let image = permutation.forward(index);
            assert!(
                !std::mem::replace(&mut seen[usize::try_from(image).unwrap()], true),
                "{image} twice for n = {n}"
            );
            assert_eq!(permutation.inverse(image), index, "n = {n}");
        }
    }

    #[test]
    fn bijective_for_every_small_count() {
        for n in 0..=5_000 {
            assert_bijective(n, n * 31 + 7);
        }
    }

    #[test]
    fn bijective_around_powers_of_two() {
        for bits in 10..=17 {
            for n in [(1 << bits) - 1, 1 << bits, (1 << bits) + 1] {
                assert_bijective(n, 3);
            }
        }
        // Where a published implementation fails: all images, which are as many as there are indices.
        for bits in 18..=24 {
            let n = (1_u64 << bits) + 1;
            let permutation = Permutation::new(n, 11);
            let mut seen = vec![0_u64; usize::try_from(n.div_ceil(64)).unwrap()];
            for index in 0..n {
                let image = permutation.forward(index);
                seen[usize::try_from(image / 64).unwrap()] |= 1 << (image % 64);
            }
            assert_eq!(seen.iter().map(|word| u64::from(word.count_ones())).sum::<u64>(), n);
        }
        for bits in (18..=24).chain([32, 33, 48, 63]) {
            for n in [(1_u64 << bits) - 1, 1 << bits, (1 << bits) + 1] {
                let permutation = Permutation::new(n, 11);
                for index in (0..500).map(|step| mix(step) % n).chain([0, n - 1]) {
                    assert_eq!(permutation.inverse(permutation.forward(index)), index, "n = {n}");
                }
            }
        }
    }

    #[test]
    fn orders_are_the_same_in_every_version() {
        // SHA-256 over two little-endian u64 and the purpose, made by another program.
        assert_eq!(epoch_key(0, 0, "shards"), 0x082e_11e3_89fb_1564);
        assert_eq!(epoch_key(7, 3, "shards"), 0x674e_a47b_1e4a_9aea);
        let order = |n, key| (0..n).map(|index| Permutation::new(n, key).forward(index)).collect::<Vec<_>>();
        assert_eq!(order(10, 42), [2, 7, 4, 0, 8, 3, 6, 9, 5, 1]);
        assert_eq!(
            order(17, epoch_key(7, 3, "shards")),
            [4, 1, 8, 12, 9, 6, 0, 3, 14, 2, 13, 11, 10, 16, 7, 5, 15]
        );
        assert_eq!(Permutation::new(u64::MAX, 42).forward(1 << 40), 0xc2dd_17e7_7178_184e);
    }

    #[test]
    fn keys_differ_and_neighbouring_seeds_share_nothing() {
        assert_ne!(epoch_key(1, 1, "shards"), epoch_key(2, 0, "shards"));
        let order = |key| (0..100).map(|index| Permutation::new(100, key).forward(index)).collect::<Vec<_>>();
        assert_ne!(order(epoch_key(1, 0, "shards")), order(epoch_key(1, 1, "shards")));
        let moved = order(5).iter().zip(0..).filter(|&(&image, index)| image != index).count();
        assert!(moved > 90, "only {moved} of 100 moved");
    }

    #[test]
    fn every_place_is_reached_about_equally_often() {
        let mut counts = [0_u32; 10];
        for key in 0..10_000 {
            counts[usize::try_from(Permutation::new(10, mix(key)).forward(3)).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
