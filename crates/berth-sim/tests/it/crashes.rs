//! Controllers that are killed after any write, and start anew, bring about what they would have brought about without that
//! (kubernetes#44734). The limits are checked after every change of the store.

use berth_api::FeatureGates;
use berth_node::Latencies;
use berth_sim::{
    Gates, Options, Part, World,
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
/// Until another leads, whoever led.
const TAKEN_OVER: Duration = Duration::from_secs(25);

/// What happens in one scenario.
struct Scenario {
    name: &'static str,
    /// The Deployment `web` as it is created; it is rolled out before anything else happens.
    deployment: Value,
    /// What its user does then. The controllers may crash from here on.
    script: fn(&mut World),
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
    let mut world = World::new(1, Options { order: Order::Fifo, latencies, nodes: 1, ..Options::default() });
    world.restart_with(gates.clone());
    world.create(&scenario.deployment);
    world.run_until_rolled_out("web", LONGEST);
    world.run_for(AT_ONCE);
    world.crash_controllers(crash);
    (scenario.script)(&mut world);
    world.run_for(AT_ONCE);
    let mut times = BTreeMap::new();
    let state = state(&world, &mut times);
    End { writes: world.controller_writes(), state, times }
}

/// What must not depend on crashes: all but names, uids, versions and times.
fn state(world: &World, times: &mut BTreeMap<String, Timestamp>) -> String {
    let web = world.object("deployments", "web");
    let mut text = format!("{} {}\n", annotations(&web, times), web["spec"]["replicas"]);
    let status = &web["status"];
    for count in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas", "terminatingReplicas"] {
        write!(text, "{count}={} ", status[count]).expect("memory");
    }
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let mut conditions: Vec<_> = conditions.iter().map(|c| format!("\n{} {} {}", c["type"], c["status"], c["reason"])).collect();
    conditions.sort();
    text.push_str(&conditions.concat());
    for (name, set) in world.objects("replicasets") {
        let image = &set["spec"]["template"]["spec"]["containers"][0]["image"];
        let pods = pods_of(world, &set["metadata"]["uid"]);
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
fn pods_of(world: &World, uid: &Value) -> String {
    let pods = world.objects("pods");
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
        let mut world = World::on_disk(1, Options { order: Order::Fifo, latencies, nodes: 1, ..Options::default() });
        world.create(&deployment(3, None, &rolling(&json!(1), &json!(1))));
        world.run_until_rolled_out("web", LONGEST);
        world.run_for(AT_ONCE);
        world.set_image("web", "main:2");
        let before = world.log().len();
        if let Some(changes) = lost_after {
            world.run_until_seen("the change after which the power goes", LONGEST, |world| before + changes <= world.log().len());
            world.lose_power(changes as u64);
        }
        world.run_until_rolled_out("web", LONGEST);
        let changes = world.log().len() - before;
        world.run_for(AT_ONCE);
        (state(&world, &mut BTreeMap::new()), changes)
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
        script: |world| {
            world.set_image("web", "main:2");
            world.run_until_rolled_out("web", LONGEST);
        },
    });
}

#[test]
fn recreation() {
    check(&Scenario {
        name: "recreation",
        deployment: deployment(3, None, &json!({"type": "Recreate"})),
        script: |world| {
            world.set_image("web", "main:2");
            world.run_until_rolled_out("web", LONGEST);
        },
    });
}

#[test]
fn an_update_that_waits_for_slow_pods_to_be_gone() {
    check(&Scenario {
        name: "an_update_that_waits_for_slow_pods_to_be_gone",
        deployment: stopping_after(deployment(3, Some("TerminationComplete"), &rolling(&json!(1), &json!(1))), 20),
        script: |world| {
            world.set_image("web", "main:2");
            world.run_until_rolled_out("web", LONGEST);
        },
    });
}

/// Two sets of several pods each, and pods that go: the scale is partial until they are gone.
#[test]
fn a_scale_in_the_middle_of_an_update_that_waits_for_slow_pods() {
    check(&Scenario {
        name: "a_scale_in_the_middle_of_an_update_that_waits_for_slow_pods",
        deployment: stopping_after(deployment(4, Some("TerminationComplete"), &rolling(&json!(2), &json!(2))), 20),
        script: |world| {
            world.set_image("web", "main:2");
            world.run_for(AT_ONCE);
            world.scale("web", 6);
            world.run_for(AT_ONCE);
            world.scale("web", 7);
            world.run_until_rolled_out("web", LONGEST);
        },
    });
}

/// The new pods are never ready, so that the rollout stands still where it is scaled.
#[test]
fn proportional_scaling() {
    check(&Scenario {
        name: "proportional_scaling",
        deployment: deployment(5, None, &rolling(&json!(2), &json!(1))),
        script: |world| {
            break_template(world, "main:2");
            world.run_for(AT_ONCE);
            world.scale("web", 10);
            world.run_for(AT_ONCE);
            world.scale("web", 6);
            world.run_for(AT_ONCE);
        },
    });
}

