//! The normal form: an empty value that upstream's encoder omits does not change an object.
//! `testdata/normal-form/record.py` recorded how a real server treats each field of a pod template.

use crate::test_cluster::{TestCluster, config_map, json_of, now, target};
use berth_registry::{Actor, ApiError, Body, Patch, WriteOptions};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const RECORDED: &str = include_str!("../../../../testdata/normal-form/recorded.jsonl");
const SENT: &str = include_str!("../../../../testdata/normal-form/template.json");
const S: &str = "statefulsets.apps";

/// Fields that upstream drops, because their feature gates are off by default. berth stores them, because it does not
/// have these gates.
const GATED: [&str; 4] = ["stopSignal", "schedulingGroup", "clusterTrustBundle", "podCertificate"];

/// Empty references that upstream stores without a name. berth's types always have one.
const NAMED: [&str; 2] = ["/spec/volumes/18/iscsi/secretRef {}", "/spec/volumes/25/rbd/secretRef {}"];

/// Whether berth deliberately differs from upstream at `POINTER VALUE`.
fn is_known(at: &str) -> bool {
    let pointer = at.split(' ').next().unwrap_or_default();
    NAMED.contains(&at) || GATED.iter().any(|field| pointer.ends_with(&format!("/{field}")))
}

fn stateful_set(template: &Value) -> Value {
    let spec = json!({"serviceName": "w", "replicas": 0, "selector": {"matchLabels": {"app": "w"}}, "template": template});
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "w"}, "spec": spec})
}

/// Returns the result of a dry run of a PUT.
fn tried(cluster: &TestCluster, object: &Value) -> Result<Value, ApiError> {
    let options = WriteOptions { dry_run: vec!["All".to_owned()], field_validation: "Strict".to_owned(), ..WriteOptions::default() };
    let body = Body::Json(object.to_string().into_bytes());
    now(cluster.registry.update(&Actor::System, &target(S, "w"), body, &options)).map(|written| json_of(&written.object))
}

fn pointer(path: &Value) -> String {
    let steps = path.as_array().expect("a path").iter();
    steps.map(|step| format!("/{}", step.as_str().map_or_else(|| step.to_string(), str::to_owned))).collect()
}

fn put(tree: &mut Value, pointer: &str, value: Value) {
    let (parent, field) = pointer.rsplit_once('/').expect("a path");
    tree.pointer_mut(parent).expect("it was recorded in this template")[field] = value;
}

/// Returns the outcome for the template, in the form of the recording.
fn outcome(before: &Value, after: &Value, pointer: &str) -> Value {
    let (old, new) = (&before["spec"]["template"], &after["spec"]["template"]);
    let raised = before["metadata"]["generation"] != after["metadata"]["generation"];
    if old == new && !raised {
        return json!("same");
    }
    let mut expected = old.clone();
    let stored = new.pointer(pointer).cloned();
    if let Some(stored) = &stored {
        put(&mut expected, pointer, stored.clone());
    }
    json!({"stored": stored, "elsewhere": expected != *new, "raised": raised})
}

/// Removes the sources that upstream drops by default, because their feature gate is off.
fn without_trust_bundles(template: &Value) -> Value {
    let mut template = template.clone();
    let volumes = template["spec"]["volumes"].as_array_mut().into_iter().flatten();
    let sources = volumes.filter_map(|volume| volume.pointer_mut("/projected/sources")?.as_array_mut()).flatten();
    sources.filter_map(Value::as_object_mut).for_each(|source| drop(source.remove("clusterTrustBundle")));
    template
}

#[test]
fn an_empty_value_in_a_template_does_what_it_does_upstream() {
    let cluster = TestCluster::new();
    let mut lines = RECORDED.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let template = serde_json::from_str(SENT).expect("JSON");
    let made = cluster.made(S, stateful_set(&template));
    assert_eq!(without_trust_bundles(&made["spec"]["template"]), lines.next().expect("the template as it is stored"));
    let mut wrong = BTreeMap::new();
    for line in lines {
        let pointer = pointer(&line[0]);
        let mut object = made.clone();
        put(&mut object["spec"]["template"], &pointer, line[1].clone());
        let found = match tried(&cluster, &object) {
            Ok(after) => outcome(&made, &after, &pointer),
            Err(error) => json!(error.to_string()),
        };
        if found != line[2] {
            wrong.insert(format!("{pointer} {}", line[1]), format!("{found}, upstream {}", line[2]));
        }
    }
    let (known, unknown): (BTreeMap<String, String>, BTreeMap<_, _>) = wrong.into_iter().partition(|(at, _)| is_known(at));
    assert_eq!(unknown, BTreeMap::new());
    let are_all = GATED.iter().all(|field| known.keys().any(|at| at.contains(field))) && NAMED.iter().all(|at| known.contains_key(*at));
    assert!(are_all, "what differs no more is not to be listed: {known:?}");
}

#[test]
fn a_write_of_only_empty_values_changes_nothing() {
    let cluster = TestCluster::new();
    let made = cluster.made("configmaps", config_map("c"));
    let empty = json!({"metadata": {"labels": {}, "annotations": {"a": null}}, "data": {}, "binaryData": {}});
    assert_eq!(cluster.merge("configmaps", "c", empty).expect("patched"), made);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b"}, "subjects": [],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}});
    let made = cluster.made("rolebindings.rbac.authorization.k8s.io", role);
    assert_eq!(made.get("subjects"), None);
    let rule = json!({"from": [], "ports": []});
    let policy = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "n"},
        "spec": {"podSelector": {"matchLabels": {}}, "ingress": [rule]}});
    let made = cluster.made("networkpolicies.networking.k8s.io", policy);
    assert_eq!(made["spec"], json!({"podSelector": {}, "ingress": [{}], "policyTypes": ["Ingress"]}));
    let removed = json!({"spec": {"ingress": [{"ports": null}]}});
    let merged = cluster.merge("networkpolicies.networking.k8s.io", "n", removed).expect("patched");
    assert_eq!(merged["metadata"]["generation"], 1);
}

#[test]
fn what_is_applied_stays_owned_where_it_is_empty() {
    let cluster = TestCluster::new();
    let config = |fields: Value| {
        let mut container = json!({"name": "c", "image": "i"});
        container.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        let template = json!({"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [container]}});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
            "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template}})
    };
    let apply = |manager: &str, config: &Value| {
        let options = WriteOptions { field_manager: manager.to_owned(), ..WriteOptions::default() };
        let patch = Patch::Apply(config.to_string().into_bytes());
        cluster.patch("deployments.apps", "d", patch, &options)
    };
    let empty = config(json!({"args": [], "env": [{"name": "A", "value": ""}]}));
    let made = apply("a", &empty).expect("applied");
    let container = &made["spec"]["template"]["spec"]["containers"][0];
    assert_eq!((container.get("args"), &container["env"]), (None, &json!([{"name": "A"}])));
    cluster.clock.advance(5);
    assert_eq!(apply("a", &empty).expect("applied again"), made);
    for other in [json!({"args": ["x"]}), json!({"env": [{"name": "A", "value": "1"}]})] {
        let refused = apply("b", &config(other)).expect_err("it is another's");
        assert!(matches!(refused, ApiError::ApplyConflict { .. }), "{refused}");
    }
}
