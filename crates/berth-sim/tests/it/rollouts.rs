//! Rollouts of whole Deployments; every limit is checked after every change of the store.

use berth_node::Latencies;
use berth_sim::{Options, Part, Simulation, network::Faults, seeds::seeds};
use serde_json::{Value, json};
use std::time::Duration;

/// Longer than any rollout here needs, however hostile its simulation.
const LONGEST: Duration = Duration::from_secs(3600);

fn deployment(replicas: u32, policy: &str) -> Value {
    let policy = (!policy.is_empty()).then_some(policy);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "podReplacementPolicy": policy,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "main:1"}]},
            },
        },
    })
}

/// Rolls 100 pods out and replaces them; gives the log.
fn roll_out_and_update(seed: u64) -> Vec<String> {
    let mut sim = Simulation::new(seed, Options::default());
    sim.create(&deployment(100, ""));
    sim.run_until_rolled_out("web", LONGEST);
    let first: Vec<String> = sim.seen().live_pods().into_iter().map(str::to_owned).collect();
    sim.set_image("web", "main:2");
    sim.run_until_rolled_out("web", LONGEST);
    let second = sim.seen().live_pods();
    assert!(second.len() == 100 && first.iter().all(|pod| !second.contains(pod.as_str())), "all pods are new");
    sim.run_until("the old pods are gone", LONGEST, |seen| seen.pod_count() == 100);
    sim.log().to_vec()
}

#[test]
fn a_seed_decides_all_of_a_rollout_and_its_limits_hold() {
    for seed in seeds(1..2) {
        let log = roll_out_and_update(seed);
        assert_eq!(log, roll_out_and_update(seed), "seed {seed}, again");
        assert_ne!(log, roll_out_and_update(seed + 1), "seed {seed} and the next");
    }
}

/// Nothing waits for real time to pass: a rollout that waits for pods that stop for two minutes is over in a tenth of that time, on any machine.
#[test]
#[expect(clippy::disallowed_types, reason = "real time is what it compares with")]
fn minutes_of_a_rollout_take_less_than_a_tenth_of_them() {
    let started = std::time::Instant::now();
    let latencies = Latencies { start: Duration::from_secs(5), stop: Duration::from_secs(120) };
    let mut sim = Simulation::new(1, Options { latencies, ..Options::default() });
    let mut deployment = deployment(10, "TerminationComplete");
    deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(120);
    sim.create(&deployment);
    sim.run_until_rolled_out("web", LONGEST);
    sim.set_image("web", "main:2");
    sim.run_until_rolled_out("web", LONGEST);
    let last = sim.log().last().and_then(|line| line.split_whitespace().next()).expect("each change is logged with its time");
    let simulated = last.parse::<f64>().expect("seconds");
    assert!(simulated > 120.0, "{simulated} s are no minutes");
    let took = started.elapsed().as_secs_f64();
    assert!(took < simulated / 10.0, "{simulated} simulated seconds took {took} s");
}

/// Pods that take up to minutes to stop, in a simulation where calls and answers are lost and caches lag.
fn slow_and_hostile(seed: u64) -> Simulation {
    let latencies = Latencies { start: Duration::from_secs(5), stop: Duration::from_secs(120) };
    Simulation::new(seed, Options { faults: Faults::HOSTILE, latencies, ..Options::default() })
}

/// Removes the faults from the simulation, so that its rollout must end.
fn finish(sim: &mut Simulation, replicas: usize) {
    sim.set_faults(Faults::NONE);
    sim.run_until_rolled_out("web", LONGEST);
    sim.run_until("all old pods are gone", LONGEST, |seen| seen.pod_count() == replicas && seen.live_pods().len() == replicas);
}

#[test]
fn terminating_pods_count_in_a_hostile_simulation() {
    for seed in seeds(0..8) {
        let mut sim = slow_and_hostile(seed);
        sim.create(&deployment(20, "TerminationComplete"));
        sim.run_until_rolled_out("web", LONGEST);
        sim.set_image("web", "main:2");
        sim.run_for(Duration::from_secs(60 + 7 * (seed % 20)));
        sim.scale("web", 30);
        sim.run_for(Duration::from_secs(40));
        sim.set_image("web", "main:3");
        sim.run_for(Duration::from_secs(100));
        sim.scale("web", 12);
        finish(&mut sim, 12);
    }
}

#[test]
fn pods_deleted_by_hand_are_replaced_at_once_under_termination_complete() {
    for seed in seeds(0..5) {
        let mut sim = slow_and_hostile(seed);
        sim.create(&deployment(20, "TerminationComplete"));
        sim.run_until_rolled_out("web", LONGEST);
        sim.set_image("web", "main:2");
        for _ in 0..5 {
            let first = sim.seen().live_pods().first().map(|name| (*name).to_owned()).expect("some pods are there");
            sim.delete_pod(&first);
            sim.run_for(Duration::from_secs(30));
        }
        finish(&mut sim, 20);
    }
}

