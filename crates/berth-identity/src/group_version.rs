//! Names of API versions, kinds and resources. Objects contain an API version and a kind. Paths contain an API version and
//! a resource. Source: upstream `apimachinery/pkg/runtime/schema/group_version.go`.

use crate::ApiName;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{fmt, str::FromStr};

/// An API version: `apps/v1`, or `v1` for the core group. Its JSON is this text.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersion {
    /// Empty for core.
    pub group: ApiName,
    /// `v1`.
    pub version: ApiName,
}

/// A kind in every version: `Deployment.apps`, `Pod`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    /// Empty for core.
    pub group: ApiName,
    /// `Deployment`.
    pub kind: ApiName,
}

/// A kind in one version. Its JSON has the members `apiVersion` and `kind`, as in objects. Its text is upstream's:
/// `apps/v1, Kind=Deployment`, `/v1, Kind=Pod`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionKind {
    /// Empty for core.
    pub group: ApiName,
    /// `v1`.
    pub version: ApiName,
    /// `Deployment`.
    pub kind: ApiName,
}

/// A resource in every version: `deployments.apps`, `pods`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// Empty for core.
    pub group: ApiName,
    /// `deployments`.
    pub plural: ApiName,
}

/// A resource in one version, as in a path. Its text is upstream's: `apps/v1, Resource=deployments`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionResource {
    /// Empty for core.
    pub group: ApiName,
    /// `v1`.
    pub version: ApiName,
    /// `deployments`.
    pub plural: ApiName,
}

/// Why a text is not an API version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseGroupVersionError {
    /// It is empty.
    #[error("an API version is empty; it must be VERSION or GROUP/VERSION")]
    Empty,
    /// It begins with a slash: `/v1`.
    #[error("API version {0:?} has an empty group; that of the core group has no slash")]
    EmptyGroup(String),
    /// It ends with a slash: `apps/`.
    #[error("API version {0:?} has an empty version")]
    EmptyVersion(String),
    /// It has more than one slash: `apps/v1/deployments`.
    #[error("API version {0:?} has more than one slash; it must be VERSION or GROUP/VERSION")]
    TooManyParts(String),
}

impl GroupVersion {
    /// Returns the name of a built-in kind, without a copy.
    #[must_use]
    pub const fn from_static(group: &'static str, version: &'static str) -> Self {
        Self { group: ApiName::from_static(group), version: ApiName::from_static(version) }
    }

    /// Returns the version `version` of the group `group`.
    #[must_use]
    pub fn new(group: impl Into<ApiName>, version: impl Into<ApiName>) -> Self {
        Self { group: group.into(), version: version.into() }
    }

    /// Returns a kind of this API version.
    #[must_use]
    pub fn with_kind(self, kind: impl Into<ApiName>) -> GroupVersionKind {
        GroupVersionKind { group: self.group, version: self.version, kind: kind.into() }
    }

    /// Returns a resource of this API version.
    #[must_use]
    pub fn with_resource(self, plural: impl Into<ApiName>) -> GroupVersionResource {
        GroupVersionResource { group: self.group, version: self.version, plural: plural.into() }
    }

    /// Returns the group and the version of a text. Every reader of an API version uses this function.
    fn split(text: &str) -> Result<(&str, &str), ParseGroupVersionError> {
        let (group, version) = match text.split_once('/') {
            Some(("", _)) => return Err(ParseGroupVersionError::EmptyGroup(text.to_owned())),
            Some((_, "")) => return Err(ParseGroupVersionError::EmptyVersion(text.to_owned())),
            Some((_, version)) if version.contains('/') => return Err(ParseGroupVersionError::TooManyParts(text.to_owned())),
            Some(parts) => parts,
            None if text.is_empty() => return Err(ParseGroupVersionError::Empty),
            None => ("", text),
        };
        Ok((group, version))
    }
}

impl FromStr for GroupVersion {
    type Err = ParseGroupVersionError;

    fn from_str(text: &str) -> Result<Self, ParseGroupVersionError> {
        let (group, version) = Self::split(text)?;
        Ok(Self::new(group, version))
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_api_version(f, &self.group, &self.version)
    }
}

impl Serialize for GroupVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GroupVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl GroupKind {
    /// Returns the name of a built-in kind, without a copy.
    #[must_use]
    pub const fn from_static(group: &'static str, kind: &'static str) -> Self {
        Self { group: ApiName::from_static(group), kind: ApiName::from_static(kind) }
    }

    /// Returns the kind `kind` of the group `group`.
    #[must_use]
    pub fn new(group: impl Into<ApiName>, kind: impl Into<ApiName>) -> Self {
        Self { group: group.into(), kind: kind.into() }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_qualified(f, &self.kind, &self.group)
    }
}

