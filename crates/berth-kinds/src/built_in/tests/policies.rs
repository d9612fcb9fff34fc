//! Admission policies and API services. Objects, results and texts are those of a real 1.36.2.

use super::{check_create, check_stored, check_update, merged, named};
use crate::built_in::{
    api_service, local_api_service, mutating_admission_policy, mutating_admission_policy_binding, validating_admission_policy,
    validating_admission_policy_binding,
};
use berth_api::{FeatureGates, ObjectStrategy};
use serde_json::{Value, json};

fn rules() -> Value {
    json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}])
}

fn validating(change: Value) -> Value {
    let spec = json!({"matchConstraints": {"resourceRules": rules()}, "validations": [{"expression": "true"}]});
    named(&json!({"spec": merged(spec, &change)}))
}

fn mutating(change: Value) -> Value {
    let mutation = json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}});
    let spec = json!({"matchConstraints": {"resourceRules": rules()}, "mutations": [mutation], "reinvocationPolicy": "Never"});
    named(&json!({"spec": merged(spec, &change)}))
}

#[test]
fn policies_and_bindings_have_upstreams_defaults() {
    let mut matched = json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}]);
    matched[0]["scope"] = json!("*");
    let resources = json!({"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}, "resourceRules": matched});
    check_stored(
        validating_admission_policy,
        &validating(json!({})),
        &json!({
            "spec": {"failurePolicy": "Fail", "matchConstraints": resources, "validations": [{"expression": "true"}]},
            "status": {},
        }),
    );
    check_stored(
        validating_admission_policy_binding,
        &json!({"spec": {"policyName": "a", "validationActions": ["Deny"], "matchResources": {}}}),
        &json!({"spec": {
            "policyName": "a",
            "validationActions": ["Deny"],
            "matchResources": {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}},
        }}),
    );
    check_stored(mutating_admission_policy_binding, &json!({"spec": {"policyName": "a"}}), &json!({"spec": {"policyName": "a"}}));
}

#[test]
fn a_validating_policy_matches_something_and_checks_something() {
    let check = |spec: Value, wanted: &[&str]| check_create(validating_admission_policy, &named(&json!({"spec": spec})), wanted);
    let nothing = "validations or auditAnnotations must contain at least one item";
    check(
        json!({}),
        &[
            "spec.matchConstraints: Required value",
            &format!("spec.validations: Required value: {nothing}"),
            &format!("spec.auditAnnotations: Required value: {nothing}"),
        ],
    );
    let check = |change: Value, wanted: &[&str]| check_create(validating_admission_policy, &validating(change), wanted);
    check(json!({}), &[]);
    check(json!({"matchConstraints": {"resourceRules": null}}), &["spec.matchConstraints.resourceRules: Required value"]);
    check(json!({"failurePolicy": "x"}), &["spec.failurePolicy: Unsupported value: \"x\": supported values: \"Fail\", \"Ignore\""]);
    check(
        json!({"matchConstraints": {"matchPolicy": "x"}}),
        &["spec.matchConstraints.matchPolicy: Unsupported value: \"x\": supported values: \"Equivalent\", \"Exact\""],
    );
    check(
        json!({"matchConstraints": {"resourceRules": [{"resourceNames": ["", "a", "a", "a_b/"]}]}}),
        &[
            "spec.matchConstraints.resourceRules[0].resourceNames[2]: Duplicate value: \"a\"",
            "spec.matchConstraints.resourceRules[0].resourceNames[3]: Invalid value: \"a_b/\": may not contain '/'",
            "spec.matchConstraints.resourceRules[0].operations: Required value",
            "spec.matchConstraints.resourceRules[0].apiGroups: Required value",
            "spec.matchConstraints.resourceRules[0].apiVersions: Required value",
            "spec.matchConstraints.resourceRules[0].resources: Required value",
        ],
    );
    check(
        json!({"paramKind": {"apiVersion": "a/b/c", "kind": "A_b"}}),
        &[
            "spec.paramKind.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
            "spec.paramKind.kind: Invalid value: \"A_b\": may have mixed case, but should otherwise match: a DNS-1035 label must…",
        ],
    );
}

