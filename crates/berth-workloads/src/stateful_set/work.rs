//! Collects the decisions of one reconcile and orders their writes.

use super::{
    auto_rollback,
    events::{Verb, event, pod_outcome},
    observe::Observed,
    progress,
    status::{self, Recreation},
    volumes::References,
};
use crate::{
    cause::{self, Cause},
    plan::{Action, EventRecord, Outcome, Plan, Reason, Repeat, Severity, Stage, Subresource, TerminatingPod, Urgency, Wait, status_patch},
    view::PodView,
};
use berth_identity::ObjectRef;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// When the status is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatusStage {
    /// Together with the first writes to pods.
    Beside,
    /// Before them, if more than its counts change: for example, which revision's pods are replaced.
    FirstIfNews,
    /// Before them: after a crash, the next leader must know what the writes do.
    First,
}

pub(super) struct Work<'o, 'a> {
    pub(super) observed: &'o Observed<'a>,
    /// Corrects the owners of claims before any write to a pod.
    references: Vec<Action>,
    stages: Vec<Vec<Action>>,
    beside: Vec<Action>,
    status: StatusStage,
    /// Pods of the current revision that this reconcile deletes for the update.
    leaving: i32,
    pub(super) recreation: Recreation,
    waits: Vec<Wait>,
    events: Vec<EventRecord>,
}

impl<'o, 'a> Work<'o, 'a> {
    /// Starts with the corrections of the claims' owners, which always precede work on pods.
    pub(super) fn new(observed: &'o Observed<'a>, references: References) -> Self {
        Self {
            observed,
            references: references.writes,
            stages: Vec::new(),
            beside: Vec::new(),
            status: StatusStage::Beside,
            leaving: 0,
            recreation: Recreation::None,
            waits: Vec::new(),
            events: references.events,
        }
    }

    /// Adds writes that follow all earlier ones.
    pub(super) fn then(&mut self, actions: Vec<Action>) {
        if !actions.is_empty() {
            self.stages.push(actions);
        }
    }

    /// Adds independent writes: they run with the first ones.
    pub(super) fn beside(&mut self, actions: Vec<Action>) {
        self.beside.extend(actions);
    }

    pub(super) fn wait(&mut self, wait: Wait) {
        self.waits.push(wait);
    }

    pub(super) fn event(&mut self, event: EventRecord) {
        self.events.push(event);
    }

    /// Writes the status before any write to a pod.
    pub(super) fn status_first(&mut self) {
        self.status = StatusStage::First;
    }

    /// Deletes pods of older revisions for the update after the status names the update revision. Without a partition, the status must also
    /// report the deletions first, because they determine the revision of a missing pod.
    ///
    /// An unavailable pod is only deleted in this version: one that has become available meanwhile stays.
    pub(super) fn replace(&mut self, pods: &[&PodView], broken: &[&PodView]) {
        let observed = self.observed;
        let current = |pod: &&&PodView| super::revision_of(pod) == observed.history.current;
        self.leaving += i32::try_from(pods.iter().chain(broken).filter(current).count()).unwrap_or(i32::MAX);
        match observed.partition {
            None => self.status_first(),
            Some(_) if self.status == StatusStage::Beside => self.status = StatusStage::FirstIfNews,
            Some(_) => (),
        }
        let deletes = pods.iter().map(|pod| delete(observed, pod, Reason::Outdated));
        // Other writes to those pods would change their version, and are no longer necessary.
        self.beside.retain(|action| !broken.iter().any(|pod| is_about(action, pod)));
        let guarded = broken.iter().map(|pod| delete_version(observed, pod, Reason::OutdatedUnavailable));
        self.then(guarded.chain(deletes).collect());
    }

    /// Deletes an unready pod in this version only, so that one that became ready meanwhile stays.
    pub(super) fn repair(&mut self, pod: &PodView) {
        let observed = self.observed;
        let history = &observed.history;
        self.leaving += i32::from(super::revision_of(pod) == history.current);
        self.status_first();
        let message = format!(
            "Deleted Pod {} of revision {}, which was not ready, so that the update to {} continues",
            pod.meta.name,
            super::revision_of(pod),
            history.update
        );
        self.then(vec![Action::Delete {
            target: pod.reference(),
            propagation: None,
            grace_period_seconds: None,
            reason: Reason::HoldsUpUpdate,
            events: Outcome {
                success: Some(event(observed.set(), Severity::Normal, "RepairedPod", message)),
                failure: pod_outcome(observed.set(), Verb::Delete, &pod.meta.name).failure,
            },
        }]);
    }

    /// A terminating pod, for the text of a wait.
    pub(super) fn terminating(&self, pod: &PodView) -> Option<TerminatingPod> {
        Some(TerminatingPod {
            name: pod.meta.name.to_string(),
            left_seconds: pod.meta.deleted?.duration_since(self.observed.state.now).as_secs(),
            grace_period_seconds: pod.grace_period_seconds?,
        })
    }

