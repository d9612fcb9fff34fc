//! What is measured.

use crate::{Figure, client::Connection, seconds, server::Server, stateful_sets};
use futures::{FutureExt, future::LocalBoxFuture};
use serde_json::{Value, json};
use std::{
    cell::Cell,
    rc::Rc,
    time::{Duration, Instant},
};

type Scenario = fn() -> LocalBoxFuture<'static, Vec<Figure>>;

const CONNECTIONS: usize = 64;

/// Nodes for many pods, which start and stop at once: what is measured is the control plane.
pub(crate) const MANY_NODES: &[&str] = &["--nodes", "150", "--pod-start-latency", "0s", "--pod-stop-latency", "0s"];

pub(crate) fn all() -> Vec<(&'static str, Scenario)> {
    vec![
        ("start", || start().boxed_local()),
        ("memory", || memory().boxed_local()),
        ("objects", || objects().boxed_local()),
        ("rollout-1000", || rollout(1000, 3).boxed_local()),
        ("rollout-100", || rollout(100, 5).boxed_local()),
        ("rollout-5000", || rollout(5000, 3).boxed_local()),
        ("rollout-10000", || rollout(10_000, 1).boxed_local()),
        ("fleet", || fleet().boxed_local()),
        ("crowd", || crowd().boxed_local()),
        ("idle-10000", || idle_with_pods(10_000).boxed_local()),
        ("sets-ordered", || stateful_sets::one(100, "OrderedReady", 5).boxed_local()),
        ("sets-parallel", || stateful_sets::one(500, "Parallel", 5).boxed_local()),
        ("sets-many", || stateful_sets::many(10, 5000).boxed_local()),
    ]
}

/// From the start of the process to `/readyz` ok, on an empty folder, certificates made.
async fn start() -> Vec<Figure> {
    let mut runs = Vec::new();
    for _ in 0..9 {
        runs.push(seconds(Server::start(&[]).await.ready_after) * 1000.0);
    }
    vec![Figure::new("start to /readyz, empty folder", "ms", runs)]
}

/// Resident memory and processor time of a control plane with nothing to do.
async fn memory() -> Vec<Figure> {
    let server = Server::start(&[]).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = server.cpu_seconds();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let idle = (server.cpu_seconds() - before) / 10.0 * 100.0;
    vec![
        Figure::new("resident memory, idle", "MiB", vec![server.resident_mib()]),
        Figure::new("processor, idle", "% of one core", vec![idle]),
    ]
}

/// Creates, gets and lists of 1 KiB config maps, durable, over HTTPS.
async fn objects() -> Vec<Figure> {
    let server = Server::start(&["--controllers=-*", "--nodes", "0"]).await;
    let payload = "x".repeat(900);
    let create = |number: usize| {
        let name = format!("c{number:06}");
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"payload": payload}});
        ("POST", "/api/v1/namespaces/default/configmaps".to_owned(), body.to_string())
    };
    let get = |number: usize| ("GET", format!("/api/v1/namespaces/default/configmaps/c{:06}", number % 5000), String::new());
    // The first ones warm up, and are what the gets read.
    load(&server, 0, 5_000, create).await;
    let creates = vec![load(&server, 5_000, 30_000, create).await, load(&server, 30_000, 55_000, create).await];
    let gets = vec![load(&server, 0, 50_000, get).await, load(&server, 0, 50_000, get).await, load(&server, 0, 50_000, get).await];
    let mut figures = vec![
        Figure::new("durable creates of 1 KiB config maps, 64 connections", "1/s", creates),
        Figure::new("gets of 1 KiB config maps, 64 connections", "1/s", gets),
    ];
    figures.push(Figure::new("list of 5,000 config maps of 1 KiB", "ms", lists().await));
    figures
}

async fn lists() -> Vec<f64> {
    let server = Server::start(&["--controllers=-*", "--nodes", "0"]).await;
    let payload = "x".repeat(900);
    load(&server, 0, 5_000, |number| {
        let body =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{number:06}")}, "data": {"payload": payload}});
        ("POST", "/api/v1/namespaces/default/configmaps".to_owned(), body.to_string())
    })
    .await;
    let mut connection = server.connect().await;
    let mut runs = Vec::new();
    for _ in 0..15 {
        let started = Instant::now();
        assert_eq!(connection.request("GET", "/api/v1/namespaces/default/configmaps", "").await, 200);
        assert!(connection.body.len() > 5_000_000);
        runs.push(seconds(started.elapsed()) * 1000.0);
    }
    runs
}

