//! The progress of a rollout, as stored on its ControllerRevision.

use super::{StatefulSetState, ordinals, partition};
use crate::view::{AutoRollback, RevisionView, StatefulSetView};
use berth_api::annotations::BERTH_PROGRESS;
use berth_identity::{Ordinal, RolloutRevision};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The progress of a rollout, as stored in the annotation [`BERTH_PROGRESS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Progress {
    /// The number of the rollout.
    pub(super) revision: RolloutRevision,
    /// The first ordinal that the rollout changes.
    pub(super) from: Ordinal,
    /// The end of the ordinals that the rollout changes, exclusive.
    pub(super) end: Ordinal,
    /// The minimum of steps left so far ([`steps_left`]).
    pub(super) left: i64,
    /// When that minimum was first reached.
    pub(super) at: Timestamp,
    /// Since when all pods are available, without interruption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) available_since: Option<Timestamp>,
    /// Whether they were available for long enough. A later failure is not one of the rollout.
    #[serde(default)]
    pub(super) succeeded: bool,
    /// Whether it was complete before there was a deadline.
    #[serde(skip)]
    pub(super) was_complete: bool,
}

impl Progress {
    /// The progress stored on a revision.
    pub(super) fn of(revision: &RevisionView) -> Option<Self> {
        serde_json::from_str(revision.annotations.get(BERTH_PROGRESS)?).ok()
    }

    fn value(&self) -> String {
        serde_json::to_string(self).expect("it has string keys only")
    }

    /// The progress after a step, an interruption, or no change.
    pub(super) fn observed(self, left: i64, steady: SignedDuration, now: Timestamp) -> Self {
        let at = if left < self.left { now } else { self.at };
        let available_since = (left == 0).then(|| self.available_since.unwrap_or(now));
        let is_steady = available_since.is_some_and(|since| now.duration_since(since) >= steady);
        Self { left: left.min(self.left), at, available_since, succeeded: self.succeeded || is_steady, ..self }
    }
}

/// How long the set's rollouts may take from one step to the next. `None` if nothing is rolled back.
pub(super) fn patience(set: &StatefulSetView) -> Option<SignedDuration> {
    set.choices.progress_deadline.filter(|_| set.choices.auto_rollback == AutoRollback::OnDeadline)
}

pub(super) fn begun_at(revision: RolloutRevision, (from, end): (Ordinal, Ordinal), at: Timestamp) -> Progress {
    Progress { revision, from, end, left: i64::MAX, at, available_since: None, succeeded: false, was_complete: false }
}

/// Records that the rollout of this number begins.
pub(super) fn begin(annotations: &mut BTreeMap<String, String>, state: &StatefulSetState, revision: RolloutRevision) {
    if patience(&state.set).is_some() {
        let wanted = ordinals(&state.set);
        let end = wanted.end();
        let from = wanted.start.plus(partition(&state.set).unwrap_or(0).into()).min(end);
        annotations.insert(BERTH_PROGRESS.to_owned(), begun_at(revision, (from, end), state.now).value());
    }
}

/// Updates the progress on the newest revision. Without a deadline nothing is stored, so that the time meanwhile does not count as a lack
/// of progress.
pub(super) fn keep(annotations: &mut BTreeMap<String, String>, progress: Option<&Progress>, set: &StatefulSetView) {
    match progress {
        Some(progress) => drop(annotations.insert(BERTH_PROGRESS.to_owned(), progress.value())),
        None if patience(set).is_none() => drop(annotations.remove(BERTH_PROGRESS)),
        None => (),
    }
}
