//! How long to wait after a failure.

use berth_env::Rng;
use jiff::SignedDuration;

/// After the first failure, at most.
const FIRST_MS: u64 = 100;
/// However many there were.
const LONGEST_MS: u64 = 10_000;

/// Waits that become longer with each failure, by chance not the same for all who wait.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// After one more failure.
    pub(crate) fn next(&mut self, rng: &dyn Rng) -> SignedDuration {
        let most = FIRST_MS.saturating_mul(1 << self.failures.min(32)).min(LONGEST_MS);
        self.failures = self.failures.saturating_add(1);
        let milliseconds = most / 2 + rng.below(most / 2 + 1);
        SignedDuration::from_millis(i64::try_from(milliseconds).unwrap_or(i64::MAX))
    }

    /// Whether nothing has failed since something went well.
    pub(crate) fn is_fresh(&self) -> bool {
        self.failures == 0
    }

    /// Something went well.
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
