//! `format`, and texts in quotes.

use super::{Outcome, conversions::shown, no_overload, tenth};
use crate::{Budget, EvaluationError, List, Map, Value};

/// How many digits follow the point if the format does not state it.
const PRECISION: usize = 6;
/// How many digits follow the point at most.
const PRECISION_MAX: usize = 1_000;
/// How deep lists and maps are shown at most.
const DEPTH_MAX: usize = 100;

fn failed(text: impl Into<String>) -> EvaluationError {
    EvaluationError::failed(text)
}

/// A text in quotes, as the language writes it.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        let escape = match character {
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\u{c}' => 'f',
            '\n' => 'n',
            '\r' => 'r',
            '\t' => 't',
            '\u{b}' => 'v',
            '\\' | '"' => character,
            other => {
                quoted.push(other);
                continue;
            }
        };
        quoted.extend(['\\', escape]);
    }
    quoted.push('"');
    quoted
}

pub(super) fn format<'a>(arguments: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    let [Value::String(format), Value::List(values)] = arguments else { return Err(no_overload()) };
    budget.spend(tenth(format.len() as u64))?;
    let (mut written, mut rest, mut next) = (String::new(), format.as_str(), 0);
    while let Some(at) = rest.find('%') {
        written.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            written.push('%');
            rest = after;
            continue;
        }
        let value = values.get(next, budget)?.ok_or_else(|| failed(format!("index {next} out of range")))?;
        next += 1;
        let before = written.len();
        rest = write(rest, &value, &mut written, budget)?;
        budget.spend(tenth((written.len() - before) as u64))?;
    }
    written.push_str(rest);
    Ok(written.into())
}

/// Why a clause of a format cannot be read. The messages are upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClauseError {
    /// The format ends within it.
    #[error("could not parse formatting clause: unexpected end of string")]
    End,
    #[error("could not parse formatting clause: error while parsing precision")]
    Precision,
    #[error("could not parse formatting clause: unrecognized formatting clause \"{0}\"")]
    Verb(char),
}

/// The precision and the verb of a clause, and what follows it in the format.
pub(crate) fn clause(format: &str) -> Result<(usize, char, &str), ClauseError> {
    let (precision, rest) = match format.strip_prefix('.') {
        None => (PRECISION, format),
        Some(rest) => {
            let end = rest.find(|digit: char| !digit.is_ascii_digit()).ok_or(ClauseError::End)?;
            let precision = rest[..end].parse().ok().filter(|precision| *precision <= PRECISION_MAX);
            (precision.ok_or(ClauseError::Precision)?, &rest[end..])
        }
    };
    let verb = rest.chars().next().ok_or(ClauseError::End)?;
    if "sdboxXfe".contains(verb) { Ok((precision, verb, &rest[verb.len_utf8()..])) } else { Err(ClauseError::Verb(verb)) }
}

/// What a clause can be used for.
pub(crate) fn only(verb: char) -> &'static str {
    match verb {
        's' => "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps",
        'd' => "decimal clause can only be used on integers",
        'b' => "only integers and bools can be formatted as binary",
        'o' => "octal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        _ => "only integers, byte buffers, and strings can be formatted as hex",
    }
}

/// Writes a value as the format states it, and returns what follows in the format.
fn write<'f>(format: &'f str, value: &Value<'_>, written: &mut String, budget: &mut Budget) -> Result<&'f str, EvaluationError> {
    let (precision, verb, rest) = clause(format).map_err(|why| failed(why.to_string()))?;
    let during = |error: EvaluationError| match error {
        EvaluationError::Failed(why) => failed(format!("error during formatting: {why}")),
        other => other,
    };
    match verb {
        's' => string(value, written, DEPTH_MAX, budget).map_err(during)?,
        'd' | 'b' | 'o' | 'x' | 'X' => written.push_str(&integer(verb, value).map_err(during)?),
        _ => written.push_str(&number(verb, precision, value).map_err(during)?),
    }
    Ok(rest)
}

fn string(value: &Value<'_>, written: &mut String, depth: usize, budget: &mut Budget) -> Result<(), EvaluationError> {
    budget.spend(1)?;
    match value {
        Value::Null => written.push_str("null"),
        Value::List(list) if 0 < depth => elements(list, written, depth - 1, budget)?,
        Value::Map(map) if 0 < depth => members(map, written, depth - 1, budget)?,
        Value::Opaque(_) | Value::Optional(_) | Value::Fields(_) | Value::List(_) | Value::Map(_) => {
            return Err(failed(format!("{}, was given {}", only('s'), value.type_name())));
        }
        other => {
            budget.spend(tenth(other.size()))?;
            written.push_str(&shown(other).unwrap_or_default());
        }
    }
    Ok(())
}

