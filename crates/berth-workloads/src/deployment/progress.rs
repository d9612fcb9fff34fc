//! Whether a rollout is complete, progresses, or has missed its deadline.

use super::{
    status::{Conditions, PROGRESSING, Verdict},
    subject::Subject,
};
use crate::view::PodReplacementPolicy;
use berth_api::apps::DeploymentStatus;
use berth_identity::Generation;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::DeploymentCondition;

pub(super) const NEW_AVAILABLE: &str = "NewReplicaSetAvailable";
pub(super) const DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
pub(super) const UPDATED: &str = "ReplicaSetUpdated";
const PAUSED: &str = "DeploymentPaused";
const STEP_WAITS: &str = "StepWaiting";

/// How long a rollout may make no progress. `None` without a deadline.
#[must_use]
pub fn deadline(progress_deadline_seconds: Option<i32>) -> Option<SignedDuration> {
    progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX).map(|seconds| SignedDuration::from_secs(seconds.into()))
}

/// The conditions for completion.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// `spec.replicas`.
    pub desired: i64,
    /// The generation that must have been observed.
    pub generation: Generation,
    /// Under TerminationComplete, no pod may be terminating.
    pub policy: PodReplacementPolicy,
    /// The number of terminating pods. `None` is unknown, and a rollout with an unknown number is not complete.
    pub terminating: Option<i64>,
}

/// Whether every desired pod has the new template and is available, and no other pod remains.
#[must_use]
pub fn is_complete(goal: Goal, status: &DeploymentStatus) -> bool {
    let counts = [status.updated_replicas, status.replicas, status.available_replicas];
    counts.iter().all(|count| i64::from(*count) == goal.desired)
        && status.observed_generation >= goal.generation
        && (goal.policy != PodReplacementPolicy::TerminationComplete || goal.terminating == Some(0))
}

/// Whether the rollout has progressed since the stored status.
#[must_use]
pub fn has_progressed(policy: PodReplacementPolicy, stored: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    let old_pods = |status: &DeploymentStatus| status.replicas - status.updated_replicas;
    let fewer_terminating = match (stored.terminating_replicas, new.terminating_replicas) {
        (Some(stored), Some(new)) => policy == PodReplacementPolicy::TerminationComplete && new < stored,
        _ => false,
    };
    new.updated_replicas > stored.updated_replicas
        || old_pods(new) < old_pods(stored)
        || new.ready_replicas > stored.ready_replicas
        || new.available_replicas > stored.available_replicas
        || fewer_terminating
}

/// Whether the rollout has made no progress for longer than the deadline, or had timed out before.
#[must_use]
pub fn is_timed_out(deadline: Option<SignedDuration>, progressing: Option<&DeploymentCondition>, now: Timestamp) -> bool {
    let (Some(deadline), Some(condition)) = (deadline, progressing) else { return false };
    match condition.reason.as_deref() {
        Some(NEW_AVAILABLE | STEP_WAITS) => false,
        Some(DEADLINE_EXCEEDED) => true,
        _ => ends_at(condition, deadline).is_none_or(|end| end < now),
    }
}

/// Whether the rollout is unfinished regardless of the counts. Pods can wait for others to be deleted: under TerminationComplete for room,
/// under Recreate for the old pods. A rollout can also have steps left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Held {
    /// All pods are created, or they wait for something else.
    #[default]
    No,
    /// Pods wait for the deletion of others. Each deleted pod is progress.
    Back,
    /// The progressive rollout has steps left.
    AtStep,
}

/// Returns `None` if the time exceeds the range of a timestamp, or the deadline never started.
fn ends_at(condition: &DeploymentCondition, deadline: SignedDuration) -> Option<Timestamp> {
    condition.last_update_time.as_ref()?.0.checked_add(deadline).ok()
}

/// When to check the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// No deadline runs.
    None,
    /// The deadline passes within a second or has passed: check soon.
    Now,
    /// The deadline passes after this time.
    After(SignedDuration),
}

