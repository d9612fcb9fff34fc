//! The numbers of a rolling update: how far the new ReplicaSet may grow and how far the old ones may shrink.

use super::{
    limits::Size,
    observe::Observed,
    work::{StatusStep, Work, count},
};
use crate::{
    plan::{Plan, Wait},
    view::ReplicaSetView,
};
use berth_api::Gate;

/// The new set's size after one reconcile: down to the desired number at once, up within the available room.
#[must_use]
pub fn new_size(size: Size, used: i64, current: i64) -> i64 {
    grown(size, used, current).min(size.desired)
}

/// How far the new set may grow. `used` is the number of pods that count against the limit.
#[must_use]
pub fn grown(size: Size, used: i64, current: i64) -> i64 {
    current + (size.max() - used).clamp(0, (size.desired - current).max(0))
}

/// Size of one set, and how many of its pods are available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pods {
    /// `spec.replicas`.
    pub size: i64,
    /// `status.availableReplicas`.
    pub available: i64,
}

impl Pods {
    /// The pods that the plan can rely on. If the status reports more pods than the size, the set's controller is about to delete them, so
    /// they must not justify other deletions. Upstream counts them, so it can fall below the minimum briefly.
    #[must_use]
    pub fn lasting(size: i64, reported_available: i64) -> Self {
        Self { size, available: reported_available.min(size) }
    }
}

/// The old sets' sizes after one reconcile. `old` contains the active sets, oldest first.
///
/// Unavailable pods are deleted first, if available pods of the new set replace them. Available pods follow while enough pods in total
/// remain available.
#[must_use]
pub fn shrink_old(old: &[Pods], new: Pods, size: Size) -> Vec<i64> {
    let gone_first: Vec<i64> = old.iter().map(|set| set.size - set.available).collect();
    shrink_old_surely(old, &gone_first, new, size)
}

/// As [`shrink_old`]. `gone_first` contains, for each old set, how many unavailable pods its controller deletes before any available one.
fn shrink_old_surely(old: &[Pods], gone_first: &[i64], new: Pods, size: Size) -> Vec<i64> {
    let mut sizes: Vec<i64> = old.iter().map(|set| set.size).collect();
    let total = sizes.iter().sum::<i64>() + new.size;
    let removable = total - size.min_available - (new.size - new.available);
    if removable <= 0 {
        return sizes;
    }
    let available = old.iter().map(|set| set.available).sum::<i64>() + new.available;
    clean_up_unhealthy(&mut sizes, old, gone_first, removable);
    scale_down(&mut sizes, available - size.min_available);
    sizes
}

/// Removes up to `removable` unavailable pods from `sizes`, which equal the sizes in `old`.
fn clean_up_unhealthy(sizes: &mut [i64], old: &[Pods], gone_first: &[i64], mut removable: i64) {
    for ((size, set), sure) in sizes.iter_mut().zip(old).zip(gone_first) {
        let removed = unhealthy_to_remove(*set, removable.min(*sure));
        *size -= removed;
        removable -= removed;
    }
}

/// How many unavailable pods of one set can be deleted.
#[must_use]
pub fn unhealthy_to_remove(set: Pods, removable: i64) -> i64 {
    (set.size - set.available).clamp(0, removable.max(0))
}

/// Removes up to `removable` pods, oldest sets first.
pub fn scale_down(sizes: &mut [i64], mut removable: i64) {
    for size in sizes {
        let removed = (*size).clamp(0, removable.max(0));
        *size -= removed;
        removable -= removed;
    }
}

/// One reconcile of a rolling update: the new set grows, otherwise old sets shrink, otherwise the rollout is done.
pub(super) fn plan(mut work: Work<'_, '_>, observed: &Observed<'_>) -> Plan {
    let wanted = observed.sets.iter().map(|set| i64::from(set.replicas)).sum();
    // Without a known number, there is no room.
    let used = observed.used(observed.new).unwrap_or(i64::MAX);
    let current = observed.new_set().map_or(0, |set| i64::from(set.replicas));
    let to = new_size(observed.size, used, current);
    work.wait_for_room(observed.new, new_size(observed.size, wanted, current) - to);
    let Some(new) = observed.new else { return work.create(to) };
    work.resize(new, to);
    if !work.is_resized() {
        shrink(&mut work, observed, new);
    }
    if !work.is_resized() {
        work.clean_up_if_complete();
        work.wait_for_new();
    }
    work.finish(StatusStep::Rollout)
}

