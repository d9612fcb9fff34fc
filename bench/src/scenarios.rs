//! What is measured.

use crate::{Figure, client::Connection, seconds, server::Server};
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
const MANY_NODES: &[&str] = &["--nodes", "100", "--pod-start-latency", "0s", "--pod-stop-latency", "0s"];

pub(crate) fn all() -> Vec<(&'static str, Scenario)> {
    vec![
        ("start", || start().boxed_local()),
        ("memory", || memory().boxed_local()),
        ("objects", || objects().boxed_local()),
        ("rollout-1000", || rollout(1000, 3).boxed_local()),
        ("rollout-5000", || rollout(5000, 1).boxed_local()),
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
    let creates = vec![
        load(&server, 0, 5_000, create).await,
        load(&server, 5_000, 30_000, create).await,
        load(&server, 30_000, 55_000, create).await,
    ];
    let gets = vec![load(&server, 0, 50_000, get).await, load(&server, 0, 50_000, get).await, load(&server, 0, 50_000, get).await];
    let mut figures = vec![
        Figure::new("durable creates of 1 KiB config maps, 64 connections", "1/s", creates[1..].to_vec()),
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
async fn load(server: &Server, from: usize, to: usize, request: impl Fn(usize) -> (&'static str, String, String)) -> f64 {
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
                let status = connection.request(method, &path, &body).await;
                assert!(status < 300, "{method} {path}: {status} {}", String::from_utf8_lossy(&connection.body));
            }
        }
    });
    futures::future::join_all(workers).await;
    (to - from) as f64 / seconds(started.elapsed())
}

/// A Deployment from nothing to `replicas` available pods, then to a new image at 25 % / 25 %.
async fn rollout(replicas: u32, repeat: usize) -> Vec<Figure> {
    let (mut created, mut updated) = (Vec::new(), Vec::new());
    for _ in 0..repeat {
        let server = Server::start(MANY_NODES).await;
        let mut connection = server.connect().await;
        wait_for_nodes(&mut connection).await;
        let started = Instant::now();
        let status = connection.request("POST", DEPLOYMENTS, &deployment(replicas).to_string()).await;
        assert_eq!(status, 201, "{}", String::from_utf8_lossy(&connection.body));
        wait_until_done(&mut connection, replicas).await;
        created.push(seconds(started.elapsed()));
        let started = Instant::now();
        let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "bench:2"}]}}}});
        let path = format!("{DEPLOYMENTS}/bench");
        let status = connection.request_as("PATCH", &path, "application/strategic-merge-patch+json", &patch.to_string()).await;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&connection.body));
        wait_until_done(&mut connection, replicas).await;
        updated.push(seconds(started.elapsed()));
    }
    let rate: Vec<f64> = created.iter().map(|seconds| f64::from(replicas) / seconds).collect();
    vec![
        Figure::new(&format!("Deployment 0 to {replicas} pods available"), "s", created),
        Figure::new(&format!("Deployment 0 to {replicas} pods available"), "pods/s", rate),
        Figure::new(&format!("rolling update of {replicas} pods, 25 %/25 %"), "s", updated),
    ]
}

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn deployment(replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "bench"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "bench"}},
            "template": {
                "metadata": {"labels": {"app": "bench"}},
                "spec": {"containers": [{"name": "main", "image": "bench:1", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]}
            }
        }
    })
}

/// Polls often enough to cost nothing beside what is measured.
const POLL: Duration = Duration::from_millis(4);

async fn wait_for_nodes(connection: &mut Connection) {
    loop {
        connection.request("GET", "/api/v1/nodes", "").await;
        let nodes: Value = serde_json::from_slice(&connection.body).unwrap();
        let ready = |node: &Value| node["spec"]["taints"].is_null() && node["status"]["allocatable"].is_object();
        if nodes["items"].as_array().is_some_and(|items| items.len() == 100 && items.iter().all(ready)) {
            return;
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn wait_until_done(connection: &mut Connection, replicas: u32) {
    let path = format!("{DEPLOYMENTS}/bench");
    loop {
        connection.request("GET", &path, "").await;
        let found: Value = serde_json::from_slice(&connection.body).unwrap();
        let status = &found["status"];
        let all = ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|field| status[field] == replicas);
        if all && status["observedGeneration"] == found["metadata"]["generation"] {
            return;
        }
        tokio::time::sleep(POLL).await;
    }
}
