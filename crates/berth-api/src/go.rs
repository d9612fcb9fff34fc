//! Numbers as Go writes them: in messages, and in the JSON of objects. Clients and messages of upstream have them in this form.

use serde_json::{
    Number, Value,
    ser::{CompactFormatter, Formatter},
};
use std::io::{self, Write};

/// Returns a number as Go prints it (`%v`): `12`, `0.5`, `1e+06`. What does not fit into 64 bits with a sign is a float.
#[must_use]
pub fn number(number: &Number) -> String {
    number.as_i64().map_or_else(|| float(number.as_f64().unwrap_or(f64::NAN)), |number| number.to_string())
}

/// Returns a float as Go prints it (`%v`).
#[must_use]
pub fn float(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "NaN" } else { ["+Inf", "-Inf"][usize::from(value < 0.0)] }.to_owned();
    }
    let (digits, exponent) = scientific(value);
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// The shortest digits of a float, and its exponent.
fn scientific(value: f64) -> (String, i32) {
    let mut text = format!("{value:e}");
    let at = text.rfind('e').unwrap_or(text.len());
    let exponent = text.get(at + 1..).and_then(|exponent| exponent.parse().ok()).unwrap_or_default();
    text.truncate(at);
    (text, exponent)
}

/// Returns a value as JSON, as Go writes it into messages: safe in HTML.
#[must_use]
pub fn json(value: &Value) -> String {
    let mut out = Vec::new();
    write_json(&mut out, value);
    String::from_utf8_lossy(&out).replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
}

/// Writes a value as JSON. A float without a fraction is written as an integer, as Go does.
///
/// # Panics
/// If the keys of a map in the value are not strings.
pub fn write_json(out: &mut Vec<u8>, value: &impl serde::Serialize) {
    value.serialize(&mut serde_json::Serializer::with_formatter(out, Floats)).expect("the keys of objects are strings");
}

/// Writes floats as Go's encoder of JSON.
struct Floats;

impl Formatter for Floats {
    fn write_f64<W: Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let size = value.abs();
        if size == 0.0 {
            return writer.write_all(b"0");
        }
        if (1e-6..1e21).contains(&size) {
            return write!(writer, "{value}");
        }
        let (digits, exponent) = scientific(value);
        write!(writer, "{digits}e{exponent:+}")
    }

    /// Upstream reads such integers as floats.
    fn write_u64<W: Write + ?Sized>(&mut self, writer: &mut W, value: u64) -> io::Result<()> {
        if value <= i64::MAX.unsigned_abs() { CompactFormatter.write_u64(writer, value) } else { self.write_f64(writer, value as f64) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_in_messages_are_those_of_go() {
        for (value, wanted) in [
            (json!(0), "0"),
            (json!(0.0), "0"),
            (json!(1_000_000), "1000000"),
            (json!(100_000.0), "100000"),
            (json!(1_000_000.0), "1e+06"),
            (json!(1_000_000.5), "1.0000005e+06"),
            (json!(-2.5e-7), "-2.5e-07"),
            (json!(0.0001), "0.0001"),
            (json!(0.00001), "1e-05"),
            (json!(1_234_567.0), "1.234567e+06"),
            (json!(123_456.789), "123456.789"),
            (json!(1e21), "1e+21"),
            (json!(9_223_372_036_854_775_808_u64), "9.223372036854776e+18"),
        ] {
            assert_eq!(number(value.as_number().expect("a number")), wanted, "{value}");
        }
        assert_eq!((float(f64::NAN), float(f64::INFINITY), float(f64::NEG_INFINITY)), ("NaN".into(), "+Inf".into(), "-Inf".into()));
    }

    /// Kubernetes 1.36.2 was asked.
    #[test]
    fn numbers_in_objects_are_those_of_go() {
        let value =
            json!([1.0, 1e3, -0.0, 1e20, 1e21, 1e22, 0.1, 1e-6, 1e-7, 12_345_678_901_234_567_890_u64, 123_456_789_012_345_678_i64, 1e38]);
        let wanted = "[1,1000,0,100000000000000000000,1e+21,1e+22,0.1,0.000001,1e-7,12345678901234567000,123456789012345678,1e+38]";
        let mut out = Vec::new();
        write_json(&mut out, &value);
        assert_eq!(String::from_utf8_lossy(&out), wanted);
        assert_eq!(json(&json!({"a": "<&>", "b": 2.0})), r#"{"a":"\u003c\u0026\u003e","b":2}"#);
    }
}
