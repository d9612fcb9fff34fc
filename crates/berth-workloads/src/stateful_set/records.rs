//! The records of rollouts on a set's ControllerRevisions, if the gate is on ([`crate::rollout_record`]).

use super::{StatefulSetState, kept_progress};
use crate::{
    hash::template_hash,
    rollback::{self, Record},
    rollout_record::{Ended, Rollout, ended},
    view::{RevisionView, StatefulSetView},
};
use berth_api::{Gate, annotations::RECORDS};
use berth_identity::RolloutRevision;
use std::collections::BTreeMap;

type Annotations = BTreeMap<String, String>;

/// The role of a revision among the others.
#[derive(Clone, Copy)]
pub(super) enum RevisionRole<'a> {
    /// It is rolled out again, under this number.
    Begins { number: RolloutRevision },
    /// It is the update revision. `failed` if the update has missed its deadline.
    Newest { failed: Option<&'a Ended> },
    /// Another revision, of this number, is the update revision.
    Older { newest: RolloutRevision },
}

/// The annotations of a new revision under this number: its set's, as upstream, without the set's own records; and the record that its
/// rollout begins.
pub(super) fn of_new(state: &StatefulSetState, number: RolloutRevision) -> Annotations {
    let mut annotations = state.set.annotations.clone();
    if state.gates.enabled(Gate::RolloutRecords) {
        annotations.retain(|key, _| !RECORDS.contains(&key.as_str()));
        Rollout::begun(number, None, &state.set.annotations, state.now).keep(&mut annotations);
    }
    kept_progress::begin(&mut annotations, state, number);
    annotations
}

/// Updates the record among a revision's annotations.
pub(super) fn note(notes: &mut Annotations, state: &StatefulSetState, revision: &RevisionView, place: RevisionRole<'_>) {
    if !state.gates.enabled(Gate::RolloutRecords) {
        return;
    }
    let (set, now) = (&state.set, state.now);
    let end = match place {
        RevisionRole::Begins { number } => {
            return Rollout::begun(number, Some(revision.number), &set.annotations, now).keep(notes);
        }
        _ if is_complete(set, revision) => Ended::complete(now),
        RevisionRole::Newest { failed: Some(failed) } => failed.clone(),
        RevisionRole::Newest { failed: None } => return,
        RevisionRole::Older { newest } => match gone_back_from(set, revision) {
            Some(record) => Ended::rolled_back(now, &record),
            None => Ended::superseded(now, newest, None),
        },
    };
    if let Some(rollout) = ended(notes, revision.number, &end) {
        rollout.keep(notes);
    }
}

/// Whether the stored status reports that all pods have this revision and are available. An update that stops at a partition is not
/// complete.
fn is_complete(set: &StatefulSetView, revision: &RevisionView) -> bool {
    let (status, wanted) = (&set.status, set.spec.replicas.unwrap_or(1));
    let counts = [status.replicas, status.ready_replicas, status.available_replicas, status.updated_replicas];
    *revision.meta.name == *status.update_revision && counts.iter().all(|count| *count == wanted)
}

/// The automatic rollback from this revision, if it is the latest rollback.
fn gone_back_from(set: &StatefulSetView, revision: &RevisionView) -> Option<Record> {
    let record = Record::of(&set.annotations).filter(|record| record.from_revision == revision.number)?;
    // Numbers restart from 1 after a user has deleted all revisions.
    let hash = template_hash(revision.template.as_deref()?, None);
    rollback::is_remembered(&set.annotations, &hash).then_some(record)
}
