//! Tests of patches, mostly on a pod or a Deployment, which have every type of list.

#![expect(clippy::needless_pass_by_value, reason = "literals of JSON read better without borrows")]

use super::strategic;
use crate::{ApiError, patch::merge, resource};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn apply(kind: &str, doc: &Value, patch: &Value) -> Result<Value, ApiError> {
    let resource = resource::built_in().stored().find(|r| r.kind() == kind).expect("a kind of the table");
    strategic(doc, patch, resource)
}

#[track_caller]
fn check(kind: &str, doc: Value, patch: Value, expected: Value) {
    match apply(kind, &doc, &patch) {
        Ok(found) => assert_eq!(found, expected),
        Err(error) => panic!("{error}"),
    }
}

/// Does the same as [`check`] for the containers of a Deployment's template, with further members of the pod spec in
/// the patch.
#[track_caller]
fn check_containers(containers: Value, patch: Value, expected: Value) {
    let doc = |containers| json!({"spec": {"template": {"spec": {"containers": containers}}}});
    check("Deployment", doc(containers), json!({"spec": {"template": {"spec": patch}}}), doc(expected));
}

#[track_caller]
fn check_refused(kind: &str, doc: Value, patch: Value, message: &str) {
    match apply(kind, &doc, &patch) {
        Err(ApiError::BadRequest { message: found }) => assert!(found.contains(message), "{found}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn objects_merge_and_null_deletes() {
    check(
        "ConfigMap",
        json!({"data": {"a": "1", "b": "2"}}),
        json!({"data": {"a": null, "c": "3"}}),
        json!({"data": {"b": "2", "c": "3"}}),
    );
    check("ConfigMap", json!({}), json!({"data": {"a": null, "c": "3"}}), json!({"data": {"c": "3"}}));
    check("ConfigMap", json!({"data": {"a": "1"}}), json!({"data": null}), json!({}));
}

#[test]
fn containers_merge_by_name() {
    check_containers(
        json!([{"name": "a", "image": "1", "tty": true}, {"name": "b"}]),
        json!({"containers": [{"name": "a", "image": "2"}]}),
        json!([{"name": "a", "image": "2", "tty": true}, {"name": "b"}]),
    );
}

#[test]
fn set_image_as_kubectl_sends_it() {
    check_containers(
        json!([{"name": "c", "image": "img:1"}]),
        json!({"$setElementOrder/containers": [{"name": "c"}], "containers": [{"image": "img:2", "name": "c"}]}),
        json!([{"name": "c", "image": "img:2"}]),
    );
}

#[test]
fn new_elements_come_first_unless_the_order_is_given() {
    let old = json!([{"name": "a"}, {"name": "b"}]);
    check_containers(old.clone(), json!({"containers": [{"name": "n"}]}), json!([{"name": "n"}, {"name": "a"}, {"name": "b"}]));
    check_containers(
        old.clone(),
        json!({"$setElementOrder/containers": [{"name": "a"}, {"name": "n"}, {"name": "b"}], "containers": [{"name": "n"}]}),
        json!([{"name": "a"}, {"name": "n"}, {"name": "b"}]),
    );
    check_containers(
        old.clone(),
        json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
        json!([{"name": "b"}, {"name": "a"}]),
    );
    check_containers(
        old,
        json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "n"}], "containers": [{"name": "n"}]}),
        json!([{"name": "a"}, {"name": "b"}, {"name": "n"}]),
    );
}

#[test]
fn elements_are_deleted_and_lists_replaced_by_directive() {
    let old = json!([{"name": "a"}, {"name": "b"}]);
    check_containers(old.clone(), json!({"containers": [{"name": "a", "$patch": "delete"}]}), json!([{"name": "b"}]));
    check_containers(
        old.clone(),
        json!({"$setElementOrder/containers": [{"name": "b"}], "containers": [{"$patch": "delete", "name": "a"}]}),
        json!([{"name": "b"}]),
    );
    check_containers(old.clone(), json!({"containers": [{"$patch": "replace"}, {"name": "n"}]}), json!([{"name": "n"}]));
    check_containers(
        old,
        json!({"containers": [{"name": "a", "$patch": "merge", "tty": true}]}),
        json!([{"name": "a", "tty": true}, {"name": "b"}]),
    );
}

