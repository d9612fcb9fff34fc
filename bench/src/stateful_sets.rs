//! StatefulSets, whose pods start at once: what is measured is the control plane.

use crate::{
    figures::{Figure, Runs, Table, seconds},
    loads::{load, new_image, pod_spec, wait_until_all_done, wait_until_done, with_nodes},
    server::Target,
};
use serde_json::{Value, json};
use std::time::Instant;

const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";

/// One set from nothing to `replicas` available pods, then to a new image, one pod after the other.
pub(crate) async fn one(target: &Target, replicas: u32, policy: &str, repeat: usize) -> Vec<Figure> {
    let set = stateful_set("bench", replicas, policy);
    measured(target, &[], replicas, &format!("StatefulSet of {replicas} pods, {policy}"), &set, repeat).await
}

/// `maxUnavailable` of StatefulSets is behind a gate that is off by default, as upstream's is.
const HONORED: &[&str] = &["--feature-gates", "MaxUnavailableStatefulSet=true"];

/// The same, a quarter of its pods at a time.
pub(crate) async fn by_quarters(target: &Target, replicas: u32, repeat: usize) -> Vec<Figure> {
    let mut set = stateful_set("bench", replicas, "Parallel");
    set["spec"]["updateStrategy"] = json!({"rollingUpdate": {"maxUnavailable": "25%"}});
    measured(target, HONORED, replicas, &format!("StatefulSet of {replicas} pods, Parallel, maxUnavailable 25 %"), &set, repeat).await
}

async fn measured(target: &Target, arguments: &[&str], replicas: u32, what: &str, set: &Value, repeat: usize) -> Vec<Figure> {
    let path = format!("{STATEFUL_SETS}/bench");
    let mut runs = Runs::default();
    for _ in 0..repeat {
        let (server, mut connection) = with_nodes(target, arguments).await;
        let before = server.spent(&mut connection).await;
        let started = Instant::now();
        connection.create(STATEFUL_SETS, set).await;
        wait_until_done(&mut connection, &path, replicas).await;
        let created = f64::from(replicas) / seconds(started.elapsed());
        let after_create = server.spent(&mut connection).await;
        let started = Instant::now();
        connection.patch(&path, &new_image()).await;
        wait_until_done(&mut connection, &path, replicas).await;
        let updated = f64::from(replicas) / seconds(started.elapsed());
        let after_update = server.spent(&mut connection).await;
        runs.add(&format!("{what}, created"), "pods/s", Table::Readme, created);
        runs.add(&format!("{what}, rolling update"), "pods/s", Table::Readme, updated);
        after_create.add_to(&mut runs, &before, &format!("{what}, created"), replicas.into());
        after_update.add_to(&mut runs, &after_create, &format!("{what}, updated"), replicas.into());
    }
    runs.figures()
}

/// `count` sets of `replicas` pods each, all at once and each without order.
pub(crate) async fn many(target: &Target, count: usize, replicas: u32) -> Vec<Figure> {
    let pods = count as f64 * f64::from(replicas);
    let mut runs = Runs::default();
    for _ in 0..3 {
        let (server, mut connection) = with_nodes(target, &["--node-pods", "1000"]).await;
        let before = server.spent(&mut connection).await;
        let started = Instant::now();
        let create =
            |number: usize| ("POST", STATEFUL_SETS.to_owned(), stateful_set(&format!("s{number}"), replicas, "Parallel").to_string());
        load(&server, 0..count, create).await;
        wait_until_all_done(&mut connection, STATEFUL_SETS, count, replicas).await;
        let rate = pods / seconds(started.elapsed());
        runs.add(&format!("{count} StatefulSets of {replicas} pods, Parallel, created at once"), "pods/s", Table::Readme, rate);
        server.spent(&mut connection).await.add_to(&mut runs, &before, &format!("{count} sets created"), pods);
    }
    runs.figures()
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
                "spec": pod_spec()
            }
        }
    })
}