#[test]
fn limits_hold_through_scaling_and_roll_back_in_a_hostile_simulation() {
    for seed in seeds(0..8) {
        let mut sim = slow_and_hostile(seed);
        sim.create(&deployment(15, ""));
        sim.run_for(Duration::from_secs(seed % 20));
        sim.set_image("web", "main:2");
        sim.run_for(Duration::from_secs(10 + seed % 7));
        sim.scale("web", 40);
        sim.run_for(Duration::from_secs(8));
        sim.set_image("web", "main:1");
        sim.run_for(Duration::from_secs(8));
        sim.scale("web", 10);
        finish(&mut sim, 10);
    }
}

#[test]
fn a_recreate_rollout_ends_in_a_hostile_simulation() {
    for seed in seeds(0..5) {
        let mut sim = slow_and_hostile(seed);
        let mut recreate = deployment(10, "");
        recreate["spec"]["strategy"] = json!({"type": "Recreate"});
        sim.create(&recreate);
        sim.run_for(Duration::from_secs(10));
        sim.set_image("web", "main:2");
        sim.run_for(Duration::from_secs(60));
        sim.set_image("web", "main:3");
        finish(&mut sim, 10);
    }
}

#[test]
fn killed_controllers_continue_where_they_were() {
    for (seed, policy) in seeds(0..5).into_iter().zip(["", "TerminationComplete"].into_iter().cycle()) {
        let mut sim = Simulation::new(seed, Options { faults: Faults::HOSTILE, ..Options::default() });
        sim.create(&deployment(30, policy));
        for milliseconds in [40, 300, 2000] {
            restart(&mut sim, Part::Controllers, Duration::from_millis(milliseconds + seed * 7));
        }
        sim.run_until_rolled_out("web", LONGEST);
        sim.set_image("web", "main:2");
        for milliseconds in [60, 5000, 20_000, 25_000] {
            restart(&mut sim, Part::Controllers, Duration::from_millis(milliseconds + seed * 13));
        }
        finish(&mut sim, 30);
    }
}

#[test]
fn nodes_and_a_scheduler_that_are_killed_lose_and_double_nothing() {
    for seed in seeds(0..5) {
        let mut sim = Simulation::new(seed, Options { faults: Faults::HOSTILE, ..Options::default() });
        sim.create(&deployment(30, ""));
        restart(&mut sim, Part::Nodes, Duration::from_millis(500));
        restart(&mut sim, Part::Scheduler, Duration::from_millis(20));
        restart(&mut sim, Part::Nodes, Duration::from_secs(20));
        sim.set_image("web", "main:2");
        restart(&mut sim, Part::Scheduler, Duration::from_millis(700));
        restart(&mut sim, Part::Nodes, Duration::from_secs(25));
        finish(&mut sim, 30);
    }
}

/// Lets `after` pass, kills a part, and restarts it a second later.
fn restart(sim: &mut Simulation, part: Part, after: Duration) {
    sim.run_for(after);
    sim.kill(part);
    sim.run_for(Duration::from_secs(1));
    sim.start(part);
}

#[test]
fn a_deleted_deployment_leaves_nothing() {
    for seed in seeds(0..5) {
        let mut sim = slow_and_hostile(seed);
        sim.create(&deployment(10, "TerminationComplete"));
        sim.run_for(Duration::from_secs(7));
        sim.set_image("web", "main:2");
        sim.run_for(Duration::from_secs(20));
        sim.delete_deployment("web");
        sim.set_faults(Faults::NONE);
        sim.run_until("all pods are gone", LONGEST, |seen| seen.pod_count() == 0);
    }
}

/// A node learns late that a client has ended its pod. What it writes about the pod meanwhile concerns an ended one.
#[test]
fn a_pod_that_was_ended_stays_so_however_late_its_node_hears_of_it() {
    let late = Faults { stalls_per_mille: 1000, stall_max: Duration::from_secs(3), ..Faults::NONE };
    for seed in 0..40 {
        let latencies = Latencies { start: Duration::from_secs(4), stop: Duration::from_secs(1) };
        let mut sim = Simulation::new(seed, Options { latencies, faults: late, ..Options::default() });
        sim.create(&json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone"},
            "spec": {"containers": [{"name": "main", "image": "main:1"}]},
        }));
        let is_bound = |sim: &Simulation| !sim.object("pods", "alone")["spec"]["nodeName"].is_null();
        sim.run_until_seen("it is bound", LONGEST, is_bound);
        sim.run_for(Duration::from_secs(2));
        sim.fail_pod("alone");
        sim.run_for(Duration::from_secs(30));
        assert_eq!(sim.object("pods", "alone")["status"]["phase"], "Failed", "seed {seed}");
    }
}
