//! A StatefulSet's status.

use super::{
    EffectiveStrategy, auto_rollback, complete_rolling_update,
    events::{event, once_of},
    observe::Observed,
};
use crate::{
    deployment::status::Verdict,
    plan::{EventRecord, Severity, Wait},
};
use berth_api::{Gate, apps::StatefulSetStatus};
use berth_identity::Ordinal;
use jiff::Timestamp;
use k8s_openapi::{api::apps::v1::StatefulSetCondition, apimachinery::pkg::apis::meta::v1::Time};

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const ROLLBACK_FAILED: &str = "RollbackFailed";
const IN_PROGRESS: &str = "RecreateInProgress";
const CREATING: &str = "CreatingPods";
const COMPLETE: &str = "RecreateComplete";
const DELETING: &str = "Deleting all pods for Recreate update";
const WAITING: &str = "Waiting for the termination of all pods of older revisions";

/// The action of a Recreate update in this reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recreation {
    /// The strategy is another one.
    None,
    /// Deletes the old pods.
    Deleting,
    /// Waits for the deletion of the last old pod.
    Waiting,
    /// Creates missing pods: after old pods, for a new or larger set, or in place of pods that other clients deleted.
    Creating {
        /// How many of the desired pods exist.
        there: usize,
    },
    /// Every new pod exists.
    Complete,
}

impl Recreation {
    /// The events about the phase. Every reconcile of the phase returns them before any write, so that none is lost if the controller
    /// crashes. Each is recorded once for an update.
    pub(super) fn events(self, observed: &Observed<'_>) -> Vec<EventRecord> {
        let (set, stored) = (observed.set(), stored(observed));
        let once = |reason, message: &str| once_of(observed.history.number, event(set, Severity::Normal, reason, message.to_owned()));
        let begun = || once("RecreateStarted", DELETING);
        match self {
            Self::Deleting => vec![begun()],
            Self::Waiting => {
                // Not if other clients had deleted the old pods before the update began.
                let was_deleting = is(stored, IN_PROGRESS, DELETING) && set.status.update_revision == observed.history.update;
                was_deleting.then(begun).into_iter().chain([once("RecreateWaitingForTermination", WAITING)]).collect()
            }
            Self::Complete if stored.is_some_and(|condition| has_reason(condition, IN_PROGRESS)) => {
                vec![once("RecreateCompleted", &format!("Recreated all pods with revision {}", observed.history.update))]
            }
            Self::None | Self::Creating { .. } | Self::Complete => Vec::new(),
        }
    }

    fn verdict(self, observed: &Observed<'_>, waits: &[Wait]) -> Option<Verdict> {
        let verdict = |reason, message: &str| Some(Verdict { status: "True", reason, message: message.to_owned() });
        match self {
            Self::None => None,
            Self::Deleting => verdict(IN_PROGRESS, DELETING),
            Self::Waiting => verdict(IN_PROGRESS, WAITING),
            Self::Creating { there } => {
                // KEP-3541: an update is in progress until all of its pods exist. Without an update, none is in progress.
                let is_update = stored(observed).is_some_and(|condition| has_reason(condition, IN_PROGRESS));
                verdict(if is_update { IN_PROGRESS } else { CREATING }, &creating(observed, there, waits))
            }
            Self::Complete => verdict(COMPLETE, "All pods exist and have the update revision."),
        }
    }

    /// How many pods are available and not deleted in this reconcile.
    fn available(self, observed: &Observed<'_>) -> i64 {
        let stays = matches!(self, Self::Deleting | Self::Waiting).then_some(&*observed.history.update);
        observed.pods().available(stays)
    }
}

/// The number of existing pods, and the wait or the failure. The text is stable while these are, because every change is a write.
fn creating(observed: &Observed<'_>, there: usize, waits: &[Wait]) -> String {
    let text = format!("{there} of {} pods of revision {} exist", observed.ordinals.replicas, observed.history.update);
    let lasting = |wait: &Wait| match wait.clone() {
        Wait::PodTerminating { pod, then, .. } => Wait::PodTerminating { pod, last: None, then },
        other => other,
    };
    let cause = observed.state.last_error.clone().or_else(|| waits.first().map(|wait| lasting(wait).to_string()));
    cause.map_or_else(|| text.clone(), |cause| format!("{text}: {cause}"))
}

