//! Converts API objects into the input of a rollout decision: limits in pods, and sorted ReplicaSets.

use super::{
    DeploymentState,
    annotations::{self, BeforeScale, DESIRED_REPLICAS, MAX_REPLICAS, REPLICAS_BEFORE_SCALE},
    limits::{Limits, NotANumber, Size},
    scale::Scale,
};
use crate::{
    cause::{self, Cause},
    counts::LeftBehind,
    hash::same_template,
    plan::SizeLimit,
    view::{DeploymentStrategy, DeploymentView, PodReplacementPolicy, ReplicaSetView, UnknownChoice},
};
use berth_api::Gate;
use berth_identity::{Generation, RolloutRevision};

/// Why a rollout cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The strategy's type is unknown.
    UnknownStrategy(String),
    /// A limit is not a number.
    Limit(NotANumber),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownStrategy(type_) => write!(f, "unexpected deployment strategy type: {type_}"),
            Self::Limit(error) => write!(f, "limit of the rolling update: {error}"),
        }
    }
}

/// A Deployment and the ReplicaSets that it controls and selects.
pub(super) struct Observed<'a> {
    pub(super) state: &'a DeploymentState,
    pub(super) strategy: DeploymentStrategy,
    pub(super) size: Size,
    pub(super) policy: PodReplacementPolicy,
    pub(super) before_scale: BeforeScale,
    /// Oldest first.
    pub(super) sets: Vec<&'a ReplicaSetView>,
    /// The index of the set with the Deployment's template: the oldest match.
    pub(super) new: Option<usize>,
}

pub(super) fn observe<'a>(state: &'a DeploymentState) -> Result<Observed<'a>, Fault> {
    let deployment = &*state.deployment;
    let strategy = deployment.choices.strategy.clone().map_err(|UnknownChoice(text)| Fault::UnknownStrategy(text))?;
    let desired = desired(deployment);
    let limits = limits(deployment, desired).map_err(Fault::Limit)?;
    let sets = claimed(state);
    let new = sets.iter().position(|set| same_template(&set.template, &deployment.spec.template));
    let gate = state.gates.enabled(Gate::DeploymentPodReplacementPolicy);
    Ok(Observed {
        state,
        strategy,
        size: Size::new(strategy, desired.into(), limits),
        policy: deployment.choices.policy.clone().ok().filter(|_| gate).unwrap_or_default(),
        before_scale: if gate { BeforeScale::Managed } else { BeforeScale::Ignored },
        sets,
        new,
    })
}

fn desired(deployment: &DeploymentView) -> i32 {
    deployment.spec.replicas.unwrap_or(1).max(0)
}

fn limits(deployment: &DeploymentView, desired: i32) -> Result<Limits, NotANumber> {
    let rolling = deployment.spec.strategy.rolling_update.as_ref();
    Limits::resolve(
        rolling.and_then(|limits| limits.max_surge.as_ref()),
        rolling.and_then(|limits| limits.max_unavailable.as_ref()),
        desired,
    )
}

/// The sets that the Deployment controls and selects, oldest first.
fn claimed(state: &DeploymentState) -> Vec<&ReplicaSetView> {
    let deployment = &*state.deployment;
    let selects = |set: &ReplicaSetView| deployment.selector.as_ref().is_some_and(|selector| selector.matches(&set.meta.labels));
    let mut sets: Vec<_> =
        state.sets.iter().map(|set| &**set).filter(|set| set.meta.is_controlled_by(&deployment.meta.uid) && selects(set)).collect();
    sets.sort_by(|a, b| (a.meta.created, &a.meta.name).cmp(&(b.meta.created, &b.meta.name)));
    sets
}

