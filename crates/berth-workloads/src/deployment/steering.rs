//! The target size of each ReplicaSet during a step of a progressive rollout, and the way there.
//!
//! The new set gets its share, and the old ones get the rest of `spec.replicas`. Sets that were complete once get that rest. Former
//! canaries, which never were, are scaled down first. So a canary never replaces a proven template, and neither a new size nor a set that a
//! user scales or deletes ends a step.

use super::{
    annotations,
    limits::Size,
    observe::Observed,
    rolling::{self, Pods},
    steps::CurrentStep,
    work::{Work, count},
};
use crate::{plan::Wait, rollback, view::ReplicaSetView};
use berth_identity::RolloutRevision;
use std::cmp::Reverse;

/// The target sizes.
pub(super) struct Steering<'o, 'a> {
    observed: &'o Observed<'a>,
    /// The target of the new set, even if it does not exist yet.
    new: i64,
    /// The targets of all sets, by index.
    targets: Vec<i64>,
    /// The indexes of all sets. Those that are scaled down first come first.
    order: Vec<usize>,
}

impl<'o, 'a> Steering<'o, 'a> {
    /// The targets of a step. If no old set can have the rest, the new one gets it, so that no step costs pods.
    pub(super) fn new(observed: &'o Observed<'a>, current_step: &CurrentStep<'_>) -> Self {
        Self::of_share(observed, current_step.share())
    }

    /// The same for a new size of the Deployment. A new set that does not exist yet has no share, because its rollout has not begun. While
    /// the Deployment is paused, a new set gets no more pods if it was already sized for this size, or has no pods beside an active set:
    /// only the rollout adds them.
    pub(super) fn of_new_size(observed: &'o Observed<'a>, current_step: &CurrentStep<'_>) -> Self {
        let share = match observed.new {
            None => 0,
            Some(new) if observed.deployment().spec.paused => {
                let set = observed.scale_of(new);
                let waits_for_rollout = set.desired == Some(observed.size.desired) || set.size == 0 && !observed.active().is_empty();
                if waits_for_rollout { current_step.share().min(set.size) } else { current_step.share() }
            }
            Some(_) => current_step.share(),
        };
        Self::of_share(observed, share)
    }

    fn of_share(observed: &'o Observed<'a>, share: i64) -> Self {
        let desired = observed.size.desired;
        let mut order: Vec<usize> = (0..observed.sets.len()).collect();
        // Of sets with the same rank, the one with more unavailable pods is scaled down first. The pods of the others may be the only
        // available ones.
        order.sort_by_cached_key(|&index| {
            let set = observed.sets[index];
            (set.meta.deleted.is_none(), completed(set), Reverse(rolling::gone_first(observed, index)))
        });
        let pool = pool(observed);
        let rest = desired - share;
        let old: i64 = observed.old().map(|(_, set)| i64::from(set.replicas)).sum();
        let new = if pool.is_empty() { share.max(desired - old) } else { share };
        let mut targets = vec![0; observed.sets.len()];
        let mut left = if pool.is_empty() { desired - new } else { rest };
        // The last one in the order keeps its pods longest.
        let keepers = order.iter().rev().filter(|index| Some(**index) != observed.new && (pool.is_empty() || pool.contains(index)));
        for &index in keepers {
            targets[index] = i64::from(observed.sets[index].replicas).min(left);
            left -= targets[index];
        }
        if let Some(best) = best(observed, &pool) {
            targets[best] += left;
        }
        if let Some(index) = observed.new {
            targets[index] = new;
        }
        Self { observed, new, targets, order }
    }

    /// Whether every set has its target size, and all pods of the new one are available.
    pub(super) fn is_reached(&self) -> bool {
        let sizes = self.observed.sets.iter().map(|set| i64::from(set.replicas));
        let has_all = self.observed.new_set().is_some_and(|new| {
            let counts = [new.replicas, new.status.replicas, new.status.available_replicas];
            new.status.observed_generation >= new.meta.generation && counts.iter().all(|count| i64::from(*count) >= self.new)
        });
        has_all && sizes.eq(self.targets.iter().copied())
    }

