//! Size and feature profiles.

use super::noise::{Noise, portable_exp};
use serde::{Deserialize, Serialize};

/// What the records of a dataset look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Encoded images: log-normal sizes of mean 115 kB (sigma 0.5), from 1/16 to 8 times the mean
    Images,
    /// A row of 28 features (13 floats, 13 integers, label, id), about 600 bytes
    Tabular,
    /// Small blobs: mean 1 kB (sigma 0.1), from half to twice the mean
    Small,
    /// Tiny blobs: mean 100 bytes (sigma 0.1), from half to twice the mean
    Tiny,
    /// Sizes as `images`, around the mean of --record-bytes
    Custom,
}

impl Profile {
    /// Mean length of a record in bytes, where the profile has a usual one and is not `Custom`.
    pub const fn usual_bytes(self) -> Option<u64> {
        match self {
            Self::Images => Some(115_000),
            Self::Tabular => Some(600),
            Self::Small => Some(1_000),
            Self::Tiny => Some(100),
            Self::Custom => None,
        }
    }

    /// Length in bytes of one record's Example, drawn around `mean`; the least and the greatest are whole fractions and
    /// multiples of it.
    pub(super) fn draw(self, mean: u64, noise: Noise) -> u64 {
        let (sigma, low, high) = match self {
            Self::Images | Self::Custom => (0.5, 16, 8),
            Self::Small | Self::Tiny | Self::Tabular => (0.1, 2, 2),
        };
        // A mean beyond 2^32 would not be a record; `make` refuses it.
        let mean = u32::try_from(mean).unwrap_or(u32::MAX);
        let factor = portable_exp(sigma * noise.normal(0) - sigma * sigma / 2.0);
        let bounded = factor.clamp(1.0 / f64::from(low), f64::from(high));
        round(f64::from(mean) * bounded)
    }
}

fn round(value: f64) -> u64 {
    // Below 2^36 and not negative: exact in an f64, and `as` saturates.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bounded above and below by the clamp"
    )]
    let whole = (value + 0.5) as u64;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_sizes_keep_mean_and_bounds() {
        let lengths: Vec<u64> =
            (0..4000).map(|id| Profile::Images.draw(115_000, Noise::new(0, 1, id))).collect();
        let mean = lengths.iter().sum::<u64>() / 4000;
        assert!((110_000..120_000).contains(&mean), "mean {mean}");
        assert!(lengths.iter().all(|len| (115_000 / 16..=115_000 * 8).contains(len)));
        assert!(lengths.iter().any(|len| *len < 60_000) && lengths.iter().any(|len| *len > 200_000));
    }
}
