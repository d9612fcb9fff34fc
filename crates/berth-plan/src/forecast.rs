//! The result of a forecast: data, whose JSON is an interface ([`Forecast`] and all in it; docs/how-to/plan.md documents the fields).

use crate::{
    autoscalers::AutoscalerForecast,
    extensions::UnevaluatedRule,
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

/// The effect of a change. Times are relative to the change. In JSON they are seconds.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// The assumptions.
    pub supposed: Supposed,
    /// The changed workloads.
    pub workloads: Vec<WorkloadForecast>,
    /// The Jobs and ReplicationControllers of the change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherForecast>,
    /// The autoscalers of the changed workloads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub autoscalers: Vec<AutoscalerForecast>,
    /// The quotas of their namespaces.
    pub quotas: Vec<QuotaPeak>,
    /// The minimum free capacity of nodes, for each resource that the workloads request.
    pub nodes: Vec<NodeRoom>,
    /// The problems, in order of time.
    pub troubles: Vec<Trouble>,
    /// The time until every workload is in its desired state, or nothing more happens.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub total: Duration,
}

/// The assumptions of a forecast.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Supposed {
    /// `berth`, `kubernetes`.
    pub controllers: &'static str,
    /// The evidence for that.
    pub because: String,
    /// The feature gates of the controllers that differ from their defaults.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub gates: BTreeMap<Gate, bool>,
    /// Why the server did not check the pods. Then no rejection is assumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unasked_pods: Option<String>,
    /// Why the gates are unknown. Then the defaults are assumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_gates: Option<String>,
    /// The immediate result of each analysis of a progressive rollout: `pass`, `fail`. Left out if no rollout has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analysis: Option<&'static str>,
    /// When the snapshot was taken: the time at which the change is made.
    pub at: Timestamp,
    /// What could not be read, and its substitute. If it is not empty, the forecast is partial.
    pub missing: Vec<String>,
    /// The admission policies and webhooks that match objects of the forecast, and whose decisions are unknown. They are assumed to accept the objects
    /// and to change nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unevaluated: Vec<UnevaluatedRule>,
    /// The seed of the interleaving.
    pub seed: u64,
}

/// The forecast of one workload.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadForecast {
    /// The workload.
    #[serde(flatten)]
    pub workload: WorkloadId,
    /// How its pods are replaced: `RollingUpdate, TerminationComplete`.
    pub policy: String,
    /// The desired number of pods.
    pub replicas: i64,
    /// The maximum number of pods of its strategy. `None` if the strategy has none.
    pub most: Option<i64>,
    /// The minimum number of available pods of its strategy. `None` if the strategy has none.
    pub least: Option<i64>,
    /// How it ends.
    pub outcome: Outcome,
    /// Whether its controller rolls back, so that it ends with another template than that of the change.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rolled_back: bool,
    /// How long its pods take to start.
    pub start: Timing,
    /// How long they take to stop.
    pub stop: Timing,
    /// What happens, in order of time.
    pub steps: Vec<Step>,
    /// Its deliberate waits, in order of their beginning.
    pub waits: Vec<WaitSpan>,
    /// The maximum number of pods, including terminating ones.
    pub pods: Peak<u32>,
    /// The maximum number of terminating pods.
    pub terminating: Peak<u32>,
    /// The minimum number of available pods.
    pub available: Peak<u32>,
    /// The maximum use of each resource by its pods, including terminating ones: cpu in millicores, all others in their own units.
    pub resources: BTreeMap<String, Peak<i64>>,
    /// The number of pods in each state and revision, at each time when that changes. Thinned out above 2,000 times.
    pub lanes: Vec<Lane>,
    /// The states of each pod, in order of their creation. Empty for more than 64 pods.
    pub lives: Vec<Life>,
    /// The revision of its template at the end, with or without pods. `None` if it has none.
    #[serde(skip)]
    pub newest: Option<String>,
}

/// The forecast of a Job or a ReplicationController.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OtherForecast {
    /// `Job`, `ReplicationController`.
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The number of pods that are created.
    pub created: u32,
    /// The maximum number of pods that use resources, including terminating ones.
    pub pods: Peak<u32>,
    /// How it ends.
    pub outcome: OtherOutcome,
}

