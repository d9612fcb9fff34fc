//! Bindings and evictions.

use crate::test_cluster::{TestCluster, pod};
use berth_registry::{ApiError, DeleteOptions, Patch, WriteOptions};
use serde_json::{Value, json};

fn binding(node: &str) -> Value {
    json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": node}})
}

fn refused(result: Result<Value, ApiError>) -> String {
    result.expect_err("refused").to_string()
}

#[test]
fn a_binding_gives_the_pod_its_node() {
    let cluster = TestCluster::new();
    cluster.made("pods", pod("p"));
    let nominated = Patch::MergeValue(json!({"status": {"nominatedNodeName": "n1"}}));
    let nominated = cluster.patch("pods/status", "p", nominated, &WriteOptions::default()).expect("nominated");
    assert_eq!(nominated["status"]["nominatedNodeName"], "n1");
    let mut with_annotation = binding("n1");
    with_annotation["metadata"]["annotations"] = json!({"k": "v"});
    let answer = cluster.post("pods/binding", "p", with_annotation).expect("bound");
    assert_eq!(answer, json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}));
    let bound = cluster.get("pods", "p").expect("there");
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["metadata"]["annotations"], json!({"k": "v"}));
    assert_eq!(bound["status"]["nominatedNodeName"], Value::Null, "no place need be kept for it any more");
    let conditions = bound["status"]["conditions"].as_array().expect("conditions");
    let scheduled = conditions.iter().find(|condition| condition["type"] == "PodScheduled").expect("scheduled");
    assert_eq!((&scheduled["status"], &scheduled["lastTransitionTime"]), (&json!("True"), &json!("2026-01-01T00:00:00Z")));
}

#[test]
fn a_pod_that_cannot_be_bound_is_a_conflict() {
    let cluster = TestCluster::new();
    let made = cluster.made("pods", pod("p"));
    let mut other = binding("n1");
    other["metadata"]["uid"] = "x".into();
    assert!(refused(cluster.post("pods/binding", "p", other)).contains("Precondition failed: UID in precondition: x"));
    let mut stale = binding("n1");
    stale["metadata"]["resourceVersion"] = "1".into();
    assert!(refused(cluster.post("pods/binding", "p", stale)).contains("the object has been modified"));
    let mut right = binding("n1");
    right["metadata"]["uid"] = made["metadata"]["uid"].clone();
    cluster.post("pods/binding", "p", right).expect("bound");
    let wanted = "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n1\"";
    assert_eq!(refused(cluster.post("pods/binding", "p", binding("n2"))), wanted);
    cluster.delete("pods", "p", &DeleteOptions::default()).expect("terminating");
    assert!(refused(cluster.post("pods/binding", "p", binding("n2"))).contains("pod p is being deleted"));

    let mut gated = pod("p");
    gated["metadata"]["name"] = "g".into();
    gated["spec"]["schedulingGates"] = json!([{"name": "x"}]);
    cluster.made("pods", gated);
    let target = json!({"target": {"name": "n1"}});
    assert!(refused(cluster.post("pods/binding", "g", target)).contains("pod g has non-empty .spec.schedulingGates"));
    let wrong = json!({"target": {"kind": "Pod", "name": "n1"}});
    assert!(
        refused(cluster.post("pods/binding", "g", wrong)).starts_with("Binding \"g\" is invalid: target.kind: Unsupported value: \"Pod\"")
    );
    assert!(refused(cluster.post("pods/binding", "g", json!({"target": {}}))).contains("target.name: Required value"));
    assert!(matches!(cluster.post("pods/binding", "nope", binding("n1")), Err(ApiError::BadRequest { .. })));
    assert!(matches!(cluster.post("pods/binding", "nope", json!({"target": {"name": "n"}})), Err(ApiError::NotFound { .. })));
}

/// Creates a running, bound pod, ready or not.
fn running(cluster: &TestCluster, name: &str, ready: &str) {
    let mut object = pod(name);
    object["spec"]["nodeName"] = "n1".into();
    cluster.made("pods", object);
    let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
    cluster.merge("pods/status", name, json!({"status": status})).expect("running");
}

fn budget(cluster: &TestCluster, name: &str, policy: Option<&str>, status: &Value) {
    let mut object = json!({"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}});
    if let Some(policy) = policy {
        object["spec"]["unhealthyPodEvictionPolicy"] = policy.into();
    }
    cluster.made("poddisruptionbudgets.policy", object);
    cluster.merge("poddisruptionbudgets.policy/status", name, json!({"status": status})).expect("counted");
}

fn counted(allowed: i32, current: i32, desired: i32) -> Value {
    json!({"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": current, "desiredHealthy": desired, "expectedPods": 2})
}

fn evict(cluster: &TestCluster, name: &str) -> Result<Value, ApiError> {
    cluster.post("pods/eviction", name, json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}))
}

#[test]
fn a_pod_without_budget_is_deleted_gracefully() {
    let cluster = TestCluster::new();
    running(&cluster, "p", "True");
    assert_eq!(evict(&cluster, "p").expect("evicted")["code"], 201);
    let pod = cluster.get("pods", "p").expect("terminating");
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    let conditions = pod["status"]["conditions"].as_array().expect("conditions");
    let target = conditions.iter().find(|condition| condition["type"] == "DisruptionTarget").expect("it says why");
    assert_eq!((&target["reason"], &target["message"]), (&json!("EvictionByEvictionAPI"), &json!("Eviction API: evicting")));
    let again = evict(&cluster, "p").expect("it is terminating already");
    assert_eq!(again["status"], "Success");
    let other = json!({"metadata": {"name": "x"}});
    assert_eq!(refused(cluster.post("pods/eviction", "p", other)), "name in URL does not match name in Eviction object");
}

