//! The order of preference of the versions of a group: `v2`, `v1`, `v1beta1`, `v1alpha2`, then all other names.
//!
//! Source: upstream `apimachinery/pkg/version/helpers.go`, `CompareKubeAwareVersionStrings`.

use std::cmp::{Ordering, Reverse};

/// How mature a version is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Maturity {
    Alpha,
    Beta,
    Stable,
}

/// Compares two versions. The preferred one is less.
#[must_use]
pub fn compare(one: &str, other: &str) -> Ordering {
    match (parse(one), parse(other)) {
        (Some(one), Some(other)) => Reverse(one).cmp(&Reverse(other)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => one.cmp(other),
    }
}

/// Returns the maturity, and the numbers of the version. `None`: it is not named as a version of Kubernetes.
fn parse(version: &str) -> Option<(Maturity, u64, u64)> {
    let numbers = version.strip_prefix('v')?;
    for (word, maturity) in [("alpha", Maturity::Alpha), ("beta", Maturity::Beta)] {
        if let Some((major, minor)) = numbers.split_once(word) {
            return Some((maturity, number(major)?, number(minor)?));
        }
    }
    Some((Maturity::Stable, number(numbers)?, 0))
}

/// Upstream's numbers begin with 1 to 9.
fn number(digits: &str) -> Option<u64> {
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit()) && !digits.starts_with('0');
    if is_number { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_first_and_later_ones_before_earlier_ones() {
        let mut versions =
            ["foo10", "v1alpha1", "foo1", "v3beta1", "v10", "v11beta2", "v12alpha1", "v2", "v10beta3", "v11alpha2", "v1", "v01"];
        versions.sort_by(|one, other| compare(one, other));
        let wanted = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "v1alpha1", "foo1", "foo10", "v01"];
        assert_eq!(versions, wanted);
    }
}