/// How a Job or a ReplicationController ends.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "is", rename_all = "camelCase")]
pub enum OtherOutcome {
    /// A Job is complete.
    Complete {
        /// When.
        #[serde(rename = "afterSeconds", serialize_with = "seconds")]
        after: Duration,
    },
    /// All pods of a ReplicationController are available.
    Available {
        /// When.
        #[serde(rename = "afterSeconds", serialize_with = "seconds")]
        after: Duration,
    },
    /// All pods of a Job that can run at once are ready. How long they run is unknown.
    Runs {
        /// Since when.
        #[serde(rename = "afterSeconds", serialize_with = "seconds")]
        after: Duration,
    },
    /// A Job has no pods because its owner defers it.
    Held {
        /// Since when.
        #[serde(rename = "afterSeconds", serialize_with = "seconds")]
        after: Duration,
        /// What holds it.
        why: String,
    },
    /// A Job has failed.
    Failed {
        /// When.
        #[serde(rename = "afterSeconds", serialize_with = "seconds")]
        after: Duration,
        /// Its reason and message.
        why: String,
    },
    /// Nothing more happens, but it is not as specified.
    Stuck {
        /// Since when.
        #[serde(rename = "afterSeconds", serialize_with = "seconds")]
        after: Duration,
        /// The obstacles, most informative first.
        why: Vec<String>,
    },
}

impl OtherOutcome {
    /// When it reaches its final state.
    #[must_use]
    pub fn ends(&self) -> Duration {
        match self {
            Self::Complete { after }
            | Self::Available { after }
            | Self::Runs { after }
            | Self::Held { after, .. }
            | Self::Failed { after, .. }
            | Self::Stuck { after, .. } => *after,
        }
    }
}

/// How a rollout ends.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(tag = "is", rename_all = "camelCase")]
pub enum Outcome {
    /// In the desired state.
    Complete {
        /// When its controller reports it.
        #[serde(rename = "afterSeconds", serialize_with = "seconds")]
        after: Duration,
        /// When the last replaced pod is deleted.
        #[serde(rename = "settledAfterSeconds", serialize_with = "seconds")]
        settled_after: Duration,
    },
    /// As far as its owner permits, with all requested pods available: paused, at a step that waits for a user, or with pods that a user
    /// deletes.
    Held {
        /// When its controller has nothing more to do.
        #[serde(rename = "afterSeconds", serialize_with = "seconds")]
        after: Duration,
        /// When the last replaced or surplus pod is deleted.
        #[serde(rename = "settledAfterSeconds", serialize_with = "seconds")]
        settled_after: Duration,
        /// What holds it, and who can end that.
        why: Vec<String>,
    },
    /// Nothing more happens, but it is not complete.
    Stuck {
        /// Since when.
        #[serde(rename = "afterSeconds", serialize_with = "seconds")]
        after: Duration,
        /// The obstacles, most informative first.
        why: Vec<String>,
    },
}

/// A maximum or minimum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Peak<T> {
    /// The number.
    pub value: T,
    /// When it is first reached.
    #[serde(rename = "atSeconds", serialize_with = "seconds")]
    pub at: Duration,
}

/// One step of the rollout.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// When it begins.
    #[serde(rename = "atSeconds", serialize_with = "seconds")]
    pub at: Duration,
    /// The kind of the step.
    #[serde(flatten)]
    pub kind: StepKind,
    /// The controller's reason.
    pub reason: String,
}

/// The kind of a step.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(tag = "does", rename_all = "camelCase")]
pub enum StepKind {
    /// A ReplicaSet is created.
    CreateSet {
        /// Its name.
        set: String,
        /// The number of its pods.
        replicas: i64,
    },
    /// A ReplicaSet's size changes.
    Resize {
        /// Its name.
        set: String,
        /// The former size.
        from: i64,
        /// The new size.
        to: i64,
    },
    /// A ReplicaSet is cleaned up.
    DeleteSet {
        /// Its name.
        set: String,
    },
    /// Pods are created.
    CreatePods {
        /// Their owner.
        owner: String,
        /// How many.
        count: u32,
        /// Their names, if they follow from the owner's: a StatefulSet's.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        names: Vec<String>,
    },
    /// Pods are deleted.
    DeletePods {
        /// Their owner.
        owner: String,
        /// The pods, in order.
        pods: Vec<Victim>,
    },
}

