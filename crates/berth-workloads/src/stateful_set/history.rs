//! ControllerRevisions: the update revision, the current revision, and the history limit.

use super::{
    RevisionName, StatefulSetState, controller_revision_name,
    events::revision_outcome,
    kept_progress::Progress,
    notes::{Rollout, notes},
    records, revision_data,
};
use crate::{
    claim::controller_reference,
    plan::{Action, NewObject, Outcome, Reason, Urgency, merge_patch},
    resources::STATEFUL_SET,
    rollout_record::Ended,
    view::RevisionView,
};
use berth_api::{Gate, annotations::CONTROLLER_REVISION_DATA_HASH, pod::set_template_defaults};
use berth_identity::RolloutRevision;
use k8s_openapi::{
    api::{apps::v1::ControllerRevision, core::v1::PodTemplateSpec},
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, runtime::RawExtension},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// The revisions of a set, and the writes before pods may refer to them.
pub(super) struct History {
    /// Oldest first.
    listed: Vec<Arc<RevisionView>>,
    /// The name of the update revision.
    pub(super) update: String,
    /// The number of the update revision, which is unique among rollouts. It is raised when an older template returns.
    pub(super) number: RolloutRevision,
    /// The name of the current revision, from which the update started.
    pub(super) current: String,
    /// The template of `current`; `None` if it is the set's own.
    pub(super) current_template: Option<Arc<PodTemplateSpec>>,
    pub(super) collision_count: i32,
    write: Option<Write>,
}

enum Write {
    Create(Box<ControllerRevision>),
    /// Raises the number of an older revision above all others.
    Raise(Arc<RevisionView>, RolloutRevision),
}

/// Whether a revision equals this data after defaulting: an older server may have stored fewer fields.
fn means_the_same(revision: &RevisionView, data: &Value) -> bool {
    let Some(mut template) = revision.template.as_deref().cloned() else { return false };
    set_template_defaults(&mut template);
    revision_data(&template) == *data
}

impl History {
    pub(super) fn observe(state: &StatefulSetState) -> Self {
        let set = &state.set;
        let listed = listed(state);
        let stored_count = set.status.collision_count.unwrap_or(0);
        let found = find(state, &listed);
        let number = match &found {
            Some(Found::Newest(revision)) => revision.number,
            Some(Found::Older(_)) | None => next_number(&listed),
        };
        let (update, write, collision_count) = match found {
            Some(Found::Newest(revision)) => (revision.meta.name.to_string(), None, stored_count),
            Some(Found::Older(revision)) => (revision.meta.name.to_string(), Some(Write::Raise(revision, number)), stored_count),
            None => create(state, number),
        };
        let current = listed.iter().find(|revision| revision.meta.name == set.status.current_revision && revision.meta.name != update);
        let current = current.and_then(|revision| Some((revision.meta.name.to_string(), revision.template.clone()?)));
        let (current, current_template) = current.map_or_else(|| (update.clone(), None), |(name, template)| (name, Some(template)));
        Self { listed, update, number, current, current_template, collision_count, write }
    }

    /// The writes before all others. `failed` is how the update has missed its deadline, and `progress` is the update's progress, if it has
    /// a deadline. Nothing is written for a terminating set.
    pub(super) fn writes(&self, state: &StatefulSetState, failed: Option<&Ended>, progress: Option<&Progress>) -> Vec<Action> {
        let set = &state.set;
        if set.meta.deleted.is_some() {
            return Vec::new();
        }
        let raised = match &self.write {
            Some(Write::Raise(revision, number)) => Some((&revision.meta.uid, *number)),
            _ => None,
        };
        let mut writes: Vec<Action> = match &self.write {
            Some(Write::Create(revision)) => vec![Action::Create {
                object: NewObject::ControllerRevision(revision.clone()),
                reason: Reason::NewTemplate { revision: RolloutRevision(revision.revision) },
                events: revision_outcome(set, revision.metadata.name.as_deref().unwrap_or_default()),
            }],
            _ => Vec::new(),
        };
        for revision in &self.listed {
            let number = raised.filter(|(uid, _)| **uid == revision.meta.uid).map(|(_, number)| number);
            let (rollout, place) = match number {
                Some(number) => (Rollout::Begins { number }, records::RevisionRole::Begins { number }),
                None if *revision.meta.name == *self.update => (Rollout::Newest { progress }, records::RevisionRole::Newest { failed }),
                None => (Rollout::Older, records::RevisionRole::Older { newest: self.number }),
            };
            let mut notes = notes(state, &self.listed, revision, rollout);
            records::note(&mut notes, state, revision, place);
            writes.extend(note(revision, number, merge_patch(&revision.annotations, &notes)));
        }
        writes
    }

    /// The revisions that the set controls and selects, oldest first.
    pub(super) fn listed(&self) -> &[Arc<RevisionView>] {
        &self.listed
    }

    /// The update revision. `None` if it has to be written first.
    pub(super) fn update_revision(&self) -> Option<&RevisionView> {
        let revision = self.listed.iter().find(|revision| revision.meta.name == self.update);
        revision.filter(|_| self.write.is_none()).map(|revision| &**revision)
    }

    /// Deletes the oldest unused revisions above the limit. A negative limit keeps all.
    pub(super) fn clean_up(&self, state: &StatefulSetState) -> Vec<Action> {
        let limit = usize::try_from(state.set.spec.revision_history_limit.unwrap_or(10)).unwrap_or(usize::MAX);
        let is_live = |name: &str| name == self.update || name == self.current || state.pods.names_revision(name);
        let idle = |revision: &&Arc<RevisionView>| !is_live(&revision.meta.name) && revision.meta.deleted.is_none();
        let idle: Vec<_> = self.listed.iter().filter(idle).collect();
        let surplus = idle.len().saturating_sub(limit);
        idle[..surplus].iter().map(|revision| delete(revision)).collect()
    }
}

