//! Autoscalers under virtual time: by usage curves, during rollouts, and with a controller that is killed after any write.

use berth_api::FeatureGates;
use berth_node::Latencies;
use berth_sim::{
    Gates, Options, Simulation,
    crashes::{self, End},
    network::{Crash, Faults},
};
use berth_store::virtual_time::Order;
use berth_workloads::resources::{AUTOSCALERS, DEPLOYMENTS};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const SECOND: Duration = Duration::from_secs(1);

fn simulation(seed: u64, order: Order) -> Simulation {
    simulation_of(2, seed, order)
}

fn simulation_of(nodes: u32, seed: u64, order: Order) -> Simulation {
    let latencies = Latencies { start: SECOND, stop: SECOND };
    Simulation::new(seed, Options { order, latencies, nodes, ..Options::default() })
}

fn deployment(replicas: u32, spec: &Value, annotations: &Value) -> Value {
    let container = json!({"name": "main", "image": "main:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}});
    let template = json!({"metadata": {"labels": {"app": "web"}, "annotations": annotations}, "spec": {"containers": [container]}});
    let mut all = json!({"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    all.as_object_mut().expect("a map").extend(spec.as_object().expect("a map").clone());
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": all})
}

fn autoscaler(spec: &Value) -> Value {
    let mut all =
        json!({"minReplicas": 1, "maxReplicas": 9, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}});
    all.as_object_mut().expect("a map").extend(spec.as_object().expect("a map").clone());
    json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}, "spec": all})
}

/// A metric that [`require`] sets: the size itself.
fn of_size(behavior: &Value) -> Value {
    let external = json!({"metric": {"name": "size"}, "target": {"type": "AverageValue", "averageValue": "1"}});
    autoscaler(&json!({"metrics": [{"type": "External", "external": external}], "behavior": behavior}))
}

fn require(sim: &mut Simulation, size: u32) {
    sim.patch(AUTOSCALERS, "web", json!({"metadata": {"annotations": {"metrics.berth.dev/size": size.to_string()}}}));
}

fn size(sim: &Simulation) -> i64 {
    sim.object("deployments", "web")["spec"]["replicas"].as_i64().expect("a size")
}

/// The sizes of the next seconds.
fn sizes(sim: &mut Simulation, seconds: usize) -> Vec<i64> {
    let second = |sim: &mut Simulation| {
        sim.run_for(SECOND);
        size(sim)
    };
    (0..seconds).map(|_| second(sim)).collect()
}

#[test]
fn a_size_follows_the_usage_curve_of_its_pods() {
    let mut sim = simulation(1, Order::Fifo);
    sim.create(&deployment(1, &json!({}), &json!({"sim.berth.dev/cpu": "0s=90m 20m=90m 21m=5m"})));
    sim.create(&autoscaler(&json!({"maxReplicas": 4, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]})));
    sim.run_for(Duration::from_secs(15));
    assert_eq!(size(&sim), 1, "the pod was not ready for a whole window");
    sim.run_for(Duration::from_secs(600));
    let status = sim.object("horizontalpodautoscalers", "web")["status"].clone();
    assert_eq!((size(&sim), &status["currentReplicas"], &status["desiredReplicas"]), (4, &json!(4), &json!(4)));
    assert_eq!(status["currentMetrics"][0]["resource"]["current"], json!({"averageUtilization": 90, "averageValue": "90m"}));
    let reason = |kind: &str| {
        let all = status["conditions"].as_array().into_iter().flatten();
        let found = all.into_iter().find(|condition| condition["type"] == kind);
        found.map(|found| format!("{} {}", found["status"].as_str().unwrap_or_default(), found["reason"].as_str().unwrap_or_default()))
    };
    assert_eq!(
        ["AbleToScale", "ScalingActive", "ScalingLimited"].map(reason),
        ["True ReadyForNewScale", "True ValidMetricFound", "True TooManyReplicas"].map(|text| Some(text.to_owned()))
    );
    // The first pods use little after 21 minutes, the last ones some minutes later, and five minutes more stabilize the size.
    sim.run_for(Duration::from_secs(1800));
    assert_eq!(size(&sim), 1);
}

