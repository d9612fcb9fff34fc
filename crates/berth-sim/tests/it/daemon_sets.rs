//! DaemonSets: one pod per node, and how the pods get a new template. The limits of an update are checked after every change of the store, also where the
//! controllers are killed after any write.

use berth_node::Latencies;
use berth_sim::{
    Options, Simulation,
    crashes::{self, End},
    network::Crash,
    seeds::seeds,
};
use berth_store::virtual_time::Order;
use berth_workloads::resources::{DAEMON_SETS, NODES};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Longer than any scenario here needs to become quiet.
const QUIET: Duration = Duration::from_secs(120);
/// Longer than any rollout here needs.
const LONGEST: Duration = Duration::from_secs(1800);

fn set(strategy: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "updateStrategy": strategy,
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "main", "image": "main:1"}]},
            },
        },
    })
}

fn rolling(max_unavailable: u32, max_surge: u32) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": max_unavailable, "maxSurge": max_surge}})
}

fn set_image(sim: &mut Simulation, image: &str) {
    let containers = json!([{"name": "main", "image": image}]);
    sim.patch(DAEMON_SETS, "agent", json!({"spec": {"template": {"spec": {"containers": containers}}}}));
}

/// A node with this taint has no pod.
fn taint(sim: &mut Simulation, node: &str, is_tainted: bool) {
    let taints = if is_tainted { json!([{"key": "maintenance", "effect": "NoExecute"}]) } else { json!(null) };
    sim.patch(NODES, node, json!({"spec": {"taints": taints}}));
}

/// Live pods by node.
fn live(sim: &Simulation) -> BTreeMap<String, Vec<Value>> {
    let mut nodes: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for pod in sim.objects("pods").into_values().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()) {
        let terms = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
        let node = terms[0]["matchFields"][0]["values"][0].as_str().expect("a node").to_owned();
        nodes.entry(node).or_default().push(pod);
    }
    nodes
}

fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"].as_array().into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

fn image(pod: &Value) -> &str {
    pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default()
}

/// Whether each of these nodes has one live pod, with this image and ready, and no other node has one.
fn runs_only(sim: &Simulation, nodes: &[&str], wanted: &str) -> bool {
    let live = live(sim);
    live.keys().map(String::as_str).eq(nodes.iter().copied())
        && live.values().all(|pods| pods.len() == 1 && is_ready(&pods[0]) && image(&pods[0]) == wanted)
}

/// Checks a moment of an update: how many of these nodes have no available pod, and how many nodes have two live pods.
fn check_limits(sim: &Simulation, nodes: &[&str], max_unavailable: usize, max_surge: usize) {
    let live = live(sim);
    let available = |node: &&&str| live.get(**node).is_some_and(|pods| pods.iter().any(is_ready));
    let unavailable: BTreeSet<&str> = nodes.iter().filter(|node| !available(node)).copied().collect();
    let log = || sim.log().iter().rev().take(30).rev().cloned().collect::<Vec<_>>().join("\n");
    assert!(unavailable.len() <= max_unavailable, "no available pod on {unavailable:?}\n{}", log());
    let crowded: BTreeSet<&String> = live.iter().filter(|(_, pods)| 1 < pods.len()).map(|(node, _)| node).collect();
    assert!(crowded.len() <= max_surge, "several pods on {crowded:?}\n{}", log());
    let of_image = |pods: &[Value], wanted: bool| pods.iter().filter(|pod| (image(pod) == "main:1") == wanted).count();
    assert!(live.values().all(|pods| of_image(pods, true) <= 1 && of_image(pods, false) <= 1), "two pods of a template\n{}", log());
}

/// Updates four nodes, and checks the limits at every moment.
fn update_within(seed: u64, crash: Crash, max_unavailable: u32, max_surge: u32) {
    let nodes = ["node-0", "node-1", "node-2", "node-3"];
    let mut sim = Simulation::new(seed, Options { nodes: 4, ..Options::default() });
    sim.create(&set(&rolling(max_unavailable, max_surge)));
    sim.run_until_seen("each node has a pod", LONGEST, |sim| runs_only(sim, &nodes, "main:1"));
    sim.crash_controllers(crash);
    set_image(&mut sim, "main:2");
    sim.run_until_seen("each node has the new pod", LONGEST, |sim| {
        check_limits(sim, &nodes, max_unavailable as usize, max_surge as usize);
        runs_only(sim, &nodes, "main:2")
    });
    sim.run_for(QUIET);
    let status = &sim.object("daemonsets", "agent")["status"];
    let counts = ["desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable", "observedGeneration"];
    assert_eq!(counts.map(|count| status[count].clone()), [4, 4, 4, 2].map(|count| json!(count)));
}

#[test]
fn max_unavailable_and_max_surge_hold_at_every_moment_of_an_update() {
    for seed in seeds(0..1) {
        for (max_unavailable, max_surge) in [(1, 0), (2, 0), (0, 1), (0, 3)] {
            update_within(seed, Crash::Never, max_unavailable, max_surge);
            update_within(seed, Crash::AfterEach, max_unavailable, max_surge);
        }
    }
}

