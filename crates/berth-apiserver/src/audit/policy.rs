//! The audit policy, which selects the logged requests and their level: `audit.k8s.io/v1` Policy.

use berth_rbac::{Attributes, PathAttributes, ResourceAttributes, User};
use berth_registry::{
    Resource, Subresource,
    resource::{AuditedBody, built_in},
};
use serde::Deserialize;

/// The level of detail of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Level {
    /// Nothing.
    #[default]
    None,
    /// User, request, time and result.
    Metadata,
    /// Also the body of the request.
    Request,
    /// Also the body of the response.
    RequestResponse,
}

impl Level {
    /// Returns the level as in an event.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// Why a policy is rejected.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// It cannot be decoded.
    #[error("the audit policy cannot be read: {0}")]
    Unreadable(String),
    /// It is another kind.
    #[error("the audit policy is of {api_version:?} {kind:?}, not of \"audit.k8s.io/v1\" \"Policy\"")]
    Kind {
        /// `apiVersion`.
        api_version: String,
        /// `kind`.
        kind: String,
    },
    /// It has no rules, so it would log nothing.
    #[error("the audit policy has no rules")]
    Empty,
}

/// A list of rules. The first one that matches a request applies.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Policy {
    api_version: String,
    kind: String,
    #[serde(rename = "metadata")]
    _metadata: serde::de::IgnoredAny,
    rules: Vec<Rule>,
    omit_stages: Vec<String>,
    omit_managed_fields: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    level: Level,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    user_groups: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    resources: Vec<GroupResources>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    #[serde(default)]
    omit_stages: Vec<String>,
    #[serde(default)]
    omit_managed_fields: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct GroupResources {
    group: String,
    resources: Vec<String>,
    resource_names: Vec<String>,
}

/// The logged parts of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The level.
    pub(crate) level: Level,
    /// The stages without an event.
    pub(crate) omit_stages: Vec<String>,
    /// Whether bodies omit `metadata.managedFields`.
    pub(crate) omit_managed_fields: bool,
}

impl Policy {
    /// Parses YAML or JSON.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let policy: Self = serde_saphyr::from_str(text).map_err(|error| PolicyError::Unreadable(error.to_string()))?;
        if policy.api_version != "audit.k8s.io/v1" || policy.kind != "Policy" {
            return Err(PolicyError::Kind { api_version: policy.api_version, kind: policy.kind });
        }
        if policy.rules.is_empty() { Err(PolicyError::Empty) } else { Ok(policy) }
    }

    /// Returns the logged parts of a request. No rule can log bodies with secrets.
    pub(crate) fn extent(&self, user: &User, attributes: &Attributes<'_>) -> Extent {
        let Some(rule) = self.rules.iter().find(|rule| rule.matches(user, attributes)) else { return Extent::default() };
        let level = if holds_secrets(attributes) { rule.level.min(Level::Metadata) } else { rule.level };
        let omit_stages = self.omit_stages.iter().chain(&rule.omit_stages).cloned().collect();
        Extent { level, omit_stages, omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields) }
    }
}

/// Whether the bodies of a request are never logged. The tokens of a subresource are secret for every object.
fn holds_secrets(attributes: &Attributes<'_>) -> bool {
    let Attributes::Resource(ResourceAttributes { group, resource, subresource, .. }) = attributes else { return false };
    let is_secret = |known: &Resource| {
        let has_tokens = *subresource == Subresource::Token.as_str() && known.subresources.contains(&Subresource::Token);
        known.audited_body == AuditedBody::Never || has_tokens
    };
    let mut named = built_in().all().iter().filter(|known| known.group() == *group && known.plural() == *resource);
    named.any(|known| is_secret(known))
}

