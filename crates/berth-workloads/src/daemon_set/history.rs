//! The ControllerRevisions of a DaemonSet: which one has its template, and how many are kept.

use super::DaemonSetState;
use crate::{
    claim::controller_reference,
    hash::{replica_set_name, template_hash},
    plan::{Action, NewObject, Outcome, Reason, Urgency},
    resources::DAEMON_SET,
    stateful_set::{REVISION_LABEL, revision_data},
    view::{PodView, RevisionView},
};
use berth_identity::RolloutRevision;
use k8s_openapi::{
    api::apps::v1::ControllerRevision,
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, runtime::RawExtension},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// How many revisions are kept, unless the owner sets a limit.
const HISTORY_MAX: i32 = 10;

/// The revisions of a set, and the writes that must come before pods name them.
pub(super) struct History<'a> {
    /// The value of the label of new pods.
    pub(super) hash: String,
    /// As the status has it.
    pub(super) collision_count: Option<i32>,
    /// Other templates, oldest first.
    old: Vec<&'a RevisionView>,
    /// Further revisions with the set's template. Pods that name them are relabeled before they are deleted.
    duplicates: Vec<&'a RevisionView>,
    pub(super) writes: Vec<Action>,
}

impl<'a> History<'a> {
    pub(super) fn observe(state: &'a DaemonSetState) -> Self {
        let data = revision_data(&state.set.spec.template);
        let (mut current, old): (Vec<_>, Vec<_>) = listed(state).into_iter().partition(|revision| *revision.data == data);
        let number = old.last().map_or(RolloutRevision::FIRST, |newest| newest.number.next());
        let is_unlabeled = |revision: &&&RevisionView| revision.meta.labels.get(REVISION_LABEL).is_none();
        let mut writes: Vec<Action> = old.iter().chain(&current).filter(is_unlabeled).map(|revision| label(revision)).collect();
        let Some(kept) = current.pop() else {
            let Candidate { hash, name, collisions, is_there } = candidate(state, &data);
            writes.extend((!is_there).then(|| create(state, &hash, name, data, number)));
            return Self { hash, collision_count: collisions, old, duplicates: Vec::new(), writes };
        };
        writes.extend((kept.number < number).then(|| raise(kept, number)));
        Self { hash: hash_of(kept).to_owned(), collision_count: state.set.status.collision_count, old, duplicates: current, writes }
    }

    /// Relabels the pods that name duplicates.
    pub(super) fn relabeled(&self, state: &DaemonSetState) -> Vec<Action> {
        let names_duplicate = |pod: &&PodView| {
            let hash = pod.meta.labels.get(REVISION_LABEL);
            self.duplicates.iter().any(|duplicate| Some(hash_of(duplicate)) == hash)
        };
        let pods = state.pods.iter().map(|pod| &**pod).filter(names_duplicate).filter(|pod| pod.meta.deleted.is_none());
        let patch = json!({"metadata": {"labels": {REVISION_LABEL: self.hash}}});
        pods.map(|pod| Action::Patch {
            target: pod.reference(),
            subresource: None,
            patch: patch.clone(),
            urgency: Urgency::Now,
            reason: Reason::DuplicateRevision,
            events: Outcome::default(),
        })
        .collect()
    }

    /// Deletes the duplicates.
    pub(super) fn without_duplicates(&self) -> Vec<Action> {
        self.duplicates.iter().map(|duplicate| delete(duplicate, Reason::DuplicateRevision)).collect()
    }

    /// Deletes the oldest revisions that no pod names, as many as are above the limit.
    pub(super) fn clean_up(&self, state: &DaemonSetState) -> Vec<Action> {
        let limit = usize::try_from(state.set.spec.revision_history_limit.unwrap_or(HISTORY_MAX)).unwrap_or(usize::MAX);
        let live: BTreeSet<&str> = state.pods.iter().filter_map(|pod| pod.meta.labels.get(REVISION_LABEL)).collect();
        let idle = self.old.iter().filter(|revision| !live.contains(hash_of(revision)));
        let surplus = idle.take(self.old.len().saturating_sub(limit)).filter(|revision| revision.meta.deleted.is_none());
        surplus.map(|revision| delete(revision, Reason::BeyondHistoryLimit { revision: Some(revision.number) })).collect()
    }
}

