//! Pods whose ReplicaSet is gone count as their Deployment's until they are gone too: in what it waits for, in what it reports, in its limits,
//! which are checked after every change of the store.

use berth_node::Latencies;
use berth_sim::{Options, World};
use serde_json::{Value, json};
use std::time::Duration;

const LONGEST: Duration = Duration::from_secs(3600);
/// For the controllers to do what can be done at once; shorter than any pod takes to go.
const AT_ONCE: Duration = Duration::from_secs(3);
const POLICIES: [Option<&str>; 3] = [None, Some("TerminationStarted"), Some("TerminationComplete")];

fn recreate() -> Value {
    json!({"type": "Recreate"})
}

fn rolling() -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}})
}

fn deployment(name: &str, policy: Option<&str>, strategy: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": 6, "podReplacementPolicy": policy, "strategy": strategy,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": format!("{name}:1")}]},
            },
        },
    })
}

/// A world in which `web` runs; its pods start within 1 s and need 30 s to stop.
fn world(policy: Option<&str>, strategy: &Value) -> World {
    let latencies = Latencies { start: Duration::from_secs(1), stop: Duration::from_secs(30) };
    let mut world = World::new(1, Options { latencies, ..Options::default() });
    world.create(&deployment("web", policy, strategy));
    world.run_until_rolled_out("web", LONGEST);
    world.run_for(AT_ONCE);
    world
}

