//! Everything at random: what users change, what fails, what crashes, what is refused. The limits are checked after every change of the store. After
//! the last change, without faults, the workload must reach its spec, its status must show it, and it must become stable.
//!
//! One generator for the tests, which run some seeds, and for long runs by hand (`cargo xtask simulate`).

mod deployment;
mod stateful_set;

pub use deployment::{deployment, deployment_in_etcd, deployment_in_steps, deployment_with_leaders};
pub use stateful_set::{recreation, stateful_set, stateful_set_claims, stateful_set_in_etcd};

use crate::{
    Gates, Options, Part, Simulation,
    network::{Crash, Faults},
    rng::{Purpose, SeededRng},
};
use berth_api::FeatureGates;
use berth_identity::GroupResource;
use berth_node::Latencies;
use berth_store::env::Rng;
use berth_workloads::resources::{PODS, QUOTAS};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// Runs a storm with a seed.
pub type Run = fn(u64) -> Ended;

/// Every storm by its name.
pub const STORMS: [(&str, Run); 7] = [
    ("deployment", deployment),
    ("deployment-in-steps", deployment_in_steps),
    ("stateful-set", stateful_set),
    ("stateful-set-claims", stateful_set_claims),
    ("deployment-in-etcd", deployment_in_etcd),
    ("deployment-led", deployment_with_leaders),
    ("stateful-set-in-etcd", stateful_set_in_etcd),
];

/// Longer than any storm needs to abate: pods of a lost node may stay for ten minutes.
const LONGEST: Duration = Duration::from_secs(3600);
/// How many changes a storm has.
const CHANGES: u64 = 12;
/// How many virtual milliseconds controllers crash after each of their writes: each of them costs a start.
const CRASHING_MS: u64 = 400;
/// How many virtual milliseconds a manager is stopped at most: more than two leases.
const PAUSED_MAX_MS: u64 = 40_000;
const FAILURES: [&str; 4] = ["NeverReady", "CrashLoopBackOff", "ImagePullBackOff", "Pending"];
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const QUOTA: &str = "few";

/// A storm that is over, and held.
pub struct Ended {
    /// What it came to.
    pub tally: Tally,
    /// What is left, with its log.
    pub sim: Simulation,
}

/// What storms came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often a workload was made, or its template became another one.
    pub rollouts: u64,
    /// How often its size was set, or where its numbers begin.
    pub scalings: u64,
    /// How many writes were held against the limits.
    pub checked: u64,
}

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    /// Users change their minds, processes crash, quotas refuse.
    Changes,
    /// Also pods and nodes fail, pods are deleted and evicted.
    Losses,
}

/// A simulation, and the events around the workload in it.
struct Storm {
    rng: SeededRng,
    sim: Simulation,
    weather: Weather,
    /// How long pods take to stop.
    stop: Duration,
    images: u64,
    /// The last template that was set.
    template: Value,
    rollouts: u64,
    scalings: u64,
    /// Whether a template that fails is to be rolled back. Not drawn: the storms that others had before this came stay as they were.
    rolls_back: bool,
    /// Whether templates are rolled out in steps. Not drawn either.
    has_steps: bool,
    /// Whether some of them ask for a promotion.
    asks: bool,
    /// Whether some of them wait for a promotion.
    pauses: bool,
    /// Whether records are kept of rollouts. Not drawn either, and of none that failed once.
    keeps_records: bool,
}

impl Storm {
    /// Now and then on a disk.
    fn new(seed: u64) -> Self {
        Self::over(seed, |rng, options| if rng.below(8) == 0 { Simulation::on_disk(seed, options) } else { Simulation::new(seed, options) })
    }

    /// Over an etcd with failures of its own.
    fn in_etcd(seed: u64) -> Self {
        Self::over(seed, |_, options| Simulation::in_etcd(seed, options))
    }

    /// With two managers of controllers, of which one leads.
    fn with_leaders(seed: u64) -> Self {
        Self::over(seed, |rng, options| {
            let options = Options { standby: true, ..options };
            if rng.below(4) == 0 { Simulation::in_etcd(seed, options) } else { Simulation::new(seed, options) }
        })
    }

