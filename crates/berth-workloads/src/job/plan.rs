//! The plan of one Job.

use super::{
    JobState,
    claims::{claims, remove_finalizer, tracked, write_finalizers},
    ending::{COMPLETE, Counts, Ending, FAILED, JobResult, ending},
    manage::{Creation, Managed, count, manage},
    observe::{Observed, true_condition},
    rank::grouped,
    status::{News, is_urgent, status},
    tracking::track,
    ttl::expires_at,
};
use crate::{
    plan::{
        Action, EventRecord, Outcome, Plan, Propagation, Reason, Repeat, Rule, Severity, SlowStart, Stage, Subresource, Urgency, Victims,
        Wait, status_patch,
    },
    view::{JobPodView, JobView},
};
use k8s_openapi::api::{batch::v1::JobStatus, core::v1::Pod};
use serde_json::json;
use std::collections::BTreeSet;

/// Decides what to do for one Job.
///
/// Adoption comes first and alone, because pods are counted correctly only afterwards. Then the status is written. Then pods that it counts lose the
/// finalizer, and pods are created or deleted. A finished Job is deleted when it expires.
#[must_use]
pub fn plan(state: &JobState) -> Plan {
    let job = &*state.job;
    if is_finished(job) {
        return finished(state);
    }
    if let Some(controller) = &job.choices.managed_by {
        return Plan { waits: vec![Wait::ManagedBy { controller: controller.clone() }], ..Plan::default() };
    }
    let mode = match &job.choices.mode {
        Ok(mode) => *mode,
        Err(_) => return Plan { events: vec![unknown_mode(job)], ..Plan::default() },
    };
    if job.selector.as_ref().is_none_or(crate::selector::Selector::is_empty) {
        return Plan::default();
    }
    let claims = claims(state);
    if !claims.is_empty() {
        return Plan { stages: claims, ..Plan::default() };
    }
    unfinished(&Observed::new(state, mode))
}

/// Whether the Job has ended and all its pods are counted.
fn is_finished(job: &JobView) -> bool {
    true_condition(&job.status, COMPLETE).is_some() || true_condition(&job.status, FAILED).is_some()
}

/// Deletes a Job that has expired. Pods that came late lose the finalizer: nothing counts them.
fn finished(state: &JobState) -> Plan {
    let job = &*state.job;
    let is_left = |pod: &&JobPodView| pod.is_tracked() && pod.pod.meta.is_controlled_by(&job.meta.uid);
    let releases = state.sorted_pods().into_iter().filter(is_left).filter(|_| job.choices.managed_by.is_none());
    let releases: Vec<Action> = releases.map(|pod| remove_finalizer(pod, Reason::JobFinished)).collect();
    let expires = expires_at(job).filter(|_| job.meta.deleted.is_none());
    let expiry = expires.filter(|at| *at <= state.now).map(|_| Action::Delete {
        // A client may prolong the time at the same moment: only this version is deleted.
        target: job.reference(),
        propagation: Some(Propagation::Foreground),
        grace_period_seconds: None,
        reason: Reason::Expired { seconds: job.spec.ttl_seconds_after_finished.unwrap_or(0) },
        events: Outcome::default(),
    });
    let requeue_at = expires.filter(|at| state.now < *at);
    Plan { stages: stages([releases, expiry.into_iter().collect()]), requeue_at, ..Plan::default() }
}

fn unfinished(observed: &Observed<'_>) -> Plan {
    let counts = Counts::of(observed);
    let ending = ending(observed, &counts);
    let tracking = track(observed, ending.as_ref());
    let is_managed = ending.is_none() && !observed.is_being_deleted();
    let managed = if is_managed { manage(observed, &counts) } else { Managed::default() };
    let (new, news) = status(observed, ending.as_ref(), &tracking, is_managed);

    let mut first: Vec<Action> = tracking.releases.iter().map(|pod| remove_finalizer(pod, Reason::PodCounted)).collect();
    first.extend(retracked(observed, &managed, is_managed));
    let tracked_victims = managed.given_up.iter().filter(|(_, pod)| pod.is_tracked());
    first.extend(tracked_victims.map(|(_, pod)| remove_finalizer(pod, given_up_reason(observed, &managed))));
    let mut later = Vec::new();
    if !managed.given_up.is_empty() {
        later.push(vec![delete_pods(observed, grouped(&managed.given_up), given_up_reason(observed, &managed))]);
    }
    if let Some(ending) = &ending {
        first.extend(delete_active(observed, ending));
    }
    let mut creations = managed.creation.as_ref().map(|creation| create(observed, &managed, creation)).unwrap_or_default().into_iter();
    first.extend(creations.next().into_iter().flatten());
    later.extend(creations);

    let mut waits = managed.waits;
    waits.extend(ending.as_ref().map(|_| Wait::JobEnding { pods: count(observed.active().chain(observed.terminating())) }));
    if observed.is_being_deleted() {
        waits.push(Wait::BeingDeleted { kind: "Job".to_owned(), name: observed.job().meta.name.to_string() });
    }
    Plan {
        stages: stages([write_status(observed, &new, news), first].into_iter().chain(later)),
        events: too_many_succeeded(observed, &new, news).into_iter().collect(),
        waits: waits.into_iter().filter(|_| news != News::Finished).collect(),
        requeue_at: [managed.requeue_at, observed.deadline().filter(|_| ending.is_none())].into_iter().flatten().min(),
        ..Plan::default()
    }
}

