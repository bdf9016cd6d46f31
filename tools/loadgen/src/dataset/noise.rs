//! Counter-based random numbers: the n-th value of a stream is computed directly from (key, n).

/// Mixes 64 bits so that each input bit reaches each output bit (the finalizer of SplitMix64).
pub(super) const fn mix(value: u64) -> u64 {
    let a = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    b ^ (b >> 31)
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of 64-bit values named by a key; streams of different keys are unrelated.
#[derive(Clone, Copy)]
pub(super) struct Noise {
    key: u64,
}

impl Noise {
    pub(super) const fn new(seed: u64, purpose: u64, id: u64) -> Self {
        Self {
            key: mix(mix(seed.wrapping_add(STEP))
                ^ mix(purpose.wrapping_mul(STEP))
                ^ mix(id.wrapping_add(1))),
        }
    }

    /// The `n`-th value.
    pub(super) const fn at(self, n: u64) -> u64 {
        mix(self.key.wrapping_add(n.wrapping_mul(STEP)))
    }

    /// The `n`-th value as a number in `[0, 1)`.
    pub(super) fn unit(self, n: u64) -> f64 {
        let high = u32::try_from(self.at(n) >> 32).expect("32 bits remain after the shift");
        f64::from(high) / 4_294_967_296.0
    }

    /// A nearly normal number of mean 0 and variance 1: the sum of twelve uniform ones, from values `n..n + 12`.
    pub(super) fn normal(self, n: u64) -> f64 {
        (0..12).map(|k| self.unit(n + k)).sum::<f64>() - 6.0
    }

    /// Appends `len` bytes, the little-endian values 0, 1, 2, ...
    pub(super) fn append(self, out: &mut Vec<u8>, len: usize) {
        out.reserve(len);
        let whole = len / 8;
        let start = out.len();
        out.resize(start + len, 0);
        let (words, rest) = out[start..].split_at_mut(whole * 8);
        let mut counter = self.key;
        for word in words.chunks_exact_mut(8) {
            word.copy_from_slice(&mix(counter).to_le_bytes());
            counter = counter.wrapping_add(STEP);
        }
        let last = mix(counter).to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

/// `e^x` for |x| < 10 from multiplications only, within 5 % there: the platform's `exp` may differ in its last bit from
/// machine to machine, which would change a record's length.
pub(super) fn portable_exp(x: f64) -> f64 {
    let mut power = 1.0 + x / 1024.0;
    for _ in 0..10 {
        power *= power;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_the_numbered_values() {
        let noise = Noise::new(7, 1, 42);
        let mut out = vec![9];
        noise.append(&mut out, 19);
        assert_eq!(out.len(), 20);
        assert_eq!(out[0], 9);
        assert_eq!(out[1..9], noise.at(0).to_le_bytes());
        assert_eq!(out[17..], noise.at(2).to_le_bytes()[..3]);
    }

    #[test]
    fn normal_numbers_have_mean_0_and_variance_1() {
        let noise = Noise::new(1, 2, 3);
        let values: Vec<f64> = (0..4000).map(|n| noise.normal(n * 12)).collect();
        let mean = values.iter().sum::<f64>() / 4000.0;
        let variance = values.iter().map(|v| v * v).sum::<f64>() / 4000.0;
        assert!(mean.abs() < 0.06, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.1, "variance {variance}");
    }

    #[test]
    fn portable_exp_is_near_exp() {
        for step in -30..=30 {
            let x = f64::from(step) / 10.0;
            assert!((portable_exp(x) / x.exp() - 1.0).abs() < 0.01, "x {x}");
        }
    }
}
