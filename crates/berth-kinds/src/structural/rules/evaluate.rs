//! Judges an object by the rules of its schema.

use super::super::counterparts::Counterparts;
use super::{Own, Rule};
use crate::{Additional, FAULTS_MAX, Structural, Type};
use berth_api::{FieldError, FieldErrorReason, Path};
use berth_cel::{Bindings, Budget, EvaluationError, OBJECT_COST_MAX, Value as Computed};
use serde_json::Value;
use std::{cell::OnceCell, rc::Rc};

/// The field of faults about the whole object.
const NO_FIELD: &str = "<nil>";
/// How long a computed message is at most, in bytes.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// The faults of an object by the rules of its schema. `old`: what it replaces. Rules that do not compare with the old object are not applied again to
/// parts that did not change (ratcheting).
pub(in super::super) fn faults(schema: &Structural, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    faults_within(OBJECT_COST_MAX, schema, object, old)
}

/// The same with another budget.
pub(super) fn faults_within(units: u64, schema: &Structural, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    if !schema.inside.rules {
        return Vec::new();
    }
    let mut run = Run { faults: Vec::new(), budget: Budget::new(units), is_over: false };
    let pair = Pair { old, correlated: old, around: None, is_root: true };
    run.value(schema, object, &pair, &Path::new(""));
    run.faults
}

struct Run {
    faults: Vec<FieldError>,
    budget: Budget,
    /// Whether the budget is spent.
    is_over: bool,
}

/// What a value replaces.
#[derive(Clone, Copy)]
struct Pair<'a> {
    /// `oldSelf`.
    old: Option<&'a Value>,
    /// The old value with which it is compared. Missing where no old value belongs to it.
    correlated: Option<&'a Value>,
    /// The nearest part around it that has an old value.
    around: Option<&'a Compared<'a>>,
    is_root: bool,
}

/// A value and its old value, which are compared at most once.
struct Compared<'a> {
    new: &'a Value,
    old: &'a Value,
    is_same: OnceCell<bool>,
}

impl Compared<'_> {
    fn is_same(&self) -> bool {
        *self.is_same.get_or_init(|| self.new == self.old)
    }
}

impl Pair<'_> {
    fn is_same(&self, value: &Value) -> bool {
        match (self.correlated, self.around) {
            (Some(old), _) => old == value,
            (None, Some(around)) => around.is_same(),
            (None, None) => false,
        }
    }
}

impl Run {
    fn is_done(&self) -> bool {
        self.is_over || FAULTS_MAX <= self.faults.len()
    }

