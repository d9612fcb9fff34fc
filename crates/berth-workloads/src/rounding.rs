//! Rounding of shares.

/// `value * numerator / denominator`, rounded half away from zero. `denominator` is above 0, the others are counts of pods.
#[must_use]
pub(crate) fn scale(value: i64, numerator: i64, denominator: i64) -> i64 {
    let (product, denominator) = (i128::from(value) * i128::from(numerator), i128::from(denominator));
    let rounded = (2 * product.abs() + denominator) / (2 * denominator) * product.signum();
    i64::try_from(rounded).unwrap_or(i64::MAX)
}
