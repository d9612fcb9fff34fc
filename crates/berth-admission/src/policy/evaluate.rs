//! Evaluates validating policies.

use super::{
    Data, Expression, Matching, Policy,
    annotations::AuditAnnotations,
    data::Scope,
    failure::{ErrorType, ExpressionFailure},
};
use crate::FailurePolicy;
use berth_cel::{Budget, OBJECT_COST_MAX, Value};

/// The maximum size of the text that an expression computes for a message, in bytes.
const MESSAGE_BYTES_MAX: usize = 5 << 10;

/// The reason of a response about an expression that has no value.
const INVALID: &str = "Invalid";

/// What a policy found.
#[derive(Clone, Debug, Default)]
pub struct Validated {
    /// What is wrong, in the order of the validations.
    pub findings: Vec<Finding>,
    /// How many expressions could not be evaluated, although the request may pass.
    pub ignored: Vec<ErrorType>,
}

/// A validation that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What failed.
    pub source: FindingSource,
    /// The text for the client, without the name of the policy.
    pub message: String,
    /// The reason of the response.
    pub reason: String,
    /// Why, for metrics.
    pub error_type: ErrorType,
}

/// What failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingSource {
    /// The validation at this place.
    Validation(usize),
    /// An annotation could not be computed: the request is rejected, whatever the actions of the binding are.
    Annotation,
}

impl Policy {
    /// Evaluates all validations. Annotations for the audit log are added to `annotations`.
    pub fn validate(&self, data: &Data<'_>, annotations: &mut AuditAnnotations) -> Validated {
        match self.conditions.evaluate(data).matching {
            Matching::No => return Validated::default(),
            Matching::Failed(message, error_type) => {
                let finding = Finding { source: FindingSource::Validation(0), message, reason: INVALID.to_owned(), error_type };
                return Validated { findings: vec![finding], ignored: Vec::new() };
            }
            Matching::Yes => (),
        }
        let mut validated = Validated::default();
        let mut budget = Budget::new(OBJECT_COST_MAX);
        let scope = Scope::new(self, data);
        for (place, validation) in self.validations.iter().enumerate() {
            let source = FindingSource::Validation(place);
            let error = match scope.evaluate(&validation.rule, &mut budget) {
                Ok(Value::Bool(true)) => continue,
                Ok(_) => {
                    let computed =
                        validation.message_expression.as_ref().and_then(|expression| computed_message(&scope, expression, &mut budget));
                    let written = || Some(validation.message.clone()).filter(|message| !message.is_empty());
                    let message = computed.or_else(written).unwrap_or_else(|| format!("failed expression: {}", validation.rule.source));
                    validated.findings.push(Finding { source, message, reason: validation.reason.clone(), error_type: ErrorType::Invalid });
                    continue;
                }
                Err(error) => error,
            };
            let is_out_of_budget = error.is_out_of_budget();
            let finding = Finding::failed(source, &error);
            if is_out_of_budget {
                // Upstream replaces all results.
                validated.findings.clear();
            }
            match self.failure_policy {
                FailurePolicy::Fail => validated.findings.push(finding),
                FailurePolicy::Ignore => validated.ignored.push(finding.error_type),
            }
            if is_out_of_budget {
                return validated;
            }
        }
        self.annotate(data, annotations, &mut validated);
        validated
    }

    fn annotate(&self, data: &Data<'_>, annotations: &mut AuditAnnotations, validated: &mut Validated) {
        if self.annotations.is_empty() {
            return;
        }
        let scope = Scope::new(self, data);
        let mut budget = Budget::new(OBJECT_COST_MAX);
        for (name, expression) in &self.annotations {
            match scope.evaluate(expression, &mut budget) {
                Ok(Value::String(text)) => annotations.add(name, text.trim()),
                Ok(_) => (),
                Err(error) => {
                    let finding = Finding::failed(FindingSource::Annotation, &error);
                    match self.failure_policy {
                        FailurePolicy::Fail => validated.findings.push(finding),
                        FailurePolicy::Ignore => validated.ignored.push(finding.error_type),
                    }
                }
            }
        }
    }
}

/// Returns the text of an expression. `None`: it cannot be used.
fn computed_message<'a>(scope: &Scope<'a>, expression: &'a Expression, budget: &mut Budget) -> Option<String> {
    let value = scope.evaluate(expression, budget).ok()?;
    let text = value.as_str()?.trim();
    (!text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains(['\n', '\r'])).then(|| text.to_owned())
}

impl Finding {
    fn failed(source: FindingSource, failure: &ExpressionFailure) -> Self {
        Self { source, message: failure.to_string(), reason: INVALID.to_owned(), error_type: failure.error_type() }
    }
}
