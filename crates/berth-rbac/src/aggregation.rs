//! Cluster roles that are made of others.

use berth_api::{
    Selector,
    k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule},
};

/// The rules that `role` gathers from `all`: those of every role that one of its selectors takes, selector by selector, by name, each
/// once. `None`: it gathers none, its rules are its own.
///
/// Source: kubernetes `clusterroleaggregation_controller.go`.
#[must_use]
pub fn aggregated_rules<'a>(role: &ClusterRole, all: impl Iterator<Item = &'a ClusterRole> + Clone) -> Option<Vec<PolicyRule>> {
    let selectors = role.aggregation_rule.as_ref()?.cluster_role_selectors.as_deref().unwrap_or_default();
    let mut rules: Vec<PolicyRule> = Vec::new();
    for selector in selectors.iter().filter_map(|selector| Selector::from_label_selector(selector).ok()) {
        let mut taken: Vec<&ClusterRole> = all.clone().filter(|other| is_another(other, role) && is_taken(other, &selector)).collect();
        taken.sort_by_key(|role| &role.metadata.name);
        for rule in taken.iter().flat_map(|role| role.rules.iter().flatten()) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    Some(rules)
}

fn is_another(role: &ClusterRole, than: &ClusterRole) -> bool {
    role.metadata.name != than.metadata.name
}

fn is_taken(role: &ClusterRole, selector: &Selector) -> bool {
    selector.matches(&role.metadata.labels.as_ref())
}

/// Those of `roles` whose rules are not what they gather, as they should be. Roles may gather roles that gather: each takes what the ones
/// before it have come to, again until nothing changes.
#[must_use]
pub fn stale_aggregates(mut roles: Vec<ClusterRole>) -> Vec<ClusterRole> {
    let before = roles.clone();
    // One round a level of gathering; roles that gather each other settle, or are left as they are.
    for _ in 0..roles.len() {
        let mut changed = false;
        for index in 0..roles.len() {
            let Some(rules) = aggregated_rules(&roles[index], roles.iter()) else { continue };
            if roles[index].rules.as_deref().unwrap_or_default() != rules {
                roles[index].rules = Some(rules);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    roles.into_iter().zip(before).filter(|(role, before)| role.rules != before.rules).map(|(role, _)| role).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn role(value: Value) -> ClusterRole {
        serde_json::from_value(value).expect("a role")
    }

    fn part(name: &str, label: &str, verb: &str) -> ClusterRole {
        let rules = json!([{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}]);
        role(json!({"metadata": {"name": name, "labels": {label: "true"}}, "rules": rules}))
    }

    fn verbs(of: &ClusterRole, all: &[ClusterRole]) -> Option<Vec<String>> {
        Some(aggregated_rules(of, all.iter())?.into_iter().flat_map(|rule| rule.verbs).collect())
    }

    #[test]
    fn gathered_roles_are_gathered_on_and_a_second_time_nothing_is_stale() {
        let gathers = |name: &str, label: &str, from: &str| {
            role(json!({"metadata": {"name": name, "labels": {label: "true"}},
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {from: "true"}}]}}))
        };
        let all = vec![gathers("a", "top", "mid"), gathers("b", "mid", "low"), part("c", "low", "get")];
        let stale = stale_aggregates(all.clone());
        let names: Vec<&str> = stale.iter().filter_map(|role| role.metadata.name.as_deref()).collect();
        assert_eq!(names, ["a", "b"]);
        let settled = vec![stale[0].clone(), stale[1].clone(), all[2].clone()];
        assert_eq!(stale[0].rules, all[2].rules);
        assert_eq!(stale_aggregates(settled), []);
        let mutual = vec![gathers("a", "x", "y"), gathers("b", "y", "x")];
        assert_eq!(stale_aggregates(mutual), []);
    }

    #[test]
    fn selected_roles_are_gathered_by_name_once_and_without_itself() {
        let selectors = json!([{"matchLabels": {"x": "true"}}, {"matchLabels": {"y": "true"}}]);
        let whole =
            role(json!({"metadata": {"name": "w", "labels": {"x": "true"}}, "aggregationRule": {"clusterRoleSelectors": selectors},
            "rules": [{"verbs": ["old"], "apiGroups": [""], "resources": ["pods"]}]}));
        let all = [part("b", "x", "list"), part("a", "x", "get"), part("c", "y", "get"), part("d", "z", "watch"), whole.clone()];
        assert_eq!(verbs(&whole, &all), Some(vec!["get".to_owned(), "list".to_owned()]));
        assert_eq!(verbs(&all[0], &all), None);
    }
}
