//! Jobs and DaemonSets, whose pods start and stop at once: what is measured is the control plane.

use crate::{
    figures::{Figure, Runs, Table, seconds},
    loads::{load, new_image, pod_spec, wait_until, wait_until_all, with_ready_nodes},
    server::Target,
};
use serde_json::{Value, json};
use std::time::Instant;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";

/// `count` Jobs of one pod each, created at once, until all are complete.
pub(crate) async fn jobs(target: &Target, count: u32, repeat: usize) -> Vec<Figure> {
    let mut runs = Runs::default();
    for _ in 0..repeat {
        let (server, mut connection) = with_ready_nodes(target, 150, &[]).await;
        let before = server.spent(&mut connection).await;
        let started = Instant::now();
        load(&server, 0..count as usize, |number| ("POST", JOBS.to_owned(), job(&format!("j{number}"), 1, 1).to_string())).await;
        wait_until_all(&mut connection, JOBS, count as usize, is_complete).await;
        let what = format!("{count} Jobs of one pod, created at once, until complete");
        runs.add(&what, "s", Table::Readme, seconds(started.elapsed()));
        server.spent(&mut connection).await.add_to(&mut runs, &before, &format!("{count} Jobs of one pod"), count.into());
    }
    runs.figures()
}

/// One Job, from its creation until it is complete.
pub(crate) async fn large_job(target: &Target, completions: u32, parallelism: u32, repeat: usize) -> Vec<Figure> {
    let mut runs = Runs::default();
    for _ in 0..repeat {
        let (server, mut connection) = with_ready_nodes(target, 150, &[]).await;
        let before = server.spent(&mut connection).await;
        let started = Instant::now();
        connection.create(JOBS, &job("bench", completions, parallelism)).await;
        wait_until(&mut connection, &format!("{JOBS}/bench"), is_complete).await;
        let what = format!("Job of {completions} completions, parallelism {parallelism}");
        runs.add(&what, "s", Table::Readme, seconds(started.elapsed()));
        server.spent(&mut connection).await.add_to(&mut runs, &before, &what, completions.into());
    }
    runs.figures()
}

/// A DaemonSet over so many nodes from nothing to available pods, then to a new image, a tenth of the nodes at a time.
pub(crate) async fn daemon_set(target: &Target, nodes: u32, repeat: usize) -> Vec<Figure> {
    let path = format!("{DAEMON_SETS}/bench");
    let what = format!("DaemonSet over {nodes} nodes");
    let is_rolled_out = |set: &Value| {
        let status = &set["status"];
        let all = ["desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable"].iter().all(|field| status[field] == nodes);
        all && status["observedGeneration"] == set["metadata"]["generation"]
    };
    let mut runs = Runs::default();
    for _ in 0..repeat {
        let (server, mut connection) = with_ready_nodes(target, nodes as usize, &[]).await;
        let before = server.spent(&mut connection).await;
        let started = Instant::now();
        connection.create(DAEMON_SETS, &daemon("bench")).await;
        wait_until(&mut connection, &path, is_rolled_out).await;
        runs.add(&format!("{what}, created"), "s", Table::Readme, seconds(started.elapsed()));
        let after_create = server.spent(&mut connection).await;
        let started = Instant::now();
        connection.patch(&path, &new_image()).await;
        wait_until(&mut connection, &path, is_rolled_out).await;
        runs.add(&format!("{what}, rolling update, maxUnavailable 10 %"), "s", Table::Readme, seconds(started.elapsed()));
        let after_update = server.spent(&mut connection).await;
        after_create.add_to(&mut runs, &before, &format!("{what}, created"), nodes.into());
        after_update.add_to(&mut runs, &after_create, &format!("{what}, updated"), nodes.into());
    }
    runs.figures()
}

fn is_complete(job: &Value) -> bool {
    let conditions = job["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| condition["type"] == "Complete" && condition["status"] == "True")
}

fn job(name: &str, completions: u32, parallelism: u32) -> Value {
    let mut spec = pod_spec();
    spec["restartPolicy"] = json!("Never");
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completions": completions,
            "parallelism": parallelism,
            "template": {"metadata": {"annotations": {"sim.berth.dev/completes-after": "0s"}}, "spec": spec}
        }
    })
}

fn daemon(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod_spec()}
        }
    })
}
