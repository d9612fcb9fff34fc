//! Why a workload's pods are missing, not ready or not deleted although its controller has done its part. One table of causes, most
//! informative first.
//!
//! A [`crate::plan::Wait`] is what a controller defers deliberately. A [`Cause`] is what blocks the rest. [`of_deployment`] and
//! [`of_stateful_set`] evaluate everything known about a workload. [`of_pod`] evaluates one pod, independent of the time. The rules about
//! pods are in the table of `pods.rs`, those about refused pods in `refusal.rs`, and those about other objects of the namespace in
//! `neighbors.rs`. To add a cause, add a case of [`Kind`] at its rank with its words, a rule with its test, and a line in `table.rs`: what
//! happens next, and what a user can do.

mod advice;
mod neighbors;
mod pods;
mod refusal;
mod scheduling;
mod table;
mod workload;

pub use advice::{AdviceContext, Obstacle, Replacement, ToDo, ranked, recreate};
pub use neighbors::{Rival, held_by_budgets, on_lost_nodes, overlap, resource_claims};
pub use pods::{is_in_trouble, of_pod};
pub use scheduling::misfits;
pub(crate) use workload::REVISION_NOT_CREATED;
pub use workload::{
    CronJobFacts, DaemonSetFacts, DeploymentFacts, JobFacts, PodFacts, ReplicaSetFacts, StatefulSetFacts, of_cron_job, of_daemon_set,
    of_deployment, of_job, of_one_pod, of_replica_set, of_stateful_set, refusal_of, refusal_of_stateful_set,
};

use jiff::Timestamp;
use std::fmt;

/// What blocks a workload. The order of the cases is the rank: users investigate the first of several.
///
/// A pod that gets far and then fails points to the template, and every pod of that template fails alike. So container failures come first,
/// from the image to the probe. Pods without a node follow, and then refused pods: both can resolve when other pods end. Then come the
/// causes that block pods on a node, and those that delay termination. Then a missing controller: any other cause proves that a controller
/// acts. Possible harm comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// An image cannot be pulled, or its name is invalid.
    ImagePull,
    /// A container cannot be created or started: a missing ConfigMap or Secret, or a missing command.
    ContainerConfig,
    /// A container ends repeatedly.
    Crash,
    /// A pod failed as a whole: evicted, or rejected by its node.
    PodFailed,
    /// The pod's node does not respond.
    NodeLost,
    /// A pod runs but is not ready: a probe fails, or a readiness gate is false.
    NotReady,
    /// No node has enough resources.
    UnschedulableResources,
    /// No node matches the pod's selector, affinity or spread constraints.
    UnschedulableAffinity,
    /// Nodes have taints that the pod does not tolerate.
    UnschedulableTaint,
    /// A claim is missing or unbound, or its volume is not accessible from the node.
    UnschedulableVolume,
    /// No volume can be provisioned for a claim.
    Provisioning,
    /// All nodes are cordoned.
    UnschedulableCordoned,
    /// No node fits, for another reason.
    Unschedulable,
    /// A ResourceClaim is missing.
    ResourceClaim,
    /// A scheduling gate keeps the pod from being scheduled.
    SchedulingGated,
    /// A quota is exhausted, or requires amounts that the pod does not specify.
    Quota,
    /// A LimitRange forbids the pod.
    LimitRange,
    /// The namespace's pod security level forbids the pod.
    PodSecurity,
    /// An admission webhook rejects the pod, or is unreachable.
    Webhook,
    /// The API server rejects the pod or its ReplicaSet for another reason.
    Refused,
    /// A volume cannot be attached or mounted.
    Volume,
    /// A pod is bound to a node and does not start.
    NotStarted,
    /// A finalizer blocks the deletion of a pod that has ended.
    Finalizer,
    /// A pod still exists after its grace period.
    TerminationOverdue,
    /// A pod's node is being drained, and a disruption budget blocks the pod's eviction.
    Budget,
    /// No scheduler has reported on the pod.
    NotScheduled,
    /// No controller has observed the object.
    NotObserved,
    /// Another workload selects the same pods.
    Overlap,
}

/// The words of one kind: the text after one pod's name, and the text after `3 pods`.
struct Words {
    reason: &'static str,
    one: &'static str,
    many: &'static str,
}

