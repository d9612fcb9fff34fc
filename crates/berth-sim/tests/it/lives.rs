//! What becomes of single pods on their nodes: readiness gates, deadlines, addresses, and how they end.

use berth_api::Subresource;
use berth_node::Latencies;
use berth_sim::{Options, Part, World};
use berth_workloads::resources::PODS;
use serde_json::{Value, json};
use std::time::Duration;

/// Longer than a pod takes here for anything.
const SOON: Duration = Duration::from_secs(5);

fn world() -> World {
    let latencies = Latencies { start: Duration::from_millis(300), stop: Duration::from_millis(300) };
    World::new(1, Options { latencies, ..Options::default() })
}

fn pod(more: &Value) -> Value {
    let mut pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "i"}]}});
    pod["spec"].as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
    pod
}

fn condition(world: &World, type_: &str) -> Value {
    let conditions = world.object("pods", "p")["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default();
    json!([found["status"], found["reason"], found["message"]])
}

fn set_gate(world: &mut World, status: &str) {
    let mut conditions = world.object("pods", "p")["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.retain(|condition| condition["type"] != "example.com/gate");
    conditions.push(json!({"type": "example.com/gate", "status": status}));
    world.patch_part(PODS, "p", Subresource::Status, json!({"status": {"conditions": conditions}}));
    world.run_for(SOON);
}

#[test]
fn a_pod_is_ready_when_its_readiness_gates_are_open_and_only_then() {
    let mut world = world();
    world.create(&pod(&json!({"readinessGates": [{"conditionType": "example.com/gate"}]})));
    world.run_for(SOON);
    let shut = |message: &str| json!(["False", "ReadinessGatesNotReady", message]);
    let missing = shut("corresponding condition of pod readiness gate \"example.com/gate\" does not exist.");
    assert_eq!(condition(&world, "Ready"), missing);
    assert_eq!(condition(&world, "ContainersReady"), json!(["True", null, null]));
    set_gate(&mut world, "False");
    let closed = shut("the status of pod readiness gate \"example.com/gate\" is not \"True\", but False");
    assert_eq!(condition(&world, "Ready"), closed);
    set_gate(&mut world, "True");
    assert_eq!(condition(&world, "Ready"), json!(["True", null, null]));

    // What opens and shuts while no node looks is seen by the next one.
    world.kill(Part::Nodes);
    set_gate(&mut world, "False");
    world.start(Part::Nodes);
    world.run_for(SOON);
    assert_eq!(condition(&world, "Ready"), closed);
    let started = world.objects("events").into_values().filter(|event| event["reason"] == "Started");
    assert_eq!(started.map(|event| event["count"].as_u64()).collect::<Vec<_>>(), [Some(1)], "its container started once");
}

#[test]
fn a_pod_that_is_active_for_longer_than_its_deadline_fails() {
    let mut world = world();
    world.create(&pod(&json!({"activeDeadlineSeconds": 20})));
    world.run_for(Duration::from_secs(15));
    assert_eq!(world.object("pods", "p")["status"]["phase"], "Running");
    world.run_for(Duration::from_secs(10));
    let status = &world.object("pods", "p")["status"];
    let said = "Pod was active on the node longer than the specified deadline";
    assert_eq!((&status["phase"], &status["reason"], &status["message"]), (&json!("Failed"), &json!("DeadlineExceeded"), &json!(said)));
    assert!(status["containerStatuses"][0]["state"]["terminated"].is_object());
    assert_eq!(condition(&world, "Ready")[0], "False");
    let told = world.objects("events").into_values().any(|event| event["reason"] == "DeadlineExceeded" && event["message"] == said);
    assert!(told, "an event says so");
}

#[test]
fn a_deadline_that_is_set_later_counts_from_the_start_also_for_a_new_node() {
    let mut world = world();
    world.create(&pod(&json!({})));
    world.run_for(SOON);
    world.kill(Part::Nodes);
    world.patch(PODS, "p", json!({"spec": {"activeDeadlineSeconds": 60}}));
    world.start(Part::Nodes);
    world.run_for(Duration::from_secs(40));
    assert_eq!(world.object("pods", "p")["status"]["phase"], "Running");
    world.patch(PODS, "p", json!({"spec": {"activeDeadlineSeconds": 30}}));
    world.run_for(SOON);
    assert_eq!(world.object("pods", "p")["status"]["reason"], "DeadlineExceeded");
}

#[test]
fn a_pod_on_the_hosts_network_has_the_address_of_its_node() {
    let mut world = world();
    world.create(&pod(&json!({"hostNetwork": true})));
    world.run_for(SOON);
    let status = &world.object("pods", "p")["status"];
    let node = world.object("nodes", world.object("pods", "p")["spec"]["nodeName"].as_str().expect("it is bound"));
    let address = node["status"]["addresses"].as_array().expect("a list").iter().find(|address| address["type"] == "InternalIP");
    let address = &address.expect("nodes have one")["address"];
    assert_eq!((&status["podIP"], &status["podIPs"], &status["hostIP"]), (address, &json!([{"ip": address}]), address));
}

/// The status of a deleted pod, as it was last before the pod was gone: its phase, and how its container is.
fn last_status(world: &mut World) -> (Value, Value) {
    world.delete_if_there(PODS, "p");
    let is_over = |world: &World| world.object("pods", "p").is_null() || world.object("pods", "p")["status"]["phase"] != "Running";
    world.run_until_seen("its containers have ended", Duration::from_secs(60), is_over);
    let status = world.object("pods", "p")["status"].clone();
    world.run_until_seen("it is gone", SOON, |world| world.object("pods", "p").is_null());
    (status["phase"].clone(), status["containerStatuses"][0]["state"].clone())
}

#[test]
fn a_deleted_pod_is_last_seen_with_its_containers_ended() {
    let mut world = world();
    world.create(&pod(&json!({})));
    world.run_for(SOON);
    let (phase, state) = last_status(&mut world);
    assert_eq!(
        (phase, &state["terminated"]["exitCode"], &state["terminated"]["reason"]),
        (json!("Succeeded"), &json!(0), &json!("Completed"))
    );

    let mut crashing = pod(&json!({}));
    crashing["metadata"]["annotations"] = json!({"sim.berth.dev/fails": "CrashLoopBackOff"});
    world.create(&crashing);
    let waits = |world: &World| world.object("pods", "p")["status"]["containerStatuses"][0]["state"]["waiting"].is_object();
    world.run_until_seen("it waits after a crash", Duration::from_secs(60), |world| {
        waits(world) && world.object("pods", "p")["status"]["phase"] == "Running"
    });
    let (phase, state) = last_status(&mut world);
    assert_eq!((phase, &state["terminated"]["exitCode"]), (json!("Failed"), &json!(1)));
}
