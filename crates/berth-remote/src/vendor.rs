//! The vendor of an API server.

use serde::Deserialize;

/// The suffix of the version of berth's own API server (`version_info` in `berth-registry`).
const BERTH: &str = "+berth";

/// The vendor of a cluster's API server. berth simulates nodes only on its own. Other clusters have controllers besides
/// berth's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// berth's.
    Berth,
    /// Another vendor, with its version, such as `v1.36.2`.
    Foreign(String),
}

/// The fields of `/version` that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Version {
    git_version: String,
}

impl Vendor {
    pub(crate) fn of(version: Version) -> Self {
        if version.git_version.ends_with(BERTH) { Self::Berth } else { Self::Foreign(version.git_version) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_berths_own_version_is_berths() {
        let check = |version: &str, wanted: Vendor| {
            let read = serde_json::from_str(version).expect("a version");
            assert_eq!(Vendor::of(read), wanted, "{version}");
        };
        check(r#"{"major":"1","minor":"36","gitVersion":"v1.36.0+berth"}"#, Vendor::Berth);
        for foreign in ["v1.36.2", "v1.31.4+k3s1", "v1.36.2-berth.1", ""] {
            check(&format!(r#"{{"gitVersion":"{foreign}"}}"#), Vendor::Foreign(foreign.to_owned()));
        }
        check("{}", Vendor::Foreign(String::new()));
    }
}
