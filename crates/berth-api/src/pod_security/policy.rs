//! What a namespace's labels ask for.

use crate::{FieldError, Path};
use std::{collections::BTreeMap, fmt};

/// How strict, from everything to hardly anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Everything is allowed.
    #[default]
    Privileged,
    /// What is known to open the way to the node is not.
    Baseline,
    /// Only what current hardening practice allows is.
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

/// The release of Kubernetes whose form of the standards counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// The newest that is known.
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

    /// The minor release that counts.
    pub(super) fn minor(self) -> u32 {
        match self {
            Self::Latest => u32::MAX,
            Self::Minor(minor) => minor,
        }
    }
}

/// A level in the form that a release gave it; prints as `restricted:latest`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelVersion {
    /// How strict.
    pub level: Level,
    /// Whose rules.
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

/// What a namespace says about the pods in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Pods that violate it are refused.
    pub enforce: LevelVersion,
    /// The audit log tells of what violates it.
    pub audit: LevelVersion,
    /// Who makes what violates it is warned.
    pub warn: LevelVersion,
}

const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
const ENFORCE_VERSION: &str = "pod-security.kubernetes.io/enforce-version";
const AUDIT: &str = "pod-security.kubernetes.io/audit";
const AUDIT_VERSION: &str = "pod-security.kubernetes.io/audit-version";
const WARN: &str = "pod-security.kubernetes.io/warn";
const WARN_VERSION: &str = "pod-security.kubernetes.io/warn-version";

impl Policy {
    /// The policy of a namespace whose labels `label` knows. Labels that cannot be read enforce the strictest level, and audit and warn
    /// about nothing.
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

/// What a label says; `otherwise`, where it cannot be read.
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

/// Faults of a namespace's labels; with `old` only if it had others: what is stored stays as it is.
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