/// Revisions that the set controls and selects, oldest first.
fn listed(state: &DaemonSetState) -> Vec<&RevisionView> {
    let selects = |revision: &RevisionView| state.set.selector.as_ref().is_some_and(|selector| selector.matches(&revision.meta.labels));
    let own = |revision: &&RevisionView| revision.meta.is_controlled_by(&state.set.meta.uid) && selects(revision);
    let mut listed: Vec<_> = state.revisions.iter().map(|revision| &**revision).filter(own).collect();
    listed.sort_by(|a, b| (a.number, a.meta.created, &a.meta.name).cmp(&(b.number, b.meta.created, &b.meta.name)));
    listed
}

/// The hash by which pods name a revision. One without the label gets its name as the hash.
fn hash_of(revision: &RevisionView) -> &str {
    revision.meta.labels.get(REVISION_LABEL).unwrap_or(&revision.meta.name)
}

/// The name of a new revision, as far as it is known which names are taken.
struct Candidate {
    hash: String,
    name: String,
    collisions: Option<i32>,
    /// Whether a revision with this name has the template.
    is_there: bool,
}

fn candidate(state: &DaemonSetState, data: &Value) -> Candidate {
    let set = &state.set;
    let mut collisions = set.status.collision_count;
    loop {
        let hash = template_hash(&set.spec.template, collisions);
        let name = replica_set_name(&set.meta.name, &hash);
        let found = state.found_revisions.get(&name);
        let is_there = found.is_some_and(|found| *found.data == *data);
        if found.is_none() || is_there {
            return Candidate { hash: hash.to_string(), name, collisions, is_there };
        }
        collisions = Some(collisions.unwrap_or(0).wrapping_add(1).max(0));
    }
}

/// The name of the ControllerRevision that the plan needs to know of next: that of a new one. If there is one with this name, it belongs into
/// [`DaemonSetState::found_revisions`], and the plan may need another. `None`: the plan needs no other.
#[must_use]
pub fn wanted_revision(state: &DaemonSetState) -> Option<String> {
    let data = revision_data(&state.set.spec.template);
    if state.set.meta.deleted.is_some() || listed(state).iter().any(|revision| *revision.data == data) {
        return None;
    }
    let Candidate { name, is_there, .. } = candidate(state, &data);
    (!is_there).then_some(name)
}

fn create(state: &DaemonSetState, hash: &str, name: String, data: Value, number: RolloutRevision) -> Action {
    let set = &state.set;
    let mut labels = set.spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.clone()).unwrap_or_default();
    labels.insert(REVISION_LABEL.to_owned(), hash.to_owned());
    let revision = ControllerRevision {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(set.meta.namespace.to_string()),
            labels: Some(labels),
            annotations: Some(set.annotations.clone()).filter(|annotations| !annotations.is_empty()),
            owner_references: Some(vec![controller_reference(&DAEMON_SET, &set.meta)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data)),
        revision: number.0,
    };
    Action::Create {
        object: NewObject::ControllerRevision(Box::new(revision)),
        reason: Reason::NewTemplate { revision: number },
        events: Outcome::default(),
    }
}

fn label(revision: &RevisionView) -> Action {
    let patch = json!({"metadata": {"labels": {REVISION_LABEL: revision.meta.name}}});
    write(revision, patch, Reason::LabelsDoNotName)
}

/// Gives an older revision the highest number, because the set has its template again.
fn raise(revision: &RevisionView, number: RolloutRevision) -> Action {
    write(revision, json!({"revision": number}), Reason::TemplateAgain)
}

fn write(revision: &RevisionView, patch: Value, reason: Reason) -> Action {
    Action::Patch { target: revision.reference(), subresource: None, patch, urgency: Urgency::Now, reason, events: Outcome::default() }
}

fn delete(revision: &RevisionView, reason: Reason) -> Action {
    Action::Delete { target: revision.reference(), propagation: None, grace_period_seconds: None, reason, events: Outcome::default() }
}
