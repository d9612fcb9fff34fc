//! What is kept on a set's ControllerRevisions of their rollouts, where the gate is on ([`crate::rollout_record`]).

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

/// Where a revision stands among the others.
#[derive(Clone, Copy)]
pub(super) enum RevisionRole<'a> {
    /// It is rolled out again, under this number.
    Begins { number: RolloutRevision },
    /// It is the one that the update leads to; `failed` if that has missed its deadline.
    Newest { failed: Option<&'a Ended> },
    /// The update leads to another, of this number.
    Older { newest: RolloutRevision },
}

/// The annotations of a revision that is made under this number: its set's, as upstream, but for what the set says of itself; and that its rollout begins.
pub(super) fn of_new(state: &StatefulSetState, number: RolloutRevision) -> Annotations {
    let mut annotations = state.set.annotations.clone();
    if state.gates.enabled(Gate::RolloutRecords) {
        annotations.retain(|key, _| !RECORDS.contains(&key.as_str()));
        Rollout::begun(number, None, &state.set.annotations, state.now).keep(&mut annotations);
    }
    kept_progress::begin(&mut annotations, state, number);
    annotations
}

/// Brings the record among a revision's notes up to date.
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

/// Whether the stored status says that all pods have this revision and are available. A partition that keeps pods of another back is no end.
fn is_complete(set: &StatefulSetView, revision: &RevisionView) -> bool {
    let (status, wanted) = (&set.status, set.spec.replicas.unwrap_or(1));
    let counts = [status.replicas, status.ready_replicas, status.available_replicas, status.updated_replicas];
    *revision.meta.name == *status.update_revision && counts.iter().all(|count| *count == wanted)
}

/// The automatic rollback from this revision, if that is the last one there was.
fn gone_back_from(set: &StatefulSetView, revision: &RevisionView) -> Option<Record> {
    let record = Record::of(&set.annotations).filter(|record| record.from_revision == revision.number)?;
    // Numbers begin anew where somebody has deleted all revisions.
    let hash = template_hash(revision.template.as_deref()?, None);
    rollback::is_remembered(&set.annotations, &hash).then_some(record)
}
