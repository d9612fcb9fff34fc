//! KEP-5882, "Feature enablement": the effect of each combination of the gates on fields in use and not in use.

use crate::test_cluster::{TestCluster, deployment, now, pod};
use berth_api::{FeatureGates, k8s_openapi::api::core::v1::Pod};
use berth_registry::{ApiError, Patch, WriteOptions, resource};
use berth_store::{Expected, Key, Purpose, Store};
use serde_json::{Value, json};

const DEPLOYMENTS: &str = "deployments.apps";
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const OFF: [&str; 3] = [
    "DeploymentPodReplacementPolicy=false",
    "DeploymentReplicaSetTerminatingReplicas=false",
    "DeploymentPodReplacementPolicy=false,DeploymentReplicaSetTerminatingReplicas=false",
];

fn gates(text: &str) -> FeatureGates {
    FeatureGates::parse(text).expect("known gates")
}

fn with_policy(policy: &Value) -> Value {
    let mut object = deployment("d");
    object["spec"]["podReplacementPolicy"] = policy.clone();
    object
}

/// Creates `stored` with all gates on, then puts `new` with `position`. Returns the stored policy, or the error.
fn put(position: &str, stored: &Value, new: &Value) -> Result<Value, String> {
    let mut cluster = TestCluster::new();
    cluster.made(DEPLOYMENTS, with_policy(stored));
    cluster.set_gates(gates(position));
    let updated = cluster.update(DEPLOYMENTS, "d", &with_policy(new)).map_err(|error| fault(&error))?;
    Ok(updated["spec"]["podReplacementPolicy"].clone())
}

fn made(position: &str, policy: &Value) -> Result<Value, String> {
    let mut cluster = TestCluster::new();
    cluster.set_gates(gates(position));
    let made = cluster.create(DEPLOYMENTS, with_policy(policy)).map_err(|error| fault(&error))?;
    Ok(made["spec"]["podReplacementPolicy"].clone())
}

