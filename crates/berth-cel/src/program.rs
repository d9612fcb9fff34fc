//! Expressions that are ready to be evaluated.

use crate::{
    Bindings, Budget, CALL_COST_MAX, CompileError, Environment, EvaluationError, Type, Value, Variables,
    check::check,
    estimate::estimate,
    evaluate::evaluate,
    functions::patterns,
    stack::with_stack,
    syntax::{Call, Expr, Kind, Literal, parse},
};
use std::collections::BTreeSet;

/// An expression that is parsed, and whose types are checked. It can be evaluated by several threads.
#[derive(Debug)]
pub struct Program {
    root: Expr,
    output: Type,
    estimated_cost: u64,
    variables: BTreeSet<String>,
}

impl Program {
    /// Parses an expression, checks its types and estimates its cost.
    ///
    /// # Errors
    /// What is wrong with it, in upstream's words.
    pub fn compile(source: &str, environment: &Environment) -> Result<Self, CompileError> {
        let parsed = parse(source).map_err(|fault| CompileError::new(source, vec![fault]))?;
        let checked = check(parsed, environment).map_err(|faults| CompileError::new(source, faults))?;
        instantiate(&checked.root).map_err(CompileError::Program)?;
        let estimated_cost = estimate(&checked, environment);
        let output = checked.types.get(checked.root.id as usize).cloned().unwrap_or(Type::Dyn);
        Ok(Self { root: checked.root, output, estimated_cost, variables: checked.variables })
    }

    /// As [`Self::compile`], for an expression that must have this type.
    ///
    /// # Errors
    /// As [`Self::compile`], or `wrong_type` if its type is another one.
    pub fn compile_as(source: &str, environment: &Environment, output: &Type, wrong_type: &str) -> Result<Self, CompileError> {
        let program = Self::compile(source, environment)?;
        if program.output == *output { Ok(program) } else { Err(CompileError::Type(wrong_type.to_owned())) }
    }

    /// The type of its value.
    #[must_use]
    pub fn output(&self) -> &Type {
        &self.output
    }

    /// What an evaluation costs at most, if the data is within the bounds of its declarations. Upstream's estimate.
    #[must_use]
    pub fn estimated_cost(&self) -> u64 {
        self.estimated_cost
    }

    /// Whether it reads a variable.
    #[must_use]
    pub fn reads(&self, variable: &str) -> bool {
        self.variables.contains(variable)
    }

    /// Evaluates the expression. What that costs is spent from the budget.
    ///
    /// # Errors
    /// The expression has no value, or its evaluation costs too much.
    pub fn evaluate<'a>(&'a self, variables: &dyn Variables<'a>, budget: &mut Budget) -> Result<Value<'a>, EvaluationError> {
        budget.run(|budget| evaluate(&self.root, variables, budget))
    }
}

/// Functions whose result upstream computes in advance if their argument is written in the expression.
const CONVERSIONS: &[&str] = &["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

/// Finds a part that has no value, whatever the variables are.
fn instantiate(expr: &Expr) -> Result<(), EvaluationError> {
    with_stack(|| {
        if let Kind::Call(call) = &expr.kind {
            instantiate_call(expr, call)?;
        }
        expr.parts().into_iter().try_for_each(instantiate)
    })
}

fn instantiate_call(expr: &Expr, call: &Call) -> Result<(), EvaluationError> {
    match (&*call.name, &call.target, &call.arguments[..]) {
        (name, None, [Expr { kind: Kind::Literal(_), .. }]) if CONVERSIONS.contains(&name) => {
            Budget::new(CALL_COST_MAX).run(|budget| evaluate(expr, &Bindings::new(), budget)).map(|_| ())
        }
        ("find" | "findAll", Some(_), [Expr { kind: Kind::Literal(Literal::String(pattern)), .. }, ..]) if call.pattern.is_none() => {
            patterns::compile(pattern).map(|_| ())
        }
        _ => Ok(()),
    }
}