    /// How far sets may grow: by `at_most` pods in total, if there is room, old ones first.
    pub(super) fn grown(&self, at_most: i64) -> Grown {
        let observed = self.observed;
        let growing = self.growing();
        let only = if let [(one, _)] = growing[..] { one } else { None };
        let room = observed.used(only).map_or(0, |used| (observed.size.max() - used).max(0));
        let wanted = growing.iter().map(|(_, missing)| missing).sum::<i64>().min(at_most).max(0);
        let mut left = room.min(wanted);
        let take = |(index, missing): (Option<usize>, i64)| {
            let granted = missing.min(left);
            left -= granted;
            (index, index.map_or(0, |index| i64::from(observed.sets[index].replicas)) + granted)
        };
        Grown { sizes: growing.into_iter().map(take).collect(), only, lacking: (wanted - room).max(0) }
    }

    /// The pods that sets lack, old ones first. The new one, which may not exist yet, comes last.
    fn growing(&self) -> Vec<(Option<usize>, i64)> {
        let sets = &self.observed.sets;
        let lacks = |&index: &usize| (Some(index), self.targets[index] - i64::from(sets[index].replicas));
        let old = self.order.iter().rev().filter(|index| Some(**index) != self.observed.new).map(lacks);
        let new = self.observed.new.as_ref().map_or((None, self.new), lacks);
        old.chain([new]).filter(|(_, missing)| *missing > 0).collect()
    }

    /// Scales surplus sets down while enough pods remain available.
    pub(super) fn shrink(&self, work: &mut Work<'_, '_>) {
        let observed = self.observed;
        let pods: Vec<Pods> = (0..observed.sets.len()).map(|index| rolling::pods(observed, index)).collect();
        let excess = |index: usize| (pods[index].size - self.targets[index]).max(0);
        if self.order.iter().all(|&index| excess(index) == 0) {
            return self.wait_for_new(work);
        }
        if let Some(set) = observed.active().into_iter().map(|index| observed.sets[index]).find(|set| rolling::is_blurred(set)) {
            return work.wait(Wait::ChildNotObserved { name: set.meta.name.to_string() });
        }
        let in_order: Vec<Surplus> = self
            .order
            .iter()
            .map(|&index| Surplus { pods: pods[index], excess: excess(index), gone_first: rolling::gone_first(observed, index) })
            .collect();
        let starting = observed.new.filter(|&new| excess(new) == 0).map_or(0, |new| pods[new].size - pods[new].available);
        for (&index, to) in self.order.iter().zip(shrunk(&in_order, starting, observed.size)) {
            work.resize(index, to);
        }
        if !work.is_resized() {
            let sum = |count: fn(&Pods) -> i64| pods.iter().map(count).sum::<i64>();
            let unavailable = sum(|pods| pods.size - pods.available);
            if unavailable > 0 {
                work.wait(Wait::PodsUnavailable { pods: count(unavailable), of: count(sum(|pods| pods.size)) });
            }
        }
    }

    /// A step waits for its pods before it waits for anything else.
    fn wait_for_new(&self, work: &mut Work<'_, '_>) {
        let Some(new) = self.observed.new.map(|new| rolling::pods(self.observed, new)) else { return };
        if new.available < new.size && !work.is_resized() {
            work.wait(Wait::PodsUnavailable { pods: count(new.size - new.available), of: count(new.size) });
        }
    }

    /// Applies a new size of the Deployment: the new set never keeps more than its share. Returns how many pods are missing for lack of
    /// room.
    pub(super) fn scale(&self, work: &mut Work<'_, '_>) -> i64 {
        let observed = self.observed;
        let active = observed.active();
        let total: i64 = observed.sets.iter().map(|set| i64::from(set.replicas)).sum();
        // Pods beyond the former size, on the way to this step, may remain.
        let former = active.iter().filter_map(|&index| observed.scale_of(index).desired).max().unwrap_or(total);
        let surge = if observed.size.desired == 0 { 0 } else { (total - former).clamp(0, observed.size.surge) };
        let wanted = observed.size.desired + surge;
        let cut = self.cut(work, total - wanted);
        let grown = self.grown(wanted - (total - cut));
        let lacking = grown.lacking;
        work.wait_for_room(grown.only, lacking);
        grown.sizes.into_iter().for_each(|(index, to)| index.into_iter().for_each(|index| work.drafts[index].size = to));
        if lacking == 0 {
            for index in 0..observed.sets.len() {
                let size = work.drafts[index].size;
                if size == 0 && !active.contains(&index) {
                    continue;
                }
                work.drafts[index].apply(observed.scale_of(index).finished(size, observed.size), observed.before_scale);
            }
        }
        lacking
    }

