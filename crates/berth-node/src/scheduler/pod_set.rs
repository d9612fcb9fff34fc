//! Sets of pods: those that a pod affinity term or a topology spread constraint is about.

use berth_api::{
    Selector, k8s_openapi::api::core::v1::PodAffinityTerm, k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement,
};
use berth_identity::Namespace;
use berth_workloads::selector::Labels;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The labels of all namespaces.
pub(super) type NamespaceLabels = BTreeMap<Namespace, Labels>;

/// Pods of some namespaces with some labels.
#[derive(Clone, Debug)]
pub struct PodSet {
    /// Identifies the set: sets with equal texts contain the same pods.
    text: Arc<str>,
    /// A pod of the set matches all of them.
    conditions: Vec<Condition>,
    /// Whether terminating pods belong to it.
    has_terminating: bool,
}

#[derive(Clone, Debug)]
struct Condition {
    namespaces: BTreeSet<Namespace>,
    namespace_selector: Option<Selector>,
    selector: Selector,
}

impl PartialEq for PodSet {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl PodSet {
    /// The pods of one namespace that are not terminating. `None` selects no pod.
    pub(super) fn active_in(namespace: &Namespace, selector: Option<Selector>) -> Self {
        let condition = Condition::new([namespace.clone()].into(), None, selector);
        Self { text: format!("active {}", condition.0).into(), conditions: vec![condition.1], has_terminating: false }
    }

    /// The pods of a term of a pod with these labels in `namespace`. Those labels that `matchLabelKeys` and `mismatchLabelKeys` name become part of
    /// the selector, unless the API server has added them already. An invalid selector selects no pod.
    pub(super) fn of_term(term: &PodAffinityTerm, namespace: &Namespace, labels: &Labels) -> Self {
        let selector = term.label_selector.as_ref().and_then(|written| {
            let mut written = written.clone();
            let expressions = written.match_expressions.get_or_insert_default();
            for (keys, operator) in [(&term.match_label_keys, "In"), (&term.mismatch_label_keys, "NotIn")] {
                for key in keys.iter().flatten() {
                    let Some(value) = labels.get(key) else { continue };
                    let added =
                        LabelSelectorRequirement { key: key.clone(), operator: operator.to_owned(), values: Some(vec![value.to_owned()]) };
                    if !expressions.contains(&added) {
                        expressions.push(added);
                    }
                }
            }
            Selector::from_label_selector(&written).ok()
        });
        let namespace_selector = term.namespace_selector.as_ref().and_then(|written| Selector::from_label_selector(written).ok());
        let mut namespaces: BTreeSet<Namespace> = term.namespaces.iter().flatten().map(Namespace::from).collect();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.insert(namespace.clone());
        }
        let (text, condition) = Condition::new(namespaces, namespace_selector, selector);
        Self { text: text.into(), conditions: vec![condition], has_terminating: true }
    }

    /// The pods that belong to each of `sets`, all of which were made by [`PodSet::of_term`].
    pub(super) fn intersection<'a>(sets: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let texts: Vec<&str> = sets.clone().map(|set| &*set.text).collect();
        let conditions = sets.flat_map(|set| &set.conditions).cloned().collect();
        Self { text: texts.join(" and ").into(), conditions, has_terminating: true }
    }

    pub(super) fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Whether a pod of `namespace` with these labels belongs to it. `deleting`: whether the pod is terminating.
    pub(super) fn contains(&self, namespace: &Namespace, labels: &Labels, deleting: bool, namespaces: &NamespaceLabels) -> bool {
        (self.has_terminating || !deleting) && self.conditions.iter().all(|condition| condition.holds(namespace, labels, namespaces))
    }

    /// A label that all its pods have, if there is one.
    pub(super) fn required_label(&self) -> Option<(&str, &str)> {
        self.conditions.iter().find_map(|condition| condition.selector.required_label())
    }

    /// Whether the labels of namespaces decide which pods belong to it.
    pub(super) fn reads_namespaces(&self) -> bool {
        self.conditions.iter().any(|condition| condition.namespace_selector.is_some())
    }
}

impl Condition {
    fn new(namespaces: BTreeSet<Namespace>, namespace_selector: Option<Selector>, selector: Option<Selector>) -> (String, Self) {
        let written = |selector: &Option<Selector>| selector.as_ref().map_or("-".to_owned(), |selector| format!("({selector})"));
        let text = format!("{namespaces:?} {} {}", written(&namespace_selector), written(&selector));
        (text, Self { namespaces, namespace_selector, selector: selector.unwrap_or_else(Selector::nothing) })
    }

    fn holds(&self, namespace: &Namespace, labels: &Labels, namespaces: &NamespaceLabels) -> bool {
        let selects_namespace = |selector: &Selector| match namespaces.get(namespace) {
            Some(labels) => selector.matches(labels),
            None => selector.matches(&Labels::default()),
        };
        self.selector.matches(labels)
            && (self.namespaces.contains(namespace) || self.namespace_selector.as_ref().is_some_and(selects_namespace))
    }
}

/// Finds the sets that a pod can belong to by a label that all their pods have.
#[derive(Debug)]
pub(super) struct SetIndex<K> {
    labeled: BTreeMap<String, BTreeMap<String, BTreeSet<K>>>,
    others: BTreeSet<K>,
}

