//! Match conditions of webhooks and policies.

use super::{
    Data, Expression,
    failure::{ErrorType, ExpressionFailure},
};
use crate::FailurePolicy;
use berth_cel::{Budget, CONDITIONS_COST_MAX, Environment, Value};
use berth_kinds::{Expressions, Wanted};
use serde_json::Value as Json;
use std::borrow::Cow;

/// The match conditions of a webhook or a policy, compiled.
#[derive(Debug)]
pub struct MatchConditions {
    conditions: Vec<Expression>,
    failure_policy: FailurePolicy,
}

/// Whether match conditions hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matching {
    /// All hold.
    Yes,
    /// One does not hold, or one cannot be evaluated and the failure policy ignores that.
    No,
    /// One cannot be evaluated, and the request fails with this text.
    Failed(String, ErrorType),
}

/// The result of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionsResult {
    /// Whether they hold.
    pub matching: Matching,
    /// How many conditions cannot be evaluated.
    pub failed: usize,
}

impl MatchConditions {
    /// Reads the `matchConditions` of a webhook. Expressions that do not compile fail when they are evaluated:
    /// validation rejects them earlier.
    #[must_use]
    pub fn of_webhook(webhook: &Json) -> Self {
        Self::read(webhook, &Expressions { authorizer: true, ..Expressions::default() }.environment())
    }

    /// Reads the conditions of a webhook, or of the `spec` of a policy.
    pub(super) fn read(object: &Json, environment: &Environment) -> Self {
        let conditions = object.get("matchConditions").and_then(Json::as_array).into_iter().flatten();
        let conditions = conditions.map(|condition| Expression::read(condition, "expression", Wanted::Bool, environment));
        Self { conditions: conditions.collect(), failure_policy: FailurePolicy::read(object) }
    }

    pub(super) fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.conditions.iter()
    }

    /// Whether there are none, so that nothing must be read to evaluate them.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Evaluates all conditions. One that is false decides, unless the cost of all of them is too high.
    ///
    /// Source: kubernetes `apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go`.
    #[must_use]
    pub fn evaluate(&self, data: &Data<'_>) -> ConditionsResult {
        if self.is_empty() {
            return self.result(&[]);
        }
        let request = requested(data.request);
        // As upstream: conditions read the requested version of the resource, and no namespace.
        let data = Data { request: &request, namespace: &Json::Null, ..data.clone() };
        let bindings = data.bindings();
        let mut budget = Budget::new(CONDITIONS_COST_MAX);
        let (mut failures, mut is_false) = (Vec::new(), false);
        for condition in &self.conditions {
            match condition.evaluate(&bindings, &mut budget) {
                Ok(Value::Bool(true)) => (),
                Ok(_) => is_false = true,
                Err(failure) if failure.is_out_of_budget() => return self.result(&[failure]),
                Err(failure) => failures.push(failure),
            }
        }
        if is_false { ConditionsResult { matching: Matching::No, failed: failures.len() } } else { self.result(&failures) }
    }

    fn result(&self, failures: &[ExpressionFailure]) -> ConditionsResult {
        let matching = match (failures, self.failure_policy) {
            ([], _) => Matching::Yes,
            ([..], FailurePolicy::Ignore) => Matching::No,
            ([one], FailurePolicy::Fail) => Matching::Failed(one.to_string(), one.error_type()),
            ([first, ..], FailurePolicy::Fail) => {
                let texts: Vec<String> = failures.iter().map(ToString::to_string).collect();
                Matching::Failed(format!("[{}]", texts.join(", ")), first.error_type())
            }
        };
        ConditionsResult { matching, failed: failures.len() }
    }
}

