//! Nodes that are lost and recover, and pods that are evicted under a budget.

use super::{DEPLOYMENTS, Running, deployment};
use berth_controllers::cluster::Cluster;
use berth_identity::{GroupResource, ObjectKey};
use berth_registry::{Actor, ApiError, Body, Subresource, Target, WriteOptions, resource};
use berth_workloads::resources::{BUDGETS, LEASES, NODES, PODS};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde_json::{Value, json};
use std::sync::Arc;

/// How often a node renews its lease.
const RENEWAL_SECONDS: i64 = 10;

impl Running {
    fn now(&self) -> Timestamp {
        self.test_env.env().clock.now()
    }

    fn patch_at(&self, resource: GroupResource, (namespace, name): (&str, &str), subresource: Option<Subresource>, patch: Value) {
        let (cluster, key) = (Arc::clone(&self.cluster), ObjectKey::new(namespace, name));
        self.test_env.block_on(async move { cluster.patch(resource, &key, subresource, patch).await }).expect("a valid patch");
    }

    /// A kubelet registers its node, or reports again.
    fn report(&self, node: &str) {
        let conditions = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map(|type_| {
            let status = if type_ == "Ready" { "True" } else { "False" };
            json!({"type": type_, "status": status, "lastHeartbeatTime": self.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()})
        });
        self.patch_at(NODES, ("", node), Some(Subresource::Status), json!({"status": {"conditions": conditions}}));
    }

    fn add_node(&self, node: &str) {
        self.create(None, &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}));
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": node}});
        self.create(Some("kube-node-lease"), &lease);
        self.report(node);
    }

    /// Advances the time. Only these nodes are alive.
    fn pass(&self, seconds: i64, alive: &[&str]) {
        let mut left = seconds;
        while left > 0 {
            for node in alive {
                self.patch_at(LEASES, ("kube-node-lease", node), None, json!({"spec": {"renewTime": MicroTime(self.now())}}));
            }
            self.test_env.run_for(SignedDuration::from_secs(left.min(RENEWAL_SECONDS)));
            left -= RENEWAL_SECONDS;
        }
    }

    /// Binds every pod without a node to this one, and makes it ready.
    fn run_pods_on(&self, node: &str) {
        for pod in self.list(PODS).into_iter().filter(|pod| pod["spec"]["nodeName"].is_null()) {
            let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
            let (key, uid) = (ObjectKey::new(text("namespace"), text("name")), text("uid").into());
            let (cluster, node) = (Arc::clone(&self.cluster), node.to_owned());
            self.test_env.block_on(async move { cluster.bind(&key, &uid, &node).await }).expect("an unbound pod");
            let ready = json!({"type": "Ready", "status": "True"});
            let status = json!({"status": {"phase": "Running", "conditions": [ready]}});
            self.patch_at(PODS, (&text("namespace"), &text("name")), Some(Subresource::Status), status);
        }
    }

    /// The status of the node's condition Ready, and its taints.
    fn node(&self, name: &str) -> (String, Vec<String>) {
        let node = self.list(NODES).into_iter().find(|node| node["metadata"]["name"] == name).expect("a node");
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready").expect("a condition");
        let taint =
            |taint: &Value| format!("{}:{}", taint["key"].as_str().unwrap_or_default(), taint["effect"].as_str().unwrap_or_default());
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default().iter().map(taint).collect();
        (ready["status"].as_str().unwrap_or_default().to_owned(), taints)
    }

    fn ready_pods(&self) -> usize {
        let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
        let pods = self.list(PODS);
        pods.iter().filter(|pod| pod["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(is_ready))).count()
    }

    fn leaving_pods(&self) -> usize {
        self.list(PODS).iter().filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null()).count()
    }

    fn evict(&self, name: &str) -> Result<(), ApiError> {
        let pods = resource::built_in().by_name(&GroupResource::from_static("", "pods")).expect("served");
        let target = Target {
            resource: Arc::clone(pods),
            namespace: Some("default".into()),
            name: name.into(),
            subresource: Some(Subresource::Eviction),
        };
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        let (registry, body) = (self.registry.clone(), Body::Json(eviction.to_string().into_bytes()));
        let options = WriteOptions::default();
        self.test_env.block_on(async move { registry.create_subresource(&Actor::System, &target, body, &options).await }).map(drop)
    }

    /// `disruptionsAllowed`, `currentHealthy`, `desiredHealthy` and `expectedPods` of the only budget.
    fn budget(&self) -> [i64; 4] {
        let budget = self.list(BUDGETS).remove(0);
        ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"]
            .map(|field| budget["status"][field].as_i64().unwrap_or(-1))
    }
}