/// The size grows and shrinks by its policies, whenever the controllers start again. Returns the end of a run.
fn by_policies(crash: Crash, mut sim: Simulation) -> End {
    const PERIOD: usize = 30;
    // Afterwards the next computation depends on no earlier change.
    const AT_REST: usize = 2 * PERIOD;
    let rules = json!({"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 2, "periodSeconds": PERIOD}]});
    sim.create(&deployment(1, &json!({}), &json!({})));
    sim.create(&of_size(&json!({"scaleUp": rules, "scaleDown": rules})));
    sim.run_for(Duration::from_secs(20));
    sim.crash_controllers(crash);
    let mut all = vec![size(&sim)];
    for wanted in [7, 2] {
        require(&mut sim, wanted);
        let begun = all.len();
        while all.last() != Some(&i64::from(wanted)) {
            assert!(all.len() - begun < 240, "{wanted} is not reached: {all:?}");
            all.extend(sizes(&mut sim, 1));
        }
        all.extend(sizes(&mut sim, AT_REST));
        assert!(all.ends_with(&[i64::from(wanted); AT_REST]), "{wanted} does not stay: {all:?}");
    }
    for window in all.windows(PERIOD - 1) {
        let change = (window[window.len() - 1] - window[0]).abs();
        assert!(change <= 2, "{change} pods within {PERIOD} s: {all:?}");
    }
    assert!(all.iter().all(|size| (1..=7).contains(size)), "{all:?}");
    let status = sim.object("horizontalpodautoscalers", "web")["status"].clone();
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let conditions: Vec<String> = conditions.map(|one| format!("{} {} {}", one["type"], one["status"], one["reason"])).collect();
    let sizes = (&status["currentReplicas"], &status["desiredReplicas"], &status["currentMetrics"]);
    End { writes: sim.controller_writes(), state: format!("{} {sizes:?} {conditions:?}", size(&sim)), times: BTreeMap::new() }
}

#[test]
fn an_autoscaler_keeps_to_its_policies_after_any_crash() {
    crashes::check("an_autoscaler_keeps_to_its_policies_after_any_crash", |crash| by_policies(crash, simulation_of(1, 1, Order::Fifo)));
}

#[test]
fn lost_calls_make_no_difference() {
    let wanted = by_policies(Crash::Never, simulation(1, Order::Fifo)).state;
    for seed in 1..4 {
        let mut sim = simulation(seed, Order::Random);
        sim.set_faults(Faults { lost_calls_per_mille: 50, lost_answers_per_mille: 50, ..Faults::HOSTILE });
        assert_eq!(by_policies(Crash::Never, sim).state, wanted, "seed {seed}");
    }
}

/// The checks after each write include the limits of the strategies.
#[test]
fn a_size_changes_during_a_rollout_of_any_strategy() {
    for (name, spec, annotations) in [
        ("rolling", json!({}), json!({})),
        ("recreate", json!({"strategy": {"type": "Recreate"}}), json!({})),
        ("complete", json!({"podReplacementPolicy": "TerminationComplete"}), json!({})),
        ("steps", json!({}), json!({"berth.dev/steps": "25%, 30s, 50%, 30s, 100%"})),
    ] {
        let mut sim = simulation(3, Order::Fifo);
        let mut object = deployment(3, &spec, &json!({"sim.berth.dev/terminates-after": "5s"}));
        object["metadata"]["annotations"] = annotations;
        sim.create(&object);
        sim.create(&of_size(&json!({"scaleDown": {"stabilizationWindowSeconds": 15}})));
        require(&mut sim, 3);
        sim.run_for(Duration::from_secs(40));
        sim.patch(DEPLOYMENTS, "web", json!({"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}}));
        sim.run_for(Duration::from_secs(2));
        require(&mut sim, 8);
        sim.run_for(Duration::from_secs(25));
        require(&mut sim, 4);
        sim.run_for(Duration::from_secs(300));
        let deployment = sim.object("deployments", "web");
        let status = &deployment["status"];
        assert_eq!((size(&sim), &status["replicas"], &status["updatedReplicas"]), (4, &json!(4), &json!(4)), "{name}: {status}");
    }
}

#[test]
fn the_author_of_a_size_is_the_autoscaler() {
    let mut sim = simulation(1, Order::Fifo);
    let gates = || Arc::new(FeatureGates::parse("RolloutRecords=true").expect("it is known"));
    sim.restart_with(Gates { api: gates(), controllers: gates() });
    sim.create(&deployment(1, &json!({}), &json!({})));
    sim.create(&of_size(&json!(null)));
    require(&mut sim, 3);
    sim.run_for(Duration::from_secs(30));
    let record = sim.object("deployments", "web")["metadata"]["annotations"]["berth.dev/scaled-by"].clone();
    let record: Value = serde_json::from_str(record.as_str().expect("a record")).expect("JSON");
    assert_eq!((&record["from"], &record["to"], &record["manager"]), (&json!(1), &json!(3), &json!("berth-horizontal-pod-autoscaler")));
}

#[test]
fn a_paused_deployment_is_scaled_and_one_without_pods_is_not() {
    let mut sim = simulation(1, Order::Fifo);
    sim.create(&deployment(2, &json!({}), &json!({})));
    sim.create(&of_size(&json!(null)));
    require(&mut sim, 2);
    sim.run_for(Duration::from_secs(30));
    sim.patch(DEPLOYMENTS, "web", json!({"spec": {"paused": true, "template": {"metadata": {"annotations": {"v": "2"}}}}}));
    require(&mut sim, 4);
    sim.run_for(Duration::from_secs(60));
    let status = sim.object("deployments", "web")["status"].clone();
    assert_eq!((size(&sim), &status["replicas"], &status["updatedReplicas"]), (4, &json!(4), &Value::Null), "{status}");
    sim.patch(DEPLOYMENTS, "web", json!({"spec": {"replicas": 0}}));
    sim.run_for(Duration::from_secs(60));
    assert_eq!(size(&sim), 0, "an autoscaler is disabled while its target has no pods");
}
