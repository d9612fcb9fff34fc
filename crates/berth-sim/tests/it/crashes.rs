//! Controllers that are killed after any write, and restart, have the same result as without the kill (kubernetes#44734). The limits are checked after
//! every change of the store.

use berth_api::FeatureGates;
use berth_node::Latencies;
use berth_sim::{
    Gates, Options, Part, Simulation,
    crashes::{self, End},
    network::Crash,
};
use berth_store::{env::Timestamp, virtual_time::Order};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt::Write as _, sync::Arc, time::Duration};

/// Longer than any scenario here needs to become quiet.
const LONGEST: Duration = Duration::from_secs(600);
/// For the controllers to do what can be done at once, however often they crash; shorter than any pod here takes to go.
const AT_ONCE: Duration = Duration::from_secs(5);
/// Until another replica is the leader, whichever was before.
const TAKEN_OVER: Duration = Duration::from_secs(25);

/// What happens in one scenario.
struct Scenario {
    name: &'static str,
    /// The Deployment `web` as it is created; it is rolled out before anything else happens.
    deployment: Value,
    /// What its user does then. The controllers may crash from here on.
    script: fn(&mut Simulation),
}

fn deployment(replicas: u32, policy: Option<&str>, strategy: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "podReplacementPolicy": policy,
            "strategy": strategy,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "main:1"}]},
            },
        },
    })
}

fn rolling(surge: &Value, unavailable: &Value) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

/// Pods whose termination takes this long.
fn stopping_after(mut deployment: Value, seconds: u32) -> Value {
    let template = &mut deployment["spec"]["template"];
    template["metadata"]["annotations"] = json!({"sim.berth.dev/terminates-after": format!("{seconds}s")});
    template["spec"]["terminationGracePeriodSeconds"] = json!(seconds);
    deployment
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
    sim.create(&scenario.deployment);
    sim.run_until_rolled_out("web", LONGEST);
    sim.run_for(AT_ONCE);
    sim.crash_controllers(crash);
    (scenario.script)(&mut sim);
    sim.run_for(AT_ONCE);
    let mut times = BTreeMap::new();
    let state = state(&sim, &mut times);
    End { writes: sim.controller_writes(), state, times }
}

/// What must not depend on crashes: all but names, uids, versions and times.
fn state(sim: &Simulation, times: &mut BTreeMap<String, Timestamp>) -> String {
    let web = sim.object("deployments", "web");
    let mut text = format!("{} {}\n", annotations(&web, times), web["spec"]["replicas"]);
    let status = &web["status"];
    for count in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas", "terminatingReplicas"] {
        write!(text, "{count}={} ", status[count]).expect("memory");
    }
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let mut conditions: Vec<_> = conditions.iter().map(|c| format!("\n{} {} {}", c["type"], c["status"], c["reason"])).collect();
    conditions.sort();
    text.push_str(&conditions.concat());
    for (name, set) in sim.objects("replicasets") {
        let image = &set["spec"]["template"]["spec"]["containers"][0]["image"];
        let pods = pods_of(sim, &set["metadata"]["uid"]);
        write!(text, "\n{image}: {} {name} {pods} {}", set["spec"]["replicas"], annotations(&set, times)).expect("memory");
    }
    text
}

/// Without times, and without what names a pod.
fn annotations(object: &Value, times: &mut BTreeMap<String, Timestamp>) -> Value {
    let mut annotations = object["metadata"]["annotations"].clone();
    crashes::take_times(object["metadata"]["name"].as_str().expect("a name"), &mut annotations, times);
    if let Some(map) = annotations.as_object_mut() {
        map.remove("berth.dev/completed-at");
        if let Some(record) = map.get_mut("berth.dev/rollback") {
            let mut told: Value = serde_json::from_str(record.as_str().expect("text")).expect("JSON");
            told["message"].take();
            *record = told;
        }
    }
    annotations
}

/// How many pods a set has that stay, and that go.
fn pods_of(sim: &Simulation, uid: &Value) -> String {
    let pods = sim.objects("pods");
    let ours: Vec<_> = pods.values().filter(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == *uid).collect();
    let going = ours.iter().filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null()).count();
    format!("{} pods and {going} that go", ours.len() - going)
}

