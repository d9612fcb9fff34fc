//! How many pods a ReplicaSet has, and which of them go.

use super::{Checker, Presence, Violation, count, violated};
use crate::facts::Pod;
use berth_api::Gate;
use berth_store::env::Timestamp;

/// The rank of a pod in its set: the lower, the sooner it is deleted. Criteria after the deletion cost are not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeletionRank {
    has_node: bool,
    phase: u8,
    ready: bool,
    cost: i32,
}

/// A pod that should have been deleted before another one that was.
#[derive(Clone, Debug)]
pub(super) struct Overdue {
    uid: String,
    standing: DeletionRank,
    /// The other's name.
    before: String,
}

impl DeletionRank {
    fn of(pod: &Pod) -> Self {
        let phase = match pod.status.phase.as_str() {
            "Running" => 2,
            "Unknown" => 1,
            _ => 0,
        };
        Self { has_node: !pod.spec.node_name.is_empty(), phase, ready: pod.is_ready(), cost: pod.deletion_cost() }
    }
}

impl Checker {
    /// No pod is created beyond what a set asks for.
    pub(super) fn check_set(&self, uid: &str) -> Result<(), Violation> {
        let (Some(set), Some(bound)) = (self.sets.get(uid), self.set_bounds.get(uid)) else { return Ok(()) };
        let live = self.live_of(uid);
        if live > *bound {
            return violated(format!("ReplicaSet {} has {live} pods that stay, and never wanted more than {bound}", set.metadata.name));
        }
        Ok(())
    }

    /// Where a set has come to its size, those pods are gone that had to go.
    pub(super) fn tighten_set(&mut self, uid: &str) -> Result<(), Violation> {
        let Some(set) = self.sets.get(uid) else { return Ok(()) };
        let (size, live) = (set.spec.replicas, self.live_of(uid));
        let settled = set.status.observed_generation == set.metadata.generation && live <= size;
        let bound = self.set_bounds.entry(uid.to_owned()).or_default();
        *bound = if settled { size } else { size.max(*bound) };
        let overdue = if settled { self.overdue.remove(uid).unwrap_or_default() } else { Vec::new() };
        for Overdue { uid: overdue, standing, before } in overdue {
            let is_as_it_was = self.ranks.get(&overdue).is_some_and(|(now, _)| *now == standing);
            if let Some(pod) = self.pods_of(uid).find(|pod| pod.metadata.uid == overdue && pod.is_live()).filter(|_| is_as_it_was) {
                let name = &pod.metadata.name;
                return violated(format!("pod {before} went, and pod {name} stays, which should have gone before it: {standing:?}"));
            }
        }
        Ok(())
    }

    /// Checks a pod that was deleted: those of its set with a lower rank must be deleted as well. Facts that its controller may not have seen yet do
    /// not count.
    ///
    /// `pod` is not among the known ones, and its former version neither.
    pub(super) fn check_victim(&mut self, before: Option<&Pod>, pod: &Pod, now: Timestamp) {
        let (uid, set) = (&pod.metadata.uid, pod.metadata.controller());
        let begins_to_terminate = before.is_some_and(Pod::is_live) && pod.is_terminating();
        if !begins_to_terminate || self.sets.get(set).is_none_or(|set| set.metadata.deletion_timestamp.is_some()) {
            return;
        }
        if self.deleted_by_others.contains(uid) {
            return self.note_disturbance(set, now);
        }
        let is_known = |since: Timestamp| self.is_known(since, now);
        if !self.gates.enabled(Gate::PodDeletionCost) || !self.disturbed.get(set).copied().is_none_or(is_known) {
            return;
        }
        let Some((own, _)) = self.ranks.get(uid).copied().filter(|(_, since)| is_known(*since)) else { return };
        let others = self.pods_of(set).filter(|other| other.is_live());
        let sooner = others.filter_map(|other| {
            let (standing, since) = *self.ranks.get(&other.metadata.uid)?;
            let is_sooner = standing < own && is_known(since);
            is_sooner.then(|| Overdue { uid: other.metadata.uid.clone(), standing, before: pod.metadata.name.clone() })
        });
        let sooner: Vec<Overdue> = sooner.collect();
        self.overdue.entry(set.to_owned()).or_default().extend(sooner);
    }

    /// Whether a pod is deleted by its cost while another of its set stays that became ready so recently that its controller may not know it. The
    /// decision to scale the set down relied on the other one.
    pub(super) fn is_outbid(&self, before: Option<&Pod>, pod: &Pod, now: Timestamp) -> bool {
        let Some(before) = before.filter(|before| before.is_live() && pod.is_terminating()) else { return false };
        let own = DeletionRank::of(before);
        let mut others = self.pods_of(pod.metadata.controller()).filter(|other| other.is_live());
        others.any(|other| {
            let known = self.ranks.get(&other.metadata.uid);
            known.is_some_and(|(other, since)| other.ready && own.cost < other.cost && !self.is_known(*since, now))
        })
    }

    /// A set needs more pods than it did: of those that were to go some may stay, whichever they are.
    pub(super) fn note_disturbance(&mut self, set: &str, now: Timestamp) {
        self.overdue.remove(set);
        self.disturbed.insert(set.to_owned(), now);
    }

    /// Records the rank of a pod, and since when it has this rank.
    pub(super) fn note_rank(&mut self, pod: &Pod, presence: Presence, now: Timestamp) {
        let uid = &pod.metadata.uid;
        if presence == Presence::Gone {
            self.ranks.remove(uid);
            return;
        }
        let standing = DeletionRank::of(pod);
        if self.ranks.get(uid).is_none_or(|(known, _)| *known != standing) {
            self.ranks.insert(uid.clone(), (standing, now));
        }
    }

    pub(super) fn live_of(&self, set: &str) -> i64 {
        count(self.pods_of(set).filter(|pod| pod.is_live()))
    }
}