/// Returns the request with the resource that the client named.
fn requested(request: &Json) -> Cow<'_, Json> {
    match request.get("requestResource") {
        Some(resource) if request.get("resource") != Some(resource) => {
            let mut request = request.clone();
            request["resource"] = request["requestResource"].clone();
            Cow::Owned(request)
        }
        _ => Cow::Borrowed(request),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_cel::{Access, Authorize, Verdict};
    use serde_json::json;
    use std::rc::Rc;

    #[derive(Debug)]
    struct OnlyCreate;

    impl Authorize for OnlyCreate {
        fn authorize(&self, access: &Access) -> Verdict {
            Verdict { is_allowed: access.verb == "create", ..Verdict::default() }
        }
    }

    /// Evaluates the conditions of a webhook for the create of a `v1` object that it matches as `v2`.
    fn evaluated(failure_policy: &str, expressions: &[&str]) -> ConditionsResult {
        let conditions = expressions.iter().enumerate();
        let conditions: Vec<Json> = conditions.map(|(index, text)| json!({"name": format!("c{index}"), "expression": text})).collect();
        let conditions = MatchConditions::of_webhook(&json!({"failurePolicy": failure_policy, "matchConditions": conditions}));
        conditions.evaluate(&Data {
            object: &json!({"apiVersion": "autoscaling/v2", "metadata": {"name": "h"}}),
            old: &Json::Null,
            request: &json!({
                "operation": "CREATE", "name": "h", "kind": {"version": "v2"}, "requestKind": {"version": "v1"},
                "resource": {"version": "v2"}, "requestResource": {"version": "v1"},
            }),
            params: &Json::Null,
            namespace: &json!({"metadata": {"name": "default"}}),
            authorizer: Rc::new(OnlyCreate),
            resource: Access::default(),
        })
    }

    /// The verdicts and texts are those of a real 1.36.2.
    #[test]
    fn a_condition_that_is_false_decides_and_otherwise_the_failure_policy() {
        let failed = |expressions: &[&str]| match evaluated("Fail", expressions).matching {
            Matching::Failed(why, _) => why,
            other => panic!("{other:?}"),
        };
        let (of_nope, of_nix) = (
            "expression 'object.nope == 1' resulted in error: no such key: nope",
            "expression 'object.nix == 2' resulted in error: no such key: nix",
        );
        for (expressions, wanted) in [
            (["true", "true"], [Matching::Yes, Matching::Yes]),
            (["true", "false"], [Matching::No, Matching::No]),
            (["object.nope == 1", "false"], [Matching::No, Matching::No]),
            (["true", "object.nope == 1"], [Matching::Failed(of_nope.to_owned(), ErrorType::Invalid), Matching::No]),
        ] {
            assert_eq!(["Fail", "Ignore"].map(|policy| evaluated(policy, &expressions).matching), wanted, "{expressions:?}");
        }
        assert_eq!(failed(&["object.nope == 1", "object.nix == 2", "true"]), format!("[{of_nope}, {of_nix}]"));
        assert_eq!(evaluated("Fail", &["object.nope == 1", "object.nix == 2", "false"]).failed, 2);
        assert_eq!(evaluated("Fail", &[]).matching, Matching::Yes);
    }

    /// Each question to the authorizer costs 350,000 units.
    #[test]
    fn all_conditions_together_have_a_budget_even_after_one_that_is_false() {
        let question = "authorizer.requestResource.check('create').allowed()";
        let conditions = |count: usize| [&["false"][..], &vec![question; count]].concat();
        let spent = "validation failed due to running out of cost budget, no further validation rules will be run";
        assert_eq!(evaluated("Fail", &conditions(7)).matching, Matching::No);
        assert_eq!(evaluated("Fail", &conditions(9)).matching, Matching::Failed(spent.to_owned(), ErrorType::OutOfBudget));
        assert_eq!(evaluated("Ignore", &conditions(9)).matching, Matching::No);
    }

    /// As a real 1.36.2: only `request.resource` is not that of the matched version.
    #[test]
    fn conditions_read_the_requested_resource_and_no_namespace() {
        for holds in [
            "request.resource.version == 'v1' && request.requestResource.version == 'v1'",
            "request.kind.version == 'v2' && request.requestKind.version == 'v1'",
            "object.apiVersion == 'autoscaling/v2' && oldObject == null",
            "namespaceObject == null",
            "authorizer.requestResource.check('create').allowed() && !authorizer.requestResource.check('get').allowed()",
        ] {
            assert_eq!(evaluated("Fail", &[holds]).matching, Matching::Yes, "{holds}");
        }
        let why = "expression 'namespaceObject.metadata.name == 'default'' resulted in error: no such key: metadata";
        let wanted = Matching::Failed(why.to_owned(), ErrorType::Invalid);
        assert_eq!(evaluated("Fail", &["namespaceObject.metadata.name == 'default'"]).matching, wanted);
    }

    #[test]
    fn a_stored_condition_that_does_not_compile_follows_the_failure_policy() {
        let Matching::Failed(why, ErrorType::Compile) = evaluated("Fail", &["variables.x"]).matching else { panic!("it compiles") };
        assert!(why.starts_with("compilation error: compilation failed: ERROR: <input>:1:1: undeclared reference to 'variables'"), "{why}");
        assert_eq!(evaluated("Ignore", &["variables.x"]).matching, Matching::No);
    }
}
