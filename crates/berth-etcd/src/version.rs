//! The releases of etcd, and their properties.

use std::fmt;

/// A release of etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// Parses `3.5.13` or `3.6.0-rc.1`. A part that is not a number counts as 0.
    #[must_use]
    pub(crate) fn parse(text: &str) -> Self {
        let number = |part: &str| part.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default().parse().unwrap_or_default();
        let mut parts = text.splitn(3, '.').map(number);
        let mut next = || parts.next().unwrap_or_default();
        Self(next(), next(), next())
    }

    /// Returns why the release must not be used.
    pub(crate) fn fault(self) -> Option<&'static str> {
        match self {
            // Issue 13766 of etcd: a member that is killed under load may come back without writes that it had acknowledged.
            Self(3, 5, 0..=2) => Some("3.5.0 to 3.5.2 can lose acknowledged writes; use 3.5.3 or later"),
            older if older < Self(3, 4, 0) => Some("it is older than 3.4"),
            _ => None,
        }
    }

    /// Whether requested progress never overtakes events. In older releases it could.
    pub(crate) fn reports_progress(self) -> bool {
        match self {
            Self(3, 4, patch) => 31 <= patch,
            Self(3, 5, patch) => 13 <= patch,
            later => Self(3, 6, 0) <= later,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_that_lose_data_or_overtake_events_are_known() {
        let told = |text: &str| {
            let version = Version::parse(text);
            format!("{version} {} {}", if version.fault().is_some() { "no" } else { "yes" }, version.reports_progress())
        };
        let seen =
            ["3.3.27", "3.4.30", "3.4.31", "3.5.0", "3.5.2", "3.5.3", "3.5.12", "3.5.13", "3.6.0-rc.1", "3.6.4", "4.0.0", "?"].map(told);
        assert_eq!(
            seen,
            [
                "3.3.27 no false",
                "3.4.30 yes false",
                "3.4.31 yes true",
                "3.5.0 no false",
                "3.5.2 no false",
                "3.5.3 yes false",
                "3.5.12 yes false",
                "3.5.13 yes true",
                "3.6.0 yes true",
                "3.6.4 yes true",
                "4.0.0 yes true",
                "0.0.0 no false",
            ]
        );
    }
}
