//! Old ReplicaSets are kept for rollback, but not for ever.

use super::{annotations, observe::Observed};
use crate::{
    plan::{Action, Outcome, Reason},
    view::{PodReplacementPolicy, ReplicaSetView},
};
use std::cmp::Ordering;

/// The sets to delete: of the lowest revisions as many as are above the limit, as far as they are idle. One that is not uses up its place.
pub(super) fn clean_up(observed: &Observed<'_>) -> Vec<Action> {
    let old: Vec<_> = observed.old().map(|(_, set)| set).collect();
    let limit = observed.deployment().spec.revision_history_limit;
    // Deleting a set takes its terminating pods out of the sum, and room would jump.
    let idle = |set: &ReplicaSetView| observed.policy != PodReplacementPolicy::TerminationComplete || observed.terminating_of(set) == 0;
    surplus(old, limit).into_iter().filter(|set| idle(set)).map(delete).collect()
}

/// The idle ones among the sets that are above the limit, lowest revision first.
#[must_use]
pub fn surplus(mut old: Vec<&ReplicaSetView>, limit: Option<i32>) -> Vec<&ReplicaSetView> {
    let Some(limit) = limit.filter(|limit| *limit != i32::MAX) else { return Vec::new() };
    old.retain(|set| set.meta.deleted.is_none());
    old.sort_by(|a, b| by_revision(a, b));
    let count = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    old.truncate(count);
    old.retain(|set| set.replicas == 0 && set.status.replicas == 0 && set.status.observed_generation >= set.meta.generation);
    old
}

/// A set without a revision counts as 0, one whose revision is no number as well.
fn by_revision(a: &ReplicaSetView, b: &ReplicaSetView) -> Ordering {
    let revision = |set: &ReplicaSetView| annotations::revision(&set.annotations).unwrap_or_default();
    let age = |set: &ReplicaSetView| (set.meta.created, set.meta.name.clone());
    revision(a).cmp(&revision(b)).then_with(|| age(a).cmp(&age(b)))
}

/// The resource version keeps a set from going that has just been given pods again.
fn delete(set: &ReplicaSetView) -> Action {
    Action::Delete {
        target: set.reference(),
        propagation: None,
        grace_period_seconds: None,
        reason: Reason::BeyondHistoryLimit { revision: annotations::revision(&set.annotations) },
        events: Outcome::default(),
    }
}
