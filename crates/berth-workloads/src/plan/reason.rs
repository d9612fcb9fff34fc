//! Why something is done.

use berth_identity::{Name, ObjectKey, RolloutRevision};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};

/// Why an action is in a plan. What it is done to is in the action; here is what the decision was made by. Making one costs next to nothing, and
/// [`fmt::Display`] is the one text that people see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Reason {
    // Who belongs to whom.
    /// Something is about to be adopted in its name, which it must be there for.
    Adopts,
    /// Nobody controls it, and a selector matches its labels.
    Selected {
        /// Whose.
        owner: Name,
    },
    /// Its labels no longer match the selector of its controller.
    NoLongerSelected,

    // Pods of ReplicaSets.
    /// A set has another number of active pods than it wants.
    Replicas {
        /// How many it wants.
        wanted: u32,
        /// How many it has.
        active: u32,
    },

    // Pods and claims of StatefulSets.
    /// A pod is wanted and not there.
    PodMissing,
    /// A pod has run to its end, and is to be there again.
    PodFinished,
    /// The set no longer wants a pod of this number.
    NumberNotWanted,
    /// A pod is not of the update revision, and its turn has come.
    Outdated,
    /// A pod is not of the update revision and not available, so that replacing it makes nothing worse.
    OutdatedUnavailable,
    /// A pod is not of the update revision, not ready and holds the update up: the annotation asks for its deletion.
    HoldsUpUpdate,
    /// Recreate: pods of other revisions go before the first new one comes.
    Recreated,
    /// A pod's labels do not name it.
    LabelsDoNotName,
    /// A pod's claim is missing.
    ClaimMissing,
    /// A claim's owners are not those that the set's retention policy says.
    RetentionPolicy,
    /// The set no longer wants the number of a claim, `whenScaled` says Delete, and there is no pod that the claim could go with.
    ClaimNotWanted,

    // Revisions.
    /// No object has the template of this revision yet.
    NewTemplate {
        /// Its number.
        revision: RolloutRevision,
    },
    /// The template is that of an older revision again, which becomes the newest.
    TemplateAgain,
    /// What its rollout came to is not noted yet.
    OutcomeNoted,
    /// It is beyond `revisionHistoryLimit`.
    BeyondHistoryLimit {
        /// Its number; `None` if it has none.
        revision: Option<RolloutRevision>,
    },

    // Deployments.
    /// A ReplicaSet gets another size.
    Resized {
        /// In pods.
        from: i64,
        /// In pods.
        to: i64,
        /// The limit that the new size respects, with its figures; `None`: the strategy sets none.
        limit: Option<SizeLimit>,
    },
    /// What a ReplicaSet has from its Deployment besides its size is not as there.
    FollowsDeployment,
    /// The name of the new ReplicaSet is another's.
    NameTaken,
    /// An annotation asks for a rollback.
    Rollback {
        /// To this revision; 0: the one before.
        revision: RolloutRevision,
    },

    /// Its template has missed its deadline and was never complete.
    AutomaticRollback {
        /// The number of its rollout.
        from: RolloutRevision,
        /// That of the last one that was complete.
        to: RolloutRevision,
    },

    // Statuses.
    /// Its pods are not as its status says.
    PodsChanged,
    /// Its ReplicaSets, or their pods, are not as its status says.
    ReplicaSetsChanged,
    /// It selects everything: nothing is done for it but to say that it was looked at.
    SelectsAll,
    /// A quota's use or bounds are not as its status says.
    UseChanged,

    // Nodes, and pods on them.
    /// A node's kubelet gives no sign of life.
    NodeSilent,
    /// A node's state calls for other taints than it has.
    NodeTaints,
    /// What a pod's conditions say of its node is not so.
    NodeState {
        /// The node.
        node: Name,
    },
    /// A pod does not tolerate a taint of its node, or no longer.
    NotTolerated {
        /// The node.
        node: Name,
    },
    /// A pod's node is gone.
    NodeGone,
    /// A pod is being deleted and has no node that would confirm it.
    NeverPlaced,
    /// A pod has finished, and more such pods are kept than may be.
    TooManyFinished,

    // Jobs, and their pods.
    /// Its Job has counted it.
    PodCounted,
    /// It lacks the finalizer that keeps it until its Job has counted it.
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
    /// It finished so long ago that its time to live is over.
    Expired {
        /// `ttlSecondsAfterFinished`.
        seconds: i32,
    },

    // Services.
    /// A Service asks for a load balancer and has none.
    BalancerMissing,
    /// A HorizontalPodAutoscaler does not say yet that nothing acts on it.
    NothingScales,
    /// A Service has no Endpoints.
    EndpointsMissing,
    /// Endpoints have no place in the slices that are there.
    NoPlace {
        /// How many.
        endpoints: usize,
    },
    /// The endpoints of a Service are not those that are written.
    EndpointsChanged,
    /// None of a slice's endpoints is left.
    SliceEmpty,
    /// Its Service is gone.
    ServiceGone,

    // Volumes.
    /// What a claim has left is about to be cleared away, which must be gone for it.
    ClearsAway,
    /// No pod that has a node uses a claim that is being deleted.
    ClaimUnused,
    /// No claim is bound to a volume that is being deleted.
    VolumeUnused,
    /// A claim or volume has lost the finalizer that protects it.
    Unprotected,
    /// A claim's volume is gone or another's.
    VolumeLost,
    /// A volume is to be made for a claim.
    ToBeProvisioned,
    /// A claim has no volume yet.
    NoVolume,
    /// A volume is what a claim needs.
    Fits {
        /// The claim.
        claim: ObjectKey,
    },
    /// A claim's volume is found.
    VolumeFound,
    /// A claim has its volume.
    Bound,
    /// A volume's phase is not as its status says.
    PhaseChanged,
    /// A volume's claim has another volume.
    ClaimElsewhere,
    /// A volume's claim is gone.
    ClaimGone,
    /// A volume's claim is gone, and its reclaim policy is Delete.
    Reclaimed,
    /// Nobody here knows how to reclaim a volume.
    NotReclaimable,
}

