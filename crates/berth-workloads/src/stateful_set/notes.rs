//! The annotations of a ControllerRevision.

use super::{
    StatefulSetState,
    kept_progress::{self, Progress},
};
use crate::{
    rollback::{self, Record},
    view::{AutoRollback, RevisionView, StatefulSetView},
};
use berth_api::annotations::{BERTH_ROLLBACK, BERTH_ROLLED_BACK_TEMPLATES};
use berth_identity::RolloutRevision;
use std::{collections::BTreeMap, sync::Arc};

type Annotations = BTreeMap<String, String>;

/// The state of a revision's rollout, as far as its annotations depend on it.
#[derive(Clone, Copy)]
pub(super) enum Rollout<'p> {
    /// The revision is rolled out again, under this number.
    Begins { number: RolloutRevision },
    /// It is the update revision.
    Newest { progress: Option<&'p Progress> },
    /// Another revision is the update revision.
    Older,
}

/// The desired annotations of a revision. It stores the rolled-back templates, so that they survive when a user replaces the set. It stores
/// the last rollback, if that is about the revision. It records completion when the stored status, which is not overwritten before, or the
/// progress of a rollout that began without a deadline shows it. It stores the progress of its rollout, which restarts if the revision is
/// rolled out again.
pub(super) fn notes(state: &StatefulSetState, listed: &[Arc<RevisionView>], revision: &RevisionView, rollout: Rollout<'_>) -> Annotations {
    let raised = if let Rollout::Begins { number } = rollout { Some(number) } else { None };
    let set = &state.set;
    let mut notes = revision.annotations.clone();
    let remembered = rollback::remembered(all_annotations(set, listed));
    if !remembered.is_empty() {
        notes.insert(BERTH_ROLLED_BACK_TEMPLATES.to_owned(), remembered);
    }
    if let Some(record) = set.annotations.get(BERTH_ROLLBACK)
        && let Some(template) = &revision.template
        && Record::of(&set.annotations).is_some_and(|record| record.is_about(raised.unwrap_or(revision.number), template))
    {
        notes.insert(BERTH_ROLLBACK.to_owned(), record.clone());
    }
    let was_complete = matches!(rollout, Rollout::Newest { progress: Some(progress) } if progress.was_complete);
    if (was_complete || is_complete(set, revision)) && rollback::completed_revision(&revision.annotations) != Some(revision.number) {
        notes.extend(rollback::completion(revision.number, state.now).map(|(key, value)| (key.to_owned(), value)));
    }
    match rollout {
        Rollout::Begins { number } => kept_progress::begin(&mut notes, state, number),
        Rollout::Newest { progress } => kept_progress::keep(&mut notes, progress, set),
        Rollout::Older => (),
    }
    notes
}

/// The set's annotations come last, because they are authoritative.
pub(super) fn all_annotations<'a>(set: &'a StatefulSetView, listed: &'a [Arc<RevisionView>]) -> impl Iterator<Item = &'a Annotations> {
    listed.iter().map(|revision| &revision.annotations).chain([&set.annotations])
}

/// Whether the stored status reports that all pods have this revision and are available.
fn is_complete(set: &StatefulSetView, revision: &RevisionView) -> bool {
    let (status, wanted) = (&set.status, set.spec.replicas.unwrap_or(1));
    let names = [&status.current_revision, &status.update_revision];
    let counts = [status.replicas, status.ready_replicas, status.available_replicas, status.updated_replicas];
    let has_all = wanted > 0 && counts.iter().all(|count| *count == wanted);
    set.choices.auto_rollback == AutoRollback::OnDeadline && has_all && names.iter().all(|name| *revision.meta.name == **name)
}
