//! Policies over requests. Verdicts and texts are those of a real 1.36.2.

use super::*;
use berth_cel::{Access, Authorize, Verdict};
use serde_json::{Value, json};
use std::rc::Rc;

#[derive(Debug)]
struct OnlyGet;

impl Authorize for OnlyGet {
    fn authorize(&self, access: &Access) -> Verdict {
        Verdict { is_allowed: access.verb == "get" && access.service_account.is_none(), ..Verdict::default() }
    }
}

fn policy(spec: Value) -> Policy {
    Policy::read(&json!({"metadata": {"name": "p"}, "spec": spec}))
}

/// Calls `with` with the data of the create of a Deployment with one replica.
fn with_data<T>(params: &Value, with: impl FnOnce(&Data<'_>) -> T) -> T {
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 1}});
    let request = json!({"operation": "CREATE", "name": "d", "namespace": "n", "dryRun": false, "userInfo": {"username": "alice"}});
    let namespace = json!({"metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z"}});
    let resource = Access { group: "apps".to_owned(), resource: "deployments".to_owned(), ..Access::default() };
    with(&Data {
        object: &object,
        old: &Value::Null,
        request: &request,
        params,
        namespace: &namespace,
        authorizer: Rc::new(OnlyGet),
        resource,
    })
}

/// The messages of a validating policy, with its annotations.
fn validated(spec: Value, params: &Value) -> (Vec<String>, Vec<(String, String)>) {
    let (policy, mut annotations) = (policy(spec), AuditAnnotations::default());
    let validated = with_data(params, |data| policy.validate(data, &mut annotations));
    (validated.findings.into_iter().map(|finding| finding.message).collect(), annotations.into_vec())
}

fn check(spec: Value, wanted: &[&str]) {
    assert_eq!(validated(spec.clone(), &Value::Null).0, wanted, "{spec}");
}

#[test]
fn a_validation_that_is_false_has_a_message() {
    let rule = |rule: Value| json!({"validations": [rule]});
    check(rule(json!({"expression": "object.spec.replicas == 1"})), &[]);
    check(rule(json!({"expression": " object.spec.replicas > 5 "})), &["failed expression: object.spec.replicas > 5"]);
    check(rule(json!({"expression": "false", "message": " too few "})), &["too few"]);
    check(
        rule(json!({"expression": "false", "message": "m", "messageExpression": "'replicas ' + string(object.spec.replicas)"})),
        &["replicas 1"],
    );
    for unusable in ["'  '", "'a\\nb'", "string(object.foo)"] {
        check(rule(json!({"expression": "false", "message": "m", "messageExpression": unusable})), &["m"]);
    }
    let two = json!({"validations": [{"expression": "object.spec.foo == 1"}, {"expression": "false", "message": "second"}]});
    check(two, &["expression 'object.spec.foo == 1' resulted in error: no such key: foo", "second"]);
}

#[test]
fn an_expression_without_a_value_follows_the_failure_policy() {
    let spec = |failure: &str| json!({"failurePolicy": failure, "validations": [{"expression": "object.spec.foo == 1"}]});
    check(spec("Fail"), &["expression 'object.spec.foo == 1' resulted in error: no such key: foo"]);
    check(spec("Ignore"), &[]);
}

#[test]
fn match_conditions_decide_first() {
    let spec = |conditions: &[&str], failure: &str| {
        let conditions: Vec<Value> = conditions.iter().map(|expression| json!({"name": "n", "expression": expression})).collect();
        json!({"failurePolicy": failure, "matchConditions": conditions, "validations": [{"expression": "false", "message": "m"}]})
    };
    let error = "expression 'object.foo == 1' resulted in error: no such key: foo";
    check(spec(&["true"], "Fail"), &["m"]);
    check(spec(&["true", "false"], "Fail"), &[]);
    check(spec(&["object.foo == 1"], "Fail"), &[error]);
    check(spec(&["object.foo == 1", "false"], "Fail"), &[]);
    check(spec(&["object.foo == 1", "object.foo == 1"], "Fail"), &[&format!("[{error}, {error}]")]);
    check(spec(&["object.foo == 1"], "Ignore"), &[]);
}