impl<'a> Observed<'a> {
    pub(super) fn deployment(&self) -> &'a DeploymentView {
        &self.state.deployment
    }

    /// Pods whose set is deleted.
    pub(super) fn left_behind(&self) -> &'a LeftBehind {
        &self.state.left_behind
    }

    pub(super) fn new_set(&self) -> Option<&'a ReplicaSetView> {
        self.new.map(|index| self.sets[index])
    }

    /// The sets of other templates, oldest first, with their indexes.
    pub(super) fn old(&self) -> impl Iterator<Item = (usize, &'a ReplicaSetView)> {
        self.sets.iter().copied().enumerate().filter(|(index, _)| Some(*index) != self.new)
    }

    /// The number of the present rollout: one more than any old set's.
    pub(super) fn new_revision(&self) -> RolloutRevision {
        let highest = self.old().filter_map(|(_, set)| annotations::revision(&set.annotations)).max();
        highest.unwrap_or_default().max(RolloutRevision::UNSET).next()
    }

    /// Of the causes that prevent the set's pods from being created or ready, the one that ranks first.
    pub(super) fn failing(&self, set: &ReplicaSetView) -> Option<Cause> {
        let failing = self.state.pods.get(&set.meta.uid).and_then(|pods| cause::of_pod(pods.failing.as_ref()?));
        failing.into_iter().chain(cause::refusal_of(set)).min_by_key(|cause| cause.kind)
    }

    /// The indexes of the sets with replicas, oldest first.
    pub(super) fn active(&self) -> Vec<usize> {
        (0..self.sets.len()).filter(|&index| self.sets[index].replicas > 0).collect()
    }

    /// What scaling reads of a set.
    pub(super) fn scale_of(&self, index: usize) -> Scale {
        let set = self.sets[index];
        let number = |key| annotations::pod_count_in(&set.annotations, key);
        let before = if self.before_scale == BeforeScale::Managed { number(REPLICAS_BEFORE_SCALE) } else { None };
        Scale { size: i64::from(set.replicas), desired: number(DESIRED_REPLICAS), max: number(MAX_REPLICAS), before }
    }

    /// The terminating pods of a set: the number in its status, otherwise the count of the pod cache. A set that was never observed has
    /// none.
    pub(super) fn terminating_of(&self, set: &ReplicaSetView) -> i64 {
        match (set.status.terminating_replicas, set.status.observed_generation) {
            (Some(terminating), _) => i64::from(terminating),
            (None, Generation(0)) => 0,
            (None, _) => i64::from(self.state.counts(&set.meta.uid).all_terminating()),
        }
    }

    /// Terminating pods, including those whose set is deleted.
    pub(super) fn terminating(&self) -> i64 {
        self.sets.iter().map(|set| self.terminating_of(set)).sum::<i64>() + i64::from(self.left_behind().terminating)
    }

    /// How many pods may be added. `None` if terminating pods do not count.
    pub(super) fn room(&self) -> Option<i64> {
        (self.policy == PodReplacementPolicy::TerminationComplete)
            .then(|| self.used(None).map_or(0, |used| (self.size.max() - used).max(0)))
    }

    /// The pods that count against the limit when the set at `growing` grows: desired pods, surplus pods that still exist, and pods that
    /// are left behind. Under TerminationComplete, terminating pods count too. Otherwise the surplus of `growing` itself does not count,
    /// because growing would keep those pods. `None` if the number is unknown, see [`Observed::lagging`].
    ///
    /// Upstream counts only the sizes of the sets. A growing set would then create pods before a shrinking set has deleted its old ones.
    pub(super) fn used(&self, growing: Option<usize>) -> Option<i64> {
        let counts_terminating = self.policy == PodReplacementPolicy::TerminationComplete;
        if self.lagging(growing).is_some() {
            return None;
        }
        let of_sets = (0..self.sets.len()).map(|index| match Some(index) == growing && !counts_terminating {
            true => i64::from(self.sets[index].replicas),
            false => self.held(index),
        });
        let terminating = if counts_terminating { self.terminating() } else { 0 };
        Some(of_sets.sum::<i64>() + i64::from(self.left_behind().staying()) + terminating)
    }

    /// Returns the limit for this size of a set. `None` if the strategy sets none, or the counts are unknown.
    pub(super) fn limit_of(&self, set: &ReplicaSetView, size: i64) -> Option<SizeLimit> {
        if self.strategy != DeploymentStrategy::RollingUpdate {
            return None;
        }
        if size <= i64::from(set.replicas) {
            let available = self.sets.iter().map(|set| i64::from(set.status.available_replicas)).sum();
            return Some(SizeLimit::Available { available, min: self.size.min_available });
        }
        let index = self.sets.iter().position(|known| known.meta.uid == set.meta.uid);
        let (pods, max) = (self.used(index)?, self.size.max());
        Some(match self.policy {
            PodReplacementPolicy::TerminationComplete => SizeLimit::AllPods { pods, max },
            PodReplacementPolicy::Unset | PodReplacementPolicy::TerminationStarted => SizeLimit::StayingPods { pods, max },
        })
    }

    /// Whether sets may have these sizes (by index) at once if terminating pods do not count. The remaining pods must not exceed the limit
    /// or the present number.
    pub(super) fn fits(&self, sizes: &[(usize, i64)]) -> bool {
        let to = |index: usize| sizes.iter().find(|(at, _)| *at == index).map_or(i64::from(self.sets[index].replicas), |(_, size)| *size);
        let all = || 0..self.sets.len();
        let mut growing = all().filter(|&index| to(index) > i64::from(self.sets[index].replicas));
        let only = growing.next().filter(|_| growing.next().is_none());
        let after: i64 = all().map(|index| to(index).max(self.held(index))).sum();
        let before: i64 = all().map(|index| self.held(index)).sum();
        self.lagging(only).is_none() && (after == before || after + i64::from(self.left_behind().staying()) <= self.size.max())
    }

    /// The number of a set's non-terminating pods, present or desired.
    fn held(&self, index: usize) -> i64 {
        let set = self.sets[index];
        set.replicas.max(set.status.replicas).into()
    }

    /// A set whose status is about another size. It may have pods that neither its size nor its status shows, for example of a size that
    /// was reverted before any status reported it. No other set can grow until the status is current. Under TerminationComplete, `growing`
    /// itself cannot grow either, because its terminating pods are unknown. A set that never had another size cannot have more pods than
    /// that.
    pub(super) fn lagging(&self, growing: Option<usize>) -> Option<&'a ReplicaSetView> {
        let lags = |index: usize| {
            let meta = &self.sets[index].meta;
            let counts = Some(index) != growing || self.policy == PodReplacementPolicy::TerminationComplete;
            counts && meta.generation > Generation(1) && self.sets[index].status.observed_generation < meta.generation
        };
        (0..self.sets.len()).find(|&index| lags(index)).map(|index| self.sets[index])
    }

    /// A set other than `growing` that is about to delete pods, and whose status does not show it yet.
    pub(super) fn shrinking(&self, growing: Option<usize>) -> Option<&'a ReplicaSetView> {
        let shrinks = |index: usize| Some(index) != growing && self.held(index) > i64::from(self.sets[index].replicas);
        (0..self.sets.len()).find(|&index| shrinks(index)).map(|index| self.sets[index])
    }
}
