//! A rule as its author writes it.

use super::{VALIDATIONS, field_path::field_path};
use crate::{Additional, Structural};
use berth_api::{FieldError, Path};
use serde_json::{Value, json};

/// Reasons that a fault can have.
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// A rule as its author writes it.
#[derive(Clone, Debug, Default)]
pub(super) struct Written {
    pub(super) rule: String,
    pub(super) message: String,
    pub(super) message_expression: String,
    pub(super) reason: Option<String>,
    pub(super) field_path: String,
    pub(super) optional_old_self: Option<bool>,
}

/// The rules of a part of a schema.
pub(super) fn rules_of(schema: &Structural) -> Vec<Written> {
    let rules = schema.extras.get(VALIDATIONS).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    rules.iter().map(Written::read).collect()
}

impl Written {
    fn read(rule: &Value) -> Self {
        let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            rule: text("rule"),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: rule.get("reason").and_then(Value::as_str).map(str::to_owned),
            field_path: text("fieldPath"),
            optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool),
        }
    }

    /// As upstream shows it in faults: with the names of its Go type.
    pub(super) fn shown(&self) -> Value {
        json!({
            "Rule": self.rule,
            "Message": self.message,
            "MessageExpression": self.message_expression,
            "Reason": self.reason,
            "FieldPath": self.field_path,
            "OptionalOldSelf": self.optional_old_self,
        })
    }

    /// What faults call it.
    pub(super) fn name(&self) -> &str {
        if self.message.is_empty() { self.rule.trim() } else { self.message.trim() }
    }
}

/// What is wrong with the members of the rules of a schema, besides their expressions.
pub(super) fn check(schema: &Structural, path: &Path, faults: &mut Vec<FieldError>) {
    for (name, index, junctor) in schema.junctors().filter(|(_, _, junctor)| junctor.inside.rules) {
        let at = path.child(name);
        forbid(junctor, &index.map_or(at.clone(), |index| at.index(index)), faults);
    }
    if let Additional::Of(values) = &schema.additional {
        check(values, &path.child("additionalProperties"), faults);
    }
    for (name, property) in schema.properties.iter().filter(|(_, property)| property.inside.rules) {
        check(property, &path.child("properties").key(name), faults);
    }
    if let Some(items) = schema.items.as_ref().filter(|items| items.inside.rules) {
        check(items, &path.child("items"), faults);
    }
    check_own(schema, path, |fault| faults.push(fault));
}

/// A part that only restricts a value has no rules.
fn forbid(schema: &Structural, path: &Path, faults: &mut Vec<FieldError>) {
    if schema.extras.contains_key(VALIDATIONS) {
        faults.push(FieldError::forbidden(&path.child(VALIDATIONS), "must be empty to be structural"));
    }
    for (name, property) in &schema.properties {
        forbid(property, &path.child("properties").key(name), faults);
    }
    if let Some(items) = &schema.items {
        forbid(items, &path.child("items"), faults);
    }
    for (name, index, junctor) in schema.junctors() {
        let at = path.child(name);
        forbid(junctor, &index.map_or(at.clone(), |index| at.index(index)), faults);
    }
}

fn check_own(schema: &Structural, path: &Path, mut fault: impl FnMut(FieldError)) {
    let has_lines = |text: &str| text.contains(['\n', '\r']);
    let all = path.child(VALIDATIONS);
    if schema.extras.get(VALIDATIONS).is_some_and(|rules| !rules.is_array() && !rules.is_null()) {
        fault(FieldError::invalid(&all, schema.extras[VALIDATIONS].clone(), "must be a list"));
    }
    for (index, written) in rules_of(schema).into_iter().enumerate() {
        let at = |name: &str| all.index(index).child(name);
        let (rule, message) = (written.rule.trim(), written.message.trim());
        if rule.is_empty() {
            fault(FieldError::required(&at("rule"), "rule is not specified"));
        } else if !written.message.is_empty() && message.is_empty() {
            fault(FieldError::invalid(&at("message"), written.message.as_str(), "must be non-empty if specified"));
        } else if has_lines(message) {
            fault(FieldError::invalid(&at("message"), written.message.as_str(), "must not contain line breaks"));
        } else if has_lines(rule) && message.is_empty() {
            fault(FieldError::required(&at("message"), "message must be specified if rule contains line breaks"));
        }
        if !written.message_expression.is_empty() && written.message_expression.trim().is_empty() {
            fault(FieldError::required(&at("messageExpression"), "messageExpression must be non-empty if specified"));
        }
        if let Some(reason) = written.reason.as_deref().filter(|reason| !REASONS.contains(reason)) {
            fault(FieldError::not_supported(&at("reason"), reason, &REASONS));
        }
        let field = written.field_path.as_str();
        if !field.is_empty() && field.trim().is_empty() {
            fault(FieldError::invalid(&at("fieldPath"), field, "must be non-empty if specified"));
        }
        if has_lines(field) {
            fault(FieldError::invalid(&at("fieldPath"), field, "must not contain line breaks"));
        }
        if !field.is_empty() && field_path(field, schema).is_none() {
            fault(FieldError::invalid(&at("fieldPath"), field, "must be a valid path"));
        }
    }
}
