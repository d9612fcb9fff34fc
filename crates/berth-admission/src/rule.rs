//! Rules: which operations on which resources.

use crate::{Form, Operation, Request};
use serde_json::Value;

/// The scope of the objects that a rule matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleScope {
    /// All objects.
    #[default]
    All,
    /// Objects without a namespace, and namespaces themselves.
    Cluster,
    /// Objects in a namespace.
    Namespaced,
}

/// A rule of a webhook (`RuleWithOperations`) or of a policy (`NamedRuleWithOperations`). `*` matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// `CREATE`, `UPDATE`, `DELETE`, `CONNECT`, `*`.
    pub operations: Vec<String>,
    /// `apiGroups`.
    pub groups: Vec<String>,
    /// `apiVersions`.
    pub versions: Vec<String>,
    /// `pods`, `pods/status`, `*/scale`, `pods/*`, `*`, `*/*`. Without a slash, a subresource does not match.
    pub resources: Vec<String>,
    /// `scope`.
    pub scope: RuleScope,
    /// `resourceNames`, only of policies. Empty: all names.
    pub names: Vec<String>,
}

impl Rule {
    /// Reads a rule. A member of the wrong type counts as absent.
    #[must_use]
    pub fn read(rule: &Value) -> Self {
        Self {
            operations: texts(rule, "operations"),
            groups: texts(rule, "apiGroups"),
            versions: texts(rule, "apiVersions"),
            resources: texts(rule, "resources"),
            scope: match rule.get("scope").and_then(Value::as_str) {
                Some("Cluster") => RuleScope::Cluster,
                Some("Namespaced") => RuleScope::Namespaced,
                _ => RuleScope::All,
            },
            names: texts(rule, "resourceNames"),
        }
    }

    /// Whether it matches the request if its object is read in this form.
    #[must_use]
    pub fn matches(&self, request: &Request<'_>, form: &Form) -> bool {
        self.may_match(request.operation, &form.resource.plural, request.subresource)
            && self.matches_scope(request)
            && is_listed(&self.groups, &form.resource.group)
            && is_listed(&self.versions, &form.resource.version)
            && (self.names.is_empty() || self.names.iter().any(|name| name == request.name))
    }

    /// Whether it matches the operation and the resource, in any version.
    pub(crate) fn may_match(&self, operation: Operation, plural: &str, subresource: &str) -> bool {
        is_listed(&self.operations, operation.as_str())
            && self.resources.iter().any(|resource| matches_resource(resource, plural, subresource))
    }

    fn matches_scope(&self, request: &Request<'_>) -> bool {
        let is_in_namespace = !request.namespace.is_empty() && !request.is_namespace();
        match self.scope {
            RuleScope::All => true,
            RuleScope::Cluster => !is_in_namespace,
            RuleScope::Namespaced => is_in_namespace,
        }
    }
}

fn is_listed(list: &[String], value: &str) -> bool {
    list.iter().any(|item| item == "*" || item == value)
}

/// Returns the resource of a pattern, without its subresource.
pub(crate) fn resource_of(pattern: &str) -> &str {
    pattern.split_once('/').map_or(pattern, |(resource, _)| resource)
}

fn matches_resource(pattern: &str, plural: &str, subresource: &str) -> bool {
    let (resources, subresources) = pattern.split_once('/').unwrap_or((pattern, ""));
    (resources == "*" || resources == plural) && (subresources == "*" || subresources == subresource)
}

/// Returns the texts of a member that is a list.
pub(crate) fn texts(object: &Value, name: &str) -> Vec<String> {
    let items = object.get(name).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}