impl<K> Default for SetIndex<K> {
    fn default() -> Self {
        Self { labeled: BTreeMap::new(), others: BTreeSet::new() }
    }
}

impl<K: Ord + Clone> SetIndex<K> {
    pub(super) fn insert(&mut self, set: &PodSet, key: K) {
        match set.required_label() {
            Some((label, value)) => {
                let values = self.labeled.entry(label.to_owned()).or_default();
                values.entry(value.to_owned()).or_default().insert(key);
            }
            None => _ = self.others.insert(key),
        }
    }

    pub(super) fn remove(&mut self, set: &PodSet, key: &K) {
        let Some((label, value)) = set.required_label() else {
            self.others.remove(key);
            return;
        };
        let Some(values) = self.labeled.get_mut(label) else { return };
        if let Some(keys) = values.get_mut(value) {
            keys.remove(key);
            if keys.is_empty() {
                values.remove(value);
            }
        }
        if values.is_empty() {
            self.labeled.remove(label);
        }
    }

    /// The keys of all sets that a pod with these labels can belong to.
    pub(super) fn candidates<'a>(&'a self, labels: &'a Labels) -> impl Iterator<Item = &'a K> + 'a {
        let labeled = labels.iter().filter_map(|(label, value)| self.labeled.get(label)?.get(value)).flatten();
        labeled.chain(&self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn set(term: Value, labels: &[(&str, &str)]) -> PodSet {
        let mut whole = json!({"topologyKey": "zone"});
        term.as_object().into_iter().flatten().for_each(|(member, value)| whole[member] = value.clone());
        PodSet::of_term(&serde_json::from_value(whole).expect("a term"), &"own".into(), &labels.iter().copied().collect())
    }

    #[test]
    fn a_term_is_about_pods_of_its_namespaces_with_its_labels() {
        let namespaces =
            NamespaceLabels::from([("own".into(), Labels::from([("team", "a")])), ("other".into(), Labels::from([("team", "b")]))]);
        let check = |term: Value, own: &[(&str, &str)], namespace: &str, labels: &[(&str, &str)], expected: bool| {
            let found = set(term.clone(), own).contains(&namespace.into(), &labels.iter().copied().collect(), false, &namespaces);
            assert_eq!(found, expected, "{term} of {own:?} and {labels:?} in {namespace}");
        };
        let app = || json!({"matchLabels": {"app": "p"}});
        let p: &[(&str, &str)] = &[("app", "p"), ("v", "1")];
        check(json!({"labelSelector": app()}), &[], "own", p, true);
        check(json!({"labelSelector": app()}), &[], "own", &[("app", "q")], false);
        check(json!({"labelSelector": app()}), &[], "other", p, false);
        check(json!({}), &[], "own", p, false);
        check(json!({"labelSelector": {}}), &[], "own", &[], true);
        check(json!({"labelSelector": app(), "namespaces": ["other"]}), &[], "other", p, true);
        check(json!({"labelSelector": app(), "namespaces": ["other"]}), &[], "own", p, false);
        check(json!({"labelSelector": app(), "namespaceSelector": {"matchLabels": {"team": "b"}}}), &[], "other", p, true);
        check(json!({"labelSelector": app(), "namespaceSelector": {"matchLabels": {"team": "b"}}}), &[], "own", p, false);
        check(json!({"labelSelector": app(), "namespaceSelector": {}}), &[], "unknown", p, true);
        check(
            json!({"labelSelector": app(), "namespaces": ["own"], "namespaceSelector": {"matchLabels": {"team": "b"}}}),
            &[],
            "own",
            p,
            true,
        );
        check(json!({"labelSelector": app(), "matchLabelKeys": ["v"]}), &[("v", "1")], "own", p, true);
        check(json!({"labelSelector": app(), "matchLabelKeys": ["v"]}), &[("v", "2")], "own", p, false);
        check(json!({"labelSelector": app(), "matchLabelKeys": ["v"]}), &[], "own", p, true);
        check(json!({"labelSelector": app(), "mismatchLabelKeys": ["v"]}), &[("v", "2")], "own", p, true);
        check(json!({"labelSelector": app(), "mismatchLabelKeys": ["v"]}), &[("v", "1")], "own", p, false);
    }

    #[test]
    fn an_index_finds_each_set_that_a_pod_belongs_to() {
        let selectors = [
            json!({}),
            json!({"matchLabels": {"a": "1"}}),
            json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}),
        ];
        let sets: Vec<PodSet> = selectors.iter().map(|selector| set(json!({"labelSelector": selector}), &[])).collect();
        let mut index = SetIndex::default();
        sets.iter().enumerate().for_each(|(key, set)| index.insert(set, key));
        let found =
            |index: &SetIndex<usize>, value: &str| index.candidates(&Labels::from([("a", value), ("b", "1")])).copied().collect::<Vec<_>>();
        assert_eq!((found(&index, "1"), found(&index, "2")), (vec![1, 0, 2], vec![0, 2]));
        sets.iter().enumerate().for_each(|(key, set)| index.remove(set, &key));
        assert!(found(&index, "1").is_empty() && index.labeled.is_empty());
    }
}
