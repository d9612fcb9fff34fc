//! What a webhook, a policy or a binding matches.

use crate::{Form, Operation, Request, Rule, request::Labels, rule::resource_of};
use berth_api::Selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Whether rules match other versions of the same objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatchPolicy {
    /// Only the requested version.
    Exact,
    /// Each version.
    #[default]
    Equivalent,
}

/// The constraints of a webhook, a policy or a binding.
#[derive(Clone, Debug)]
pub struct Constraints {
    /// `None`: all requests, as policies without rules.
    rules: Option<Vec<Rule>>,
    excluded: Vec<Rule>,
    match_policy: MatchPolicy,
    namespace_selector: Selector,
    object_selector: Selector,
}

impl Constraints {
    /// Reads the members of a webhook. A selector that cannot be used matches nothing: validation rejects it earlier.
    #[must_use]
    pub fn of_webhook(webhook: &Value) -> Self {
        Self { rules: Some(rules(webhook, "rules")), excluded: Vec::new(), ..Self::of_policy(webhook) }
    }

    /// Reads the `matchConstraints` of a policy, or the `matchResources` of a binding. `null` matches all requests.
    #[must_use]
    pub fn of_policy(resources: &Value) -> Self {
        Self {
            rules: Some(rules(resources, "resourceRules")).filter(|rules| !rules.is_empty()),
            excluded: rules(resources, "excludeResourceRules"),
            match_policy: match resources.get("matchPolicy").and_then(Value::as_str) {
                Some("Exact") => MatchPolicy::Exact,
                _ => MatchPolicy::Equivalent,
            },
            namespace_selector: selector(resources, "namespaceSelector"),
            object_selector: selector(resources, "objectSelector"),
        }
    }

    /// Returns the version of the resource that rules and the object selector match. `None`: they do not match. The
    /// caller asks [`Constraints::matches_namespace`] too.
    #[must_use]
    pub fn matched<'r>(&self, request: &Request<'r>) -> Option<&'r Form> {
        if !self.matches_object(request) || self.first(&self.excluded, request).is_some() {
            return None;
        }
        match &self.rules {
            None => Some(request.form),
            Some(rules) => self.first(rules, request),
        }
    }

    fn first<'r>(&self, rules: &[Rule], request: &Request<'r>) -> Option<&'r Form> {
        let fits = |form: &Form| rules.iter().any(|rule| rule.matches(request, form));
        if fits(request.form) {
            return Some(request.form);
        }
        if self.match_policy == MatchPolicy::Exact {
            return None;
        }
        // The first rule that matches any version decides, as upstream.
        rules.iter().find_map(|rule| request.equivalents.iter().find(|form| rule.matches(request, form)))
    }

    fn matches_object(&self, request: &Request<'_>) -> bool {
        let fits = |labels: Option<Labels<'_>>| labels.is_some_and(|labels| matches(&self.object_selector, labels));
        self.object_selector.is_everything() || fits(request.labels) || fits(request.old_labels)
    }

    /// Whether the answer depends on the labels of the request's namespace. Requests for cluster-scoped objects match
    /// any namespace selector.
    #[must_use]
    pub fn reads_namespace(&self, request: &Request<'_>) -> bool {
        self.selects_namespaces() && !request.namespace.is_empty()
    }

    /// The resources that the rules name, without subresources, each once. `None`: a rule matches all resources, or there are no rules.
    #[must_use]
    pub fn named_resources(&self) -> Option<BTreeSet<&str>> {
        let patterns = self.rules.as_ref()?.iter().flat_map(|rule| &rule.resources);
        patterns.map(|pattern| Some(resource_of(pattern)).filter(|resource| *resource != "*")).collect()
    }

    /// Whether a rule can match an operation on a resource. Cheap: it ignores API versions, scopes, names and selectors. All versions of the same
    /// objects have the same plural.
    #[must_use]
    pub fn may_match(&self, operation: Operation, plural: &str, subresource: &str) -> bool {
        self.rules.as_ref().is_none_or(|rules| rules.iter().any(|rule| rule.may_match(operation, plural, subresource)))
    }

    /// Whether they select namespaces by labels.
    #[must_use]
    pub fn selects_namespaces(&self) -> bool {
        !self.namespace_selector.is_everything()
    }

    /// Whether a namespace with these labels matches.
    #[must_use]
    pub fn matches_namespace(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        matches(&self.namespace_selector, labels)
    }
}

fn matches(selector: &Selector, labels: Labels<'_>) -> bool {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    selector.matches(labels.unwrap_or(&NONE))
}

fn rules(object: &Value, name: &str) -> Vec<Rule> {
    object.get(name).and_then(Value::as_array).into_iter().flatten().map(Rule::read).collect()
}

fn selector(object: &Value, name: &str) -> Selector {
    let Some(selector) = object.get(name).filter(|selector| !selector.is_null()) else { return Selector::everything() };
    let selector = LabelSelector::deserialize(selector).ok();
    selector.and_then(|selector| Selector::from_label_selector(&selector).ok()).unwrap_or_else(Selector::nothing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_decide_cheaply_which_requests_they_cannot_match() {
        let rule = |resources: Value, operations: Value| json!({"apiGroups": ["a"], "apiVersions": ["v1"], "resources": resources, "operations": operations});
        let of = |rules: &[Value]| Constraints::of_policy(&json!({"resourceRules": rules}));
        let two = of(&[rule(json!(["pods", "pods/status"]), json!(["CREATE"])), rule(json!(["nodes/*"]), json!(["*"]))]);
        assert_eq!(two.named_resources(), Some(BTreeSet::from(["nodes", "pods"])));
        let matched = |plural: &str, subresource: &str, operation| two.may_match(operation, plural, subresource);
        assert!(
            matched("pods", "", Operation::Create)
                && matched("pods", "status", Operation::Create)
                && matched("nodes", "x", Operation::Delete)
        );
        assert!(
            !matched("pods", "", Operation::Update)
                && !matched("pods", "log", Operation::Create)
                && !matched("services", "", Operation::Create)
        );
        let any = of(&[rule(json!(["pods", "*/scale"]), json!(["*"]))]);
        assert_eq!(any.named_resources(), None);
        assert!(any.may_match(Operation::Update, "deployments", "scale") && !any.may_match(Operation::Update, "deployments", ""));
        // Without rules, all requests match.
        assert!(of(&[]).named_resources().is_none() && of(&[]).may_match(Operation::Create, "pods", ""));
    }
}
