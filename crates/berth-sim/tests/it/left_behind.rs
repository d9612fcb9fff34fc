//! Pods whose ReplicaSet is gone count as their Deployment's until they are gone too: in what it waits for, in what it reports, in its limits,
//! which are checked after every change of the store.

use berth_node::Latencies;
use berth_sim::{Options, Simulation};
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

/// A simulation in which `web` runs. Its pods start within 1 s and need 30 s to stop.
fn simulation(policy: Option<&str>, strategy: &Value) -> Simulation {
    let latencies = Latencies { start: Duration::from_secs(1), stop: Duration::from_secs(30) };
    let mut sim = Simulation::new(1, Options { latencies, ..Options::default() });
    sim.create(&deployment("web", policy, strategy));
    sim.run_until_rolled_out("web", LONGEST);
    sim.run_for(AT_ONCE);
    sim
}

fn is_terminating(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

/// Pods of a Deployment without a `deletionTimestamp`, and terminating pods.
fn pods(sim: &Simulation, deployment: &str) -> (usize, usize) {
    let pods = sim.objects("pods");
    let ours = || pods.iter().filter(|(name, _)| name.starts_with(&format!("{deployment}-"))).map(|(_, pod)| pod);
    let terminating = ours().filter(|pod| is_terminating(pod)).count();
    (ours().count() - terminating, terminating)
}

/// `status.terminatingReplicas`.
fn reported(sim: &Simulation, deployment: &str) -> i64 {
    sim.object("deployments", deployment)["status"]["terminatingReplicas"].as_i64().unwrap_or(-1)
}

fn is_complete(sim: &Simulation) -> bool {
    let web = sim.object("deployments", "web");
    let conditions = web["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| condition["reason"] == "NewReplicaSetAvailable") && web["status"]["updatedReplicas"] == 6
}

fn messages(sim: &Simulation, deployment: &str) -> Vec<String> {
    let events = sim.objects("events");
    let of = events.values().filter(|event| event["involvedObject"]["name"] == deployment);
    of.map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
}

fn delete_set_of(sim: &mut Simulation, deployment: &str) {
    let set = sim.objects("replicasets").into_keys().find(|name| name.starts_with(&format!("{deployment}-"))).expect("a set");
    sim.delete_set(&set);
}

#[test]
fn a_set_deleted_by_hand_leaves_pods_that_count() {
    for policy in POLICIES {
        for strategy in [recreate(), rolling()] {
            let mut sim = simulation(policy, &strategy);
            let first = sim.objects("pods");
            delete_set_of(&mut sim, "web");
            sim.run_for(AT_ONCE);
            let waits = policy == Some("TerminationComplete") || (policy.is_none() && strategy["type"] == "Recreate");
            let live = match (waits, strategy["type"] == "Recreate") {
                (false, _) => 6,
                (true, true) => 0,
                (true, false) => 1,
            };
            assert_eq!((pods(&sim, "web"), reported(&sim, "web")), ((live, 6), 6), "{policy:?} {strategy}");
            if waits {
                assert!(!is_complete(&sim), "{policy:?} {strategy}");
                let told = messages(&sim, "web");
                let wanted = format!("waiting for 6 terminating pods ({}", "web-");
                assert!(told.iter().any(|message| message.starts_with(&wanted)), "{told:?}");
            }
            sim.run_until_seen("it is complete", LONGEST, is_complete);
            let left = sim.objects("pods").keys().filter(|name| first.contains_key(*name)).count();
            assert!(policy != Some("TerminationComplete") || left == 0, "{policy:?} {strategy}: complete beside {left} pods that go");
            sim.run_until("the rest is gone", LONGEST, |seen| seen.pod_count() == 6);
            sim.run_until_seen("nothing is reported to go", AT_ONCE, |sim| reported(sim, "web") == 0);
        }
    }
}

#[test]
fn a_set_deleted_by_hand_in_the_middle_of_an_update_leaves_pods_that_count() {
    for policy in POLICIES {
        for seconds in [0, 2, 5, 20, 33] {
            let mut sim = simulation(policy, &rolling());
            sim.set_image("web", "web:2");
            sim.run_for(Duration::from_secs(seconds));
            let left = sim.objects("pods");
            for set in sim.objects("replicasets").into_keys() {
                sim.delete_set(&set);
            }
            sim.run_until("all pods of these sets are gone", LONGEST, |seen| {
                let live = seen.live_pods();
                seen.pod_count() == 6 && live.len() == 6 && !live.iter().any(|name| left.contains_key(*name))
            });
            sim.run_until_rolled_out("web", LONGEST);
            sim.run_until_seen("it is complete", AT_ONCE, |sim| is_complete(sim) && reported(sim, "web") == 0);
        }
    }
}

#[test]
fn a_recreated_deployment_reports_the_pods_that_it_waits_for() {
    for policy in POLICIES {
        for strategy in [recreate(), rolling()] {
            let mut sim = simulation(policy, &strategy);
            sim.delete_deployment("web");
            sim.create(&deployment("web", policy, &strategy));
            let most = if policy == Some("TerminationComplete") { 7 } else { usize::MAX };
            sim.run_until_seen("all of the first are told to go", AT_ONCE, |sim| {
                let (live, terminating) = pods(sim, "web");
                assert!(live <= 7 && live + terminating <= most, "{policy:?} {strategy}: {live} and {terminating}");
                terminating == 6
            });
            sim.run_for(AT_ONCE);
            let (live, terminating) = pods(&sim, "web");
            assert!(live + terminating <= most, "{policy:?} {strategy}: {live} and {terminating}");
            assert_eq!((terminating, reported(&sim, "web")), (6, 6), "{policy:?} {strategy}");
            sim.run_until_seen("it is complete", LONGEST, is_complete);
            sim.run_until("the rest is gone", LONGEST, |seen| seen.pod_count() == 6);
            sim.run_until_seen("nothing is reported to go", AT_ONCE, |sim| reported(sim, "web") == 0);
        }
    }
}

#[test]
fn of_two_deployments_of_one_selector_each_counts_its_own() {
    let mut sim = simulation(Some("TerminationComplete"), &rolling());
    sim.create(&deployment("other", Some("TerminationComplete"), &rolling()));
    sim.run_until_rolled_out("other", LONGEST);
    sim.run_for(AT_ONCE);
    delete_set_of(&mut sim, "web");
    sim.run_for(AT_ONCE);
    assert_eq!((pods(&sim, "web"), reported(&sim, "web")), ((1, 6), 6));
    assert_eq!((pods(&sim, "other"), reported(&sim, "other")), ((6, 0), 0));
    sim.set_image("other", "other:2");
    sim.run_for(AT_ONCE);
    assert_eq!((pods(&sim, "web"), pods(&sim, "other")), ((1, 6), (5, 2)), "the other's rollout has its own room");
    assert_eq!((reported(&sim, "web"), reported(&sim, "other")), (6, 2));
    let told = messages(&sim, "other");
    assert!(told.iter().any(|message| message.starts_with("waiting for 1 terminating pod ")), "{told:?}");
}

/// Its set is deleted with it, or alone, while it creates pods: those on their way count, and so do those that a former Deployment's set is still to create.
#[test]
fn a_set_that_is_deleted_while_it_creates_pods_leaves_no_more_than_there_may_be() {
    const MANY: usize = 60;
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    for seed in 0..24_u64 {
        let latencies = Latencies { start: Duration::from_secs(1), stop: Duration::from_secs(30) };
        let mut sim = Simulation::new(seed, Options { latencies, ..Options::default() });
        sim.create(&deployment("web", Some("TerminationComplete"), &strategy));
        sim.run_until_rolled_out("web", LONGEST);
        let mut many = deployment("web", Some("TerminationComplete"), &strategy);
        many["spec"]["replicas"] = json!(MANY);
        sim.patch_deployment("web", json!({"spec": {"replicas": MANY}}));
        sim.run_for(Duration::from_millis(seed));
        if seed.is_multiple_of(2) {
            sim.delete_deployment("web");
            sim.create(&many);
        } else {
            delete_set_of(&mut sim, "web");
        }
        sim.run_until("all pods of the first set are gone", LONGEST, |seen| {
            assert!(seen.pod_count() <= MANY + 1, "seed {seed}: {} pods", seen.pod_count());
            seen.live_pods().len() == MANY
        });
    }
}
