//! StatefulSet controllers that are killed after any write, and restart, have the same result as without the kill. Order, revisions and partition are
//! checked after every change of the store.

use berth_api::FeatureGates;
use berth_node::Latencies;
use berth_sim::{
    Gates, Options, Simulation,
    crashes::{self, End},
    network::{Crash, Faults, LATE_BY},
};
use berth_store::{env::Timestamp, virtual_time::Order};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt::Write as _, sync::Arc, time::Duration};

/// Longer than any scenario here needs to become quiet.
const QUIET: Duration = Duration::from_secs(60);

/// What happens in one scenario.
struct Scenario {
    name: &'static str,
    /// The set `db` as it is created; all is quiet before anything else happens.
    set: Value,
    /// What its user does then. The controllers may crash from here on.
    script: fn(&mut Simulation),
}

fn set(replicas: u32, management: &str, strategy: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "podManagementPolicy": management,
            "updateStrategy": strategy,
            "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "main", "image": "main:1"}]},
            },
        },
    })
}

fn with_claims(mut set: Value) -> Value {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": spec}]);
    set
}

fn broken(mut set: Value) -> Value {
    set["spec"]["template"]["metadata"]["annotations"] = json!({"sim.berth.dev/fails": "ImagePullBackOff"});
    set
}

fn rolling(partition: u32) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}})
}

fn recreate() -> Value {
    json!({"type": "Recreate"})
}

/// Also where records are kept of it all.
fn check(scenario: &Scenario) {
    crashes::check(scenario.name, |crash| run(scenario, &Gates::default(), crash));
    crashes::check(scenario.name, |crash| run(scenario, &keeping_records(), crash));
}

fn keeping_records() -> Gates {
    let gates = || Arc::new(FeatureGates::parse("RolloutRecords=true").expect("it is known"));
    Gates { api: gates(), controllers: gates() }
}

fn run(scenario: &Scenario, gates: &Gates, crash: Crash) -> End {
    let latencies = Latencies { start: Duration::ZERO, stop: Duration::ZERO };
    let mut sim = Simulation::new(1, Options { order: Order::Fifo, latencies, nodes: 1, ..Options::default() });
    sim.restart_with(gates.clone());
    sim.create(&scenario.set);
    sim.run_for(QUIET);
    sim.crash_controllers(crash);
    (scenario.script)(&mut sim);
    sim.run_for(QUIET);
    let mut times = BTreeMap::new();
    let state = state(&sim, &mut times);
    End { writes: sim.controller_writes(), state, times }
}

fn patch(sim: &mut Simulation, spec: &Value) {
    sim.patch_stateful_set("db", json!({"spec": spec}));
}

fn update(sim: &mut Simulation) {
    let template = json!({
        "metadata": {"annotations": {"sim.berth.dev/fails": null}},
        "spec": {"containers": [{"name": "main", "image": "main:2"}]},
    });
    patch(sim, &json!({"template": template}));
}

/// What must not depend on crashes: all but uids, versions and times.
fn state(sim: &Simulation, times: &mut BTreeMap<String, Timestamp>) -> String {
    let mut text = String::new();
    let db = sim.object("statefulsets", "db");
    let mut annotations = db["metadata"]["annotations"].clone();
    crashes::take_times("db", &mut annotations, times);
    writeln!(text, "{annotations}").expect("memory");
    let status = &db["status"];
    for field in
        ["replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas", "currentRevision", "updateRevision"]
    {
        write!(text, "{field}={} ", status[field]).expect("memory");
    }
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let mut conditions: Vec<_> = conditions.iter().map(|c| format!("\n{} {} {}", c["type"], c["status"], c["reason"])).collect();
    conditions.sort();
    text.push_str(&conditions.concat());
    for (name, pod) in sim.objects("pods") {
        let image = &pod["spec"]["containers"][0]["image"];
        write!(text, "\n{name}: {image} {} {}", pod["metadata"]["labels"], pod["status"]["phase"]).expect("memory");
    }
    for (name, revision) in sim.objects("controllerrevisions") {
        let mut annotations = revision["metadata"]["annotations"].clone();
        crashes::take_times(&name, &mut annotations, times);
        write!(text, "\nrevision {name}: {} {annotations}", revision["revision"]).expect("memory");
    }
    // The start of an update is recorded, and recorded once. Whether there is anything to wait for depends on the moment of the read, and a controller
    // may die after the last write and before its event.
    let events = sim.objects("events").into_values().filter(|event| event["reason"] == "RecreateStarted");
    for event in events {
        write!(text, "\nevent {} {} {}", event["reason"], event["message"], event["count"]).expect("memory");
    }
    for (name, claim) in sim.objects("persistentvolumeclaims") {
        let (owners, mark) = (&claim["metadata"]["ownerReferences"], &claim["metadata"]["annotations"]["berth.dev/when-scaled"]);
        write!(text, "\nclaim {name}: {owners} {mark} {}", claim["status"]["phase"]).expect("memory");
    }
    text
}

