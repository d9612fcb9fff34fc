//! Why an action is deferred.

use crate::{
    analysis::{NoAnswer, Outcome},
    second_writer::SecondWriter,
};
use berth_identity::Ordinal;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why an action is deferred. Each case carries its figures. [`fmt::Display`] is the only text that users see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Wait {
    /// `podReplacementPolicy: TerminationComplete`, or Recreate: terminating pods still count.
    PodsTerminating {
        /// How many.
        pods: u32,
        /// How many pods are created afterwards. 0 if the rollout is complete then.
        then_create: u32,
        /// The pod that is deleted last.
        last: Option<TerminatingPod>,
    },
    /// Recreate: pods of older templates are not even terminating yet.
    OldPodsRunning {
        /// How many.
        pods: u32,
        /// How many pods of the new template are created afterwards.
        then_create: u32,
    },
    /// Pods whose ReplicaSet is deleted count until the garbage collector has deleted them.
    PodsLeftBehind {
        /// How many.
        pods: u32,
        /// How many pods are created afterwards.
        then_create: u32,
    },
    /// Pods of the new revision are not available yet.
    PodsUnavailable {
        /// How many.
        pods: u32,
        /// Of how many.
        of: u32,
    },
    /// Pods of the new revision are ready, but not yet for `minReadySeconds`.
    MinReady {
        /// How many.
        pods: u32,
        /// `minReadySeconds`.
        seconds: u32,
    },
    /// A rollout is complete by its counts, but its pods have not been available for long enough.
    Settling {
        /// How many.
        pods: u32,
        /// The required time.
        seconds: u32,
    },
    /// A terminating object leaves its pods to the garbage collector.
    BeingDeleted {
        /// `Deployment`, `ReplicaSet`.
        kind: String,
        /// Its name.
        name: String,
    },
    /// The controller of a child has not observed the child's change yet.
    ChildNotObserved {
        /// Its name.
        name: String,
    },
    /// The rollout is paused, and there is something to roll out.
    Paused,
    /// A step of a progressive rollout lasts for a time.
    StepLasts {
        /// The position in the steps.
        at: AtStep,
        /// The end of the step.
        until: Timestamp,
    },
    /// A step of a progressive rollout is not reached before its pods have been available for long enough.
    StepSettles {
        /// The position in the steps.
        at: AtStep,
        /// The required time.
        seconds: u32,
        /// The end of the wait if the pods stay available. `None` if one is unavailable.
        until: Option<Timestamp>,
    },
    /// A step of a progressive rollout lasts until a user promotes it.
    StepPaused {
        /// The position in the steps.
        at: AtStep,
    },
    /// A step of a progressive rollout lasts until the Deployment has replicas: a step without pods proves nothing.
    StepWithoutPods {
        /// The position in the steps.
        at: AtStep,
    },
    /// A step of a progressive rollout lasts until an analysis has passed.
    #[serde(rename = "StepAnalysed")]
    StepAnalyzed {
        /// The position in the steps.
        at: AtStep,
        /// The provider.
        provider: String,
        /// Why the last attempt got no answer. `None` before the first attempt has ended.
        last: Option<NoAnswer>,
    },
    /// The analysis of a step has failed. Either no rollback is possible, or it is about to happen.
    StepFailed {
        /// The position in the steps.
        at: AtStep,
        /// The provider.
        provider: String,
        /// The outcome.
        outcome: Outcome,
    },
    /// StatefulSet: a pod is not ready yet, and actions on other pods follow.
    PodNotReady {
        /// Its name.
        pod: String,
        /// The action that follows.
        then: Option<Next>,
    },
    /// StatefulSet: a pod is ready, but not yet for `minReadySeconds`.
    PodNotAvailable {
        /// Its name.
        pod: String,
        /// The action that follows.
        then: Option<Next>,
    },
    /// StatefulSet: a pod is terminating, and actions on other pods follow.
    PodTerminating {
        /// Its name.
        pod: String,
        /// The rest of its grace period.
        last: Option<TerminatingPod>,
        /// The action that follows.
        then: Option<Next>,
    },
    /// StatefulSet: an update waits for a pod of an older revision that may never become ready.
    OutdatedPodNotReady {
        /// Its name.
        pod: String,
        /// With OnDelete, only a user replaces the pod: `berth.dev/repair` is for rolling updates.
        #[serde(default)]
        on_delete: bool,
        /// The cluster's controllers do not support `berth.dev/repair`.
        #[serde(default)]
        unheeded: bool,
    },
    /// StatefulSet: a pod cannot be created while one of its claims is terminating.
    ClaimLeaving {
        /// The claim's name.
        claim: String,
        /// The pod's name.
        pod: String,
    },
    /// StatefulSet: another owner's pod has the name of a missing pod.
    NameTaken {
        /// The name.
        pod: String,
    },
    /// StatefulSet with OnDelete: a user deletes the pods of older revisions.
    DeletionByHand {
        /// How many.
        pods: u32,
    },
    /// Another controller writes the same object. berth does not reconcile it until berth is restarted.
    SecondWriter(SecondWriter),
    /// Job: it is suspended.
    JobSuspended,
    /// Job: pods failed, and are replaced after a delay.
    PodBackoff {
        /// How many pods are created then.
        pods: u32,
        /// The number of consecutive failures. The delay stops growing after seven.
        failures: u32,
        /// The end of the delay.
        until: Timestamp,
    },
    /// Job: it has succeeded or failed, and finishes after its pods have ended and are counted.
    JobEnding {
        /// How many pods have not ended.
        pods: u32,
    },
    /// Job: another controller manages it.
    ManagedBy {
        /// Its name.
        controller: String,
    },
    /// CronJob: it is suspended.
    CronJobSuspended,
    /// CronJob: a Job runs, and the policy forbids a second one.
    JobActive {
        /// Its name.
        job: String,
    },
    /// CronJob: an object that it does not control has the name of the Job that is due.
    JobNameTaken {
        /// The name.
        job: String,
    },
    /// StatefulSet: the partition keeps pods of older revisions.
    Partition {
        /// How many.
        pods: u32,
        /// The lowest ordinal that is updated.
        from: Ordinal,
    },
}

