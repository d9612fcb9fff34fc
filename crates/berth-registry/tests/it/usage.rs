use crate::test_cluster::{TestCluster, now};
use berth_identity::GroupVersionResource;
use berth_registry::{
    Actor, ApiError, Collection, GetOptions, List, ListOptions, Target, discovery,
    resource::built_in,
    splice,
    table::{IncludeObject, MetaVersion, Printer},
    usage,
};
use serde_json::{Value, json};
use std::sync::Arc;

fn collection(plural: &'static str, namespace: Option<&str>) -> Collection {
    let name = GroupVersionResource::from_static("metrics.k8s.io", "v1beta1", plural);
    Collection { resource: Arc::clone(built_in().find(&name).expect("served")), namespace: namespace.map(ToOwned::to_owned) }
}

/// A pod on a node that has run for a minute.
fn made(cluster: &TestCluster, name: &str, app: &str, annotations: Value, phase: &str) {
    let resources = json!({"requests": {"cpu": "100m", "memory": "64Mi"}});
    let containers = json!([{"name": "main", "image": "i", "resources": resources}, {"name": "log", "image": "i"}]);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": app}, "annotations": annotations},
        "spec": {"nodeName": "n1", "containers": containers}});
    cluster.made("pods", pod);
    let started = (cluster.clock.time() - jiff::SignedDuration::from_mins(1)).to_string();
    let container = |name: &str| json!({"name": name, "image": "i", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {"startedAt": started}}});
    let containers = if phase == "Running" { json!([container("main"), container("log")]) } else { json!([]) };
    cluster.merge("pods/status", name, json!({"status": {"phase": phase, "containerStatuses": containers}})).expect("patched");
}

fn node(cluster: &TestCluster, name: &str, ready: &str) {
    cluster.made("nodes", json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}));
    let condition = json!({"type": "Ready", "status": ready});
    cluster.merge("nodes/status", name, json!({"status": {"conditions": [condition]}})).expect("patched");
}

fn cluster() -> TestCluster {
    let cluster = TestCluster::new();
    node(&cluster, "n1", "True");
    node(&cluster, "n2", "True");
    node(&cluster, "n3", "Unknown");
    made(&cluster, "a", "web", json!({}), "Running");
    made(&cluster, "b", "db", json!({"sim.berth.dev/cpu.main": "0s=0 2m=1", "sim.berth.dev/memory": "1Gi"}), "Running");
    made(&cluster, "c", "web", json!({}), "Pending");
    cluster
}

/// A page of usage, which needs no more memory than was reserved for it.
fn page(cluster: &TestCluster, at: &Collection, options: &ListOptions) -> Result<List, ApiError> {
    let measured = now(cluster.registry.list_measured(&Actor::System, at, options))?;
    let cost = usage::cost(&measured);
    let list = now(cluster.registry.list_usage(&Actor::System, &at.resource, measured))?;
    assert!(list.items.iter().map(|entry| entry.value.len()).sum::<usize>() <= cost);
    Ok(list)
}

fn listed(cluster: &TestCluster, at: &Collection, options: &ListOptions) -> Result<Vec<Value>, ApiError> {
    let list = page(cluster, at, options)?;
    Ok(list.items.iter().map(|entry| serde_json::from_slice(&splice::encode_entry(entry)).expect("JSON")).collect())
}

