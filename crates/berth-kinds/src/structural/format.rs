//! The formats that upstream checks. It ignores others.
//!
//! Source: upstream `kube-openapi/pkg/validation/strfmt` and `apiextensions-apiserver/pkg/apiserver/validation/formats.go`.

use super::Type;
use jiff::{Timestamp, civil::Date, fmt::temporal::DateTimeParser};
use serde_json::Number;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const OF_TEXTS: [&str; 28] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "date-time",
    "k8s-short-name",
    "k8s-long-name",
    "",
];

/// The formats of texts that are checked.
pub(super) fn fits(format: &str, text: &str) -> bool {
    match format {
        "date-time" => is_date_time(text),
        "date" => text.len() == 10 && text.parse::<Date>().is_ok(),
        "duration" => is_duration(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "ip" => text.parse::<IpAddr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        "byte" => is_base64(text),
        "uri" => is_uri(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "hexcolor" => text.strip_prefix('#').is_some_and(|digits| matches!(digits.len(), 3 | 6) && is_hex(digits)),
        _ => true,
    }
}

/// Whether upstream checks this format of this type.
pub(super) fn is_known(kind: Option<Type>, format: &str) -> bool {
    match kind {
        Some(Type::Integer) => matches!(format, "int32" | "int64"),
        Some(Type::Number) => matches!(format, "float" | "double"),
        Some(Type::Array | Type::Boolean | Type::Object) => false,
        Some(Type::String) | None => OF_TEXTS.contains(&format),
    }
}

/// Whether a number is in the range of its type and format. A fraction is no integer.
///
/// Source: upstream `kube-openapi/pkg/validation/validate/values.go`, `IsValueValidAgainstRange`.
pub(super) fn fits_number(kind: Option<Type>, format: &str, number: &Number) -> bool {
    let value = number.as_f64().unwrap_or(f64::NAN);
    if kind != Some(Type::Integer) {
        return !matches!(format, "float" | "float32") || (value as f32).is_finite();
    }
    let is_whole = value.fract() == 0.0;
    match format {
        "int32" => is_whole && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&value),
        "uint32" => is_whole && (0.0..=f64::from(u32::MAX)).contains(&value),
        "uint64" => number.is_u64() || is_whole && (0.0..2.0 * I64_LIMIT).contains(&value),
        _ => number.is_i64() || is_whole && (-I64_LIMIT..I64_LIMIT).contains(&value),
    }
}

/// Converts a float to an integer as Go does on common machines: the fraction is cut, and what does not fit is the smallest integer.
pub(super) fn to_integer(value: f64) -> i64 {
    if (-I64_LIMIT..I64_LIMIT).contains(&value) { value as i64 } else { i64::MIN }
}

/// Numbers from here on do not fit into 64 bits.
const I64_LIMIT: f64 = 9_223_372_036_854_775_808.0;

/// Whether a number has no fraction and is exact as one.
pub(super) fn is_whole(number: f64) -> bool {
    number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_date_time(text: &str) -> bool {
    static PARSER: DateTimeParser = DateTimeParser::new();
    let has_form = text.get(10..11).is_some_and(|letter| letter.eq_ignore_ascii_case("T"));
    has_form && PARSER.parse_timestamp(text).is_ok_and(|time: Timestamp| Timestamp::MIN <= time)
}

/// As Go's durations, with days and weeks.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let is_some = !rest.is_empty();
    while !rest.is_empty() {
        let number = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let (digits, unit) = rest.split_at(number);
        let unit = unit.trim_start();
        let end = unit.find(|letter: char| letter.is_ascii_digit() || matches!(letter, '.' | ' ' | '-' | '+')).unwrap_or(unit.len());
        let units = [
            "ns",
            "us",
            "µs",
            "μs",
            "ms",
            "s",
            "m",
            "h",
            "d",
            "w",
            "nano",
            "nanos",
            "nanosecond",
            "nanoseconds",
            "micro",
            "micros",
            "microsecond",
            "microseconds",
            "milli",
            "millis",
            "millisecond",
            "milliseconds",
            "sec",
            "secs",
            "second",
            "seconds",
            "min",
            "mins",
            "minute",
            "minutes",
            "hr",
            "hour",
            "hours",
            "day",
            "days",
            "wk",
            "week",
            "weeks",
        ];
        if digits.parse::<f64>().is_err() || !units.contains(&&unit[..end]) {
            return false;
        }
        rest = unit[end..].trim_start();
    }
    is_some
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let max = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    !bits.starts_with('+') && bits.parse::<u8>().is_ok_and(|bits| bits <= max)
}

fn is_mac(text: &str) -> bool {
    let parts = |mark: char, each: usize| {
        let parts: Vec<&str> = text.split(mark).collect();
        parts.iter().all(|part| part.len() == each && is_hex(part)) && matches!(parts.len() * each, 12 | 16 | 40)
    };
    parts(':', 2) || parts('-', 2) || parts('.', 4)
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let digits: String = text.chars().filter(|letter| *letter != '-').collect();
    let is_kind = version.is_none_or(|version| digits.chars().nth(12) == Some(version));
    digits.len() == 32 && is_hex(&digits) && is_kind
}

fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    text.len().is_multiple_of(4) && padding <= 2 && digits.bytes().all(is_digit)
}

/// As Go's `url.ParseRequestURI`: an absolute path, or a scheme and what follows it.
fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    is_scheme && !rest.is_empty()
}

fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let is_atom = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~.".contains(&byte) || 0x7f < byte;
    let has_dots = !local.starts_with('.') && !local.ends_with('.') && !local.contains("..");
    !local.is_empty() && has_dots && local.bytes().all(is_atom) && !domain.is_empty() && domain.bytes().all(is_atom)
}

fn is_hostname(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || 0x7f < byte;
        !label.is_empty() && label.len() <= 63 && !label.starts_with('-') && !label.ends_with('-') && label.bytes().all(is_inside)
    };
    text.len() <= 255 && text.split('.').all(is_label)
}
