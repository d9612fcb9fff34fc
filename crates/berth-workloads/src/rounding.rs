//! Rounding of shares.

/// `value * numerator / denominator`, rounded half away from zero. `denominator` is above 0, the others are counts of pods.
#[must_use]
pub(crate) fn scale(value: i64, numerator: i64, denominator: i64) -> i64 {
    let (product, denominator) = (i128::from(value) * i128::from(numerator), i128::from(denominator));
    let rounded = (2 * product.abs() + denominator) / (2 * denominator) * product.signum();
    i64::try_from(rounded).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_away_from_zero() {
        let scaled =
            [(5, 3, 2), (-5, 3, 2), (4, 1, 3), (5, 1, 3), (0, 3, 2), (i64::MAX, i64::MAX, 1)].map(|(value, by, of)| scale(value, by, of));
        assert_eq!(scaled, [8, -8, 1, 2, 0, i64::MAX]);
    }
}
