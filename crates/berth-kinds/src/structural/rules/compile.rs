//! Compiles the rules of a part of a schema.

use super::{
    Own, Rule,
    declare::declaration,
    field_path::field_path,
    written::{Written, rules_of},
};
use crate::Structural;
use berth_cel::{CompileError, Declaration, Environment, Program, Type};

/// Compiles the rules of a part. `None`: expressions cannot read its data.
pub(super) fn compile(schema: &Structural, is_object: bool) -> Option<Own> {
    let declaration = declaration(schema, is_object)?;
    let environments = Environments::of(&declaration);
    let rule = |written: Written| Rule {
        program: program(&written, &environments),
        message: message(&written, &environments).and_then(Result::ok),
        field: Some(written.field_path.as_str()).filter(|field| !field.is_empty()).and_then(|field| field_path(field, schema)),
        written,
    };
    Some(Own { rules: rules_of(schema).into_iter().map(rule).collect(), declaration })
}

/// The variables of the rules of one part.
pub(super) struct Environments {
    plain: Environment,
    /// `oldSelf` is optional.
    optional: Environment,
}

impl Environments {
    pub(super) fn of(declaration: &Declaration) -> Self {
        let environment = Environment::new().variable("self", declaration.clone());
        let plain = environment.clone().variable("oldSelf", declaration.clone());
        Self { plain, optional: environment.optional_variable("oldSelf", declaration.clone()) }
    }

    fn of_rule(&self, written: &Written) -> &Environment {
        if written.optional_old_self == Some(true) { &self.optional } else { &self.plain }
    }
}

pub(super) fn program(written: &Written, environments: &Environments) -> Result<Program, CompileError> {
    let wrong_type = "cel expression must evaluate to a bool";
    Program::compile_as(&written.rule, environments.of_rule(written), &Type::Bool, wrong_type)
}

/// `None`: the rule has no such expression.
pub(super) fn message(written: &Written, environments: &Environments) -> Option<Result<Program, CompileError>> {
    let wrong_type = "messageExpression must evaluate to a string";
    let expression = Some(&written.message_expression).filter(|expression| !expression.is_empty())?;
    Some(Program::compile_as(expression, environments.of_rule(written), &Type::String, wrong_type))
}
