//! Evaluates mutating policies.

use super::{
    ChangeKind, Data, Expression, Policy,
    data::Scope,
    failure::{ErrorType, ExpressionFailure},
};
use berth_cel::{Budget, OBJECT_COST_MAX, Value};
use serde_json::Value as Json;
use std::rc::Rc;

/// A change of an object, which its caller makes.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Fields that are merged into the object, as server-side apply does.
    Apply(Json),
    /// Operations of a JSON patch.
    Patch(Vec<Json>),
}

/// The result of one mutation.
#[derive(Clone, Debug, PartialEq)]
pub enum Mutated {
    /// The object changes.
    Changed(Change),
    /// The expression has no usable value, for this reason.
    Failed(String, ErrorType),
}

impl Policy {
    /// Evaluates the mutation at a place. The budget is that of all mutations for one binding and one parameter object.
    #[must_use]
    pub fn mutate(&self, place: usize, data: &Data<'_>, budget: &mut MutationBudget) -> Option<Mutated> {
        let mutation = self.mutations.get(place)?;
        let scope = Scope::new(self, data);
        let change = match mutation.kind {
            ChangeKind::ApplyConfiguration => configuration(&scope, &mutation.expression, &mut budget.0),
            ChangeKind::JsonPatch => patch(&scope, &mutation.expression, &mut budget.0),
        };
        Some(match change {
            Ok(change) => Mutated::Changed(change),
            Err(error) => Mutated::Failed(error.to_string(), error.error_type()),
        })
    }
}

/// Why an expression has no usable value, in upstream's words.
#[derive(Debug, thiserror::Error)]
enum MutationError {
    #[error(transparent)]
    Expression(#[from] ExpressionFailure),
    #[error("type mismatch: unexpected type name {found:?}, expected {expected:?}, which matches field name path from root Object type")]
    TypeName { found: String, expected: String },
    #[error("JSON Patch: Unexpected kind: {0}")]
    Operation(String),
}

impl MutationError {
    fn error_type(&self) -> ErrorType {
        match self {
            Self::Expression(failure) => failure.error_type(),
            Self::TypeName { .. } | Self::Operation(_) => ErrorType::Invalid,
        }
    }
}

/// What the mutations of one policy cost at most.
#[derive(Debug)]
pub struct MutationBudget(Budget);

impl Default for MutationBudget {
    fn default() -> Self {
        Self(Budget::new(OBJECT_COST_MAX))
    }
}

fn configuration<'a>(scope: &Rc<Scope<'a>>, expression: &'a Expression, budget: &mut Budget) -> Result<Change, MutationError> {
    let value = scope.evaluate(expression, budget)?;
    check_names(expression, &value, "Object", budget)?;
    let fields = value.to_json(budget).map_err(|error| ExpressionFailure::new(expression, error))?;
    Ok(Change::Apply(fields))
}

/// An expression constructs each part of an object under the name of its path.
fn check_names(expression: &Expression, value: &Value<'_>, expected: &str, budget: &mut Budget) -> Result<(), MutationError> {
    let failed = |error| ExpressionFailure::new(expression, error);
    match value {
        Value::Map(map) => {
            if let Some(name) = map.constructed_as()
                && name != expected
            {
                return Err(MutationError::TypeName { found: name.to_owned(), expected: expected.to_owned() });
            }
            if map.constructed_as().is_none() {
                return Ok(());
            }
            for (name, value) in map.entries(budget).map_err(failed)? {
                check_names(expression, &value, &format!("{expected}.{}", name.as_str().unwrap_or_default()), budget)?;
            }
            Ok(())
        }
        Value::List(list) => {
            let values = list.values(budget).map_err(failed)?;
            values.iter().try_for_each(|value| check_names(expression, value, expected, budget))
        }
        Value::Optional(Some(value)) => check_names(expression, value, expected, budget),
        _ => Ok(()),
    }
}

fn patch<'a>(scope: &Rc<Scope<'a>>, expression: &'a Expression, budget: &mut Budget) -> Result<Change, MutationError> {
    let value = scope.evaluate(expression, budget)?;
    let operations = match value.to_json(budget).map_err(|error| ExpressionFailure::new(expression, error))? {
        Json::Array(operations) => operations,
        other => vec![other],
    };
    for operation in &operations {
        let name = operation.get("op").unwrap_or(&Json::Null);
        if !["add", "remove", "replace", "move", "copy", "test"].iter().any(|known| name == known) {
            return Err(MutationError::Operation(name.as_str().unwrap_or_default().to_owned()));
        }
    }
    Ok(Change::Patch(operations))
}