/// Sends the requests numbered `from..to` over [`CONNECTIONS`] connections; gives how many a second were answered well.
pub(crate) async fn load(server: &Server, from: usize, to: usize, request: impl Fn(usize) -> (&'static str, String, String)) -> f64 {
    let next = Rc::new(Cell::new(from));
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(server.connect().await);
    }
    let request = &request;
    let started = Instant::now();
    let workers = connections.into_iter().map(|mut connection| {
        let next = Rc::clone(&next);
        async move {
            while next.get() < to {
                let number = next.replace(next.get() + 1);
                let (method, path, body) = request(number);
                let content_type = if method == "PATCH" { "application/strategic-merge-patch+json" } else { "application/json" };
                let status = connection.request_as(method, &path, content_type, &body).await;
                assert!(status < 300, "{method} {path}: {status} {}", String::from_utf8_lossy(&connection.body));
            }
        }
    });
    futures::future::join_all(workers).await;
    (to - from) as f64 / seconds(started.elapsed())
}

/// A Deployment from nothing to `replicas` available pods, then to a new image at 25 % / 25 %.
async fn rollout(replicas: u32, repeat: usize) -> Vec<Figure> {
    let (mut created, mut updated, mut costs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..repeat {
        let server = Server::start(MANY_NODES).await;
        let mut connection = server.connect().await;
        wait_for_nodes(&mut connection).await;
        let path = format!("{DEPLOYMENTS}/bench");
        let before = server.spent(&mut connection).await;
        let started = Instant::now();
        let status = connection.request("POST", DEPLOYMENTS, &deployment("bench", replicas).to_string()).await;
        assert_eq!(status, 201, "{}", String::from_utf8_lossy(&connection.body));
        wait_until_done(&mut connection, &path, replicas).await;
        created.push(seconds(started.elapsed()));
        let after_create = server.spent(&mut connection).await;
        let started = Instant::now();
        let status = connection.request_as("PATCH", &path, "application/strategic-merge-patch+json", &new_image()).await;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&connection.body));
        wait_until_done(&mut connection, &path, replicas).await;
        updated.push(seconds(started.elapsed()));
        let after_update = server.spent(&mut connection).await;
        costs = after_create.figures(&before, "  created", replicas.into());
        costs.extend(after_update.figures(&after_create, "  updated", replicas.into()));
    }
    let rate: Vec<f64> = created.iter().map(|seconds| f64::from(replicas) / seconds).collect();
    let mut figures = vec![
        Figure::new(&format!("Deployment 0 to {replicas} pods available"), "s", created),
        Figure::new(&format!("Deployment 0 to {replicas} pods available"), "pods/s", rate),
        Figure::new(&format!("rolling update of {replicas} pods, 25 %/25 %"), "s", updated),
    ];
    figures.extend(costs);
    figures
}

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn deployment(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "bench:1", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]}
            }
        }
    })
}

/// Polls often enough to cost nothing beside what is measured.
const POLL: Duration = Duration::from_millis(4);

pub(crate) async fn wait_for_nodes(connection: &mut Connection) {
    loop {
        connection.request("GET", "/api/v1/nodes", "").await;
        let nodes: Value = serde_json::from_slice(&connection.body).unwrap();
        let ready = |node: &Value| node["spec"]["taints"].is_null() && node["status"]["allocatable"].is_object();
        if nodes["items"].as_array().is_some_and(|items| items.len() == 150 && items.iter().all(ready)) {
            return;
        }
        tokio::time::sleep(POLL).await;
    }
}

pub(crate) async fn wait_until_done(connection: &mut Connection, path: &str, replicas: u32) {
    loop {
        connection.request("GET", path, "").await;
        if is_done(&serde_json::from_slice(&connection.body).unwrap(), replicas) {
            return;
        }
        tokio::time::sleep(POLL).await;
    }
}

