//! Node selectors, node affinity, and pods that do not want each other.

use super::view::{AntiAffinityTerm, NodeView, PodInfo};
use berth_workloads::placement::matches_term;

/// Whether the pod's node selector and required node affinity allow the node.
pub(super) fn selects(pod: &PodInfo, node: &NodeView) -> bool {
    let wishes = pod.wishes();
    let labelled = wishes.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value.as_str()));
    let matches = |term| matches_term(term, &node.name, &node.labels);
    labelled && (wishes.node_terms.is_empty() || wishes.node_terms.iter().any(matches))
}

/// Whether `term`, of one pod, matches `other`.
pub(super) fn shuns(term: &AntiAffinityTerm, other: &PodInfo) -> bool {
    term.namespaces.contains(&other.namespace) && term.selector.matches(&other.labels)
}
