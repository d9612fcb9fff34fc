//! Numbers that users give as a number or as a percentage.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Which way a percentage of a whole number goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the next whole number above.
    Up,
    /// To the next whole number below.
    Down,
}

/// A text where a number or a percentage was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotANumber {
    /// As given.
    pub text: String,
}

impl std::fmt::Display for NotANumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} is neither a number nor a percentage", self.text)
    }
}

impl std::error::Error for NotANumber {}

/// The number, or the percentage of `total`.
///
/// # Errors
/// A text that is not a whole number followed by `%`.
pub fn resolve(value: &IntOrString, total: i64, rounding: Rounding) -> Result<i64, NotANumber> {
    match value {
        IntOrString::Int(number) => Ok(i64::from(*number)),
        IntOrString::String(text) => {
            let percent = text.strip_suffix('%').and_then(|number| number.parse::<i32>().ok());
            let percent = percent.ok_or_else(|| NotANumber { text: text.clone() })?;
            Ok(percent_of(i64::from(percent), total, rounding))
        }
    }
}

fn percent_of(percent: i64, total: i64, rounding: Rounding) -> i64 {
    let hundredths = percent * total;
    match rounding {
        Rounding::Up => hundredths.div_euclid(100) + i64::from(hundredths.rem_euclid(100) > 0),
        Rounding::Down => hundredths.div_euclid(100),
    }
}

/// `value * numerator / denominator`, rounded half away from zero. `denominator` is above 0, the others are counts of pods.
#[must_use]
pub fn scale(value: i64, numerator: i64, denominator: i64) -> i64 {
    let (product, denominator) = (i128::from(value) * i128::from(numerator), i128::from(denominator));
    let rounded = (2 * product.abs() + denominator) / (2 * denominator) * product.signum();
    i64::try_from(rounded).unwrap_or(i64::MAX)
}