/// The position of a progressive rollout in its steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtStep {
    /// The Deployment.
    pub deployment: String,
    /// The step, counted from 1.
    pub step: usize,
    /// The number of steps.
    pub of: usize,
    /// The percentage of pods that get the new template.
    pub percent: u8,
}

impl fmt::Display for AtStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, of, percent, .. } = self;
        write!(f, "step {step} of {of}, at {percent}%")
    }
}

/// The action after a wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Next {
    /// A pod of this name is created.
    Create(String),
    /// The pod of this name is deleted, because the set no longer has its ordinal.
    Delete(String),
    /// The pod of this name is replaced by one of the update revision.
    Replace(String),
}

impl fmt::Display for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(pod) => write!(f, " before {pod} is created"),
            Self::Delete(pod) => write!(f, " before {pod} is deleted"),
            Self::Replace(pod) => write!(f, " before {pod} is replaced"),
        }
    }
}

/// A terminating pod that a wait depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminatingPod {
    /// Its name.
    pub name: String,
    /// The rest of its grace period in seconds; negative once it is over.
    pub left_seconds: i64,
    /// Its grace period.
    pub grace_period_seconds: i64,
}

macro_rules! wait_kinds {
    ($($name:ident: $label:literal,)*) => {
        /// The kinds of waits: there is advice for each of them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "the cases of Wait have the same names, and are documented")]
        pub enum WaitKind {
            $($name,)*
        }

        impl WaitKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name for programs, as the value of a metric's label. It never changes.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$name => $label,)*
                }
            }
        }
    };
}

wait_kinds! {
    PodsTerminating: "pods_terminating",
    OldPodsRunning: "old_pods_running",
    PodsLeftBehind: "pods_left_behind",
    PodsUnavailable: "pods_unavailable",
    MinReady: "min_ready",
    Settling: "settling",
    BeingDeleted: "being_deleted",
    ChildNotObserved: "child_not_observed",
    Paused: "paused",
    StepLasts: "step_lasts",
    StepSettles: "step_settles",
    StepPaused: "step_paused",
    StepWithoutPods: "step_without_pods",
    StepAnalyzed: "step_analysed",
    StepUnanswered: "step_unanswered",
    StepFailed: "step_failed",
    PodNotReady: "pod_not_ready",
    PodNotAvailable: "pod_not_available",
    PodTerminating: "pod_terminating",
    OutdatedPodNotReady: "outdated_pod_not_ready",
    ClaimLeaving: "claim_leaving",
    NameTaken: "name_taken",
    DeletionByHand: "deletion_by_hand",
    SecondWriter: "second_writer",
    JobSuspended: "job_suspended",
    PodBackoff: "pod_backoff",
    JobEnding: "job_ending",
    ManagedBy: "managed_by",
    CronJobSuspended: "cron_job_suspended",
    JobActive: "job_active",
    JobNameTaken: "job_name_taken",
    Partition: "partition",
}