#[test]
fn variables_are_evaluated_when_they_are_read() {
    let spec = |variables: Value, expression: &str| json!({"variables": variables, "validations": [{"expression": expression}]});
    let two = json!([{"name": "x", "expression": "object.spec.replicas"}, {"name": "y", "expression": "variables.x + 1"}]);
    check(spec(two, "variables.y == 2"), &[]);
    let broken = json!([{"name": "x", "expression": "object.spec.foo"}]);
    check(spec(broken.clone(), "true"), &[]);
    let error = "expression 'variables.x > 2' resulted in error: composited variable \"x\" fails to evaluate: no such key: foo";
    check(spec(broken, "variables.x > 2"), &[error]);
    // The second one reads the first one of the same name.
    let shadowed = json!([{"name": "x", "expression": "1"}, {"name": "x", "expression": "variables.x + 1"}]);
    check(spec(shadowed, "variables.x == 2"), &[]);
}

#[test]
fn expressions_read_the_request_the_namespace_and_rights() {
    let rule = |expression: &str| json!({"validations": [{"expression": expression}]});
    for holds in [
        "request.operation == 'CREATE' && request.userInfo.username == 'alice' && !request.dryRun",
        "oldObject == null",
        "namespaceObject.metadata.name == 'n' && namespaceObject.metadata.?creationTimestamp.hasValue()",
        "authorizer.requestResource.check('get').allowed() && !authorizer.requestResource.check('create').allowed()",
        "!authorizer.serviceAccount('n', 's').group('').resource('pods').check('get').allowed()",
    ] {
        check(rule(holds), &[]);
    }
    check(rule("request.subResource == ''"), &["expression 'request.subResource == ''' resulted in error: no such key: subResource"]);
}

#[test]
fn parameters_and_annotations_are_those_of_each_object() {
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "object.spec.replicas <= int(params.data.max)"}],
        "auditAnnotations": [{"key": "max", "valueExpression": "string(params.data.max)"}, {"key": "none", "valueExpression": "null"}],
    });
    let (messages, annotations) = validated(spec.clone(), &json!({"data": {"max": "0"}}));
    assert_eq!(messages, ["failed expression: object.spec.replicas <= int(params.data.max)"]);
    assert_eq!(annotations, [("p/max".to_owned(), "0".to_owned())]);
    let (policy, mut annotations) = (policy(spec), AuditAnnotations::default());
    for max in ["3", "9", "3"] {
        let findings = with_data(&json!({"data": {"max": max}}), |data| policy.validate(data, &mut annotations)).findings;
        assert_eq!(findings, []);
    }
    assert_eq!(annotations.into_vec(), [("p/max".to_owned(), "3, 9".to_owned())]);
}

#[test]
fn an_evaluation_that_costs_too_much_fails() {
    let ten = "[1,2,3,4,5,6,7,8,9,10]";
    let nested = (0..7).fold("true".to_owned(), |inner, depth| format!("{ten}.all(v{depth}, {inner})"));
    let (messages, _) = validated(json!({"validations": [{"expression": nested}]}), &Value::Null);
    assert!(messages[0].ends_with("resulted in error: operation cancelled: actual cost limit exceeded"), "{messages:?}");
}

fn mutated(mutation: Value) -> Mutated {
    let policy = policy(json!({"mutations": [mutation]}));
    with_data(&Value::Null, |data| policy.mutate(0, data, &mut MutationBudget::default())).expect("it has one")
}

#[test]
fn a_mutation_is_data() {
    let apply = |expression: &str| mutated(json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}));
    let patch = |expression: &str| mutated(json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}));
    let fields = json!({"metadata": {"labels": {"x": "y"}}, "spec": {"replicas": 2}});
    assert_eq!(
        apply("Object{metadata: Object.metadata{labels: {'x': 'y'}}, spec: Object.spec{replicas: object.spec.replicas + 1}}"),
        Mutated::Changed(Change::Apply(fields))
    );
    let wrong_name =
        "type mismatch: unexpected type name \"Object.foo\", expected \"Object.spec\", which matches field name path from root Object type";
    assert_eq!(apply("Object{spec: Object.foo{replicas: 1}}"), Mutated::Failed(wrong_name.to_owned(), ErrorType::Invalid));
    let failed = "expression 'Object{spec: Object.spec{replicas: object.foo}}' resulted in error: no such key: foo";
    assert_eq!(apply("Object{spec: Object.spec{replicas: object.foo}}"), Mutated::Failed(failed.to_owned(), ErrorType::Invalid));
    let operation = json!({"op": "add", "path": "/metadata/labels/a~1b", "value": "1"});
    assert_eq!(
        patch("[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: '1'}]"),
        Mutated::Changed(Change::Patch(vec![operation]))
    );
    let unknown = "JSON Patch: Unexpected kind: x".to_owned();
    assert_eq!(patch("[JSONPatch{op: 'x', path: '/a'}]"), Mutated::Failed(unknown, ErrorType::Invalid));
}