    fn over(seed: u64, sim: impl FnOnce(&SeededRng, Options) -> Simulation) -> Self {
        let rng = SeededRng::new(seed, Purpose::Script);
        let seconds = |choices: &[u64]| Duration::from_secs(*rng.choose(choices));
        let latencies = Latencies { start: seconds(&[0, 0, 3, 15]), stop: seconds(&[0, 2, 10, 45]) };
        let faults = *rng.choose(&[Faults::NONE, Faults::HOSTILE, Faults::HOSTILE]);
        let weather = *rng.choose(&[Weather::Changes, Weather::Losses]);
        let options = Options { faults, latencies, nodes: 2, ..Options::default() };
        let sim = sim(&rng, options);
        let mut storm = Self {
            rng,
            sim,
            weather,
            stop: latencies.stop,
            images: 1,
            template: Value::Null,
            rollouts: 0,
            scalings: 0,
            rolls_back: seed.is_multiple_of(3),
            has_steps: seed % 7 == 2,
            asks: seed % 21 == 16,
            pauses: false,
            keeps_records: matches!(seed % 11, 1 | 8 | 10),
        };
        if storm.keeps_records {
            storm.restart_with("");
        }
        storm
    }

    /// Restarts with these gates on, and that of the records where they are kept.
    fn restart_with(&mut self, on: &str) {
        let records = if self.keeps_records { ",RolloutRecords=true" } else { "" };
        let gates = || Arc::new(FeatureGates::parse(&format!("{on}{records}")).expect("they are known"));
        self.sim.restart_with(Gates { api: gates(), controllers: gates() });
    }

    /// Where records are kept, each revision of the workload records its rollout: the newest as complete, each other as ended.
    fn check_records(&self, workload: &Value, resource: &str, number: fn(&Value) -> Option<i64>) {
        if !self.keeps_records {
            return;
        }
        let uid = &workload["metadata"]["uid"];
        let all = self.sim.objects(resource).into_values().filter(|kept| kept["metadata"]["ownerReferences"][0]["uid"] == *uid);
        let mut kept: Vec<(i64, Value)> = all.filter_map(|kept| Some((number(&kept)?, kept))).collect();
        kept.sort_by_key(|(number, _)| *number);
        for (place, (number, kept)) in kept.iter().rev().enumerate() {
            let text = kept["metadata"]["annotations"]["berth.dev/rollout"].as_str().unwrap_or("null");
            let record: Value = serde_json::from_str(text).unwrap_or_default();
            let how = record["ended"]["how"].as_str().unwrap_or_default();
            let is_told = record["revision"] == *number && if place == 0 { how == "Complete" } else { !how.is_empty() };
            if !is_told {
                self.sim.fail(&format!("of the rollout of revision {number} this is told: {text}"));
            }
        }
    }

    fn end(self) -> Ended {
        let Self { sim, rollouts, scalings, .. } = self;
        Ended { tally: Tally { rollouts, scalings, checked: sim.seen().checked() }, sim }
    }