/// The write that changes a revision's number or annotations. `None` if there is nothing to write.
fn note(revision: &RevisionView, number: Option<RolloutRevision>, notes: Option<Value>) -> Option<Action> {
    let (mut patch, reason) = match number {
        Some(number) => (json!({"revision": number}), Reason::TemplateAgain),
        None => (json!({}), Reason::OutcomeNoted),
    };
    match (number, notes) {
        (None, None) => return None,
        (_, Some(notes)) => patch["metadata"] = json!({"annotations": notes}),
        (Some(_), None) => (),
    }
    Some(Action::Patch {
        target: revision.reference(),
        subresource: None,
        patch,
        urgency: Urgency::Now,
        reason,
        events: Outcome::default(),
    })
}

/// Revisions that the set controls and selects, oldest first.
fn listed(state: &StatefulSetState) -> Vec<Arc<RevisionView>> {
    let selects = |revision: &RevisionView| state.set.selector.as_ref().is_some_and(|selector| selector.matches(&revision.meta.labels));
    let own = |revision: &&Arc<RevisionView>| revision.meta.is_controlled_by(&state.set.meta.uid) && selects(revision);
    let mut listed: Vec<_> = state.revisions.iter().filter(own).cloned().collect();
    listed.sort_by(|a, b| (a.number, a.meta.created, &a.meta.name).cmp(&(b.number, b.meta.created, &b.meta.name)));
    listed
}

fn next_number(listed: &[Arc<RevisionView>]) -> RolloutRevision {
    listed.last().map_or(RolloutRevision::FIRST, |newest| newest.number.next())
}

enum Found {
    /// It is the newest revision.
    Newest(Arc<RevisionView>),
    /// It has the template, but other revisions are newer.
    Older(Arc<RevisionView>),
}

fn find(state: &StatefulSetState, listed: &[Arc<RevisionView>]) -> Option<Found> {
    let data = &*state.data;
    let newest = listed.last()?;
    if let Some(equal) = listed.iter().rfind(|revision| *revision.data == *data) {
        let is_newest = equal.meta.uid == newest.meta.uid;
        return Some(if is_newest { Found::Newest(Arc::clone(equal)) } else { Found::Older(Arc::clone(equal)) });
    }
    let same = state.gates.enabled(Gate::StatefulSetSemanticRevisionComparison) && means_the_same(newest, data);
    same.then(|| Found::Newest(Arc::clone(newest)))
}

/// A new revision under the first free name. An existing revision of this name with the same data is used.
fn create(state: &StatefulSetState, number: RolloutRevision) -> (String, Option<Write>, i32) {
    let Candidate { hash, name, collisions, is_there } = candidate(state);
    let revision = || new_revision(state, RevisionName { hash, name: name.clone() }, number);
    let write = if is_there { None } else { Some(Write::Create(Box::new(revision()))) };
    (name, write, collisions)
}

/// The name of a new revision, based on the known revisions of other owners.
struct Candidate {
    /// The label keeps the first hash; only the name follows the collisions.
    hash: String,
    name: String,
    collisions: i32,
    /// Whether a revision with this name and the same data exists.
    is_there: bool,
}

fn candidate(state: &StatefulSetState) -> Candidate {
    let set = &state.set;
    let bytes = state.data.to_string().into_bytes();
    let mut collisions = set.status.collision_count.unwrap_or(0);
    let RevisionName { hash, mut name } = controller_revision_name(&set.meta.name, &bytes, Some(collisions));
    while let Some(taken) = state.found.revisions.get(&name) {
        if taken.data == state.data {
            return Candidate { hash, name, collisions, is_there: true };
        }
        collisions = collisions.wrapping_add(1).max(0);
        name = controller_revision_name(&set.meta.name, &bytes, Some(collisions)).name;
    }
    Candidate { hash, name, collisions, is_there: false }
}

/// The name of the ControllerRevision that the plan needs next: that of the new revision, if one is to be created. If one of this name
/// exists, it belongs in [`super::Found::revisions`], and the plan may need another. `None` if the plan needs no other.
#[must_use]
pub fn wanted_revision(state: &StatefulSetState) -> Option<String> {
    if find(state, &listed(state)).is_some() {
        return None;
    }
    let candidate = candidate(state);
    (!candidate.is_there).then_some(candidate.name)
}

fn new_revision(state: &StatefulSetState, name: RevisionName, number: RolloutRevision) -> ControllerRevision {
    let set = &state.set;
    let mut labels = set.spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.clone()).unwrap_or_default();
    labels.insert(CONTROLLER_REVISION_DATA_HASH.to_owned(), name.hash);
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(name.name),
            namespace: Some(set.meta.namespace.to_string()),
            labels: Some(labels),
            annotations: Some(records::of_new(state, number)).filter(|annotations| !annotations.is_empty()),
            owner_references: Some(vec![controller_reference(&STATEFUL_SET, &set.meta)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(Value::clone(&state.data))),
        revision: number.0,
    }
}

fn delete(revision: &RevisionView) -> Action {
    Action::Delete {
        target: revision.reference(),
        propagation: None,
        grace_period_seconds: None,
        reason: Reason::BeyondHistoryLimit { revision: Some(revision.number) },
        events: Outcome::default(),
    }
}
