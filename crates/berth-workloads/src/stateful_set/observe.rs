//! From a StatefulSet to what its plan is decided from: strategy, limits, revisions.

use super::{Ordinals, RetentionPolicy, Roster, State, history::History, max_unavailable, roster::ordinals, volumes::Claims};
use crate::view::StatefulSetView;
use berth_api::{
    Gate,
    annotations::{BERTH_REPAIR, BERTH_UPDATE_STRATEGY},
    apps::stateful_set::{ON_DELETE, PARALLEL, RECREATE, ROLLING_UPDATE},
};

/// How pods of an older template are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    RollingUpdate,
    OnDelete,
    Recreate,
}

impl Strategy {
    /// As the API names it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::RollingUpdate => ROLLING_UPDATE,
            Self::OnDelete => ON_DELETE,
            Self::Recreate => RECREATE,
        }
    }
}

/// `podManagementPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Management {
    OrderedReady,
    Parallel,
}

/// Whether unready pods of older revisions that hold an update up are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repair {
    Never,
    Revision,
}

/// `persistentVolumeClaimRetentionPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Retention {
    pub(super) when_scaled: RetentionPolicy,
    pub(super) when_deleted: RetentionPolicy,
}

/// How many pods a rolling update may make unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Budget {
    /// Gate off: one after the other.
    OneByOne,
    /// Gate on.
    Pods(i64),
}

/// A StatefulSet as its plan sees it.
pub(super) struct Observed<'a> {
    pub(super) state: &'a State<'a>,
    pub(super) strategy: Strategy,
    pub(super) management: Management,
    pub(super) ordinals: Ordinals,
    /// `partition`, in a `rollingUpdate` block that counts.
    pub(super) partition: Option<i64>,
    pub(super) budget: Budget,
    pub(super) repair: Repair,
    pub(super) claims: Claims<'a>,
    pub(super) history: History,
}

pub(super) fn observe<'a>(state: &'a State<'a>) -> Observed<'a> {
    let set = state.set;
    let strategy = strategy(state);
    let block = set.spec.update_strategy.rolling_update.as_ref().filter(|_| is_plain_rolling_update(set));
    Observed {
        state,
        strategy,
        management: if set.spec.pod_management_policy == PARALLEL { Management::Parallel } else { Management::OrderedReady },
        ordinals: ordinals(set),
        partition: block.map(|block| block.partition.unwrap_or(0).into()),
        budget: if state.gates.enabled(Gate::MaxUnavailableStatefulSet) { Budget::Pods(max(set)) } else { Budget::OneByOne },
        repair: repair(set, strategy),
        claims: Claims::new(set, state.claim_named),
        history: History::observe(state),
    }
}

fn is_plain_rolling_update(set: &StatefulSetView) -> bool {
    matches!(set.spec.update_strategy.type_.as_str(), ROLLING_UPDATE | "")
}

/// Without its gate Recreate is a rolling update without a block. The annotation counts only where the server's own controller stays passive.
fn strategy(state: &State<'_>) -> Strategy {
    let set = state.set;
    let gate = state.gates.enabled(Gate::StatefulSetRecreateStrategy);
    let annotation = set.annotations.get(BERTH_UPDATE_STRATEGY).is_some_and(|text| text == RECREATE);
    match set.spec.update_strategy.type_.as_str() {
        RECREATE if gate => Strategy::Recreate,
        ROLLING_UPDATE | RECREATE | "" => Strategy::RollingUpdate,
        ON_DELETE if annotation && gate => Strategy::Recreate,
        _ => Strategy::OnDelete,
    }
}

/// `maxUnavailable` in pods; 1 where it is unset or no number.
fn max(set: &StatefulSetView) -> i64 {
    let block = set.spec.update_strategy.rolling_update.as_ref().filter(|_| is_plain_rolling_update(set));
    let value = block.and_then(|block| block.max_unavailable.as_ref());
    max_unavailable(value, set.spec.replicas.unwrap_or(1).max(0)).unwrap_or(1).into()
}

fn repair(set: &StatefulSetView, strategy: Strategy) -> Repair {
    let asked = set.annotations.get(BERTH_REPAIR).is_some_and(|text| text == "Revision");
    if asked && strategy == Strategy::RollingUpdate { Repair::Revision } else { Repair::Never }
}

pub(super) fn retention(set: &StatefulSetView) -> Retention {
    let policy = set.spec.persistent_volume_claim_retention_policy.as_ref();
    let read = |text: Option<&String>| match text.map(String::as_str) {
        Some("Delete") => RetentionPolicy::Delete,
        _ => RetentionPolicy::Retain,
    };
    Retention {
        when_scaled: read(policy.and_then(|policy| policy.when_scaled.as_ref())),
        when_deleted: read(policy.and_then(|policy| policy.when_deleted.as_ref())),
    }
}

impl<'a> Observed<'a> {
    pub(super) fn set(&self) -> &'a StatefulSetView {
        self.state.set
    }

    pub(super) fn roster(&self) -> &'a Roster {
        self.state.roster
    }

    /// The lowest number that an update changes.
    pub(super) fn update_from(&self) -> i64 {
        self.ordinals.start.saturating_add(self.partition.unwrap_or(0))
    }

    /// One past the last number that is wanted.
    pub(super) fn end(&self) -> i64 {
        self.ordinals.last() + 1
    }

    /// `maxUnavailable` in pods; 1 with its gate off.
    pub(super) fn max_unavailable(&self) -> i64 {
        match self.budget {
            Budget::OneByOne => 1,
            Budget::Pods(pods) => pods,
        }
    }
}

/// What the gauges of a set show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// `statefulset_unavailable_replicas`: wanted pods that are missing or not available.
    pub unavailable: i64,
    /// `statefulset_max_unavailable`: how many a rolling update may make so.
    pub max_unavailable: i64,
}

/// The figures of a set; `None` where both of the gates that they belong to are off.
#[must_use]
pub fn figures(set: &StatefulSetView, roster: &Roster, gates: &berth_api::FeatureGates) -> Option<Figures> {
    let shown = gates.enabled(Gate::MaxUnavailableStatefulSet) || gates.enabled(Gate::StatefulSetRecreateStrategy);
    shown.then(|| Figures { unavailable: roster.unavailable_slots(), max_unavailable: max(set) })
}