    fn number(&self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    /// From nothing at all up to a minute, short times as often as long ones.
    fn wait(&mut self) {
        let longest = *self.rng.choose(&[1, 30, 300, 3_000, 15_000, 60_000]);
        self.sim.run_for(Duration::from_millis(self.number(longest)));
    }

    /// A template with another image, or sometimes with a former one. Some of its pods hang when they terminate.
    fn template(&mut self, fails: &Value) -> Value {
        let image = if self.number(4) == 0 { 1 + self.number(self.images) } else { self.images + 1 };
        let hangs = if self.number(5) == 0 { *self.rng.choose(&[50, 130, 290]) } else { 0 };
        self.template_of(image, fails, hangs)
    }

    /// A template that nothing is wrong with, and its image, which was never there before.
    fn good_template(&mut self) -> (Value, String) {
        let image = self.images + 1;
        (self.template_of(image, &Value::Null, 0), format!("main:{image}"))
    }

    /// `hangs`: for how many seconds its pods continue when they terminate. 0: as the node decides.
    fn template_of(&mut self, image: u64, fails: &Value, hangs: u64) -> Value {
        self.images = self.images.max(image);
        let terminates_after = if hangs > 0 { json!(format!("{hangs}s")) } else { Value::Null };
        let template = json!({
            "metadata": {"annotations": {"sim.berth.dev/fails": fails, "sim.berth.dev/terminates-after": terminates_after}},
            "spec": {"terminationGracePeriodSeconds": hangs.max(60), "containers": [{"name": "main", "image": format!("main:{image}")}]},
        });
        self.rollouts += u64::from(self.template != template);
        self.template = template.clone();
        template
    }

    fn failure(&self) -> Value {
        json!(*self.rng.choose(&FAILURES))
    }

    /// Something that concerns no workload in particular.
    fn strike(&mut self) {
        match self.number(if self.weather == Weather::Losses { 17 } else { 10 }) {
            0..=2 => self.restart(Part::Controllers, 3000),
            3 => self.restart(*self.rng.choose(&[Part::Scheduler, Part::Nodes]), 3000),
            4 | 5 => self.sim.crash_controllers(Crash::After(1 + self.number(12))),
            6 => self.crash_after_each_write(),
            7 => self.lose_power(),
            8 => self.set_quota(),
            9 => self.set_deletion_costs(),
            10 => self.restart(Part::Nodes, 700_000),
            11 | 12 => self.hold_a_pod(),
            _ => self.lose_a_pod(),
        }
    }

    fn restart(&mut self, part: Part, longest_ms: u64) {
        self.sim.kill(part);
        self.sim.run_for(Duration::from_millis(self.number(longest_ms)));
        self.sim.start(part);
    }

    /// Stops one of the managers for a while, often for longer than its lease holds, while users go on.
    fn pause_a_manager(&mut self, meanwhile: impl FnOnce(&mut Self)) {
        let part = *self.rng.choose(&[Part::Controllers, Part::Standby]);
        self.sim.pause(part);
        meanwhile(self);
        self.sim.run_for(Duration::from_millis(self.number(PAUSED_MAX_MS)));
        self.sim.resume(part);
    }

    fn crash_after_each_write(&mut self) {
        self.sim.crash_controllers(Crash::AfterEach);
        self.sim.run_for(Duration::from_millis(self.number(CRASHING_MS)));
        self.sim.crash_controllers(Crash::Never);
    }

    /// Where nothing is on a disk, only the controllers are lost.
    fn lose_power(&mut self) {
        let seed = self.number(u64::MAX);
        if self.sim.is_on_disk() { self.sim.lose_power(seed) } else { self.restart(Part::Controllers, 1) }
    }

    /// Refuses pods beyond a number, another one than before, or refuses none any more.
    fn set_quota(&mut self) {
        let spec = json!({"hard": {"pods": self.number(9).to_string()}});
        match (self.sim.object("resourcequotas", QUOTA).is_null(), self.number(3)) {
            (true, _) => {
                self.sim.create(&json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": QUOTA}, "spec": spec}));
            }
            (false, 0) => self.sim.delete_if_there(QUOTAS, QUOTA),
            (false, _) => self.sim.patch(QUOTAS, QUOTA, json!({"spec": spec})),
        }
    }

    fn set_deletion_costs(&mut self) {
        for _ in 0..3 {
            let Some(pod) = self.some_pod() else { return };
            let cost = i64::try_from(self.number(5)).expect("small") - 2;
            self.sim.patch_if_there(PODS, &pod, json!({"metadata": {"annotations": {DELETION_COST: cost.to_string()}}}));
        }
    }

    /// A pod with a finalizer exists until the finalizer is removed, also when its containers have ended.
    fn hold_a_pod(&mut self) {
        if let Some(pod) = self.some_pod() {
            self.sim.patch_if_there(PODS, &pod, json!({"metadata": {"finalizers": ["sim.berth.dev/held"]}}));
        }
    }

    fn release_held_pods(&mut self) {
        let held = |pod: &Value| pod["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
        for (name, _) in self.sim.objects("pods").iter().filter(|(_, pod)| held(pod)) {
            self.sim.patch_if_there(PODS, name, json!({"metadata": {"finalizers": null}}));
        }
    }

    fn some_pod(&self) -> Option<String> {
        let pods: Vec<&str> = self.sim.seen().live_pods().into_iter().collect();
        (!pods.is_empty()).then(|| (*self.rng.choose(&pods)).to_owned())
    }

    fn lose_a_pod(&mut self) {
        let Some(pod) = self.some_pod() else { return };
        match self.number(4) {
            0 => self.sim.delete_pod(&pod),
            1 => self.sim.force_delete_pod(&pod),
            2 => drop(self.sim.evict_pod(&pod)),
            // The node still writes the status of another pod, and could contradict the failure.
            _ if self.sim.seen().is_ready(&pod) => self.sim.fail_pod(&pod),
            _ => (),
        }
    }

    /// Deletes the workload, with its pods or without them.
    fn delete(&mut self, resource: GroupResource, name: &str) {
        if self.number(2) == 0 { self.sim.delete_if_there(resource, name) } else { self.sim.orphan(resource, name) }
    }

    /// Nothing happens any more that was not begun.
    fn calm(&mut self) {
        self.sim.set_faults(Faults::NONE);
        self.sim.calm_etcd();
        self.sim.crash_controllers(Crash::Never);
        self.sim.delete_if_there(QUOTAS, QUOTA);
        self.release_held_pods();
    }
}
