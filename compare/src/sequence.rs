//! What is done to one workload or autoscaler, drawn from a seed.

mod autoscaler;
mod batch;
mod daemon_set;

use crate::draw::Draw;
use serde_json::{Value, json};

/// How many changes follow the create.
const CHANGES: std::ops::Range<usize> = 3..7;

/// Which controller acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    Deployment,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    HorizontalPodAutoscaler,
}

impl Workload {
    /// In the order of seeds.
    const ALL: [Self; 6] = [Self::Deployment, Self::StatefulSet, Self::DaemonSet, Self::Job, Self::CronJob, Self::HorizontalPodAutoscaler];

    /// The workload of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let index = usize::try_from(seed % 6).expect("it is below 6");
        Self::ALL[index]
    }

    /// `deployments`.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Deployment => "deployments",
            Self::StatefulSet => "statefulsets",
            Self::DaemonSet => "daemonsets",
            Self::Job => "jobs",
            Self::CronJob => "cronjobs",
            Self::HorizontalPodAutoscaler => "horizontalpodautoscalers",
        }
    }

    /// `apps/v1`.
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::Deployment | Self::StatefulSet | Self::DaemonSet => "apps/v1",
            Self::Job | Self::CronJob => "batch/v1",
            Self::HorizontalPodAutoscaler => "autoscaling/v2",
        }
    }

    /// Paths of the lists that its controller writes, the workload's own first. `NAMESPACE` is replaced with the namespace.
    pub(crate) fn lists(self) -> &'static [&'static str] {
        match self {
            Self::Deployment => &[
                "/apis/apps/v1/namespaces/NAMESPACE/deployments",
                "/apis/apps/v1/namespaces/NAMESPACE/replicasets",
                "/api/v1/namespaces/NAMESPACE/pods",
            ],
            Self::StatefulSet => &[
                "/apis/apps/v1/namespaces/NAMESPACE/statefulsets",
                "/apis/apps/v1/namespaces/NAMESPACE/controllerrevisions",
                "/api/v1/namespaces/NAMESPACE/pods",
                "/api/v1/namespaces/NAMESPACE/persistentvolumeclaims",
            ],
            Self::DaemonSet => &[
                "/apis/apps/v1/namespaces/NAMESPACE/daemonsets",
                "/apis/apps/v1/namespaces/NAMESPACE/controllerrevisions",
                "/api/v1/namespaces/NAMESPACE/pods",
            ],
            Self::Job => &["/apis/batch/v1/namespaces/NAMESPACE/jobs", "/api/v1/namespaces/NAMESPACE/pods"],
            Self::CronJob => &["/apis/batch/v1/namespaces/NAMESPACE/cronjobs", "/apis/batch/v1/namespaces/NAMESPACE/jobs"],
            Self::HorizontalPodAutoscaler => {
                &["/apis/autoscaling/v2/namespaces/NAMESPACE/horizontalpodautoscalers", "/apis/apps/v1/namespaces/NAMESPACE/deployments"]
            }
        }
    }
}

/// A change, after which both clusters come to rest.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// A strategic merge patch of the workload.
    Patch(Value),
    /// The same of the Deployment that an autoscaler scales.
    PatchTarget(Value),
    /// The last start of a CronJob, so many minutes ago.
    Backdate(u64),
    /// So many of its Jobs, the first by name.
    DeleteJobs(usize),
    /// So many of its pods, the first by name.
    DeletePods(usize),
    /// The ReplicaSet of the highest revision.
    DeleteReplicaSet,
    /// The workload, with this propagation policy; then it is created again as it was.
    Recreate(&'static str),
}

/// Everything that is done in one namespace.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    pub(crate) workload: Workload,
    pub(crate) object: Value,
    /// The Deployment that an autoscaler scales.
    pub(crate) target: Option<Value>,
    /// Whether volumes for its claims are there.
    pub(crate) has_claims: bool,
    pub(crate) operations: Vec<Operation>,
}

impl Sequence {
    /// The sequence of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        let workload = Workload::of(seed);
        let has_claims = workload == Workload::StatefulSet && draw.percent(40);
        let object = match workload {
            Workload::Deployment => deployment(&mut draw),
            Workload::StatefulSet => stateful_set(&mut draw, has_claims),
            Workload::DaemonSet => daemon_set::daemon_set(&mut draw),
            Workload::Job => batch::job(&mut draw),
            Workload::CronJob => batch::cron_job(&mut draw),
            Workload::HorizontalPodAutoscaler => autoscaler::autoscaler(&mut draw),
        };
        let target = (workload == Workload::HorizontalPodAutoscaler).then(|| autoscaler::target(&mut draw));
        let count = CHANGES.start + draw.below(CHANGES.len());
        let operations = (0..count).map(|_| operation(&mut draw, workload)).collect();
        Self { workload, object, target, has_claims, operations }
    }
}