impl Kind {
    /// All kinds, by rank.
    pub const ALL: [Self; 28] = [
        Self::ImagePull,
        Self::ContainerConfig,
        Self::Crash,
        Self::PodFailed,
        Self::NodeLost,
        Self::NotReady,
        Self::UnschedulableResources,
        Self::UnschedulableAffinity,
        Self::UnschedulableTaint,
        Self::UnschedulableVolume,
        Self::Provisioning,
        Self::UnschedulableCordoned,
        Self::Unschedulable,
        Self::ResourceClaim,
        Self::SchedulingGated,
        Self::Quota,
        Self::LimitRange,
        Self::PodSecurity,
        Self::Webhook,
        Self::Refused,
        Self::Volume,
        Self::NotStarted,
        Self::Finalizer,
        Self::TerminationOverdue,
        Self::Budget,
        Self::NotScheduled,
        Self::NotObserved,
        Self::Overlap,
    ];

    /// The name for programs. It never changes.
    #[must_use]
    pub fn reason(self) -> &'static str {
        self.words().reason
    }

    /// Whether no node accepts the pod.
    #[must_use]
    pub fn is_unschedulable(self) -> bool {
        matches!(
            self,
            Self::UnschedulableResources
                | Self::UnschedulableAffinity
                | Self::UnschedulableTaint
                | Self::UnschedulableVolume
                | Self::Provisioning
                | Self::UnschedulableCordoned
                | Self::Unschedulable
        )
    }

    /// Whether an older template, whose pods were ready once, can avoid this cause. Causes in the cluster remain: no resources, no
    /// scheduler, a rejecting webhook. Causes in the template do not: images, commands, probes, violations of a policy.
    #[must_use]
    pub fn may_be_the_templates(self) -> bool {
        match self {
            Self::ImagePull
            | Self::ContainerConfig
            | Self::Crash
            | Self::PodFailed
            | Self::NotReady
            | Self::SchedulingGated
            | Self::LimitRange
            | Self::PodSecurity
            | Self::Volume
            | Self::NotStarted => true,
            Self::NodeLost
            | Self::UnschedulableResources
            | Self::UnschedulableAffinity
            | Self::UnschedulableTaint
            | Self::UnschedulableVolume
            | Self::Provisioning
            | Self::UnschedulableCordoned
            | Self::Unschedulable
            | Self::ResourceClaim
            | Self::Quota
            | Self::Webhook
            | Self::Refused
            | Self::Finalizer
            | Self::TerminationOverdue
            | Self::Budget
            | Self::NotScheduled
            | Self::NotObserved
            | Self::Overlap => false,
        }
    }

    fn words(self) -> Words {
        let words = |reason, one, many| Words { reason, one, many };
        match self {
            Self::ImagePull => words("image_pull", "cannot pull its image", "cannot pull their images"),
            Self::ContainerConfig => words("container_config", "cannot start a container", "cannot start a container"),
            Self::Crash => words("crash", "keeps crashing", "keep crashing"),
            Self::PodFailed => words("pod_failed", "failed", "failed"),
            Self::NodeLost => words("node_lost", "is on a node that does not answer", "are on nodes that do not answer"),
            Self::NotReady => words("not_ready", "runs but is not ready", "run but are not ready"),
            Self::UnschedulableResources => words("unschedulable_resources", "finds no node with room", "find no node with room"),
            Self::UnschedulableAffinity => {
                words("unschedulable_affinity", "finds no node that it may run on", "find no node that they may run on")
            }
            Self::UnschedulableTaint => {
                words("unschedulable_taint", "finds no node whose taints it tolerates", "find no node whose taints they tolerate")
            }
            Self::UnschedulableVolume => words("unschedulable_volume", "finds no node for its volumes", "find no node for their volumes"),
            Self::Provisioning => words("provisioning", "waits for a volume that cannot be made", "wait for a volume that cannot be made"),
            Self::UnschedulableCordoned => {
                words("unschedulable_cordoned", "finds no node that takes new pods", "find no node that takes new pods")
            }
            Self::Unschedulable => words("unschedulable", "finds no node", "find no node"),
            Self::ResourceClaim => words("resource_claim", "waits for a ResourceClaim", "wait for a ResourceClaim"),
            Self::SchedulingGated => words("scheduling_gated", "is held back by a scheduling gate", "are held back by a scheduling gate"),
            Self::Quota => words("quota", "is not created because of a quota", "are not created because of a quota"),
            Self::LimitRange => words("limit_range", "is not created because of a LimitRange", "are not created because of a LimitRange"),
            Self::PodSecurity => words("pod_security", "is not created because of pod security", "are not created because of pod security"),
            Self::Webhook => {
                words("webhook", "is not created because of an admission webhook", "are not created because of an admission webhook")
            }
            Self::Refused => words("refused", "cannot be created", "cannot be created"),
            Self::Volume => words("volume", "waits for a volume", "wait for a volume"),
            Self::NotStarted => words("not_started", "has a node but does not start", "have a node but do not start"),
            Self::Finalizer => words("finalizer", "has ended but a finalizer holds it", "have ended but a finalizer holds them"),
            Self::TerminationOverdue => {
                words("termination_overdue", "still exists after its grace period", "still exist after their grace period")
            }
            Self::Budget => words(
                "budget",
                "stays on a cordoned node because of a disruption budget",
                "stay on cordoned nodes because of a disruption budget",
            ),
            Self::NotScheduled => words("not_scheduled", "has not been seen by a scheduler", "have not been seen by a scheduler"),
            Self::NotObserved => words("not_observed", "has not been observed by a controller", "have not been observed by a controller"),
            Self::Overlap => {
                words("overlap", "selects pods that another workload selects too", "select pods that another workload selects too")
            }
        }
    }
}