#[test]
fn objects_are_replaced_and_emptied_by_directive() {
    check("ConfigMap", json!({"data": {"a": "1"}}), json!({"data": {"$patch": "replace", "b": "2"}}), json!({"data": {"b": "2"}}));
    check("ConfigMap", json!({"data": {"a": "1"}}), json!({"data": {"$patch": "delete"}}), json!({"data": {}}));
    check(
        "Deployment",
        json!({"spec": {"replicas": 3, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": "x"}}}}),
        json!({"spec": {"template": {"$patch": "replace", "spec": {"containers": []}}}}),
        json!({"spec": {"replicas": 3, "template": {"spec": {"containers": []}}}}),
    );
}

#[test]
fn what_is_added_is_rid_of_directives() {
    check_containers(
        json!([]),
        json!({"containers": [{"name": "n", "env": [{"name": "E", "value": null}, {"name": "gone", "$patch": "delete"}], "$setElementOrder/env": [{"name": "E"}]}]}),
        json!([{"name": "n", "env": [{"name": "E"}]}]),
    );
    check(
        "Deployment",
        json!({}),
        json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
        json!({"spec": {"strategy": {"type": "Recreate"}}}),
    );
}

#[test]
fn each_list_has_its_key() {
    check_containers(
        json!([{"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "ports": [{"containerPort": 80, "name": "web"}],
                "volumeMounts": [{"mountPath": "/a", "name": "x"}], "args": ["one"]}]),
        json!({"containers": [{"name": "c", "env": [{"name": "B", "value": "3"}], "ports": [{"containerPort": 80, "hostPort": 8080}],
                "volumeMounts": [{"mountPath": "/b", "name": "y"}], "args": ["two"]}]}),
        json!([{"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}], "ports": [{"containerPort": 80, "name": "web", "hostPort": 8080}],
                "volumeMounts": [{"mountPath": "/b", "name": "y"}, {"mountPath": "/a", "name": "x"}], "args": ["two"]}]),
    );
    check(
        "Node",
        json!({"spec": {"taints": [{"key": "a"}]}, "status": {"conditions": [{"type": "Ready", "status": "True"}], "addresses": [{"type": "Hostname", "address": "h"}]}}),
        json!({"spec": {"taints": [{"key": "b"}]}, "status": {"conditions": [{"type": "Ready", "status": "False"}], "addresses": [{"type": "InternalIP", "address": "i"}]}}),
        json!({"spec": {"taints": [{"key": "b"}]}, "status": {"conditions": [{"type": "Ready", "status": "False"}],
               "addresses": [{"type": "InternalIP", "address": "i"}, {"type": "Hostname", "address": "h"}]}}),
    );
    check(
        "Service",
        json!({"spec": {"ports": [{"port": 80, "name": "a"}]}}),
        json!({"spec": {"ports": [{"port": 80, "targetPort": 8080}]}}),
        json!({"spec": {"ports": [{"port": 80, "name": "a", "targetPort": 8080}]}}),
    );
    check(
        "ConfigMap",
        json!({"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}]}}),
        json!({"metadata": {"ownerReferences": [{"uid": "1", "$patch": "delete"}, {"uid": "2"}]}}),
        json!({"metadata": {"ownerReferences": [{"uid": "2"}]}}),
    );
}

#[test]
fn finalizers_are_a_set() {
    let doc = |list: &[&str]| json!({"metadata": {"finalizers": list}});
    check("Pod", doc(&["x/a", "x/b"]), doc(&["x/b", "x/c"]), doc(&["x/a", "x/b", "x/c"]));
    check("Pod", doc(&["x/a", "x/b"]), doc(&["x/c"]), doc(&["x/c", "x/a", "x/b"]));
    check("Pod", doc(&["x/a", "x/b"]), json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}}), doc(&["x/b"]));
    check(
        "Pod",
        doc(&["x/a", "x/b"]),
        json!({"metadata": {"$setElementOrder/finalizers": ["x/c", "x/b"], "$deleteFromPrimitiveList/finalizers": ["x/a"], "finalizers": ["x/c"]}}),
        doc(&["x/c", "x/b"]),
    );
    check("Pod", json!({"metadata": {}}), json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}}), json!({"metadata": {}}));
}

#[test]
fn retain_keys_drops_the_others() {
    check(
        "Deployment",
        json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}),
        json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
        json!({"spec": {"strategy": {"type": "Recreate"}}}),
    );
    check(
        "Pod",
        json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}),
        json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}, "emptyDir": null}]}}),
        json!({"spec": {"volumes": [{"name": "v", "configMap": {"name": "c"}}]}}),
    );
}

