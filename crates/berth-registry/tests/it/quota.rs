#![expect(clippy::needless_pass_by_value, reason = "tests write their JSON where they send it")]

use crate::test_cluster::{TestCluster, config_map, deployment, pod};
use berth_registry::{ApiError, RESOURCE_QUOTA, WriteOptions};
use serde_json::{Value, json};

/// Creates an unused quota whose controller has copied its limits.
fn quota(cluster: &TestCluster, name: &str, hard: Value) {
    scoped_quota(cluster, name, hard, &[]);
}

/// Creates a [`quota`] with scopes.
fn scoped_quota(cluster: &TestCluster, name: &str, hard: Value, scopes: &[&str]) {
    let spec = json!({"hard": hard, "scopes": scopes});
    cluster.made("resourcequotas", json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec}));
    let used: serde_json::Map<String, Value> = hard.as_object().expect("an object").keys().map(|name| (name.clone(), "0".into())).collect();
    cluster.merge("resourcequotas/status", name, json!({"status": {"hard": hard, "used": used}})).expect("a status");
}

fn used(cluster: &TestCluster, name: &str) -> Value {
    cluster.get("resourcequotas", name).expect("there")["status"]["used"].clone()
}

fn refusal(result: Result<Value, ApiError>) -> String {
    match result.expect_err("refused") {
        ApiError::Forbidden { message, refused_by: Some(RESOURCE_QUOTA), .. } => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn creates_are_charged_and_refused_when_nothing_is_left() {
    let cluster = TestCluster::new();
    quota(&cluster, "q", json!({"pods": "2", "count/deployments.apps": "1", "configmaps": "0"}));
    cluster.made("pods", pod("a"));
    cluster.made("pods", pod("b"));
    cluster.made("deployments.apps", deployment("d"));
    let wanted = json!({"pods": "2", "count/deployments.apps": "1", "configmaps": "0"});
    assert_eq!(used(&cluster, "q"), wanted);
    let check = |what: &str, object: Value, text: &str| assert_eq!(refusal(cluster.create(what, object)), text);
    check("pods", pod("c"), "pods \"c\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2");
    check(
        "deployments.apps",
        deployment("e"),
        "deployments.apps \"e\" is forbidden: exceeded quota: q, requested: count/deployments.apps=1, used: count/deployments.apps=1, \
         limited: count/deployments.apps=1",
    );
    check(
        "configmaps",
        config_map("c"),
        "configmaps \"c\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=0, limited: configmaps=0",
    );
    assert_eq!(used(&cluster, "q"), wanted);
}

#[test]
fn a_create_that_fails_is_given_back() {
    let cluster = TestCluster::new();
    quota(&cluster, "q", json!({"pods": "5"}));
    cluster.made("pods", pod("a"));
    assert!(matches!(cluster.create("pods", pod("a")), Err(ApiError::AlreadyExists { .. })));
    assert_eq!(used(&cluster, "q"), json!({"pods": "1"}));
}

#[test]
fn a_refusal_by_one_quota_is_given_back_to_the_others() {
    let cluster = TestCluster::new();
    quota(&cluster, "a", json!({"pods": "5"}));
    quota(&cluster, "b", json!({"pods": "0"}));
    assert!(refusal(cluster.create("pods", pod("p"))).contains("exceeded quota: b, "));
    assert_eq!(used(&cluster, "a"), json!({"pods": "0"}));
}

#[test]
fn what_grows_is_charged_and_refused_when_nothing_is_left() {
    let cluster = TestCluster::new();
    quota(&cluster, "q", json!({"requests.storage": "5Gi", "services.nodeports": "1"}));
    let requests = |storage: &str| json!({"spec": {"resources": {"requests": {"storage": storage}}}});
    let mut claim = requests("1Gi");
    claim["metadata"]["name"] = "c".into();
    claim["spec"]["accessModes"] = json!(["ReadWriteOnce"]);
    cluster.made("persistentvolumeclaims", claim);
    let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
    cluster.merge("persistentvolumeclaims/status", "c", bound).expect("bound");
    cluster.merge("persistentvolumeclaims", "c", requests("4Gi")).expect("it fits");
    assert_eq!(used(&cluster, "q"), json!({"requests.storage": "4Gi", "services.nodeports": "0"}));
    let text = "persistentvolumeclaims \"c\" is forbidden: exceeded quota: q, requested: requests.storage=2Gi, used: requests.storage=4Gi, \
                limited: requests.storage=5Gi";
    assert_eq!(refusal(cluster.merge("persistentvolumeclaims", "c", requests("6Gi"))), text);
    cluster.made("services", json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1, "name": "a"}, {"port": 2, "name": "b"}]}}));
    let text = "services \"s\" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=0, limited: \
                services.nodeports=1";
    assert_eq!(refusal(cluster.merge("services", "s", json!({"spec": {"type": "NodePort"}}))), text);
    assert_eq!(used(&cluster, "q"), json!({"requests.storage": "4Gi", "services.nodeports": "0"}));
}

