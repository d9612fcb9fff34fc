//! Which nodes a pod can run on by its node selector, its node affinity and its tolerations. The scheduler and DaemonSets read them.

use crate::selector::Labels;
use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration};

/// Whether a node matches a term of a node affinity. A term without any requirement matches nothing.
#[must_use]
pub fn matches_term(term: &NodeSelectorTerm, node: &str, node_labels: &Labels) -> bool {
    let labels = term.match_expressions.iter().flatten();
    let fields = term.match_fields.iter().flatten();
    let name = |field: &NodeSelectorRequirement| (field.key == "metadata.name").then_some(node);
    (labels.clone().next().is_some() || fields.clone().next().is_some())
        && labels.into_iter().all(|requirement| holds(requirement, node_labels.get(&requirement.key)))
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

fn text(field: &Option<String>) -> &str {
    field.as_deref().unwrap_or_default()
}

/// Whether a pod with this toleration can be on a node with the taint, for a time or indefinitely.
#[must_use]
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let (key, effect) = (text(&toleration.key), text(&toleration.effect));
    if !(effect.is_empty() || effect == taint.effect) || !(key.is_empty() || key == taint.key) {
        return false;
    }
    match text(&toleration.operator) {
        "Exists" => true,
        // Without a key only Exists is valid.
        "" | "Equal" => !key.is_empty() && text(&toleration.value) == text(&taint.value),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tolerations_match_by_key_value_and_effect() {
        let taint = Taint { key: "k".into(), value: Some("v".into()), effect: "NoExecute".into(), time_added: None };
        let check = |toleration: serde_json::Value, expected: bool| {
            let toleration: Toleration = serde_json::from_value(toleration).expect("a toleration");
            assert_eq!(tolerates(&toleration, &taint), expected, "{toleration:?}");
        };
        check(json!({"operator": "Exists"}), true);
        check(json!({"operator": "Exists", "effect": "NoSchedule"}), false);
        check(json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}), true);
        check(json!({"key": "k", "value": "v"}), true);
        check(json!({"key": "k", "operator": "Equal", "value": "w"}), false);
        check(json!({"key": "other", "operator": "Exists"}), false);
        check(json!({}), false);
        check(json!({"key": "k", "operator": "Lt", "value": "v"}), false);
    }

    #[test]
    fn a_term_matches_labels_and_the_name() {
        let labels = Labels::from([("zone", "a"), ("cores", "8")]);
        let check = |term: serde_json::Value, expected: bool| {
            let term: NodeSelectorTerm = serde_json::from_value(term).expect("a term");
            assert_eq!(matches_term(&term, "n1", &labels), expected, "{term:?}");
        };
        let zone = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "zone", "operator": operator, "values": values}]});
        check(json!({}), false);
        check(zone("In", &["a", "b"]), true);
        check(zone("NotIn", &["a"]), false);
        check(zone("Exists", &[]), true);
        check(zone("DoesNotExist", &[]), false);
        check(json!({"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["7"]}]}), true);
        check(json!({"matchExpressions": [{"key": "cores", "operator": "Lt", "values": ["8"]}]}), false);
        let name = |key: &str, node: &str| json!({"matchFields": [{"key": key, "operator": "In", "values": [node]}]});
        check(name("metadata.name", "n1"), true);
        check(name("metadata.name", "n2"), false);
        check(name("metadata.uid", "n1"), false);
    }
}