pub(crate) async fn wait_until_all_done(connection: &mut Connection, collection: &str, count: usize, replicas: u32) {
    loop {
        connection.request("GET", collection, "").await;
        let found: Value = serde_json::from_slice(&connection.body).unwrap();
        let items = found["items"].as_array().unwrap();
        if items.len() == count && items.iter().all(|item| is_done(item, replicas)) {
            return;
        }
        // A list of all costs more than one object: ask less often.
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

/// Many small Deployments at once: created, then all updated.
async fn fleet() -> Vec<Figure> {
    const COUNT: usize = 500;
    let server = Server::start(MANY_NODES).await;
    let mut connection = server.connect().await;
    wait_for_nodes(&mut connection).await;
    let before = server.spent(&mut connection).await;
    let started = Instant::now();
    load(&server, 0, COUNT, |number| ("POST", DEPLOYMENTS.to_owned(), deployment(&format!("f{number}"), 4).to_string())).await;
    wait_until_all_done(&mut connection, DEPLOYMENTS, COUNT, 4).await;
    let created = seconds(started.elapsed());
    let after_create = server.spent(&mut connection).await;
    let started = Instant::now();
    load(&server, 0, COUNT, |number| ("PATCH", format!("{DEPLOYMENTS}/f{number}"), new_image())).await;
    wait_until_all_done(&mut connection, DEPLOYMENTS, COUNT, 4).await;
    let updated = seconds(started.elapsed());
    let after_update = server.spent(&mut connection).await;
    let pods = COUNT as f64 * 4.0;
    let mut figures = vec![
        Figure::new("500 Deployments of 4 pods, created at once", "pods/s", vec![pods / created]),
        Figure::new("500 Deployments of 4 pods, updated at once", "pods/s", vec![pods / updated]),
    ];
    figures.extend(after_create.figures(&before, "  created", pods));
    figures.extend(after_update.figures(&after_create, "  updated", pods));
    figures
}

/// How long a new Deployment waits for its first pod while 2,000 others roll.
async fn crowd() -> Vec<Figure> {
    const COUNT: usize = 2000;
    let server = Server::start(MANY_NODES).await;
    let mut connection = server.connect().await;
    wait_for_nodes(&mut connection).await;
    load(&server, 0, COUNT, |number| ("POST", DEPLOYMENTS.to_owned(), deployment(&format!("f{number}"), 2).to_string())).await;
    wait_until_all_done(&mut connection, DEPLOYMENTS, COUNT, 2).await;
    load(&server, 0, COUNT, |number| ("PATCH", format!("{DEPLOYMENTS}/f{number}"), new_image())).await;
    let mut runs = Vec::new();
    for number in 0..5 {
        let name = format!("late{number}");
        let started = Instant::now();
        assert_eq!(connection.request("POST", DEPLOYMENTS, &deployment(&name, 1).to_string()).await, 201);
        wait_until_done(&mut connection, &format!("{DEPLOYMENTS}/{name}"), 1).await;
        runs.push(seconds(started.elapsed()) * 1000.0);
    }
    vec![Figure::new("a new Deployment's first pod available, 2,000 others rolling", "ms", runs)]
}

/// What a control plane costs that has pods and nothing to do.
async fn idle_with_pods(pods: u32) -> Vec<Figure> {
    let server = Server::start(MANY_NODES).await;
    let mut connection = server.connect().await;
    wait_for_nodes(&mut connection).await;
    assert_eq!(connection.request("POST", DEPLOYMENTS, &deployment("bench", pods).to_string()).await, 201);
    wait_until_done(&mut connection, &format!("{DEPLOYMENTS}/bench"), pods).await;
    // Events are still being written for a while.
    tokio::time::sleep(Duration::from_secs(15)).await;
    let before = server.cpu_seconds();
    tokio::time::sleep(Duration::from_secs(20)).await;
    let idle = (server.cpu_seconds() - before) / 20.0 * 100.0;
    vec![
        Figure::new(&format!("processor, idle with {pods} pods"), "% of one core", vec![idle]),
        Figure::new(&format!("resident memory with {pods} pods"), "MiB", vec![server.resident_mib()]),
    ]
}
