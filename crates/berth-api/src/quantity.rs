//! Resource quantities: `100m`, `1.5Gi`, `2e3`. Exact to a billionth (binary suffixes: to 20 digits), as upstream.

use std::{cmp::Ordering, fmt, str::FromStr};

/// Billionths in one.
const NANOS: i128 = 1_000_000_000;
/// Upstream's largest quantity, in billionths. Larger ones are reduced to it.
const NANOS_MAX: i128 = i64::MAX as i128 * NANOS;
/// The maximum exponent. Even `1e-30` and `1e30` are far outside the range of distinguishable values.
const EXPONENT_MAX: u32 = 100;

/// A number with its notation. Two quantities are equal if their numbers are.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// The notation of a quantity, in which it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// `1Ki`.
    BinarySi,
    /// `1k`.
    DecimalSi,
    /// `1e3`.
    DecimalExponent,
}

/// Why a text is not a quantity. The messages are upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a number with a suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// More than one decimal point, or no digit.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// An unknown suffix, or an exponent out of range.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The factor of a suffix.
enum Scale {
    /// Ten to this power.
    Ten(i32),
    /// 1024 to this power.
    Ki(u32),
}

const DECIMAL_SUFFIXES: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY_SUFFIXES: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// Returns the exact number in billionths.
    #[must_use]
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// Returns a quantity of this many billionths, at most the largest quantity.
    #[must_use]
    pub fn from_nanos(nanos: i128) -> Self {
        Self { nanos: bounded(nanos), format: Format::DecimalSi }
    }

    /// Returns a quantity of a whole number.
    #[must_use]
    pub fn from_integer(value: i64) -> Self {
        Self { nanos: i128::from(value) * NANOS, format: Format::DecimalSi }
    }

    /// Returns the number, rounded up to a whole one.
    #[must_use]
    pub fn value(self) -> i64 {
        saturate(div_up(self.nanos, NANOS))
    }

    /// Returns thousandths, rounded up, at most `i64::MAX`.
    #[must_use]
    pub fn milli_value(self) -> i64 {
        saturate(div_up(self.nanos, NANOS / 1000))
    }

    /// Returns the same quantity, rounded up to thousandths.
    #[must_use]
    pub fn round_up_to_milli(self) -> Self {
        Self { nanos: div_up(self.nanos, NANOS / 1000) * (NANOS / 1000), ..self }
    }

    /// Whether it is a whole number.
    #[must_use]
    pub fn is_integer(self) -> bool {
        self.nanos % NANOS == 0
    }

    /// Whether it is below zero.
    #[must_use]
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Whether it is zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Returns the sum in the notation of `self` (of `other`, if `self` is zero). Saturates at the largest quantity.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nanos: bounded(self.nanos + other.nanos), format }
    }

    /// Returns the difference in the notation of [`Self::plus`].
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.plus(Self { nanos: -other.nanos, ..other })
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = unsigned.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        if number.is_empty() {
            return Err(QuantityError::Format);
        }
        let (scale, format) = parse_suffix(suffix)?;
        let magnitude = magnitude(number, &scale)?;
        let nanos = if text.starts_with('-') { -magnitude } else { magnitude };
        Ok(Self { nanos, format })
    }
}

fn parse_suffix(suffix: &str) -> Result<(Scale, Format), QuantityError> {
    if let Some(power) = BINARY_SUFFIXES.iter().position(|known| *known == suffix) {
        return Ok((Scale::Ki(u32::try_from(power).map_or(0, |power| power + 1)), Format::BinarySi));
    }
    if let Some((_, power)) = DECIMAL_SUFFIXES.iter().find(|(known, _)| *known == suffix) {
        return Ok((Scale::Ten(*power), Format::DecimalSi));
    }
    if !suffix.bytes().all(|byte| b"eEinumkKMGTP+-0123456789".contains(&byte)) {
        return Err(QuantityError::Format);
    }
    let exponent = suffix.strip_prefix(['e', 'E']).and_then(|digits| digits.parse::<i32>().ok());
    let power = exponent.filter(|power| power.unsigned_abs() <= EXPONENT_MAX).ok_or(QuantityError::Suffix)?;
    Ok((Scale::Ten(power), Format::DecimalExponent))
}

