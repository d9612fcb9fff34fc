//! The counts of a ReplicaSet's pods, updated with each pod.

use super::Pods;
use berth_identity::ObjectKey;
use berth_workloads::{
    counts::{PodCounts, counts_alike},
    view::{PodView, ReplicaSetView},
};
use jiff::Timestamp;
use std::{collections::BTreeSet, sync::Arc};

/// Running counts for one ReplicaSet. They are valid while pods count alike for it.
pub(super) struct Counted {
    pub(super) set: Arc<ReplicaSetView>,
    /// Availability is as of this time.
    now: Timestamp,
    pub(super) counts: PodCounts,
    /// Ready pods that are not available yet, by when they will be.
    pub(super) pending: BTreeSet<(Timestamp, ObjectKey)>,
}

#[derive(Clone, Copy)]
pub(super) enum Sign {
    Plus,
    Minus,
}

impl Counted {
    pub(super) fn count(set: &Arc<ReplicaSetView>, pods: &Pods, now: Timestamp) -> Self {
        let mut counted = Self { set: Arc::clone(set), now, counts: PodCounts::default(), pending: BTreeSet::new() };
        pods.iter().for_each(|(key, pod)| counted.change(key, pod, Sign::Plus));
        counted
    }

    /// Whether a recount for `set` would have the same result: the counts depend on the spec, except for its size.
    pub(super) fn is_of(&self, set: &ReplicaSetView) -> bool {
        self.set.meta.generation == set.meta.generation || counts_alike(&self.set, set)
    }

    /// Adds or removes the contribution of one pod.
    pub(super) fn change(&mut self, key: &ObjectKey, pod: &PodView, sign: Sign) {
        let (one, due) = PodCounts::recount(&self.set, [pod], self.now);
        let total = &mut self.counts;
        let fields = [
            (&mut total.active, one.active),
            (&mut total.ready, one.ready),
            (&mut total.available, one.available),
            (&mut total.fully_labeled, one.fully_labeled),
            (&mut total.with_cost, one.with_cost),
            (&mut total.terminating, one.terminating),
            (&mut total.mismatched, one.mismatched),
            (&mut total.mismatched_terminating, one.mismatched_terminating),
        ];
        for (total, one) in fields {
            match sign {
                Sign::Plus => *total += one,
                Sign::Minus => *total -= one,
            }
        }
        if let Some(due) = due {
            match sign {
                Sign::Plus => self.pending.insert((due, key.clone())),
                Sign::Minus => self.pending.remove(&(due, key.clone())),
            };
        }
    }

    /// Counts pods as available that have become so by `now`.
    pub(super) fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        while self.pending.first().is_some_and(|(at, _)| *at <= self.now) {
            self.pending.pop_first();
            self.counts.available += 1;
        }
    }
}
