//! Claims and volumes of StatefulSets in hostile simulations: every claim gets one volume of its own, data stays as long as its claim, and nothing is
//! left over.

use berth_identity::GroupResource;
use berth_node::Latencies;
use berth_sim::{
    Options, Part, Simulation,
    network::{Crash, Faults},
    seeds::run,
};
use berth_store::virtual_time::Order;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

const STATEFUL_SETS: GroupResource = GroupResource::from_static("apps", "statefulsets");

/// Longer than anything here needs, once nothing goes wrong any more.
const LONGEST: Duration = Duration::from_secs(3600);

/// Claims go when their pods are scaled away.
fn database(management: &str, class: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db", "replicas": 5, "podManagementPolicy": management, "selector": {"matchLabels": {"app": "db"}},
            "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Retain"},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "main", "image": "db:1"}]},
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}},
            }],
        },
    })
}

fn late_class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"}, "provisioner": "berth.dev/simulated",
        "volumeBindingMode": "WaitForFirstConsumer",
    })
}

/// Removes the faults from the simulation until `replicas` pods of the newest template are available and nothing else is left.
fn finish(sim: &mut Simulation, replicas: usize) {
    sim.set_faults(Faults::NONE);
    sim.run_until_seen("every pod runs, on a volume of its own, and nothing is left over", LONGEST, |sim| is_at_rest(sim, replicas));
}

fn is_at_rest(sim: &Simulation, replicas: usize) -> bool {
    let set = sim.object("statefulsets", "db");
    let status = |count: &str| set["status"][count].as_u64().unwrap_or(0) == replicas as u64;
    let is_observed = set["status"]["observedGeneration"] == set["metadata"]["generation"];
    let counts = ["pods", "persistentvolumeclaims", "persistentvolumes"].map(|plural| sim.objects(plural).len());
    // The status of a volume may show later than its pod runs that it is bound.
    let are_bound = |plural: &str| sim.objects(plural).values().all(|object| object["status"]["phase"] == "Bound");
    let is_told = ["persistentvolumeclaims", "persistentvolumes"].into_iter().all(are_bound);
    is_observed && status("replicas") && status("updatedReplicas") && status("availableReplicas") && counts == [replicas; 3] && is_told
}

/// What each claim's volume holds, as its pod found it.
fn contents(sim: &Simulation) -> BTreeMap<String, String> {
    let volumes = sim.objects("persistentvolumes");
    let mut named = BTreeSet::new();
    let content = |(claim, object): (String, Value)| {
        let name = object["spec"]["volumeName"].as_str().expect("it is bound").to_owned();
        let volume = &volumes[&name];
        assert_eq!(volume["spec"]["claimRef"]["uid"], object["metadata"]["uid"], "{name}");
        assert_eq!((&volume["status"]["phase"], &object["status"]["phase"]), (&json!("Bound"), &json!("Bound")), "{name}");
        assert!(named.insert(name), "two claims have one volume");
        let id = volume["metadata"]["annotations"]["berth.dev/content-id"].as_str().expect("a pod has mounted it").to_owned();
        let pod = claim.strip_prefix("data-").expect("the claims are the set's");
        let found = &sim.object("pods", pod)["metadata"]["annotations"]["berth.dev/content-ids"];
        assert_eq!(found, &json!(format!("data={id}")), "{pod}");
        (claim, id)
    };
    sim.objects("persistentvolumeclaims").into_iter().map(content).collect()
}

fn set(sim: &mut Simulation, spec: Value) {
    sim.patch(STATEFUL_SETS, "db", json!({ "spec": spec }));
}

fn crash(sim: &mut Simulation, part: Part) {
    sim.kill(part);
    sim.start(part);
}

