//! Random changes of random workloads. Forecasts of them are compared with a simulation and with a real cluster.

use berth_plan::Edits;
use berth_sim::rng::SeededRng;
use berth_store::env::Rng;
use berth_workloads::workload::WorkloadKind;
use serde_json::{Value, json};
use std::time::Duration;

/// Its name.
pub(crate) const NAME: &str = "web";

/// A Deployment of `replicas` pods of the image `main:1`; `spec` is merged into its spec.
pub(crate) fn deployment(replicas: u32, spec: &Value) -> Value {
    let mut deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": NAME, "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"terminationGracePeriodSeconds": 600, "containers": [{"name": "main", "image": "main:1"}]},
            },
        },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        deployment["spec"][key] = value.clone();
    }
    deployment
}

/// The same as a StatefulSet.
pub(crate) fn stateful_set(replicas: u32, spec: &Value) -> Value {
    let mut set = deployment(replicas, spec);
    set["kind"] = json!("StatefulSet");
    set["spec"]["serviceName"] = json!("web");
    set
}

/// The same as a DaemonSet: its pods run on all nodes.
pub(crate) fn daemon_set(spec: &Value) -> Value {
    let mut set = deployment(1, spec);
    set["kind"] = json!("DaemonSet");
    set["spec"].as_object_mut().map(|spec| spec.remove("replicas"));
    set
}

/// The cost of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// The time is virtual.
    Virtual,
    /// The time is real: a rollout takes seconds, at most some tens of them.
    Real,
}

/// A converged workload, and a change of it.
pub(crate) struct Scenario {
    pub(crate) kind: WorkloadKind,
    pub(crate) manifest: Value,
    pub(crate) times: Times,
    pub(crate) edits: Edits,
    /// The limit of a quota for pods.
    pub(crate) quota: Option<u64>,
    /// How long nothing happens before the change.
    pub(crate) idle: Duration,
    pub(crate) hold: Hold,
}

/// The times of pods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// From binding to readiness.
    pub(crate) start: Duration,
    /// From deletion to its end.
    pub(crate) stop: Duration,
    /// The time from the beginning of a rollout to its middle.
    pub(crate) middle: Duration,
}

/// The part of the rollout that the workload's owner controls manually.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Nothing,
    /// A Deployment is paused before the change.
    Paused,
    /// It is paused in the middle of a rollout.
    PausedInTheMiddle,
    /// The user deletes the pods of a StatefulSet or a DaemonSet.
    OnDelete,
}

