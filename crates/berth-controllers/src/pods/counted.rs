//! What a ReplicaSet counts of its pods, kept up to date pod by pod.

use super::Pods;
use berth_identity::ObjectKey;
use berth_workloads::{
    counts::{PodCounts, counts_alike},
    view::{PodView, ReplicaSetView},
};
use jiff::Timestamp;
use std::{collections::BTreeSet, sync::Arc};

/// Running counts for one ReplicaSet. They hold as long as pods count for it as they did.
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

    /// Whether this is what counting for `set` from scratch would give: what pods count by is of the spec, and of that what no scaling changes.
    pub(super) fn is_of(&self, set: &ReplicaSetView) -> bool {
        self.set.meta.generation == set.meta.generation || counts_alike(&self.set, set)
    }

    /// Adds or takes away what one pod counts for.
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

    /// Counts as available what has become so by `now`.
    pub(super) fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        while self.pending.first().is_some_and(|(at, _)| *at <= self.now) {
            self.pending.pop_first();
            self.counts.available += 1;
        }
    }
}
