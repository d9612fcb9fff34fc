//! Everything at random: what users change, what fails, what crashes. The limits are checked after every change of the store; after the last
//! change, in peace, every Deployment must become what it says.

use berth_node::Latencies;
use berth_sim::{
    Options, Part, World,
    network::Faults,
    rng::{Purpose, SeededRng},
    seeds,
};
use berth_store::env::Rng;
use serde_json::{Value, json};
use std::time::Duration;

/// Longer than any storm needs to abate: pods of a lost node may stay for ten minutes.
const LONGEST: Duration = Duration::from_secs(3600);
/// How many changes a storm has.
const CHANGES: u64 = 12;
const POLICIES: [Option<&str>; 3] = [None, Some("TerminationStarted"), Some("TerminationComplete")];
const DELETED: [&str; 2] = ["TerminationStarted", "TerminationComplete"];
const FAILURES: [&str; 4] = ["NeverReady", "CrashLoopBackOff", "ImagePullBackOff", "Pending"];
const BEFORE_SCALE: &str = "deployment.kubernetes.io/replicaset-replicas-before-scale";

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    /// Users change their minds, and processes crash.
    Changes,
    /// Also pods and nodes fail, pods are deleted and evicted.
    Losses,
}

struct Storm {
    rng: SeededRng,
    world: World,
    weather: Weather,
    images: u64,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let rng = SeededRng::new(seed, Purpose::Script);
        let seconds = |choices: &[u64]| Duration::from_secs(*rng.choose(choices));
        let latencies = Latencies { start: seconds(&[0, 0, 3, 15]), stop: seconds(&[0, 2, 10, 45]) };
        let faults = *rng.choose(&[Faults::NONE, Faults::HOSTILE, Faults::HOSTILE]);
        let weather = *rng.choose(&[Weather::Changes, Weather::Losses]);
        let world = World::new(seed, Options { faults, latencies, nodes: 2, ..Options::default() });
        Self { rng, world, weather, images: 1 }
    }

    fn number(&self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    fn strategy(&self) -> Value {
        let amount = |least: u64| match self.number(3) {
            0 => json!(format!("{}%", *self.rng.choose(&[25, 34, 50, 100]))),
            _ => json!(least + self.number(3)),
        };
        match self.number(4) {
            0 => json!({"type": "Recreate", "rollingUpdate": null}),
            1 => json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": amount(1)}}),
            _ => json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": amount(1), "maxUnavailable": amount(0)}}),
        }
    }

    fn create(&mut self) {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "annotations": {"berth.dev/deleted-pod-replacement-policy": *self.rng.choose(&DELETED)}},
            "spec": {
                "replicas": self.number(8),
                "minReadySeconds": *self.rng.choose(&[0, 0, 4]),
                "revisionHistoryLimit": self.number(4),
                "progressDeadlineSeconds": *self.rng.choose(&[30, 600]),
                "podReplacementPolicy": *self.rng.choose(&POLICIES),
                "strategy": self.strategy(),
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"terminationGracePeriodSeconds": 60, "containers": [{"name": "main", "image": "main:1"}]},
                },
            },
        });
        self.world.create(&object);
    }

    fn change_template(&mut self, fails: Option<&str>) {
        // Now and then back to an image that was there before.
        let image = if self.number(4) == 0 { 1 + self.number(self.images) } else { self.images + 1 };
        self.images = self.images.max(image);
        let template = json!({
            "metadata": {"annotations": {"sim.berth.dev/fails": fails}},
            "spec": {"containers": [{"name": "main", "image": format!("main:{image}")}]},
        });
        self.patch(json!({"template": template}));
    }

    fn patch(&mut self, spec: Value) {
        self.world.patch_deployment("web", json!({"spec": spec}));
    }

    fn restart(&mut self, part: Part, longest_ms: u64) {
        self.world.kill(part);
        self.world.run_for(Duration::from_millis(self.number(longest_ms)));
        self.world.start(part);
    }

    fn some_pod(&self) -> Option<String> {
        let pods: Vec<String> = self.world.seen().live_pods().into_iter().map(str::to_owned).collect();
        (!pods.is_empty()).then(|| self.rng.choose(&pods).clone())
    }

    /// Only of these a node has nothing more to say, and can contradict no failure.
    fn is_ready(&self, pod: &str) -> bool {
        let conditions = self.world.object("pods", pod)["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    }

    fn change(&mut self) {
        match self.number(if self.weather == Weather::Losses { 18 } else { 13 }) {
            0..=2 => self.patch(json!({"replicas": self.number(10)})),
            3 | 4 => self.change_template(None),
            5 => {
                let fails = *self.rng.choose(&FAILURES);
                self.change_template(Some(fails));
            }
            6 => self.world.undo("web"),
            7 => self.patch(json!({"paused": self.number(2) == 0})),
            8 => self.patch(json!({"podReplacementPolicy": *self.rng.choose(&POLICIES)})),
            9 => self.patch(json!({"strategy": self.strategy()})),
            10 | 11 => self.restart(Part::Controllers, 3000),
            12 => self.restart(*self.rng.choose(&[Part::Scheduler, Part::Nodes]), 3000),
            13 => self.restart(Part::Nodes, 700_000),
            _ => self.lose_a_pod(),
        }
    }

    fn lose_a_pod(&mut self) {
        let Some(pod) = self.some_pod() else { return };
        match self.number(5) {
            4 => self.lose_a_set(),
            0 => self.world.delete_pod(&pod),
            1 => self.world.force_delete_pod(&pod),
            2 => drop(self.world.evict_pod(&pod)),
            _ if self.is_ready(&pod) => self.world.fail_pod(&pod),
            _ => (),
        }
    }

    /// Its pods go after it.
    fn lose_a_set(&mut self) {
        let sets: Vec<String> = self.world.objects("replicasets").into_keys().collect();
        if !sets.is_empty() {
            let set = self.rng.choose(&sets).clone();
            self.world.delete_set(&set);
        }
    }

    /// From nothing at all up to a minute, short times as often as long ones.
    fn wait(&mut self) {
        let longest = *self.rng.choose(&[1, 30, 300, 3_000, 15_000, 60_000]);
        self.world.run_for(Duration::from_millis(self.number(longest)));
    }

    /// The last change, and peace: what the Deployment says must become so.
    fn abate(&mut self) {
        self.world.set_faults(Faults::NONE);
        let replicas = self.number(8);
        let image = format!("main:{}", self.images + 1);
        let template = json!({
            "metadata": {"annotations": {"sim.berth.dev/fails": null}},
            "spec": {"containers": [{"name": "main", "image": image}]},
        });
        // A request to go back that nobody has seen yet would come after the last change.
        let annotations = json!({"deprecated.deployment.rollback.to": null});
        let spec = json!({"paused": false, "template": template});
        self.world.patch_deployment("web", json!({"metadata": {"annotations": annotations}, "spec": spec}));
        self.wait();
        self.patch(json!({"replicas": replicas}));
        self.world.run_until_rolled_out("web", LONGEST);
        let wanted = usize::try_from(replicas).expect("few");
        self.world.run_until_seen("no pod goes or runs an old image", LONGEST, |world| {
            let pods = world.objects("pods");
            let runs = |pod: &&Value| !matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
            let is_new =
                |pod: &Value| pod["spec"]["containers"][0]["image"] == image.as_str() && pod["metadata"]["deletionTimestamp"].is_null();
            pods.values().filter(runs).count() == wanted && pods.values().filter(runs).all(is_new)
        });
        self.world.run_until_seen("no scale is pending, no old set has a size", LONGEST, |world| {
            let is_done = |set: &Value| {
                let is_new = set["spec"]["template"]["spec"]["containers"][0]["image"] == image.as_str();
                set["metadata"]["annotations"][BEFORE_SCALE].is_null() && (is_new || set["spec"]["replicas"] == 0)
            };
            world.objects("replicasets").values().all(is_done)
        });
        self.world.run_until_seen("the rollout is said to be complete", LONGEST, |world| {
            let web = world.object("deployments", "web");
            let conditions = web["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|condition| condition["reason"] == "NewReplicaSetAvailable" && condition["status"] == "True")
        });
    }
}

#[test]
fn limits_hold_in_every_storm_and_all_is_well_after_it() {
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