/// The object that a cause names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct About {
    /// `Pod`, or the kind of the object whose pods are not created or that no controller reconciles.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
}

/// One cause that blocks a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Its kind.
    pub kind: Kind,
    /// The number of affected pods, including those not created. 0 if the cause is not about pods.
    pub pods: usize,
    /// One of those pods, or the object whose pods are not created.
    pub about: About,
    /// The cluster's own text: the message of a condition, a container's state or an event. It is not sanitized and can contain control
    /// characters.
    pub evidence: String,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, pods, about: About { kind: about, name }, evidence } = self;
        let Words { one, many, .. } = kind.words();
        match (*about, pods) {
            ("Pod", 0 | 1) => write!(f, "{name} {one}")?,
            ("Pod", _) => write!(f, "{pods} pods {many}, e.g. {name}")?,
            (_, 0) => write!(f, "{about} {name} {one}")?,
            (_, 1) => write!(f, "1 pod of {about} {name} {one}")?,
            (_, _) => write!(f, "{pods} pods of {about} {name} {many}")?,
        }
        // The output is one line, whatever the evidence contains.
        let lines = evidence.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.enumerate().try_for_each(|(index, line)| write!(f, "{}{line}", if index == 0 { ": " } else { " " }))
    }
}

/// The result of an evaluation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Causes {
    /// One cause of each kind, by rank.
    pub list: Vec<Cause>,
    /// When something that is no cause yet becomes one if nothing changes.
    pub requeue_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_listed_by_rank_under_names_of_their_own() {
        assert!(Kind::ALL.is_sorted());
        let names: std::collections::BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.reason()).collect();
        assert_eq!(names.len(), Kind::ALL.len());
        assert!(names.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')), "{names:?}");
    }

    #[test]
    fn causes_read_as_sentences() {
        let check = |kind, pods, about: (&'static str, &str), evidence: &str, text: &str| {
            let cause = Cause { kind, pods, about: About { kind: about.0, name: about.1.to_owned() }, evidence: evidence.to_owned() };
            assert_eq!(cause.to_string(), text);
        };
        let image = "ImagePullBackOff: Back-off pulling image \"web:404\"";
        check(Kind::ImagePull, 1, ("Pod", "web-1"), image, &format!("web-1 cannot pull its image: {image}"));
        check(Kind::ImagePull, 3, ("Pod", "web-1"), image, &format!("3 pods cannot pull their images, e.g. web-1: {image}"));
        let text = "2 pods of ReplicaSet web-5 are not created because of a quota: exceeded";
        check(Kind::Quota, 2, ("ReplicaSet", "web-5"), "exceeded", text);
        check(Kind::Refused, 1, ("StatefulSet", "db"), "no", "1 pod of StatefulSet db cannot be created: no");
        check(Kind::Refused, 1, ("StatefulSet", "db"), "no:\r\n  never\n", "1 pod of StatefulSet db cannot be created: no: never");
        check(Kind::NotObserved, 0, ("Deployment", "web"), "", "Deployment web has not been observed by a controller");
    }
}