fn stages(actions: impl IntoIterator<Item = Vec<Action>>) -> Vec<Stage> {
    actions.into_iter().filter(|actions| !actions.is_empty()).map(|actions| Stage { actions }).collect()
}

/// Gives active pods the finalizer that lack it and stay: a plan that gave them up was interrupted, or a client removed it. Without it they would be lost.
fn retracked(observed: &Observed<'_>, managed: &Managed<'_>, is_managed: bool) -> Vec<Action> {
    let given_up: BTreeSet<_> = managed.given_up.iter().map(|(_, pod)| pod.uid()).collect();
    let bare = observed.active().filter(|pod| is_managed && !pod.is_tracked() && !given_up.contains(pod.uid()));
    bare.map(|pod| write_finalizers(pod, &tracked(pod), Reason::NotTracked)).collect()
}

fn given_up_reason(observed: &Observed<'_>, managed: &Managed<'_>) -> Reason {
    if observed.is_suspended() {
        return Reason::JobSuspended;
    }
    Reason::Replicas { wanted: managed.wanted, active: count(observed.active()) }
}

/// Deletes the active pods of a Job that ends.
fn delete_active(observed: &Observed<'_>, ending: &Ending) -> Option<Action> {
    let active: Vec<_> = observed.active().map(|pod| (Rule::AllGo, pod)).collect();
    let reason = Reason::JobEnds { reason: ending.reason.clone() };
    if active.is_empty() { None } else { Some(delete_pods(observed, grouped(&active), reason)) }
}

fn delete_pods(observed: &Observed<'_>, victims: Vec<Victims>, reason: Reason) -> Action {
    Action::DeletePods { victims, owner: observed.job().reference(), reason }
}

/// The stages that create pods. Pods with an index differ, so that their slow start is one of stages.
fn create(observed: &Observed<'_>, managed: &Managed<'_>, creation: &Creation) -> Vec<Vec<Action>> {
    let reason = || Reason::Replicas { wanted: managed.wanted, active: count(observed.active()) };
    let action = |template: Box<Pod>, count| Action::CreatePods { template, count, owner: observed.job().reference(), reason: reason() };
    match creation {
        Creation::Alike { template, count } => vec![vec![action(template.clone(), *count)]],
        Creation::Indexed(pods) => {
            let mut rest = pods.iter();
            let batches = SlowStart::new(pods.len());
            batches.map(|size| rest.by_ref().take(size).map(|pod| action(Box::new(pod.clone()), 1)).collect()).collect()
        }
    }
}

fn write_status(observed: &Observed<'_>, new: &JobStatus, news: News) -> Vec<Action> {
    let stored = observed.status();
    let Some(patch) = status_patch(stored, new, |status| &mut status.conditions) else { return Vec::new() };
    let success = match news {
        News::None => None,
        News::Suspended => Some(event(observed.job(), Severity::Normal, "Suspended", "Job suspended".to_owned())),
        News::Resumed => Some(event(observed.job(), Severity::Normal, "Resumed", "Job resumed".to_owned())),
        News::Finished => finished_event(observed.job(), new),
    };
    vec![Action::Patch {
        target: observed.job().reference(),
        subresource: Some(Subresource::Status),
        patch: json!({"status": patch}),
        urgency: if is_urgent(stored, new) { Urgency::Now } else { Urgency::Soon },
        reason: Reason::PodsChanged,
        events: Outcome { success, failure: None },
    }]
}

fn finished_event(job: &JobView, status: &JobStatus) -> Option<EventRecord> {
    if true_condition(status, JobResult::Success.final_condition()).is_some() {
        return Some(event(job, Severity::Normal, "Completed", "Job completed".to_owned()));
    }
    let failed = true_condition(status, JobResult::Failure.final_condition())?;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Some(event(job, Severity::Warning, text(&failed.reason), text(&failed.message)))
}

fn too_many_succeeded(observed: &Observed<'_>, new: &JobStatus, news: News) -> Option<EventRecord> {
    let is_surplus = new.succeeded.unwrap_or(0) > observed.spec().completions?;
    let is_complete = news == News::Finished && true_condition(new, COMPLETE).is_some();
    let message = "Too many succeeded pods running after completion count reached";
    let warning = event(observed.job(), Severity::Warning, "TooManySucceededPods", message.to_owned());
    (is_surplus && is_complete).then_some(EventRecord { repeat: Repeat::Once, ..warning })
}

/// Returns the event that reports that a Job has begun to wait. The other events of a Job are upstream's, so only a wait for another controller has one.
#[must_use]
pub fn wait_event(job: &JobView, wait: &Wait) -> Option<EventRecord> {
    let reason = wait.event_reason().filter(|_| matches!(wait, Wait::SecondWriter(_)))?;
    Some(event(job, Severity::Warning, reason, wait.to_string()))
}

fn unknown_mode(job: &JobView) -> EventRecord {
    let message = "Skipped Job sync because completion mode is unknown";
    EventRecord { repeat: Repeat::Once, ..event(job, Severity::Warning, "UnknownCompletionMode", message.to_owned()) }
}

fn event(job: &JobView, severity: Severity, reason: impl Into<std::borrow::Cow<'static, str>>, message: String) -> EventRecord {
    EventRecord::new(job.reference(), severity, reason, message)
}
