//! What is told of a change: data, whose JSON is an interface ([`Forecast`] and all in it; docs/how-to/plan.md names the fields).

use crate::{
    pod_timings::Timing,
    times::{maybe_seconds, seconds},
};
use berth_api::Gate;
use berth_store::env::Timestamp;
use berth_workloads::{
    pod_state::{PodCounts, PodState},
    workload::WorkloadId,
};
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

/// What a change will do. Times are counted from when the change is made; in JSON they are seconds.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// What it rests on.
    pub supposed: Supposed,
    /// The workloads that are changed.
    pub workloads: Vec<WorkloadForecast>,
    /// The quotas of their namespaces.
    pub quotas: Vec<QuotaPeak>,
    /// What nodes have left for more pods, at the least, of each resource that the workloads ask for.
    pub nodes: Vec<NodeRoom>,
    /// What goes wrong, in order of time.
    pub troubles: Vec<Trouble>,
    /// Until everything is as wanted, or nothing more happens.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub total: Duration,
}

/// What a forecast rests on.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Supposed {
    /// `berth`, `kubernetes`.
    pub controllers: &'static str,
    /// By what that was found.
    pub because: String,
    /// The feature gates of the controllers that are not as by default.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub gates: BTreeMap<Gate, bool>,
    /// Why the server could not be asked whether it refuses the pods: none is supposed to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unasked_pods: Option<String>,
    /// Why the gates are not known, and are supposed to be as by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_gates: Option<String>,
    /// How each analysis of a progressive rollout ends, at once: `pass`, `fail`; left out where none is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analysis: Option<&'static str>,
    /// When the snapshot was taken: the time at which the change is made.
    pub at: Timestamp,
    /// What could not be read, and what stands in its place. Not empty: the plan is partial.
    pub missing: Vec<String>,
    /// Which interleaving.
    pub seed: u64,
}

/// What becomes of one workload.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadForecast {
    /// Which workload.
    #[serde(flatten)]
    pub workload: WorkloadId,
    /// How its pods give way: `RollingUpdate, TerminationComplete`.
    pub policy: String,
    /// How many pods it is to have.
    pub replicas: i64,
    /// The most pods that its strategy allows; `None`: it says nothing of that.
    pub most: Option<i64>,
    /// The fewest available pods that its strategy leaves; `None`: it says nothing of that.
    pub least: Option<i64>,
    /// How it ends.
    pub outcome: Outcome,
    /// Whether it ends with another template than that of the change, to which its controller goes back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rolled_back: bool,
    /// How long its pods take to start.
    pub start: Timing,
    /// How long they take to stop.
    pub stop: Timing,
    /// What happens, in order of time.
    pub steps: Vec<Step>,
    /// What is waited for on purpose, in order of when it begins.
    pub waits: Vec<WaitSpan>,
    /// The most pods there are, terminating ones included.
    pub pods: Peak<u32>,
    /// The most that terminate at once.
    pub terminating: Peak<u32>,
    /// The fewest that are available.
    pub available: Peak<u32>,
    /// The most of each resource that its pods hold, terminating ones included: cpu in thousandths of a core, all else in its own unit.
    pub resources: BTreeMap<String, Peak<i64>>,
    /// How many pods of which revision are how far, at each time when that changes; thinned out where that is more than 2,000 times.
    pub lanes: Vec<Lane>,
    /// The life of each pod, in order of when they are first seen; of none where there are more than 64.
    pub lives: Vec<Life>,
    /// The revision of its template at the end, whether it has pods or not; `None`: it has none.
    #[serde(skip)]
    pub newest: Option<String>,
}