    /// Removes `over` pods at once, and all pods of the new set beyond its share. Returns their number.
    fn cut(&self, work: &mut Work<'_, '_>, over: i64) -> i64 {
        let mut taken = 0;
        let (new, old): (Vec<usize>, Vec<usize>) = self.order.iter().copied().partition(|index| Some(*index) == self.observed.new);
        for index in new.into_iter().chain(old) {
            let excess = (work.drafts[index].size - self.targets[index]).max(0);
            let cut = if Some(index) == self.observed.new { excess } else { excess.min((over - taken).max(0)) };
            work.drafts[index].size -= cut;
            taken += cut;
        }
        taken
    }
}

/// How far sets may grow.
pub(super) struct Grown {
    /// The sizes of the sets that lack pods. `None` is the new set if it does not exist yet.
    pub(super) sizes: Vec<(Option<usize>, i64)>,
    /// The only one of them, if there is only one and it exists.
    pub(super) only: Option<usize>,
    /// How many pods are missing for lack of room.
    pub(super) lacking: i64,
}

/// A set that may have surplus pods.
#[derive(Clone, Copy)]
struct Surplus {
    pods: Pods,
    excess: i64,
    /// How many unavailable pods its controller deletes before any available one.
    gone_first: i64,
}

/// The sizes after a reconcile. `sets` is in the order of scaling down. Unavailable pods are deleted first, while the `starting` pods of
/// the new set, which are not available yet, leave enough in total. Available pods follow while enough remain.
fn shrunk(sets: &[Surplus], starting: i64, size: Size) -> Vec<i64> {
    let total: i64 = sets.iter().map(|set| set.pods.size).sum();
    let mut removable = total - size.min_available - starting;
    let mut left = sets.iter().map(|set| set.pods.available).sum::<i64>() - size.min_available;
    if removable <= 0 {
        return sets.iter().map(|set| set.pods.size).collect();
    }
    let unhealthy: Vec<i64> = sets
        .iter()
        .map(|set| {
            let gone = rolling::unhealthy_to_remove(set.pods, removable.min(set.gone_first).min(set.excess));
            removable -= gone;
            gone
        })
        .collect();
    let take = |(set, gone): (&Surplus, i64)| {
        let more = (set.excess - gone).clamp(0, left.max(0));
        left -= more;
        set.pods.size - gone - more
    };
    sets.iter().zip(unhealthy).map(take).collect()
}

/// The old sets that get the rest: those that were complete once, otherwise those with pods, or without pods only because the Deployment's
/// size is 0.
fn pool(observed: &Observed<'_>) -> Vec<usize> {
    let there = || observed.old().filter(|(_, set)| set.meta.deleted.is_none());
    let proven: Vec<usize> = there().filter(|(_, set)| completed(set).is_some()).map(|(index, _)| index).collect();
    if !proven.is_empty() {
        return proven;
    }
    let has_pods = |index: usize| observed.sets[index].replicas > 0 || observed.scale_of(index).desired == Some(0);
    there().map(|(index, _)| index).filter(|&index| has_pods(index)).collect()
}

/// The set of the pool that grows: the last complete one, otherwise the newest.
fn best(observed: &Observed<'_>, pool: &[usize]) -> Option<usize> {
    let rank = |&index: &usize| {
        let set = observed.sets[index];
        (completed(set), set.replicas > 0, annotations::revision(&set.annotations))
    };
    pool.iter().copied().max_by_key(rank)
}

fn completed(set: &ReplicaSetView) -> Option<RolloutRevision> {
    rollback::completed_revision(&set.annotations)
}
