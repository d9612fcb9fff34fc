//! StatefulSets under everything that users change, what fails and what crashes. Order, revisions, partition and budget are checked after every
//! change of the store, and that no claim that is wanted goes with its pod; after the last change, in peace, every set must become what it says.

use berth_api::FeatureGates;
use berth_node::Latencies;
use berth_sim::{
    Gates, Options, Part, World,
    network::Faults,
    rng::{Purpose, SeededRng},
    seeds,
};
use berth_store::env::Rng;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// Longer than any storm needs to abate: pods of a lost node may stay for ten minutes.
const LONGEST: Duration = Duration::from_secs(3600);
/// How many changes a storm has.
const CHANGES: u64 = 12;
const FAILURES: [&str; 4] = ["NeverReady", "CrashLoopBackOff", "ImagePullBackOff", "Pending"];

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    /// Users change their minds, and processes crash.
    Changes,
    /// Also pods and nodes fail, pods are deleted and evicted.
    Losses,
}

/// How a set is brought to its last template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// By itself.
    Recreate,
    /// By itself, as asked for by `berth.dev/repair`.
    Repair,
    /// By somebody who deletes what is not ready, as a rolling update demands.
    RollingUpdate,
    /// By somebody who deletes everything.
    OnDelete,
}

struct Storm {
    rng: SeededRng,
    world: World,
    weather: Weather,
    /// How long pods take to stop.
    stop: Duration,
    images: u64,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let rng = SeededRng::new(seed, Purpose::Script);
        let seconds = |choices: &[u64]| Duration::from_secs(*rng.choose(choices));
        let latencies = Latencies { start: seconds(&[0, 0, 3, 15]), stop: seconds(&[0, 2, 10, 45]) };
        let faults = *rng.choose(&[Faults::NONE, Faults::HOSTILE, Faults::HOSTILE]);
        let weather = *rng.choose(&[Weather::Changes, Weather::Losses]);
        let mut world = World::new(seed, Options { faults, latencies, nodes: 2, ..Options::default() });
        if rng.below(3) == 0 {
            let gates = || Arc::new(FeatureGates::parse("MaxUnavailableStatefulSet=true").expect("it is known"));
            world.restart_with(Gates { api: gates(), controllers: gates() });
        }
        Self { rng, world, weather, stop: latencies.stop, images: 1 }
    }

    fn number(&self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    fn strategy(&self) -> Value {
        let max = self.rng.choose(&[Value::Null, json!(1), json!(2), json!("50%")]).clone();
        match self.number(6) {
            0 | 1 => json!({"type": "Recreate", "rollingUpdate": null}),
            2 => json!({"type": "OnDelete", "rollingUpdate": null}),
            3 => json!({"type": "RollingUpdate", "rollingUpdate": null}),
            _ => json!({"type": "RollingUpdate", "rollingUpdate": {"partition": self.number(4) / 2, "maxUnavailable": max}}),
        }
    }

    fn retention(&self) -> Value {
        let policy = || *self.rng.choose(&["Delete", "Retain"]);
        json!({"whenScaled": policy(), "whenDeleted": policy()})
    }

    fn create(&mut self) {
        let claim = json!({
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        });
        let claims = if self.number(2) == 0 { json!([claim]) } else { json!([]) };
        let object = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
            "spec": {
                "replicas": self.number(6),
                "serviceName": "db",
                "podManagementPolicy": *self.rng.choose(&["OrderedReady", "OrderedReady", "Parallel"]),
                "minReadySeconds": *self.rng.choose(&[0, 0, 4]),
                "revisionHistoryLimit": self.number(4),
                "updateStrategy": self.strategy(),
                "ordinals": {"start": self.number(4) / 2},
                "selector": {"matchLabels": {"app": "db"}},
                "volumeClaimTemplates": claims,
                "persistentVolumeClaimRetentionPolicy": self.retention(),
                "template": {
                    "metadata": {"labels": {"app": "db"}, "annotations": {"sim.berth.dev/fails": self.failure()}},
                    "spec": {"terminationGracePeriodSeconds": 60, "containers": [{"name": "main", "image": "main:1"}]},
                },
            },
        });
        self.world.create(&object);
    }

    /// One in four fails.
    fn failure(&self) -> Value {
        let fails = *self.rng.choose(&FAILURES);
        if self.number(4) == 0 { json!(fails) } else { Value::Null }
    }

    fn template(&mut self, fails: &Value) -> Value {
        // Now and then back to an image that was there before.
        let image = if self.number(4) == 0 { 1 + self.number(self.images) } else { self.images + 1 };
        self.images = self.images.max(image);
        json!({
            "metadata": {"annotations": {"sim.berth.dev/fails": fails}},
            "spec": {"containers": [{"name": "main", "image": format!("main:{image}")}]},
        })
    }

    fn patch(&mut self, spec: &Value) {
        self.world.patch_stateful_set("db", json!({"spec": spec}));
    }

    fn restart(&mut self, part: Part, longest_ms: u64) {
        self.world.kill(part);
        self.world.run_for(Duration::from_millis(self.number(longest_ms)));
        self.world.start(part);
    }

    fn change(&mut self) {
        match self.number(if self.weather == Weather::Losses { 22 } else { 15 }) {
            0..=2 => self.patch(&json!({"replicas": self.number(7)})),
            3..=6 => {
                let fails = self.failure();
                let template = self.template(&fails);
                self.patch(&json!({"template": template}));
            }
            7 | 8 => self.patch(&json!({"updateStrategy": self.strategy()})),
            9 => self.patch(&json!({"ordinals": {"start": self.number(3)}})),
            10 => self.patch(&json!({"minReadySeconds": *self.rng.choose(&[0, 4])})),
            11 | 12 => self.restart(Part::Controllers, 3000),
            13 => self.restart(*self.rng.choose(&[Part::Scheduler, Part::Nodes]), 3000),
            14 => self.patch(&json!({"persistentVolumeClaimRetentionPolicy": self.retention()})),
            15 => self.restart(Part::Nodes, 700_000),
            _ => self.lose_a_pod(),
        }
    }

    fn lose_a_pod(&mut self) {
        let pods: Vec<String> = self.world.seen().live_pods().into_iter().map(str::to_owned).collect();
        if pods.is_empty() {
            return;
        }
        let pod = self.rng.choose(&pods).clone();
        match self.number(4) {
            0 => self.world.delete_pod(&pod),
            1 => self.world.force_delete_pod(&pod),
            2 => drop(self.world.evict_pod(&pod)),
            _ if is_ready(&self.world.object("pods", &pod)) => self.world.fail_pod(&pod),
            _ => (),
        }
    }

    /// From nothing at all up to a minute, short times as often as long ones.
    fn wait(&mut self) {
        let longest = *self.rng.choose(&[1, 30, 300, 3_000, 15_000, 60_000]);
        self.world.run_for(Duration::from_millis(self.number(longest)));
    }

    /// The last change, and peace: what the set says must become so.
    fn abate(&mut self) {
        self.world.set_faults(Faults::NONE);
        let ending = *self.rng.choose(&[Ending::Recreate, Ending::Repair, Ending::RollingUpdate, Ending::OnDelete]);
        let strategy = match ending {
            Ending::Recreate => "Recreate",
            Ending::Repair | Ending::RollingUpdate => "RollingUpdate",
            Ending::OnDelete => "OnDelete",
        };
        let repair = if ending == Ending::Repair { json!("Revision") } else { Value::Null };
        let (start, replicas) = (self.number(3), self.number(6));
        let template = self.template(&Value::Null);
        let spec = json!({
            "replicas": replicas, "ordinals": {"start": start}, "template": template,
            "updateStrategy": {"type": strategy, "rollingUpdate": null},
        });
        self.world.patch_stateful_set("db", json!({"metadata": {"annotations": {"berth.dev/repair": repair}}, "spec": spec}));
        if matches!(ending, Ending::RollingUpdate | Ending::OnDelete) {
            self.world.run_for(Duration::from_secs(60));
            // A pod that comes back with the broken revision goes again.
            for _ in 0..12 {
                self.delete_what_holds_up(ending);
                self.world.run_for(Duration::from_secs(120));
            }
        }
        let image = template["spec"]["containers"][0]["image"].clone();
        let wanted: Vec<String> = (start..start + replicas).map(|ordinal| format!("db-{ordinal}")).collect();
        self.world.run_until_seen(&format!("{ending:?}: {wanted:?} run {image} and are ready"), LONGEST, |world| {
            let pods = world.objects("pods");
            let is_well = |pod: &Value| {
                pod["spec"]["containers"][0]["image"] == image && is_ready(pod) && pod["metadata"]["deletionTimestamp"].is_null()
            };
            pods.keys().eq(&wanted) && pods.values().all(is_well)
        });
        self.world.run_until_seen(&format!("{ending:?}: the status says so"), LONGEST, |world| {
            let set = world.object("statefulsets", "db");
            let count = |field: &str| set["status"][field].as_u64().unwrap_or(0);
            set["status"]["observedGeneration"] == set["metadata"]["generation"]
                && ["replicas", "readyReplicas", "availableReplicas", "updatedReplicas"].iter().all(|field| count(field) == replicas)
                && (ending == Ending::OnDelete || set["status"]["currentRevision"] == set["status"]["updateRevision"])
        });
    }

    fn delete_what_holds_up(&mut self, ending: Ending) {
        let update = self.world.object("statefulsets", "db")["status"]["updateRevision"].clone();
        let is_old = |pod: &Value| pod["metadata"]["labels"]["controller-revision-hash"] != update;
        let pods = self.world.objects("pods");
        let in_the_way = pods.iter().filter(|(_, pod)| is_old(pod) && (ending == Ending::OnDelete || !is_ready(pod)));
        let in_the_way: Vec<&String> = in_the_way.map(|(name, _)| name).collect();
        in_the_way.into_iter().for_each(|name| self.world.delete_pod(name));
    }
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let ready = conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    ready && pod["status"]["phase"] == "Running"
}

