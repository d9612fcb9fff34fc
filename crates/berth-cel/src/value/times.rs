//! Timestamps and durations as texts and numbers.

use super::Time;
use jiff::{
    SignedDuration, Timestamp,
    civil::Date,
    fmt::temporal::DateTimeParser,
    tz::{Offset, TimeZone},
};

/// The first and the last second that a timestamp has: of the years 1 to 9999.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
/// A longer text is not a duration.
const DURATION_BYTES_MAX: usize = 256;

/// A time, moved by a duration.
pub(crate) fn moved(time: Time, by: SignedDuration) -> Option<Time> {
    let at = time.at.checked_add(by).ok().filter(|at| SECONDS.contains(&at.as_second()))?;
    Some(Time { at, ..time })
}

/// The time of a second since 1970.
pub(crate) fn at_second(second: i64) -> Option<Time> {
    Timestamp::from_second(second).ok().filter(|_| SECONDS.contains(&second)).map(Time::from)
}

/// A time as RFC 3339 writes it.
pub(crate) fn timestamp(text: &str) -> Option<Time> {
    let bytes = text.as_bytes();
    let is_separated = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')]
        .iter()
        .all(|(at, mark)| bytes.get(*at).is_some_and(|found| found.eq_ignore_ascii_case(mark)));
    let has_zone =
        bytes.last().is_some_and(|last| matches!(last, b'Z' | b'z')) || bytes.len().checked_sub(3).is_some_and(|at| bytes[at] == b':');
    if !is_separated || !has_zone || 64 < bytes.len() || !bytes.first()?.is_ascii_digit() {
        return None;
    }
    let at: Timestamp = text.parse().ok()?;
    let pieces = DateTimeParser::new().parse_pieces(text).ok()?;
    let offset = pieces.to_numeric_offset().unwrap_or(Offset::UTC);
    SECONDS.contains(&at.as_second()).then_some(Time { at, offset })
}

/// The beginning of a day.
pub(crate) fn date(text: &str) -> Option<Time> {
    let date: Date = Some(text).filter(|text| text.len() == 10)?.parse().ok()?;
    date.to_zoned(TimeZone::UTC).ok().map(|start| start.timestamp().into())
}

/// A duration as Go writes it: `1h2m3.5s`.
pub(crate) fn duration(text: &str) -> Option<SignedDuration> {
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    if rest.is_empty() || DURATION_BYTES_MAX < rest.len() {
        return None;
    }
    let mut nanoseconds: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let (number, after) = rest.split_at(end);
        let (unit, scale) = UNITS.iter().find(|(unit, _)| after.starts_with(unit))?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') || 20 < whole.len() {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let fraction = &fraction[..fraction.len().min(18)];
        let parts: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
        let divisor = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
        nanoseconds += whole * scale + parts * scale / divisor;
        rest = &after[unit.len()..];
    }
    i64::try_from(if is_negative { -nanoseconds } else { nanoseconds }).ok().map(SignedDuration::from_nanos)
}

const UNITS: &[(&str, i128)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A duration of the format `duration` of a schema: as Go writes it, or with words: `2 days`.
pub(crate) fn openapi_duration(text: &str) -> Option<SignedDuration> {
    if let Some(found) = duration(text) {
        return Some(found);
    }
    let trimmed = text.trim();
    let end = trimmed.find(|character: char| !character.is_ascii_digit())?;
    let count: i64 = trimmed[..end].parse().ok()?;
    let seconds = match trimmed[end..].trim() {
        "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => return Some(SignedDuration::from_nanos(count)),
        "us" | "micro" | "micros" | "microsecond" | "microseconds" => return Some(SignedDuration::from_micros(count)),
        "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => return Some(SignedDuration::from_millis(count)),
        "s" | "sec" | "secs" | "second" | "seconds" => 1,
        "m" | "min" | "mins" | "minute" | "minutes" => 60,
        "h" | "hr" | "hour" | "hours" => 3_600,
        "d" | "day" | "days" => 86_400,
        "w" | "wk" | "week" | "weeks" => 604_800,
        _ => return None,
    };
    count.checked_mul(seconds).map(SignedDuration::from_secs)
}

pub(crate) fn show_timestamp(time: Time) -> String {
    if time.offset.is_zero() { time.at.to_string() } else { time.at.display_with_offset(time.offset).to_string() }
}

/// In seconds: `3600s`, `0.5s`.
pub(crate) fn show_duration(duration: SignedDuration) -> String {
    format!("{}s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_times_are_read_as_upstream_does() {
        let cases = [
            ("1h", Some("3600s")),
            ("1h30m", Some("5400s")),
            ("-1.5s", Some("-1.5s")),
            ("100ms", Some("0.1s")),
            ("0", Some("0s")),
            (".5s", Some("0.5s")),
            ("", None),
            ("1", None),
            ("1d", None),
            ("h", None),
            (".s", None),
        ];
        for (text, shown) in cases {
            assert_eq!(duration(text).map(show_duration).as_deref(), shown, "{text}");
        }
        for (text, shown) in [
            ("2026-01-02T03:04:05Z", Some("2026-01-02T03:04:05Z")),
            ("2026-01-02T03:04:05.25+01:00", Some("2026-01-02T03:04:05.25+01:00")),
            ("2026-01-02 03:04:05Z", None),
            ("2026-01-02T03:04:05", None),
            ("2026-01-02", None),
        ] {
            assert_eq!(timestamp(text).map(show_timestamp).as_deref(), shown, "{text}");
        }
        assert_eq!(openapi_duration("2 days").map(show_duration).as_deref(), Some("172800s"));
    }
}
