//! Rollouts of whole Deployments; every limit is checked after every change of the store.

use berth_node::Latencies;
use berth_sim::{Options, Part, World, network::Faults, seeds::seeds};
use serde_json::{Value, json};
use std::time::Duration;

/// Longer than any rollout here needs, however hostile its world.
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
    let mut world = World::new(seed, Options::default());
    world.create(&deployment(100, ""));
    world.run_until_rolled_out("web", LONGEST);
    let first: Vec<String> = world.seen().live_pods().into_iter().map(str::to_owned).collect();
    world.set_image("web", "main:2");
    world.run_until_rolled_out("web", LONGEST);
    let second = world.seen().live_pods();
    assert!(second.len() == 100 && first.iter().all(|pod| !second.contains(pod.as_str())), "all pods are new");
    world.run_until("the old pods are gone", LONGEST, |seen| seen.pod_count() == 100);
    world.log().to_vec()
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
    let mut world = World::new(1, Options { latencies, ..Options::default() });
    let mut deployment = deployment(10, "TerminationComplete");
    deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(120);
    world.create(&deployment);
    world.run_until_rolled_out("web", LONGEST);
    world.set_image("web", "main:2");
    world.run_until_rolled_out("web", LONGEST);
    let last = world.log().last().and_then(|line| line.split_whitespace().next()).expect("each change is logged with its time");
    let simulated = last.parse::<f64>().expect("seconds");
    assert!(simulated > 120.0, "{simulated} s are no minutes");
    let took = started.elapsed().as_secs_f64();
    assert!(took < simulated / 10.0, "{simulated} simulated seconds took {took} s");
}

/// Pods that take up to minutes to stop, in a world where calls and answers are lost and caches lag.
fn slow_and_hostile(seed: u64) -> World {
    let latencies = Latencies { start: Duration::from_secs(5), stop: Duration::from_secs(120) };
    World::new(seed, Options { faults: Faults::HOSTILE, latencies, ..Options::default() })
}

/// Leaves the world in peace, so that what it has begun must end.
fn finish(world: &mut World, replicas: usize) {
    world.set_faults(Faults::NONE);
    world.run_until_rolled_out("web", LONGEST);
    world.run_until("all old pods are gone", LONGEST, |seen| seen.pod_count() == replicas && seen.live_pods().len() == replicas);
}

#[test]
fn terminating_pods_keep_their_place_in_a_hostile_world() {
    for seed in seeds(0..8) {
        let mut world = slow_and_hostile(seed);
        world.create(&deployment(20, "TerminationComplete"));
        world.run_until_rolled_out("web", LONGEST);
        world.set_image("web", "main:2");
        world.run_for(Duration::from_secs(60 + 7 * (seed % 20)));
        world.scale("web", 30);
        world.run_for(Duration::from_secs(40));
        world.set_image("web", "main:3");
        world.run_for(Duration::from_secs(100));
        world.scale("web", 12);
        finish(&mut world, 12);
    }
}

#[test]
fn pods_deleted_by_hand_are_replaced_at_once_under_termination_complete() {
    for seed in seeds(0..5) {
        let mut world = slow_and_hostile(seed);
        world.create(&deployment(20, "TerminationComplete"));
        world.run_until_rolled_out("web", LONGEST);
        world.set_image("web", "main:2");
        for _ in 0..5 {
            let first = world.seen().live_pods().first().map(|name| (*name).to_owned()).expect("some pods are there");
            world.delete_pod(&first);
            world.run_for(Duration::from_secs(30));
        }
        finish(&mut world, 20);
    }
}

#[test]
fn limits_hold_through_scaling_and_roll_back_in_a_hostile_world() {
    for seed in seeds(0..8) {
        let mut world = slow_and_hostile(seed);
        world.create(&deployment(15, ""));
        world.run_for(Duration::from_secs(seed % 20));
        world.set_image("web", "main:2");
        world.run_for(Duration::from_secs(10 + seed % 7));
        world.scale("web", 40);
        world.run_for(Duration::from_secs(8));
        world.set_image("web", "main:1");
        world.run_for(Duration::from_secs(8));
        world.scale("web", 10);
        finish(&mut world, 10);
    }
}

