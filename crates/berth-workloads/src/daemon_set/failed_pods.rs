//! The back-off after failed pods: a node that rejects each pod does not get a new one in a hot loop.

use crate::plan::{Action, Plan, Reason};
use berth_identity::{Generation, NodeName};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The delay before the second deletion of a failed pod on a node. It doubles with each further one.
const DELAY_MIN: SignedDuration = SignedDuration::from_secs(1);
/// The longest delay. After twice this time without a deletion, the node starts from the shortest one.
const DELAY_MAX: SignedDuration = SignedDuration::from_mins(15);

/// When failed pods of one DaemonSet were deleted last, by node. A controller that restarts has forgotten it, as upstream's.
///
/// Source: kubernetes `client-go/util/flowcontrol/backoff.go`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedPods(BTreeMap<NodeName, Deletion>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Deletion {
    /// `status.observedGeneration` of the set: a new spec starts from the shortest delay.
    generation: Generation,
    at: Timestamp,
    delay: SignedDuration,
}

impl FailedPods {
    /// Until when a failed pod on this node stays. `None`: it is deleted now.
    #[must_use]
    pub fn kept_until(&self, node: &str, generation: Generation, now: Timestamp) -> Option<Timestamp> {
        let last = self.0.get(node).filter(|last| last.generation == generation)?;
        last.at.checked_add(last.delay).ok().filter(|until| now < *until)
    }

    /// Records the failed pods that a plan deletes, which was made at `now` for a set with this observed generation.
    pub fn record(&mut self, plan: &Plan, generation: Generation, now: Timestamp) {
        let is_current = |last: &Deletion| last.generation == generation && now.duration_since(last.at) <= DELAY_MAX * 2;
        self.0.retain(|_, last| is_current(last));
        for action in plan.stages.iter().flat_map(|stage| &stage.actions) {
            if let Action::Delete { reason: Reason::PodFailed { node }, .. } = action {
                let delay = self.0.get(node).map_or(DELAY_MIN, |last| (last.delay * 2).min(DELAY_MAX));
                self.0.insert(node.clone(), Deletion { generation, at: now, delay });
            }
        }
    }
}
