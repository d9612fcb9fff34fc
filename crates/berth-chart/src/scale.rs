//! Positions and labels on the axes.

use std::time::Duration;

/// Possible steps between labels of the time axis, in milliseconds.
const TIME_STEPS: [u64; 33] = [
    1,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    15_000,
    30_000,
    60_000,
    120_000,
    300_000,
    600_000,
    900_000,
    1_800_000,
    3_600_000,
    7_200_000,
    10_800_000,
    21_600_000,
    43_200_000,
    86_400_000,
    172_800_000,
    432_000_000,
    864_000_000,
    2_592_000_000,
    8_640_000_000,
    31_536_000_000,
];
/// The longest time axis: 100 years.
pub(crate) const LONGEST_MS: u64 = 3_153_600_000_000;

/// Returns a time in milliseconds, at most [`LONGEST_MS`].
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(LONGEST_MS).min(LONGEST_MS)
}

/// Returns the position of `value` on a line of this length that represents 0 to `all`.
pub(crate) fn place(value: u64, all: u64, length: u64) -> u64 {
    u64::try_from(u128::from(value.min(all)) * u128::from(length) / u128::from(all.max(1))).unwrap_or(length)
}

/// Returns the labeled times from 0 to `end`: at most `most`, in steps of whole clock units.
pub(crate) fn time_ticks(end: u64, most: u64) -> Vec<u64> {
    let fits = |step: &&u64| end / **step < most.max(2);
    let step = TIME_STEPS.iter().find(fits).copied().unwrap_or(LONGEST_MS);
    (0..=end / step).map(|tick| tick * step).collect()
}

/// Returns the labeled numbers from 0 to `top`: at most `most` and 0, in steps of 1, 2 or 5 times a power of ten.
pub(crate) fn count_ticks(top: u64, most: u64) -> Vec<u64> {
    let mut step = 1;
    for factor in [2, 5, 10].into_iter().cycle() {
        if top / step <= most.max(1) {
            break;
        }
        let ten = 10_u64.pow(step.ilog10());
        step = ten.saturating_mul(factor);
    }
    (0..=top / step).map(|tick| tick * step).collect()
}

/// Formats a time with its two largest units and omits a second unit of zero: `0s`, `0.5s`, `1m30s`, `2h`, `3d12h`.
#[must_use]
pub fn time_text(time: Duration) -> String {
    let millis = millis(time);
    let (seconds, rest) = (millis / 1000, millis % 1000);
    if seconds < 60 {
        let fraction = format!("{rest:03}");
        let fraction = fraction.trim_end_matches('0');
        return if fraction.is_empty() { format!("{seconds}s") } else { format!("{seconds}.{fraction}s") };
    }
    let units = [(86_400, 'd', 3600, 'h'), (3600, 'h', 60, 'm'), (60, 'm', 1, 's')];
    let (large, name, small, below) = units.into_iter().find(|(large, ..)| *large <= seconds).expect("a minute at least");
    match seconds % large / small {
        0 => format!("{}{name}", seconds / large),
        rest => format!("{}{name}{rest}{below}", seconds / large),
    }
}

/// Formats the time of an event, rounded to tenths of a second from one second on.
pub(crate) fn moment_text(millis: u64) -> String {
    time_text(Duration::from_millis(if millis < 1000 { millis } else { (millis + 50) / 100 * 100 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_name_round_times() {
        let texts = |end: u64, most: u64| -> Vec<String> {
            time_ticks(end, most).into_iter().map(|tick| time_text(Duration::from_millis(tick))).collect()
        };
        assert_eq!(texts(42_100, 8), ["0s", "10s", "20s", "30s", "40s"]);
        assert_eq!(texts(200_000, 8), ["0s", "30s", "1m", "1m30s", "2m", "2m30s", "3m"]);
        assert_eq!(texts(1_200, 4), ["0s", "0.5s", "1s"]);
        assert_eq!(texts(400_000_000, 5), ["0s", "1d", "2d", "3d", "4d"]);
        assert_eq!(texts(1, 8), ["0s", "0.001s"]);
        assert!(time_ticks(LONGEST_MS, 8).len() <= 8);
        for end in [1, 7, 999, 60_000, 3_599_999, 10_u64.pow(9), LONGEST_MS] {
            for most in 2..20 {
                assert!(time_ticks(end, most).len() as u64 <= most, "{end} {most}");
            }
        }
    }

    #[test]
    fn axes_name_round_numbers() {
        assert_eq!(count_ticks(4, 5), [0, 1, 2, 3, 4]);
        assert_eq!(count_ticks(12, 5), [0, 5, 10]);
        assert_eq!(count_ticks(9, 5), [0, 2, 4, 6, 8]);
        assert_eq!(count_ticks(12_500, 4), [0, 5_000, 10_000]);
        assert_eq!(count_ticks(0, 4), [0]);
        assert!(count_ticks(u64::from(u32::MAX) * 10, 4).len() <= 5);
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        let text = |millis: u64| time_text(Duration::from_millis(millis));
        assert_eq!([0, 500, 1_234, 59_999, 60_000, 90_000].map(text), ["0s", "0.5s", "1.234s", "59.999s", "1m", "1m30s"]);
        assert_eq!([18, 999, 21_015, 1_960, 59_970].map(moment_text), ["0.018s", "0.999s", "21s", "2s", "1m"]);
        assert_eq!([3_600_000, 5_400_000, 302_400_000].map(text), ["1h", "1h30m", "3d12h"]);
    }

    #[test]
    fn nothing_is_placed_beyond_its_axis() {
        assert_eq!((place(5, 10, 700), place(11, 10, 700), place(3, 0, 700), place(u64::MAX, u64::MAX, u64::MAX)), (350, 700, 0, u64::MAX));
    }
}