#[test]
fn order_and_revisions_hold_in_every_storm_and_all_is_well_after_it() {
    seeds::run(0..60, |seed| {
        let mut storm = Storm::new(seed);
        storm.create();
        storm.wait();
        for _ in 0..CHANGES {
            storm.change();
            storm.wait();
        }
        storm.abate();
    });
}

/// The goal of KEP-3541: without faults every recreation is complete within the time that its pods need to stop and to start, and 30 s; and no
/// two revisions are left. Where order is asked for, pods start one after another.
#[test]
#[expect(clippy::print_stdout, reason = "the figures are what it is for")]
fn every_recreation_is_complete_in_time_and_leaves_one_revision() {
    let slowest = std::cell::Cell::new(Duration::ZERO);
    let runs = std::cell::Cell::new(0);
    seeds::run(0..40, |seed| {
        let mut storm = Storm { weather: Weather::Changes, ..Storm::new(seed) };
        storm.world.set_faults(Faults::NONE);
        storm.create();
        let replicas = 1 + storm.number(6);
        storm.patch(&json!({"updateStrategy": {"type": "Recreate", "rollingUpdate": null}, "replicas": replicas, "minReadySeconds": 0}));
        storm.world.run_for(Duration::from_secs(storm.number(300)));
        let starts = Duration::from_secs(storm.number(20));
        let mut template = storm.template(&Value::Null);
        template["metadata"]["annotations"]["sim.berth.dev/ready-after"] = json!(format!("{}s", starts.as_secs()));
        let begun = storm.world.elapsed();
        storm.patch(&json!({"template": template}));
        let image = template["spec"]["containers"][0]["image"].clone();
        storm.world.run_until_seen("the set is recreated", LONGEST, |world| {
            let pods = world.objects("pods");
            let is_well = |pod: &Value| pod["spec"]["containers"][0]["image"] == image && is_ready(pod);
            pods.len() as u64 == replicas && pods.values().all(is_well)
        });
        let took = storm.world.elapsed() - begun;
        let ordered = storm.world.object("statefulsets", "db")["spec"]["podManagementPolicy"] == "OrderedReady";
        let start_up = if ordered { starts * u32::try_from(replicas).expect("few") } else { starts };
        assert!(took <= storm.stop + start_up + Duration::from_secs(30), "seed {seed}: {took:?}, {replicas} pods that start in {starts:?}");
        slowest.set(slowest.get().max(took.saturating_sub(storm.stop + start_up)));
        runs.set(runs.get() + 1);
    });
    println!(
        "{} recreations: each in time, none with two revisions left; at most {:?} besides termination and start-up",
        runs.get(),
        slowest.get()
    );
}