/// A value in a list or a map.
fn inner(value: &Value<'_>, depth: usize, budget: &mut Budget) -> Result<String, EvaluationError> {
    let mut text = String::new();
    if let Value::Double(number) = value {
        text = fixed(*number, PRECISION);
    } else {
        string(value, &mut text, depth, budget)?;
    }
    Ok(match value {
        Value::String(_) => quoted(&text),
        Value::Bytes(_) => format!("b{}", quoted(&text)),
        Value::Timestamp(_) => format!("timestamp({})", quoted(&text)),
        Value::Duration(_) => format!("duration({})", quoted(&text)),
        _ => text,
    })
}

fn elements(list: &List<'_>, written: &mut String, depth: usize, budget: &mut Budget) -> Result<(), EvaluationError> {
    written.push('[');
    for index in 0..list.len() {
        if 0 < index {
            written.push_str(", ");
        }
        if let Some(element) = list.get(index, budget)? {
            written.push_str(&inner(&element, depth, budget)?);
        }
    }
    written.push(']');
    Ok(())
}

fn members(map: &Map<'_>, written: &mut String, depth: usize, budget: &mut Budget) -> Result<(), EvaluationError> {
    let mut all = Vec::with_capacity(map.len());
    for (key, value) in map.entries(budget)? {
        all.push((inner(&key, depth, budget)?, inner(&value, depth, budget)?));
    }
    all.sort();
    let all: Vec<String> = all.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
    written.push_str(&format!("{{{}}}", all.join(", ")));
    Ok(())
}

fn integer(verb: char, value: &Value<'_>) -> Result<String, EvaluationError> {
    let (size, sign) = match value {
        Value::Int(value) => (value.unsigned_abs(), if *value < 0 { "-" } else { "" }),
        Value::Uint(value) => (*value, ""),
        Value::Bool(value) if verb == 'b' => (u64::from(*value), ""),
        Value::String(text) if matches!(verb, 'x' | 'X') => return Ok(hexadecimal(text.as_bytes(), verb)),
        Value::Bytes(bytes) if matches!(verb, 'x' | 'X') => return Ok(hexadecimal(bytes, verb)),
        other => return Err(failed(format!("{}, was given {}", only(verb), other.type_name()))),
    };
    Ok(match verb {
        'd' => format!("{sign}{size}"),
        'b' => format!("{sign}{size:b}"),
        'o' => format!("{sign}{size:o}"),
        'x' => format!("{sign}{size:x}"),
        _ => format!("{sign}{size:X}"),
    })
}

fn hexadecimal(bytes: &[u8], verb: char) -> String {
    bytes.iter().map(|byte| if verb == 'x' { format!("{byte:02x}") } else { format!("{byte:02X}") }).collect()
}

fn number(verb: char, precision: usize, value: &Value<'_>) -> Result<String, EvaluationError> {
    let number = match value {
        Value::Double(number) => *number,
        Value::String(text) if matches!(text.as_str(), "NaN" | "Infinity" | "-Infinity") => text.parse().unwrap_or(f64::NAN),
        other => return Err(failed(format!("{}, was given {}", only(verb), other.type_name()))),
    };
    if !number.is_finite() {
        let sign = if number == f64::NEG_INFINITY { "-" } else { "" };
        return Ok(if number.is_nan() { "NaN".to_owned() } else { format!("{sign}∞") });
    }
    Ok(if verb == 'f' { fixed(number, precision) } else { scientific(number, precision) })
}

/// With commas between groups of three digits, as upstream's locale does.
fn fixed(number: f64, precision: usize) -> String {
    let plain = format!("{number:.precision$}");
    let (whole, fraction) = plain.split_once('.').map_or((plain.as_str(), None), |(whole, fraction)| (whole, Some(fraction)));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut grouped = String::from(sign);
    for (at, digit) in digits.chars().enumerate() {
        if 0 < at && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped.extend(fraction.map(|fraction| format!(".{fraction}")));
    grouped
}

/// As `1.5×10⁰³`.
fn scientific(number: f64, precision: usize) -> String {
    let plain = format!("{number:.precision$e}");
    let (digits, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(("", exponent), |exponent| ("⁻", exponent));
    let exponent = format!("{exponent:0>2}");
    let raised = exponent.chars().map(|digit| match digit {
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        other => other.to_digit(10).and_then(|digit| char::from_u32(0x2070 + digit)).unwrap_or(other),
    });
    format!("{digits}×10{sign}{}", raised.collect::<String>())
}
