//! A machine whose clock is set while everything runs: no node is lost, no pod is replaced, and things go on.

use berth_sim::{Options, Simulation};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

fn web() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 6, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}},
        },
    })
}

fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// The uids of the pods, by name. All nodes and pods are ready, and no node is avoided.
fn check_all_is_well(sim: &Simulation, when: &str) -> BTreeMap<String, String> {
    let lost: Vec<_> =
        sim.objects("nodes").into_iter().filter(|(_, node)| !is_ready(node) || node["spec"]["taints"] != Value::Null).collect();
    assert!(lost.is_empty(), "{when}: {lost:?}");
    let pods = sim.objects("pods");
    assert!(pods.values().all(is_ready), "{when}: {pods:?}");
    pods.into_iter().map(|(name, pod)| (name, pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned())).collect()
}

#[test]
fn nodes_and_pods_stay_whichever_way_the_clock_is_set() {
    let minutes = |minutes| SignedDuration::from_mins(minutes);
    for by in [minutes(60), minutes(-60), minutes(7), minutes(-7), SignedDuration::from_secs(45)] {
        let mut sim = Simulation::on_a_machine(1, Options::default());
        sim.create(&web());
        sim.run_until_rolled_out("web", Duration::from_secs(600));
        let pods = check_all_is_well(&sim, "before");
        sim.set_clock(by);
        for second in 0..600 {
            sim.run_for(Duration::from_secs(1));
            assert_eq!(check_all_is_well(&sim, &format!("{by}, after {second} s")), pods, "{by}, after {second} s");
        }
        sim.set_clock(-by);
        // Pods take 20 s to start, by a clock that may run at three quarters.
        sim.scale("web", 8);
        sim.run_until("it has grown", Duration::from_secs(60), |seen| seen.is_rolled_out("web"));
    }
}
