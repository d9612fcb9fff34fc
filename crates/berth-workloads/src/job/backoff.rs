//! How long a Job waits before it replaces failed pods.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The delay after the first failure.
pub const BACKOFF_FIRST: SignedDuration = SignedDuration::from_secs(10);
/// The longest delay.
pub const BACKOFF_MAX: SignedDuration = SignedDuration::from_secs(600);
/// From this number of failures on, the delay is [`BACKOFF_MAX`]. A streak keeps no more.
const FAILURES_MAX: usize = 7;

/// The newest failures of pods since one succeeded.
///
/// Upstream keeps a count in the memory of its controller. This is made from the pods that exist, and so survives a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureStreak {
    /// When the last pod that succeeded did.
    last_success: Option<Timestamp>,
    /// When pods failed, after the last success. In order, at most [`FAILURES_MAX`].
    failures: Vec<Timestamp>,
}

impl FailureStreak {
    /// Takes in a pod that succeeded at this time. The order of calls does not matter.
    pub fn succeeded(&mut self, at: Timestamp) {
        self.last_success = self.last_success.max(Some(at));
        self.failures.retain(|failure| at < *failure);
    }

    /// Takes in a pod that failed at this time.
    pub fn failed(&mut self, at: Timestamp) {
        if self.last_success.is_none_or(|success| success < at) {
            let next = self.failures.partition_point(|failure| *failure <= at);
            self.failures.insert(next, at);
            let surplus = self.failures.len().saturating_sub(FAILURES_MAX);
            self.failures.drain(..surplus);
        }
    }

    /// How many failures in a row count, and until when pods are not replaced. `None`: pods are replaced at once.
    #[must_use]
    pub fn delay(&self) -> Option<Delay> {
        let last = self.failures.last()?;
        Some(Delay::after(u32::try_from(self.failures.len()).unwrap_or(u32::MAX), *last))
    }
}

/// Until when failed pods are not replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// How many failures in a row count. More than seven delay no longer.
    pub failures: u32,
    /// Until then.
    pub until: Timestamp,
}

impl Delay {
    /// The delay after this many failures, of which the last was at this time: 10 s, twice as long after each failure, at most 10 min.
    ///
    /// Source: kubernetes `pkg/controller/job/backoff_utils.go`, `getRemainingTimeForFailuresCount`.
    #[must_use]
    pub fn after(failures: u32, last: Timestamp) -> Self {
        let doublings = failures.saturating_sub(1).min(u32::try_from(FAILURES_MAX).unwrap_or(u32::MAX));
        let delay = (BACKOFF_FIRST * 2_i32.pow(doublings)).min(BACKOFF_MAX);
        Self { failures, until: last.checked_add(delay).unwrap_or(Timestamp::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    /// `F3 S5`: a failure at second 3, a success at second 5.
    fn streak(text: &str) -> FailureStreak {
        let mut streak = FailureStreak::default();
        for word in text.split_whitespace() {
            let second = at(word[1..].parse().expect("a second"));
            if word.starts_with('S') { streak.succeeded(second) } else { streak.failed(second) }
        }
        streak
    }

    #[test]
    fn the_delay_doubles_from_ten_seconds_to_ten_minutes() {
        let delays = [1, 2, 3, 4, 5, 6, 7, 8, 100, u32::MAX].map(|failures| Delay::after(failures, at(0)).until.as_second());
        assert_eq!(delays, [10, 20, 40, 80, 160, 320, 600, 600, 600, 600]);
    }

    #[test]
    fn only_failures_after_the_last_success_delay() {
        let check = |text: &str, expected: Option<(u32, i64)>| {
            assert_eq!(streak(text).delay().map(|delay| (delay.failures, delay.until.as_second())), expected, "{text}");
        };
        check("", None);
        check("S5", None);
        check("F3", Some((1, 13)));
        check("F3 F4", Some((2, 24)));
        check("F3 F4 S4", None);
        check("F3 F5 S4", Some((1, 15)));
        check("S4 F5 F3", Some((1, 15)));
        check("F1 F2 F3 F4 F5 F6 F7 F8 F9", Some((7, 609)));
        check("F1 F2 F3 F4 F5 F6 F7 F8 F9 S7", Some((2, 29)));
    }

    proptest! {
        #[test]
        fn the_order_in_which_pods_are_taken_in_does_not_matter(
            ends in proptest::collection::vec((any::<bool>(), 0_i64..30), 0..20),
            seed in any::<u64>(),
        ) {
            let make = |ends: &[(bool, i64)]| {
                let mut streak = FailureStreak::default();
                ends.iter().for_each(|(success, second)| if *success { streak.succeeded(at(*second)) } else { streak.failed(at(*second)) });
                streak
            };
            let mut shuffled = ends.clone();
            let length = shuffled.len().max(1);
            (0..ends.len()).for_each(|index| shuffled.swap(index, (seed as usize).wrapping_mul(index + 7) % length));
            prop_assert_eq!(make(&ends), make(&shuffled));
        }
    }
}
