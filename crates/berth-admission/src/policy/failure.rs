//! Why an expression of a policy has no usable value, in upstream's words.

use super::Expression;
use berth_cel::{Budget, EvaluationError, Value, Variables};

/// Why an expression has no usable value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExpressionFailure {
    /// It does not compile. The text is that of the compiler.
    #[error("{0}")]
    Compile(String),
    /// Its evaluation fails. The text names the expression, as upstream, so it contains the cause.
    #[error("expression '{expression}' resulted in error: {error}")]
    Evaluation { expression: String, error: EvaluationError },
    /// The budget of the policy is spent. The text does not name the expression.
    #[error(transparent)]
    OutOfBudget(EvaluationError),
}

/// Why an evaluation failed. Upstream's label of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorType {
    /// It did not.
    None,
    /// An expression does not compile.
    Compile,
    /// An expression has no value, or a validation is false.
    Invalid,
    /// The evaluation cost too much.
    OutOfBudget,
}

impl ErrorType {
    /// Returns the value of the label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "no_error",
            Self::Compile => "compile_error",
            Self::Invalid => "invalid_error",
            Self::OutOfBudget => "out_of_budget_error",
        }
    }
}

impl ExpressionFailure {
    pub(super) fn new(expression: &Expression, error: EvaluationError) -> Self {
        match (&expression.program, error) {
            (Err(why), _) => Self::Compile(why.to_string()),
            (Ok(_), error @ EvaluationError::OutOfBudget) => Self::OutOfBudget(error),
            (Ok(_), error) => Self::Evaluation { expression: expression.source.clone(), error },
        }
    }

    pub(super) fn is_out_of_budget(&self) -> bool {
        matches!(self, Self::OutOfBudget(_))
    }

    /// Returns upstream's label of metrics.
    pub(super) fn error_type(&self) -> ErrorType {
        match self {
            Self::Compile(_) => ErrorType::Compile,
            Self::Evaluation { .. } => ErrorType::Invalid,
            Self::OutOfBudget(_) => ErrorType::OutOfBudget,
        }
    }
}

impl Expression {
    pub(super) fn evaluate<'a>(&'a self, variables: &dyn Variables<'a>, budget: &mut Budget) -> Result<Value<'a>, ExpressionFailure> {
        self.value(variables, budget).map_err(|error| ExpressionFailure::new(self, error))
    }

    pub(super) fn value<'a>(&'a self, variables: &dyn Variables<'a>, budget: &mut Budget) -> Result<Value<'a>, EvaluationError> {
        match &self.program {
            Ok(program) => program.evaluate(variables, budget),
            Err(why) => Err(EvaluationError::failed(why.to_string())),
        }
    }
}
