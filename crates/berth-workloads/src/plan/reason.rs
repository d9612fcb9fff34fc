//! Why an action is in a plan.

use berth_identity::{Name, NodeName, ObjectKey, RolloutRevision};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};

/// Why an action is in a plan. The action contains its object, and the reason contains the basis of the decision. A reason is cheap to
/// create. [`fmt::Display`] is the only text that users see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Reason {
    // Ownership.
    /// Objects are about to be adopted for it, so it must exist.
    Adopts,
    /// It has no controller, and a selector matches its labels.
    Selected {
        /// The owner of the selector.
        owner: Name,
    },
    /// Its labels no longer match the selector of its controller.
    NoLongerSelected,

    // Pods of ReplicaSets.
    /// The number of a set's active pods differs from its spec.
    Replicas {
        /// `spec.replicas`.
        wanted: u32,
        /// The number of active pods.
        active: u32,
    },

    // Pods and claims of StatefulSets.
    /// A pod of the set is missing.
    PodMissing,
    /// A pod has finished and must be recreated.
    PodFinished,
    /// The set no longer has this ordinal.
    NumberNotWanted,
    /// A pod does not have the update revision, and the update has reached it.
    Outdated,
    /// A pod has neither the update revision nor availability, so replacing it reduces nothing.
    OutdatedUnavailable,
    /// A pod without the update revision is not ready and blocks the update: the annotation requests its deletion.
    HoldsUpUpdate,
    /// Recreate: pods of other revisions are deleted before the first new one is created.
    Recreated,
    /// A pod's labels do not contain its name or ordinal.
    LabelsDoNotName,
    /// A pod's claim is missing.
    ClaimMissing,
    /// A claim's owners differ from the set's retention policy.
    RetentionPolicy,
    /// The set no longer has the ordinal of a claim, `whenScaled` is Delete, and no pod exists that could own the claim.
    ClaimNotWanted,

    // Revisions.
    /// No object has the template of this revision yet.
    NewTemplate {
        /// Its number.
        revision: RolloutRevision,
    },
    /// The template equals that of an older revision, which becomes the newest.
    TemplateAgain,
    /// The outcome of its rollout is not recorded yet.
    OutcomeNoted,
    /// It is beyond `revisionHistoryLimit`.
    BeyondHistoryLimit {
        /// Its number; `None` if it has none.
        revision: Option<RolloutRevision>,
    },

    // Deployments.
    /// A ReplicaSet's size changes.
    Resized {
        /// In pods.
        from: i64,
        /// In pods.
        to: i64,
        /// The limit on the new size, with its figures. `None` if the strategy sets none.
        limit: Option<SizeLimit>,
    },
    /// A ReplicaSet's copied fields, other than its size, differ from its Deployment's.
    FollowsDeployment,
    /// Another object has the name of the new ReplicaSet.
    NameTaken,
    /// An annotation requests a rollback.
    Rollback {
        /// The target revision. 0 is the one before.
        revision: RolloutRevision,
    },

    /// Its template has missed its deadline and was never complete.
    AutomaticRollback {
        /// The number of its rollout.
        from: RolloutRevision,
        /// The number of the last complete rollout.
        to: RolloutRevision,
    },

    // Statuses.
    /// Its status does not match its pods.
    PodsChanged,
    /// Its status does not match its ReplicaSets or their pods.
    ReplicaSetsChanged,
    /// It selects everything, so only its observed generation is written.
    SelectsAll,
    /// A quota's status does not match its use or limits.
    UseChanged,

    // Nodes, and pods on them.
    /// A node's kubelet shows no sign of life.
    NodeSilent,
    /// A node's state requires other taints than it has.
    NodeTaints,
    /// A pod's conditions do not match its node's state.
    NodeState {
        /// The node.
        node: Name,
    },
    /// A pod does not tolerate a taint of its node, or no longer.
    NotTolerated {
        /// The node.
        node: Name,
    },
    /// A pod's node is deleted.
    NodeGone,
    /// A terminating pod has no node that could confirm its end.
    NeverPlaced,
    /// A pod has finished, and the number of such pods exceeds the limit.
    TooManyFinished,

    // DaemonSets, and their pods.
    /// A pod's node has a label, a name or a taint with which it should have none.
    NodeDoesNotFit {
        /// The node.
        node: NodeName,
    },
    /// A pod has failed, and its node gets another one.
    PodFailed {
        /// The node.
        node: NodeName,
    },
    /// Its node has another pod of its set.
    SecondOnNode,
    /// Its node has an older pod, which stays until it is available.
    Surges,
    /// Its node has an available pod of the update revision.
    Surged,
    /// Another revision has the same template.
    DuplicateRevision,

    // Jobs, and their pods.
    /// Its Job has counted it.
    PodCounted,
    /// It lacks the finalizer that blocks its deletion until its Job has counted it.
    NotTracked,
    /// It terminates without a controller that could count it.
    NoController,
    /// Its Job is suspended.
    JobSuspended,
    /// Its Job has succeeded or failed, and ends.
    JobEnds {
        /// That of the Job's condition.
        reason: String,
    },
    /// Its Job is finished.
    JobFinished,
    /// Its Job no longer exists.
    JobGone,
    /// Its time to live after its end is over.
    Expired {
        /// `ttlSecondsAfterFinished`.
        seconds: i32,
    },

    // CronJobs, and their Jobs.
    /// It is the Job of this time.
    Scheduled {
        /// When it is due.
        at: Timestamp,
    },
    /// The Job of this time replaces it.
    ReplacedByNext {
        /// When the next one is due.
        at: Timestamp,
    },
    /// More Jobs have finished with its result than are kept.
    BeyondJobHistoryLimit {
        /// How many are kept.
        limit: i32,
    },
    /// Its status does not match its Jobs.
    JobsChanged,
    // Autoscalers.
    /// An autoscaler's status does not match its metrics or its target.
    MetricsChanged,
    /// An autoscaler requires another size of its target.
    Autoscaled {
        /// In pods.
        from: i32,
        /// In pods.
        to: i32,
        /// As the event states it.
        why: String,
    },

    // Services.
    /// A Service requests a load balancer and has none.
    BalancerMissing,
    /// A request for a certificate is approved.
    Approved,
    /// No signer signs a request for a certificate.
    NotSigned,
    /// A request for a certificate is old.
    RequestOld,
    /// A Service has no Endpoints.
    EndpointsMissing,
    /// The existing slices have no room for endpoints.
    NoPlace {
        /// How many.
        endpoints: usize,
    },
    /// The stored endpoints of a Service are outdated.
    EndpointsChanged,
    /// A slice has no endpoints left.
    SliceEmpty,
    /// Its Service is deleted.
    ServiceGone,

    // Volumes.
    /// The remains of a deleted claim are about to be deleted. The claim must no longer exist.
    ClearsAway,
    /// No pod with a node uses a terminating claim.
    ClaimUnused,
    /// No claim is bound to a terminating volume.
    VolumeUnused,
    /// A claim or volume has lost the finalizer that protects it.
    Unprotected,
    /// A claim's volume is deleted or belongs to another claim.
    VolumeLost,
    /// A volume must be provisioned for a claim.
    ToBeProvisioned,
    /// A claim has no volume yet.
    NoVolume,
    /// A volume satisfies a claim.
    Fits {
        /// The claim.
        claim: ObjectKey,
    },
    /// A claim's volume is found.
    VolumeFound,
    /// A claim has its volume.
    Bound,
    /// A volume's status does not match its phase.
    PhaseChanged,
    /// A volume's claim is bound to another volume.
    ClaimElsewhere,
    /// A volume's claim is deleted.
    ClaimGone,
    /// A volume's claim is deleted, and its reclaim policy is Delete.
    Reclaimed,
    /// No controller of berth can reclaim the volume.
    NotReclaimable,
}

