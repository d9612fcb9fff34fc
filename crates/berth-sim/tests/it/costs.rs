//! How many writes pods cost the controllers that create and replace them. Each write is a sync of the disk that others wait for, so none may be
//! unnecessary.

use berth_node::Latencies;
use berth_sim::{Options, Simulation, network::Crash};
use berth_store::virtual_time::Order;
use serde_json::{Value, json};
use std::time::Duration;

/// Longer than anything here takes.
const QUIET: Duration = Duration::from_secs(60);

fn workload(kind: &str, replicas: u32, more: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "main", "image": "main:1"}]},
            },
        },
    });
    more.as_object().into_iter().flatten().for_each(|(field, value)| object["spec"][field] = value.clone());
    object
}

/// What creating the workload costs, and then giving it another image.
fn writes(workload: &Value) -> (u64, u64) {
    let latencies = Latencies { start: Duration::ZERO, stop: Duration::ZERO };
    let mut sim = Simulation::new(1, Options { order: Order::Fifo, latencies, nodes: 2, ..Options::default() });
    sim.run_for(QUIET);
    let mut cost = |act: &dyn Fn(&mut Simulation)| {
        sim.crash_controllers(Crash::Never);
        act(&mut sim);
        sim.run_for(QUIET);
        sim.controller_writes()
    };
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "main:2"}]}}}});
    let created = cost(&|sim| sim.create(workload));
    let updated = cost(&|sim| match workload["kind"].as_str() {
        Some("Deployment") => sim.patch_deployment("db", image.clone()),
        _ => sim.patch_stateful_set("db", image.clone()),
    });
    (created, updated)
}

#[test]
fn an_ordered_set_writes_little_besides_its_pods() {
    let (created, updated) = writes(&workload("StatefulSet", 50, &json!({"serviceName": "db"})));
    assert!((51..=70).contains(&created), "50 pods, their revision, and the status now and then: {created}");
    assert!((101..=135).contains(&updated), "50 pods deleted and created, their revision, and the status now and then: {updated}");
}

#[test]
fn a_small_deployment_writes_what_its_steps_are() {
    let (created, updated) = writes(&workload("Deployment", 4, &json!({})));
    assert!(created <= 12, "4 pods, a set, and what both say: {created}");
    assert!(updated <= 40, "4 pods deleted and created, 8 sizes of sets, and what those and the Deployment say: {updated}");
}
