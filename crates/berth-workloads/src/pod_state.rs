//! The state of a pod as forecasts, pictures, the page and the terminal show it. All of them classify with [`PodState::of`].

use crate::{cause, view::PodView};
use jiff::Timestamp;
use serde::Serialize;

/// The state of a pod that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PodState {
    /// Ready for at least `minReadySeconds`.
    Available,
    /// Ready, for less than `minReadySeconds`.
    Ready,
    /// On a node, not ready.
    Starting,
    /// Without a node.
    Pending,
    /// Not ready, for a reason that the template may have: its image cannot be pulled, its container crashes.
    Failed,
    /// It has a `deletionTimestamp`, and still exists.
    Terminating,
}

/// How many pods are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodCounts {
    /// Without a node.
    pub pending: u32,
    /// On a node, not ready.
    pub starting: u32,
    /// Not ready, for a reason that the template may have.
    pub failed: u32,
    /// Ready, for less than `minReadySeconds`.
    pub ready: u32,
    /// Available.
    pub available: u32,
    /// With a `deletionTimestamp`.
    pub terminating: u32,
}

impl PodState {
    /// All states, in the order in which pictures stack them: from the ground up.
    pub const ALL: [Self; 6] = [Self::Available, Self::Ready, Self::Starting, Self::Pending, Self::Failed, Self::Terminating];

    /// Returns the state of the pod; `None`: it has ended.
    ///
    /// A pod in the phase `Succeeded` or `Failed` has ended, whether it is deleted or not. Upstream counts such a pod neither among the pods of a
    /// workload nor among the terminating pods, and it occupies no quota and no node.
    ///
    /// Source: kubernetes `pkg/controller/controller_utils.go`, `IsPodActive` and `IsPodTerminating`.
    #[must_use]
    pub fn of(pod: &PodView, min_ready_seconds: i32, now: Timestamp) -> Option<Self> {
        if pod.phase.is_finished() {
            return None;
        }
        let is_available = || pod.available_at(min_ready_seconds).is_some_and(|at| at <= now);
        Some(match pod {
            _ if pod.is_terminating() => Self::Terminating,
            _ if is_available() => Self::Available,
            _ if pod.ready => Self::Ready,
            _ if cause::is_in_trouble(pod) => Self::Failed,
            _ if pod.node_name.is_empty() => Self::Pending,
            _ => Self::Starting,
        })
    }

    /// Its name: `available`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Ready => "ready",
            Self::Starting => "starting",
            Self::Pending => "pending",
            Self::Failed => "failed",
            Self::Terminating => "terminating",
        }
    }
}

impl PodCounts {
    /// How many pods are in this state.
    #[must_use]
    pub fn of(&self, state: PodState) -> u32 {
        match state {
            PodState::Available => self.available,
            PodState::Ready => self.ready,
            PodState::Starting => self.starting,
            PodState::Pending => self.pending,
            PodState::Failed => self.failed,
            PodState::Terminating => self.terminating,
        }
    }

    fn of_mut(&mut self, state: PodState) -> &mut u32 {
        match state {
            PodState::Available => &mut self.available,
            PodState::Ready => &mut self.ready,
            PodState::Starting => &mut self.starting,
            PodState::Pending => &mut self.pending,
            PodState::Failed => &mut self.failed,
            PodState::Terminating => &mut self.terminating,
        }
    }

    /// Counts one pod that moves from one state to another; `None`: it does not exist, or has ended.
    pub fn moved(&mut self, from: Option<PodState>, to: Option<PodState>) {
        if let Some(state) = from {
            let count = self.of_mut(state);
            *count = count.saturating_sub(1);
        }
        if let Some(state) = to {
            let count = self.of_mut(state);
            *count = count.saturating_add(1);
        }
    }