#[test]
fn the_usage_of_pods_is_that_of_their_running_containers() {
    let cluster = cluster();
    let at = collection("pods", Some("default"));
    let found = listed(&cluster, &at, &ListOptions::default()).expect("listed");
    let names: Vec<&Value> = found.iter().map(|pod| &pod["metadata"]["name"]).collect();
    assert_eq!(names, ["a", "b"]);
    let time = cluster.clock.time().to_string();
    assert_eq!(
        found[0],
        json!({
            "apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
            "metadata": {"name": "a", "namespace": "default", "creationTimestamp": time, "labels": {"app": "web"}},
            "timestamp": time, "window": "15s",
            "containers": [{"name": "main", "usage": {"cpu": "50m", "memory": "33554432"}}, {"name": "log", "usage": {"cpu": "0", "memory": "0"}}],
        })
    );
    assert_eq!(found[1]["containers"][0]["usage"], json!({"cpu": "500m", "memory": "1073741824"}));
    let labeled = ListOptions { label_selector: "app=db".to_owned(), ..ListOptions::default() };
    assert_eq!(listed(&cluster, &collection("pods", None), &labeled).expect("listed").len(), 1);
    let named = ListOptions { field_selector: "metadata.name=a".to_owned(), ..ListOptions::default() };
    assert_eq!(listed(&cluster, &at, &named).expect("listed").len(), 1);
    let by_phase = ListOptions { field_selector: "status.phase=Running".to_owned(), ..ListOptions::default() };
    assert!(matches!(listed(&cluster, &at, &by_phase), Err(ApiError::BadRequest { .. })), "usage has no such field");
    let labels: Value = (0..500).map(|index| (format!("l{index}"), json!("x".repeat(60)))).collect::<serde_json::Map<_, _>>().into();
    cluster.merge("pods", "a", json!({"metadata": {"labels": labels}})).expect("patched");
    assert_eq!(listed(&cluster, &at, &named).expect("listed")[0]["metadata"]["labels"]["l499"], json!("x".repeat(60)));
    assert!(listed(&cluster, &collection("pods", Some("other")), &ListOptions::default()).expect("listed").is_empty());
    let one = ListOptions { limit: 1, ..ListOptions::default() };
    let first = page(&cluster, &at, &one).expect("listed");
    let rest = ListOptions { continue_token: first.continue_token.clone(), ..one };
    let second = page(&cluster, &at, &rest).expect("listed");
    assert_eq!([first, second].map(|list| list.items.iter().map(|entry| entry.name().to_owned()).collect::<Vec<_>>()), [["a"], ["b"]]);
}

#[test]
fn the_usage_of_a_node_is_that_of_its_pods() {
    let cluster = cluster();
    let found = listed(&cluster, &collection("nodes", None), &ListOptions::default()).expect("listed");
    let shown: Vec<_> = found.iter().map(|node| (node["metadata"]["name"].clone(), node["usage"].clone())).collect();
    let of = |name: &str, cpu: &str, memory: &str| (json!(name), json!({"cpu": cpu, "memory": memory}));
    assert_eq!(shown, [of("n1", "550m", "2181038080"), of("n2", "0", "0")], "the third node is not ready");
}

#[test]
fn one_pod_or_node_is_read_by_its_name() {
    let cluster = cluster();
    let get = |plural: &'static str, namespace: Option<&str>, name: &str| {
        let Collection { resource, namespace } = collection(plural, namespace);
        let target = Target { resource, namespace, name: name.to_owned(), subresource: None };
        now(cluster.registry.get_usage(&Actor::System, &target, &GetOptions::default()))
    };
    for (plural, namespace, name) in [("pods", Some("default"), "a"), ("nodes", None, "n1")] {
        assert_eq!(get(plural, namespace, name).expect("there").name(), name);
    }
    for (plural, namespace, name, text) in [
        ("pods", Some("default"), "c", "podmetrics.metrics.k8s.io \"default/c\" not found"),
        ("pods", Some("default"), "x", "podmetrics.metrics.k8s.io \"default/x\" not found"),
        ("nodes", None, "n3", "nodemetrics.metrics.k8s.io \"n3\" not found"),
    ] {
        assert_eq!(get(plural, namespace, name).expect_err("no usage").to_string(), text);
    }
}

#[test]
fn usage_is_listed_in_discovery_and_printed_in_columns() {
    let cluster = cluster();
    let at = collection("pods", Some("default"));
    assert_eq!(discovery::verbs(&at.resource), ["get", "list"]);
    assert!(built_in().by_key("/registry/metrics.k8s.io/pods/default/a").is_none(), "nothing is stored");
    let list = page(&cluster, &at, &ListOptions::default()).expect("listed");
    let printer =
        Printer { resource: Arc::clone(&at.resource), include: IncludeObject::None, version: MetaVersion::V1, now: cluster.clock.time() };
    let row = serde_json::to_value(printer.row(&list.items[1]).expect("a row")).expect("JSON");
    assert_eq!(row["cells"], json!(["b", "500m", "2147483648", "15s"]));
    let head = serde_json::to_value(printer.head(&list)).expect("JSON");
    let columns: Vec<&Value> = head["columnDefinitions"].as_array().into_iter().flatten().map(|column| &column["name"]).collect();
    assert_eq!(columns, ["Name", "cpu", "memory", "Window"]);
}
