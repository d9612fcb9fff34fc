//! Validation of policies and bindings.
//!
//! Source: upstream `pkg/apis/admissionregistration/validation/validation.go`.

use super::{Bindings, Policies, expressions::PolicyExpressions};
use crate::{
    Content, Expressions, Wanted,
    built_in::{
        admission_rules::{validate_match_conditions, validate_rule},
        values::{list, selector, spec, text},
    },
};
use berth_api::{
    FieldError, Path,
    faults::Faults,
    label_selector::validate_label_selector,
    names::{check_dns_1035_label, check_dns_subdomain, check_path_segment, check_qualified_name},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
/// The operations of rules of mutating policies, sorted as upstream prints them.
const MUTATED_OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];
const AUDIT_ANNOTATIONS_MAX: usize = 20;
const NOTHING_TO_CHECK: &str = "validations or auditAnnotations must contain at least one item";

/// Returns the faults of a policy.
pub(super) fn policy(kind: Policies, policy: &Content) -> Vec<FieldError> {
    let (path, spec, mut faults) = (Path::new("spec"), spec(policy), Faults::default());
    let at = path.child("failurePolicy");
    match spec.get("failurePolicy").and_then(Value::as_str) {
        None => faults.required(&at, ""),
        Some(failure) => faults.known(&at, failure, FAILURE_POLICIES),
    }
    if let Some(kind) = spec.get("paramKind") {
        param_kind(kind, &path.child("paramKind"), &mut faults);
    }
    let at = path.child("matchConstraints");
    match spec.get("matchConstraints") {
        None => faults.required(&at, ""),
        Some(resources) => {
            match_resources(resources, &at, &mut faults);
            if list(resources, "resourceRules").is_empty() {
                faults.required(&at.child("resourceRules"), "");
            }
            if kind == Policies::Mutating {
                mutated_operations(resources, &at, &mut faults);
            }
        }
    }
    let params = spec.get("paramKind").is_some();
    let environment = Expressions { params, authorizer: true, patches: false }.environment();
    validate_match_conditions(list(spec, "matchConditions"), &environment, &path.child("matchConditions"), &mut faults);
    let mut expressions = PolicyExpressions::new(spec);
    match kind {
        Policies::Validating => validating(spec, policy, &path, &mut expressions, &mut faults),
        Policies::Mutating => mutating(spec, &path, &mut expressions, &mut faults),
    }
    faults.into_vec()
}

fn validating(spec: &Value, policy: &Content, path: &Path, expressions: &mut PolicyExpressions, faults: &mut Faults) {
    let (validations, annotations) = (list(spec, "validations"), list(spec, "auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        faults.required(&path.child("validations"), NOTHING_TO_CHECK);
        return faults.required(&path.child("auditAnnotations"), NOTHING_TO_CHECK);
    }
    variables(spec, path, expressions, faults);
    for (index, rule) in validations.iter().enumerate() {
        validation(rule, &path.child("validations").index(index), expressions, faults);
    }
    let at = path.child("auditAnnotations");
    if AUDIT_ANNOTATIONS_MAX < annotations.len() {
        let shown: Vec<Value> = annotations
            .iter()
            .map(|annotation| json!({"Key": text(annotation, "key"), "ValueExpression": text(annotation, "valueExpression")}))
            .collect();
        faults.invalid(&at, shown, format!("must not have more than {AUDIT_ANNOTATIONS_MAX} auditAnnotations"));
    }
    let (policy_name, mut keys) = (policy.meta.name.as_deref().unwrap_or_default(), BTreeSet::new());
    for (index, annotation) in annotations.iter().enumerate() {
        audit_annotation(annotation, policy_name, &at.index(index), expressions, faults);
        faults.unique(&at.index(index).child("key"), text(annotation, "key"), &mut keys);
    }
}

fn mutating(spec: &Value, path: &Path, expressions: &mut PolicyExpressions, faults: &mut Faults) {
    variables(spec, path, expressions, faults);
    let (mutations, at) = (list(spec, "mutations"), path.child("mutations"));
    if mutations.is_empty() {
        faults.required(&at, "mutations must contain at least one item");
    }
    for (index, change) in mutations.iter().enumerate() {
        mutation(change, &at.index(index), expressions, faults);
    }
    faults.one_of(&path.child("reinvocationPolicy"), text(spec, "reinvocationPolicy"), &["IfNeeded", "Never"]);
}

fn param_kind(kind: &Value, path: &Path, faults: &mut Faults) {
    let (at, api_version) = (path.child("apiVersion"), text(kind, "apiVersion"));
    if faults.set(&at, api_version) {
        let parts: Vec<&str> = api_version.split('/').collect();
        match parts[..] {
            [version] => faults.form(&at, version, check_dns_1035_label),
            [group, version] => {
                if !group.is_empty() {
                    faults.form(&at, group, check_dns_subdomain);
                }
                faults.form(&at, version, check_dns_1035_label);
            }
            _ => faults.invalid(&at, api_version, format!("unexpected GroupVersion string: {api_version}")),
        }
    }
    let (at, kind) = (path.child("kind"), text(kind, "kind"));
    if faults.set(&at, kind) {
        for why in check_dns_1035_label(&kind.to_lowercase()) {
            faults.invalid(&at, kind, format!("may have mixed case, but should otherwise match: {why}"));
        }
    }
}

fn match_resources(resources: &Value, path: &Path, faults: &mut Faults) {
    let at = path.child("matchPolicy");
    match resources.get("matchPolicy").and_then(Value::as_str) {
        None => faults.required(&at, ""),
        Some(policy) => faults.known(&at, policy, MATCH_POLICIES),
    }
    for name in ["namespaceSelector", "objectSelector"] {
        let at = path.child(name);
        match selector(resources, name) {
            None => faults.required(&at, ""),
            Some(selector) => faults.add(validate_label_selector(&selector, &at)),
        }
    }
    for name in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in list(resources, name).iter().enumerate() {
            let path = path.child(name).index(index);
            resource_names(rule, &path.child("resourceNames"), faults);
            validate_rule(rule, &path, faults);
        }
    }
}