#[test]
fn what_does_not_grow_is_let_through_whatever_is_used() {
    let cluster = TestCluster::new();
    cluster.made("services", json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 1}]}}));
    quota(&cluster, "q", json!({"services": "0", "services.nodeports": "0"}));
    cluster
        .merge("resourcequotas/status", "q", json!({"status": {"used": {"services": "1", "services.nodeports": "1"}}}))
        .expect("a status");
    cluster.merge("services", "s", json!({"metadata": {"labels": {"a": "b"}}})).expect("it takes what it took");
    assert_eq!(used(&cluster, "q"), json!({"services": "1", "services.nodeports": "1"}));
}

#[test]
fn a_dry_run_is_refused_but_never_charged() {
    let cluster = TestCluster::new();
    quota(&cluster, "q", json!({"pods": "1"}));
    let dry = WriteOptions { dry_run: vec!["All".to_owned()], ..WriteOptions::default() };
    cluster.create_with("pods", pod("a"), &dry).expect("it would fit");
    assert_eq!(used(&cluster, "q"), json!({"pods": "0"}));
    cluster.made("pods", pod("a"));
    assert!(matches!(cluster.create_with("pods", pod("b"), &dry), Err(ApiError::Forbidden { .. })));
}

#[test]
fn pods_must_name_what_a_quota_bounds() {
    let cluster = TestCluster::new();
    quota(&cluster, "q", json!({"cpu": "1"}));
    let text = refusal(cluster.create("pods", pod("a")));
    assert!(text.starts_with("pods \"a\" is forbidden: failed quota: q: must specify cpu for: "), "{text}");
}

#[test]
fn a_quota_that_no_controller_has_seen_bounds_nothing() {
    let cluster = TestCluster::new();
    let object = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}});
    cluster.made("resourcequotas", object);
    cluster.made("pods", pod("a"));
}

#[test]
fn an_update_that_moves_a_pod_into_a_scope_is_charged_or_refused() {
    let cluster = TestCluster::new();
    scoped_quota(&cluster, "ending", json!({"count/pods": "1"}), &["Terminating"]);
    scoped_quota(&cluster, "lasting", json!({"count/pods": "5"}), &["NotTerminating"]);
    for name in ["a", "b", "c"] {
        cluster.made("pods", pod(name));
    }
    let counts = || ["ending", "lasting"].map(|name| used(&cluster, name)["count/pods"].clone());
    assert_eq!(counts(), ["0", "3"]);
    let end = |name: &str| cluster.merge("pods", name, json!({"spec": {"activeDeadlineSeconds": 600}}));
    end("a").expect("there is room");
    // The controller reduces the usage of the quota whose scope the pod has left.
    assert_eq!(counts(), ["1", "3"]);
    cluster.merge("pods", "a", json!({"metadata": {"labels": {"more": "1"}}})).expect("it stays where it is");
    cluster.merge("pods", "a", json!({"spec": {"activeDeadlineSeconds": 500}})).expect("it stays where it is");
    let text = "pods \"b\" is forbidden: exceeded quota: ending, requested: count/pods=1, used: count/pods=1, limited: count/pods=1";
    assert_eq!(refusal(end("b")), text);
    assert_eq!(counts(), ["1", "3"]);
}
