//! StatefulSets, whose pods start at once: what is measured is the control plane.

use crate::{
    Figure,
    scenarios::{MANY_NODES, load, new_image, wait_for_nodes, wait_until_all_done, wait_until_done},
    seconds,
    server::Server,
};
use serde_json::{Value, json};
use std::time::Instant;

const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";

/// One set from nothing to `replicas` available pods, then to a new image, one pod after the other.
pub(crate) async fn one(replicas: u32, policy: &str, repeat: usize) -> Vec<Figure> {
    let (mut created, mut updated, mut costs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..repeat {
        let server = Server::start(MANY_NODES).await;
        let mut connection = server.connect().await;
        wait_for_nodes(&mut connection).await;
        let path = format!("{STATEFUL_SETS}/bench");
        let before = server.spent(&mut connection).await;
        let started = Instant::now();
        let status = connection.request("POST", STATEFUL_SETS, &stateful_set("bench", replicas, policy).to_string()).await;
        assert_eq!(status, 201, "{}", String::from_utf8_lossy(&connection.body));
        wait_until_done(&mut connection, &path, replicas).await;
        created.push(f64::from(replicas) / seconds(started.elapsed()));
        let after_create = server.spent(&mut connection).await;
        let started = Instant::now();
        let status = connection.request_as("PATCH", &path, "application/strategic-merge-patch+json", &new_image()).await;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&connection.body));
        wait_until_done(&mut connection, &path, replicas).await;
        updated.push(f64::from(replicas) / seconds(started.elapsed()));
        let after_update = server.spent(&mut connection).await;
        costs = after_create.figures(&before, "  created", replicas.into());
        costs.extend(after_update.figures(&after_create, "  updated", replicas.into()));
    }
    let mut figures = vec![
        Figure::new(&format!("StatefulSet of {replicas} pods, {policy}, created"), "pods/s", created),
        Figure::new(&format!("StatefulSet of {replicas} pods, {policy}, rolling update"), "pods/s", updated),
    ];
    figures.extend(costs);
    figures
}

/// `count` sets of `replicas` pods each, all at once and each without order.
pub(crate) async fn many(count: usize, replicas: u32) -> Vec<Figure> {
    let server = Server::start(&[MANY_NODES, &["--node-pods", "1000"]].concat()).await;
    let mut connection = server.connect().await;
    wait_for_nodes(&mut connection).await;
    let before = server.spent(&mut connection).await;
    let started = Instant::now();
    let create = |number: usize| ("POST", STATEFUL_SETS.to_owned(), stateful_set(&format!("s{number}"), replicas, "Parallel").to_string());
    load(&server, 0, count, create).await;
    wait_until_all_done(&mut connection, STATEFUL_SETS, count, replicas).await;
    let elapsed = seconds(started.elapsed());
    let pods = count as f64 * f64::from(replicas);
    let name = format!("{count} StatefulSets of {replicas} pods, Parallel, created at once");
    let mut figures = vec![Figure::new(&name, "pods/s", vec![pods / elapsed])];
    figures.extend(server.spent(&mut connection).await.figures(&before, "  created", pods));
    figures
}

fn stateful_set(name: &str, replicas: u32, policy: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": policy,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "bench:1", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]}
            }
        }
    })
}