fn break_template(world: &mut World, image: &str) {
    let template = json!({
        "metadata": {"annotations": {"sim.berth.dev/fails": "NeverReady"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    });
    world.patch_deployment("web", json!({"spec": {"template": template}}));
}

#[test]
fn going_back() {
    check(&Scenario {
        name: "going_back",
        deployment: deployment(3, None, &rolling(&json!(1), &json!(1))),
        script: |world| {
            world.set_image("web", "main:2");
            world.run_until_rolled_out("web", LONGEST);
            world.run_for(AT_ONCE);
            world.undo("web");
            world.run_for(AT_ONCE);
            world.run_until_rolled_out("web", LONGEST);
        },
    });
}

/// The deadline passes, the template gives way, and nothing is done twice.
#[test]
fn going_back_by_itself() {
    let mut deployment = deployment(3, None, &rolling(&json!(1), &json!(1)));
    deployment["metadata"]["annotations"] = json!({"berth.dev/auto-rollback": "OnDeadline"});
    deployment["spec"]["progressDeadlineSeconds"] = json!(20);
    check(&Scenario {
        name: "going_back_by_itself",
        deployment,
        script: |world| {
            break_template(world, "main:2");
            let image = |world: &World| world.object("deployments", "web")["spec"]["template"]["spec"]["containers"][0]["image"].clone();
            world.run_until_seen("it goes back", LONGEST, |world| image(world) == "main:1" && world.seen().is_rolled_out("web"));
            // Somebody brings it back, and it stays.
            break_template(world, "main:2");
            world.run_for(Duration::from_secs(90));
            assert_eq!((image(world), world.seen().rollbacks()), (json!("main:2"), 1));
        },
    });
}

/// The leader ends, or stands still for long enough, after each write about the workload, and another goes on: the template gives way once, and what is
/// recorded is what is recorded without that.
#[test]
fn going_back_by_itself_under_the_next_leader() {
    let mut web = deployment(3, None, &rolling(&json!(1), &json!(1)));
    web["metadata"]["annotations"] = json!({"berth.dev/auto-rollback": "OnDeadline"});
    web["spec"]["progressDeadlineSeconds"] = json!(20);
    let run = |ends: Option<(usize, bool)>| {
        let latencies = Latencies { start: Duration::ZERO, stop: Duration::ZERO };
        let mut world = World::new(1, Options { order: Order::Fifo, latencies, nodes: 1, standby: true, ..Options::default() });
        world.restart_with(keeping_records());
        world.create(&web);
        world.run_until_rolled_out("web", LONGEST);
        world.run_for(AT_ONCE);
        break_template(&mut world, "main:2");
        let from = world.log().len();
        let writes = |world: &World| {
            world.log()[from..].iter().filter(|line| line.contains(" deployments ") || line.contains(" replicasets ")).count()
        };
        if let Some((after, is_killed)) = ends {
            world.run_until_seen("the write after which another leads", LONGEST, |world| after <= writes(world));
            let holder = world.object("leases", "berth-controller-manager")["spec"]["holderIdentity"].to_string();
            let leader = if holder.contains("Standby") { Part::Standby } else { Part::Controllers };
            if is_killed {
                world.kill(leader);
            } else {
                world.pause(leader);
            }
            world.run_for(TAKEN_OVER);
            if is_killed {
                world.start(leader);
            } else {
                world.resume(leader);
            }
            let next = world.object("leases", "berth-controller-manager")["spec"]["holderIdentity"].to_string();
            assert_ne!(next, holder, "another leads");
        }
        let image = |world: &World| world.object("deployments", "web")["spec"]["template"]["spec"]["containers"][0]["image"].clone();
        world.run_until_seen("it goes back", LONGEST, |world| image(world) == "main:1" && world.seen().is_rolled_out("web"));
        let writes = writes(&world);
        world.run_for(TAKEN_OVER);
        assert_eq!(world.seen().rollbacks(), 1, "{ends:?}");
        (state(&world, &mut BTreeMap::new()), writes)
    };
    let (wanted, writes) = run(None);
    assert!(wanted.contains("RolledBack"), "{wanted}");
    for (after, is_killed) in (0..writes).flat_map(|after| [(after, true), (after, false)]) {
        let ended = if is_killed { "killed" } else { "stopped for a while" };
        assert_eq!(run(Some((after, is_killed))).0, wanted, "the leader was {ended} after {after} of {writes} writes");
    }
}

#[test]
fn a_scale_that_a_pod_holds_up_for_ever_and_a_corrected_template() {
    check(&Scenario {
        name: "a_scale_that_a_pod_holds_up_for_ever_and_a_corrected_template",
        deployment: stopping_after(deployment(4, Some("TerminationComplete"), &rolling(&json!(1), &json!(1))), 100_000),
        script: |world| {
            world.scale("web", 2);
            world.run_for(AT_ONCE);
            world.scale("web", 4);
            world.run_for(AT_ONCE);
            let corrected = json!({
                "metadata": {"annotations": {"sim.berth.dev/terminates-after": null}},
                "spec": {"containers": [{"name": "main", "image": "main:2"}], "terminationGracePeriodSeconds": 1},
            });
            world.patch_deployment("web", json!({"spec": {"template": corrected}}));
            world.run_for(AT_ONCE);
        },
    });
}