/// The power goes after each change that a rollout makes, once: what every part has seen of the store is there afterwards, and the rollout ends as it does
/// without that. What of the disk's unsynced bytes survives differs from one to the next.
#[test]
fn a_rollout_goes_on_after_a_power_loss_at_any_of_its_changes() {
    let run = |lost_after: Option<usize>| {
        let latencies = Latencies { start: Duration::ZERO, stop: Duration::ZERO };
        let mut sim = Simulation::on_disk(1, Options { order: Order::Fifo, latencies, nodes: 1, ..Options::default() });
        sim.create(&deployment(3, None, &rolling(&json!(1), &json!(1))));
        sim.run_until_rolled_out("web", LONGEST);
        sim.run_for(AT_ONCE);
        sim.set_image("web", "main:2");
        let before = sim.log().len();
        if let Some(changes) = lost_after {
            sim.run_until_seen("the change after which the power goes", LONGEST, |sim| before + changes <= sim.log().len());
            sim.lose_power(changes as u64);
        }
        sim.run_until_rolled_out("web", LONGEST);
        let changes = sim.log().len() - before;
        sim.run_for(AT_ONCE);
        (state(&sim, &mut BTreeMap::new()), changes)
    };
    let (wanted, changes) = run(None);
    for after in 0..changes {
        assert_eq!(run(Some(after)).0, wanted, "power lost after {after} of {changes} changes");
    }
}

#[test]
fn a_rolling_update() {
    check(&Scenario {
        name: "a_rolling_update",
        deployment: deployment(3, None, &rolling(&json!("25%"), &json!("25%"))),
        script: |sim| {
            sim.set_image("web", "main:2");
            sim.run_until_rolled_out("web", LONGEST);
        },
    });
}

#[test]
fn recreation() {
    check(&Scenario {
        name: "recreation",
        deployment: deployment(3, None, &json!({"type": "Recreate"})),
        script: |sim| {
            sim.set_image("web", "main:2");
            sim.run_until_rolled_out("web", LONGEST);
        },
    });
}

#[test]
fn an_update_that_waits_for_slow_pods_to_be_gone() {
    check(&Scenario {
        name: "an_update_that_waits_for_slow_pods_to_be_gone",
        deployment: stopping_after(deployment(3, Some("TerminationComplete"), &rolling(&json!(1), &json!(1))), 20),
        script: |sim| {
            sim.set_image("web", "main:2");
            sim.run_until_rolled_out("web", LONGEST);
        },
    });
}

/// Two sets of several pods each, and terminating pods: the scale is partial until they are deleted.
#[test]
fn a_scale_in_the_middle_of_an_update_that_waits_for_slow_pods() {
    check(&Scenario {
        name: "a_scale_in_the_middle_of_an_update_that_waits_for_slow_pods",
        deployment: stopping_after(deployment(4, Some("TerminationComplete"), &rolling(&json!(2), &json!(2))), 20),
        script: |sim| {
            sim.set_image("web", "main:2");
            sim.run_for(AT_ONCE);
            sim.scale("web", 6);
            sim.run_for(AT_ONCE);
            sim.scale("web", 7);
            sim.run_until_rolled_out("web", LONGEST);
        },
    });
}

/// The new pods are never ready, so that the rollout makes no progress where it is scaled.
#[test]
fn proportional_scaling() {
    check(&Scenario {
        name: "proportional_scaling",
        deployment: deployment(5, None, &rolling(&json!(2), &json!(1))),
        script: |sim| {
            break_template(sim, "main:2");
            sim.run_for(AT_ONCE);
            sim.scale("web", 10);
            sim.run_for(AT_ONCE);
            sim.scale("web", 6);
            sim.run_for(AT_ONCE);
        },
    });
}

