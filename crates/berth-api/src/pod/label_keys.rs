//! The label keys of pod affinity terms and topology spread constraints become requirements of their selectors when a pod is created.
//!
//! Source: kubernetes `pkg/registry/core/pod/strategy.go`, `applyMatchLabelKeysAndMismatchLabelKeys`.

use k8s_openapi::{
    api::core::v1::{PodAffinityTerm, PodSpec},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
};
use std::collections::BTreeMap;

/// Adds the requirements for a new pod with these labels. Keys without a label of the pod, and terms without a selector, stay as they are.
pub(super) fn add_requirements(spec: &mut PodSpec, labels: &BTreeMap<String, String>) {
    if let Some(affinity) = &mut spec.affinity {
        let (near, apart) = (affinity.pod_affinity.as_mut(), affinity.pod_anti_affinity.as_mut());
        let near = near.map(|pods| {
            (&mut pods.required_during_scheduling_ignored_during_execution, &mut pods.preferred_during_scheduling_ignored_during_execution)
        });
        let apart = apart.map(|pods| {
            (&mut pods.required_during_scheduling_ignored_during_execution, &mut pods.preferred_during_scheduling_ignored_during_execution)
        });
        for (required, preferred) in near.into_iter().chain(apart) {
            let weighted = preferred.iter_mut().flatten().map(|weighted| &mut weighted.pod_affinity_term);
            required.iter_mut().flatten().chain(weighted).for_each(|term| add_to_term(term, labels));
        }
    }
    for constraint in spec.topology_spread_constraints.iter_mut().flatten() {
        add(&mut constraint.label_selector, constraint.match_label_keys.as_deref(), "In", labels);
    }
}

fn add_to_term(term: &mut PodAffinityTerm, labels: &BTreeMap<String, String>) {
    add(&mut term.label_selector, term.match_label_keys.as_deref(), "In", labels);
    add(&mut term.label_selector, term.mismatch_label_keys.as_deref(), "NotIn", labels);
}

fn add(selector: &mut Option<LabelSelector>, keys: Option<&[String]>, operator: &str, labels: &BTreeMap<String, String>) {
    let Some(selector) = selector else { return };
    for key in keys.unwrap_or_default() {
        let Some(value) = labels.get(key) else { continue };
        let requirement = LabelSelectorRequirement { key: key.clone(), operator: operator.to_owned(), values: Some(vec![value.clone()]) };
        selector.match_expressions.get_or_insert_default().push(requirement);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Recorded from a real API server.
    #[test]
    fn label_keys_become_requirements() {
        let app = || json!({"matchLabels": {"app": "p"}});
        let required = |term: serde_json::Value| json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        let of_all = json!({"labelSelector": {"matchExpressions": [{"key": "z", "operator": "Exists"}]}, "matchLabelKeys": ["v", "none"], "mismatchLabelKeys": ["app"], "topologyKey": "zone"});
        let weighted = json!([{"weight": 1, "podAffinityTerm": {"labelSelector": app(), "matchLabelKeys": ["v"], "topologyKey": "zone"}}]);
        let spec = json!({
            "affinity": {
                "podAffinity": required(of_all),
                "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted},
            },
            "containers": [],
            "topologySpreadConstraints": [
                {"labelSelector": app(), "matchLabelKeys": ["v", "none"], "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
                {"matchLabelKeys": ["v"], "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
            ],
        });
        let mut pod: PodSpec = serde_json::from_value(spec).expect("a spec");
        add_requirements(&mut pod, &[("app".to_owned(), "p".to_owned()), ("v".to_owned(), "1".to_owned())].into());
        let found = serde_json::to_value(&pod).expect("JSON");
        let (v, not_app) =
            (json!({"key": "v", "operator": "In", "values": ["1"]}), json!({"key": "app", "operator": "NotIn", "values": ["p"]}));
        let affinity = &found["affinity"];
        let of_all = &affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"];
        assert_eq!(of_all["matchExpressions"], json!([{"key": "z", "operator": "Exists"}, v, not_app]));
        let weighted = &affinity["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"];
        assert_eq!(weighted["labelSelector"], json!({"matchLabels": {"app": "p"}, "matchExpressions": [v]}));
        let constraints = &found["topologySpreadConstraints"];
        assert_eq!(constraints[0]["labelSelector"], json!({"matchLabels": {"app": "p"}, "matchExpressions": [v]}));
        assert!(constraints[1]["labelSelector"].is_null());
        let mut bare = PodSpec::default();
        add_requirements(&mut bare, &BTreeMap::new());
        assert_eq!(bare, PodSpec::default());
    }
}
