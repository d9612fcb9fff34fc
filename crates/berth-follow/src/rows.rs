//! Individual pods, and what each waits for.

use crate::{cluster_cache::ClusterCache, text::shown};
use berth_identity::RolloutRevision;
use berth_workloads::{
    cause,
    pod_state::PodState,
    view::{PodPhase, PodView},
    workload::WorkloadId,
};
use jiff::Timestamp;
use std::{cmp::Reverse, sync::Arc};

/// A pod, and facts about it from other objects.
#[derive(Clone, Debug)]
pub struct Row {
    /// The pod.
    pub pod: Arc<PodView>,
    /// Its state. `None`: it has terminated.
    pub state: Option<PodState>,
    /// The revision of a workload's pod.
    pub revision: Option<RolloutRevision>,
    /// The workload that controls a node's pod.
    pub owner: Option<WorkloadId>,
}

/// The states in words, in the order of rows. Pods that need attention are first.
const ORDER: [&str; 8] =
    ["in trouble", "ended (failed)", "without a node", "starting", "terminating", "ready", "available", "ended (succeeded)"];

impl Row {
    /// Returns a row without facts from other objects.
    #[must_use]
    pub fn new(pod: Arc<PodView>, min_ready_seconds: i32, now: Timestamp) -> Self {
        Self { state: PodState::of(&pod, min_ready_seconds, now), pod, revision: None, owner: None }
    }

    /// Returns its state in words.
    #[must_use]
    pub fn words(&self) -> &'static str {
        ORDER[self.rank()]
    }

    /// Whether the pod has a problem that the template may cause, or has terminated with a failure.
    #[must_use]
    pub fn is_in_trouble(&self) -> bool {
        self.state == Some(PodState::Failed) || (self.state.is_none() && self.pod.phase == PodPhase::Failed)
    }

    /// Returns its position in [`ORDER`].
    fn rank(&self) -> usize {
        match self.state {
            Some(PodState::Failed) => 0,
            None if self.pod.phase == PodPhase::Failed => 1,
            Some(PodState::Pending) => 2,
            Some(PodState::Starting) => 3,
            Some(PodState::Terminating) => 4,
            Some(PodState::Ready) => 5,
            Some(PodState::Available) => 6,
            None => 7,
        }
    }
}

/// Sorts pods that need attention first, then by revision, newest first.
pub fn sort(rows: &mut [Row]) {
    rows.sort_by_cached_key(|row| (row.rank(), Reverse(row.revision), row.pod.meta.name.clone()));
}

/// Returns the number of pods in each state, with the state in words. Healthy pods are first. States without pods are
/// omitted.
#[must_use]
pub fn counts(rows: &[Row]) -> Vec<(usize, &'static str)> {
    let count = |rank: usize| rows.iter().filter(|row| row.rank() == rank).count();
    ORDER.iter().enumerate().rev().map(|(rank, words)| (count(rank), *words)).filter(|(count, _)| 0 < *count).collect()
}

/// The text for a pod that waits for nothing.
pub const NOTHING: &str = "–";

/// Returns what delays the readiness or the deletion of the pod, or [`NOTHING`] if nothing does.
#[must_use]
pub fn waits_for(cluster_cache: &ClusterCache, pod: &PodView, now: Timestamp) -> String {
    if let Some(until) = pod.meta.deleted {
        let left = until.duration_since(now).as_secs();
        let held = pod.symptoms.iter().flat_map(|symptoms| &symptoms.finalizers).next();
        return match (held, left) {
            (Some(finalizer), ..1) => shown(&format!("the finalizer {finalizer}")),
            (None, ..1) => "its node to report its end".to_owned(),
            (_, left) => format!("its containers to end; {left}s of its grace left"),
        };
    }
    let name = &*pod.meta.name;
    if let Some(cause) = cause::of_pod(pod) {
        let text = cause.to_string();
        return shown(text.strip_prefix(name).map_or(text.as_str(), str::trim_start));
    }
    if pod.ready || pod.phase.is_finished() {
        return NOTHING.to_owned();
    }
    let reasons = pod.waiting_reasons();
    match (pod.node_name.is_empty(), reasons.is_empty()) {
        (true, _) => {
            let notes = cluster_cache.notes.read();
            let said = notes.index().about(&pod.meta.uid).filter(|note| note.is_warning).max_by_key(|note| note.event.last);
            said.map_or_else(|| "a node".to_owned(), |note| shown(&note.event.message))
        }
        (false, false) => shown(&reasons.join(", ")),
        (false, true) => "its containers to be ready".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::Revision;
    use berth_workloads::view::View;
    use serde_json::json;

    fn row(name: &str, phase: &str, ready: &str) -> Row {
        let pod = json!({"metadata": {"name": name, "namespace": "n", "uid": name}, "spec": {"nodeName": "node-1"},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}});
        Row::new(Arc::new(PodView::decode(pod.to_string().as_bytes(), Revision(1)).expect("a pod")), 0, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn ended_pods_have_words_of_their_own_and_only_failed_ones_are_in_trouble() {
        let mut rows =
            [row("a", "Succeeded", "False"), row("b", "Running", "True"), row("c", "Failed", "False"), row("d", "Running", "False")];
        sort(&mut rows);
        let shown: Vec<_> = rows.iter().map(|row| (&*row.pod.meta.name, row.words(), row.is_in_trouble())).collect();
        let expected =
            [("c", "ended (failed)", true), ("d", "starting", false), ("b", "available", false), ("a", "ended (succeeded)", false)];
        assert_eq!(shown, expected);
        assert_eq!(counts(&rows), [(1, "ended (succeeded)"), (1, "available"), (1, "starting"), (1, "ended (failed)")]);
    }
}
