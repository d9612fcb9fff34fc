//! Fields that are a number or a percentage: `maxUnavailable: 1`, `maxSurge: 25%`.

use crate::{FieldError, Path};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

const NOT_PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";

/// The rounding of a fraction of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Rounds up.
    Up,
    /// Rounds down.
    Down,
}

/// Returns the number before the `%`, at most `u32::MAX`, if `text` is digits and `%`.
#[must_use]
pub fn parse_percent(text: &str) -> Option<u32> {
    let digits = text.strip_suffix('%').filter(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some(digits.parse().unwrap_or(u32::MAX))
}

/// Returns the number, or that percentage of `total`. `None` for a text that is not a percentage. Saturates at the
/// bounds of `i32`.
#[must_use]
pub fn resolve(value: &IntOrString, total: i32, rounding: Rounding) -> Option<i32> {
    let percent = match value {
        IntOrString::Int(number) => return Some(*number),
        IntOrString::String(text) => parse_percent(text)?,
    };
    let hundredths = i128::from(total) * i128::from(percent);
    let rounded = match rounding {
        Rounding::Up => -((-hundredths).div_euclid(100)),
        Rounding::Down => hundredths.div_euclid(100),
    };
    Some(i32::try_from(rounded).unwrap_or(if rounded < 0 { i32::MIN } else { i32::MAX }))
}

/// Returns the errors of a value that must be a number ≥ 0 or a percentage.
#[must_use]
pub fn validate_not_negative(value: &IntOrString, path: &Path) -> Vec<FieldError> {
    match value {
        IntOrString::Int(number) if *number < 0 => vec![FieldError::invalid(path, *number, "must be greater than or equal to 0")],
        IntOrString::String(text) if parse_percent(text).is_none() => vec![FieldError::invalid(path, text.as_str(), NOT_PERCENT)],
        IntOrString::Int(_) | IntOrString::String(_) => Vec::new(),
    }
}

/// Returns the error of a percentage above 100%.
#[must_use]
pub fn validate_at_most_100_percent(value: &IntOrString, path: &Path) -> Option<FieldError> {
    let IntOrString::String(text) = value else { return None };
    let beyond = parse_percent(text).is_some_and(|percent| percent > 100);
    beyond.then(|| FieldError::invalid(path, text.as_str(), "must not be greater than 100%"))
}

/// Whether the value is 0 or 0%.
#[must_use]
pub fn is_zero(value: &IntOrString) -> bool {
    match value {
        IntOrString::Int(number) => *number == 0,
        IntOrString::String(text) => parse_percent(text) == Some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> IntOrString {
        IntOrString::String(text.to_owned())
    }

    #[test]
    fn percentages_round_as_asked() {
        let check = |value: IntOrString, total, up, down| {
            assert_eq!(resolve(&value, total, Rounding::Up), up, "{value:?} of {total} up");
            assert_eq!(resolve(&value, total, Rounding::Down), down, "{value:?} of {total} down");
        };
        check(text("25%"), 10, Some(3), Some(2));
        check(text("25%"), 4, Some(1), Some(1));
        check(text("0%"), 4, Some(0), Some(0));
        check(text("1%"), 1, Some(1), Some(0));
        check(text("150%"), 3, Some(5), Some(4));
        check(IntOrString::Int(7), 3, Some(7), Some(7));
        check(text("7"), 3, None, None);
        check(text("99999999999999999999%"), i32::MAX, Some(i32::MAX), Some(i32::MAX));
    }

    #[test]
    fn faults_are_upstreams() {
        let path = Path::new("f");
        let check = |value: IntOrString, wanted: &[&str]| {
            let mut faults = validate_not_negative(&value, &path);
            faults.extend(validate_at_most_100_percent(&value, &path));
            assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), wanted, "{value:?}");
        };
        check(IntOrString::Int(0), &[]);
        check(text("100%"), &[]);
        check(IntOrString::Int(-1), &["f: Invalid value: -1: must be greater than or equal to 0"]);
        check(text("101%"), &["f: Invalid value: \"101%\": must not be greater than 100%"]);
        for bad in ["", "%", "1", "-1%", "+1%", "1.5%", " 1%"] {
            check(text(bad), &[&format!("f: Invalid value: \"{bad}\": {NOT_PERCENT}")]);
        }
    }
}