#[test]
fn an_ordered_rolling_update() {
    check(&Scenario { name: "an_ordered_rolling_update", set: set(3, "OrderedReady", &rolling(0)), script: update });
}

#[test]
fn a_partitioned_update() {
    check(&Scenario {
        name: "a_partitioned_update",
        set: set(3, "Parallel", &rolling(2)),
        script: |sim| {
            update(sim);
            sim.run_for(QUIET);
            patch(sim, &json!({"updateStrategy": rolling(0)}));
        },
    });
}

#[test]
fn a_broken_set_that_is_recreated() {
    check(&Scenario { name: "a_broken_set_that_is_recreated", set: broken(set(3, "Parallel", &recreate())), script: update });
}

#[test]
fn an_ordered_recreation_with_claims() {
    check(&Scenario { name: "an_ordered_recreation_with_claims", set: with_claims(set(2, "OrderedReady", &recreate())), script: update });
}

#[test]
fn a_broken_set_that_is_repaired() {
    check(&Scenario {
        name: "a_broken_set_that_is_repaired",
        set: broken(set(2, "OrderedReady", &json!({"type": "RollingUpdate"}))),
        script: |sim| {
            sim.patch_stateful_set("db", json!({"metadata": {"annotations": {"berth.dev/repair": "Revision"}}}));
            update(sim);
        },
    });
}

#[test]
fn a_set_that_grows_with_its_claims_moves_and_shrinks() {
    check(&Scenario {
        name: "a_set_that_grows_with_its_claims_moves_and_shrinks",
        set: with_claims(set(1, "OrderedReady", &rolling(0))),
        script: |sim| {
            patch(sim, &json!({"replicas": 3}));
            sim.run_for(QUIET);
            patch(sim, &json!({"ordinals": {"start": 1}}));
            sim.run_for(QUIET);
            patch(sim, &json!({"replicas": 1}));
        },
    });
}

/// Pods 1 and 2 are never created, because pod 0 of the new template is stuck: the policy reaches their claims all the same.
#[test]
fn a_stuck_recreation_whose_retention_and_size_change() {
    let mut db = with_claims(set(3, "OrderedReady", &recreate()));
    db["spec"]["persistentVolumeClaimRetentionPolicy"] = json!({"whenScaled": "Retain", "whenDeleted": "Delete"});
    check(&Scenario {
        name: "a_stuck_recreation_whose_retention_and_size_change",
        set: db,
        script: |sim| {
            let template = json!({"metadata": {"annotations": {"sim.berth.dev/fails": "ImagePullBackOff"}}});
            patch(sim, &json!({"template": template}));
            sim.run_for(QUIET);
            assert_eq!(sim.objects("pods").len(), 1, "it is stuck");
            patch(sim, &json!({"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Retain"}}));
            sim.run_for(QUIET);
            let owners = |claim: &Value| claim["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len);
            assert!(sim.objects("persistentvolumeclaims").values().all(|claim| owners(claim) == 0), "all are to stay with the set's end");
            patch(sim, &json!({"replicas": 2}));
            sim.run_for(QUIET);
            let left: Vec<String> = sim.objects("persistentvolumeclaims").into_keys().collect();
            assert_eq!(left, ["data-db-0", "data-db-1"], "that of pod 2 was to go");
            update(sim);
        },
    });
}

/// A deletion that its sender has given up comes when another pod has the name.
#[test]
fn a_deletion_that_comes_late_takes_no_pod_that_has_come_since() {
    let latencies = Latencies { start: Duration::ZERO, stop: Duration::ZERO };
    let mut sim = Simulation::new(1, Options { latencies, ..Options::default() });
    sim.create(&set(1, "OrderedReady", &rolling(0)));
    sim.run_for(QUIET);
    let first = sim.object("pods", "db-0")["metadata"]["uid"].clone();
    sim.set_faults(Faults { late_deletions_per_mille: 1000, ..Faults::NONE });
    patch(&mut sim, &json!({"replicas": 0}));
    sim.run_for(Duration::from_secs(1));
    assert_eq!(sim.object("pods", "db-0")["metadata"]["uid"], first, "what was asked for is on its way");
    sim.set_faults(Faults::NONE);
    sim.run_until("the pod is gone", LATE_BY - Duration::from_secs(2), |seen| seen.pod_count() == 0);
    patch(&mut sim, &json!({"replicas": 1}));
    sim.run_for(Duration::from_secs(1));
    let second = sim.object("pods", "db-0")["metadata"]["uid"].clone();
    assert!(second.is_string() && second != first, "{first} {second}");
    sim.run_for(LATE_BY);
    assert_eq!(sim.object("pods", "db-0")["metadata"]["uid"], second);
}