/// How a rollout ends.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(tag = "is", rename_all = "camelCase")]
pub enum Outcome {
    /// As wanted.
    Complete {
        /// When its controller says so.
        #[serde(rename = "afterSeconds", serialize_with = "seconds")]
        after: Duration,
        /// When the last pod that it replaced is gone.
        #[serde(rename = "settledAfterSeconds", serialize_with = "seconds")]
        settled_after: Duration,
    },
    /// As far as its owner lets it go, and all pods that it asks for are available: paused, at a step that waits for somebody, with pods that are deleted by hand.
    Held {
        /// When its controller has left nothing to do.
        #[serde(rename = "afterSeconds", serialize_with = "seconds")]
        after: Duration,
        /// When the last pod that it replaced, or no longer wants, is gone.
        #[serde(rename = "settledAfterSeconds", serialize_with = "seconds")]
        settled_after: Duration,
        /// What holds it, and who ends that.
        why: Vec<String>,
    },
    /// Nothing happens any more, and it is not complete.
    Stuck {
        /// Since when.
        #[serde(rename = "afterSeconds", serialize_with = "seconds")]
        after: Duration,
        /// What stands in its way, most telling first.
        why: Vec<String>,
    },
}

/// A number at its highest, or lowest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Peak<T> {
    /// The number.
    pub value: T,
    /// When it is first reached.
    #[serde(rename = "atSeconds", serialize_with = "seconds")]
    pub at: Duration,
}

/// One thing that happens.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// When it begins.
    #[serde(rename = "atSeconds", serialize_with = "seconds")]
    pub at: Duration,
    /// What it is.
    #[serde(flatten)]
    pub kind: StepKind,
    /// Why, as far as its controller says.
    pub reason: String,
}

/// What happens in a step.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(tag = "does", rename_all = "camelCase")]
pub enum StepKind {
    /// A ReplicaSet is made.
    CreateSet {
        /// Its name.
        set: String,
        /// How many pods it wants.
        replicas: i64,
    },
    /// A ReplicaSet wants another number of pods.
    Resize {
        /// Its name.
        set: String,
        /// From so many.
        from: i64,
        /// To so many.
        to: i64,
    },
    /// A ReplicaSet is cleaned away.
    DeleteSet {
        /// Its name.
        set: String,
    },
    /// Pods are made.
    CreatePods {
        /// Whose.
        owner: String,
        /// How many.
        count: u32,
        /// Their names, where they follow from the owner's: a StatefulSet's.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        names: Vec<String>,
    },
    /// Pods are told to go.
    DeletePods {
        /// Whose.
        owner: String,
        /// Which, in order.
        pods: Vec<Victim>,
    },
}

/// A pod that goes.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Victim {
    /// Its name.
    pub pod: String,
    /// By which rule it goes and another stays.
    pub rule: String,
}

/// A wait.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WaitSpan {
    /// Its name for programs.
    pub reason: &'static str,
    /// What is waited for, as its controller says when it begins.
    pub text: String,
    /// When it begins.
    #[serde(rename = "fromSeconds", serialize_with = "seconds")]
    pub from: Duration,
    /// When it is over; `None`: it is not.
    #[serde(rename = "untilSeconds", serialize_with = "maybe_seconds", skip_serializing_if = "Option::is_none")]
    pub until: Option<Duration>,
}

/// What becomes of one pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Life {
    /// Its name; one that is yet to come of a ReplicaSet will have another.
    pub pod: String,
    /// Its ReplicaSet, or its revision of the StatefulSet.
    pub revision: String,
    /// How far it is from when on.
    pub states: Vec<LifeState>,
    /// When it is gone, or has ended; `None`: it stays.
    #[serde(rename = "goneAtSeconds", serialize_with = "maybe_seconds", skip_serializing_if = "Option::is_none")]
    pub gone: Option<Duration>,
}

/// How far a pod is from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LifeState {
    /// From then on.
    #[serde(rename = "atSeconds", serialize_with = "seconds")]
    pub at: Duration,
    /// How far it is.
    pub is: PodState,
}

/// How many pods of each revision are how far.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Lane {
    /// From then on.
    #[serde(rename = "atSeconds", serialize_with = "seconds")]
    pub at: Duration,
    /// By ReplicaSet, or by revision of the StatefulSet.
    pub revisions: BTreeMap<String, PodCounts>,
}

