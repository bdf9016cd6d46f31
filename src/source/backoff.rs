//! How long to wait before trying again.

use std::time::Duration;

/// First pause.
const BASE: Duration = Duration::from_millis(100);
/// Longest pause, also for a `Retry-After` of the store.
const CAP: Duration = Duration::from_secs(20);

/// Exponential back-off with decorrelated jitter: each pause is drawn between the base and three times the one before.
///
/// Clients that were refused together come back spread out, and the mean grows by half with each step. Ten pauses take
/// about 20 s, long enough for a throttling spell.
#[derive(Debug)]
pub(crate) struct Backoff {
    last: Duration,
    state: u64,
}

impl Backoff {
    /// `seed` only has to differ between concurrent readers.
    pub(crate) fn new(seed: u64) -> Self {
        Self { last: BASE, state: seed }
    }

    /// Forgets earlier failures after progress.
    pub(crate) fn reset(&mut self) {
        self.last = BASE;
    }

    /// The next pause; never shorter than the store's own wish up to the cap.
    pub(crate) fn next(&mut self, wished: Option<Duration>) -> Duration {
        let high = (self.last * 3).min(CAP);
        self.last = BASE + (high - BASE).mul_f64(self.fraction());
        self.last.max(wished.unwrap_or_default()).min(CAP)
    }

    /// Uniform in [0, 1): splitmix64, whose quality is ample for spreading.
    fn fraction(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let bits = u32::try_from((z ^ (z >> 31)) >> 32).expect("32 bits remain after the shift");
        f64::from(bits) / (f64::from(u32::MAX) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_stay_in_bounds_and_grow() {
        let mut first = Duration::ZERO;
        let mut tenth = Duration::ZERO;
        for seed in 0..200 {
            let mut backoff = Backoff::new(seed);
            for step in 1..=10 {
                let pause = backoff.next(None);
                assert!((BASE..=CAP).contains(&pause), "{pause:?}");
                match step {
                    1 => first += pause,
                    10 => tenth += pause,
                    _ => {}
                }
            }
            backoff.reset();
            assert!(backoff.next(None) <= BASE * 3);
        }
        assert!(tenth > first * 10, "{first:?} {tenth:?}");
    }

    #[test]
    fn the_wish_of_the_store_is_kept_up_to_the_cap() {
        let mut backoff = Backoff::new(1);
        assert_eq!(backoff.next(Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(backoff.next(Some(Duration::from_secs(700))), CAP);
    }
}