fn resource_names(rule: &Value, path: &Path, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (index, name) in list(rule, "resourceNames").iter().filter_map(Value::as_str).enumerate() {
        faults.form(&path.index(index), name, check_path_segment);
        faults.unique(&path.index(index), name, &mut seen);
    }
}

/// A mutating policy has no object to change in a deletion. The path has no index, as upstream's.
fn mutated_operations(resources: &Value, path: &Path, faults: &mut Faults) {
    let operations = list(resources, "resourceRules").iter().flat_map(|rule| list(rule, "operations"));
    for operation in operations.filter_map(Value::as_str).filter(|operation| *operation == "DELETE") {
        faults.known(&path.child("resourceRules").child("operations"), operation, MUTATED_OPERATIONS);
    }
}

fn variables(spec: &Value, path: &Path, expressions: &mut PolicyExpressions, faults: &mut Faults) {
    for (index, variable) in list(spec, "variables").iter().enumerate() {
        let (at, name) = (path.child("variables").index(index), text(variable, "name"));
        if name.is_empty() {
            faults.required(&at.child("name"), "name is not specified");
        } else if !is_identifier(name) {
            faults.invalid(&at.child("name"), name, "must be a valid CEL identifier");
        }
        let expression = text(variable, "expression").trim();
        if expression.is_empty() {
            faults.required(&at.child("expression"), "expression is not specified");
        } else if let Err(error) = expressions.add_variable(name, expression) {
            faults.invalid(&at.child("expression"), text(variable, "expression"), error.to_string());
        }
    }
}

/// Source: upstream `isCELIdentifier`.
fn is_identifier(name: &str) -> bool {
    let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_word
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && berth_cel::escape(name).is_some_and(|escaped| !escaped.starts_with("__"))
}

fn validation(rule: &Value, path: &Path, expressions: &PolicyExpressions, faults: &mut Faults) {
    let expression = text(rule, "expression");
    if expression.trim().is_empty() {
        faults.required(&path.child("expression"), "expression is not specified");
    } else if let Err(error) = expressions.compile(Wanted::Bool, expression.trim()) {
        faults.invalid(&path.child("expression"), expression, error.to_string());
    }
    let message = text(rule, "messageExpression");
    if !message.is_empty() {
        if message.trim().is_empty() {
            faults.invalid(&path.child("messageExpression"), message, "must be non-empty if specified");
        } else if let Err(error) = expressions.compile_message(message.trim()) {
            faults.invalid(&path.child("messageExpression"), message, error.to_string());
        }
    }
    let message = text(rule, "message");
    if !message.is_empty() && message.trim().is_empty() {
        faults.invalid(&path.child("message"), message, "must be non-empty if specified");
    } else if message.trim().contains(['\n', '\r']) {
        faults.invalid(&path.child("message"), message, "must not contain line breaks");
    }
    if let Some(reason) = rule.get("reason").and_then(Value::as_str) {
        faults.known(&path.child("reason"), reason, REASONS);
    }
}