/// A deleted pod.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Victim {
    /// Its name.
    pub pod: String,
    /// The rule by which it is deleted instead of another.
    pub rule: String,
}

/// A wait.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WaitSpan {
    /// Its name for programs.
    pub reason: &'static str,
    /// The controller's text when the wait begins.
    pub text: String,
    /// When it begins.
    #[serde(rename = "fromSeconds", serialize_with = "seconds")]
    pub from: Duration,
    /// When it ends. `None` if it does not.
    #[serde(rename = "untilSeconds", serialize_with = "maybe_seconds", skip_serializing_if = "Option::is_none")]
    pub until: Option<Duration>,
}

/// The states of one pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Life {
    /// Its name. A future pod of a ReplicaSet will have another name.
    pub pod: String,
    /// Its ReplicaSet, or its revision of the StatefulSet or DaemonSet.
    pub revision: String,
    /// Its states in order of time.
    pub states: Vec<LifeState>,
    /// When it is deleted or finished. `None` if it remains.
    #[serde(rename = "goneAtSeconds", serialize_with = "maybe_seconds", skip_serializing_if = "Option::is_none")]
    pub gone: Option<Duration>,
}

/// A state of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LifeState {
    /// Since when.
    #[serde(rename = "atSeconds", serialize_with = "seconds")]
    pub at: Duration,
    /// The state.
    pub is: PodState,
}

/// The number of pods in each state and revision.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Lane {
    /// Since when.
    #[serde(rename = "atSeconds", serialize_with = "seconds")]
    pub at: Duration,
    /// By ReplicaSet, or by revision of the StatefulSet or DaemonSet.
    pub revisions: BTreeMap<String, PodCounts>,
}

/// The maximum use of a quota.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaPeak {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The limited resource: `pods`, `requests.cpu`.
    pub resource: String,
    /// The maximum use.
    pub used: String,
    /// The limit.
    pub hard: String,
    /// When the maximum is first reached.
    #[serde(rename = "atSeconds", serialize_with = "seconds")]
    pub at: Duration,
}

/// The free capacity of nodes.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRoom {
    /// The resource.
    pub resource: String,
    /// The total of all schedulable nodes: cpu in millicores.
    pub allocatable: i64,
    /// The minimum free total.
    pub least_free: Peak<i64>,
}

/// A problem.
#[derive(Clone, Debug, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Trouble {
    /// The kind of the problem.
    pub kind: TroubleKind,
    /// When it first occurs.
    #[serde(rename = "atSeconds", serialize_with = "seconds")]
    pub at: Duration,
    /// The text. It can contain control characters from an object of the cluster.
    pub text: String,
    /// Its workload. `None` if it concerns no workload in particular.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<WorkloadId>,
}

/// The kind of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TroubleKind {
    /// A quota rejects a pod.
    Quota,
    /// Another rule of the API server rejects a pod.
    Refused,
    /// No node fits a pod.
    Unschedulable,
    /// Fewer pods are available than a budget or the strategy requires.
    Unavailable,
    /// The progress deadline passes.
    Deadline,
    /// The rollout never completes.
    Never,
    /// The template fails, and the controller rolls back.
    RolledBack,
}

/// Conditions that make `berth plan` fail if the user selects them (`--fail-on`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A quota rejects a pod.
    Quota,
    /// The API server rejects a pod or a ReplicaSet for another reason.
    Refused,
    /// No node fits a pod.
    Unschedulable,
    /// Fewer pods are available than a budget or the strategy requires.
    Unavailable,
    /// The progress deadline passes, a rollout that no user holds never completes, or it is rolled back.
    Deadline,
    /// The number of pods, including terminating ones, exceeds `replicas + maxSurge`.
    Bound,
}

impl Forecast {
    /// Why the forecast fails: a sentence for each selected condition that occurs.
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
    /// When the workload reaches its final state.
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
