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