impl Wait {
    /// The same wait for a cluster whose controllers do not support the annotations of `berth.dev`: its advice does not mention them.
    #[must_use]
    pub fn unheeded(mut self) -> Self {
        if let Self::OutdatedPodNotReady { unheeded, .. } = &mut self {
            *unheeded = true;
        }
        self
    }

    /// Its kind as the value of a metric's label.
    #[must_use]
    pub fn metric_label(&self) -> &'static str {
        self.kind().label()
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> WaitKind {
        match self {
            Self::PodsTerminating { .. } => WaitKind::PodsTerminating,
            Self::OldPodsRunning { .. } => WaitKind::OldPodsRunning,
            Self::PodsLeftBehind { .. } => WaitKind::PodsLeftBehind,
            Self::PodsUnavailable { .. } => WaitKind::PodsUnavailable,
            Self::MinReady { .. } => WaitKind::MinReady,
            Self::Settling { .. } => WaitKind::Settling,
            Self::BeingDeleted { .. } => WaitKind::BeingDeleted,
            Self::ChildNotObserved { .. } => WaitKind::ChildNotObserved,
            Self::Paused => WaitKind::Paused,
            Self::StepLasts { .. } => WaitKind::StepLasts,
            Self::StepSettles { .. } => WaitKind::StepSettles,
            Self::StepPaused { .. } => WaitKind::StepPaused,
            Self::StepWithoutPods { .. } => WaitKind::StepWithoutPods,
            Self::StepAnalyzed { last: None, .. } => WaitKind::StepAnalyzed,
            Self::StepAnalyzed { last: Some(_), .. } => WaitKind::StepUnanswered,
            Self::StepFailed { .. } => WaitKind::StepFailed,
            Self::PodNotReady { .. } => WaitKind::PodNotReady,
            Self::PodNotAvailable { .. } => WaitKind::PodNotAvailable,
            Self::PodTerminating { .. } => WaitKind::PodTerminating,
            Self::OutdatedPodNotReady { .. } => WaitKind::OutdatedPodNotReady,
            Self::ClaimLeaving { .. } => WaitKind::ClaimLeaving,
            Self::NameTaken { .. } => WaitKind::NameTaken,
            Self::DeletionByHand { .. } => WaitKind::DeletionByHand,
            Self::SecondWriter(_) => WaitKind::SecondWriter,
            Self::JobSuspended => WaitKind::JobSuspended,
            Self::PodBackoff { .. } => WaitKind::PodBackoff,
            Self::JobEnding { .. } => WaitKind::JobEnding,
            Self::ManagedBy { .. } => WaitKind::ManagedBy,
            Self::CronJobSuspended => WaitKind::CronJobSuspended,
            Self::JobActive { .. } => WaitKind::JobActive,
            Self::JobNameTaken { .. } => WaitKind::JobNameTaken,
            Self::Partition { .. } => WaitKind::Partition,
        }
    }

    /// Whether the object's owner requested the wait, and only a user or a user's tool ends it.
    #[must_use]
    pub fn is_on_purpose(&self) -> bool {
        matches!(
            self,
            Self::Paused
                | Self::StepPaused { .. }
                | Self::StepWithoutPods { .. }
                | Self::StepFailed { .. }
                | Self::DeletionByHand { .. }
                | Self::JobSuspended
                | Self::ManagedBy { .. }
                | Self::CronJobSuspended
                | Self::Partition { .. }
        )
    }