#[test]
fn rejections_have_upstreams_words() {
    let policy = policy(json!({}));
    let binding =
        PolicyBinding::read(&json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Warn", "Audit"]}}));
    let denial = PolicyDenial::new(VALIDATING, &policy, Some(&binding), "m", "Forbidden");
    assert_eq!((denial.to_string().as_str(), denial.code()), ("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: m", 403));
    let denial = PolicyDenial::new(VALIDATING, &policy, None, "m", "RequestEntityTooLarge");
    assert_eq!((denial.to_string().as_str(), denial.code()), ("ValidatingAdmissionPolicy 'p' denied request: m", 413));
    let value = validation_failure(&policy, &binding, 0, "m");
    assert_eq!(value, r#"[{"message":"m","policy":"p","binding":"b","expressionIndex":0,"validationActions":["Warn","Audit"]}]"#);
}

#[test]
fn parameters_are_found_in_the_namespace_of_the_request_or_of_the_binding() {
    let query = |params: Value, is_namespaced: bool, namespace: &str| {
        let binding = PolicyBinding::read(&json!({"spec": {"paramRef": params}}));
        let params = binding.params.expect("it has one");
        match params.query(is_namespaced, namespace) {
            Ok(ParamQuery::One { namespace, name }) => format!("{}/{name}", namespace.unwrap_or("-")),
            Ok(ParamQuery::Selected { namespace, selector }) => format!("{} {selector}", namespace.unwrap_or("-")),
            Ok(ParamQuery::Null) => "null".to_owned(),
            Err(error) => error.to_string(),
        }
    };
    assert_eq!(query(json!({"name": "a"}), true, "n"), "n/a");
    assert_eq!(query(json!({"name": "a", "namespace": "m"}), true, "n"), "m/a");
    assert_eq!(query(json!({"name": "a"}), false, "n"), "-/a");
    assert_eq!(query(json!({"selector": {"matchLabels": {"l": "x"}}}), true, "n"), "n l=x");
    let cluster_scoped = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
    assert_eq!(query(json!({"name": "a", "namespace": "m"}), false, ""), cluster_scoped);
    let without = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
    assert_eq!(query(json!({"name": "a"}), true, ""), without);
}

#[test]
fn expressions_are_checked_against_the_kinds_that_a_policy_matches() {
    use berth_cel::{Declaration, Field};
    use berth_identity::GroupVersionKind;
    let spec = Declaration::object([Field::new("replicas", Declaration::int(), false)]);
    let deployment = Declaration::object([Field::new("spec", spec, false)]);
    let policy = json!({"spec": {"validations": [{"expression": "object.spec.replicas <= 5"}, {"expression": "object.spec.foo <= 5"}]}});
    let warnings = type_warnings(&policy, &[(GroupVersionKind::from_static("apps", "v1", "Deployment"), deployment)], None);
    let warning = "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'foo'\n | object.spec.foo <= 5\n | ...........^\n";
    assert_eq!(warnings, [TypeWarning { field: "spec.validations[1].expression".to_owned(), warning: warning.to_owned() }]);
}

#[test]
fn data_without_a_declaration_compares_with_any_value() {
    let rule = |expression: &str| json!({"validations": [{"expression": expression}]});
    for holds in [
        "object != null && object.metadata != null && request != null && namespaceObject != null",
        "!(object.metadata == 'x') && !(object.metadata == [1]) && [object.metadata].all(m, m != null)",
        "oldObject == null && !has(oldObject.metadata)",
    ] {
        check(rule(holds), &[]);
    }
    for (fails, why) in [
        ("oldObject.data == 1", "data"),
        ("object.metadata[1] == 'x'", "1"),
        ("object.metadata.name.x == 'x'", "x"),
        ("object.metadata.name[0] == 'x'", "0"),
    ] {
        check(rule(fails), &[&format!("expression '{fails}' resulted in error: no such key: {why}")]);
    }
}

#[test]
fn a_policy_knows_whether_it_depends_on_the_user_and_compiles() {
    let policy = |expression: &str| Policy::read(&json!({"spec": {"validations": [{"expression": expression}]}}));
    assert!(policy("request.userInfo.username == 'a'").reads_user() && policy("authorizer.path('/').check('get').allowed()").reads_user());
    assert!(!policy("object.spec.replicas == 1").reads_user());
    assert_eq!(policy("object.spec.replicas == 1").fault(), None);
    assert!(policy("objekt == 1").fault().is_some_and(|fault| fault.contains("undeclared reference to 'objekt'")));
}