impl GroupVersionKind {
    /// Returns the name of a built-in kind, without a copy.
    #[must_use]
    pub const fn from_static(group: &'static str, version: &'static str, kind: &'static str) -> Self {
        Self { group: ApiName::from_static(group), version: ApiName::from_static(version), kind: ApiName::from_static(kind) }
    }

    /// Returns the kind `kind` of the version `version` of the group `group`.
    #[must_use]
    pub fn new(group: impl Into<ApiName>, version: impl Into<ApiName>, kind: impl Into<ApiName>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// Returns the kind of these two members of an object's JSON.
    ///
    /// # Errors
    ///
    /// `api_version` is not an API version.
    pub fn parse(api_version: &str, kind: impl Into<ApiName>) -> Result<Self, ParseGroupVersionError> {
        Ok(api_version.parse::<GroupVersion>()?.with_kind(kind))
    }

    /// Returns the kind that an object or a reference contains, also if it is invalid. A text that is not an API version
    /// becomes the version, unchanged, and the group is empty. [`Self::api_version`] then returns the same text, and no
    /// served kind is equal. The names share their texts with names that this thread read recently.
    #[must_use]
    pub fn as_written(api_version: &str, kind: &str) -> Self {
        let (group, version) = GroupVersion::split(api_version).unwrap_or(("", api_version));
        Self { group: ApiName::shared(group), version: ApiName::shared(version), kind: ApiName::shared(kind) }
    }

    /// Whether these members of an object or a reference are this kind: compares with [`Self::as_written`] of them.
    #[must_use]
    pub fn is_written(&self, api_version: &str, kind: &str) -> bool {
        let (group, version) = GroupVersion::split(api_version).unwrap_or(("", api_version));
        self.group == group && self.version == version && self.kind == kind
    }

    /// Returns the API version: `apps/v1`.
    #[must_use]
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }

    /// Returns the API version as a text.
    #[must_use]
    pub fn api_version(&self) -> String {
        self.group_version().to_string()
    }

    /// Returns the kind without its version.
    #[must_use]
    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TypeMeta {
    api_version: String,
    kind: String,
}

impl Serialize for GroupVersionKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        TypeMeta { api_version: self.api_version(), kind: self.kind.as_str().to_owned() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for GroupVersionKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let TypeMeta { api_version, kind } = TypeMeta::deserialize(deserializer)?;
        Self::parse(&api_version, kind).map_err(D::Error::custom)
    }
}

impl GroupResource {
    /// Returns the name of a built-in kind, without a copy.
    #[must_use]
    pub const fn from_static(group: &'static str, plural: &'static str) -> Self {
        Self { group: ApiName::from_static(group), plural: ApiName::from_static(plural) }
    }

    /// Returns the resource of a text like `deployments.apps` or `pods`. The group follows the first dot.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (plural, group) = text.split_once('.').unwrap_or((text, ""));
        Self::new(group, plural)
    }

    /// Returns the resource `plural` of the group `group`.
    #[must_use]
    pub fn new(group: impl Into<ApiName>, plural: impl Into<ApiName>) -> Self {
        Self { group: group.into(), plural: plural.into() }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_qualified(f, &self.plural, &self.group)
    }
}

impl Serialize for GroupResource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GroupResource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::parse(&text))
    }
}

impl GroupVersionResource {
    /// Returns the name of a built-in kind, without a copy.
    #[must_use]
    pub const fn from_static(group: &'static str, version: &'static str, plural: &'static str) -> Self {
        Self { group: ApiName::from_static(group), version: ApiName::from_static(version), plural: ApiName::from_static(plural) }
    }

    /// Returns the resource `plural` of the version `version` of the group `group`.
    #[must_use]
    pub fn new(group: impl Into<ApiName>, version: impl Into<ApiName>, plural: impl Into<ApiName>) -> Self {
        Self { group: group.into(), version: version.into(), plural: plural.into() }
    }

    /// Returns the API version: `apps/v1`.
    #[must_use]
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }

    /// Returns the resource without its version.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), plural: self.plural.clone() }
    }
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Resource={}", self.group, self.version, self.plural)
    }
}

fn write_api_version(f: &mut fmt::Formatter<'_>, group: &str, version: &str) -> fmt::Result {
    let slash = if group.is_empty() { "" } else { "/" };
    write!(f, "{group}{slash}{version}")
}

