//! A StatefulSet in a storm.

use super::{CHANGES, Ended, LONGEST, Storm, Weather};
use berth_workloads::resources::STATEFUL_SETS;
use serde_json::{Value, json};
use std::time::Duration;

/// How a set is brought to its last template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// By itself.
    Recreate,
    /// By itself, as asked for by `berth.dev/repair`.
    Repair,
    /// By a user who deletes pods that are not ready, as a rolling update requires.
    RollingUpdate,
    /// By a user who deletes everything.
    OnDelete,
}

/// Every strategy, both orders, with claims or without, changed in the middle of rollouts.
///
/// # Panics
/// If a limit is exceeded, or the set does not reach its spec.
#[must_use]
pub fn stateful_set(seed: u64) -> Ended {
    stateful_set_through(Storm::new(seed))
}

/// The same in an etcd that fails.
///
/// # Panics
/// As [`stateful_set`].
#[must_use]
pub fn stateful_set_in_etcd(seed: u64) -> Ended {
    stateful_set_through(Storm::in_etcd(seed))
}

/// Sets with claims, recreated more often than not: retention policy, size, strategy and template change in the middle of it, up to four of them at once,
/// are undone, the set is deleted and made again, and controllers are killed between.
///
/// # Panics
/// If a limit is passed, a claim is lost that is wanted, or one is left that is not.
#[must_use]
pub fn stateful_set_claims(seed: u64) -> Ended {
    let mut storm = Storm::new(seed);
    storm.set_gates();
    storm.create_with_claims();
    storm.wait();
    for _ in 0..CHANGES {
        for _ in 0..=storm.number(4) {
            storm.change_claims();
        }
        if storm.number(3) == 0 {
            storm.strike();
        }
        storm.wait();
    }
    storm.abate_stateful_set();
    storm.end()
}

fn stateful_set_through(mut storm: Storm) -> Ended {
    storm.set_gates();
    storm.create_stateful_set();
    storm.wait();
    for _ in 0..CHANGES {
        storm.change_stateful_set();
        storm.wait();
    }
    storm.abate_stateful_set();
    storm.end()
}

/// One recreation without faults; gives how long it took besides the termination and the start-up of its pods. Where order is asked for, they start
/// one after another.
///
/// # Panics
/// If a limit is passed, or it does not end.
#[must_use]
pub fn recreation(seed: u64) -> Duration {
    let mut storm = Storm { weather: Weather::Changes, ..Storm::new(seed) };
    storm.set_gates();
    storm.sim.set_faults(crate::network::Faults::NONE);
    storm.create_stateful_set();
    let replicas = 1 + storm.number(6);
    storm.patch_stateful_set(
        &json!({"updateStrategy": {"type": "Recreate", "rollingUpdate": null}, "replicas": replicas, "minReadySeconds": 0}),
    );
    storm.sim.run_for(Duration::from_secs(storm.number(300)));
    let starts = Duration::from_secs(storm.number(20));
    let (mut template, image) = storm.good_template();
    template["metadata"]["annotations"]["sim.berth.dev/ready-after"] = json!(format!("{}s", starts.as_secs()));
    let begun = storm.sim.elapsed();
    storm.patch_stateful_set(&json!({"template": template}));
    let first = storm.sim.object("statefulsets", "db")["spec"]["ordinals"]["start"].as_u64().unwrap_or(0);
    let wanted = names(first, replicas);
    storm.sim.run_until("the set is recreated", LONGEST, |seen| seen.are_ready(&wanted, &image));
    let took = storm.sim.elapsed() - begun;
    let ordered = storm.sim.object("statefulsets", "db")["spec"]["podManagementPolicy"] == "OrderedReady";
    let start_up = if ordered { starts * u32::try_from(replicas).expect("few") } else { starts };
    took.saturating_sub(storm.stop + start_up)
}

fn claim() -> Value {
    json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    })
}

/// The names of the pods from a number on.
fn names(first: u64, replicas: u64) -> Vec<String> {
    (first..first + replicas).map(|ordinal| format!("db-{ordinal}")).collect()
}

