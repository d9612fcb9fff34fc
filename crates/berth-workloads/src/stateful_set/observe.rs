//! Derives the input of a plan from a StatefulSet: strategy, limits, revisions.

use super::{
    ControlledPods, EffectiveStrategy, Ordinals, StatefulSetState,
    history::History,
    max_unavailable, ordinals,
    strategy::{block, partition, strategy},
    volumes::Claims,
};
use crate::view::{PodManagement, StatefulSetView};
use berth_api::{FeatureGates, Gate};
use berth_identity::Ordinal;

/// Whether unready pods of older revisions that block an update are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repair {
    Never,
    Revision,
}

/// How many pods a rolling update may make unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Budget {
    /// Gate off: one after the other.
    OneByOne,
    /// Gate on.
    Pods(i64),
}

/// A StatefulSet with its derived input.
pub(super) struct Observed<'a> {
    pub(super) state: &'a StatefulSetState,
    pub(super) strategy: EffectiveStrategy,
    pub(super) management: PodManagement,
    pub(super) ordinals: Ordinals,
    /// `partition` of the `rollingUpdate` block, if the type is RollingUpdate.
    pub(super) partition: Option<i64>,
    pub(super) budget: Budget,
    pub(super) repair: Repair,
    pub(super) claims: Claims<'a>,
    pub(super) history: History,
}

pub(super) fn observe<'a>(state: &'a StatefulSetState) -> Observed<'a> {
    let set = &*state.set;
    let strategy = strategy(set, &state.gates);
    Observed {
        state,
        strategy,
        management: set.choices.management,
        ordinals: ordinals(set),
        partition: partition(set).map(i64::from),
        budget: if state.gates.enabled(Gate::MaxUnavailableStatefulSet) { Budget::Pods(max(set)) } else { Budget::OneByOne },
        repair: repair(set, strategy),
        claims: Claims::new(set, &state.found.claims),
        history: History::observe(state),
    }
}

/// `maxUnavailable` in pods; 1 if it is unset or not a number.
fn max(set: &StatefulSetView) -> i64 {
    let value = block(set).and_then(|block| block.max_unavailable.as_ref());
    max_unavailable(value, set.spec.replicas.unwrap_or(1).max(0)).unwrap_or(1).into()
}

fn repair(set: &StatefulSetView, strategy: EffectiveStrategy) -> Repair {
    if set.choices.repairs && strategy == EffectiveStrategy::RollingUpdate { Repair::Revision } else { Repair::Never }
}

impl<'a> Observed<'a> {
    pub(super) fn set(&self) -> &'a StatefulSetView {
        &self.state.set
    }

    pub(super) fn pods(&self) -> &'a ControlledPods {
        &self.state.pods
    }

    /// The lowest ordinal that an update changes.
    pub(super) fn update_from(&self) -> Ordinal {
        self.ordinals.start.plus(self.partition.unwrap_or(0))
    }

    /// One more than the last desired ordinal.
    pub(super) fn end(&self) -> Ordinal {
        self.ordinals.end()
    }

    /// `maxUnavailable` in pods; 1 with its gate off.
    pub(super) fn max_unavailable(&self) -> i64 {
        match self.budget {
            Budget::OneByOne => 1,
            Budget::Pods(pods) => pods,
        }
    }
}

/// The values of a set's gauges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// `statefulset_unavailable_replicas`: desired pods that are missing or unavailable.
    pub unavailable: i64,
    /// `statefulset_max_unavailable`: how many pods a rolling update may make unavailable.
    pub max_unavailable: i64,
}

/// The values of a set's gauges. `None` if both of their gates are off.
#[must_use]
pub fn figures(set: &StatefulSetView, controlled: &ControlledPods, gates: &FeatureGates) -> Option<Figures> {
    let shown = gates.enabled(Gate::MaxUnavailableStatefulSet) || gates.enabled(Gate::StatefulSetRecreateStrategy);
    shown.then(|| Figures { unavailable: controlled.unavailable_slots(), max_unavailable: max(set) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::View;
    use berth_identity::Revision;
    use jiff::Timestamp;
    use serde_json::json;

    #[test]
    fn a_set_has_figures_where_one_of_their_gates_is_on() {
        let set = json!({"metadata": {"name": "web"}, "spec": {"replicas": 5, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}});
        let set = StatefulSetView::decode(set.to_string().as_bytes(), Revision(1)).expect("a set");
        let controlled = ControlledPods::new(&set, [], Timestamp::UNIX_EPOCH);
        let figures = |budget: bool, recreate: bool| {
            let gates = format!("MaxUnavailableStatefulSet={budget},StatefulSetRecreateStrategy={recreate}");
            figures(&set, &controlled, &FeatureGates::parse(&gates).expect("gates"))
        };
        let known = Some(Figures { unavailable: 5, max_unavailable: 2 });
        let found = [figures(true, true), figures(true, false), figures(false, true), figures(false, false)];
        assert_eq!(found, [known, known, known, None]);
    }
}