fn is_terminating(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

/// Pods of a Deployment that nobody has asked to go, and pods that still go.
fn pods(world: &World, deployment: &str) -> (usize, usize) {
    let pods = world.objects("pods");
    let ours = || pods.iter().filter(|(name, _)| name.starts_with(&format!("{deployment}-"))).map(|(_, pod)| pod);
    let terminating = ours().filter(|pod| is_terminating(pod)).count();
    (ours().count() - terminating, terminating)
}

/// `status.terminatingReplicas`.
fn reported(world: &World, deployment: &str) -> i64 {
    world.object("deployments", deployment)["status"]["terminatingReplicas"].as_i64().unwrap_or(-1)
}

fn is_complete(world: &World) -> bool {
    let web = world.object("deployments", "web");
    let conditions = web["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| condition["reason"] == "NewReplicaSetAvailable") && web["status"]["updatedReplicas"] == 6
}

fn messages(world: &World, deployment: &str) -> Vec<String> {
    let events = world.objects("events");
    let of = events.values().filter(|event| event["involvedObject"]["name"] == deployment);
    of.map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
}

fn delete_set_of(world: &mut World, deployment: &str) {
    let set = world.objects("replicasets").into_keys().find(|name| name.starts_with(&format!("{deployment}-"))).expect("a set");
    world.delete_set(&set);
}

#[test]
fn a_set_deleted_by_hand_leaves_pods_that_count() {
    for policy in POLICIES {
        for strategy in [recreate(), rolling()] {
            let mut world = world(policy, &strategy);
            let first = world.objects("pods");
            delete_set_of(&mut world, "web");
            world.run_for(AT_ONCE);
            let waits = policy == Some("TerminationComplete") || (policy.is_none() && strategy["type"] == "Recreate");
            let live = match (waits, strategy["type"] == "Recreate") {
                (false, _) => 6,
                (true, true) => 0,
                (true, false) => 1,
            };
            assert_eq!((pods(&world, "web"), reported(&world, "web")), ((live, 6), 6), "{policy:?} {strategy}");
            if waits {
                assert!(!is_complete(&world), "{policy:?} {strategy}");
                let told = messages(&world, "web");
                let wanted = format!("waiting for 6 terminating pods ({}", "web-");
                assert!(told.iter().any(|message| message.starts_with(&wanted)), "{told:?}");
            }
            world.run_until_seen("it is complete", LONGEST, is_complete);
            let left = world.objects("pods").keys().filter(|name| first.contains_key(*name)).count();
            assert!(policy != Some("TerminationComplete") || left == 0, "{policy:?} {strategy}: complete beside {left} pods that go");
            world.run_until("the rest is gone", LONGEST, |seen| seen.pod_count() == 6);
            world.run_until_seen("nothing is reported to go", AT_ONCE, |world| reported(world, "web") == 0);
        }
    }
}

#[test]
fn a_set_deleted_by_hand_in_the_middle_of_an_update_leaves_pods_that_count() {
    for policy in POLICIES {
        for seconds in [0, 2, 5, 20, 33] {
            let mut world = world(policy, &rolling());
            world.set_image("web", "web:2");
            world.run_for(Duration::from_secs(seconds));
            let left = world.objects("pods");
            for set in world.objects("replicasets").into_keys() {
                world.delete_set(&set);
            }
            world.run_until("all pods of these sets are gone", LONGEST, |seen| {
                let live = seen.live_pods();
                seen.pod_count() == 6 && live.len() == 6 && !live.iter().any(|name| left.contains_key(*name))
            });
            world.run_until_rolled_out("web", LONGEST);
            world.run_until_seen("it is complete", AT_ONCE, |world| is_complete(world) && reported(world, "web") == 0);
        }
    }
}

#[test]
fn a_deployment_that_is_made_anew_reports_the_pods_that_it_waits_for() {
    for policy in POLICIES {
        for strategy in [recreate(), rolling()] {
            let mut world = world(policy, &strategy);
            world.delete_deployment("web");
            world.create(&deployment("web", policy, &strategy));
            let most = if policy == Some("TerminationComplete") { 7 } else { usize::MAX };
            world.run_until_seen("all of the first are told to go", AT_ONCE, |world| {
                let (live, terminating) = pods(world, "web");
                assert!(live <= 7 && live + terminating <= most, "{policy:?} {strategy}: {live} and {terminating}");
                terminating == 6
            });
            world.run_for(AT_ONCE);
            let (live, terminating) = pods(&world, "web");
            assert!(live + terminating <= most, "{policy:?} {strategy}: {live} and {terminating}");
            assert_eq!((terminating, reported(&world, "web")), (6, 6), "{policy:?} {strategy}");
            world.run_until_seen("it is complete", LONGEST, is_complete);
            world.run_until("the rest is gone", LONGEST, |seen| seen.pod_count() == 6);
            world.run_until_seen("nothing is reported to go", AT_ONCE, |world| reported(world, "web") == 0);
        }
    }
}

#[test]
fn of_two_deployments_of_one_selector_each_counts_its_own() {
    let mut world = world(Some("TerminationComplete"), &rolling());
    world.create(&deployment("other", Some("TerminationComplete"), &rolling()));
    world.run_until_rolled_out("other", LONGEST);
    world.run_for(AT_ONCE);
    delete_set_of(&mut world, "web");
    world.run_for(AT_ONCE);
    assert_eq!((pods(&world, "web"), reported(&world, "web")), ((1, 6), 6));
    assert_eq!((pods(&world, "other"), reported(&world, "other")), ((6, 0), 0));
    world.set_image("other", "other:2");
    world.run_for(AT_ONCE);
    assert_eq!((pods(&world, "web"), pods(&world, "other")), ((1, 6), (5, 2)), "the other's rollout has its own room");
    assert_eq!((reported(&world, "web"), reported(&world, "other")), (6, 2));
    let told = messages(&world, "other");
    assert!(told.iter().any(|message| message.starts_with("waiting for 1 terminating pod ")), "{told:?}");
}

/// Its set is deleted with it, or alone, while it creates pods: those on their way count, and so do those that a former Deployment's set is still to create.
#[test]
fn a_set_that_is_deleted_while_it_creates_pods_leaves_no_more_than_there_may_be() {
    const MANY: usize = 60;
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    for seed in 0..24_u64 {
        let latencies = Latencies { start: Duration::from_secs(1), stop: Duration::from_secs(30) };
        let mut world = World::new(seed, Options { latencies, ..Options::default() });
        world.create(&deployment("web", Some("TerminationComplete"), &strategy));
        world.run_until_rolled_out("web", LONGEST);
        let mut many = deployment("web", Some("TerminationComplete"), &strategy);
        many["spec"]["replicas"] = json!(MANY);
        world.patch_deployment("web", json!({"spec": {"replicas": MANY}}));
        world.run_for(Duration::from_millis(seed));
        if seed.is_multiple_of(2) {
            world.delete_deployment("web");
            world.create(&many);
        } else {
            delete_set_of(&mut world, "web");
        }
        world.run_until("all pods of the first set are gone", LONGEST, |seen| {
            assert!(seen.pod_count() <= MANY + 1, "seed {seed}: {} pods", seen.pod_count());
            seen.live_pods().len() == MANY
        });
    }
}
