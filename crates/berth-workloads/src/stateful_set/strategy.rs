//! How an update of a StatefulSet replaces pods: depends on its spec, its annotations and the gates.

use crate::view::{StatefulSetView, UpdateStrategy};
use berth_api::{FeatureGates, Gate, apps::stateful_set::RollingUpdateStatefulSet};

/// How pods of an older template are replaced with the present gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectiveStrategy {
    /// One after the other.
    RollingUpdate,
    /// When a user deletes them.
    OnDelete,
    /// All are deleted before the first new one is created (KEP-3541).
    Recreate,
}

/// The `rollingUpdate` block, if the type is RollingUpdate.
pub(super) fn block(set: &StatefulSetView) -> Option<&RollingUpdateStatefulSet> {
    set.spec.update_strategy.rolling_update.as_ref().filter(|_| set.choices.strategy == UpdateStrategy::RollingUpdate)
}

/// `partition` of the `rollingUpdate` block, if the type is RollingUpdate.
#[must_use]
pub fn partition(set: &StatefulSetView) -> Option<i32> {
    block(set).map(|block| block.partition.unwrap_or(0))
}

/// How pods of an older template are replaced with these feature gates. Without its gate, Recreate is a rolling update without a block
/// (KEP-3541, version skew). The annotation counts only where the server's own controller is passive.
#[must_use]
pub fn strategy(set: &StatefulSetView, gates: &FeatureGates) -> EffectiveStrategy {
    match (set.choices.strategy, gates.enabled(Gate::StatefulSetRecreateStrategy)) {
        (UpdateStrategy::Recreate | UpdateStrategy::RecreateByAnnotation, true) => EffectiveStrategy::Recreate,
        (UpdateStrategy::Recreate, false) | (UpdateStrategy::RollingUpdate, _) => EffectiveStrategy::RollingUpdate,
        (UpdateStrategy::OnDelete, _) | (UpdateStrategy::RecreateByAnnotation, false) => EffectiveStrategy::OnDelete,
    }
}