/// How much of a quota is used at the most.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaPeak {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What it bounds: `pods`, `requests.cpu`.
    pub resource: String,
    /// The most that is used.
    pub used: String,
    /// The most that may be.
    pub hard: String,
    /// When that is first reached.
    #[serde(rename = "atSeconds", serialize_with = "seconds")]
    pub at: Duration,
}

/// What nodes have left.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRoom {
    /// Of what.
    pub resource: String,
    /// How much all nodes that take pods have together: cpu in thousandths of a core.
    pub allocatable: i64,
    /// The least that is left of it, on all of them together.
    pub least_free: Peak<i64>,
}

/// Something that goes wrong.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Trouble {
    /// What it is.
    pub kind: TroubleKind,
    /// When it is first seen.
    #[serde(rename = "atSeconds", serialize_with = "seconds")]
    pub at: Duration,
    /// What there is to say of it. It may hold control characters of a cluster's object.
    pub text: String,
    /// Whose it is; `None`: of no workload in particular.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<WorkloadId>,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TroubleKind {
    /// A quota refuses a pod.
    Quota,
    /// Another rule of the API server refuses a pod.
    Refused,
    /// No node takes a pod.
    Unschedulable,
    /// Fewer pods are available than a budget, or the strategy, promises.
    Unavailable,
    /// The progress deadline passes.
    Deadline,
    /// The rollout never completes.
    Never,
    /// The template fails, and the controller goes back to another.
    RolledBack,
}

/// What makes a plan fail, if somebody asks for it (`--fail-on`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A quota refuses a pod.
    Quota,
    /// The API server refuses a pod, or a ReplicaSet, for another reason.
    Refused,
    /// No node takes a pod.
    Unschedulable,
    /// Fewer pods are available than a budget, or the strategy, promises.
    Unavailable,
    /// The progress deadline passes, a rollout that nobody holds never completes, or it is rolled back.
    Deadline,
    /// There are more pods, terminating ones included, than `replicas + maxSurge`.
    Bound,
}

impl Forecast {
    /// Why it fails, if it does: a sentence for each thing that is asked for and happens.
    #[must_use]
    pub fn failures(&self, on: &[Failure]) -> Vec<String> {
        let of = |kinds: &[TroubleKind]| -> Vec<String> {
            self.troubles.iter().filter(|trouble| kinds.contains(&trouble.kind)).map(|trouble| trouble.text.clone()).collect()
        };
        let found = |failure: &Failure| match failure {
            Failure::Quota => of(&[TroubleKind::Quota]),
            Failure::Refused => of(&[TroubleKind::Refused]),
            Failure::Unschedulable => of(&[TroubleKind::Unschedulable]),
            Failure::Unavailable => of(&[TroubleKind::Unavailable]),
            Failure::Deadline => of(&[TroubleKind::Deadline, TroubleKind::Never, TroubleKind::RolledBack]),
            Failure::Bound => self.workloads.iter().filter_map(WorkloadForecast::beyond_bound).collect(),
        };
        on.iter().flat_map(found).collect()
    }

    /// Whether something could not be read.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        !self.supposed.missing.is_empty()
    }
}

impl Outcome {
    /// When everything is as it will stay.
    #[must_use]
    pub fn ends(&self) -> Duration {
        match self {
            Self::Complete { after, settled_after } | Self::Held { after, settled_after, .. } => *after.max(settled_after),
            Self::Stuck { after, .. } => *after,
        }
    }
}

impl WorkloadForecast {
    fn beyond_bound(&self) -> Option<String> {
        let most = self.most.filter(|most| *most < i64::from(self.pods.value))?;
        Some(format!(
            "{} {} has {} pods, including terminating pods, but its limit is {most}",
            self.workload.kind.name(),
            self.workload.name,
            self.pods.value
        ))
    }
}