fn stored<'a>(observed: &Observed<'a>) -> Option<&'a StatefulSetCondition> {
    observed.set().status.conditions.iter().flatten().find(|condition| condition.type_ == PROGRESSING)
}

fn has_reason(condition: &StatefulSetCondition, reason: &str) -> bool {
    condition.reason.as_deref() == Some(reason)
}

fn is(stored: Option<&StatefulSetCondition>, reason: &str, message: &str) -> bool {
    stored.is_some_and(|condition| has_reason(condition, reason) && condition.message.as_deref() == Some(message))
}

/// The status after this reconcile, which deletes `leaving` pods of the current revision.
pub(super) fn status(observed: &Observed<'_>, leaving: i32, recreation: Recreation, waits: &[Wait]) -> StatefulSetStatus {
    let (set, history) = (observed.set(), &observed.history);
    let mut status = StatefulSetStatus {
        observed_generation: set.meta.generation,
        current_revision: history.current.clone(),
        update_revision: history.update.clone(),
        collision_count: Some(history.collision_count),
        ..StatefulSetStatus::default()
    };
    observed.pods().write_counts(&mut status);
    status.current_replicas -= leaving;
    if set.meta.deleted.is_none() {
        complete_rolling_update(&mut status, observed.strategy, number(observed.ordinals.replicas));
    }
    if observed.state.gates.enabled(Gate::StatefulSetRecreateStrategy) {
        status.conditions = Some(conditions(observed, recreation, waits));
    }
    status
}

/// Whether a status requires a write. As upstream, the number of collisions alone does not. Conditions are written only with their gate.
pub(super) fn differs(observed: &Observed<'_>, status: &StatefulSetStatus) -> bool {
    let mut stored = observed.set().status.clone();
    stored.collision_count = status.collision_count;
    if !observed.state.gates.enabled(Gate::StatefulSetRecreateStrategy) {
        stored.conditions = None;
    }
    stored != *status
}

/// Whether more has changed than counts: pods that become ready one after the other need no write each.
pub(super) fn is_news(stored: &StatefulSetStatus, new: &StatefulSetStatus) -> bool {
    let revisions =
        |status: &StatefulSetStatus| (status.observed_generation, status.current_revision.clone(), status.update_revision.clone());
    let verdicts = |status: &StatefulSetStatus| -> Vec<_> {
        let conditions = status.conditions.iter().flatten();
        conditions.map(|condition| (condition.type_.clone(), condition.status.clone(), condition.reason.clone())).collect()
    };
    revisions(stored) != revisions(new) || verdicts(stored) != verdicts(new)
}

/// Whether every desired pod exists and is available, and no other pod exists.
pub(super) fn has_all(observed: &Observed<'_>, status: &StatefulSetStatus) -> bool {
    let counts = [status.replicas, status.ready_replicas, status.available_replicas];
    counts.iter().all(|count| i64::from(*count) == observed.ordinals.replicas)
}

fn conditions(observed: &Observed<'_>, recreation: Recreation, waits: &[Wait]) -> Vec<StatefulSetCondition> {
    let mut conditions = observed.set().status.conditions.clone().unwrap_or_default();
    if observed.set().meta.deleted.is_none() {
        let progress =
            if observed.strategy == EffectiveStrategy::Recreate { recreation.verdict(observed, waits) } else { Some(progress(observed)) };
        progress.into_iter().for_each(|verdict| set(&mut conditions, PROGRESSING, verdict, observed.state.now));
    }
    conditions.retain(|condition| condition.type_ != ROLLBACK_FAILED || auto_rollback::failed(observed).is_some());
    if let Some(record) = auto_rollback::failed(observed) {
        let verdict = Verdict { status: "True", reason: "TargetFailed", message: record.failure() };
        set(&mut conditions, ROLLBACK_FAILED, verdict, observed.state.now);
    }
    set(&mut conditions, AVAILABLE, availability(observed, recreation), observed.state.now);
    conditions
}