#[test]
fn expressions_of_a_validating_policy_are_compiled() {
    let check = |change: Value, wanted: &[&str]| check_create(validating_admission_policy, &validating(change), wanted);
    let check_rule = |rule: Value, wanted: &[&str]| check(json!({"validations": [rule]}), wanted);
    check_rule(json!({}), &["spec.validations[0].expression: Required value: expression is not specified"]);
    check_rule(json!({"expression": "1"}), &["spec.validations[0].expression: Invalid value: \"1\": must evaluate to bool but got int"]);
    check_rule(
        json!({"expression": "foo"}),
        &[
            "spec.validations[0].expression: Invalid value: \"foo\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo\n | ^",
        ],
    );
    check_rule(
        json!({"expression": "params.x"}),
        &["spec.validations[0].expression: Invalid value: \"params.x\": compilation failed: ERROR…"],
    );
    check_rule(
        json!({"expression": "request.uid == ''"}),
        &[
            "spec.validations[0].expression: Invalid value: \"request.uid == ''\": compilation failed: ERROR: <input>:1:8: undefined field 'uid'…",
        ],
    );
    check_rule(
        json!({"expression": "true", "message": " ", "reason": "X", "messageExpression": "1"}),
        &[
            "spec.validations[0].messageExpression: Invalid value: \"1\": must evaluate to string but got int",
            "spec.validations[0].message: Invalid value: \" \": must be non-empty if specified",
            "spec.validations[0].reason: Unsupported value: \"X\": supported values: \"Forbidden\", \"Invalid\", \"RequestEntityTooLarge\"",
        ],
    );
    check_rule(
        json!({"expression": "true", "messageExpression": "authorizer.path('/a').check('get').reason()"}),
        &["spec.validations[0].messageExpression: Invalid value: \"authorizer.path('/a').check('get').reason()\": compilation failed: …"],
    );
    check(json!({"variables": [{"name": "x", "expression": "1"}], "validations": [{"expression": "variables.x == 1"}]}), &[]);
    check(
        json!({"variables": [{"name": "a-b", "expression": "1"}, {"name": "bar", "expression": "variables.baz"}, {"name": "baz", "expression": ""}]}),
        &[
            "spec.variables[0].name: Invalid value: \"a-b\": must be a valid CEL identifier",
            "spec.variables[1].expression: Invalid value: \"variables.baz\": compilation failed: ERROR: <input>:1:10: undefined field 'baz'…",
            "spec.variables[2].expression: Required value: expression is not specified",
        ],
    );
    check(
        json!({"auditAnnotations": [{"key": "k", "valueExpression": "1"}, {"key": "k", "valueExpression": "null"}]}),
        &[
            "spec.auditAnnotations[0].valueExpression: Invalid value: \"1\": must evaluate to one of [string null_type] but got int",
            "spec.auditAnnotations[1].key: Duplicate value: \"k\"",
        ],
    );
    check(
        json!({"matchConditions": [{"name": "a", "expression": "1"}, {"name": "b", "expression": "variables.x == 1"}]}),
        &[
            "spec.matchConditions[0].expression: Invalid value: \"1\": must evaluate to bool but got int",
            "spec.matchConditions[1].expression: Invalid value: \"variables.x == 1\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'variables'…",
        ],
    );
}

#[test]
fn a_mutating_policy_changes_objects_that_are_not_deleted() {
    let check = |change: Value, wanted: &[&str]| check_create(mutating_admission_policy, &mutating(change), wanted);
    check(json!({}), &[]);
    check(json!({"reinvocationPolicy": null}), &["spec.reinvocationPolicy: Required value"]);
    check(json!({"mutations": null}), &["spec.mutations: Required value: mutations must contain at least one item"]);
    check(
        json!({"matchConstraints": {"resourceRules": [{"apiGroups": ["a"], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["b"]}]}}),
        &[
            "spec.matchConstraints.resourceRules.operations: Unsupported value: \"DELETE\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"UPDATE\"",
        ],
    );
    let check = |mutation: Value, wanted: &[&str]| check(json!({"mutations": [mutation]}), wanted);
    check(json!({}), &["spec.mutations[0].patchType: Required value"]);
    check(
        json!({"patchType": "x"}),
        &["spec.mutations[0].patchType: Unsupported value: \"x\": supported values: \"ApplyConfiguration\", \"JSONPatch\""],
    );
    check(
        json!({"patchType": "JSONPatch"}),
        &["spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch"],
    );
    check(
        json!({"patchType": "JSONPatch", "jsonPatch": {"expression": "1"}, "applyConfiguration": {"expression": "1"}}),
        &[
            "spec.mutations[0].jsonPatch.expression: Invalid value: \"1\": must evaluate to list(JSONPatch) but got int",
            "spec.mutations[0].applyConfiguration: Invalid value: \"{applyConfiguration}\": must not be specified when patchType is JSONPatch",
        ],
    );
    check(json!({"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'add', path: '/a', value: 1}]"}}), &[]);
    check(
        json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object.spec{}"}}),
        &["spec.mutations[0].applyConfiguration.expression: Invalid value: \"Object.spec{}\": must evaluate to Object but got Object.spec"],
    );
}

