//! Pods that a Job adopts or releases. The finalizer goes with the owner.

use super::JobState;
use crate::{
    claim,
    plan::{Action, Outcome, Reason, Stage, Urgency},
    resources::JOB,
    view::JobPodView,
};
use berth_api::annotations::JOB_TRACKING;
use serde_json::json;

/// Adopts pods without a controller that the Job selects, and releases pods that it no longer selects. Nothing, if the Job is being deleted.
///
/// A terminating pod cannot be adopted. If it has lost its owner, it loses the finalizer too: otherwise it would stay indefinitely, as it does upstream.
pub(super) fn claims(state: &JobState) -> Vec<Stage> {
    let job = &*state.job;
    let Some(selector) = job.selector.as_ref().filter(|_| job.meta.deleted.is_none()) else { return Vec::new() };
    let selects = |pod: &&JobPodView| selector.matches(&pod.pod.meta.labels);
    let pods = state.sorted_pods();
    let pods = || pods.iter().copied();
    let orphans = || pods().filter(|pod| pod.pod.meta.controller().is_none()).filter(selects);
    let (adoptable, terminating): (Vec<_>, Vec<_>) = orphans().partition(|pod| pod.pod.meta.deleted.is_none());
    let owner = claim::controller_reference(&JOB, &job.meta);
    let adopt =
        adoptable.into_iter().map(|pod| with_finalizers(claim::adopt(pod.pod.reference(), &pod.pod.meta, owner.clone()), &tracked(pod)));
    let strays = pods().filter(|pod| pod.pod.meta.is_controlled_by(&job.meta.uid)).filter(|pod| !selects(pod));
    let release = strays.map(|pod| with_finalizers(claim::release(pod.pod.reference(), &pod.pod.meta, &job.meta.uid), &untracked(pod)));
    let abandoned = terminating.into_iter().filter(|pod| pod.is_tracked()).map(|pod| remove_finalizer(pod, Reason::NoController));
    claim::stages(job.reference(), adopt.collect(), release.chain(abandoned).collect())
}

/// The finalizers of a pod with that of Jobs.
pub(super) fn tracked(pod: &JobPodView) -> Vec<String> {
    let others = untracked(pod).into_iter();
    others.chain([JOB_TRACKING.to_owned()]).collect()
}

/// The finalizers of a pod without that of Jobs.
fn untracked(pod: &JobPodView) -> Vec<String> {
    pod.finalizers.iter().filter(|finalizer| *finalizer != JOB_TRACKING).cloned().collect()
}

/// Writes the finalizers of a pod in this version, so that no change of it is lost.
pub(super) fn write_finalizers(pod: &JobPodView, finalizers: &[String], reason: Reason) -> Action {
    let patch = Action::Patch {
        target: pod.pod.reference(),
        subresource: None,
        patch: json!({}),
        urgency: Urgency::Now,
        reason,
        events: Outcome::default(),
    };
    with_finalizers(patch, finalizers)
}

/// Removes the finalizer of Jobs from a pod.
pub(super) fn remove_finalizer(pod: &JobPodView, reason: Reason) -> Action {
    write_finalizers(pod, &untracked(pod), reason)
}

/// The same patch, which also writes the finalizers.
fn with_finalizers(action: Action, finalizers: &[String]) -> Action {
    let Action::Patch { target, subresource, mut patch, urgency, reason, events } = action else { return action };
    patch["metadata"]["finalizers"] = if finalizers.is_empty() { json!(null) } else { json!(finalizers) };
    Action::Patch { target, subresource, patch, urgency, reason, events }
}