    fn value<'b>(&mut self, schema: &'b Structural, value: &'b Value, pair: &Pair<'b>, path: &Path) {
        if value.is_null() || !schema.inside.rules || self.is_done() {
            return;
        }
        if let Some(own) = schema.rules.of(schema, pair.is_root || schema.embedded_resource) {
            self.rules(own, schema, value, pair, path);
        }
        let compared = pair.correlated.map(|old| Compared { new: value, old, is_same: OnceCell::new() });
        let around = compared.as_ref().or(pair.around);
        // Version and kind are those of the request, so nothing around them counts either.
        let inside = |old, correlated: Option<_>, is_hidden: bool| Pair {
            old,
            correlated: correlated.filter(|_| !is_hidden),
            around: around.filter(|_| !is_hidden),
            is_root: false,
        };
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let part = match (schema.properties.get(name), &schema.additional) {
                        (Some(property), _) => Some((property, path.child(name))),
                        (None, Additional::Of(values)) => Some((values, path.key(name))),
                        (None, Additional::Unset | Additional::Allowed(_)) => None,
                    };
                    let Some((part, path)) = part.filter(|(part, _)| part.inside.rules) else { continue };
                    let of = |old: Option<&'b Value>| old.and_then(|old| old.get(name));
                    let is_hidden = pair.is_root && matches!(name.as_str(), "apiVersion" | "kind");
                    self.value(part, member, &inside(of(pair.old), of(pair.correlated), is_hidden), &path);
                }
            }
            Value::Array(list) => {
                let Some(items) = schema.items.as_ref().filter(|items| items.inside.rules) else { return };
                let (known, correlated) = (Counterparts::of(schema, pair.old), Counterparts::of(schema, pair.correlated));
                for (index, element) in list.iter().enumerate() {
                    self.value(items, element, &inside(known.get(element), correlated.get(element), false), &path.index(index));
                }
            }
            _ => (),
        }
    }

    fn rules<'b>(&mut self, own: &'b Own, schema: &Structural, value: &'b Value, pair: &Pair<'b>, path: &Path) {
        let kind = schema.kind.map_or("", Type::as_str);
        let path = if path.to_string().is_empty() { &Path::new(NO_FIELD) } else { path };
        let invalid = |why: String| FieldError::invalid(path, kind, why);
        let read = |json| Computed::from_json(json, Some(&own.declaration));
        let (now, before) = (read(value), pair.old.filter(|old| !old.is_null()).map(read));
        for rule in &own.rules {
            if self.is_done() {
                return;
            }
            let program = match &rule.program {
                Ok(program) => program,
                Err(why) => {
                    self.faults.push(invalid(format!("rule compile error: {why}")));
                    continue;
                }
            };
            let reads_old = program.reads("oldSelf");
            let Some(bindings) = bindings(rule, reads_old, &now, before.as_ref()) else { continue };
            let result = bindings.and_then(|bindings| Ok((program.evaluate(&bindings, &mut self.budget)?, bindings)));
            let name = rule.written.name();
            let bindings = match result {
                Ok((Computed::Bool(true), _)) => continue,
                Ok((_, bindings)) => bindings,
                Err(error) => {
                    self.is_over = matches!(error, EvaluationError::OutOfBudget | EvaluationError::CallCost);
                    self.faults.push(invalid(match &error {
                        EvaluationError::OutOfBudget => error.to_string(),
                        EvaluationError::CallCost => {
                            format!("'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {name}")
                        }
                        EvaluationError::NoOverload(_) => {
                            format!(
                                "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {name}"
                            )
                        }
                        EvaluationError::Failed(_) => format!("{error} evaluating rule: {name}"),
                    }));
                    continue;
                }
            };
            let (message, is_final) = self.message(rule, &bindings);
            if !reads_old && pair.is_same(value) {
                continue;
            }
            let at = match (&rule.field, pair.is_root) {
                (Some(field), true) => Path::new(field),
                (Some(field), false) => path.child(field),
                (None, _) => path.clone(),
            };
            self.is_over |= is_final;
            self.faults.push(if is_final { FieldError::invalid(&at, kind, message) } else { failed(rule, schema, value, &at, message) });
        }
    }

    /// The message of a rule that failed, and whether no further rule is evaluated.
    fn message<'r>(&mut self, rule: &'r Rule, bindings: &Bindings<'r>) -> (String, bool) {
        let written = &rule.written;
        let plain = || {
            if written.message.is_empty() { format!("failed rule: {}", written.name()) } else { written.message.trim().to_owned() }
        };
        let Some(program) = &rule.message else { return (plain(), false) };
        match program.evaluate(bindings, &mut self.budget) {
            Ok(computed) => {
                let text = computed.as_str().unwrap_or_default().trim();
                let fits = !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
                (if fits { text.to_owned() } else { plain() }, false)
            }
            Err(EvaluationError::OutOfBudget) => {
                let why = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
                (why.to_owned(), true)
            }
            Err(EvaluationError::CallCost) => {
                let text = Value::from(written.message_expression.as_str());
                let why = "no further validation rules will be run due to call cost exceeds limit for messageExpression";
                (format!("{why}: {text}"), true)
            }
            Err(_) => (plain(), false),
        }
    }
}

type Read<'a> = Result<Computed<'a>, EvaluationError>;

/// The variables of a rule. `None`: it compares with an old value, and there is none.
fn bindings<'a>(rule: &Rule, reads_old: bool, now: &Read<'a>, before: Option<&Read<'a>>) -> Option<Result<Bindings<'a>, EvaluationError>> {
    let is_optional = rule.written.optional_old_self == Some(true);
    let before = match before.cloned().transpose() {
        Ok(before) => before,
        Err(error) => return Some(Err(error)),
    };
    if reads_old && before.is_none() && !is_optional {
        return None;
    }
    let now = match now {
        Ok(now) => Bindings::new().with("self", now.clone()),
        Err(error) => return Some(Err(error.clone())),
    };
    Some(Ok(match before {
        before if is_optional => now.with("oldSelf", Computed::Optional(before.map(Rc::new))),
        Some(before) => now.with("oldSelf", before),
        None => now,
    }))
}

/// The fault of a rule that does not hold.
fn failed(rule: &Rule, schema: &Structural, value: &Value, at: &Path, message: String) -> FieldError {
    let is_large = matches!(schema.kind, Some(Type::Object | Type::Array));
    match rule.written.reason.as_deref() {
        Some("FieldValueForbidden") => FieldError::forbidden(at, message),
        Some("FieldValueRequired") => FieldError::required(at, message),
        Some("FieldValueDuplicate") => {
            let reason = FieldErrorReason::Duplicate(if is_large { Value::Null } else { value.clone() });
            FieldError { field: at.clone(), reason, detail: String::new() }
        }
        _ if is_large => FieldError::invalid_part(at, message),
        _ => FieldError::invalid(at, value.clone(), message),
    }
}