#[test]
fn a_recreate_rollout_ends_in_a_hostile_world() {
    for seed in seeds(0..5) {
        let mut world = slow_and_hostile(seed);
        let mut recreate = deployment(10, "");
        recreate["spec"]["strategy"] = json!({"type": "Recreate"});
        world.create(&recreate);
        world.run_for(Duration::from_secs(10));
        world.set_image("web", "main:2");
        world.run_for(Duration::from_secs(60));
        world.set_image("web", "main:3");
        finish(&mut world, 10);
    }
}

#[test]
fn controllers_that_are_killed_go_on_where_they_stood() {
    for (seed, policy) in seeds(0..5).into_iter().zip(["", "TerminationComplete"].into_iter().cycle()) {
        let mut world = World::new(seed, Options { faults: Faults::HOSTILE, ..Options::default() });
        world.create(&deployment(30, policy));
        for milliseconds in [40, 300, 2000] {
            restart(&mut world, Part::Controllers, Duration::from_millis(milliseconds + seed * 7));
        }
        world.run_until_rolled_out("web", LONGEST);
        world.set_image("web", "main:2");
        for milliseconds in [60, 5000, 20_000, 25_000] {
            restart(&mut world, Part::Controllers, Duration::from_millis(milliseconds + seed * 13));
        }
        finish(&mut world, 30);
    }
}

#[test]
fn nodes_and_a_scheduler_that_are_killed_lose_and_double_nothing() {
    for seed in seeds(0..5) {
        let mut world = World::new(seed, Options { faults: Faults::HOSTILE, ..Options::default() });
        world.create(&deployment(30, ""));
        restart(&mut world, Part::Nodes, Duration::from_millis(500));
        restart(&mut world, Part::Scheduler, Duration::from_millis(20));
        restart(&mut world, Part::Nodes, Duration::from_secs(20));
        world.set_image("web", "main:2");
        restart(&mut world, Part::Scheduler, Duration::from_millis(700));
        restart(&mut world, Part::Nodes, Duration::from_secs(25));
        finish(&mut world, 30);
    }
}

/// Lets `after` pass, kills a part, and starts it anew a second later.
fn restart(world: &mut World, part: Part, after: Duration) {
    world.run_for(after);
    world.kill(part);
    world.run_for(Duration::from_secs(1));
    world.start(part);
}

#[test]
fn a_deleted_deployment_leaves_nothing() {
    for seed in seeds(0..5) {
        let mut world = slow_and_hostile(seed);
        world.create(&deployment(10, "TerminationComplete"));
        world.run_for(Duration::from_secs(7));
        world.set_image("web", "main:2");
        world.run_for(Duration::from_secs(20));
        world.delete_deployment("web");
        world.set_faults(Faults::NONE);
        world.run_until("all pods are gone", LONGEST, |seen| seen.pod_count() == 0);
    }
}

/// A node hears late that somebody has ended its pod; what it says of the pod meanwhile, it says of one that is over.
#[test]
fn a_pod_that_was_ended_stays_so_however_late_its_node_hears_of_it() {
    let late = Faults { stalls_per_mille: 1000, stall_max: Duration::from_secs(3), ..Faults::NONE };
    for seed in 0..40 {
        let latencies = Latencies { start: Duration::from_secs(4), stop: Duration::from_secs(1) };
        let mut world = World::new(seed, Options { latencies, faults: late, ..Options::default() });
        world.create(&json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone"},
            "spec": {"containers": [{"name": "main", "image": "main:1"}]},
        }));
        let is_bound = |world: &World| !world.object("pods", "alone")["spec"]["nodeName"].is_null();
        world.run_until_seen("it is bound", LONGEST, is_bound);
        world.run_for(Duration::from_secs(2));
        world.fail_pod("alone");
        world.run_for(Duration::from_secs(30));
        assert_eq!(world.object("pods", "alone")["status"]["phase"], "Failed", "seed {seed}");
    }
}
