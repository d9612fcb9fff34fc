//! MutatingAdmissionPolicy.

use crate::cluster::{Cluster, DEPLOYMENTS, deployment};
use serde_json::{Value, json};

fn apply(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

fn with_mutations(mutations: &[Value]) -> Cluster {
    with_policy(&json!({"mutations": mutations, "reinvocationPolicy": "Never"}))
}

fn with_policy(spec: &Value) -> Cluster {
    let cluster = Cluster::new();
    cluster.install("Mutating", "p", spec, &json!({}));
    cluster
}

#[test]
fn an_apply_configuration_is_merged_and_a_patch_follows() {
    let labels = apply("Object{metadata: Object.metadata{labels: {'x': 'y'}}}");
    let more = "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: '1'}, JSONPatch{op: 'replace', path: '/spec/replicas', value: 7}]";
    let created = with_mutations(&[labels, patch(more)]).create(DEPLOYMENTS, &deployment("d", 1));
    assert_eq!((&created["metadata"]["labels"], &created["spec"]["replicas"]), (&json!({"x": "y", "a/b": "1"}), &json!(7)));
}

#[test]
fn elements_of_a_list_are_merged_by_their_keys() {
    let element = |member: &str| {
        format!(
            "Object{{spec: Object.spec{{template: Object.spec.template{{spec: Object.spec.template.spec{{containers: [Object.spec.template.spec.containers{{{member}}}]}}}}}}}}"
        )
    };
    let created = with_mutations(&[apply(&element("name: 'n', image: 'j'"))]).create(DEPLOYMENTS, &deployment("d", 1));
    let containers = created["spec"]["template"]["spec"]["containers"].as_array().expect("a list");
    let names: Vec<&Value> = containers.iter().map(|container| &container["name"]).collect();
    assert_eq!((names.len(), names.contains(&&json!("c")), names.contains(&&json!("n"))), (2, true, true));
    let (code, reason, message) = with_mutations(&[apply(&element("name: 'c', args: ['x']"))]).denied(DEPLOYMENTS, &deployment("d", 1));
    let wanted = "policy 'p' with binding 'p' denied request: error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or \
                  structs: .spec.template.spec.containers[0].args";
    assert_eq!((code, reason.as_str(), message.as_str()), (403, "Invalid", wanted));
}

#[test]
fn what_cannot_be_applied_is_rejected_in_upstreams_words() {
    for (mutation, why) in [
        (
            apply("Object{spec: Object.spec{foo: 1}}"),
            "error applying patch: failed to convert patch object to typed object: .spec.foo: field not declared in schema",
        ),
        (
            apply("Object{spec: Object.spec{replicas: 'a'}}"),
            "error applying patch: failed to convert patch object to typed object: .spec.replicas: expected numeric (int or float), got string",
        ),
        (
            apply("Object{spec: Object.spec{replicas: object.foo}}"),
            "expression 'Object{spec: Object.spec{replicas: object.foo}}' resulted in error: no such key: foo",
        ),
        (
            patch("[JSONPatch{op: 'replace', path: '/spec/foo/bar', value: 7}]"),
            "JSON Patch: replace operation does not apply: doc is missing path: /spec/foo/bar: missing value",
        ),
        (patch("[JSONPatch{op: 'x', path: '/spec/replicas', value: 7}]"), "JSON Patch: Unexpected kind: x"),
    ] {
        let (code, _, message) = with_mutations(std::slice::from_ref(&mutation)).denied(DEPLOYMENTS, &deployment("d", 1));
        assert_eq!((code, message), (403, format!("policy 'p' with binding 'p' denied request: {why}")));
        let ignored = with_policy(&json!({"mutations": [mutation], "reinvocationPolicy": "Never", "failurePolicy": "Ignore"}));
        ignored.create(DEPLOYMENTS, &deployment("d", 1));
    }
}

#[test]
fn a_test_that_fails_leaves_the_object_as_it_is() {
    let operations =
        "[JSONPatch{op: 'test', path: '/spec/replicas', value: 9}, JSONPatch{op: 'replace', path: '/spec/replicas', value: 7}]";
    let created = with_mutations(&[patch(operations)]).create(DEPLOYMENTS, &deployment("d", 1));
    assert_eq!(created["spec"]["replicas"], 1);
}

#[test]
fn the_identity_of_an_object_stays_and_the_result_is_validated() {
    let created = with_mutations(&[apply("Object{metadata: Object.metadata{name: 'other'}}")]).create(DEPLOYMENTS, &deployment("d", 1));
    assert_eq!(created["metadata"]["name"], "d");
    let invalid = with_mutations(&[apply("Object{spec: Object.spec{replicas: -1}}")]);
    let error = invalid.written(DEPLOYMENTS, &deployment("d", 1)).expect_err("it is invalid").to_string();
    assert!(error.contains("spec.replicas: Invalid value: -1"), "{error}");
}

/// Two policies that add 1 and 10. Both are evaluated in the order of their names.
fn counted(first: &str, second: &str) -> i64 {
    let cluster = Cluster::new();
    for (name, reinvocation, more) in [("p", first, 1), ("p0", second, 10)] {
        let mutation = apply(&format!("Object{{spec: Object.spec{{replicas: object.spec.replicas + {more}}}}}"));
        cluster.install("Mutating", name, &json!({"mutations": [mutation], "reinvocationPolicy": reinvocation}), &json!({}));
    }
    cluster.create(DEPLOYMENTS, &deployment("d", 1))["spec"]["replicas"].as_i64().expect("a number")
}

#[test]
fn a_policy_is_evaluated_again_if_the_object_changed_after_it() {
    assert_eq!(counted("Never", "Never"), 12);
    assert_eq!(counted("IfNeeded", "Never"), 13);
    assert_eq!(counted("IfNeeded", "IfNeeded"), 23);
}