/// Returns `number` without sign, scaled, in billionths, rounded up, at most [`NANOS_MAX`].
fn magnitude(number: &str, scale: &Scale) -> Result<i128, QuantityError> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return Err(QuantityError::Number);
    }
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let power_of_ten = match scale {
        Scale::Ten(power) => *power,
        Scale::Ki(_) => 0,
    };
    let fraction_digits = i32::try_from(fraction.len()).map_err(|_| QuantityError::Number)?;
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Ok(0);
    }
    let shift = power_of_ten - fraction_digits + 9;
    let factor = match scale {
        Scale::Ten(_) => 1,
        Scale::Ki(power) => 1024_i128.pow(*power),
    };
    Ok(scaled(digits, shift, factor))
}

/// Returns `digits` × `factor` × ten to the `shift`, rounded up, at most [`NANOS_MAX`].
fn scaled(digits: &str, shift: i32, factor: i128) -> i128 {
    // The digits that fit into 128 bits: 37, or 20 together with the largest binary factor. Both exceed the largest
    // quantity. Further digits only affect the rounding.
    let kept = if factor == 1 { 37 } else { 20 };
    let (kept, rest) = digits.split_at(digits.len().min(kept));
    let lost = rest.bytes().any(|byte| byte != b'0');
    let shift = i64::from(shift) + i64::try_from(rest.len()).unwrap_or(i64::MAX - 1000);
    let mantissa: i128 = kept.bytes().fold(0, |number, digit| number * 10 + i128::from(digit - b'0'));
    let product = mantissa.saturating_mul(factor);
    if shift < 0 {
        let power = u32::try_from(-shift).unwrap_or(u32::MAX);
        let quotient = 10_i128.checked_pow(power).map_or(1, |divisor| div_up(product + i128::from(lost), divisor));
        return quotient.min(NANOS_MAX);
    }
    let grown = u32::try_from(shift).ok().and_then(|power| 10_i128.checked_pow(power)).and_then(|power| product.checked_mul(power));
    grown.map_or(NANOS_MAX, |nanos| nanos + i128::from(lost)).min(NANOS_MAX)
}

/// Rounds away from zero, as upstream for all quantities.
fn div_up(value: i128, divisor: i128) -> i128 {
    let (quotient, rest) = (value / divisor, value % divisor);
    quotient + if rest == 0 { 0 } else { value.signum() }
}

fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

fn bounded(nanos: i128) -> i128 {
    nanos.clamp(-NANOS_MAX, NANOS_MAX)
}

impl fmt::Display for Quantity {
    /// The canonical form: no fraction, the largest suffix that keeps the number whole. A binary form that would need a fraction, or is
    /// below 1024, is printed as a decimal one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.nanos / NANOS;
        if self.format == Format::BinarySi && self.is_integer() && whole.unsigned_abs() >= 1024 {
            let (mantissa, power) = divide_out(whole, 1024, BINARY_SUFFIXES.len());
            let suffix = power.checked_sub(1).map_or("", |index| BINARY_SUFFIXES[index]);
            return write!(f, "{mantissa}{suffix}");
        }
        let (mantissa, power) = divide_out(self.nanos, 1000, DECIMAL_SUFFIXES.len() - 1);
        let (suffix, exponent) = if mantissa == 0 { ("", 0) } else { DECIMAL_SUFFIXES[power] };
        match (self.format, exponent) {
            (_, 0) => write!(f, "{mantissa}"),
            (Format::DecimalExponent, _) => write!(f, "{mantissa}e{exponent}"),
            (Format::BinarySi | Format::DecimalSi, _) => write!(f, "{mantissa}{suffix}"),
        }
    }
}