/// When to check the deadline of a rollout without progress. A completed rollout has none, whatever happens to its pods later. Upstream
/// checks it repeatedly.
#[must_use]
pub fn next_check(deadline: Option<SignedDuration>, progressing: Option<&DeploymentCondition>, now: Timestamp) -> Check {
    let (Some(deadline), Some(condition)) = (deadline, progressing) else { return Check::None };
    if matches!(condition.reason.as_deref(), Some(DEADLINE_EXCEEDED | NEW_AVAILABLE | STEP_WAITS)) {
        return Check::None;
    }
    match ends_at(condition, deadline).map(|end| end.duration_since(now)) {
        Some(left) if left >= SignedDuration::from_secs(1) => Check::After(left),
        _ => Check::Now,
    }
}

/// When to requeue so that the plan finds the deadline passed. It has passed only once the time is later.
pub(super) fn requeue_at(check: Check, now: Timestamp) -> Option<Timestamp> {
    let wait = match check {
        Check::None => return None,
        Check::Now => SignedDuration::from_secs(1),
        Check::After(left) => left.saturating_add(SignedDuration::from_secs(1)),
    };
    now.checked_add(wait).ok()
}

/// Sets the condition that a rollout is paused or resumed. A failed rollout remains failed.
pub fn set_paused(conditions: &mut Conditions, pause: Pause, now: Timestamp) {
    let reason = conditions.reason(PROGRESSING);
    let (reason, message) = match pause {
        _ if reason == DEADLINE_EXCEEDED => return,
        Pause::Paused => (PAUSED, "Deployment is paused"),
        Pause::Running if reason == PAUSED => ("DeploymentResumed", "Deployment is resumed"),
        Pause::Running => return,
    };
    conditions.set(PROGRESSING, Verdict { status: "Unknown", reason, message: message.to_owned() }, now);
}

/// Sets the condition that a step waits, with the text of `wait`: the deadline is suspended. Without a wait, the deadline starts again.
pub(super) fn set_step(conditions: &mut Conditions, wait: Option<String>, subject: &Subject, now: Timestamp) {
    match wait {
        // What the step waits for can change within the same step.
        Some(message) if conditions.get(PROGRESSING).and_then(|condition| condition.message.as_ref()) != Some(&message) => {
            conditions.renew(PROGRESSING, Verdict { status: "Unknown", reason: STEP_WAITS, message }, now);
        }
        Some(message) => conditions.set(PROGRESSING, Verdict { status: "Unknown", reason: STEP_WAITS, message }, now),
        None if conditions.reason(PROGRESSING) == STEP_WAITS => {
            conditions.set(PROGRESSING, Verdict { status: "True", reason: UPDATED, message: format!("{subject} is progressing.") }, now);
        }
        None => (),
    }
}

/// `spec.paused`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// New templates are not rolled out.
    Paused,
    /// New templates are rolled out.
    Running,
}

/// The input for the condition `Progressing`.
#[derive(Debug)]
pub struct Progress<'a> {
    /// The stored status.
    pub stored: &'a DeploymentStatus,
    /// The status of this reconcile.
    pub new: &'a DeploymentStatus,
    /// The conditions for completion.
    pub goal: Goal,
    /// Whether the rollout is unfinished regardless of the counts.
    pub held: Held,
    /// The deadline, if there is one.
    pub deadline: Option<SignedDuration>,
    /// `ReplicaSet "web-5d4"` or, without a new set, `Deployment "web"`.
    pub subject: Subject,
    /// The time of this reconcile.
    pub now: Timestamp,
}