fn write_qualified(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    let dot = if group.is_empty() { "" } else { "." };
    write!(f, "{name}{dot}{group}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const APPS: GroupVersion = GroupVersion::from_static("apps", "v1");
    const CORE: GroupVersion = GroupVersion::from_static("", "v1");
    const DEPLOYMENT: GroupVersionKind = GroupVersionKind::from_static("apps", "v1", "Deployment");

    #[test]
    fn an_api_version_is_read_as_it_is_shown() {
        for (text, group, version) in [("v1", "", "v1"), ("apps/v1", "apps", "v1"), ("example.com/v1beta1", "example.com", "v1beta1")] {
            let read: GroupVersion = text.parse().expect(text);
            assert_eq!((&read, read.to_string()), (&GroupVersion::new(group, version), text.to_owned()));
            assert_eq!(serde_json::from_value::<GroupVersion>(json!(text)).expect(text), read);
            assert_eq!(serde_json::to_value(&read).expect(text), json!(text));
        }
    }

    #[test]
    fn what_is_not_an_api_version_is_refused_with_its_fault() {
        for (text, message) in [
            ("", "an API version is empty; it must be VERSION or GROUP/VERSION"),
            ("/v1", "API version \"/v1\" has an empty group; that of the core group has no slash"),
            ("/", "API version \"/\" has an empty group; that of the core group has no slash"),
            ("apps/", "API version \"apps/\" has an empty version"),
            ("apps/v1/deployments", "API version \"apps/v1/deployments\" has more than one slash; it must be VERSION or GROUP/VERSION"),
            ("apps//v1", "API version \"apps//v1\" has more than one slash; it must be VERSION or GROUP/VERSION"),
        ] {
            assert_eq!(text.parse::<GroupVersion>().expect_err(text).to_string(), message);
            assert_eq!(GroupVersionKind::parse(text, "Deployment").expect_err(text).to_string(), message);
            let in_json = serde_json::from_value::<GroupVersionKind>(json!({"apiVersion": text, "kind": "Deployment"}));
            assert_eq!(in_json.expect_err(text).to_string(), message);
        }
    }

    #[test]
    fn what_an_object_contains_is_kept_also_if_it_is_invalid() {
        assert_eq!(GroupVersionKind::as_written("apps/v1", "Deployment"), DEPLOYMENT);
        assert_eq!(GroupVersionKind::as_written("v1", "Pod"), CORE.with_kind("Pod"));
        assert!(DEPLOYMENT.is_written("apps/v1", "Deployment") && !DEPLOYMENT.is_written("apps/v1", "ReplicaSet"));
        for text in ["", "/", "/v1", "apps/", "apps/v1/deployments", "apps//v1"] {
            let read = GroupVersionKind::as_written(text, "Deployment");
            assert_eq!((read.api_version(), read.group.as_str()), (text.to_owned(), ""));
            assert!(read.is_written(text, "Deployment") && !DEPLOYMENT.is_written(text, "Deployment"));
        }
    }

    #[test]
    fn a_kind_is_the_same_two_members_in_json() {
        let written = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
        assert_eq!(serde_json::to_value(DEPLOYMENT).expect("JSON"), written);
        assert_eq!(serde_json::from_value::<GroupVersionKind>(written).expect("a kind"), DEPLOYMENT);
        assert!(serde_json::from_value::<GroupVersionKind>(json!({"kind": "Deployment"})).is_err());
    }

    #[test]
    fn each_is_shown_as_upstream_shows_it() {
        let shown = [
            DEPLOYMENT.to_string(),
            CORE.with_kind("Pod").to_string(),
            DEPLOYMENT.group_kind().to_string(),
            GroupKind::from_static("", "Pod").to_string(),
            APPS.with_resource("deployments").to_string(),
            APPS.with_resource("deployments").group_resource().to_string(),
            GroupResource::from_static("", "pods").to_string(),
            DEPLOYMENT.group_version().to_string(),
            GroupVersionResource::from_static("", "v1", "pods").group_version().to_string(),
        ];
        let wanted = [
            "apps/v1, Kind=Deployment",
            "/v1, Kind=Pod",
            "Deployment.apps",
            "Pod",
            "apps/v1, Resource=deployments",
            "deployments.apps",
            "pods",
            "apps/v1",
            "v1",
        ];
        assert_eq!(shown, wanted);
    }

    #[test]
    fn a_resource_is_read_as_it_is_shown() {
        for (text, group, plural) in [("pods", "", "pods"), ("leases.coordination.k8s.io", "coordination.k8s.io", "leases")] {
            let read = GroupResource::parse(text);
            assert_eq!((&read, read.to_string()), (&GroupResource::new(group, plural), text.to_owned()));
        }
    }

    #[test]
    fn names_are_in_order_of_group_version_and_name() {
        let sorted = [
            GroupVersionKind::new("", "v1", "Pod"),
            GroupVersionKind::new("apps", "v1", "Deployment"),
            GroupVersionKind::new("apps", "v1", "ReplicaSet"),
            GroupVersionKind::new("apps", "v1beta1", "Deployment"),
            GroupVersionKind::new("batch", "v1", "Job"),
        ];
        assert!(sorted.is_sorted());
        assert!(sorted.iter().map(GroupVersionKind::group_version).is_sorted());
        let resources =
            [("", "secrets"), ("apps", "deployments"), ("apps", "replicasets")].map(|(group, plural)| GroupResource::new(group, plural));
        assert!(resources.is_sorted() && resources[1] == GroupResource::from_static("apps", "deployments"));
    }
}