/// A limit of a Deployment's strategy on the size of a ReplicaSet, and the figures behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SizeLimit {
    /// `replicas` + `maxSurge`, including terminating pods.
    AllPods {
        /// The pods that count, including desired ones.
        pods: i64,
        /// The maximum.
        max: i64,
    },
    /// `replicas` + `maxSurge`, without terminating pods.
    StayingPods {
        /// The pods that count, including desired ones.
        pods: i64,
        /// The maximum.
        max: i64,
    },
    /// `replicas` - `maxUnavailable`.
    Available {
        /// The available pods of all ReplicaSets.
        available: i64,
        /// The minimum.
        min: i64,
    },
}

impl Display for SizeLimit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllPods { pods, max } => write!(f, "{pods} pods count, including terminating pods; limit {max}"),
            Self::StayingPods { pods, max } => write!(f, "{pods} pods count, without terminating pods; limit {max}"),
            Self::Available { available, min } => write!(f, "{available} pods available; minimum {min}"),
        }
    }
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Adopts => "it is about to adopt an object",
            Self::Selected { owner } => return write!(f, "it has no controller, and the selector of {owner} matches it"),
            Self::NoLongerSelected => "its labels no longer match the selector",
            Self::Replicas { wanted, active } => return write!(f, "{wanted} wanted, {active} there"),
            Self::PodMissing => "it is missing",
            Self::PodFinished => "it has finished",
            Self::NumberNotWanted => "its ordinal is outside the set",
            Self::Outdated => "it does not have the update revision",
            Self::OutdatedUnavailable => "it does not have the update revision, and is not available",
            Self::HoldsUpUpdate => "it does not have the update revision, is not ready, and blocks the update",
            Self::Recreated => "it does not have the update revision, and Recreate deletes all such pods before it creates new ones",
            Self::LabelsDoNotName => "its labels do not name it",
            Self::ClaimMissing => "a pod needs it",
            Self::RetentionPolicy => "the retention policy determines its owner",
            Self::ClaimNotWanted => "its ordinal is outside the set, and whenScaled is Delete",
            Self::NewTemplate { revision } => return write!(f, "no object has the template of revision {revision}"),
            Self::TemplateAgain => "the template is that of an older revision again",
            Self::OutcomeNoted => "the result of its rollout must be recorded",
            Self::BeyondHistoryLimit { revision: Some(revision) } => {
                return write!(f, "revision {revision} is beyond revisionHistoryLimit");
            }
            Self::BeyondHistoryLimit { revision: None } => "it is beyond revisionHistoryLimit",
            Self::Resized { from, to, limit: _ } => return write!(f, "{from} to {to} pods"),
            Self::FollowsDeployment => "its annotations or minReadySeconds differ from the Deployment's",
            Self::NameTaken => "the name of its new ReplicaSet is taken",
            Self::Rollback { revision } => return write!(f, "an annotation asks for revision {revision}"),
            Self::AutomaticRollback { from, to } => {
                return write!(f, "revision {from} has missed its deadline, and {to} is the last that was complete");
            }
            Self::PodsChanged => "its pods have changed",
            Self::ReplicaSetsChanged => "its ReplicaSets have changed",
            Self::SelectsAll => "it has been reconciled, and selects everything",
            Self::UseChanged => "the used amount has changed",
            Self::NodeSilent => "its kubelet does not respond",
            Self::NodeTaints => "its state requires other taints",
            Self::NodeState { node } => return write!(f, "of the state of node {node}"),
            Self::NotTolerated { node } => return write!(f, "it does not tolerate a taint of node {node}"),
            Self::NodeGone => "its node no longer exists",
            Self::NeverPlaced => "it is terminating and has no node that could confirm its end",
            Self::TooManyFinished => "it has finished, and there are too many finished pods",
            Self::NodeDoesNotFit { node } => return write!(f, "its template does not fit node {node}"),
            Self::PodFailed { node } => return write!(f, "it has failed on node {node}"),
            Self::SecondOnNode => "its node has another pod of the set",
            Self::Surges => "an older pod on its node stays until it is available",
            Self::Surged => "its node has an available pod of the update revision",
            Self::DuplicateRevision => "another revision has the same template",
            Self::PodCounted => "its Job has counted it",
            Self::NotTracked => "it lacks the finalizer that keeps it until its Job has counted it",
            Self::NoController => "it terminates without a controller that could count it",
            Self::JobSuspended => "its Job is suspended",
            Self::JobEnds { reason } => return write!(f, "its Job ends: {reason}"),
            Self::JobFinished => "its Job is finished",
            Self::JobGone => "its Job no longer exists",
            Self::Expired { seconds } => return write!(f, "its ttlSecondsAfterFinished of {seconds} is over"),
            Self::Scheduled { at } => return write!(f, "it is due at {}", minutes(*at)),
            Self::ReplacedByNext { at } => return write!(f, "the Job of {} replaces it", minutes(*at)),
            Self::BeyondJobHistoryLimit { limit } => return write!(f, "of the Jobs that ended so, {limit} are kept"),
            Self::JobsChanged => "its Jobs have changed",
            Self::MetricsChanged => "its metrics have changed",
            Self::Autoscaled { from, to, why } => return write!(f, "{from} to {to} pods: {why}"),
            Self::BalancerMissing => "it requests a load balancer and has none",
            Self::Approved => "it is approved",
            Self::NotSigned => "its signer does not sign it",
            Self::RequestOld => "it is old",
            Self::EndpointsMissing => "the Service has no Endpoints",
            Self::NoPlace { endpoints } => return write!(f, "{endpoints} endpoints do not fit into the other slices"),
            Self::EndpointsChanged => "the endpoints of the Service have changed",
            Self::SliceEmpty => "it has no endpoints left",
            Self::ServiceGone => "its Service no longer exists",
            Self::ClearsAway => "its remains must be deleted",
            Self::ClaimUnused => "no pod uses it",
            Self::VolumeUnused => "no claim is bound to it",
            Self::Unprotected => "it has no protection while in use",
            Self::VolumeLost => "its volume is lost",
            Self::ToBeProvisioned => "its volume must be created",
            Self::NoVolume => "a claim has no volume",
            Self::Fits { claim } => return write!(f, "it fits claim {claim}"),
            Self::VolumeFound => "its volume is found",
            Self::Bound => "it has its volume",
            Self::PhaseChanged => "its phase has changed",
            Self::ClaimElsewhere => "its claim has another volume",
            Self::ClaimGone => "its claim no longer exists",
            Self::Reclaimed => "its claim no longer exists, and its reclaim policy is Delete",
            Self::NotReclaimable => "no controller can reclaim it",
        };
        f.write_str(text)
    }
}

