//! Reads policies and bindings, and compiles their expressions.

use super::{
    ChangeKind, CompilationError, Expression, MatchConditions, Mutation, ParamKind, ParamRef, Policy, PolicyBinding, Validation,
    ValidationAction,
};
use crate::{Constraints, FailurePolicy};
use berth_cel::{Environment, Program, Type};
use berth_kinds::{Expressions, NamedVariables, Wanted};
use serde_json::Value;

impl Policy {
    /// Reads a stored policy, validating or mutating. A member of the wrong type counts as absent.
    #[must_use]
    pub fn read(policy: &Value) -> Self {
        let spec = &policy["spec"];
        let all = Expressions { params: spec.get("paramKind").is_some(), authorizer: true, patches: false };
        let plain = all.environment();
        let conditions = MatchConditions::read(spec, &plain);
        let mut known = NamedVariables::of_policy(!list(spec, "variables").is_empty());
        let mut variables = Vec::new();
        for variable in list(spec, "variables") {
            let expression = Expression::read(variable, "expression", Wanted::Anything, &known.extend(plain.clone()));
            known.add(text(variable, "name"), expression.program.as_ref().map_or(&Type::Dyn, Program::output));
            variables.push((text(variable, "name").to_owned(), expression));
        }
        let messages = known.extend(Expressions { authorizer: false, ..all }.environment());
        let patches = known.extend(Expressions { patches: true, ..all }.environment());
        let plain = known.extend(plain);
        let name = policy.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        Self {
            name: name.to_owned(),
            constraints: Constraints::of_policy(&spec["matchConstraints"]),
            failure_policy: FailurePolicy::read(spec),
            param_kind: spec.get("paramKind").map(ParamKind::read),
            is_reinvoked: text(spec, "reinvocationPolicy") == "IfNeeded",
            conditions,
            variables,
            validations: list(spec, "validations").iter().map(|validation| Validation::read(validation, &plain, &messages)).collect(),
            annotations: list(spec, "auditAnnotations")
                .iter()
                .map(|annotation| {
                    let value = Expression::read(annotation, "valueExpression", Wanted::TextOrNull, &plain);
                    (format!("{name}/{}", text(annotation, "key")), value)
                })
                .collect(),
            mutations: list(spec, "mutations").iter().map(|mutation| Mutation::read(mutation, &patches)).collect(),
        }
    }

    /// How many mutations it has.
    #[must_use]
    pub fn mutation_count(&self) -> usize {
        self.mutations.len()
    }
}

impl PolicyBinding {
    /// Reads a stored binding. A member of the wrong type counts as absent.
    #[must_use]
    pub fn read(binding: &Value) -> Self {
        let spec = &binding["spec"];
        let action = |action: &Value| match action.as_str() {
            Some("Deny") => Some(ValidationAction::Deny),
            Some("Warn") => Some(ValidationAction::Warn),
            Some("Audit") => Some(ValidationAction::Audit),
            _ => None,
        };
        Self {
            name: binding.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned(),
            policy: text(spec, "policyName").to_owned(),
            params: spec.get("paramRef").map(ParamRef::read),
            constraints: spec.get("matchResources").map(Constraints::of_policy),
            actions: list(spec, "validationActions").iter().filter_map(action).collect(),
        }
    }
}

impl Expression {
    pub(super) fn read(of: &Value, member: &str, wanted: Wanted, environment: &Environment) -> Self {
        let source = text(of, member).trim().to_owned();
        let program = wanted.compile(&source, environment).map_err(CompilationError);
        Self { source, program }
    }
}

impl Validation {
    fn read(validation: &Value, plain: &Environment, messages: &Environment) -> Self {
        let has_message_expression = !text(validation, "messageExpression").trim().is_empty();
        Self {
            rule: Expression::read(validation, "expression", Wanted::Bool, plain),
            message: text(validation, "message").trim().to_owned(),
            message_expression: has_message_expression.then(|| Expression::read(validation, "messageExpression", Wanted::Text, messages)),
            reason: Some(text(validation, "reason")).filter(|reason| !reason.is_empty()).unwrap_or("Invalid").to_owned(),
        }
    }
}

impl Mutation {
    fn read(mutation: &Value, patches: &Environment) -> Self {
        let (kind, member, wanted) = match text(mutation, "patchType") {
            "JSONPatch" => (ChangeKind::JsonPatch, "jsonPatch", Wanted::Patches),
            _ => (ChangeKind::ApplyConfiguration, "applyConfiguration", Wanted::Object),
        };
        Self { kind, expression: Expression::read(&mutation[member], "expression", wanted, patches) }
    }
}

fn list<'v>(object: &'v Value, name: &str) -> &'v [Value] {
    object.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn text<'v>(object: &'v Value, name: &str) -> &'v str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}
