//! Node selectors, node affinity, and pods that do not want each other.

use super::view::{AntiAffinityTerm, NodeView, PodInfo};
use berth_api::k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};

/// Whether the pod's node selector and required node affinity allow the node.
pub(super) fn selects(pod: &PodInfo, node: &NodeView) -> bool {
    let wishes = pod.wishes();
    let labelled = wishes.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value.as_str()));
    labelled && (wishes.node_terms.is_empty() || wishes.node_terms.iter().any(|term| matches_term(term, node)))
}

/// A term without any requirement matches nothing.
fn matches_term(term: &NodeSelectorTerm, node: &NodeView) -> bool {
    let labels = term.match_expressions.iter().flatten();
    let fields = term.match_fields.iter().flatten();
    let name = |field: &NodeSelectorRequirement| (field.key == "metadata.name").then_some(node.name.as_str());
    (labels.clone().next().is_some() || fields.clone().next().is_some())
        && labels.into_iter().all(|requirement| holds(requirement, node.labels.get(&requirement.key)))
        && fields.into_iter().all(|requirement| holds(requirement, name(requirement)))
}

fn holds(requirement: &NodeSelectorRequirement, found: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = found.is_some_and(|found| values.iter().any(|value| value == found));
    let compared = || Some((found?.parse::<i64>().ok()?, values.first()?.parse::<i64>().ok()?));
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => compared().is_some_and(|(found, bound)| found > bound),
        "Lt" => compared().is_some_and(|(found, bound)| found < bound),
        _ => false,
    }
}

/// Whether `term`, of one pod, matches `other`.
pub(super) fn shuns(term: &AntiAffinityTerm, other: &PodInfo) -> bool {
    term.namespaces.contains(&other.namespace) && term.selector.matches(&other.labels)
}
