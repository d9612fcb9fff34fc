//! Intervals, as Go writes durations.
//!
//! Source: Go's `time.ParseDuration`.

use super::IntervalFault;
use jiff::SignedDuration;

/// The units of an interval, in nanoseconds.
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
/// Digits of a fraction that count: none smaller changes a number of nanoseconds.
const FRACTION_DIGITS_MAX: usize = 18;

/// Reads an interval, such as `1h30m`.
pub(super) fn parse_interval(text: &str) -> Result<SignedDuration, IntervalFault> {
    let invalid = || IntervalFault::Invalid(text.to_owned());
    let is_negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanoseconds: u128 = 0;
    while !rest.is_empty() {
        let number = rest.find(|letter: char| letter != '.' && !letter.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, after) = rest.split_at(number);
        if !digits.contains(|letter: char| letter.is_ascii_digit()) || 1 < digits.matches('.').count() {
            return Err(invalid());
        }
        let end = after.find(|letter: char| letter == '.' || letter.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if unit.is_empty() {
            return Err(IntervalFault::MissingUnit(text.to_owned()));
        }
        let unknown = || IntervalFault::UnknownUnit { unit: unit.to_owned(), interval: text.to_owned() };
        let size = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, size)| *size).ok_or_else(unknown)?;
        nanoseconds = amount(digits, size).and_then(|amount| nanoseconds.checked_add(amount)).ok_or_else(invalid)?;
        rest = after;
    }
    let sign = if is_negative { -1 } else { 1 };
    i64::try_from(nanoseconds).map(|count| SignedDuration::from_nanos(sign * count)).map_err(|_| invalid())
}

/// A number of a unit, in nanoseconds. `None`: too large.
fn amount(digits: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.get(..FRACTION_DIGITS_MAX).unwrap_or(fraction);
    let parse = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u64>().ok().map(u128::from) };
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    parse(whole)?.checked_mul(unit)?.checked_add(parse(fraction)? * unit / scale)
}
