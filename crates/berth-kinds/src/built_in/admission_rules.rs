//! What the kinds of admission share: rules and match conditions.

use super::values::{list, text};
use crate::Wanted;
use berth_api::{Path, faults::Faults, names::check_qualified_name};
use berth_cel::Environment;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The operations of rules, sorted as upstream prints them.
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
/// The scopes of rules.
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];
/// The maximum number of match conditions.
const MATCH_CONDITIONS_MAX: usize = 64;

/// Sets the defaults of a list of rules.
pub(super) fn default_rules(rules: Option<&mut Value>) {
    for rule in rules.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
        rule.entry("scope").or_insert_with(|| json!("*"));
    }
}

/// Checks a rule of a webhook or a policy.
///
/// Source: upstream `validateRuleWithOperations`.
pub(super) fn validate_rule(rule: &Value, path: &Path, faults: &mut Faults) {
    let (operations, at) = (list(rule, "operations"), path.child("operations"));
    check_list(operations, &at, "operations", faults);
    for (index, operation) in operations.iter().filter_map(Value::as_str).enumerate() {
        faults.known(&at.index(index), operation, OPERATIONS);
    }
    check_list(list(rule, "apiGroups"), &path.child("apiGroups"), "API groups", faults);
    let (versions, at) = (list(rule, "apiVersions"), path.child("apiVersions"));
    check_list(versions, &at, "API versions", faults);
    for (index, version) in versions.iter().filter_map(Value::as_str).enumerate() {
        faults.set(&at.index(index), version);
    }
    validate_resources(list(rule, "resources"), &path.child("resources"), faults);
    if let Some(scope) = rule.get("scope").and_then(Value::as_str) {
        faults.known(&path.child("scope"), scope, SCOPES);
    }
}

fn check_list(items: &[Value], path: &Path, what: &str, faults: &mut Faults) {
    if items.is_empty() {
        faults.required(path, "");
    }
    if 1 < items.len() && items.iter().any(|item| item == "*") {
        faults.invalid(path, items.to_vec(), format!("if '*' is present, must not specify other {what}"));
    }
}

/// Source: upstream `validateResources`.
fn validate_resources(resources: &[Value], path: &Path, faults: &mut Faults) {
    if resources.is_empty() {
        faults.required(path, "");
    }
    let (mut of_all, mut all_of) = (BTreeSet::new(), BTreeSet::new());
    let mut without_subresource = false;
    for (index, resource) in resources.iter().filter_map(Value::as_str).enumerate() {
        if resource.is_empty() {
            faults.required(&path.index(index), "");
            continue;
        }
        let Some((plural, subresource)) = resource.split_once('/') else {
            without_subresource |= resource != "*";
            continue;
        };
        let wildcards = [(of_all.contains(subresource), format!("*/{subresource}")), (all_of.contains(plural), format!("{plural}/*"))];
        for (_, wildcard) in wildcards.iter().filter(|(is_covered, _)| *is_covered) {
            faults.invalid(&path.index(index), resource, format!("if '{wildcard}' is present, must not specify {resource}"));
        }
        if plural == "*" {
            of_all.insert(subresource);
        }
        if subresource == "*" {
            all_of.insert(plural);
        }
    }
    let has = |wildcard: &str| resources.iter().any(|resource| resource == wildcard);
    if has("*/*") && 1 < resources.len() {
        faults.invalid(path, resources.to_vec(), "if '*/*' is present, must not specify other resources");
    }
    if has("*") && (without_subresource || has("")) {
        faults.invalid(path, resources.to_vec(), "if '*' is present, must not specify other resources without subresources");
    }
}

/// Checks the match conditions of a webhook or a policy, whose expressions can use `environment`.
///
/// Source: upstream `validateMatchConditions`.
pub(super) fn validate_match_conditions(conditions: &[Value], environment: &Environment, path: &Path, faults: &mut Faults) {
    faults.at_most(path, conditions.len(), MATCH_CONDITIONS_MAX);
    let mut names = BTreeSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let (path, name) = (path.index(index), text(condition, "name"));
        let expression = text(condition, "expression").trim();
        if expression.is_empty() {
            faults.required(&path.child("expression"), "");
        } else if let Err(error) = Wanted::Bool.compile(expression, environment) {
            faults.invalid(&path.child("expression"), expression, error.to_string());
        }
        if name.is_empty() {
            faults.required(&path.child("name"), "");
        } else {
            faults.form(&path.child("name"), name, check_qualified_name);
            faults.unique(&path.child("name"), name, &mut names);
        }
    }
}

/// The type of a match condition.
pub(super) const MATCH_CONDITION_TYPES: &str = r##"{
  "io.k8s.api.admissionregistration.v1.MatchCondition": {
    "properties": {
      "expression": {
        "default": "",
        "type": "string"
      },
      "name": {
        "default": "",
        "type": "string"
      }
    },
    "required": [
      "name",
      "expression"
    ],
    "type": "object"
  }
}"##;
