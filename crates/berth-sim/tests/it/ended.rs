//! Pods that end: each run of a container happens once, and a pod that has ended stays so, whatever is killed or lost in between.

use berth_api::Subresource;
use berth_node::Latencies;
use berth_sim::{Options, Part, Simulation, network::Faults};
use berth_workloads::resources::PODS;
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

/// Longer than a pod takes here for anything that does not wait.
const SOON: Duration = Duration::from_secs(5);

fn simulation(seed: u64, faults: Faults) -> Simulation {
    let latencies = Latencies { start: Duration::from_millis(300), stop: Duration::from_millis(700) };
    Simulation::new(seed, Options { latencies, faults, ..Options::default() })
}

fn pod(name: &str, policy: &str, annotations: &[(&str, &str)], more: &Value) -> Value {
    let annotations: BTreeMap<String, &str> = annotations.iter().map(|(key, value)| (format!("sim.berth.dev/{key}"), *value)).collect();
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations, "labels": {"app": "p"}},
        "spec": {"restartPolicy": policy, "containers": [{"name": "main", "image": "i"}]},
    });
    pod["spec"].as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
    pod
}

/// What a status reports of one container.
#[derive(Clone, Debug, Default, PartialEq)]
struct Reported {
    phase: String,
    restarts: u64,
    exit: Option<i64>,
    last_exit: Option<i64>,
}

fn reported(sim: &Simulation) -> Reported {
    let status = sim.object("pods", "p")["status"].clone();
    let main = &status["containerStatuses"][0];
    let exit = |state: &str| main[state]["terminated"]["exitCode"].as_i64();
    Reported {
        phase: status["phase"].as_str().unwrap_or_default().to_owned(),
        restarts: main["restartCount"].as_u64().unwrap_or(0),
        exit: exit("state"),
        last_exit: exit("lastState"),
    }
}

fn is_over(reported: &Reported) -> bool {
    matches!(reported.phase.as_str(), "Succeeded" | "Failed")
}

/// Less than any state of a container here is reported.
const MOMENT: Duration = Duration::from_millis(50);

/// Lets `duration` pass, and adds what the pod's status reports in between, as far as that differs.
fn observe(sim: &mut Simulation, duration: Duration, seen: &mut Vec<Reported>) {
    let until = sim.elapsed() + duration;
    while sim.elapsed() < until {
        sim.run_for(MOMENT.min(until.saturating_sub(sim.elapsed())));
        let now = reported(sim);
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    }
}

/// Runs a pod of which two runs fail, with the nodes killed after `kill_after`. Checks what its status reports.
fn check_runs(mut sim: Simulation, kill_after: Duration, what: &str) {
    sim.create(&pod("p", "OnFailure", &[("fails-first", "2"), ("exit-code", "7")], &json!({})));
    let mut seen = Vec::new();
    observe(&mut sim, kill_after, &mut seen);
    sim.kill(Part::Nodes);
    observe(&mut sim, Duration::from_secs(3), &mut seen);
    sim.start(Part::Nodes);
    observe(&mut sim, Duration::from_secs(60), &mut seen);
    let expected = Reported { phase: "Succeeded".to_owned(), restarts: 2, exit: Some(0), last_exit: Some(7) };
    assert_eq!(seen.last(), Some(&expected), "{what}: {seen:?}");
    for pair in seen.windows(2) {
        assert!(pair[0].restarts <= pair[1].restarts && !is_over(&pair[0]), "{what}: {pair:?} of {seen:?}");
        assert!(pair[1].restarts - pair[0].restarts <= 1, "{what}: no run is left out: {pair:?} of {seen:?}");
    }
}

#[test]
fn no_run_is_repeated_or_lost_whenever_the_nodes_are_killed() {
    // The last run ends after 14 s. An odd step meets the halves of a second at different distances.
    for step in 0..36 {
        let kill_after = Duration::from_millis(step * 410);
        check_runs(simulation(1, Faults::NONE), kill_after, &format!("killed after {kill_after:?}"));
    }
}

#[test]
fn no_run_is_repeated_or_lost_if_calls_and_answers_are() {
    for seed in 0..12 {
        let faults =
            Faults { lost_calls_per_mille: 150, lost_answers_per_mille: 150, latency_max: Duration::from_millis(50), ..Faults::NONE };
        check_runs(simulation(seed, faults), Duration::from_secs(seed % 16), &format!("seed {seed}"));
    }
}