#[test]
fn what_a_body_does_to_a_pod_of_another_namespace_is_refused() {
    let cluster = TestCluster::new();
    cluster.made("pods", pod("p"));
    let metadata = json!({"name": "p", "namespace": "elsewhere"});
    for (subresource, body) in [
        ("pods/eviction", json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata})),
        ("pods/binding", json!({"metadata": metadata, "target": {"name": "n1"}})),
    ] {
        let text = "the namespace of the provided object does not match the namespace sent on the request";
        let refusal = cluster.post(subresource, "p", body).expect_err("refused");
        assert!(matches!(&refusal, ApiError::BadRequest { message } if message == text), "{subresource}: {refusal:?}");
    }
    let pod = cluster.get("pods", "p").expect("there");
    assert_eq!((&pod["spec"]["nodeName"], &pod["metadata"]["deletionTimestamp"]), (&Value::Null, &Value::Null));
}

#[test]
fn an_eviction_may_be_of_the_old_version_and_nothing_else() {
    let cluster = TestCluster::new();
    let of = |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "p"}});
    running(&cluster, "p", "True");
    for (api_version, kind) in [("policy/v1beta2", "Eviction"), ("policy/v1", "Binding"), ("v1", "Pod")] {
        let refusal = refused(cluster.post("pods/eviction", "p", of(api_version, kind)));
        assert!(refusal.contains(&format!("no kind {kind:?} of version {api_version:?}")), "{refusal}");
    }
    cluster.post("pods/eviction", "p", of("policy/v1beta1", "Eviction")).expect("evicted");
}

#[test]
fn a_budget_pays_for_every_eviction() {
    let cluster = TestCluster::new();
    running(&cluster, "p", "True");
    running(&cluster, "q", "True");
    budget(&cluster, "b", None, &counted(1, 2, 1));
    evict(&cluster, "p").expect("one may go");
    let paid = cluster.get("poddisruptionbudgets.policy", "b").expect("there");
    assert_eq!(paid["status"]["disruptionsAllowed"], json!(0));
    assert_eq!(paid["status"]["disruptedPods"], json!({"p": "2026-01-01T00:00:00Z"}));
    let condition = &paid["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"]),
        (&json!("DisruptionAllowed"), &json!("False"), &json!("InsufficientPods"))
    );
    let error = evict(&cluster, "q").expect_err("none is left");
    assert_eq!(error.to_string(), "Cannot evict pod as it would violate the pod's disruption budget.");
    let ApiError::TooManyRequests { retry_after_seconds, causes, .. } = error else { panic!("{error}") };
    assert_eq!((retry_after_seconds, causes[0].reason.as_str()), (0, "DisruptionBudget"));
    assert_eq!(causes[0].message, "The disruption budget b needs 1 healthy pods and has 2 currently");
    assert_eq!(cluster.get("pods", "q").expect("there")["metadata"]["deletionTimestamp"], Value::Null);
}

#[test]
fn a_budget_that_is_behind_asks_to_come_back() {
    let cluster = TestCluster::new();
    running(&cluster, "p", "True");
    budget(&cluster, "b", None, &json!({"observedGeneration": 0, "disruptionsAllowed": 1}));
    let error = evict(&cluster, "p").expect_err("not counted yet");
    let ApiError::TooManyRequests { retry_after_seconds, causes, .. } = error else { panic!("{error}") };
    assert_eq!(retry_after_seconds, 10);
    assert_eq!(causes[0].message, "The disruption budget b is still being processed by the server.");
}

#[test]
fn two_budgets_are_more_than_an_eviction_can_ask() {
    let cluster = TestCluster::new();
    running(&cluster, "p", "True");
    budget(&cluster, "a", None, &counted(1, 2, 1));
    budget(&cluster, "b", None, &counted(1, 2, 1));
    let wanted = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    assert_eq!(refused(evict(&cluster, "p")), wanted);
}

#[test]
fn an_unready_pod_may_go_without_counting() {
    let check = |policy: Option<&str>, current: i32, goes: bool| {
        let cluster = TestCluster::new();
        running(&cluster, "p", "False");
        budget(&cluster, "b", policy, &counted(0, current, 1));
        let before = cluster.get("poddisruptionbudgets.policy", "b").expect("there");
        assert_eq!(evict(&cluster, "p").is_ok(), goes, "{policy:?} {current}");
        assert_eq!(cluster.get("poddisruptionbudgets.policy", "b").expect("there"), before, "nothing is paid");
    };
    check(None, 1, true);
    check(None, 0, false);
    check(Some("IfHealthyBudget"), 0, false);
    check(Some("AlwaysAllow"), 0, true);
}

#[test]
fn a_dry_run_evicts_nothing() {
    let cluster = TestCluster::new();
    running(&cluster, "p", "True");
    budget(&cluster, "b", None, &counted(1, 2, 1));
    let before = cluster.revision();
    let body = json!({"metadata": {"name": "p"}, "deleteOptions": {"dryRun": ["All"]}});
    cluster.post("pods/eviction", "p", body).expect("tried");
    assert_eq!(cluster.revision(), before);
}
