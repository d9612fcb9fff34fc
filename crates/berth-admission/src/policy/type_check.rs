//! The warnings of a validating policy's status: expressions that do not fit the kinds that the policy matches.

use berth_cel::{Declaration, Environment, Type};
use berth_identity::GroupVersionKind;
use berth_kinds::{Expressions, NamedVariables, Wanted};
use serde_json::{Value, json};

/// How many kinds of a policy are checked.
pub const CHECKED_KINDS_MAX: usize = 10;

/// A warning about an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeWarning {
    /// `spec.validations[0].expression`.
    pub field: String,
    /// A text for each kind.
    pub warning: String,
}

impl TypeWarning {
    /// Returns it as a status has it.
    #[must_use]
    pub fn to_value(&self) -> Value {
        json!({"fieldRef": self.field, "warning": self.warning})
    }
}

/// Checks the expressions of a stored policy against kinds and their schemas. `params` is the schema of the parameters, if it is known.
#[must_use]
pub fn type_warnings(policy: &Value, kinds: &[(GroupVersionKind, Declaration)], params: Option<&Declaration>) -> Vec<TypeWarning> {
    let spec = &policy["spec"];
    let mut warnings: Vec<TypeWarning> = Vec::new();
    for (kind, declaration) in kinds.iter().take(CHECKED_KINDS_MAX) {
        let all = Expressions { params: spec.get("paramKind").is_some(), authorizer: true, patches: false };
        let typed = |environment: Environment| {
            let environment = environment.variable("object", declaration.clone()).variable("oldObject", declaration.clone());
            match params.filter(|_| all.params) {
                Some(params) => environment.variable("params", params.clone()),
                None => environment,
            }
        };
        let plain = typed(all.environment());
        let messages = typed(Expressions { authorizer: false, ..all }.environment());
        let mut known = NamedVariables::of_policy(!list(spec, "variables").is_empty());
        for variable in list(spec, "variables") {
            let program = Wanted::Anything.compile(text(variable, "expression").trim(), &known.extend(plain.clone()));
            known.add(text(variable, "name"), program.as_ref().map_or(&Type::Dyn, |program| program.output()));
        }
        let (plain, messages) = (known.extend(plain), known.extend(messages));
        let mut check = |field: String, expression: &str, environment: &Environment| {
            let Err(error) = Wanted::Anything.compile(expression.trim(), environment) else { return };
            let text = error.to_string();
            let text = text.strip_prefix("compilation failed: ").unwrap_or(&text);
            let warning = format!("{}/{}, Kind={}: {text}\n", kind.group, kind.version, kind.kind);
            match warnings.iter_mut().find(|known| known.field == field) {
                // Upstream puts an empty line between kinds.
                Some(known) => known.warning.extend(["\n", &warning]),
                None => warnings.push(TypeWarning { field, warning }),
            }
        };
        for (place, validation) in list(spec, "validations").iter().enumerate() {
            check(format!("spec.validations[{place}].expression"), text(validation, "expression"), &plain);
            let message = text(validation, "messageExpression");
            if !message.trim().is_empty() {
                check(format!("spec.validations[{place}].messageExpression"), message, &messages);
            }
        }
    }
    warnings
}

fn list<'v>(object: &'v Value, name: &str) -> &'v [Value] {
    object.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn text<'v>(object: &'v Value, name: &str) -> &'v str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}