#[test]
fn a_pod_that_has_ended_frees_its_quota_and_its_address_and_is_deleted_at_once() {
    let mut sim = simulation(1, Faults::NONE);
    sim.create(&json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "one"}, "spec": {"hard": {"pods": "1"}}}));
    let service = json!({"selector": {"app": "p"}, "ports": [{"port": 80}]});
    sim.create(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": service}));
    sim.run_for(SOON);
    sim.create(&pod("p", "Never", &[("completes-after", "10s")], &json!({})));
    sim.run_for(SOON);
    let addresses = |sim: &Simulation| {
        let slices = sim.objects("endpointslices").into_values();
        slices.map(|slice| slice["endpoints"].as_array().map_or(0, Vec::len)).sum::<usize>()
    };
    let used = |sim: &Simulation| sim.object("resourcequotas", "one")["status"]["used"]["pods"].clone();
    assert_eq!((addresses(&sim), used(&sim)), (1, json!("1")));

    sim.run_for(SOON * 2);
    assert_eq!(reported(&sim).phase, "Succeeded");
    assert_eq!((addresses(&sim), used(&sim)), (0, json!("0")));
    sim.create(&pod("q", "Always", &[], &json!({})));
    sim.run_for(SOON);
    assert_eq!(sim.object("pods", "q")["status"]["phase"], "Running");

    sim.delete_if_there(PODS, "p");
    assert!(sim.object("pods", "p").is_null(), "it waits for no grace period");
}

#[test]
fn a_pod_that_ended_before_its_deletion_was_seen_ended_by_itself() {
    let held = json!(["example.com/hold"]);
    for (delete_after, expected) in [(2500, ("Failed", 143)), (4200, ("Succeeded", 0))] {
        let mut sim = simulation(1, Faults::NONE);
        let mut worker = pod("p", "Never", &[("completes-after", "3s"), ("terminates-after", "20ms")], &json!({}));
        worker["metadata"]["finalizers"] = held.clone();
        sim.create(&worker);
        sim.run_for(Duration::from_millis(1000));
        // The node sees neither the end nor the deletion.
        sim.kill(Part::Nodes);
        sim.run_for(Duration::from_millis(delete_after) - Duration::from_millis(1000));
        sim.delete_if_there(PODS, "p");
        sim.start(Part::Nodes);
        sim.run_for(SOON);
        let found = reported(&sim);
        assert_eq!((found.phase.as_str(), found.exit), (expected.0, Some(expected.1)), "deleted after {delete_after} ms");
        sim.patch(PODS, "p", json!({"metadata": {"finalizers": null}}));
        sim.run_for(SOON);
        assert!(sim.object("pods", "p").is_null());
    }
}

#[test]
fn a_deadline_ends_a_pod_that_backs_off_and_spares_one_that_ended_before() {
    let mut sim = simulation(1, Faults::NONE);
    let deadline = json!({"activeDeadlineSeconds": 8});
    sim.create(&pod("p", "OnFailure", &[("exit-code", "7")], &deadline));
    sim.run_for(SOON * 4);
    let found = reported(&sim);
    assert_eq!((found.phase.as_str(), found.restarts, found.exit), ("Failed", 1, Some(7)));
    assert_eq!(sim.object("pods", "p")["status"]["reason"], "DeadlineExceeded");

    let mut sim = simulation(1, Faults::NONE);
    sim.create(&pod("p", "Never", &[("completes-after", "4s")], &deadline));
    sim.run_for(SOON / 2);
    sim.kill(Part::Nodes);
    sim.run_for(SOON * 2);
    sim.start(Part::Nodes);
    sim.run_for(SOON);
    assert_eq!(reported(&sim).phase, "Succeeded", "its node reports late what happened in time");
}

#[test]
fn what_others_end_stays_ended() {
    let mut sim = simulation(1, Faults::NONE);
    sim.create(&pod("p", "Always", &[("fails", "CrashLoopBackOff")], &json!({})));
    sim.run_for(SOON);
    sim.patch_part(PODS, "p", Subresource::Status, json!({"status": {"phase": "Failed", "reason": "Evicted"}}));
    sim.run_for(SOON * 12);
    let found = reported(&sim);
    assert_eq!((found.phase.as_str(), found.restarts), ("Failed", 1));
}

/// Annotations and statuses are users' to write. The sums of their times have no bound.
#[test]
fn times_without_an_end_stop_no_other_pod() {
    let far = "170000000h";
    let mut sim = simulation(0, Faults::NONE);
    for key in ["completes-after", "ready-after", "terminates-after"] {
        sim.create(&pod(key, "Always", &[(key, far)], &json!({})));
    }
    sim.create(&pod("p", "Never", &[("completes-after", "1s")], &json!({})));
    sim.run_for(SOON);
    assert_eq!(reported(&sim).phase, "Succeeded");
    let last = json!({"status": {"startTime": "9999-12-30T00:00:00Z", "containerStatuses": [{
        "name": "main", "image": "i", "imageID": "", "ready": true, "restartCount": 2147483647,
        "state": {"running": {"startedAt": "9999-12-30T00:00:00Z"}},
    }]}});
    sim.patch_part(PODS, "completes-after", Subresource::Status, last);
    sim.kill(Part::Nodes);
    sim.start(Part::Nodes);
    sim.create(&pod("q", "Never", &[("completes-after", "1s")], &json!({})));
    sim.run_for(SOON);
    assert_eq!(sim.object("pods", "q")["status"]["phase"], "Succeeded");
    sim.delete_if_there(PODS, "terminates-after");
    sim.run_for(Duration::from_secs(60));
    assert!(sim.object("pods", "terminates-after").is_null(), "its grace period has passed");
}
