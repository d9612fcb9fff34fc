//! Ages as kubectl prints them.

use berth_api::k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use jiff::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Returns the time since `then`, or `<unknown>` if it is unset.
#[must_use]
pub fn since(then: Option<&Time>, now: Timestamp) -> String {
    then.map_or_else(|| "<unknown>".to_owned(), |then| of_seconds(now.duration_since(then.0).as_secs()))
}

/// Formats a duration with one or two units. Longer durations have coarser units. A negative one is `0s` up to two
/// seconds of clock skew, and `<invalid>` beyond.
#[must_use]
pub fn of_seconds(seconds: i64) -> String {
    match seconds {
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two_units(seconds, (MINUTE, 'm'), (1, 's')),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two_units(seconds, (HOUR, 'h'), (MINUTE, 'm')),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two_units(seconds, (DAY, 'd'), (HOUR, 'h')),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two_units(seconds, (YEAR, 'y'), (DAY, 'd')),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// Omits a second unit of 0.
fn two_units(seconds: i64, (big, big_unit): (i64, char), (small, small_unit): (i64, char)) -> String {
    match seconds % big / small {
        0 => format!("{}{big_unit}", seconds / big),
        rest => format!("{}{big_unit}{rest}{small_unit}", seconds / big),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_span_has_its_units() {
        for (seconds, age) in [
            (-3, "<invalid>"),
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * MINUTE, "2m"),
            (2 * MINUTE + 1, "2m1s"),
            (10 * MINUTE - 1, "9m59s"),
            (10 * MINUTE, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + MINUTE, "3h1m"),
            (8 * HOUR - 1, "7h59m"),
            (8 * HOUR, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + HOUR, "2d1h"),
            (8 * DAY - 1, "7d23h"),
            (8 * DAY, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + DAY, "2y1d"),
            (8 * YEAR - 1, "7y364d"),
            (8 * YEAR, "8y"),
        ] {
            assert_eq!(of_seconds(seconds), age, "{seconds}");
        }
    }

    #[test]
    fn an_unset_time_has_an_unknown_age() {
        assert_eq!(since(None, Timestamp::UNIX_EPOCH), "<unknown>");
        assert_eq!(since(Some(&Time(Timestamp::UNIX_EPOCH)), Timestamp::constant(90, 999_999_999)), "90s");
    }
}