impl Rule {
    fn matches(&self, user: &User, attributes: &Attributes<'_>) -> bool {
        let is_or_any = |list: &[String], wanted: &str| list.is_empty() || list.iter().any(|one| one == wanted);
        let groups_fit = self.user_groups.is_empty() || self.user_groups.iter().any(|group| user.is_in(group));
        if !is_or_any(&self.users, &user.name) || !groups_fit || !is_or_any(&self.verbs, attributes.verb()) {
            return false;
        }
        let of_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
        match attributes {
            Attributes::Resource(asked) if of_resources => {
                is_or_any(&self.namespaces, asked.namespace)
                    && (self.resources.is_empty() || self.resources.iter().any(|resources| resources.matches(asked)))
            }
            Attributes::Resource(_) => self.non_resource_urls.is_empty(),
            Attributes::Path(_) if of_resources => false,
            Attributes::Path(PathAttributes { path, .. }) => {
                self.non_resource_urls.is_empty() || self.non_resource_urls.iter().any(|url| path_matches(url, path))
            }
        }
    }
}

fn path_matches(pattern: &str, path: &str) -> bool {
    pattern == path || pattern.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix))
}

impl GroupResources {
    fn matches(&self, asked: &ResourceAttributes<'_>) -> bool {
        let names_fit = self.resource_names.is_empty() || self.resource_names.iter().any(|name| name == asked.name);
        let resources_fit = self.resources.is_empty() || self.resources.iter().any(|pattern| resource_matches(pattern, asked));
        self.group == asked.group && resources_fit && names_fit
    }
}

/// `pods`, `pods/log`, `pods/*`, `*/scale`, `*`.
fn resource_matches(pattern: &str, asked: &ResourceAttributes<'_>) -> bool {
    match pattern.split_once('/') {
        None => pattern == "*" || asked.subresource.is_empty() && pattern == asked.resource,
        Some((resource, subresource)) => {
            !asked.subresource.is_empty()
                && (resource == "*" || resource == asked.resource)
                && (subresource == "*" || subresource == asked.subresource)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
metadata: {name: example}
omitStages: [RequestReceived]
rules:
- level: None
  users: [system:kube-proxy]
  verbs: [watch]
- level: None
  nonResourceURLs: ['/healthz*', /version]
- level: RequestResponse
  userGroups: [dev]
  resources:
  - group: ''
    resources: [pods, 'pods/*', secrets, serviceaccounts/token]
  omitStages: [ResponseStarted]
- level: Request
  namespaces: [a]
- level: Metadata
  omitManagedFields: true
";

    fn extent(user: &str, verb: &str, path: &str) -> Extent {
        let user = User::authenticated(user, &[format!("{user}s-group"), "dev".to_owned()][usize::from(user != "alice")..][..1]);
        let policy = Policy::parse(POLICY).expect("a policy");
        if path.starts_with('/') {
            return policy.extent(&user, &Attributes::Path(PathAttributes { verb, path }));
        }
        let (namespace, resource) = path.split_once(' ').expect("a namespace");
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        policy.extent(&user, &ResourceAttributes { verb, group: "", resource, subresource, namespace, name: "n" }.into())
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let level = |user, verb, path| extent(user, verb, path).level;
        assert_eq!(level("system:kube-proxy", "watch", "a pods"), Level::None);
        assert_eq!(level("bob", "get", "/healthz/x"), Level::None);
        assert_eq!(level("bob", "get", "/metrics"), Level::Metadata);
        assert_eq!(level("bob", "get", "b pods"), Level::RequestResponse);
        assert_eq!(level("bob", "get", "b pods/status"), Level::RequestResponse);
        assert_eq!(level("bob", "get", "b services"), Level::Metadata);
        assert_eq!(level("bob", "get", "a services"), Level::Request);
        assert_eq!(level("alice", "get", "b pods"), Level::Metadata);
        assert_eq!(extent("bob", "get", "b pods").omit_stages, ["RequestReceived", "ResponseStarted"]);
        assert!(extent("bob", "get", "b services").omit_managed_fields && !extent("bob", "get", "b pods").omit_managed_fields);
    }

    #[test]
    fn no_rule_has_secrets_written() {
        for path in ["a secrets", "b secrets", "a configmaps", "b serviceaccounts/token"] {
            assert_eq!(extent("bob", "create", path).level, Level::Metadata, "{path}");
        }
    }

    #[test]
    fn a_policy_that_cannot_be_meant_is_refused() {
        for text in [
            "apiVersion: v1\nkind: Policy\nrules: [{level: None}]",
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: []",
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: All}]",
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None, user: [a]}]",
            "[",
        ] {
            assert!(Policy::parse(text).is_err(), "{text}");
        }
    }
}