    /// Whether something has failed that a user should know about.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::StepFailed { .. } | Self::StepAnalyzed { last: Some(_), .. } | Self::SecondWriter(_))
    }

    /// The reason of the event that the wait has begun. `None` for waits that end with a controller's next reconcile.
    #[must_use]
    pub fn event_reason(&self) -> Option<&'static str> {
        match self {
            Self::PodsTerminating { .. } => Some("WaitingForTerminatingPods"),
            Self::OldPodsRunning { .. } => Some("WaitingForOldPods"),
            Self::PodsLeftBehind { .. } => Some("WaitingForGarbageCollection"),
            Self::PodsUnavailable { .. } => Some("WaitingForAvailablePods"),
            Self::MinReady { .. }
            | Self::Settling { .. }
            | Self::BeingDeleted { .. }
            | Self::ChildNotObserved { .. }
            | Self::StepSettles { .. }
            | Self::PodNotReady { .. }
            | Self::PodNotAvailable { .. }
            | Self::PodTerminating { .. }
            // The events and conditions of Jobs and CronJobs are upstream's.
            | Self::JobSuspended
            | Self::PodBackoff { .. }
            | Self::JobEnding { .. }
            | Self::ManagedBy { .. }
            | Self::CronJobSuspended
            | Self::JobActive { .. }
            | Self::JobNameTaken { .. } => None,
            Self::Paused => Some("WaitingForResume"),
            Self::StepLasts { .. } => Some("WaitingForStep"),
            Self::StepPaused { .. } => Some("WaitingForPromotion"),
            Self::StepWithoutPods { .. } => Some("WaitingForReplicas"),
            Self::StepAnalyzed { last: None, .. } => Some("WaitingForAnalysis"),
            Self::StepAnalyzed { last: Some(_), .. } => Some("AnalysisUnanswered"),
            Self::StepFailed { .. } => Some("AnalysisFailed"),
            Self::OutdatedPodNotReady { .. } => Some("WaitingForOutdatedPod"),
            Self::ClaimLeaving { .. } => Some("WaitingForClaim"),
            Self::NameTaken { .. } => Some("WaitingForName"),
            Self::DeletionByHand { .. } => Some("WaitingForPodDeletion"),
            Self::SecondWriter(_) => Some("SecondWriter"),
            Self::Partition { .. } => Some("WaitingForPartition"),
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodsTerminating { pods, then_create, last } => {
                write!(f, "waiting for {}", Pods(*pods, "terminating "))?;
                if let Some(last) = last {
                    write!(f, " ({last})")?;
                }
                match then_create {
                    0 => f.write_str(" before the rollout is complete"),
                    _ => write!(f, " before creating {then_create} more"),
                }
            }
            Self::OldPodsRunning { pods, then_create } => {
                write!(f, "waiting for {} of older templates to stop before creating {then_create} of the new one", Pods(*pods, ""))
            }
            Self::PodsLeftBehind { pods, then_create } => {
                write!(f, "waiting for {} of a deleted ReplicaSet to be deleted before creating {then_create} more", Pods(*pods, ""))
            }
            Self::PodsUnavailable { pods, of } => write!(f, "waiting for {pods} of {} to become available", Pods(*of, "")),
            Self::MinReady { pods, seconds } => write!(f, "waiting for {} to stay ready for {seconds}s (minReadySeconds)", Pods(*pods, "")),
            Self::Settling { pods, seconds } => write!(f, "waiting for {} to stay available for {seconds}s", Pods(*pods, "")),
            Self::BeingDeleted { kind, name } => write!(f, "{kind} {name} is being deleted"),
            Self::ChildNotObserved { name } => write!(f, "waiting for {name} to be observed"),
            Self::Paused => f.write_str("paused: the template does not roll out until you resume it"),
            Self::StepLasts { at, until } => write!(f, "{at}: waiting until {}", until.strftime("%Y-%m-%dT%H:%M:%SZ")),
            Self::StepSettles { at, seconds, until } => {
                write!(f, "{at}: waiting for its pods to stay available for {seconds}s")?;
                until.iter().try_for_each(|until| write!(f, ", until {}", until.strftime("%Y-%m-%dT%H:%M:%SZ")))
            }
            Self::StepWithoutPods { at } => write!(f, "{at}: waiting for replicas: a step without pods does not end"),
            Self::StepPaused { at } => write!(f, "{at}: waiting for `berth rollout promote deployment/{}`", at.deployment),
            Self::StepAnalyzed { at, provider, last: None } => write!(f, "{at}: waiting for an analysis by provider {provider:?}"),
            Self::StepAnalyzed { at, provider, last: Some(why) } => {
                write!(f, "{at}: waiting for an analysis by provider {provider:?}: no answer ({why}), retrying")
            }
            Self::StepFailed { at, provider, outcome } => write!(f, "{at}: the analysis by provider {provider:?} {outcome}"),
            Self::PodNotReady { pod, then } => write!(f, "waiting for {pod} to become ready{}", Then(then)),
            Self::PodNotAvailable { pod, then } => {
                write!(f, "waiting for {pod} to stay ready for minReadySeconds{}", Then(then))
            }
            Self::PodTerminating { pod, last, then } => match last {
                Some(last) => write!(f, "waiting for {pod} to terminate ({last}){}", Then(then)),
                None => write!(f, "waiting for {pod} to terminate{}", Then(then)),
            },
            Self::OutdatedPodNotReady { pod, on_delete: false, unheeded: true } => {
                write!(f, "waiting for {pod} to become ready: it has an older template. If it never becomes ready, delete it")
            }
            Self::OutdatedPodNotReady { pod, on_delete: true, .. } => {
                write!(f, "waiting for {pod} to become ready: it has an older template. If it never becomes ready, delete it (OnDelete)")
            }
            Self::OutdatedPodNotReady { pod, on_delete: false, unheeded: false } => write!(
                f,
                "waiting for {pod} to become ready: it has an older template. If it never becomes ready, delete it, \
                 or set the annotation berth.dev/repair: Revision"
            ),
            Self::ClaimLeaving { claim, pod } => write!(f, "waiting for claim {claim} to be deleted before {pod} gets a new one"),
            Self::NameTaken { pod } => write!(f, "waiting for pod {pod} of another owner to be deleted before {pod} is created"),
            Self::DeletionByHand { pods } => {
                write!(f, "waiting for {} of older templates to be deleted manually (OnDelete)", Pods(*pods, ""))
            }
            Self::SecondWriter(second) => write!(
                f,
                "another controller acts on this object too ({second}), so berth stopped: switch the other one off, then restart berth controller-manager"
            ),
            Self::JobSuspended => f.write_str("suspended: no pod runs until you resume it"),
            Self::PodBackoff { pods, failures, until } => write!(
                f,
                "waiting until {} before creating {}: {} failed in a row",
                until.strftime("%Y-%m-%dT%H:%M:%SZ"),
                Pods(*pods, ""),
                Pods(*failures, "")
            ),
            Self::JobEnding { pods } => write!(f, "waiting for {} to end before the Job is finished", Pods(*pods, "")),
            Self::CronJobSuspended => f.write_str("suspended: no Job is created until you resume it"),
            Self::JobActive { job } => write!(f, "waiting for Job {job} to end before the next one is created (concurrencyPolicy: Forbid)"),
            Self::JobNameTaken { job } => write!(f, "waiting for Job {job} of another owner to be deleted before {job} is created"),
            Self::ManagedBy { controller } => write!(f, "{controller} manages the Job (managedBy)"),
            Self::Partition { pods, from } => {
                write!(f, "the partition keeps {} of older templates: only ordinals from {from} are updated", Pods(*pods, ""))
            }
        }
    }
}