    /// Returns the counts of both together.
    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        for state in PodState::ALL {
            let count = self.of_mut(state);
            *count = count.saturating_add(other.of(state));
        }
        self
    }

    /// How many pods there are, including terminating ones.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.active().saturating_add(self.terminating)
    }

    /// How many pods there are without the terminating ones.
    #[must_use]
    pub fn active(&self) -> u32 {
        let active = PodState::ALL.into_iter().filter(|state| *state != PodState::Terminating);
        active.map(|state| self.of(state)).fold(0, u32::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::View;
    use berth_identity::Revision;
    use serde_json::{Value, json};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;
    const MIN_READY_SECONDS: i32 = 10;

    /// What keeps a pod from being ready, in its status.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Symptom {
        Nothing,
        /// The scheduler finds no node: the cluster's fault, not the template's.
        Unschedulable,
        /// An image that cannot be pulled may be the template's fault.
        ImagePull,
    }

    #[derive(Clone, Copy, Debug)]
    struct Case {
        phase: &'static str,
        /// For how many seconds it has been ready.
        ready: Option<i64>,
        is_deleted: bool,
        has_node: bool,
        symptom: Symptom,
    }

    fn pod(case: Case) -> PodView {
        let at = |seconds: i64| Timestamp::from_second(seconds).expect("in range").to_string();
        let mut conditions: Vec<Value> = Vec::new();
        if let Some(seconds) = case.ready {
            conditions.push(json!({"type": "Ready", "status": "True", "lastTransitionTime": at(-seconds)}));
        }
        if case.symptom == Symptom::Unschedulable {
            conditions
                .push(json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}));
        }
        let mut object = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {},
            "status": {"phase": case.phase, "conditions": conditions}});
        if case.is_deleted {
            object["metadata"]["deletionTimestamp"] = json!(at(30));
        }
        if case.has_node {
            object["spec"]["nodeName"] = json!("node-1");
        }
        if case.symptom == Symptom::ImagePull {
            object["status"]["containerStatuses"] = json!([{"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]);
        }
        PodView::decode(object.to_string().as_bytes(), Revision(1)).expect("a pod")
    }

    fn cases() -> Vec<Case> {
        let mut cases = Vec::new();
        for phase in ["", "Pending", "Running", "Succeeded", "Failed", "Unknown", "Elsewhere"] {
            for ready in [None, Some(9), Some(10)] {
                for flags in 0..4 {
                    for symptom in [Symptom::Nothing, Symptom::Unschedulable, Symptom::ImagePull] {
                        cases.push(Case { phase, ready, is_deleted: flags & 1 == 1, has_node: flags & 2 == 2, symptom });
                    }
                }
            }
        }
        cases
    }

    #[test]
    fn each_pod_has_the_one_state_that_its_fields_give() {
        for case in cases() {
            let has_ended = case.phase == "Succeeded" || case.phase == "Failed";
            let expected = match (has_ended, case.is_deleted, case.ready, case.symptom, case.has_node) {
                (true, ..) => None,
                (false, true, ..) => Some(PodState::Terminating),
                (false, false, Some(10), ..) => Some(PodState::Available),
                (false, false, Some(_), ..) => Some(PodState::Ready),
                (false, false, None, Symptom::ImagePull, _) => Some(PodState::Failed),
                (false, false, None, _, false) => Some(PodState::Pending),
                (false, false, None, _, true) => Some(PodState::Starting),
            };
            assert_eq!(PodState::of(&pod(case), MIN_READY_SECONDS, NOW), expected, "{case:?}");
        }
    }

    #[test]
    fn states_agree_with_what_controllers_count() {
        for case in cases() {
            let pod = pod(case);
            let mut counts = PodCounts::default();
            counts.moved(None, PodState::of(&pod, MIN_READY_SECONDS, NOW));
            let expected = (u32::from(pod.is_active()), u32::from(pod.is_terminating()));
            assert_eq!((counts.active(), counts.terminating), expected, "{case:?}");
        }
    }

    #[test]
    fn counts_add_up() {
        let mut counts = PodCounts::default();
        PodState::ALL.into_iter().for_each(|state| counts.moved(None, Some(state)));
        assert!(PodState::ALL.into_iter().all(|state| counts.of(state) == 1));
        assert_eq!((counts.total(), counts.active()), (6, 5));
        counts.moved(Some(PodState::Ready), Some(PodState::Available));
        assert_eq!((counts.ready, counts.available), (0, 2));
        let both = counts.plus(PodCounts { terminating: u32::MAX, ..PodCounts::default() });
        assert_eq!((both.terminating, both.available, both.total()), (u32::MAX, 2, u32::MAX));
        counts.moved(Some(PodState::Ready), None);
        assert_eq!(counts.ready, 0);
    }
}