impl Storm {
    /// One in three has the gate of `maxUnavailable` on.
    fn set_gates(&mut self) {
        if self.number(3) == 0 {
            self.restart_with("MaxUnavailableStatefulSet=true");
        }
    }

    fn update_strategy(&self) -> Value {
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

    fn create_stateful_set(&mut self) {
        let claims = if self.number(2) == 0 { json!([claim()]) } else { json!([]) };
        let object = self.new_stateful_set(claims);
        self.sim.create(&object);
    }

    fn create_with_claims(&mut self) {
        let mut object = self.new_stateful_set(json!([claim()]));
        if self.number(2) == 0 {
            object["spec"]["updateStrategy"] = json!({"type": "Recreate"});
        }
        self.sim.create(&object);
    }

    fn new_stateful_set(&mut self, claims: Value) -> Value {
        let fails = self.some_failure();
        let mut object = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
            "spec": {
                "replicas": self.number(6),
                "serviceName": "db",
                "podManagementPolicy": *self.rng.choose(&["OrderedReady", "OrderedReady", "Parallel"]),
                "minReadySeconds": *self.rng.choose(&[0, 0, 4]),
                "revisionHistoryLimit": self.number(4),
                "updateStrategy": self.update_strategy(),
                "ordinals": {"start": self.number(4) / 2},
                "selector": {"matchLabels": {"app": "db"}},
                "volumeClaimTemplates": claims,
                "persistentVolumeClaimRetentionPolicy": self.retention(),
                "template": self.template_of(self.images, &fails, 0),
            },
        });
        object["spec"]["template"]["metadata"] = json!({"labels": {"app": "db"}, "annotations": {"sim.berth.dev/fails": fails}});
        object
    }

    /// One in four fails.
    fn some_failure(&self) -> Value {
        if self.number(4) == 0 { self.failure() } else { Value::Null }
    }

    fn patch_stateful_set(&mut self, spec: &Value) {
        self.sim.patch_stateful_set("db", json!({"spec": spec}));
    }

    fn change_stateful_set(&mut self) {
        match self.number(20) {
            0..=2 => self.scale_stateful_set(&json!({"replicas": self.number(7)})),
            3..=6 => {
                let fails = self.some_failure();
                let template = self.template(&fails);
                self.patch_stateful_set(&json!({"template": template}));
            }
            7 | 8 => self.patch_stateful_set(&json!({"updateStrategy": self.update_strategy()})),
            9 => self.scale_stateful_set(&json!({"ordinals": {"start": self.number(3)}})),
            10 => self.patch_stateful_set(&json!({"minReadySeconds": *self.rng.choose(&[0, 4])})),
            11 => self.patch_stateful_set(&json!({"persistentVolumeClaimRetentionPolicy": self.retention()})),
            12 => self.recreate_stateful_set(),
            _ => self.strike(),
        }
    }

    /// A change that concerns claims, or pods that they belong to.
    fn change_claims(&mut self) {
        match self.number(16) {
            0..=3 => self.patch_stateful_set(&json!({"persistentVolumeClaimRetentionPolicy": self.retention()})),
            4..=6 => self.scale_stateful_set(&json!({"replicas": self.number(6)})),
            7 => self.scale_stateful_set(&json!({"ordinals": {"start": self.number(3)}})),
            8 | 9 => {
                let fails = self.some_failure();
                let template = self.template(&fails);
                self.patch_stateful_set(&json!({"template": template}));
            }
            10 => self.undo_stateful_set(),
            11 | 12 => self.patch_stateful_set(&json!({"updateStrategy": {"type": "Recreate", "rollingUpdate": null}})),
            13 => self.patch_stateful_set(&json!({"updateStrategy": self.update_strategy()})),
            14 => self.restart(crate::Part::Controllers, 300),
            _ => self.make_with_claims_again(),
        }
    }

    fn make_with_claims_again(&mut self) {
        if self.number(3) == 0 {
            self.delete(STATEFUL_SETS, "db");
            self.wait();
            self.template = Value::Null;
            self.create_with_claims();
        }
    }

    /// As `kubectl rollout undo`: the template of the revision before the newest.
    fn undo_stateful_set(&mut self) {
        let uid = self.sim.object("statefulsets", "db")["metadata"]["uid"].clone();
        let all = self.sim.objects("controllerrevisions").into_values();
        let mut kept: Vec<Value> = all.filter(|kept| kept["metadata"]["ownerReferences"][0]["uid"] == uid).collect();
        kept.sort_by_key(|kept| kept["revision"].as_i64());
        let Some(before) = kept.len().checked_sub(2).and_then(|place| kept.get(place)) else { return };
        let mut template = before["data"]["spec"]["template"].clone();
        template.as_object_mut().expect("a template").remove("$patch");
        // A merge patch leaves what it does not name.
        for annotation in ["sim.berth.dev/fails", "sim.berth.dev/terminates-after"] {
            let value = template["metadata"]["annotations"][annotation].clone();
            template["metadata"]["annotations"][annotation] = value;
        }
        self.rollouts += 1;
        self.template = template.clone();
        self.patch_stateful_set(&json!({"template": template}));
    }

    fn scale_stateful_set(&mut self, spec: &Value) {
        self.scalings += 1;
        self.patch_stateful_set(spec);
    }

    fn recreate_stateful_set(&mut self) {
        self.delete(STATEFUL_SETS, "db");
        self.wait();
        self.template = Value::Null;
        self.create_stateful_set();
    }

    /// The last change, without faults: the set must reach its spec.
    fn abate_stateful_set(&mut self) {
        self.calm();
        let ending = *self.rng.choose(&[Ending::Recreate, Ending::Repair, Ending::RollingUpdate, Ending::OnDelete]);
        let strategy = match ending {
            Ending::Recreate => "Recreate",
            Ending::Repair | Ending::RollingUpdate => "RollingUpdate",
            Ending::OnDelete => "OnDelete",
        };
        let repair = if ending == Ending::Repair { json!("Revision") } else { Value::Null };
        let (start, replicas) = (self.number(3), self.number(6));
        let (template, image) = self.good_template();
        let spec = json!({
            "replicas": replicas, "ordinals": {"start": start}, "template": template,
            "updateStrategy": {"type": strategy, "rollingUpdate": null},
        });
        self.sim.patch_stateful_set("db", json!({"metadata": {"annotations": {"berth.dev/repair": repair}}, "spec": spec}));
        let wanted = names(start, replicas);
        if matches!(ending, Ending::RollingUpdate | Ending::OnDelete) {
            self.sim.run_for(Duration::from_secs(60));
            // A pod that comes back with the broken revision goes again.
            for _ in 0..12 {
                self.delete_what_holds_up(ending);
                if self.sim.try_until(Duration::from_secs(120), |seen| seen.are_ready(&wanted, &image)) {
                    break;
                }
            }
        }
        let what = format!("{ending:?}: {wanted:?} run {image} and are ready");
        self.sim.run_until(&what, LONGEST, |seen| seen.are_ready(&wanted, &image));
        self.sim.come_to_rest(LONGEST);
        let status = &self.sim.object("statefulsets", "db")["status"];
        if ending != Ending::OnDelete && status["currentRevision"] != status["updateRevision"] {
            self.sim.fail(&format!("{ending:?}: the update is over, and its revision not the current one: {status}"));
        }
        self.check_records(&self.sim.object("statefulsets", "db"), "controllerrevisions", |kept| kept["revision"].as_i64());
    }

    fn delete_what_holds_up(&mut self, ending: Ending) {
        let update = self.sim.object("statefulsets", "db")["status"]["updateRevision"].clone();
        let is_old = |pod: &Value| pod["metadata"]["labels"]["controller-revision-hash"] != update;
        let pods = self.sim.objects("pods");
        let holds_up = |name: &str| ending == Ending::OnDelete || !self.sim.seen().is_ready(name);
        let in_the_way = pods.iter().filter(|(name, pod)| is_old(pod) && holds_up(name));
        let in_the_way: Vec<&String> = in_the_way.map(|(name, _)| name).collect();
        in_the_way.into_iter().for_each(|name| self.sim.delete_pod(name));
    }
}