/// A limit of a Deployment's strategy on the size of a ReplicaSet, and the figures behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SizeLimit {
    /// `replicas` + `maxSurge`, to which terminating pods count.
    AllPods {
        /// The pods that count, wanted ones included.
        pods: i64,
        /// The most that there may be.
        max: i64,
    },
    /// `replicas` + `maxSurge`, to which terminating pods do not count.
    StayingPods {
        /// The pods that count, wanted ones included.
        pods: i64,
        /// The most that there may be.
        max: i64,
    },
    /// `replicas` - `maxUnavailable`.
    Available {
        /// The available pods of all ReplicaSets.
        available: i64,
        /// The fewest that there must be.
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
            Self::PodCounted => "its Job has counted it",
            Self::NotTracked => "it lacks the finalizer that keeps it until its Job has counted it",
            Self::NoController => "it terminates without a controller that could count it",
            Self::JobSuspended => "its Job is suspended",
            Self::JobEnds { reason } => return write!(f, "its Job ends: {reason}"),
            Self::JobFinished => "its Job is finished",
            Self::JobGone => "its Job no longer exists",
            Self::Expired { seconds } => return write!(f, "its ttlSecondsAfterFinished of {seconds} is over"),
            Self::BalancerMissing => "it requests a load balancer and has none",
            Self::NothingScales => "nothing acts on it, and its status does not report that",
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

/// Why a pod goes and another stays: the first criterion by which it differs from the one that would go next.
///
/// Source: kubernetes `controller_utils.go`, `ActivePodsWithRanks`; KEP-2255 (cost), KEP-2185 (ages).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rule {
    /// No pod stays.
    AllGo,
    /// It has no node.
    NoNode,
    /// It does not run yet, or nobody knows whether it does.
    NotRunning,
    /// It is not ready.
    NotReady,
    /// Its deletion cost is lower.
    DeletionCost {
        /// Than this.
        than: i32,
    },
    /// It is not available yet. Upstream has no such criterion.
    NotAvailable,
    /// Its node has more pods of the same workload.
    Crowded {
        /// Than this node has.
        than: u32,
    },
    /// It became ready later.
    ReadyLater,
    /// Its containers were restarted more often.
    Restarts {
        /// Than this.
        than: i32,
    },
    /// Its sidecars were restarted more often.
    SidecarRestarts {
        /// Than this.
        than: i32,
    },
    /// It is newer.
    Newer,
    /// Its completion index is not one of its Job.
    IndexNotWanted,
    /// Another pod has its completion index.
    IndexTaken,
    /// Both are about as old: the uid decides, which is as good as a lot.
    Lot,
    /// Nothing tells them apart, or each criterion in turn would have another go.
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