fn break_template(sim: &mut Simulation, image: &str) {
    let template = json!({
        "metadata": {"annotations": {"sim.berth.dev/fails": "NeverReady"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    });
    sim.patch_deployment("web", json!({"spec": {"template": template}}));
}

#[test]
fn going_back() {
    check(&Scenario {
        name: "going_back",
        deployment: deployment(3, None, &rolling(&json!(1), &json!(1))),
        script: |sim| {
            sim.set_image("web", "main:2");
            sim.run_until_rolled_out("web", LONGEST);
            sim.run_for(AT_ONCE);
            sim.undo("web");
            sim.run_for(AT_ONCE);
            sim.run_until_rolled_out("web", LONGEST);
        },
    });
}

/// The deadline passes, the template is rolled back, and nothing is done twice.
#[test]
fn going_back_by_itself() {
    let mut deployment = deployment(3, None, &rolling(&json!(1), &json!(1)));
    deployment["metadata"]["annotations"] = json!({"berth.dev/auto-rollback": "OnDeadline"});
    deployment["spec"]["progressDeadlineSeconds"] = json!(20);
    check(&Scenario {
        name: "going_back_by_itself",
        deployment,
        script: |sim| {
            break_template(sim, "main:2");
            let image = |sim: &Simulation| sim.object("deployments", "web")["spec"]["template"]["spec"]["containers"][0]["image"].clone();
            sim.run_until_seen("it goes back", LONGEST, |sim| image(sim) == "main:1" && sim.seen().is_rolled_out("web"));
            // A user applies it again, and it stays.
            break_template(sim, "main:2");
            sim.run_for(Duration::from_secs(90));
            assert_eq!((image(sim), sim.seen().rollbacks()), (json!("main:2"), 1));
        },
    });
}

/// The leader ends, or pauses for long enough, after each write about the workload, and another continues: the template is rolled back once, and the
/// records are the same as without that.
#[test]
fn going_back_by_itself_under_the_next_leader() {
    let mut web = deployment(3, None, &rolling(&json!(1), &json!(1)));
    web["metadata"]["annotations"] = json!({"berth.dev/auto-rollback": "OnDeadline"});
    web["spec"]["progressDeadlineSeconds"] = json!(20);
    let run = |ends: Option<(usize, bool)>| {
        let latencies = Latencies { start: Duration::ZERO, stop: Duration::ZERO };
        let mut sim = Simulation::new(1, Options { order: Order::Fifo, latencies, nodes: 1, standby: true, ..Options::default() });
        sim.restart_with(keeping_records());
        sim.create(&web);
        sim.run_until_rolled_out("web", LONGEST);
        sim.run_for(AT_ONCE);
        break_template(&mut sim, "main:2");
        let from = sim.log().len();
        let writes = |sim: &Simulation| {
            sim.log()[from..].iter().filter(|line| line.contains(" deployments ") || line.contains(" replicasets ")).count()
        };
        if let Some((after, is_killed)) = ends {
            sim.run_until_seen("the write after which another leads", LONGEST, |sim| after <= writes(sim));
            let holder = sim.object("leases", "berth-controller-manager")["spec"]["holderIdentity"].to_string();
            let leader = if holder.contains("Standby") { Part::Standby } else { Part::Controllers };
            if is_killed {
                sim.kill(leader);
            } else {
                sim.pause(leader);
            }
            sim.run_for(TAKEN_OVER);
            if is_killed {
                sim.start(leader);
            } else {
                sim.resume(leader);
            }
            let next = sim.object("leases", "berth-controller-manager")["spec"]["holderIdentity"].to_string();
            assert_ne!(next, holder, "another leads");
        }
        let image = |sim: &Simulation| sim.object("deployments", "web")["spec"]["template"]["spec"]["containers"][0]["image"].clone();
        sim.run_until_seen("it goes back", LONGEST, |sim| image(sim) == "main:1" && sim.seen().is_rolled_out("web"));
        let writes = writes(&sim);
        sim.run_for(TAKEN_OVER);
        assert_eq!(sim.seen().rollbacks(), 1, "{ends:?}");
        (state(&sim, &mut BTreeMap::new()), writes)
    };
    let (wanted, writes) = run(None);
    assert!(wanted.contains("RolledBack"), "{wanted}");
    for (after, is_killed) in (0..writes).flat_map(|after| [(after, true), (after, false)]) {
        let ended = if is_killed { "killed" } else { "stopped for a while" };
        assert_eq!(run(Some((after, is_killed))).0, wanted, "the leader was {ended} after {after} of {writes} writes");
    }
}

#[test]
fn a_scale_that_a_pod_blocks_indefinitely_and_a_corrected_template() {
    check(&Scenario {
        name: "a_scale_that_a_pod_blocks_indefinitely_and_a_corrected_template",
        deployment: stopping_after(deployment(4, Some("TerminationComplete"), &rolling(&json!(1), &json!(1))), 100_000),
        script: |sim| {
            sim.scale("web", 2);
            sim.run_for(AT_ONCE);
            sim.scale("web", 4);
            sim.run_for(AT_ONCE);
            let corrected = json!({
                "metadata": {"annotations": {"sim.berth.dev/terminates-after": null}},
                "spec": {"containers": [{"name": "main", "image": "main:2"}], "terminationGracePeriodSeconds": 1},
            });
            sim.patch_deployment("web", json!({"spec": {"template": corrected}}));
            sim.run_for(AT_ONCE);
        },
    });
}
