//! ReplicationControllers keep their number of pods, also where their controller is killed after any write.

use berth_node::Latencies;
use berth_sim::{
    Options, Simulation,
    crashes::{self, End},
    network::Crash,
};
use berth_store::virtual_time::Order;
use berth_workloads::resources::{PODS, REPLICATION_CONTROLLERS};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

/// Longer than any scenario here needs to become quiet.
const QUIET: Duration = Duration::from_secs(60);

fn controller(replicas: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"app": "web"},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "main:1"}]},
            },
        },
    })
}

/// Creates a controller of three pods, and runs the script, in which the controllers may crash.
fn run(script: fn(&mut Simulation), crash: Crash) -> End {
    let latencies = Latencies { start: Duration::ZERO, stop: Duration::ZERO };
    let mut sim = Simulation::new(1, Options { order: Order::Fifo, latencies, nodes: 1, ..Options::default() });
    sim.create(&controller(3));
    sim.run_for(QUIET);
    sim.crash_controllers(crash);
    script(&mut sim);
    sim.run_for(QUIET);
    End { writes: sim.controller_writes(), state: state(&sim), times: BTreeMap::new() }
}

/// The status, and each pod without its name.
fn state(sim: &Simulation) -> String {
    let mut pods: Vec<String> = sim.objects("pods").into_values().map(|pod| shown(&pod)).collect();
    pods.sort();
    format!("{}\n{}", sim.object("replicationcontrollers", "web")["status"], pods.join("\n"))
}

fn shown(pod: &Value) -> String {
    let owner = &pod["metadata"]["ownerReferences"][0];
    format!("{} {} {} {}", pod["metadata"]["labels"], owner["apiVersion"], owner["kind"], pod["status"]["phase"])
}

fn scale(sim: &mut Simulation, replicas: u32) {
    sim.patch(REPLICATION_CONTROLLERS, "web", json!({"spec": {"replicas": replicas}}));
    sim.run_for(Duration::from_secs(5));
}

/// It grows, a pod is released by its labels and adopted again, and it shrinks.
fn grow_release_and_shrink(sim: &mut Simulation) {
    scale(sim, 5);
    let first = sim.objects("pods").into_keys().next().expect("there are pods");
    sim.patch(PODS, &first, json!({"metadata": {"labels": {"app": "other"}}}));
    sim.run_for(Duration::from_secs(5));
    sim.patch(PODS, &first, json!({"metadata": {"labels": {"app": "web"}}}));
    sim.run_for(Duration::from_secs(5));
    scale(sim, 2);
}

#[test]
fn a_replication_controller_has_as_many_pods_as_it_wants() {
    let end = run(grow_release_and_shrink, Crash::Never).state;
    let status = r#"{"availableReplicas":2,"fullyLabeledReplicas":2,"observedGeneration":3,"readyReplicas":2,"replicas":2}"#;
    let pod = r#"{"app":"web"} "v1" "ReplicationController" "Running""#;
    assert_eq!(end, [status, pod, pod].join("\n"));
}

#[test]
fn a_replication_controller_that_grows_releases_and_shrinks() {
    crashes::check("a_replication_controller_that_grows_releases_and_shrinks", |crash| run(grow_release_and_shrink, crash));
}

#[test]
fn pods_of_an_orphaning_deletion_go_to_the_next_replication_controller() {
    let mut sim = Simulation::new(1, Options { nodes: 1, ..Options::default() });
    sim.create(&controller(2));
    sim.run_for(QUIET);
    sim.orphan(REPLICATION_CONTROLLERS, "web");
    sim.run_for(QUIET);
    let owners: Vec<Value> = sim.objects("pods").into_values().map(|pod| pod["metadata"]["ownerReferences"].clone()).collect();
    assert_eq!(owners, [Value::Null, Value::Null]);
    sim.create(&controller(2));
    sim.run_for(QUIET);
    assert_eq!(sim.objects("pods").len(), 2, "the next controller adopts them");
}

#[test]
fn a_budget_counts_the_pods_that_a_replication_controller_wants() {
    let mut sim = Simulation::new(1, Options { nodes: 1, ..Options::default() });
    sim.create(&controller(4));
    let spec = json!({"maxUnavailable": "50%", "selector": {"matchLabels": {"app": "web"}}});
    sim.create(&json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": spec}));
    sim.run_for(QUIET);
    let status = sim.object("poddisruptionbudgets", "web")["status"].clone();
    assert_eq!([&status["expectedPods"], &status["disruptionsAllowed"]], [&json!(4), &json!(2)]);
}