fn audit_annotation(annotation: &Value, policy: &str, path: &Path, expressions: &PolicyExpressions, faults: &mut Faults) {
    let key = text(annotation, "key");
    if policy.is_empty() {
        faults.form(&path.child("key"), key, check_qualified_name);
    } else {
        faults.form(&path.child("key"), &format!("{policy}/{key}"), check_qualified_name);
    }
    let expression = text(annotation, "valueExpression");
    if expression.trim().is_empty() {
        faults.required(&path.child("valueExpression"), "valueExpression is not specified");
    } else if let Err(error) = expressions.compile(Wanted::TextOrNull, expression.trim()) {
        faults.invalid(&path.child("valueExpression"), expression, error.to_string());
    }
}

fn mutation(change: &Value, path: &Path, expressions: &PolicyExpressions, faults: &mut Faults) {
    const MEMBERS: [(&str, &str, Wanted); 2] =
        [("ApplyConfiguration", "applyConfiguration", Wanted::Object), ("JSONPatch", "jsonPatch", Wanted::Patches)];
    let kind = text(change, "patchType");
    if !faults.set(&path.child("patchType"), kind) {
        return;
    }
    let Some((_, member, wanted)) = MEMBERS.iter().find(|(name, ..)| *name == kind) else {
        return faults.known(&path.child("patchType"), kind, &["ApplyConfiguration", "JSONPatch"]);
    };
    let at = path.child(member);
    match change.get(member) {
        None => faults.required(&at, &format!("must be specified when patchType is {kind}")),
        Some(patch) => {
            let expression = text(patch, "expression");
            if expression.trim().is_empty() {
                faults.required(&at.child("expression"), "");
            } else if let Err(error) = expressions.compile_patch(*wanted, expression.trim()) {
                faults.invalid(&at.child("expression"), expression, error.to_string());
            }
        }
    }
    for (_, other, _) in MEMBERS.iter().filter(|(name, other, _)| *name != kind && change.get(other).is_some()) {
        faults.invalid(&path.child(other), format!("{{{other}}}"), format!("must not be specified when patchType is {kind}"));
    }
}

/// Returns the faults of the spec of a binding.
pub(super) fn binding(kind: Bindings, spec: &Value) -> Vec<FieldError> {
    let (path, mut faults) = (Path::new("spec"), Faults::default());
    faults.set_form(&path.child("policyName"), text(spec, "policyName"), check_dns_subdomain);
    if let Some(params) = spec.get("paramRef") {
        param_ref(params, &path.child("paramRef"), &mut faults);
    }
    if let Some(resources) = spec.get("matchResources") {
        let at = path.child("matchResources");
        match_resources(resources, &at, &mut faults);
        if kind == Bindings::Mutating {
            mutated_operations(resources, &at, &mut faults);
        }
    }
    if kind == Bindings::Validating {
        validation_actions(list(spec, "validationActions"), &path.child("validationActions"), &mut faults);
    }
    faults.into_vec()
}

fn param_ref(params: &Value, path: &Path, faults: &mut Faults) {
    let name = text(params, "name");
    if !name.is_empty() {
        faults.form(&path.child("name"), name, check_path_segment);
        if params.get("selector").is_some() {
            faults.forbidden(&path.child("name"), "name and selector are mutually exclusive");
        }
    }
    match selector(params, "selector") {
        Some(selector) => {
            faults.add(validate_label_selector(&selector, &path.child("selector")));
            if !name.is_empty() {
                faults.forbidden(&path.child("selector"), "name and selector are mutually exclusive");
            }
        }
        None if name.is_empty() => faults.required(path, "one of name or selector must be specified"),
        None => (),
    }
    let at = path.child("parameterNotFoundAction");
    match params.get("parameterNotFoundAction").and_then(Value::as_str) {
        None => faults.required(&at, ""),
        Some(action) => faults.known(&at, action, &["Deny", "Allow"]),
    }
}

fn validation_actions(actions: &[Value], path: &Path, faults: &mut Faults) {
    if actions.is_empty() {
        faults.required(path, "at least one validation action is required");
    }
    let mut seen = BTreeSet::new();
    for (index, action) in actions.iter().filter_map(Value::as_str).enumerate() {
        faults.known(&path.index(index), action, &["Audit", "Deny", "Warn"]);
        faults.unique(&path.index(index), action, &mut seen);
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        faults.invalid(path, actions.to_vec(), why);
    }
}

/// Checks the status that a controller writes.
pub(super) fn status(status: &Value, path: &Path, faults: &mut Faults) {
    let warnings = list(&status["typeChecking"], "expressionWarnings");
    for (index, warning) in warnings.iter().enumerate() {
        let at = path.child("typeChecking").child("expressionWarnings").index(index);
        for member in ["fieldRef", "warning"] {
            faults.set(&at.child(member), text(warning, member));
        }
    }
    crate::built_in::values::validate_conditions(status, faults);
}