/// Sets a condition. An equal condition does not change, and one with the same status keeps its transition time.
fn set(conditions: &mut Vec<StatefulSetCondition>, type_: &str, verdict: Verdict, now: Timestamp) {
    let place = conditions.iter().position(|condition| condition.type_ == type_);
    let old = place.map(|place| &conditions[place]);
    if is(old, verdict.reason, &verdict.message) && old.is_some_and(|old| old.status == verdict.status) {
        return;
    }
    let since = old.filter(|old| old.status == verdict.status).and_then(|old| old.last_transition_time.clone());
    let new = StatefulSetCondition {
        type_: type_.to_owned(),
        status: verdict.status.to_owned(),
        reason: Some(verdict.reason.to_owned()),
        message: Some(verdict.message),
        last_transition_time: since.or(Some(Time(now))),
    };
    match place {
        Some(place) => conditions[place] = new,
        None => conditions.push(new),
    }
}

/// The progress of a rolling update or a manual one. Without a deadline, it never fails.
fn progress(observed: &Observed<'_>) -> Verdict {
    let controlled = observed.pods();
    let is_settled = controlled.unavailable_slots() == 0 && controlled.condemned().next().is_none();
    let from = if observed.strategy == EffectiveStrategy::OnDelete { Ordinal::MIN } else { observed.update_from() };
    let is_outdated = controlled.highest_outdated(&observed.history.update, from..observed.end().max(from)).is_some();
    match (is_settled, is_outdated) {
        (true, false) => {
            let message = "All pods are available and have the correct revision.".to_owned();
            Verdict { status: "True", reason: "NewRevisionAvailable", message }
        }
        (true, true) if observed.strategy == EffectiveStrategy::OnDelete => {
            let message = "Pods of older revisions must be deleted manually.".to_owned();
            Verdict { status: "Unknown", reason: "WaitingForPodDeletion", message }
        }
        _ => {
            let message = "Some pods are not available or do not have the correct revision.".to_owned();
            Verdict { status: "True", reason: "RevisionUpdated", message }
        }
    }
}

/// Terminating pods, or pods deleted in this reconcile, do not count as available. `status.availableReplicas` counts them until their
/// deletion.
fn availability(observed: &Observed<'_>, recreation: Recreation) -> Verdict {
    let wanted = observed.ordinals.replicas;
    let required = match observed.strategy {
        EffectiveStrategy::RollingUpdate => (wanted - observed.max_unavailable()).max(wanted.min(1)),
        EffectiveStrategy::OnDelete | EffectiveStrategy::Recreate => wanted,
    };
    if recreation.available(observed) >= required {
        let message = "StatefulSet has minimum availability.".to_owned();
        Verdict { status: "True", reason: "MinimumReplicasAvailable", message }
    } else {
        let message = "StatefulSet does not have minimum availability.".to_owned();
        Verdict { status: "False", reason: "MinimumReplicasUnavailable", message }
    }
}

fn number(count: i64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::Generation;

    #[test]
    fn a_condition_moves_its_time_with_its_status() {
        let mut conditions = Vec::new();
        let mut since = |status: &'static str, reason: &'static str, second: i64| {
            let verdict = Verdict { status, reason, message: String::new() };
            set(&mut conditions, AVAILABLE, verdict, Timestamp::from_second(second).expect("a time"));
            conditions[0].last_transition_time.as_ref().map(|time| time.0.as_second())
        };
        assert_eq!([since("True", "a", 1), since("True", "b", 2), since("False", "b", 3)], [Some(1), Some(1), Some(3)]);
    }

    #[test]
    fn counts_alone_are_no_news() {
        let condition = |reason: &str| StatefulSetCondition {
            type_: AVAILABLE.to_owned(),
            status: "True".to_owned(),
            reason: Some(reason.to_owned()),
            ..StatefulSetCondition::default()
        };
        let stored = StatefulSetStatus {
            observed_generation: Generation(2),
            current_revision: "a".to_owned(),
            update_revision: "b".to_owned(),
            replicas: 3,
            conditions: Some(vec![condition("x")]),
            ..StatefulSetStatus::default()
        };
        let same = || stored.clone();
        let old = [same(), StatefulSetStatus { replicas: 4, available_replicas: 1, ..same() }];
        assert!(!old.iter().any(|new| is_news(&stored, new)));
        let news = [
            StatefulSetStatus { observed_generation: Generation(3), ..same() },
            StatefulSetStatus { current_revision: "b".to_owned(), ..same() },
            StatefulSetStatus { update_revision: "c".to_owned(), ..same() },
            StatefulSetStatus { conditions: Some(vec![condition("y")]), ..same() },
            StatefulSetStatus { conditions: None, ..same() },
        ];
        assert!(news.iter().all(|new| is_news(&stored, new)));
    }
}