/// The pods of a set that the plan can rely on.
pub(super) fn pods(observed: &Observed<'_>, index: usize) -> Pods {
    let set = observed.sets[index];
    Pods::lasting(set.replicas.into(), set.status.available_replicas.into())
}

/// How many unavailable pods of a set its controller deletes before any available one. A deletion cost precedes availability (KEP-2255), so
/// an available pod may be deleted before a ready pod that is not available yet. With costs, only unready pods are sure to be deleted
/// first. The pod cache counts those, because the set's status can be outdated. Upstream relies on all of them, so it can fall below the
/// minimum.
pub(super) fn gone_first(observed: &Observed<'_>, index: usize) -> i64 {
    let set = observed.sets[index];
    let pods = observed.state.counts(&set.meta.uid);
    let costs_count = observed.state.gates.enabled(Gate::PodDeletionCost) && 0 < pods.with_cost;
    let stay = if costs_count { set.status.ready_replicas.max(pods.ready.cast_signed()) } else { set.status.available_replicas };
    i64::from(set.replicas) - i64::from(stay)
}

/// Whether a set has changed since its controller's last status. Pods of that status may be deleted if the set was scaled down, or down and
/// up again. Upstream relies on the status all the same.
pub(super) fn is_blurred(set: &ReplicaSetView) -> bool {
    set.status.available_replicas > 0 && set.status.observed_generation < set.meta.generation
}

fn shrink(work: &mut Work<'_, '_>, observed: &Observed<'_>, new: usize) {
    let pods = |index: usize| pods(observed, index);
    let active: Vec<_> = observed.active().into_iter().filter(|&index| index != new).collect();
    let counted_on = active.iter().chain([&new]).map(|&index| observed.sets[index]);
    if let Some(set) = counted_on.filter(|_| !active.is_empty()).find(|set| is_blurred(set)) {
        return work.wait(Wait::ChildNotObserved { name: set.meta.name.to_string() });
    }
    let old: Vec<_> = active.iter().map(|&index| pods(index)).collect();
    let gone_first: Vec<_> = active.iter().map(|&index| gone_first(observed, index)).collect();
    for (&index, size) in active.iter().zip(shrink_old_surely(&old, &gone_first, pods(new), observed.size)) {
        work.resize(index, size);
    }
    let unavailable = pods(new).size - pods(new).available;
    if !active.is_empty() && !work.is_resized() && unavailable > 0 {
        work.wait(Wait::PodsUnavailable { pods: count(unavailable), of: count(pods(new).size) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_that_a_set_is_about_to_delete_let_no_others_go() {
        let size = Size { desired: 20, surge: 5, unavailable: 5, min_available: 15 };
        let shrunk = |available| shrink_old(&[Pods::lasting(11, available)], Pods::lasting(5, 5), size);
        assert_eq!(shrunk(11), [10]);
        assert_eq!(shrunk(12), [10], "the status still tells of a pod that goes");
    }

    #[test]
    fn of_those_that_are_not_available_only_those_that_surely_go_first_are_counted_on() {
        let size = Size { desired: 3, surge: 1, unavailable: 2, min_available: 1 };
        let (old, none) = ([Pods::lasting(3, 1)], Pods::lasting(0, 0));
        assert_eq!(shrink_old(&old, none, size), [1]);
        // One pod is unready, and one is ready but not available yet. The second may stay while the available one is deleted.
        assert_eq!(shrink_old_surely(&old, &[1], none, size), [2]);
        assert_eq!(shrink_old_surely(&old, &[-2], none, size), [3], "the status tells of pods beyond the size");
    }

    #[test]
    fn no_set_grows_beyond_what_is_desired_nor_shrinks_by_growing() {
        let size = Size { desired: 3, surge: 2, unavailable: 0, min_available: 3 };
        assert_eq!([grown(size, 0, 3), grown(size, 0, 1), grown(size, 4, 1), grown(size, 9, 1), grown(size, 0, 4)], [3, 3, 2, 1, 4]);
        assert_eq!(new_size(size, 0, 4), 3);
    }
}