#[test]
fn a_binding_names_a_policy_and_what_happens() {
    let check = |spec: Value, wanted: &[&str]| check_create(validating_admission_policy_binding, &named(&json!({"spec": spec})), wanted);
    check(
        json!({"policyName": "", "validationActions": []}),
        &["spec.policyName: Required value", "spec.validationActions: Required value: at least one validation action is required"],
    );
    check(
        json!({"policyName": "a", "validationActions": ["Deny", "Deny", "X", "Warn"]}),
        &[
            "spec.validationActions[1]: Duplicate value: \"Deny\"",
            "spec.validationActions[2]: Unsupported value: \"X\": supported values: \"Audit\", \"Deny\", \"Warn\"",
            "spec.validationActions: Invalid value: [\"Deny\",\"Deny\",\"X\",\"Warn\"]: must not contain both Deny and Warn…",
        ],
    );
    let check =
        |params: Value, wanted: &[&str]| check(json!({"policyName": "a", "validationActions": ["Deny"], "paramRef": params}), wanted);
    check(json!({"name": "A_", "namespace": "B_", "parameterNotFoundAction": "Allow"}), &[]);
    check(
        json!({}),
        &[
            "spec.paramRef: Required value: one of name or selector must be specified",
            "spec.paramRef.parameterNotFoundAction: Required value",
        ],
    );
    check(
        json!({"name": "a", "selector": {}, "parameterNotFoundAction": "x"}),
        &[
            "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
            "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
            "spec.paramRef.parameterNotFoundAction: Unsupported value: \"x\": supported values: \"Deny\", \"Allow\"",
        ],
    );
}

#[test]
fn an_unchanged_policy_is_not_judged_again() {
    // A policy of another server version may use what this one does not know.
    let stored = validating(json!({"validations": [{"expression": "newFunction()"}]}));
    let labelled = merged(stored.clone(), &json!({"metadata": {"labels": {"a": "b"}}}));
    check_update(validating_admission_policy, &stored, &labelled, &[]);
}

fn api(change: Value) -> Value {
    let spec = json!({"group": "example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10});
    merged(json!({"metadata": {"name": "v1.example.com"}, "spec": spec}), &json!({"spec": change}))
}

#[test]
fn the_name_of_an_api_service_is_its_version_and_group() {
    let check = |change: Value, wanted: &[&str]| check_create(api_service, &api(change), wanted);
    check(json!({}), &[]);
    check(
        json!({"group": null, "version": null, "groupPriorityMinimum": 0, "versionPriority": 1001}),
        &[
            "metadata.name: Invalid value: \"v1.example.com\": must be `spec.version+\".\"+spec.group`: \".\"",
            "spec.group: Required value: only v1 may have an empty group and it better be legacy kube",
            "spec.version: Invalid value: \"\": a DNS-1035 label must consist of…",
            "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
            "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
        ],
    );
    check(json!({"caBundle": "YQ=="}), &["spec.caBundle: Invalid value: \"1 bytes\": local APIServices may not have a caBundle"]);
    check(
        json!({"insecureSkipTLSVerify": true}),
        &["spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify"],
    );
    check(json!({"service": {}}), &["spec.service.namespace: Required value", "spec.service.name: Required value"]);
    check(
        json!({"service": {"name": "a", "namespace": "b", "port": 70000}, "insecureSkipTLSVerify": true, "caBundle": "YQ=="}),
        &[
            "spec.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive",
            "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present",
        ],
    );
}

#[test]
fn only_a_local_api_service_is_available() {
    let availability = |change: Value| {
        let [mut document] = super::decoded(api_service, [&api(change)]);
        document.prepare_create(&FeatureGates::default());
        document.stamp(
            None,
            &"2026-01-01T00:00:00Z".parse::<jiff::Timestamp>().map(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time).expect("a time"),
        );
        let condition = document.content().members()["status"]["conditions"][0].clone();
        ["status", "reason"].map(|member| condition[member].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(availability(json!({})), ["True", "Local"]);
    assert_eq!(availability(json!({"service": {"name": "a", "namespace": "b"}})), ["False", "NotForwarded"]);
}

#[test]
fn local_versions_have_upstreams_priorities() {
    let spec =
        |group: &str, version: &str, is_built_in: bool| local_api_service(group, version, is_built_in).map(|api| api["spec"].clone());
    assert_eq!(spec("", "v1", true), Some(json!({"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1})));
    let autoscaling = json!({"group": "autoscaling", "version": "v2", "groupPriorityMinimum": 17500, "versionPriority": 30});
    assert_eq!(spec("autoscaling", "v2", true), Some(autoscaling));
    let custom = json!({"group": "a.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100});
    assert_eq!(spec("a.example.com", "v1", false), Some(custom));
    assert_eq!(spec("apiregistration.k8s.io", "v1", true), None);
}
