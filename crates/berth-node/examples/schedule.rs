//! Measures how fast the board places pods: `schedule [NODES] [PODS] [RUNS]`. It prints the pods per second of each case. There is no API server: the
//! figures are the cost of the decisions alone.
//!
//! - `deployment`: pods of one Deployment with requests. Its ReplicaSet spreads them over nodes and zones by default.
//! - `bare`: the same pods without an owner.
//! - `spread`: a required topology spread constraint over zones, and one over nodes.
//! - `apart`: required anti-affinity to pods of the same app on one node. There are at most as many pods as nodes.
//! - `together`: preferred affinity to pods of the same app in one zone.
//! - `many`: pods of 1,000 ReplicaSets in turn.
//! - `full`: pods for which no node has room, each with requests of its own.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stdout, reason = "the one part that meets the machine")]

use berth_identity::Revision;
use berth_node::scheduler::{Board, NodeView, Placement, PodInfo, SelectingKind, SelectorView};
use berth_workloads::view::View;
use serde_json::{Value, json};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// How many pods are decided about at once, as the scheduler's loop does.
const BATCH: usize = 256;

const SETS: usize = 1000;

const CASES: [&str; 7] = ["deployment", "bare", "spread", "apart", "together", "many", "full"];

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<usize>().ok());
    let (nodes, pods) = (arguments.next().unwrap_or(10_000), arguments.next().unwrap_or(20_000));
    let runs = arguments.next().unwrap_or(3);
    println!("{nodes} nodes");
    for case in CASES {
        let pods = if case == "apart" { pods.min(nodes) } else { pods };
        let mut rates: Vec<f64> =
            (0..runs).map(|_| f64::from(u32::try_from(pods).expect("few")) / run(case, nodes, pods).as_secs_f64()).collect();
        rates.sort_by(f64::total_cmp);
        println!("{case}: median {:.0} pods/s of {} runs with {pods} pods; {rates:.0?}", rates[rates.len() / 2], rates.len());
    }
}

fn decode<V: View>(object: &Value) -> V {
    V::decode(object.to_string().as_bytes(), Revision(1)).expect("valid")
}

/// How long the decisions take, and to take in that the pods are bound.
fn run(case: &str, nodes: usize, pods: usize) -> Duration {
    let mut board = Board::default();
    (0..nodes).for_each(|n| board.set_node(Arc::new(decode::<NodeView>(&node(n)))));
    for set in 0..SETS {
        let selector = json!({"matchLabels": {"app": format!("web-{set}")}});
        let set = json!({"metadata": {"name": format!("web-{set}"), "namespace": "default"}, "spec": {"selector": selector}});
        board.set_selector(SelectingKind::ReplicaSet, &decode::<SelectorView>(&set));
    }
    let pods: Vec<Arc<PodInfo>> = (0..pods).map(|n| Arc::new(decode(&pod(case, n)))).collect();
    let begun = Instant::now();
    pods.iter().for_each(|pod| board.set_pod(Arc::clone(pod)));
    let mut placed = 0;
    loop {
        let placements = board.decide(BATCH);
        if placements.is_empty() {
            break;
        }
        for placement in placements {
            if let Placement::Node(pod, node) = placement {
                let bound = PodInfo { node_name: node.as_str().into(), wishes: None, ..(*pod).clone() };
                board.set_pod(Arc::new(bound));
                placed += 1;
            }
        }
    }
    let took = begun.elapsed();
    assert_eq!(placed, if case == "full" { 0 } else { pods.len() }, "{case}");
    took
}

fn node(n: usize) -> Value {
    let name = format!("node-{n:05}");
    let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("zone-{}", n % 3)});
    let allocatable = json!({"cpu": "32", "memory": "128Gi", "pods": "110"});
    json!({"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}})
}

fn pod(case: &str, n: usize) -> Value {
    let set = if case == "many" { n % SETS } else { 0 };
    let app = format!("web-{set}");
    let requests = match case {
        "full" => json!({"cpu": format!("{}m", 33_000 + n), "memory": "64Mi"}),
        _ => json!({"cpu": "100m", "memory": "64Mi"}),
    };
    let name = format!("{app}-{n:06}");
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]},
    });
    if case != "bare" {
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": true}]);
    }
    let selector = json!({"matchLabels": {"app": app}});
    let term = |key: &str| json!({"topologyKey": key, "labelSelector": selector});
    let constraint = |key: &str| json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector});
    let (host, zone) = ("kubernetes.io/hostname", "topology.kubernetes.io/zone");
    match case {
        "spread" => pod["spec"]["topologySpreadConstraints"] = json!([constraint(zone), constraint(host)]),
        "apart" => pod["spec"]["affinity"]["podAntiAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term(host)]}),
        "together" => {
            let weighted = json!([{"weight": 10, "podAffinityTerm": term(zone)}]);
            pod["spec"]["affinity"]["podAffinity"] = json!({"preferredDuringSchedulingIgnoredDuringExecution": weighted});
        }
        _ => (),
    }
    pod
}