/// What must not depend on crashes: the pods by node, the revisions and the status.
fn state(sim: &Simulation) -> String {
    let shown = |pod: &Value| format!("{} {} {}", image(pod), pod["metadata"]["labels"], is_ready(pod));
    let pods = live(sim).into_iter().map(|(node, pods)| format!("{node}: {}", pods.iter().map(shown).collect::<Vec<_>>().join(", ")));
    let revisions = sim.objects("controllerrevisions");
    let revisions = revisions.into_iter().map(|(name, revision)| format!("{name}: {}", revision["revision"]));
    let status = sim.object("daemonsets", "agent")["status"].to_string();
    pods.chain(revisions).chain([status]).collect::<Vec<_>>().join("\n")
}

/// Creates the set on three nodes, and runs the script, in which the controllers may crash.
fn run(strategy: &Value, script: fn(&mut Simulation), crash: Crash) -> End {
    let latencies = Latencies { start: Duration::ZERO, stop: Duration::ZERO };
    let mut sim = Simulation::new(1, Options { order: Order::Fifo, latencies, nodes: 3, ..Options::default() });
    sim.create(&set(strategy));
    sim.run_for(QUIET);
    sim.crash_controllers(crash);
    script(&mut sim);
    sim.run_for(QUIET);
    End { writes: sim.controller_writes(), state: state(&sim), times: BTreeMap::new() }
}

fn check(name: &str, strategy: &Value, script: fn(&mut Simulation)) {
    crashes::check(name, |crash| run(strategy, script, crash));
}

#[test]
fn a_daemon_set_is_updated_node_by_node() {
    check("a_daemon_set_is_updated_node_by_node", &rolling(1, 0), |sim| set_image(sim, "main:2"));
}

#[test]
fn a_daemon_set_is_updated_with_a_surge() {
    check("a_daemon_set_is_updated_with_a_surge", &rolling(0, 1), |sim| set_image(sim, "main:2"));
}

#[test]
fn a_daemon_set_goes_back_to_an_older_template() {
    check("a_daemon_set_goes_back_to_an_older_template", &rolling(2, 0), |sim| {
        set_image(sim, "main:2");
        sim.run_for(QUIET);
        set_image(sim, "main:1");
    });
}

#[test]
fn with_on_delete_a_daemon_set_replaces_pods_that_a_client_deletes() {
    let on_delete = json!({"type": "OnDelete"});
    let script = |sim: &mut Simulation| {
        set_image(sim, "main:2");
        sim.run_for(QUIET);
        let on_first = live(sim)["node-0"][0]["metadata"]["name"].as_str().expect("a name").to_owned();
        sim.delete_pod(&on_first);
    };
    check("with_on_delete_a_daemon_set_replaces_pods_that_a_client_deletes", &on_delete, script);
    let end = run(&on_delete, script, Crash::Never).state;
    let images: Vec<&str> = end.lines().filter(|line| line.starts_with("node-")).map(|line| &line[..14]).collect();
    assert_eq!(images, ["node-0: main:2", "node-1: main:1", "node-2: main:1"]);
}

#[test]
fn a_failed_pod_is_deleted_and_its_node_gets_another() {
    let mut sim = Simulation::new(1, Options { nodes: 2, ..Options::default() });
    sim.create(&set(&rolling(1, 0)));
    sim.run_until_seen("each node has a pod", LONGEST, |sim| runs_only(sim, &["node-0", "node-1"], "main:1"));
    let failed = live(&sim)["node-1"][0]["metadata"]["name"].as_str().expect("a name").to_owned();
    sim.fail_pod(&failed);
    sim.run_until_seen("another pod", LONGEST, |sim| {
        sim.object("pods", &failed).is_null() && runs_only(sim, &["node-0", "node-1"], "main:1")
    });
    sim.run_for(QUIET);
    let events: Vec<Value> = sim.objects("events").into_values().filter(|event| event["reason"] == "FailedDaemonPod").collect();
    let message = format!("Found failed daemon pod default/{failed} on node node-1, will try to kill it");
    assert_eq!(events.iter().map(|event| event["message"].clone()).collect::<Vec<_>>(), [json!(message)]);
    assert_eq!(events[0]["source"]["component"], "daemonset-controller");
}

/// During the update, one node ceases to fit, and another one begins to.
#[test]
fn nodes_come_and_go_during_an_update() {
    for seed in seeds(0..1) {
        for crash in [Crash::Never, Crash::AfterEach] {
            for (max_unavailable, max_surge) in [(1, 0), (0, 1)] {
                let mut sim = Simulation::new(seed, Options { nodes: 4, ..Options::default() });
                sim.run_until_seen("the nodes register", LONGEST, |sim| sim.objects("nodes").len() == 4);
                taint(&mut sim, "node-3", true);
                sim.create(&set(&rolling(max_unavailable, max_surge)));
                sim.run_until_seen("three nodes", LONGEST, |sim| runs_only(sim, &["node-0", "node-1", "node-2"], "main:1"));
                sim.crash_controllers(crash);
                set_image(&mut sim, "main:2");
                sim.run_for(Duration::from_secs(10));
                taint(&mut sim, "node-1", true);
                taint(&mut sim, "node-3", false);
                let left = ["node-0", "node-2", "node-3"];
                sim.run_until_seen("the nodes that are left have the new pod", LONGEST, |sim| {
                    // The new node begins without a pod, and counts.
                    let live = live(sim);
                    assert!(live.values().all(|pods| pods.len() <= 1 + usize::try_from(max_surge).expect("small")), "{live:?}");
                    runs_only(sim, &left, "main:2")
                });
                sim.run_for(QUIET);
                assert_eq!(sim.object("daemonsets", "agent")["status"]["desiredNumberScheduled"], 3);
            }
        }
    }
}