#[test]
fn data_stays_as_long_as_its_claim_in_a_hostile_simulation() {
    run(0..4, |seed| {
        let latencies = Latencies { start: Duration::from_secs(2), stop: Duration::from_secs(10) };
        let mut sim = Simulation::new(seed, Options { faults: Faults::HOSTILE, latencies, ..Options::default() });
        sim.create(&late_class());
        let (management, class) = (["OrderedReady", "Parallel"][(seed % 2) as usize], ["standard", "late"][(seed / 2 % 2) as usize]);
        sim.create(&database(management, class));
        for part in [Part::Controllers, Part::Scheduler, Part::Nodes] {
            sim.run_for(Duration::from_secs(1 + seed % 7));
            crash(&mut sim, part);
        }
        finish(&mut sim, 5);
        let first = contents(&sim);

        sim.set_faults(Faults::HOSTILE);
        set(&mut sim, json!({"template": {"spec": {"containers": [{"name": "main", "image": "db:2"}]}}}));
        sim.run_for(Duration::from_secs(20 + seed));
        crash(&mut sim, Part::Controllers);
        finish(&mut sim, 5);
        assert_eq!(contents(&sim), first, "after an update");

        sim.set_faults(Faults::HOSTILE);
        set(&mut sim, json!({"replicas": 2}));
        sim.run_for(Duration::from_secs(5 + 3 * seed));
        crash(&mut sim, Part::Controllers);
        set(&mut sim, json!({"replicas": 5}));
        sim.run_for(Duration::from_secs(10));
        finish(&mut sim, 5);
        let kept = contents(&sim).into_iter().filter(|(claim, content)| first[claim] == *content).count();
        assert!(kept >= 2, "the claims of pods that were not scaled away stay");
        set(&mut sim, json!({"replicas": 0}));
        finish(&mut sim, 0);
    });
}

#[test]
fn a_binder_that_crashes_after_any_write_makes_no_volume_twice() {
    let rolled_out = |crash: Crash| {
        let latencies = Latencies { start: Duration::ZERO, stop: Duration::ZERO };
        let mut sim = Simulation::new(1, Options { order: Order::Fifo, latencies, nodes: 1, ..Options::default() });
        sim.create(&late_class());
        sim.crash_controllers(crash);
        let mut database = database("Parallel", "late");
        database["spec"]["replicas"] = json!(2);
        sim.create(&database);
        finish(&mut sim, 2);
        assert_eq!(contents(&sim).len(), 2);
        set(&mut sim, json!({"replicas": 0}));
        finish(&mut sim, 0);
        sim.controller_writes()
    };
    let writes = rolled_out(Crash::Never);
    assert!(writes > 20, "{writes}");
    (1..=writes).map(Crash::After).chain([Crash::AfterEach]).for_each(|crash| _ = rolled_out(crash));
}

/// The claim of a pod that is scaled away is deleted a moment after it. A pod that is created in that moment would get a claim that is being deleted,
/// with its data ([`berth_sim::check`]).
#[test]
fn a_pod_that_comes_back_at_once_does_not_get_the_claim_of_the_one_before_it() {
    let latencies = Latencies { start: Duration::ZERO, stop: Duration::from_secs(2) };
    run(0..2, |seed| {
        let mut sim = Simulation::new(
            seed,
            Options { faults: Faults { latency_max: Duration::from_millis(50), ..Faults::NONE }, latencies, ..Options::default() },
        );
        sim.create(&database("Parallel", "standard"));
        finish(&mut sim, 5);
        for milliseconds in [0, 10, 30] {
            set(&mut sim, json!({"replicas": 2}));
            sim.run_until("the others are gone", LONGEST, |seen| seen.pod_count() == 2);
            sim.run_for(Duration::from_millis(milliseconds));
            set(&mut sim, json!({"replicas": 5}));
            finish(&mut sim, 5);
        }
    });
}

/// Some pods were being scaled away when their set was deleted, and are deleted after it with their claims. The recreated set keeps all claims, or
/// deletes them all. None of its pods may find a claim that is deleted with the former set ([`berth_sim::check`]), and in the end every pod has its
/// own.
#[test]
fn a_recreated_set_gets_no_claim_that_is_deleted_with_the_former_one() {
    let latencies = Latencies { start: Duration::ZERO, stop: Duration::from_secs(2) };
    let retention = |scaled: &str, deleted: &str| json!({"whenScaled": scaled, "whenDeleted": deleted});
    run(0..3, |seed| {
        for (first, second) in
            [(retention("Delete", "Retain"), retention("Retain", "Retain")), (retention("Delete", "Delete"), retention("Retain", "Delete"))]
        {
            let faults = Faults { latency_max: Duration::from_millis(50), ..Faults::NONE };
            let mut sim = Simulation::new(seed, Options { faults, latencies, ..Options::default() });
            let mut database = database("Parallel", "standard");
            database["spec"]["persistentVolumeClaimRetentionPolicy"] = first;
            sim.create(&database);
            finish(&mut sim, 5);
            sim.set_faults(faults);
            set(&mut sim, json!({"replicas": 2}));
            sim.run_for(Duration::from_millis(500));
            sim.delete_if_there(STATEFUL_SETS, "db");
            database["spec"]["persistentVolumeClaimRetentionPolicy"] = second;
            sim.create(&database);
            finish(&mut sim, 5);
            assert_eq!(contents(&sim).len(), 5);
        }
    });
}