#[test]
fn a_budgets_selector_is_replaced_as_a_whole() {
    check(
        "PodDisruptionBudget",
        json!({"spec": {"selector": {"matchLabels": {"a": "1"}}, "minAvailable": 1}}),
        json!({"spec": {"selector": {"matchLabels": {"b": "2"}}}}),
        json!({"spec": {"selector": {"matchLabels": {"b": "2"}}, "minAvailable": 1}}),
    );
    check(
        "Deployment",
        json!({"spec": {"selector": {"matchLabels": {"a": "1"}}}}),
        json!({"spec": {"selector": {"matchLabels": {"b": "2"}}}}),
        json!({"spec": {"selector": {"matchLabels": {"a": "1", "b": "2"}}}}),
    );
}

#[test]
fn what_cannot_be_merged_is_refused() {
    let doc = json!({"spec": {"containers": [{"name": "a"}]}});
    let spec = |spec: Value| json!({"spec": spec});
    check_refused(
        "Pod",
        doc.clone(),
        spec(json!({"containers": [{"image": "x"}]})),
        r#"map: {"image":"x"} does not contain declared merge key: name"#,
    );
    check_refused("Pod", doc.clone(), spec(json!({"containers": ["x"]})), "is no object");
    check_refused("Pod", doc.clone(), spec(json!({"containers": [{"$patch": "delete"}]})), "declared merge key");
    check_refused("Pod", doc.clone(), spec(json!({"$patch": "spin"})), "unknown $patch directive");
    check_refused("Pod", doc.clone(), spec(json!({"$retainKeys": "x"})), "$retainKeys must be");
    check_refused("Pod", doc.clone(), spec(json!({"$retainKeys": ["x"], "y": 1})), "lacks \"y\"");
    check_refused("Pod", doc.clone(), spec(json!({"$setElementOrder/containers": 1})), "must be a list");
    check_refused(
        "Pod",
        doc.clone(),
        spec(json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]})),
        "is not in the order that $setElementOrder/containers gives",
    );
    check_refused("Pod", doc.clone(), spec(json!({"$deleteFromPrimitiveList/x": 1})), "must be a list");
    check_refused("Pod", doc, json!([]), "is a JSON object");
}

/// Generates nested objects of scalars.
fn map() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(Value::Null), (0..3).prop_map(Value::from), "[xy]".prop_map(Value::from)];
    let node = leaf.prop_recursive(3, 12, 3, |inner| {
        prop::collection::btree_map("[abc]", inner, 0..3).prop_map(|members| Value::Object(members.into_iter().collect()))
    });
    prop::collection::btree_map("[abc]", node, 0..3).prop_map(|members| Value::Object(members.into_iter().collect()))
}

fn containers() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[abcd]", 0..3, 0..4)
        .prop_map(|all| all.into_iter().map(|(name, image)| json!({"name": name, "image": image})).collect::<Vec<_>>())
        .prop_shuffle()
        .prop_map(Value::from)
}

proptest! {
    #[test]
    fn without_lists_and_directives_it_is_a_merge_patch(doc in map(), patch in map()) {
        prop_assert_eq!(apply("ConfigMap", &doc, &patch).expect("merges"), merge(doc, &patch));
    }

    #[test]
    fn keyed_lists_hold_every_element_once_and_patching_twice_is_patching_once(old in containers(), patch in containers()) {
        let spec = |containers: &Value| json!({"spec": {"containers": containers}});
        let once = apply("Pod", &spec(&old), &spec(&patch)).expect("merges");
        let names = |list: &Value| list.as_array().into_iter().flatten().map(|c| c["name"].to_string()).collect::<Vec<_>>();
        let merged = names(&once["spec"]["containers"]);
        let mut expected = names(&old);
        expected.extend(names(&patch));
        prop_assert_eq!(merged.iter().collect::<BTreeSet<_>>(), expected.iter().collect::<BTreeSet<_>>());
        prop_assert_eq!(merged.iter().collect::<BTreeSet<_>>().len(), merged.len());
        let twice = apply("Pod", &once, &spec(&patch)).expect("merges");
        prop_assert_eq!(names(&twice["spec"]["containers"]).len(), merged.len());
    }

    #[test]
    fn a_given_order_is_kept(old in containers(), patch in containers()) {
        let patch_spec = json!({"spec": {"$setElementOrder/containers": patch, "containers": patch}});
        let merged = apply("Pod", &json!({"spec": {"containers": old}}), &patch_spec).expect("merges");
        let named = patch.as_array().expect("a list");
        let found: Vec<&Value> = merged["spec"]["containers"].as_array().into_iter().flatten()
            .filter(|c| named.iter().any(|n| n["name"] == c["name"])).collect();
        prop_assert_eq!(found, named.iter().collect::<Vec<_>>());
    }
}
