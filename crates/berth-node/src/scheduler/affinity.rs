//! Node selectors and node affinity.

use super::view::{NodeView, Wishes};
use berth_api::k8s_openapi::api::core::v1::NodeSelectorTerm;
use berth_workloads::placement::matches_term;
use std::collections::{BTreeMap, BTreeSet};

/// The nodes that a pod's node selector and required node affinity allow.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NodeRules {
    node_selector: BTreeMap<String, String>,
    node_terms: Option<Vec<NodeSelectorTerm>>,
}

impl NodeRules {
    pub(super) fn of(wishes: &Wishes) -> Self {
        Self { node_selector: wishes.node_selector.clone(), node_terms: wishes.node_terms.clone() }
    }

    /// Whether they allow all nodes.
    pub(super) fn is_empty(&self) -> bool {
        self.node_selector.is_empty() && self.node_terms.is_none()
    }

    pub(super) fn allow(&self, node: &NodeView) -> bool {
        allows(&self.node_selector, self.node_terms.as_deref(), node)
    }
}

/// Whether the pod's node selector and required node affinity allow the node.
pub(super) fn selects(wishes: &Wishes, node: &NodeView) -> bool {
    allows(&wishes.node_selector, wishes.node_terms.as_deref(), node)
}

fn allows(selector: &BTreeMap<String, String>, terms: Option<&[NodeSelectorTerm]>, node: &NodeView) -> bool {
    let labeled = selector.iter().all(|(key, value)| node.labels.get(key) == Some(value.as_str()));
    labeled && terms.is_none_or(|terms| matches_any(terms, node))
}

/// Whether the node matches one of the terms.
pub(super) fn matches_any(terms: &[NodeSelectorTerm], node: &NodeView) -> bool {
    terms.iter().any(|term| matches_term(term, &node.name, &node.labels))
}

/// The names of the only nodes that the required node affinity can allow. `None` if it does not name nodes.
///
/// Source: kube-scheduler, plugin `NodeAffinity`, its pre-filter.
pub(super) fn named_nodes(wishes: &Wishes) -> Option<BTreeSet<&str>> {
    let terms = wishes.node_terms.as_deref().filter(|terms| !terms.is_empty())?;
    let named = |term| -> Option<BTreeSet<&str>> {
        let term: &NodeSelectorTerm = term;
        let fields = term.match_fields.iter().flatten();
        let names = fields.filter(|field| field.key == "metadata.name" && field.operator == "In");
        let sets = names.map(|field| field.values.iter().flatten().map(String::as_str).collect::<BTreeSet<&str>>());
        sets.reduce(|all, set| &all & &set)
    };
    terms.iter().map(named).try_fold(BTreeSet::new(), |all, names| names.map(|names| &all | &names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node(name: &str, labels: &[(&str, &str)]) -> NodeView {
        NodeView { name: name.into(), labels: labels.iter().copied().collect(), ..NodeView::default() }
    }

    fn wishes(selector: Value, terms: Option<Value>) -> Wishes {
        Wishes {
            node_selector: serde_json::from_value(selector).expect("a selector"),
            node_terms: terms.map(|terms| serde_json::from_value(terms).expect("terms")),
            ..Wishes::default()
        }
    }

    fn label(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
    }

    fn name(operator: &str, value: &str) -> Value {
        json!({"matchFields": [{"key": "metadata.name", "operator": operator, "values": [value]}]})
    }

    #[test]
    fn each_operator_selects_nodes() {
        let nodes = [node("a", &[("zone", "x"), ("cores", "8")]), node("b", &[("zone", "y"), ("cores", "16")]), node("c", &[])];
        let check = |selector: Value, terms: Option<Value>, expected: &[&str]| {
            let wishes = wishes(selector, terms);
            let rules = NodeRules::of(&wishes);
            let allowed: Vec<&str> = nodes.iter().filter(|node| selects(&wishes, node)).map(|node| node.name.as_str()).collect();
            assert_eq!(allowed, expected, "{wishes:?}");
            assert!(nodes.iter().all(|node| rules.allow(node) == selects(&wishes, node)));
        };
        check(json!({}), None, &["a", "b", "c"]);
        check(json!({"zone": "x"}), None, &["a"]);
        check(json!({"zone": "x"}), Some(json!([label("cores", "Gt", &["9"])])), &[]);
        check(json!({}), Some(json!([label("zone", "In", &["x", "z"])])), &["a"]);
        check(json!({}), Some(json!([label("zone", "NotIn", &["x"])])), &["b", "c"]);
        check(json!({}), Some(json!([label("zone", "Exists", &[])])), &["a", "b"]);
        check(json!({}), Some(json!([label("zone", "DoesNotExist", &[])])), &["c"]);
        check(json!({}), Some(json!([label("cores", "Gt", &["8"])])), &["b"]);
        check(json!({}), Some(json!([label("cores", "Lt", &["9"])])), &["a"]);
        check(json!({}), Some(json!([name("In", "c"), label("zone", "In", &["y"])])), &["b", "c"]);
        check(json!({}), Some(json!([name("NotIn", "c")])), &["a", "b"]);
        check(json!({}), Some(json!([{}])), &[]);
        check(json!({}), Some(json!([])), &[]);
    }

    #[test]
    fn only_terms_that_all_name_nodes_restrict_the_nodes_to_read() {
        let check = |terms: Value, expected: Option<&[&str]>| {
            let wishes = wishes(json!({}), Some(terms));
            assert_eq!(named_nodes(&wishes), expected.map(|names| names.iter().copied().collect()), "{wishes:?}");
        };
        check(json!([name("In", "a")]), Some(&["a"]));
        check(json!([name("In", "a"), name("In", "b")]), Some(&["a", "b"]));
        check(json!([name("In", "a"), label("zone", "In", &["x"])]), None);
        check(json!([name("NotIn", "a")]), None);
        let (a, b) = (name("In", "a")["matchFields"][0].clone(), name("In", "b")["matchFields"][0].clone());
        check(json!([{"matchFields": [a, b]}]), Some(&[]));
        check(json!([]), None);
    }
}
