//! A Deployment in a storm.

use super::{CHANGES, Ended, LONGEST, Storm, Weather};
use berth_workloads::resources::DEPLOYMENTS;
use serde_json::{Value, json};
use std::time::Duration;

const POLICIES: [Option<&str>; 3] = [None, Some("TerminationStarted"), Some("TerminationComplete")];
const TIMED: &str = "30%, 20s, 60%, 1s, 100%";
/// Enough for a ReplicaSet to be deleted while it creates pods.
const MANY: u64 = 40;
const DELETED: [&str; 2] = ["TerminationStarted", "TerminationComplete"];

/// Every strategy and policy, changed in the middle of rollouts.
///
/// # Panics
/// If a limit is exceeded, or the Deployment does not reach its spec.
#[must_use]
pub fn deployment(seed: u64) -> Ended {
    deployment_through(Storm::new(seed))
}

/// The same in an etcd that fails.
///
/// # Panics
/// As [`deployment`].
#[must_use]
pub fn deployment_in_etcd(seed: u64) -> Ended {
    deployment_through(Storm::in_etcd(seed))
}

/// The same, in which one of two managers leads, and now and then is stopped for so long that the other takes over.
///
/// # Panics
/// As [`deployment`].
#[must_use]
pub fn deployment_with_leaders(seed: u64) -> Ended {
    let mut storm = Storm::with_leaders(seed);
    storm.create_deployment();
    storm.wait();
    for _ in 0..CHANGES {
        storm.change_deployment();
        if storm.number(2) == 0 {
            // Most likely with something on its way.
            storm.sim.run_for(Duration::from_millis(storm.number(300)));
            storm.pause_a_manager(Storm::change_deployment);
        }
        storm.wait();
    }
    storm.abate_deployment();
    storm.end()
}

/// Rollouts in steps that wait for promotions, paused, resumed, scaled (also from and to nothing), undone, and deleted and created again, with pods on their way too.
///
/// # Panics
/// As [`deployment`].
#[must_use]
pub fn deployment_in_steps(seed: u64) -> Ended {
    let mut storm = Storm::new(seed);
    (storm.has_steps, storm.asks, storm.pauses) = (true, false, true);
    storm.create_deployment();
    storm.wait();
    for _ in 0..CHANGES {
        storm.change_in_steps();
        storm.wait();
    }
    storm.abate_deployment();
    storm.end()
}

fn deployment_through(mut storm: Storm) -> Ended {
    storm.create_deployment();
    storm.wait();
    for _ in 0..CHANGES {
        storm.change_deployment();
        storm.wait();
    }
    storm.abate_deployment();
    storm.end()
}

impl Storm {
    fn strategy(&self) -> Value {
        let amount = |least: u64| match self.number(3) {
            0 => json!(format!("{}%", *self.rng.choose(&[25, 34, 50, 100]))),
            _ => json!(least + self.number(3)),
        };
        match self.number(4) {
            0 if !self.has_steps => json!({"type": "Recreate", "rollingUpdate": null}),
            1 => json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": amount(1)}}),
            _ => json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": amount(1), "maxUnavailable": amount(0)}}),
        }
    }

