//! What a ControllerRevision keeps beside its template.

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

/// Where a revision stands, as far as its notes depend on it.
#[derive(Clone, Copy)]
pub(super) enum Rollout<'p> {
    /// It is rolled out again, under this number.
    Begins { number: RolloutRevision },
    /// The update leads to it.
    Newest { progress: Option<&'p Progress> },
    /// The update leads to another.
    Older,
}

/// What a revision is to keep beside its template: the templates that were rolled back from, so that they are not forgotten
/// with a set that somebody replaces; the last rollback, if it is about it; that it was complete, as long as the stored status says so, which is not
/// overwritten before, or, of a rollout that began without a deadline, as it is found so; and the progress of its rollout, which begins if it is rolled
/// out again.
pub(super) fn notes(state: &StatefulSetState, listed: &[Arc<RevisionView>], revision: &RevisionView, rollout: Rollout<'_>) -> Annotations {
    let raised = if let Rollout::Begins { number } = rollout { Some(number) } else { None };
    let set = &state.set;
    let mut notes = revision.annotations.clone();
    let remembered = rollback::remembered(all_annotations(set, listed));
    if !remembered.is_empty() {
        notes.insert(BERTH_ROLLED_BACK_TEMPLATES.to_owned(), remembered);
    }
    if let Some(told) = set.annotations.get(BERTH_ROLLBACK)
        && let Some(template) = &revision.template
        && Record::of(&set.annotations).is_some_and(|record| record.is_about(raised.unwrap_or(revision.number), template))
    {
        notes.insert(BERTH_ROLLBACK.to_owned(), told.clone());
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

/// The set's last: it knows best.
pub(super) fn all_annotations<'a>(set: &'a StatefulSetView, listed: &'a [Arc<RevisionView>]) -> impl Iterator<Item = &'a Annotations> {
    listed.iter().map(|revision| &revision.annotations).chain([&set.annotations])
}

/// Whether the stored status says that all pods have this revision and are available.
fn is_complete(set: &StatefulSetView, revision: &RevisionView) -> bool {
    let (status, wanted) = (&set.status, set.spec.replicas.unwrap_or(1));
    let names = [&status.current_revision, &status.update_revision];
    let counts = [status.replicas, status.ready_replicas, status.available_replicas, status.updated_replicas];
    let has_all = wanted > 0 && counts.iter().all(|count| *count == wanted);
    set.choices.auto_rollback == AutoRollback::OnDeadline && has_all && names.iter().all(|name| *revision.meta.name == **name)
}
