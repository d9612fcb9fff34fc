//! What scenarios ask of a server: objects of a kind by the thousand, and Deployments that roll.

use crate::{
    client::{Connection, POLL},
    figures::{Figure, Runs, Table, seconds},
    server::{Parts, Server, Target},
};
use serde_json::{Value, json};
use std::{cell::Cell, rc::Rc, time::Instant};

pub(crate) const CONNECTIONS: usize = 64;

/// Nodes for many pods, which start and stop at once: what is measured is the control plane.
const FAST_NODES: &[&str] = &["--pod-start-latency", "0s", "--pod-stop-latency", "0s"];

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// How many config maps a list has.
pub(crate) const LISTED: usize = 5_000;

/// Creates the config map of this number, of 1 KiB when stored.
pub(crate) fn create(number: usize) -> (&'static str, String, String) {
    let metadata = json!({"name": format!("c{number:06}")});
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"payload": "x".repeat(900)}});
    ("POST", CONFIG_MAPS.to_owned(), body.to_string())
}

/// Creates the node of this number, in one of three zones.
pub(crate) fn node(number: usize) -> (&'static str, String, String) {
    let name = format!("node-{number:05}");
    let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("zone-{}", number % 3)});
    let amounts = json!({"cpu": "32", "memory": "128Gi", "pods": "110"});
    let status = json!({"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]});
    let body = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status});
    ("POST", "/api/v1/nodes".to_owned(), body.to_string())
}

/// Gets one of the first [`LISTED`] config maps.
pub(crate) fn get(number: usize) -> (&'static str, String, String) {
    ("GET", format!("{CONFIG_MAPS}/c{:06}", number % LISTED), String::new())
}

/// Sends the requests of these numbers over [`CONNECTIONS`] connections; gives how many a second were answered well.
pub(crate) async fn load(
    server: &Server,
    numbers: std::ops::Range<usize>,
    request: impl Fn(usize) -> (&'static str, String, String),
) -> f64 {
    let next = Rc::new(Cell::new(numbers.start));
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(server.connect().await);
    }
    let request = &request;
    let started = Instant::now();
    let workers = connections.into_iter().map(|mut connection| {
        let next = Rc::clone(&next);
        async move {
            while next.get() < numbers.end {
                let number = next.replace(next.get() + 1);
                let (method, path, body) = request(number);
                let content_type = if method == "PATCH" { "application/strategic-merge-patch+json" } else { "application/json" };
                let status = connection.request_as(method, &path, content_type, &body).await;
                assert!(status < 300, "{method} {path}: {status} {}", String::from_utf8_lossy(&connection.body));
            }
        }
    });
    futures::future::join_all(workers).await;
    numbers.len() as f64 / seconds(started.elapsed())
}

/// A server with many nodes that are ready.
pub(crate) async fn with_nodes(target: &Target, arguments: &[&str]) -> (Server, Connection) {
    with_ready_nodes(target, 150, arguments).await
}

/// A server with so many nodes that are ready.
pub(crate) async fn with_ready_nodes(target: &Target, nodes: usize, arguments: &[&str]) -> (Server, Connection) {
    let count = nodes.to_string();
    let server = Server::start(target, Parts::Controllers(&[&["--nodes", &*count], FAST_NODES, arguments].concat())).await;
    let mut connection = server.connect().await;
    loop {
        let list = connection.get("/api/v1/nodes").await;
        let ready = |node: &Value| node["spec"]["taints"].is_null() && node["status"]["allocatable"].is_object();
        if list["items"].as_array().is_some_and(|items| items.len() == nodes && items.iter().all(ready)) {
            return (server, connection);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// A Deployment from nothing to `replicas` available pods, then to a new image at 25 % / 25 %.
pub(crate) async fn rollout(target: &Target, replicas: u32, repeat: usize, table: Table) -> Vec<Figure> {
    let path = format!("{DEPLOYMENTS}/bench");
    let mut runs = Runs::default();
    for _ in 0..repeat {
        let (server, mut connection) = with_nodes(target, &[]).await;
        let before = server.spent(&mut connection).await;
        let started = Instant::now();
        connection.create(DEPLOYMENTS, &deployment("bench", replicas)).await;
        wait_until_done(&mut connection, &path, replicas).await;
        let created = seconds(started.elapsed());
        let after_create = server.spent(&mut connection).await;
        let started = Instant::now();
        connection.patch(&path, &new_image()).await;
        wait_until_done(&mut connection, &path, replicas).await;
        let updated = seconds(started.elapsed());
        let after_update = server.spent(&mut connection).await;
        runs.add(&format!("Deployment, 0 → {replicas} pods available"), "s", table, created);
        runs.add(&format!("Deployment, 0 → {replicas} pods available"), "pods/s", Table::Detail, f64::from(replicas) / created);
        runs.add(&format!("Deployment of {replicas}, rolling update, 25 %/25 %"), "s", table, updated);
        after_create.add_to(&mut runs, &before, &format!("{replicas} pods created"), replicas.into());
        after_update.add_to(&mut runs, &after_create, &format!("{replicas} pods updated"), replicas.into());
    }
    runs.figures()
}

pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// The spec of each pod that is measured.
pub(crate) fn pod_spec() -> Value {
    json!({"containers": [{"name": "main", "image": "bench:1", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]})
}

pub(crate) fn deployment(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": pod_spec()
            }
        }
    })
}

pub(crate) async fn wait_until_done(connection: &mut Connection, path: &str, replicas: u32) {
    wait_until(connection, path, |object| is_done(object, replicas)).await;
}

pub(crate) async fn wait_until(connection: &mut Connection, path: &str, is_reached: impl Fn(&Value) -> bool) {
    while !is_reached(&connection.get(path).await) {
        tokio::time::sleep(POLL).await;
    }
}

pub(crate) async fn wait_until_all_done(connection: &mut Connection, collection: &str, count: usize, replicas: u32) {
    wait_until_all(connection, collection, count, |item| is_done(item, replicas)).await;
}

pub(crate) async fn wait_until_all(connection: &mut Connection, collection: &str, count: usize, is_reached: impl Fn(&Value) -> bool) {
    loop {
        let found = connection.get(collection).await;
        let items = found["items"].as_array().unwrap();
        if items.len() == count && items.iter().all(&is_reached) {
            return;
        }
        // A list of all costs more than one object: ask less often.
        tokio::time::sleep(POLL * 10).await;
    }
}

/// Waits until so many pods exist, and each has a node.
pub(crate) async fn wait_until_bound(connection: &mut Connection, pods: u32) {
    const UNBOUND: &str = "/api/v1/pods?limit=1&fieldSelector=spec.nodeName%3D";
    let has_items = |list: &Value| list["items"].as_array().is_some_and(|items| !items.is_empty());
    let path = "/apis/apps/v1/namespaces/default/replicasets";
    while connection.get(path).await["items"][0]["status"]["replicas"] != pods || has_items(&connection.get(UNBOUND).await) {
        // A list costs the server more than one object: ask less often.
        tokio::time::sleep(POLL * 10).await;
    }
}

fn is_done(deployment: &Value, replicas: u32) -> bool {
    let status = &deployment["status"];
    let all = ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|field| status[field] == replicas);
    all && status["observedGeneration"] == deployment["metadata"]["generation"]
}

pub(crate) fn new_image() -> String {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "bench:2"}]}}}}).to_string()
}
