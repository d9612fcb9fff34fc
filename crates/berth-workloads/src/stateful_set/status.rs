//! What a StatefulSet's status says.

use super::{
    complete_rolling_update,
    events::event,
    observe::{Observed, RECREATE_GATE, Strategy},
};
use crate::{
    deployment::status::Verdict,
    plan::{EventRecord, Severity},
};
use berth_api::apps::StatefulSetStatus;
use jiff::Timestamp;
use k8s_openapi::{api::apps::v1::StatefulSetCondition, apimachinery::pkg::apis::meta::v1::Time};

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const IN_PROGRESS: &str = "RecreateInProgress";
const COMPLETE: &str = "RecreateComplete";
const DELETING: &str = "Deleting all pods for Recreate update";
const WAITING: &str = "Waiting for the termination of all pods of older revisions";

/// What a Recreate update does in this look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recreation {
    /// The strategy is another one.
    None,
    /// Deletes the old pods.
    Deleting,
    /// Waits for the last of them.
    Waiting,
    /// Creates new ones.
    Creating,
    /// Every new pod is there.
    Complete,
}

impl Recreation {
    /// The event that tells of the phase, on its first look. That it is the first is in the stored condition.
    pub(super) fn event(self, observed: &Observed<'_>) -> Option<EventRecord> {
        let (set, stored) = (observed.set(), stored(observed));
        let (reason, message) = match self {
            Self::Deleting if is_begun(observed, stored) => return None,
            Self::Deleting => ("RecreateStarted", DELETING.to_owned()),
            Self::Waiting if is(stored, IN_PROGRESS, WAITING) => return None,
            Self::Waiting => ("RecreateWaitingForTermination", WAITING.to_owned()),
            Self::Complete if stored.is_some_and(|condition| has_reason(condition, IN_PROGRESS)) => {
                ("RecreateCompleted", format!("Recreated all pods with revision {}", observed.history.update))
            }
            Self::None | Self::Creating | Self::Complete => return None,
        };
        Some(event(set, Severity::Normal, reason, message))
    }

    fn verdict(self, observed: &Observed<'_>) -> Option<Verdict> {
        let stored = stored(observed);
        let verdict = |reason, message: &str| Verdict { status: "True", reason, message: message.to_owned() };
        match self {
            Self::Deleting if !is_begun(observed, stored) => Some(verdict(IN_PROGRESS, DELETING)),
            Self::Waiting => Some(verdict(IN_PROGRESS, WAITING)),
            Self::Complete => Some(verdict(COMPLETE, "All pods are there, and have the update revision.")),
            Self::None | Self::Deleting | Self::Creating => None,
        }
    }
}

/// Whether the stored status tells of a Recreate update to the same revision.
fn is_begun(observed: &Observed<'_>, stored: Option<&StatefulSetCondition>) -> bool {
    let in_progress = stored.is_some_and(|condition| has_reason(condition, IN_PROGRESS));
    in_progress && observed.set().status.update_revision == observed.history.update
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

/// The status after this look. `leaving` pods of the current revision are deleted in it.
pub(super) fn status(observed: &Observed<'_>, leaving: i32, recreation: Recreation) -> StatefulSetStatus {
    let (set, history) = (observed.set(), &observed.history);
    let mut status = StatefulSetStatus {
        observed_generation: set.meta.generation,
        current_revision: history.current.clone(),
        update_revision: history.update.clone(),
        collision_count: Some(history.collision_count),
        ..StatefulSetStatus::default()
    };
    observed.roster().write_counts(&mut status);
    status.current_replicas -= leaving;
    if set.meta.deleted.is_none() {
        complete_rolling_update(&mut status, observed.strategy.name(), number(observed.ordinals.replicas));
    }
    if observed.state.gates.enabled(RECREATE_GATE) {
        status.conditions = conditions(observed, &status, recreation);
    }
    status
}

/// Whether a status is worth a write. As upstream the number of collisions alone is not; conditions are written with their gate only.
pub(super) fn differs(observed: &Observed<'_>, status: &StatefulSetStatus) -> bool {
    let mut stored = observed.set().status.clone();
    stored.collision_count = status.collision_count;
    if !observed.state.gates.enabled(RECREATE_GATE) {
        stored.conditions = None;
    }
    stored != *status
}

fn conditions(observed: &Observed<'_>, status: &StatefulSetStatus, recreation: Recreation) -> Option<Vec<StatefulSetCondition>> {
    let mut conditions = observed.set().status.conditions.clone().unwrap_or_default();
    if observed.set().meta.deleted.is_none() {
        let progress = if observed.strategy == Strategy::Recreate { recreation.verdict(observed) } else { Some(progress(observed)) };
        progress.into_iter().for_each(|verdict| set(&mut conditions, PROGRESSING, verdict, observed.state.now));
    }
    set(&mut conditions, AVAILABLE, availability(observed, status), observed.state.now);
    Some(conditions)
}

/// Sets a condition; one that says the same already stays as it is, and one with the same status keeps its transition time.
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

/// How far a rolling update, or one by hand, is. It has no deadline, so it never fails.
fn progress(observed: &Observed<'_>) -> Verdict {
    let roster = observed.roster();
    let is_settled = roster.unavailable_slots() == 0 && roster.condemned().next().is_none();
    let from = if observed.strategy == Strategy::OnDelete { i64::MIN } else { observed.update_from() };
    let is_outdated = roster.highest_outdated(&observed.history.update, from..observed.end().max(from)).is_some();
    match (is_settled, is_outdated) {
        (true, false) => {
            let message = "All pods are available, and have the revision that they should have.".to_owned();
            Verdict { status: "True", reason: "NewRevisionAvailable", message }
        }
        (true, true) if observed.strategy == Strategy::OnDelete => {
            let message = "Pods of older revisions have to be deleted by hand.".to_owned();
            Verdict { status: "Unknown", reason: "WaitingForPodDeletion", message }
        }
        _ => {
            let message = "Pods are being created, replaced or deleted.".to_owned();
            Verdict { status: "True", reason: "RevisionUpdated", message }
        }
    }
}

fn availability(observed: &Observed<'_>, status: &StatefulSetStatus) -> Verdict {
    let wanted = observed.ordinals.replicas;
    let required = match observed.strategy {
        Strategy::RollingUpdate => (wanted - observed.max_unavailable()).max(wanted.min(1)),
        Strategy::OnDelete | Strategy::Recreate => wanted,
    };
    if i64::from(status.available_replicas) >= required {
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