    fn create_deployment(&mut self) {
        let mut object = json!({
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
                "template": self.template_of(self.images, &Value::Null, 0),
            },
        });
        object["spec"]["template"]["metadata"] = json!({"labels": {"app": "web"}});
        if self.has_steps {
            let annotations = &mut object["metadata"]["annotations"];
            annotations["berth.dev/steps"] = json!(match (self.asks, self.pauses) {
                (true, _) => "30%, analysis, 60%, 1s, analysis, 100%",
                (false, true) => "30%, pause, 60%, 1s, 100%",
                (false, false) => TIMED,
            });
            if self.asks {
                annotations["berth.dev/analysis-provider"] = json!("drawn");
                annotations["berth.dev/analysis-query"] = json!("up");
            }
        }
        if self.rolls_back {
            object["metadata"]["annotations"]["berth.dev/auto-rollback"] = json!("OnDeadline");
        }
        self.sim.create(&object);
    }

    fn change_deployment(&mut self) {
        match self.number(20) {
            0..=3 => self.scale_deployment(self.number(10)),
            4..=6 => self.change_template(&Value::Null),
            7 | 8 => self.change_template(&self.failure()),
            9 => self.sim.undo("web"),
            10 => self.patch_deployment(json!({"paused": self.number(2) == 0})),
            11 => self.patch_deployment(json!({"podReplacementPolicy": *self.rng.choose(&POLICIES)})),
            12 => self.patch_deployment(json!({"strategy": self.strategy()})),
            13 if self.weather == Weather::Losses => self.lose_a_set(),
            14 => self.recreate_deployment(),
            _ => self.strike(),
        }
    }

    fn change_in_steps(&mut self) {
        match self.number(18) {
            0..=3 => self.scale_deployment(*self.rng.choose(&[0, 1, 2, 4, 8, 9, MANY])),
            4..=6 => self.change_template(&Value::Null),
            7 => self.change_template(&self.failure()),
            8 => self.sim.undo("web"),
            9 => self.patch_deployment(json!({"paused": true})),
            10 | 11 => self.patch_deployment(json!({"paused": false})),
            12 | 13 => self.promote(),
            14 => self.patch_deployment(json!({"podReplacementPolicy": *self.rng.choose(&POLICIES)})),
            15 => self.replace_while_it_grows(),
            16 if self.weather == Weather::Losses => self.lose_a_set(),
            _ => self.strike(),
        }
    }

    /// Ends the wait that the newest rollout is at, if it is at one.
    fn promote(&mut self) {
        let sets = self.sim.objects("replicasets");
        let Some(newest) = sets.values().max_by_key(|set| revision(set)) else { return };
        let (annotations, labels) = (&newest["metadata"]["annotations"], &newest["metadata"]["labels"]);
        let Some((place, _)) = annotations["berth.dev/step"].as_str().and_then(|text| text.split_once('@')) else { return };
        let promoted = format!("{place}/{}", labels["pod-template-hash"].as_str().unwrap_or_default());
        self.sim.patch_deployment("web", json!({"metadata": {"annotations": {"berth.dev/promoted": promoted}}}));
    }

    /// Deletes the Deployment, or its set, while the set creates pods.
    fn replace_while_it_grows(&mut self) {
        self.scale_deployment(MANY);
        self.sim.run_for(Duration::from_millis(self.number(200)));
        if self.weather == Weather::Losses && self.number(2) == 0 {
            return self.lose_a_set();
        }
        self.sim.delete_if_there(DEPLOYMENTS, "web");
        self.template = Value::Null;
        self.create_deployment();
    }

    fn patch_deployment(&mut self, spec: Value) {
        self.sim.patch_deployment("web", json!({"spec": spec}));
    }

    fn scale_deployment(&mut self, replicas: u64) {
        self.scalings += 1;
        self.patch_deployment(json!({"replicas": replicas}));
    }

    fn change_template(&mut self, fails: &Value) {
        let template = self.template(fails);
        self.patch_deployment(json!({"template": template}));
    }

    fn recreate_deployment(&mut self) {
        self.delete(DEPLOYMENTS, "web");
        self.wait();
        self.template = Value::Null;
        self.create_deployment();
    }

    /// Its pods are deleted after it.
    fn lose_a_set(&mut self) {
        let sets: Vec<String> = self.sim.objects("replicasets").into_keys().collect();
        if !sets.is_empty() {
            let set = self.rng.choose(&sets).clone();
            self.sim.delete_set(&set);
        }
    }

    /// The last change, without faults: the Deployment must reach its spec.
    fn abate_deployment(&mut self) {
        self.calm();
        let (template, image) = self.good_template();
        // An unseen rollback request would come after the last change, and so may a deadline.
        let mut annotations = json!({"deprecated.deployment.rollback.to": null, "berth.dev/auto-rollback": null});
        if self.asks || self.pauses {
            // Who is asked may be against the last change too.
            annotations["berth.dev/steps"] = json!(TIMED);
        }
        let spec = json!({"paused": false, "template": template});
        self.sim.patch_deployment("web", json!({"metadata": {"annotations": annotations}, "spec": spec}));
        self.wait();
        // Without pods a step proves nothing, and is not over.
        let replicas = if self.has_steps { 1 + self.number(8) } else { self.number(8) };
        self.scale_deployment(replicas);
        self.sim.run_until_rolled_out("web", LONGEST);
        let wanted = usize::try_from(replicas).expect("few");
        self.sim.run_until("no pod goes or runs an old image", LONGEST, |seen| seen.run_only(&image, wanted));
        self.sim.come_to_rest(LONGEST);
        self.check_records(&self.sim.object("deployments", "web"), "replicasets", revision);
    }
}

/// The number of a ReplicaSet's rollout.
fn revision(set: &Value) -> Option<i64> {
    set["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str()?.parse().ok()
}
