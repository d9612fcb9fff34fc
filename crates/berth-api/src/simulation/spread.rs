//! Durations that differ between pods: `2s±1s`.

use std::time::Duration;

/// A duration, or a range around one: `2s`, `2s±1s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    middle: Duration,
    /// At most `middle`.
    deviation: Duration,
}

impl Spread {
    /// Parses `2s`, `2s±1s` or `2s+-1s`. `None`: it is neither, or the deviation exceeds the duration.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (middle, deviation) = text.split_once('±').or_else(|| text.split_once("+-")).unwrap_or((text, "0s"));
        let spread = Self { middle: parse_duration(middle.trim())?, deviation: parse_duration(deviation.trim())? };
        (spread.deviation <= spread.middle).then_some(spread)
    }

    /// Returns the middle of the range.
    #[must_use]
    pub fn middle(self) -> Duration {
        self.middle
    }

    /// Returns the duration for `seed`. All durations of the range are equally likely.
    #[must_use]
    pub fn pick(self, seed: u64) -> Duration {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let width = u128::from(nanos(self.deviation)) * 2 + 1;
        let offset = u64::try_from((width * u128::from(seed)) >> 64).unwrap_or(u64::MAX);
        self.middle.saturating_sub(self.deviation).saturating_add(Duration::from_nanos(offset))
    }
}

/// Returns a seed for these texts. It is the same in each process, and differs from that of other texts.
///
/// FNV-1a, with the mixing of SplitMix64, because [`Spread::pick`] uses the upper bits.
#[must_use]
pub fn seed(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0xff]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let parsed: jiff::SignedDuration = text.parse().ok()?;
    Duration::try_from(parsed).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_a_duration_and_its_deviation() {
        let of = |text| Spread::parse(text).map(|spread| (spread.middle.as_millis(), spread.deviation.as_millis()));
        for (text, expected) in [
            ("2s", Some((2000, 0))),
            ("2s±1s", Some((2000, 1000))),
            ("2s ± 250ms", Some((2000, 250))),
            ("1m30s+-1m", Some((90_000, 60_000))),
            ("2s±2s", Some((2000, 2000))),
            ("2s±3s", None),
            ("2s±", None),
            ("±1s", None),
            ("2s±-1s", None),
            ("2s-1s", None),
            ("2", None),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    #[test]
    fn a_seed_picks_from_the_whole_range_and_the_same_each_time() {
        let spread = Spread::parse("2s±1s").expect("a range");
        let picked: Vec<f64> = (0..1000).map(|pod| spread.pick(seed(&[&format!("pod-{pod}"), "main"])).as_secs_f64()).collect();
        assert!(picked.iter().all(|seconds| (1.0..=3.0).contains(seconds)));
        let mean = picked.iter().sum::<f64>() / 1000.0;
        assert!((1.9..2.1).contains(&mean), "{mean}");
        let below = picked.iter().filter(|seconds| **seconds < 1.2).count();
        assert!((60..140).contains(&below), "{below} of 100 are expected in the first tenth");
        assert_eq!(spread.pick(7), spread.pick(7));
        assert_eq!((spread.pick(0), spread.pick(u64::MAX)), (Duration::from_secs(1), Duration::from_secs(3)));
        assert_ne!(seed(&["a", "bc"]), seed(&["ab", "c"]));
    }
}
