//! Admission policies: expressions that accept, reject or change requests.
//!
//! [`Policy::read`] compiles the expressions of a policy once. [`Policy::validate`] evaluates a validating policy for one
//! binding and one parameter object, [`Policy::mutate`] one mutation of a mutating policy.
//!
//! Source: kubernetes `apiserver/pkg/admission/plugin/policy`, version 1.36.

mod annotations;
mod conditions;
mod data;
mod denial;
mod evaluate;
mod failure;
mod mutate;
mod params;
mod reach;
mod read;
mod type_check;

pub use annotations::{AuditAnnotations, VALIDATION_FAILURE, validation_failure};
pub use conditions::{ConditionsResult, MatchConditions, Matching};
pub use data::Data;
pub use denial::{MUTATING, PolicyDenial, VALIDATING};
pub use evaluate::{Finding, FindingSource, Validated};
pub use failure::ErrorType;
pub use mutate::{Change, Mutated, MutationBudget};
pub use params::{NotFound, ParamKind, ParamQuery, ParamRef, ParamsError};
pub use type_check::{CHECKED_KINDS_MAX, TypeWarning, type_warnings};

use crate::{Constraints, FailurePolicy};
use berth_cel::Program;
use berth_kinds::ExpressionError;

/// A policy with compiled expressions. Its parts do not change.
#[derive(Debug)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// What it matches.
    pub constraints: Constraints,
    /// What happens if it cannot be evaluated.
    pub failure_policy: FailurePolicy,
    /// Conditions about requests that it matches otherwise.
    pub conditions: MatchConditions,
    /// The kind of its parameters.
    pub param_kind: Option<ParamKind>,
    /// Whether a mutating policy is evaluated once more if the object changes after it.
    pub is_reinvoked: bool,
    variables: Vec<(String, Expression)>,
    validations: Vec<Validation>,
    annotations: Vec<(String, Expression)>,
    mutations: Vec<Mutation>,
}

/// A binding of a policy.
#[derive(Debug)]
pub struct PolicyBinding {
    /// Its name.
    pub name: String,
    /// The name of the policy.
    pub policy: String,
    /// Where the parameters are.
    pub params: Option<ParamRef>,
    /// What it matches, besides what the policy matches. `None`: everything.
    pub constraints: Option<Constraints>,
    /// What happens if a validation fails.
    pub actions: Vec<ValidationAction>,
}

/// What happens if a validation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidationAction {
    /// The request is rejected.
    Deny,
    /// The client gets a warning.
    Warn,
    /// The audit log gets an annotation.
    Audit,
}

impl ValidationAction {
    /// Returns its name in bindings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "Deny",
            Self::Warn => "Warn",
            Self::Audit => "Audit",
        }
    }
}

/// An expression, and its program or why it does not compile. Validation rejects an expression that does not compile, so
/// only an object of another server version can have one.
#[derive(Debug)]
struct Expression {
    source: String,
    program: Result<Program, CompilationError>,
}

/// Why an expression does not compile.
#[derive(Debug, thiserror::Error)]
#[error("compilation error: {0}")]
struct CompilationError(ExpressionError);

#[derive(Debug)]
struct Validation {
    rule: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: String,
}

#[derive(Debug)]
struct Mutation {
    kind: ChangeKind,
    expression: Expression,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChangeKind {
    ApplyConfiguration,
    JsonPatch,
}

#[cfg(test)]
mod tests;