    /// Orders the writes: the revision that pods refer to, the status, the pods. Old revisions are deleted with the status, whatever
    /// happens to the pods (kubernetes#85690). The owners of claims are written with the first of these, before any write to a pod.
    pub(super) fn finish(mut self) -> Plan {
        let observed = self.observed;
        if observed.set().meta.deleted.is_none() {
            self.events.extend(self.recreation.events(observed));
            self.events.extend(failing_pods(observed));
            self.events.extend(auto_rollback::events(observed, self.stages.is_empty()));
        }
        let mut first =
            observed.history.writes(observed.state, auto_rollback::failure(observed).as_ref(), progress::progress(observed).as_ref());
        let status = self.write_status();
        let is_status_first = match self.status {
            StatusStage::First => true,
            StatusStage::FirstIfNews => status.as_ref().is_some_and(|status| !status.may_wait()),
            StatusStage::Beside => false,
        };
        let mut beside: Vec<_> = status.into_iter().collect();
        if !self.references.is_empty() {
            if first.is_empty() {
                first = std::mem::take(&mut beside);
            }
            first.append(&mut self.references);
        }
        beside.append(&mut self.beside);
        if observed.set().meta.deleted.is_none() {
            beside.extend(observed.history.clean_up(observed.state));
        }
        if is_status_first || self.stages.is_empty() {
            self.stages.insert(0, beside);
        } else {
            self.stages[0].extend(beside);
        }
        let stages = std::iter::once(first).chain(self.stages);
        Plan {
            stages: stages.filter(|actions| !actions.is_empty()).map(|actions| Stage { actions }).collect(),
            events: self.events,
            waits: self.waits,
            requeue_at: [observed.pods().next_available_at(), progress::next_check(observed), next_failure(observed)]
                .into_iter()
                .flatten()
                .min(),
            ..Plan::default()
        }
    }

    fn write_status(&self) -> Option<Action> {
        let observed = self.observed;
        let set = observed.set();
        let status = status::status(observed, self.leaving, self.recreation, &self.waits);
        if !status::differs(observed, &status) {
            return None;
        }
        let is_at_rest = self.stages.is_empty() && status::has_all(observed, &status);
        let is_urgent = self.status == StatusStage::First || is_at_rest || status::is_news(&set.status, &status);
        Some(Action::Patch {
            target: set.reference(),
            subresource: Some(Subresource::Status),
            patch: json!({"status": status_patch(&set.status, &status, |status| &mut status.conditions)?}),
            urgency: if is_urgent { Urgency::Now } else { Urgency::Soon },
            reason: Reason::PodsChanged,
            events: Outcome::default(),
        })
    }
}

/// How long a pod may be without a node until that is recorded: its volumes may not be bound yet, or terminating pods may still use the
/// resources.
const UNSCHEDULED_WITHIN: SignedDuration = SignedDuration::from_secs(10);

/// The causes of pods of the update revision that do not become ready, and from when on each is recorded.
fn failures(observed: &Observed<'_>) -> impl Iterator<Item = (Option<Timestamp>, Cause)> {
    let causes = observed.pods().failing(&observed.history.update).filter_map(|pod| Some((pod, cause::of_pod(pod)?)));
    causes.map(|(pod, cause)| {
        let until = || pod.meta.created?.checked_add(UNSCHEDULED_WITHIN).ok();
        (if cause.kind.is_unschedulable() { until() } else { None }, cause)
    })
}

/// When the next failure is due to be recorded.
fn next_failure(observed: &Observed<'_>) -> Option<Timestamp> {
    failures(observed).filter_map(|(from, _)| from).filter(|from| observed.state.now < *from).min()
}

/// An event about a pod of the update revision that does not become ready, once for each revision and kind of cause.
fn failing_pods(observed: &Observed<'_>) -> Option<EventRecord> {
    let update = &observed.history.update;
    let (_, cause) = failures(observed).find(|(from, _)| from.is_none_or(|from| from <= observed.state.now))?;
    let message = format!("Pods of revision \"{update}\" are failing: {cause}");
    let repeat = Repeat::OncePer(format!("{update}/{}", cause.kind.reason()));
    Some(EventRecord { repeat, ..event(observed.set(), Severity::Warning, "NewPodsFailing", message) })
}

/// Deletes a pod in any version, because a status update must not prevent it.
pub(super) fn delete(observed: &Observed<'_>, pod: &PodView, reason: Reason) -> Action {
    delete_target(observed, pod.reference().in_any_version(), reason)
}

/// Whether the action writes to this pod.
fn is_about(action: &Action, pod: &PodView) -> bool {
    matches!(action, Action::Patch { target, .. } | Action::Delete { target, .. } if target.uid == pod.meta.uid)
}

/// Deletes a pod if it still has the version in the plan.
fn delete_version(observed: &Observed<'_>, pod: &PodView, reason: Reason) -> Action {
    delete_target(observed, pod.reference(), reason)
}

fn delete_target(observed: &Observed<'_>, target: ObjectRef, reason: Reason) -> Action {
    let events = pod_outcome(observed.set(), Verb::Delete, &target.key.name);
    Action::Delete { target, propagation: None, grace_period_seconds: None, reason, events }
}

pub(super) fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