impl fmt::Display for TerminatingPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, left_seconds, grace_period_seconds } = self;
        match left_seconds {
            0.. => write!(f, "{name} has {left_seconds}s of its {grace_period_seconds}s grace left"),
            _ => write!(f, "{name} is {}s over its {grace_period_seconds}s grace", -left_seconds),
        }
    }
}

/// The action after a wait, if there is one.
struct Then<'a>(&'a Option<Next>);

impl fmt::Display for Then<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|next| next.fmt(f))
    }
}

/// A number of pods, in words.
struct Pods(u32, &'static str);

impl fmt::Display for Pods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, kind) = self;
        write!(f, "{count} {kind}pod{}", if *count == 1 { "" } else { "s" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_read_as_sentences() {
        let last = |left_seconds| Some(TerminatingPod { name: "web-7d4b9-x2x1z".to_owned(), left_seconds, grace_period_seconds: 30 });
        let check = |wait: Wait, text: &str| assert_eq!(wait.to_string(), text);
        check(
            Wait::PodsTerminating { pods: 3, then_create: 3, last: last(25) },
            "waiting for 3 terminating pods (web-7d4b9-x2x1z has 25s of its 30s grace left) before creating 3 more",
        );
        check(
            Wait::PodsTerminating { pods: 1, then_create: 2, last: last(-5) },
            "waiting for 1 terminating pod (web-7d4b9-x2x1z is 5s over its 30s grace) before creating 2 more",
        );
        check(Wait::PodsTerminating { pods: 1, then_create: 1, last: None }, "waiting for 1 terminating pod before creating 1 more");
        check(
            Wait::PodsTerminating { pods: 2, then_create: 0, last: None },
            "waiting for 2 terminating pods before the rollout is complete",
        );
        check(
            Wait::OldPodsRunning { pods: 2, then_create: 3 },
            "waiting for 2 pods of older templates to stop before creating 3 of the new one",
        );
        check(
            Wait::PodsLeftBehind { pods: 6, then_create: 2 },
            "waiting for 6 pods of a deleted ReplicaSet to be deleted before creating 2 more",
        );
        check(Wait::PodsUnavailable { pods: 1, of: 3 }, "waiting for 1 of 3 pods to become available");
        let at = || AtStep { deployment: "web".to_owned(), step: 1, of: 3, percent: 25 };
        let settles = |until| Wait::StepSettles { at: at(), seconds: 10, until };
        check(settles(None), "step 1 of 3, at 25%: waiting for its pods to stay available for 10s");
        let until = Some(Timestamp::UNIX_EPOCH);
        check(settles(until), "step 1 of 3, at 25%: waiting for its pods to stay available for 10s, until 1970-01-01T00:00:00Z");
        check(Wait::JobSuspended, "suspended: no pod runs until you resume it");
        let until = Timestamp::UNIX_EPOCH;
        let backoff = Wait::PodBackoff { pods: 2, failures: 1, until };
        check(backoff, "waiting until 1970-01-01T00:00:00Z before creating 2 pods: 1 pod failed in a row");
        check(Wait::JobEnding { pods: 2 }, "waiting for 2 pods to end before the Job is finished");
        check(Wait::ManagedBy { controller: "a.b/c".to_owned() }, "a.b/c manages the Job (managedBy)");
        check(Wait::CronJobSuspended, "suspended: no Job is created until you resume it");
        let active = Wait::JobActive { job: "backup-1".to_owned() };
        check(active, "waiting for Job backup-1 to end before the next one is created (concurrencyPolicy: Forbid)");
        let taken = Wait::JobNameTaken { job: "backup-1".to_owned() };
        check(taken, "waiting for Job backup-1 of another owner to be deleted before backup-1 is created");
        check(Wait::MinReady { pods: 1, seconds: 30 }, "waiting for 1 pod to stay ready for 30s (minReadySeconds)");
        check(Wait::BeingDeleted { kind: "ReplicaSet".to_owned(), name: "web-1".to_owned() }, "ReplicaSet web-1 is being deleted");
    }

    #[test]
    fn an_annotation_is_advised_only_where_controllers_know_it() {
        let wait = Wait::OutdatedPodNotReady { pod: "db-1".to_owned(), on_delete: false, unheeded: false };
        assert!(wait.to_string().contains("berth.dev/repair"), "{wait}");
        assert_eq!(
            wait.unheeded().to_string(),
            "waiting for db-1 to become ready: it has an older template. If it never becomes ready, delete it"
        );
    }

    #[test]
    fn what_a_person_asked_for_a_person_ends() {
        for wait in [Wait::Paused, Wait::DeletionByHand { pods: 1 }, Wait::Partition { pods: 1, from: Ordinal(2) }] {
            assert!(wait.is_on_purpose(), "{wait}");
        }
        assert!(!Wait::PodsUnavailable { pods: 1, of: 3 }.is_on_purpose());
        assert!(!Wait::OldPodsRunning { pods: 2, then_create: 3 }.is_on_purpose());
        assert!(!Wait::ChildNotObserved { name: "web-1".to_owned() }.is_on_purpose());
    }
}
