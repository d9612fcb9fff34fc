//! Semantic versions.

use std::cmp::Ordering;

/// A semantic version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Semver {
    /// Major, minor, patch.
    pub(crate) numbers: [u64; 3],
    before: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Text(String),
}

/// Why a text is not a semantic version. The messages are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SemverError {
    #[error("Version string empty")]
    Empty,
    #[error("No Major.Minor.Patch elements found")]
    Elements,
    #[error("Invalid character(s) found in {name} number \"{text}\"")]
    Number { name: &'static str, text: String },
    #[error("{} number must not contain leading zeroes \"{text}\"", capitalized(.name))]
    LeadingZeros { name: &'static str, text: String },
    #[error("strconv.ParseUint: parsing \"{0}\": value out of range")]
    OutOfRange(String),
    #[error("Prerelease is empty")]
    EmptyPrerelease,
    #[error("Invalid character(s) found in prerelease \"{0}\"")]
    Prerelease(String),
    #[error("Numeric PreRelease version must not contain leading zeroes \"{0}\"")]
    PrereleaseLeadingZeros(String),
    #[error("Build meta data is empty")]
    EmptyBuild,
    #[error("Invalid character(s) found in build meta data \"{0}\"")]
    Build(String),
    /// Parts are missing before a prerelease or a build.
    #[error("short version cannot contain PreRelease/Build meta data")]
    Short,
}

impl Semver {
    /// Reads a version. `is_lenient`: a `v`, leading zeros and missing parts are allowed.
    pub(crate) fn parse(text: &str, is_lenient: bool) -> Result<Self, SemverError> {
        if is_lenient { Self::strict(&normalized(text)?) } else { Self::strict(text) }
    }

    fn strict(text: &str) -> Result<Self, SemverError> {
        if text.is_empty() {
            return Err(SemverError::Empty);
        }
        let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
        let (core, before) = text.split_once('-').map_or((text, None), |(core, before)| (core, Some(before)));
        let parts: Vec<&str> = core.splitn(3, '.').collect();
        let [major, minor, patch] = parts[..] else { return Err(SemverError::Elements) };
        let numbers = [number(major, "major")?, number(minor, "minor")?, number(patch, "patch")?];
        let before = before.map_or(Ok(Vec::new()), |before| before.split('.').map(part).collect())?;
        for part in build.into_iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err(SemverError::EmptyBuild);
            }
            if !part.bytes().all(is_allowed) {
                return Err(SemverError::Build(part.to_owned()));
            }
        }
        Ok(Self { numbers, before })
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let before = match (self.before.is_empty(), other.before.is_empty()) {
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            _ => self.before.cmp(&other.before),
        };
        self.numbers.cmp(&other.numbers).then(before)
    }
}

fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn number(text: &str, name: &'static str) -> Result<u64, SemverError> {
    if text.is_empty() || !text.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(SemverError::Number { name, text: text.to_owned() });
    }
    if 1 < text.len() && text.starts_with('0') {
        return Err(SemverError::LeadingZeros { name, text: text.to_owned() });
    }
    text.parse().map_err(|_| SemverError::OutOfRange(text.to_owned()))
}

fn capitalized(name: &str) -> String {
    name[..1].to_uppercase() + &name[1..]
}

fn part(text: &str) -> Result<Part, SemverError> {
    if text.is_empty() {
        return Err(SemverError::EmptyPrerelease);
    }
    if text.bytes().all(|digit| digit.is_ascii_digit()) {
        if 1 < text.len() && text.starts_with('0') {
            return Err(SemverError::PrereleaseLeadingZeros(text.to_owned()));
        }
        return text.parse().map(Part::Number).map_err(|_| SemverError::OutOfRange(text.to_owned()));
    }
    if !text.bytes().all(is_allowed) {
        return Err(SemverError::Prerelease(text.to_owned()));
    }
    Ok(Part::Text(text.to_owned()))
}

fn normalized(text: &str) -> Result<String, SemverError> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err(SemverError::Short);
    }
    parts.resize(3, "0".to_owned());
    Ok(parts.join("."))
}

fn without_zeros(part: &str) -> String {
    let rest = part.trim_start_matches('0');
    match part.len() {
        0 | 1 => part.to_owned(),
        _ if rest.starts_with(|first: char| first.is_ascii_digit()) => rest.to_owned(),
        _ => format!("0{rest}"),
    }
}