fn fault(error: &ApiError) -> String {
    let ApiError::Invalid { errors, .. } = error else { panic!("{error}") };
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn a_policy_is_new_only_where_its_gates_are_on_and_kept_where_it_is_in_use() {
    let (unset, started, complete) = (json!(null), json!("TerminationStarted"), json!("TerminationComplete"));
    for value in [&unset, &started, &complete] {
        assert_eq!(made("", value).as_ref(), Ok(value));
        for stored in [&unset, &started, &complete] {
            assert_eq!(put("", stored, value).as_ref(), Ok(value), "{stored} to {value}");
        }
        for position in OFF {
            assert_eq!(made(position, value), Ok(unset.clone()), "{position}: dropped");
            assert_eq!(put(position, &unset, value), Ok(unset.clone()), "{position}: dropped");
            for stored in [&started, &complete] {
                assert_eq!(put(position, stored, value).as_ref(), Ok(value), "{position}: in use, {stored} to {value}");
            }
        }
    }
}

#[test]
fn an_unknown_policy_is_refused_wherever_it_is_not_dropped() {
    let complete = json!("TerminationComplete");
    for text in ["", "terminationcomplete", "Never"] {
        let refused = Err(format!(
            "spec.podReplacementPolicy: Unsupported value: \"{text}\": supported values: \"TerminationComplete\", \"TerminationStarted\""
        ));
        let bad = json!(text);
        assert_eq!(made("", &bad), refused);
        assert_eq!(put("", &json!(null), &bad), refused);
        for position in OFF {
            assert_eq!(made(position, &bad), Ok(json!(null)), "{position}");
            assert_eq!(put(position, &complete, &bad), refused, "{position}");
        }
    }
}

#[test]
fn a_policy_that_changes_is_a_new_generation() {
    let cluster = TestCluster::new();
    cluster.made(DEPLOYMENTS, with_policy(&json!(null)));
    for (generation, policy) in [(2, json!("TerminationComplete")), (3, json!("TerminationStarted")), (4, json!(null))] {
        let patched = cluster.merge(DEPLOYMENTS, "d", json!({"spec": {"podReplacementPolicy": policy}})).expect("valid");
        assert_eq!(patched["metadata"]["generation"], generation);
    }
}

fn replica_set() -> Value {
    let mut object = deployment("d");
    object["kind"] = json!("ReplicaSet");
    object
}

/// Turns a gate off, on, off and on again, over one object.
#[test]
fn terminating_replicas_are_new_only_where_the_gate_is_on_and_kept_where_they_are_in_use() {
    let off = "DeploymentReplicaSetTerminatingReplicas=false";
    for (what, object) in [(DEPLOYMENTS, deployment("d")), ("replicasets.apps", replica_set())] {
        let mut cluster = TestCluster::new();
        cluster.made(what, object);
        let status = format!("{what}/status");
        for (position, written, stored) in [
            (off, json!(2), json!(null)),
            ("", json!(2), json!(2)),
            (off, json!(3), json!(3)),
            (off, json!(null), json!(null)),
            (off, json!(1), json!(null)),
            ("", json!(0), json!(0)),
            ("DeploymentPodReplacementPolicy=false", json!(4), json!(4)),
        ] {
            cluster.set_gates(gates(position));
            let patched = cluster.merge(&status, "d", json!({"status": {"terminatingReplicas": written}})).expect("valid");
            assert_eq!(patched["status"]["terminatingReplicas"], stored, "{what} {position:?} {written}");
        }
        assert!(
            matches!(cluster.merge(&status, "d", json!({"status": {"terminatingReplicas": -1}})), Err(ApiError::Invalid { .. })),
            "{what}"
        );
    }
}

#[test]
fn stored_fields_are_read_whatever_the_gates_are() {
    let mut cluster = TestCluster::new();
    cluster.made(DEPLOYMENTS, with_policy(&json!("TerminationComplete")));
    cluster.merge("deployments.apps/status", "d", json!({"status": {"terminatingReplicas": 1}})).expect("valid");
    cluster.set_gates(gates(OFF[2]));
    let read = cluster.get(DEPLOYMENTS, "d").expect("there");
    assert_eq!((&read["spec"]["podReplacementPolicy"], &read["status"]["terminatingReplicas"]), (&json!("TerminationComplete"), &json!(1)));
}

const ANNOTATIONS: [&str; 2] = ["berth.dev/pod-replacement-policy", "berth.dev/deleted-pod-replacement-policy"];

fn annotated(key: &str, value: &Value) -> Value {
    let mut object = deployment("d");
    object["metadata"]["annotations"] = json!({"other": "stays", key: value});
    if value.is_null() {
        object["metadata"]["annotations"] = json!({"other": "stays"});
    }
    object
}

/// Creates `stored` with all gates on, then writes `new` with `position`. Returns the stored annotation, or the error.
fn annotate(path: &str, position: &str, key: &str, stored: &Value, new: &Value) -> Result<Value, String> {
    let mut cluster = TestCluster::new();
    if path != "create" {
        cluster.made(DEPLOYMENTS, annotated(key, stored));
    }
    cluster.set_gates(gates(position));
    let patch = json!({"metadata": {"annotations": {key: new}}});
    let written = match path {
        "create" => cluster.create(DEPLOYMENTS, annotated(key, new)),
        "put" => cluster.update(DEPLOYMENTS, "d", &annotated(key, new)),
        "patch" => cluster.merge(DEPLOYMENTS, "d", patch),
        _ => cluster.merge("deployments.apps/status", "d", patch),
    };
    let written = written.map_err(|error| fault(&error))?;
    assert_eq!(written["metadata"]["annotations"]["other"], "stays");
    Ok(written["metadata"]["annotations"][key].clone())
}

/// Every write path accepts the policy, because typed clients have no other field for it.
#[test]
fn policies_in_annotations_follow_the_gates_and_are_checked_as_the_field_is() {
    let (unset, complete, started, bad) = (json!(null), json!("TerminationComplete"), json!("TerminationStarted"), json!("Complete"));
    for key in ANNOTATIONS {
        let refused = Err(format!(
            "metadata.annotations[{key}]: Unsupported value: \"Complete\": supported values: \"TerminationComplete\", \"TerminationStarted\""
        ));
        for path in ["create", "put", "patch", "status"] {
            let write = |position: &str, stored: &Value, new: &Value| annotate(path, position, key, stored, new);
            assert_eq!(write("", &unset, &complete).as_ref(), Ok(&complete), "{path} {key}");
            assert_eq!(write("", &unset, &bad), refused, "{path}");
            for position in OFF {
                for value in [&complete, &bad] {
                    assert_eq!(write(position, &unset, value), Ok(unset.clone()), "{path} {position}: dropped");
                }
            }
            if path != "create" {
                for position in OFF.into_iter().chain([""]) {
                    assert_eq!(write(position, &complete, &started).as_ref(), Ok(&started), "{path} {position}: in use");
                    assert_eq!(write(position, &complete, &unset).as_ref(), Ok(&unset), "{path} {position}: taken off");
                    assert_eq!(write(position, &complete, &bad), refused, "{path} {position}");
                }
            }
        }
    }
}

/// A value that was stored before its validation existed does not block other changes.
#[test]
fn an_annotation_that_is_stored_is_not_judged_again() {
    let mut cluster = TestCluster::new();
    let key = ANNOTATIONS[0];
    let mut object = annotated(key, &json!("TerminationComplete"));
    object["metadata"]["annotations"][key] = json!("Terminat1onComplete");
    cluster.set_gates(gates(""));
    assert!(cluster.create(DEPLOYMENTS, object).is_err());
    let set = || {
        let mut set = replica_set();
        set["metadata"]["annotations"] = json!({ANNOTATIONS[0]: "anything"});
        set
    };
    assert!(cluster.create("replicasets.apps", set()).is_ok(), "means nothing on a ReplicaSet");
    let bad = json!({"metadata": {"annotations": {ANNOTATIONS[1]: "anything"}}});
    let found = cluster.merge("replicasets.apps", "d", bad).map_err(|error| fault(&error));
    let refused = "metadata.annotations[berth.dev/deleted-pod-replacement-policy]: Unsupported value: \"anything\": \
         supported values: \"TerminationComplete\", \"TerminationStarted\"";
    assert_eq!(found, Err(refused.to_owned()));
}

/// Applies to every write path.
#[test]
fn an_unknown_way_to_roll_back_is_refused() {
    let mut cluster = TestCluster::new();
    cluster.set_gates(gates(""));
    let key = "berth.dev/auto-rollback";
    let refused = format!("metadata.annotations[{key}]: Unsupported value: \"OnDedline\": supported values: \"OnDeadline\"");
    let fault = |answer: Result<Value, ApiError>| answer.map_err(|error| fault(&error));
    assert_eq!(fault(cluster.create(DEPLOYMENTS, annotated(key, &json!("OnDedline")))), Err(refused.clone()));
    cluster.made(DEPLOYMENTS, annotated(key, &json!("OnDeadline")));
    let bad = json!({"metadata": {"annotations": {key: "OnDedline"}}});
    assert_eq!(fault(cluster.merge(DEPLOYMENTS, "d", bad)), Err(refused));
}

fn costly(cost: &str) -> Value {
    let mut object = pod("p");
    object["metadata"]["annotations"] = json!({COST: cost});
    object
}

/// KEP-2255: a 400 whose causes contain the field.
#[test]
fn a_bad_deletion_cost_is_a_bad_request_wherever_it_is_new() {
    let refused = |answer: Result<Value, ApiError>, field: &str| {
        let error = answer.expect_err("refused");
        let ApiError::BadRequestFields { errors, .. } = &error else { panic!("{error}") };
        assert_eq!(errors.iter().map(|error| error.field.to_string()).collect::<Vec<_>>(), [field]);
    };
    let (field, in_template) = (format!("metadata.annotations[{COST}]"), format!("spec.template.annotations[{COST}]"));
    for cost in ["abc", "", "+1", "05", "2147483648", "1.0", " 1"] {
        let cluster = TestCluster::new();
        refused(cluster.create("pods", costly(cost)), &field);
        cluster.made("pods", pod("p"));
        refused(cluster.merge("pods", "p", json!({"metadata": {"annotations": {COST: cost}}})), &field);
        let mut templated = deployment("d");
        templated["spec"]["template"]["metadata"]["annotations"] = json!({COST: cost});
        refused(cluster.create(DEPLOYMENTS, templated), &in_template);
    }
    for cost in ["0", "-1", "2147483647", "-2147483648"] {
        TestCluster::new().made("pods", costly(cost));
    }
}

/// Annotations of a pod can change through `pods/status` and a Binding too. A rejected change has no effect.
#[test]
fn a_bad_deletion_cost_is_a_bad_request_by_every_way_into_a_pod() {
    let annotations = |cost: &str| json!({"metadata": {"name": "p", "annotations": {COST: cost}}});
    let applied = |cluster: &TestCluster, what: &str, cost: &str| {
        let mut config = annotations(cost);
        config["apiVersion"] = "v1".into();
        config["kind"] = "Pod".into();
        let options = WriteOptions { field_manager: "m".to_owned(), ..WriteOptions::default() };
        cluster.patch(what, "p", Patch::Apply(config.to_string().into_bytes()), &options)
    };
    let put = |cluster: &TestCluster, what: &str, cost: &str| {
        let mut object = cluster.get("pods", "p").expect("there");
        object["metadata"]["annotations"][COST] = cost.into();
        cluster.update(what, "p", &object)
    };
    let bound = |cluster: &TestCluster, cost: &str| {
        let mut binding = annotations(cost);
        binding["target"] = json!({"kind": "Node", "name": "n"});
        cluster.post("pods/binding", "p", binding)
    };
    let json_patch = |cluster: &TestCluster, what: &str, cost: &str| {
        let patch = json!([{"op": "add", "path": "/metadata/annotations", "value": {COST: cost}}]);
        cluster.patch(what, "p", Patch::Json(patch.to_string().into_bytes()), &WriteOptions::default())
    };
    for cost in ["abc", "+1", "2147483648"] {
        let cluster = TestCluster::new();
        let before = cluster.made("pods", pod("p"));
        for what in ["pods", "pods/status"] {
            for refused in [
                put(&cluster, what, cost),
                cluster.merge(what, "p", annotations(cost)),
                cluster.patch(what, "p", Patch::Strategic(annotations(cost).to_string().into_bytes()), &WriteOptions::default()),
                json_patch(&cluster, what, cost),
                applied(&cluster, what, cost),
                bound(&cluster, cost),
            ] {
                let error = refused.expect_err("refused");
                assert!(matches!(error, ApiError::BadRequestFields { .. }), "{what}: {error}");
                let field = format!("metadata.annotations[{COST}]");
                assert_eq!(error.to_string(), format!("Pod \"p\" is invalid: {field}: Invalid value: {cost:?}: must be a 32bit integer"));
            }
        }
        assert_eq!(cluster.get("pods", "p").expect("there"), before);
    }
    let cluster = TestCluster::new();
    cluster.made("pods", pod("p"));
    put(&cluster, "pods/status", "1").expect("a cost");
    applied(&cluster, "pods/status", "1").expect("a cost");
    bound(&cluster, "-3").expect("a cost");
    assert_eq!(cluster.get("pods", "p").expect("there")["metadata"]["annotations"][COST], "-3");
}

#[test]
fn annotations_of_a_binding_are_those_of_a_pod() {
    let cluster = TestCluster::new();
    cluster.made("pods", pod("p"));
    let binding = json!({"metadata": {"name": "p", "annotations": {"a b": "", COST: "x"}}, "target": {"name": "n"}});
    let ApiError::Invalid { errors, .. } = cluster.post("pods/binding", "p", binding).expect_err("refused") else {
        panic!("not only the cost")
    };
    let fields: Vec<String> = errors.iter().map(|error| error.field.to_string()).collect();
    assert_eq!(fields, ["metadata.annotations", &format!("metadata.annotations[{COST}]")]);
    assert_eq!(cluster.get("pods", "p").expect("there")["spec"].get("nodeName"), None);
}

/// A value that was stored before the rule existed does not block other changes.
#[test]
fn a_bad_deletion_cost_that_is_stored_holds_no_other_change() {
    let cluster = TestCluster::new();
    cluster.made("pods", costly("1"));
    let key = Key::new(&format!("{}default/p", resource::of::<Pod>().prefix()));
    let entry = now(cluster.store.get(&key)).expect("read").expect("there");
    let bad = String::from_utf8_lossy(&entry.value).replace(&format!("{COST}\":\"1\""), &format!("{COST}\":\"old\""));
    now(cluster.store.put(key, bad.into_bytes().into(), Expected::At(entry.mod_revision), Purpose::Growth)).expect("no other writer");
    assert_eq!(cluster.get("pods", "p").expect("there")["metadata"]["annotations"][COST], "old");
    cluster.merge("pods", "p", json!({"metadata": {"labels": {"tier": "web"}}})).expect("the cost is not touched");
    let mended = cluster.merge("pods", "p", json!({"metadata": {"annotations": {COST: "7"}}})).expect("mended");
    assert_eq!(mended["metadata"]["annotations"][COST], "7");
    assert!(cluster.merge("pods", "p", json!({"metadata": {"annotations": {COST: "old"}}})).is_err(), "and never back");
    assert!(cluster.merge("pods/status", "p", json!({"metadata": {"annotations": {COST: "old"}}})).is_err(), "by no way");
}

#[test]
fn a_tolerance_is_new_only_where_the_gate_is_on_and_kept_where_it_is_in_use() {
    const AUTOSCALERS: &str = "horizontalpodautoscalers.autoscaling";
    let autoscaler = |tolerance: Value| {
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"}, "spec": {
            "maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            "behavior": {"scaleUp": {"tolerance": tolerance}}}})
    };
    let shown = |object: &Value| object["spec"]["behavior"]["scaleUp"]["tolerance"].clone();
    let mut cluster = TestCluster::new();
    cluster.set_gates(gates("HPAConfigurableTolerance=false"));
    assert_eq!(shown(&cluster.made(AUTOSCALERS, autoscaler(json!("50m")))), Value::Null);
    assert_eq!(shown(&cluster.update(AUTOSCALERS, "a", &autoscaler(json!("50m"))).expect("updated")), Value::Null);
    cluster.set_gates(FeatureGates::default());
    assert_eq!(shown(&cluster.update(AUTOSCALERS, "a", &autoscaler(json!("50m"))).expect("updated")), "50m");
    cluster.set_gates(gates("HPAConfigurableTolerance=false"));
    assert_eq!(shown(&cluster.update(AUTOSCALERS, "a", &autoscaler(json!("70m"))).expect("updated")), "70m");
}
