//! A state with everything that its plan derives from it more than once.

use super::{
    JobState,
    failure_policy::{Verdict, verdict},
    indexes::Indexes,
    past::{self, PodEnd},
};
use crate::view::{CompletionMode, JobPodView, JobView, PodPhase};
use k8s_openapi::api::batch::v1::{JobCondition, JobSpec, JobStatus};
use std::collections::BTreeSet;

/// `backoffLimit` where it is not set.
const BACKOFF_LIMIT: i32 = 6;

/// The interim condition of a Job that has failed and whose pods have not all ended.
pub(super) const FAILURE_TARGET: &str = "FailureTarget";
/// The interim condition of a Job that has succeeded and whose pods have not all ended.
pub(super) const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
pub(super) struct Observed<'a> {
    pub(super) state: &'a JobState,
    /// The pods that the Job controls and selects: by index, then by name.
    pub(super) pods: Vec<&'a JobPodView>,
    pub(super) mode: CompletionMode,
    /// Uids of pods in `status.uncountedTerminatedPods`.
    pub(super) uncounted: Uncounted<'a>,
    /// Of an Indexed Job: indexes that have succeeded, with those that the status does not contain yet.
    pub(super) succeeded_indexes: Indexes,
    /// Of a Job with `backoffLimitPerIndex`: the same for failed ones.
    pub(super) failed_indexes: Option<Indexes>,
}

#[derive(Default)]
pub(super) struct Uncounted<'a> {
    pub(super) succeeded: BTreeSet<&'a str>,
    pub(super) failed: BTreeSet<&'a str>,
}

impl Uncounted<'_> {
    pub(super) fn contains(&self, pod: &JobPodView) -> bool {
        self.succeeded.contains(pod.uid().as_str()) || self.failed.contains(pod.uid().as_str())
    }
}

impl<'a> Observed<'a> {
    pub(super) fn new(state: &'a JobState, mode: CompletionMode) -> Self {
        let job = &*state.job;
        let selects = |pod: &JobPodView| job.selector.as_ref().is_some_and(|selector| selector.matches(&pod.pod.meta.labels));
        let is_own = |pod: &&JobPodView| pod.pod.meta.is_controlled_by(&job.meta.uid) && selects(pod);
        let pods: Vec<&JobPodView> = state.sorted_pods().into_iter().filter(is_own).collect();
        let uncounted = job.status.uncounted_terminated_pods.as_ref().map_or_else(Uncounted::default, |lists| Uncounted {
            succeeded: lists.succeeded.iter().flatten().map(String::as_str).collect(),
            failed: lists.failed.iter().flatten().map(String::as_str).collect(),
        });
        let mut observed = Self { state, pods, mode, uncounted, succeeded_indexes: Indexes::default(), failed_indexes: None };
        if mode == CompletionMode::Indexed {
            observed.succeeded_indexes = observed.stored_succeeded_indexes().union(&observed.newly_succeeded_indexes());
            observed.failed_indexes = observed.spec().backoff_limit_per_index.map(|limit| observed.all_failed_indexes(limit));
        }
        observed
    }

    pub(super) fn job(&self) -> &'a JobView {
        &self.state.job
    }

    pub(super) fn spec(&self) -> &'a JobSpec {
        &self.state.job.spec
    }

    pub(super) fn status(&self) -> &'a JobStatus {
        &self.state.job.status
    }

    pub(super) fn is_indexed(&self) -> bool {
        self.mode == CompletionMode::Indexed
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.spec().suspend == Some(true)
    }

    pub(super) fn is_being_deleted(&self) -> bool {
        self.job().meta.deleted.is_some()
    }

    pub(super) fn parallelism(&self) -> u32 {
        self.spec().parallelism.map_or(1, not_negative)
    }

    /// `None`: the Job is complete when one pod has succeeded and the others have ended.
    pub(super) fn completions(&self) -> Option<u32> {
        match (self.spec().completions, self.spec().parallelism) {
            (None, None) => Some(1),
            (completions, _) => completions.map(not_negative),
        }
    }

    /// The number of indexes of an Indexed Job.
    pub(super) fn index_count(&self) -> u32 {
        self.completions().unwrap_or(0)
    }

    pub(super) fn backoff_limit(&self) -> u32 {
        let default = if self.spec().backoff_limit_per_index.is_some() { i32::MAX } else { BACKOFF_LIMIT };
        not_negative(self.spec().backoff_limit.unwrap_or(default))
    }

    pub(super) fn active(&self) -> impl Iterator<Item = &'a JobPodView> {
        self.pods.iter().copied().filter(|pod| pod.pod.is_active())
    }

    pub(super) fn terminating(&self) -> impl Iterator<Item = &'a JobPodView> {
        self.pods.iter().copied().filter(|pod| pod.pod.is_terminating())
    }

    /// Whether the pod counts as failed.
    pub(super) fn is_failed(&self, pod: &JobPodView) -> bool {
        past::is_failed(pod, self.job().choices.replacement)
    }

    /// The verdict of the pod failure policy about a failed pod.
    pub(super) fn verdict(&self, pod: &JobPodView) -> Verdict {
        verdict(self.spec().pod_failure_policy.as_ref(), pod)
    }

    /// Whether the index of this pod has failed with it: by a rule, or because `limit` of its pods failed before.
    fn fails_index(&self, pod: &JobPodView, limit: u32) -> bool {
        self.is_failed(pod)
            && match self.verdict(pod) {
                Verdict::FailIndex => true,
                Verdict::Ignore => false,
                Verdict::Count | Verdict::FailJob { .. } => limit <= pod.index_failures,
            }
    }

    /// How the pod ended, if it has.
    pub(super) fn end_of(&self, pod: &JobPodView) -> Option<PodEnd> {
        past::end_of(pod, self.job().choices.replacement)
    }

    /// Whether the pod can count: any pod, or one with an index of the Job.
    pub(super) fn can_count(&self, pod: &JobPodView) -> bool {
        !self.is_indexed() || pod.index.is_some_and(|index| index < self.index_count())
    }

    /// Pods that can count, and that neither the status nor a former plan has counted.
    pub(super) fn new_pods(&self) -> impl Iterator<Item = &'a JobPodView> {
        self.pods.iter().copied().filter(|pod| pod.is_tracked() && self.can_count(pod) && !self.uncounted.contains(pod))
    }

    /// The completed indexes of the status.
    pub(super) fn stored_succeeded_indexes(&self) -> Indexes {
        Indexes::parse(self.status().completed_indexes.as_deref().unwrap_or_default(), self.index_count())
    }

    fn newly_succeeded_indexes(&self) -> Indexes {
        self.new_pods().filter(|pod| pod.pod.phase == PodPhase::Succeeded).filter_map(|pod| pod.index).collect()
    }

    /// A Job that ends deletes its pods. Their indexes do not fail by that.
    fn all_failed_indexes(&self, limit: i32) -> Indexes {
        let stored = Indexes::parse(self.status().failed_indexes.as_deref().unwrap_or_default(), self.index_count());
        let ends = [SUCCESS_CRITERIA_MET, FAILURE_TARGET].iter().any(|type_| true_condition(self.status(), type_).is_some());
        let failed = self.new_pods().filter(|pod| !ends && self.fails_index(pod, not_negative(limit)));
        stored.union(&failed.filter_map(|pod| pod.index).collect())
    }
}

/// A number of a spec that is not negative if the server has validated it.
pub(super) fn not_negative(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// Whether a status has a condition of this type that is True.
pub(super) fn true_condition<'a>(status: &'a JobStatus, type_: &str) -> Option<&'a JobCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == type_ && condition.status == "True")
}