fn template(draw: &mut Draw) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "web", "image": image(draw)}],
        },
    })
}

fn image(draw: &mut Draw) -> String {
    format!("web:{}", 1 + draw.below(3))
}

fn deployment(draw: &mut Draw) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": draw.below(5),
            "progressDeadlineSeconds": 2,
            "revisionHistoryLimit": draw.below(4),
            "strategy": strategy(draw),
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(draw),
        },
    })
}

fn strategy(draw: &mut Draw) -> Value {
    if draw.percent(25) {
        return json!({"type": "Recreate", "rollingUpdate": null});
    }
    let [surge, unavailable] = *draw.pick(&[[1, 0], [0, 1], [2, 1], [1, 1], [3, 0]]);
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

fn stateful_set(draw: &mut Draw, has_claims: bool) -> Value {
    let mut set = json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "web"},
        "spec": {
            "serviceName": "web",
            "replicas": draw.below(4),
            "revisionHistoryLimit": draw.below(4),
            "podManagementPolicy": draw.pick(&["OrderedReady", "Parallel"]),
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(draw),
        },
    });
    if has_claims {
        set["spec"]["volumeClaimTemplates"] = json!([{
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}},
        }]);
        set["spec"]["persistentVolumeClaimRetentionPolicy"] = retention(draw);
        set["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    }
    set
}

fn retention(draw: &mut Draw) -> Value {
    let mut policy = || *draw.pick(&["Retain", "Delete"]);
    json!({"whenDeleted": policy(), "whenScaled": policy()})
}

fn operation(draw: &mut Draw, workload: Workload) -> Operation {
    match workload {
        Workload::Deployment | Workload::StatefulSet => replicated(draw, workload),
        Workload::DaemonSet => daemon_set::operation(draw),
        Workload::Job => batch::of_job(draw),
        Workload::CronJob => batch::of_cron_job(draw),
        Workload::HorizontalPodAutoscaler => autoscaler::operation(draw),
    }
}

fn patch(spec: Value) -> Operation {
    Operation::Patch(json!({ "spec": spec }))
}

/// What is deleted with it, and when.
fn recreate(draw: &mut Draw) -> Operation {
    Operation::Recreate(draw.pick::<&str>(&["Orphan", "Background", "Foreground"]))
}

/// A change of a workload with a number of replicas.
fn replicated(draw: &mut Draw, workload: Workload) -> Operation {
    match draw.below(20) {
        0..4 => patch(json!({"replicas": draw.below(5)})),
        4..9 => patch(json!({"template": {"spec": {"containers": [container(draw, workload)]}}})),
        9 | 10 => Operation::DeletePods(1 + draw.below(3)),
        11 => patch(
            json!({"template": {"metadata": {"annotations": {"sim.berth.dev/fails": draw.pick(&[json!("NeverReady"), json!("Pending"), Value::Null])}}}}),
        ),
        12 => patch(json!({"minReadySeconds": draw.below(2)})),
        13 => patch(json!({"revisionHistoryLimit": draw.below(4)})),
        14 => recreate(draw),
        15 => Operation::Patch(json!({"metadata": {"annotations": {"note": image(draw)}}})),
        _ if workload == Workload::Deployment => match draw.below(4) {
            0 | 1 => patch(json!({"paused": draw.percent(50)})),
            2 => patch(json!({"strategy": strategy(draw)})),
            _ => Operation::DeleteReplicaSet,
        },
        _ => match draw.below(3) {
            0 => patch(json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": draw.below(4)}}})),
            1 => patch(json!({"updateStrategy": {"type": draw.pick(&["OnDelete", "RollingUpdate"]), "rollingUpdate": null}})),
            _ => patch(json!({"persistentVolumeClaimRetentionPolicy": retention(draw)})),
        },
    }
}

/// The change of the one container.
fn container(draw: &mut Draw, workload: Workload) -> Value {
    let mut container = json!({"name": "web", "image": image(draw)});
    if workload == Workload::StatefulSet && draw.percent(20) {
        container["env"] = json!([{"name": "A", "value": "a"}]);
    }
    container
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_always_the_same_sequence() {
        for seed in 0..60 {
            assert_eq!(format!("{:?}", Sequence::new(seed)), format!("{:?}", Sequence::new(seed)));
        }
    }
}
