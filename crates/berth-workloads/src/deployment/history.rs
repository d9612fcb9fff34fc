//! Old ReplicaSets are kept for rollbacks, up to a limit.

use super::{annotations, observe::Observed};
use crate::{
    plan::{Action, Outcome, Reason},
    view::{PodReplacementPolicy, ReplicaSetView},
};
use std::cmp::Ordering;

/// The sets to delete: those with the lowest revisions above the limit, if they are idle. A set that is not idle still counts toward the
/// limit.
pub(super) fn clean_up(observed: &Observed<'_>) -> Vec<Action> {
    let old: Vec<_> = observed.old().map(|(_, set)| set).collect();
    let limit = observed.deployment().spec.revision_history_limit;
    // Deleting a set removes its terminating pods from the sum, and the Deployment could create too many pods at once.
    let idle = |set: &ReplicaSetView| observed.policy != PodReplacementPolicy::TerminationComplete || observed.terminating_of(set) == 0;
    surplus(old, limit).into_iter().filter(|set| idle(set)).map(delete).collect()
}

/// The idle sets among those above the limit, lowest revision first.
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

/// A set without a numeric revision counts as revision 0.
fn by_revision(a: &ReplicaSetView, b: &ReplicaSetView) -> Ordering {
    let revision = |set: &ReplicaSetView| annotations::revision(&set.annotations).unwrap_or_default();
    let age = |set: &ReplicaSetView| (set.meta.created, set.meta.name.clone());
    revision(a).cmp(&revision(b)).then_with(|| age(a).cmp(&age(b)))
}

/// The resource version protects a set that has just been scaled up again.
fn delete(set: &ReplicaSetView) -> Action {
    Action::Delete {
        target: set.reference(),
        propagation: None,
        grace_period_seconds: None,
        reason: Reason::BeyondHistoryLimit { revision: annotations::revision(&set.annotations) },
        events: Outcome::default(),
    }
}