/// A Deployment of two pods on `lost`. `other` is healthy.
fn two_pods_on_a_node() -> Running {
    let running = Running::start("*");
    ["lost", "other"].iter().for_each(|node| running.add_node(node));
    running.create(Some("default"), &deployment("web", 2));
    running.pass(RENEWAL_SECONDS, &["lost", "other"]);
    running.run_pods_on("lost");
    running.pass(2 * RENEWAL_SECONDS, &["lost", "other"]);
    assert_eq!((running.node("lost"), running.ready_pods()), (("True".to_owned(), vec![]), 2));
    running
}

fn unreachable() -> (String, Vec<String>) {
    let taints = ["NoSchedule", "NoExecute"].map(|effect| format!("node.kubernetes.io/unreachable:{effect}"));
    ("Unknown".to_owned(), taints.into())
}

#[test]
fn pods_of_a_node_that_is_lost_are_replaced_after_what_they_tolerate() {
    let running = two_pods_on_a_node();
    // The last renewal was ten seconds ago.
    running.pass(29, &["other"]);
    assert_eq!((running.node("lost").0, running.ready_pods()), ("True".to_owned(), 2));
    running.pass(2, &["other"]);
    assert_eq!((running.node("lost"), running.ready_pods()), (unreachable(), 0));
    running.pass(298, &["other"]);
    assert_eq!((running.leaving_pods(), running.count(PODS)), (0, 2));
    running.pass(3, &["other"]);
    assert_eq!((running.leaving_pods(), running.count(PODS)), (2, 4), "no node confirms that the old ones have stopped");
    running.run_pods_on("other");
    running.pass(RENEWAL_SECONDS, &["other"]);
    assert_eq!((running.node("other"), running.ready_pods()), (("True".to_owned(), vec![]), 2));
    let evictions: Vec<_> = running.events().into_iter().filter(|(reason, _)| reason == "TaintManagerEviction").collect();
    assert!(evictions.len() == 2 && evictions.iter().all(|(_, message)| message.starts_with("Marking for deletion Pod default/web-")));
}

#[test]
fn a_node_that_returns_in_time_keeps_its_pods() {
    let running = two_pods_on_a_node();
    running.pass(200, &["other"]);
    assert_eq!(running.node("lost"), unreachable());
    running.report("lost");
    running.pass(400, &["lost", "other"]);
    assert_eq!(running.node("lost"), ("True".to_owned(), vec![]));
    assert_eq!((running.leaving_pods(), running.count(PODS)), (0, 2));
}

#[test]
fn a_taint_by_hand_drives_away_at_once_what_does_not_tolerate_it() {
    let running = two_pods_on_a_node();
    let taints = json!([{"key": "maintenance", "effect": "NoExecute"}]);
    running.patch_at(NODES, ("", "lost"), None, json!({"spec": {"taints": taints}}));
    running.pass(1, &["lost", "other"]);
    assert_eq!((running.leaving_pods(), running.count(PODS)), (2, 4));
}

#[test]
fn a_cordon_shows_as_a_taint() {
    let running = two_pods_on_a_node();
    running.patch_at(NODES, ("", "lost"), None, json!({"spec": {"unschedulable": true}}));
    running.pass(1, &["lost", "other"]);
    assert_eq!(running.node("lost").1, ["node.kubernetes.io/unschedulable:NoSchedule"]);
    running.patch_at(NODES, ("", "lost"), None, json!({"spec": {"unschedulable": null}}));
    running.pass(1, &["lost", "other"]);
    assert_eq!((running.node("lost").1.len(), running.leaving_pods()), (0, 0));
}

#[test]
fn a_second_eviction_waits_until_the_first_pod_is_replaced() {
    let running = two_pods_on_a_node();
    let alive = ["lost", "other"];
    let selector = json!({"matchLabels": {"app": "web"}});
    let spec = json!({"minAvailable": "50%", "selector": selector});
    running.create(
        Some("default"),
        &json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": spec}),
    );
    running.pass(1, &alive);
    assert_eq!(running.budget(), [1, 2, 1, 2]);
    let names: Vec<String> = running.list(PODS).iter().map(|pod| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect();
    running.evict(&names[0]).expect("one may go");
    let refused = running.evict(&names[1]).expect_err("none is left");
    assert!(matches!(refused, ApiError::TooManyRequests { .. }), "{refused}");
    running.pass(1, &alive);
    assert_eq!(running.budget(), [0, 1, 1, 2]);
    running.evict(&names[1]).expect_err("its replacement is not ready");
    running.run_pods_on("other");
    running.pass(1, &alive);
    assert_eq!(running.budget(), [1, 2, 1, 2]);
    running.evict(&names[1]).expect("the first is replaced");
    running.patch(DEPLOYMENTS, "web", json!({"spec": {"replicas": 4}}));
    running.pass(1, &alive);
    assert_eq!(running.budget(), [0, 1, 2, 4], "the budget counts what the Deployment wants");
}
