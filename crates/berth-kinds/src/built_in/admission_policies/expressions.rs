//! The environments of one policy's expressions.

use crate::{ExpressionError, Expressions, NamedVariables, Wanted, built_in::values::list};
use berth_cel::{Environment, Program};
use serde_json::Value;

/// The environments of one policy, with the variables so far.
pub(super) struct PolicyExpressions {
    plain: Environment,
    messages: Environment,
    patches: Environment,
    variables: NamedVariables,
}

impl PolicyExpressions {
    pub(super) fn new(spec: &Value) -> Self {
        let all = Expressions { params: spec.get("paramKind").is_some(), authorizer: true, patches: false };
        Self {
            plain: all.environment(),
            messages: Expressions { authorizer: false, ..all }.environment(),
            patches: Expressions { patches: true, ..all }.environment(),
            variables: NamedVariables::of_policy(!list(spec, "variables").is_empty()),
        }
    }

    /// Adds a variable. One that does not compile has any type.
    pub(super) fn add_variable(&mut self, name: &str, expression: &str) -> Result<(), ExpressionError> {
        let compiled = self.compile(Wanted::Anything, expression);
        self.variables.add(name, compiled.as_ref().map_or(&berth_cel::Type::Dyn, Program::output));
        compiled.map(drop)
    }

    pub(super) fn compile(&self, wanted: Wanted, expression: &str) -> Result<Program, ExpressionError> {
        wanted.compile(expression, &self.variables.extend(self.plain.clone()))
    }

    pub(super) fn compile_message(&self, expression: &str) -> Result<Program, ExpressionError> {
        Wanted::Text.compile(expression, &self.variables.extend(self.messages.clone()))
    }

    pub(super) fn compile_patch(&self, wanted: Wanted, expression: &str) -> Result<Program, ExpressionError> {
        wanted.compile(expression, &self.variables.extend(self.patches.clone()))
    }
}
