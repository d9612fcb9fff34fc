//! The policy in a namespace's labels.

use crate::{FieldError, Path};
use std::{collections::BTreeMap, fmt};

/// The level, from unrestricted to strict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Everything is allowed.
    #[default]
    Privileged,
    /// Known privilege escalations are forbidden.
    Baseline,
    /// Only current hardening practices are allowed.
    Restricted,
}

impl Level {
    fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "privileged" => Ok(Self::Privileged),
            "baseline" => Ok(Self::Baseline),
            "restricted" => Ok(Self::Restricted),
            _ => Err("must be one of privileged, baseline, restricted"),
        }
    }
}

/// The Kubernetes release whose version of the standards applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// The newest known release.
    #[default]
    Latest,
    /// `v1.` and this.
    Minor(u32),
}

impl Version {
    fn parse(text: &str) -> Result<Self, &'static str> {
        if text == "latest" {
            return Ok(Self::Latest);
        }
        let minor = text.strip_prefix("v1.").filter(|minor| *minor == "0" || !minor.starts_with(['0', '+']));
        minor.and_then(|minor| minor.parse().ok()).map(Self::Minor).ok_or("must be \"latest\" or \"v1.x\"")
    }

    /// Returns the minor release that applies.
    pub(super) fn minor(self) -> u32 {
        match self {
            Self::Latest => u32::MAX,
            Self::Minor(minor) => minor,
        }
    }
}

/// A level in the version of a release. Printed as `restricted:latest`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelVersion {
    /// The level.
    pub level: Level,
    /// The release.
    pub version: Version,
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            Version::Latest => write!(f, "{level}:latest"),
            Version::Minor(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

/// A namespace's policy for its pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Violating pods are rejected.
    pub enforce: LevelVersion,
    /// Violations are recorded in the audit log.
    pub audit: LevelVersion,
    /// Clients that create violating objects get a warning.
    pub warn: LevelVersion,
}

const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
const ENFORCE_VERSION: &str = "pod-security.kubernetes.io/enforce-version";
const AUDIT: &str = "pod-security.kubernetes.io/audit";
const AUDIT_VERSION: &str = "pod-security.kubernetes.io/audit-version";
const WARN: &str = "pod-security.kubernetes.io/warn";
const WARN_VERSION: &str = "pod-security.kubernetes.io/warn-version";

impl Policy {
    /// Returns the policy of a namespace. `label` returns its labels. Invalid labels enforce the strictest level, and
    /// neither audit nor warn.
    #[must_use]
    pub fn of<'a>(label: impl Fn(&str) -> Option<&'a str>) -> Self {
        Self::read(label, &mut Vec::new())
    }

    fn read<'a>(label: impl Fn(&str) -> Option<&'a str>, faults: &mut Vec<FieldError>) -> Self {
        let mut read = |(level, version): (&str, &str), otherwise: Level| LevelVersion {
            level: value(level, label(level), Level::parse, otherwise, faults),
            version: value(version, label(version), Version::parse, Version::Latest, faults),
        };
        Self {
            enforce: read((ENFORCE, ENFORCE_VERSION), Level::Restricted),
            audit: read((AUDIT, AUDIT_VERSION), Level::Privileged),
            warn: read((WARN, WARN_VERSION), Level::Privileged),
        }
    }
}

/// Parses a label. Returns `otherwise` if it is invalid.
fn value<T: Default>(
    name: &str,
    text: Option<&str>,
    parse: fn(&str) -> Result<T, &'static str>,
    otherwise: T,
    faults: &mut Vec<FieldError>,
) -> T {
    match text.map(|text| (text, parse(text))) {
        None => T::default(),
        Some((_, Ok(value))) => value,
        Some((text, Err(why))) => {
            faults.push(FieldError::invalid(&Path::new("metadata.labels").key(name), text, why));
            otherwise
        }
    }
}

/// Validates a namespace's labels. With `old`, an unchanged label is not validated again.
#[must_use]
pub fn validate_labels(labels: Option<&BTreeMap<String, String>>, old: Option<&BTreeMap<String, String>>) -> Vec<FieldError> {
    let faults_of = |labels: Option<&BTreeMap<String, String>>| {
        let mut faults = Vec::new();
        Policy::read(|name| labels?.get(name).map(String::as_str), &mut faults);
        faults
    };
    let faults = faults_of(labels);
    if faults.is_empty() || faults == faults_of(old) { Vec::new() } else { faults }
}