/// Divides `value` by `base` as long as there is no remainder, at most `power_max` times. Returns the result and the
/// number of divisions.
fn divide_out(mut value: i128, base: i128, power_max: usize) -> (i128, usize) {
    let mut power = 0;
    while power < power_max && value != 0 && value % base == 0 {
        value /= base;
        power += 1;
    }
    (value, power)
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn canonical_forms_are_upstreams() {
        let cases = [
            ("0", "0"),
            ("0Gi", "0"),
            ("0n", "0"),
            ("-0", "0"),
            ("1", "1"),
            ("+1", "1"),
            ("100m", "100m"),
            ("0.1", "100m"),
            (".5", "500m"),
            ("1.", "1"),
            ("1.5", "1500m"),
            ("1000", "1k"),
            ("1000m", "1"),
            ("1024", "1024"),
            ("1024Ki", "1Mi"),
            ("1Ki", "1Ki"),
            ("0.5Gi", "512Mi"),
            ("0.5Ki", "512"),
            ("1.5Gi", "1536Mi"),
            ("1.1Ki", "1126400m"),
            ("100000", "100k"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("1E", "1E"),
            ("12e1", "120"),
            ("5e-3", "5e-3"),
            ("-1.5Gi", "-1536Mi"),
            ("0.0000000001", "1n"),
            ("-0.0000000001", "-1n"),
            ("1.0000000001Ki", "1024000000103n"),
            ("9Ei", "9223372036854775807"),
            ("1e30", "9223372036854775807"),
            ("100000000000000000000000000000000000000000000", "9223372036854775807"),
            ("000000000000000000000000000000000000000000001", "1"),
            ("1e-99", "1e-9"),
        ];
        for (text, wanted) in cases {
            assert_eq!(quantity(text).to_string(), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        let cases = [
            ("", QuantityError::Format),
            ("m", QuantityError::Format),
            ("-", QuantityError::Format),
            ("1 Gi", QuantityError::Format),
            ("1x", QuantityError::Format),
            (".", QuantityError::Number),
            ("1.2.3", QuantityError::Number),
            ("1kk", QuantityError::Suffix),
            ("1ki", QuantityError::Suffix),
            ("1e", QuantityError::Suffix),
            ("1e99999999999", QuantityError::Suffix),
            ("1e101", QuantityError::Suffix),
        ];
        for (text, wanted) in cases {
            assert_eq!(text.parse::<Quantity>(), Err(wanted), "{text}");
        }
    }

    #[test]
    fn values_round_up() {
        assert_eq!(quantity("1.1").value(), 2);
        assert_eq!(quantity("-1.1").value(), -2);
        assert_eq!(quantity("1u").milli_value(), 1);
        assert_eq!(quantity("1Ei").milli_value(), i64::MAX);
        assert_eq!(quantity("100u").round_up_to_milli().to_string(), "1m");
        assert!(quantity("1Gi") > quantity("1G"));
        assert_eq!(quantity("1024Mi"), quantity("1Gi"));
        assert_eq!(quantity("1Gi").plus(quantity("512Mi")).to_string(), "1536Mi");
        assert_eq!(quantity("1").minus(quantity("100m")).to_string(), "900m");
        assert_eq!(quantity("0").plus(quantity("1Ki")).to_string(), "1Ki");
        assert_eq!(quantity("8E").plus(quantity("8E")).value(), i64::MAX);
    }

    proptest! {
        #[test]
        fn printing_loses_nothing(text in "-?[0-9]{1,12}(\\.[0-9]{0,12})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e-?[0-9]|E[0-9])?") {
            let read = quantity(&text);
            let printed = read.to_string();
            prop_assert_eq!(quantity(&printed), read);
            prop_assert_eq!(quantity(&printed).to_string(), printed);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[-+0-9.eEinumkKMGTP]{0,60}|.{0,10}") {
            let _ = text.parse::<Quantity>();
        }
    }
}