impl Scenario {
    pub(crate) fn draw(rng: &SeededRng, pace: Pace) -> Self {
        let number = |below: u64| u32::try_from(rng.below(below)).expect("small");
        let kind = if number(4) == 0 { WorkloadKind::StatefulSet } else { WorkloadKind::Deployment };
        let mut manifest = manifest(rng, kind);
        let times = Times::draw(rng, pace);
        let replicas = (number(3) == 0).then(|| i32::try_from(1 + number(14)).expect("small"));
        let images = if replicas.is_none() || number(2) == 0 { vec![("main".to_owned(), "main:2".to_owned())] } else { Vec::new() };
        let quota = (number(6) == 0).then(|| 16 + u64::from(number(8)));
        let idle = Duration::from_millis(rng.below(90_000));
        let idle = if pace == Pace::Real { idle / 20 } else { idle };
        let hold = match (number(8), kind) {
            (0, WorkloadKind::Deployment) => Hold::Paused,
            (1, WorkloadKind::Deployment) => Hold::PausedInTheMiddle,
            (0 | 1, WorkloadKind::StatefulSet) => Hold::OnDelete,
            _ => Hold::Nothing,
        };
        if hold == Hold::OnDelete {
            manifest["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
        }
        let edits = Edits { images, replicas, ..Edits::default() };
        Self { kind, manifest, times, edits, quota, idle, hold }
    }

    /// A new image for a DaemonSet.
    pub(crate) fn of_daemon_set(rng: &SeededRng) -> Self {
        let limit = |choices: &[Value]| rng.choose(choices).clone();
        let hold = if rng.below(5) == 0 { Hold::OnDelete } else { Hold::Nothing };
        let rolling = match rng.below(2) {
            0 => json!({"maxSurge": limit(&[json!(1), json!(2), json!("40%")]), "maxUnavailable": 0}),
            _ => json!({"maxSurge": 0, "maxUnavailable": limit(&[json!(1), json!(2), json!("60%")])}),
        };
        let strategy =
            if hold == Hold::OnDelete { json!({"type": "OnDelete"}) } else { json!({"type": "RollingUpdate", "rollingUpdate": rolling}) };
        let min_ready_seconds = limit(&[json!(0), json!(0), json!(4)]);
        Self {
            kind: WorkloadKind::DaemonSet,
            manifest: daemon_set(&json!({"updateStrategy": strategy, "minReadySeconds": min_ready_seconds})),
            times: Times::draw(rng, Pace::Virtual),
            edits: Edits { images: vec![("main".to_owned(), "main:2".to_owned())], ..Edits::default() },
            quota: None,
            idle: Duration::from_millis(rng.below(90_000)),
            hold,
        }
    }

    /// The change, as a merge patch.
    pub(crate) fn patch(&self) -> Value {
        let mut spec = json!({});
        for (_, image) in &self.edits.images {
            spec["template"] = template(image);
        }
        self.edits.replicas.into_iter().for_each(|replicas| spec["replicas"] = json!(replicas));
        json!({"spec": spec})
    }

    /// Whether milliseconds decide the outcome ([docs/how-to/plan.md](../../../../docs/how-to/plan.md#is-it-right)): the old ReplicaSet is
    /// scaled up and at once down, or a quota is full (`is_refused`), so that the order and the number of attempts matter.
    pub(crate) fn is_tied(&self, is_refused: bool) -> bool {
        let replicas = self.manifest["spec"]["replicas"].as_i64().unwrap_or(1);
        let grows = self.edits.replicas.is_some_and(|wanted| replicas < i64::from(wanted));
        self.kind == WorkloadKind::Deployment && (is_refused || grows && !self.edits.images.is_empty())
    }
}

/// Another template.
pub(crate) fn template(image: &str) -> Value {
    json!({"spec": {"containers": [{"name": "main", "image": image}]}})
}

fn manifest(rng: &SeededRng, kind: WorkloadKind) -> Value {
    let number = |below: u64| u32::try_from(rng.below(below)).expect("small");
    let replicas = 1 + number(12);
    match kind {
        WorkloadKind::Deployment => {
            let limit = |choices: &[Value]| rng.choose(choices).clone();
            let surge = limit(&[json!(0), json!(1), json!(3), json!("25%"), json!("100%")]);
            let unavailable = limit(&[json!(0), json!(1), json!(2), json!("25%"), json!("60%")]);
            let both_zero = surge == json!(0) && unavailable == json!(0);
            let rolling = json!({"maxSurge": surge, "maxUnavailable": if both_zero { json!(1) } else { unavailable }});
            let strategy =
                if number(6) == 0 { json!({"type": "Recreate"}) } else { json!({"type": "RollingUpdate", "rollingUpdate": rolling}) };
            let policy = limit(&[Value::Null, json!("TerminationStarted"), json!("TerminationComplete")]);
            deployment(replicas, &json!({"strategy": strategy, "podReplacementPolicy": policy}))
        }
        WorkloadKind::StatefulSet => {
            let strategy = if number(3) == 0 { "Recreate" } else { "RollingUpdate" };
            let management = if number(2) == 0 { "Parallel" } else { "OrderedReady" };
            stateful_set(replicas.min(6), &json!({"updateStrategy": {"type": strategy}, "podManagementPolicy": management}))
        }
        WorkloadKind::DaemonSet => daemon_set(&json!({})),
    }
}

impl Times {
    /// Sequences of pods that start and stop end either at the same time as parallel ones, or far apart.
    fn draw(rng: &SeededRng, pace: Pace) -> Self {
        let milliseconds = Duration::from_millis;
        match pace {
            // Multiples of one differ from multiples of the other for long.
            Pace::Virtual => {
                let start = milliseconds(3000 + 1000 * rng.below(8));
                Self { start, stop: milliseconds(7550 + 3700 * rng.below(8)), middle: start + milliseconds(1500) }
            }
            // The lengths have no common divisor. So a number of starts and stops takes as long as another number only for sequences of 15
            // pods or more. Otherwise they are a fifth of a second apart.
            Pace::Real => {
                let (starts, stops) = loop {
                    let (starts, stops) = (2 + rng.below(6), 15 + rng.below(11));
                    if has_no_common_divisor(starts, stops) {
                        break (starts, stops);
                    }
                };
                let start = milliseconds(200 * starts);
                Self { start, stop: milliseconds(200 * stops), middle: start + milliseconds(100) }
            }
        }
    }
}

fn has_no_common_divisor(a: u64, b: u64) -> bool {
    (2..=a.min(b)).all(|divisor| !a.is_multiple_of(divisor) || !b.is_multiple_of(divisor))
}