/// Updates the condition `Progressing`.
///
/// Deviation from upstream: if pods are held back, a condition about a completed rollout is replaced at once. Upstream keeps it, because
/// the counts of old and new pods agree while there are no pods.
pub fn set_progress(conditions: &mut Conditions, progress: &Progress<'_>) {
    let Progress { stored, new, subject, now, .. } = progress;
    if progress.deadline.is_none() {
        return conditions.remove(PROGRESSING);
    }
    let is_held = progress.held != Held::No;
    if new.replicas == new.updated_replicas && conditions.reason(PROGRESSING) == NEW_AVAILABLE && !is_held {
        return;
    }
    let begins = is_held && is_over(conditions.get(PROGRESSING), subject);
    let policy = if progress.held == Held::Back { PodReplacementPolicy::TerminationComplete } else { progress.goal.policy };
    if is_complete(progress.goal, new) && !is_held {
        let message = format!("{subject} has successfully progressed.");
        conditions.set(PROGRESSING, Verdict { status: "True", reason: NEW_AVAILABLE, message }, *now);
    } else if begins || has_progressed(policy, stored, new) {
        let message = format!("{subject} is progressing.");
        conditions.renew(PROGRESSING, Verdict { status: "True", reason: UPDATED, message }, *now);
    } else if is_timed_out(progress.deadline, conditions.get(PROGRESSING), *now) {
        let message = format!("{subject} has timed out progressing.");
        conditions.set(PROGRESSING, Verdict { status: "False", reason: DEADLINE_EXCEEDED, message }, *now);
    }
}

