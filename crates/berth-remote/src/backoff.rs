//! The delay after a failure.

use berth_env::Rng;
use jiff::SignedDuration;

/// The maximum delay after the first failure.
const FIRST_MS: u64 = 100;
/// The maximum delay after any number of failures.
const LONGEST_MS: u64 = 10_000;

/// Exponential backoff with jitter, so that clients do not retry at the same time.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Returns the delay after another failure.
    pub(crate) fn next(&mut self, rng: &dyn Rng) -> SignedDuration {
        let most = FIRST_MS.saturating_mul(1 << self.failures.min(32)).min(LONGEST_MS);
        self.failures = self.failures.saturating_add(1);
        let milliseconds = most / 2 + rng.below(most / 2 + 1);
        SignedDuration::from_millis(i64::try_from(milliseconds).unwrap_or(i64::MAX))
    }

    /// Whether there was no failure since the last success.
    pub(crate) fn is_fresh(&self) -> bool {
        self.failures == 0
    }

    /// Resets the delay after a success.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the same byte indefinitely.
    struct Always(u8);

    impl Rng for Always {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }
    }

    #[test]
    fn delays_double_up_to_ten_seconds_and_restart_after_a_success() {
        let mut backoff = Backoff::default();
        let least: Vec<_> = (0..9).map(|_| backoff.next(&Always(0)).as_millis()).collect();
        assert_eq!(least, [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        (0..100).for_each(|_| assert!((5000..=10_000).contains(&backoff.next(&Always(0xa7)).as_millis())));
        backoff.reset();
        assert!(backoff.is_fresh() && (50..=100).contains(&backoff.next(&Always(0xff)).as_millis()));
        assert!(!backoff.is_fresh());
    }
}