fn minutes(at: Timestamp) -> impl Display {
    at.strftime("%Y-%m-%dT%H:%M:%SZ")
}

/// Why a pod is deleted and another remains: the first criterion by which it differs from the pod that would be deleted next.
///
/// Source: kubernetes `controller_utils.go`, `ActivePodsWithRanks`; KEP-2255 (cost), KEP-2185 (ages).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rule {
    /// All pods are deleted.
    AllGo,
    /// It has no node.
    NoNode,
    /// It does not run yet, or its phase is unknown.
    NotRunning,
    /// It is not ready.
    NotReady,
    /// Its deletion cost is lower.
    DeletionCost {
        /// The other pod's cost.
        than: i32,
    },
    /// It is not available yet. Upstream has no such criterion.
    NotAvailable,
    /// Its node has more pods of the same workload.
    Crowded {
        /// The number on the other pod's node.
        than: u32,
    },
    /// It became ready later.
    ReadyLater,
    /// Its containers were restarted more often.
    Restarts {
        /// The other pod's restarts.
        than: i32,
    },
    /// Its sidecars were restarted more often.
    SidecarRestarts {
        /// The other pod's restarts.
        than: i32,
    },
    /// It is newer.
    Newer,
    /// Its completion index is not one of its Job.
    IndexNotWanted,
    /// Another pod has its completion index.
    IndexTaken,
    /// Both have a similar age. The uid decides, which is as good as a random choice.
    Lot,
    /// No criterion distinguishes them, or the criteria form a cycle.
    Alike,
}

impl Display for Rule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllGo => f.write_str("scaled to 0"),
            Self::NoNode => f.write_str("without a node"),
            Self::NotRunning => f.write_str("not running"),
            Self::NotReady => f.write_str("not ready"),
            Self::DeletionCost { than } => write!(f, "deletion cost below {than}"),
            Self::NotAvailable => f.write_str("not available yet"),
            Self::Crowded { than } => write!(f, "node has more than {than} of the workload's pods"),
            Self::ReadyLater => f.write_str("ready for a shorter time"),
            Self::Restarts { than } => write!(f, "more than {than} restarts"),
            Self::SidecarRestarts { than } => write!(f, "more than {than} restarts of sidecars"),
            Self::Newer => f.write_str("newer"),
            Self::IndexNotWanted => f.write_str("its index is not one of the Job"),
            Self::IndexTaken => f.write_str("another pod has its index"),
            Self::Lot => f.write_str("tie, by uid"),
            Self::Alike => f.write_str("tie"),
        }
    }
}