/// Whether the condition is not about the present rollout: it is missing, it reports the end of an earlier rollout, or it reports another
/// subject's missed deadline.
fn is_over(progressing: Option<&DeploymentCondition>, subject: &Subject) -> bool {
    let Some(condition) = progressing else { return true };
    match condition.reason.as_deref() {
        Some(NEW_AVAILABLE) => true,
        Some(DEADLINE_EXCEEDED) => !subject.is_of(condition),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    /// Replicas, updated, ready, available, terminating.
    fn status([replicas, updated, ready, available, terminating]: [i32; 5]) -> DeploymentStatus {
        DeploymentStatus {
            replicas,
            updated_replicas: updated,
            ready_replicas: ready,
            available_replicas: available,
            terminating_replicas: Some(terminating),
            ..DeploymentStatus::default()
        }
    }

    fn conditions(status: &str, reason: &str, second: i64) -> Conditions {
        let condition = DeploymentCondition {
            type_: PROGRESSING.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some("ReplicaSet \"web-1\" is".to_owned()),
            last_update_time: Some(Time(at(second))),
            last_transition_time: Some(Time(at(second))),
        };
        Conditions::of(&DeploymentStatus { conditions: Some(vec![condition]), ..DeploymentStatus::default() })
    }

    fn progressing(conditions: &Conditions) -> (String, Option<i64>) {
        let updated = conditions.get(PROGRESSING).and_then(|condition| Some(condition.last_update_time.as_ref()?.0.as_second()));
        (conditions.reason(PROGRESSING).to_owned(), updated)
    }

    #[test]
    fn a_rollout_gets_on_with_new_pods_fewer_old_ones_and_where_they_count_fewer_terminating_ones() {
        use PodReplacementPolicy::{TerminationComplete, Unset};
        let stored = [5, 3, 2, 2, 3];
        let check = |policy, new, wanted| assert_eq!(has_progressed(policy, &status(stored), &status(new)), wanted, "{new:?}");
        check(Unset, stored, false);
        check(Unset, [5, 4, 2, 2, 3], true);
        check(Unset, [4, 3, 2, 2, 3], true);
        check(Unset, [4, 2, 2, 2, 3], false);
        check(Unset, [5, 3, 3, 2, 3], true);
        check(Unset, [5, 3, 2, 3, 3], true);
        check(Unset, [5, 3, 1, 1, 3], false);
        check(Unset, [5, 3, 2, 2, 2], false);
        check(TerminationComplete, [5, 3, 2, 2, 2], true);
        check(TerminationComplete, [5, 3, 2, 2, 3], false);
        check(TerminationComplete, [5, 3, 2, 2, 4], false);
    }

    #[test]
    fn a_rollout_that_is_over_does_not_time_out() {
        let is_timed_out = |reason: &str| is_timed_out(deadline(Some(10)), conditions("True", reason, 0).get(PROGRESSING), at(1000));
        assert_eq!([NEW_AVAILABLE, UPDATED, DEADLINE_EXCEEDED].map(is_timed_out), [false, true, true]);
    }

    #[test]
    fn a_pause_is_noted_and_its_end_but_a_failure_stays() {
        let paused = |reason: &str, pause| {
            let mut conditions = conditions("Unknown", reason, 5);
            set_paused(&mut conditions, pause, at(9));
            progressing(&conditions)
        };
        assert_eq!(paused(UPDATED, Pause::Paused), (PAUSED.to_owned(), Some(9)));
        assert_eq!(paused(PAUSED, Pause::Paused), (PAUSED.to_owned(), Some(5)));
        assert_eq!(paused(PAUSED, Pause::Running), ("DeploymentResumed".to_owned(), Some(9)));
        assert_eq!(paused(UPDATED, Pause::Running), (UPDATED.to_owned(), Some(5)));
        assert_eq!(paused(DEADLINE_EXCEEDED, Pause::Paused), (DEADLINE_EXCEEDED.to_owned(), Some(5)));
    }

    fn after(mut conditions: Conditions, held: Held, new: [i32; 5]) -> (String, Option<i64>) {
        let (stored, new) = (status([2, 2, 1, 1, 0]), status(new));
        let goal = Goal { desired: 3, generation: Generation(0), policy: PodReplacementPolicy::Unset, terminating: Some(0) };
        let progress = Progress {
            stored: &stored,
            new: &new,
            goal,
            held,
            deadline: deadline(Some(600)),
            subject: Subject::ReplicaSet("web-1".to_owned()),
            now: at(9),
        };
        set_progress(&mut conditions, &progress);
        progressing(&conditions)
    }

    #[test]
    fn a_rollout_that_is_over_stays_so_whatever_becomes_of_its_pods_unless_more_are_held_back() {
        let over = || conditions("True", NEW_AVAILABLE, 5);
        assert_eq!(after(over(), Held::No, [2, 2, 2, 2, 0]), (NEW_AVAILABLE.to_owned(), Some(5)));
        assert_eq!(after(over(), Held::No, [3, 2, 2, 2, 0]), (UPDATED.to_owned(), Some(9)));
        assert_eq!(after(over(), Held::Back, [2, 2, 1, 1, 0]), (UPDATED.to_owned(), Some(9)));
    }

    #[test]
    fn a_missed_deadline_is_over_where_it_was_anothers() {
        let missed = || conditions("False", DEADLINE_EXCEEDED, 5);
        let of_another = || {
            let mut conditions = missed();
            conditions.renew(
                PROGRESSING,
                Verdict { status: "False", reason: DEADLINE_EXCEEDED, message: "ReplicaSet \"web-0\" is".to_owned() },
                at(5),
            );
            conditions
        };
        assert_eq!(after(missed(), Held::Back, [2, 2, 1, 1, 0]), (DEADLINE_EXCEEDED.to_owned(), Some(5)));
        assert_eq!(after(of_another(), Held::Back, [2, 2, 1, 1, 0]), (UPDATED.to_owned(), Some(9)));
    }

    #[test]
    fn being_held_back_is_no_progress_of_a_rollout_that_has_begun() {
        assert_eq!(after(conditions("True", UPDATED, 5), Held::Back, [2, 2, 1, 1, 0]), (UPDATED.to_owned(), Some(5)));
        assert_eq!(after(conditions("True", UPDATED, 5), Held::Back, [2, 2, 2, 1, 0]), (UPDATED.to_owned(), Some(9)));
    }
}
