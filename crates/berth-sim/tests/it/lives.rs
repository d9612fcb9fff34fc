//! What becomes of single pods on their nodes: readiness gates, deadlines, addresses, and how they end.

use berth_api::Subresource;
use berth_node::Latencies;
use berth_sim::{Options, Part, Simulation};
use berth_workloads::resources::PODS;
use serde_json::{Value, json};
use std::time::Duration;

/// Longer than a pod takes here for anything.
const SOON: Duration = Duration::from_secs(5);

fn simulation() -> Simulation {
    let latencies = Latencies { start: Duration::from_millis(300), stop: Duration::from_millis(300) };
    Simulation::new(1, Options { latencies, ..Options::default() })
}

fn pod(more: &Value) -> Value {
    let mut pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "i"}]}});
    pod["spec"].as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
    pod
}

fn condition(sim: &Simulation, type_: &str) -> Value {
    let conditions = sim.object("pods", "p")["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default();
    json!([found["status"], found["reason"], found["message"]])
}

fn set_gate(sim: &mut Simulation, status: &str) {
    let mut conditions = sim.object("pods", "p")["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.retain(|condition| condition["type"] != "example.com/gate");
    conditions.push(json!({"type": "example.com/gate", "status": status}));
    sim.patch_part(PODS, "p", Subresource::Status, json!({"status": {"conditions": conditions}}));
    sim.run_for(SOON);
}

#[test]
fn a_pod_is_ready_when_its_readiness_gates_are_open_and_only_then() {
    let mut sim = simulation();
    sim.create(&pod(&json!({"readinessGates": [{"conditionType": "example.com/gate"}]})));
    sim.run_for(SOON);
    let shut = |message: &str| json!(["False", "ReadinessGatesNotReady", message]);
    let missing = shut("corresponding condition of pod readiness gate \"example.com/gate\" does not exist.");
    assert_eq!(condition(&sim, "Ready"), missing);
    assert_eq!(condition(&sim, "ContainersReady"), json!(["True", null, null]));
    set_gate(&mut sim, "False");
    let closed = shut("the status of pod readiness gate \"example.com/gate\" is not \"True\", but False");
    assert_eq!(condition(&sim, "Ready"), closed);
    set_gate(&mut sim, "True");
    assert_eq!(condition(&sim, "Ready"), json!(["True", null, null]));

    // What opens and shuts while no node looks is seen by the next one.
    sim.kill(Part::Nodes);
    set_gate(&mut sim, "False");
    sim.start(Part::Nodes);
    sim.run_for(SOON);
    assert_eq!(condition(&sim, "Ready"), closed);
    let started = sim.objects("events").into_values().filter(|event| event["reason"] == "Started");
    assert_eq!(started.map(|event| event["count"].as_u64()).collect::<Vec<_>>(), [Some(1)], "its container started once");
}

#[test]
fn a_pod_that_is_active_for_longer_than_its_deadline_fails() {
    let mut sim = simulation();
    sim.create(&pod(&json!({"activeDeadlineSeconds": 20})));
    sim.run_for(Duration::from_secs(15));
    assert_eq!(sim.object("pods", "p")["status"]["phase"], "Running");
    sim.run_for(Duration::from_secs(10));
    let status = &sim.object("pods", "p")["status"];
    let said = "Pod was active on the node longer than the specified deadline";
    assert_eq!((&status["phase"], &status["reason"], &status["message"]), (&json!("Failed"), &json!("DeadlineExceeded"), &json!(said)));
    assert!(status["containerStatuses"][0]["state"]["terminated"].is_object());
    assert_eq!(condition(&sim, "Ready")[0], "False");
    let told = sim.objects("events").into_values().any(|event| event["reason"] == "DeadlineExceeded" && event["message"] == said);
    assert!(told, "an event says so");
}

#[test]
fn a_deadline_that_is_set_later_counts_from_the_start_also_for_a_new_node() {
    let mut sim = simulation();
    sim.create(&pod(&json!({})));
    sim.run_for(SOON);
    sim.kill(Part::Nodes);
    sim.patch(PODS, "p", json!({"spec": {"activeDeadlineSeconds": 60}}));
    sim.start(Part::Nodes);
    sim.run_for(Duration::from_secs(40));
    assert_eq!(sim.object("pods", "p")["status"]["phase"], "Running");
    sim.patch(PODS, "p", json!({"spec": {"activeDeadlineSeconds": 30}}));
    sim.run_for(SOON);
    assert_eq!(sim.object("pods", "p")["status"]["reason"], "DeadlineExceeded");
}

#[test]
fn a_pod_on_the_hosts_network_has_the_address_of_its_node() {
    let mut sim = simulation();
    sim.create(&pod(&json!({"hostNetwork": true})));
    sim.run_for(SOON);
    let status = &sim.object("pods", "p")["status"];
    let node = sim.object("nodes", sim.object("pods", "p")["spec"]["nodeName"].as_str().expect("it is bound"));
    let address = node["status"]["addresses"].as_array().expect("a list").iter().find(|address| address["type"] == "InternalIP");
    let address = &address.expect("nodes have one")["address"];
    assert_eq!((&status["podIP"], &status["podIPs"], &status["hostIP"]), (address, &json!([{"ip": address}]), address));
}

/// The status of a deleted pod, as it was last before the pod was gone: its phase, and how its container is.
fn last_status(sim: &mut Simulation) -> (Value, Value) {
    sim.delete_if_there(PODS, "p");
    let is_over = |sim: &Simulation| sim.object("pods", "p").is_null() || sim.object("pods", "p")["status"]["phase"] != "Running";
    sim.run_until_seen("its containers have ended", Duration::from_secs(60), is_over);
    let status = sim.object("pods", "p")["status"].clone();
    sim.run_until_seen("it is gone", SOON, |sim| sim.object("pods", "p").is_null());
    (status["phase"].clone(), status["containerStatuses"][0]["state"].clone())
}

#[test]
fn a_deleted_pod_is_last_seen_with_its_containers_ended() {
    let mut sim = simulation();
    sim.create(&pod(&json!({})));
    sim.run_for(SOON);
    let (phase, state) = last_status(&mut sim);
    assert_eq!(
        (phase, &state["terminated"]["exitCode"], &state["terminated"]["reason"]),
        (json!("Succeeded"), &json!(0), &json!("Completed"))
    );

    let mut crashing = pod(&json!({}));
    crashing["metadata"]["annotations"] = json!({"sim.berth.dev/fails": "CrashLoopBackOff"});
    sim.create(&crashing);
    let waits = |sim: &Simulation| sim.object("pods", "p")["status"]["containerStatuses"][0]["state"]["waiting"].is_object();
    sim.run_until_seen("it waits after a crash", Duration::from_secs(60), |sim| {
        waits(sim) && sim.object("pods", "p")["status"]["phase"] == "Running"
    });
    let (phase, state) = last_status(&mut sim);
    assert_eq!((phase, &state["terminated"]["exitCode"]), (json!("Failed"), &json!(1)));
}
