//! Which nodes a DaemonSet's template fits.

use crate::{
    placement::{matches_term, tolerates},
    view::DaemonNodeView,
};
use k8s_openapi::api::core::v1::{NodeSelectorTerm, PodSpec, Taint};
use serde::{Deserialize, Serialize};

/// Whether a node should have a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fit {
    /// It should have one.
    Runs,
    /// It gets none. A pod that is there stays: it does not tolerate a taint of the node that only keeps new pods away.
    Stays,
    /// It should have none.
    Leaves,
}

/// Whether a node should have a pod with this spec, which has the tolerations of a DaemonSet's pod.
///
/// Source: kubernetes `pkg/controller/daemon/daemon_controller.go`, `NodeShouldRunDaemonPod`.
#[must_use]
pub fn fit(spec: &PodSpec, node: &DaemonNodeView) -> Fit {
    let is_named = spec.node_name.as_ref().is_none_or(|name| name.is_empty() || *node.name == **name);
    if !is_named || !selects(spec, node) {
        return Fit::Leaves;
    }
    let mut strongest = Fit::Runs;
    for taint in node.taints.iter().filter(|taint| !is_tolerated(spec, taint)) {
        match taint.effect.as_str() {
            "NoExecute" => return Fit::Leaves,
            "NoSchedule" => strongest = Fit::Stays,
            _ => (),
        }
    }
    strongest
}

fn is_tolerated(spec: &PodSpec, taint: &Taint) -> bool {
    spec.tolerations.iter().flatten().any(|toleration| tolerates(toleration, taint))
}

fn selects(spec: &PodSpec, node: &DaemonNodeView) -> bool {
    let has_labels = spec.node_selector.iter().flatten().all(|(key, value)| node.labels.get(key) == Some(value.as_str()));
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let matches = |term: &NodeSelectorTerm| matches_term(term, &node.name, &node.labels);
    has_labels && required.is_none_or(|required| required.node_selector_terms.iter().any(matches))
}
