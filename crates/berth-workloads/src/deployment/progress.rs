//! Whether a rollout is complete, gets on, or has taken too long.

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

/// How long a rollout may stand still; `None` without a deadline.
#[must_use]
pub fn deadline(progress_deadline_seconds: Option<i32>) -> Option<SignedDuration> {
    progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX).map(|seconds| SignedDuration::from_secs(seconds.into()))
}

/// What completion is measured against.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// `spec.replicas`.
    pub desired: i64,
    /// The generation that must have been observed.
    pub generation: Generation,
    /// Under TerminationComplete no pod may be terminating any more.
    pub policy: PodReplacementPolicy,
    /// How many are; `None`: unknown, which is not complete.
    pub terminating: Option<i64>,
}

/// Whether every pod that is wanted has the new template and is available, and no other is left.
#[must_use]
pub fn is_complete(goal: Goal, status: &DeploymentStatus) -> bool {
    let counts = [status.updated_replicas, status.replicas, status.available_replicas];
    counts.iter().all(|count| i64::from(*count) == goal.desired)
        && status.observed_generation >= goal.generation
        && (goal.policy != PodReplacementPolicy::TerminationComplete || goal.terminating == Some(0))
}

/// Whether the rollout has got on since the status that is stored.
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

/// Whether the rollout has stood still for longer than the deadline, or had done so before.
#[must_use]
pub fn is_timed_out(deadline: Option<SignedDuration>, progressing: Option<&DeploymentCondition>, now: Timestamp) -> bool {
    let (Some(deadline), Some(condition)) = (deadline, progressing) else { return false };
    match condition.reason.as_deref() {
        Some(NEW_AVAILABLE | STEP_WAITS) => false,
        Some(DEADLINE_EXCEEDED) => true,
        _ => ends_at(condition, deadline).is_none_or(|end| end < now),
    }
}

/// Whether something is left to do whatever the counts say: pods that are to be created wait until others are gone, under TerminationComplete for room, under
/// Recreate for the old ones; or a rollout has steps before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Held {
    /// All that is to be created is created, or waits for something else.
    #[default]
    No,
    /// Something is left to do, whatever the counts say, and each pod that is gone is progress.
    Back,
    /// Steps of a progressive rollout are left, whatever the counts say.
    AtStep,
}

/// `None`: beyond what a timestamp can say, or never begun.
fn ends_at(condition: &DeploymentCondition, deadline: SignedDuration) -> Option<Timestamp> {
    condition.last_update_time.as_ref()?.0.checked_add(deadline).ok()
}

/// When to look whether the deadline has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Nothing is waited for.
    None,
    /// It passes within a second or has passed: soon.
    Now,
    /// It passes after this time.
    After(SignedDuration),
}

/// When the deadline of a rollout that stands still must be looked at. One that is over has none, whatever became of its pods since: upstream
/// looks at it again and again.
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

/// When to look again so that the deadline is seen to have passed: it has only once the time is beyond it.
pub(super) fn look_again(check: Check, now: Timestamp) -> Option<Timestamp> {
    let wait = match check {
        Check::None => return None,
        Check::Now => SignedDuration::from_secs(1),
        Check::After(left) => left.saturating_add(SignedDuration::from_secs(1)),
    };
    now.checked_add(wait).ok()
}

/// Marks that a rollout is held back, or no longer is. A rollout that has failed stays failed.
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

/// Marks that a step waits, in the words of `wait`: the deadline rests. Or that none does any more: it begins anew.
pub(super) fn set_step(conditions: &mut Conditions, wait: Option<String>, subject: &Subject, now: Timestamp) {
    match wait {
        // What is waited for may change while the step is the same.
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
    /// Templates are not rolled out.
    Paused,
    /// They are.
    Running,
}

/// What the condition `Progressing` is decided from.
#[derive(Debug)]
pub struct Progress<'a> {
    /// The status that is stored.
    pub stored: &'a DeploymentStatus,
    /// The status of this look.
    pub new: &'a DeploymentStatus,
    /// What completion is measured against.
    pub goal: Goal,
    /// Whether something is left to do whatever the counts say.
    pub held: Held,
    /// `None` without one.
    pub deadline: Option<SignedDuration>,
    /// `ReplicaSet "web-5d4"` or, without a new set, `Deployment "web"`.
    pub subject: Subject,
    /// The time of this look.
    pub now: Timestamp,
}

/// Brings the condition `Progressing` up to date.
///
/// Deviation from upstream: where pods are held back, what the condition says of a rollout that is over ends at once. Upstream leaves it, as the
/// counts of old and new pods agree while there are none.
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

/// Whether the condition says nothing of what is being done: there is none, it says the end of what was done before, or it tells of another's
/// missed deadline.
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
