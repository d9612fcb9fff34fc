//! Role, ClusterRole, RoleBinding and ClusterRoleBinding. `berth-rbac` evaluates them.

use crate::{
    FeatureGates, FieldError, Kind, Path, Selector,
    faults::Faults,
    label_selector::validate_label_selector,
    names::{check_dns_subdomain, check_path_segment},
    object::{NameRule, Scope},
    unset::{list, list_mut, text},
};
use k8s_openapi::api::rbac::v1::{AggregationRule, ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject};

/// The API group of roles, and of subjects that are users or groups.
const GROUP: &str = "rbac.authorization.k8s.io";

impl Kind for Role {
    const NAME_RULE: NameRule = NameRule::PathSegment;

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_rules(list(&self.rules), Scope::Namespaced, &mut faults);
        faults.into_vec()
    }
}

impl Kind for ClusterRole {
    const NAME_RULE: NameRule = NameRule::PathSegment;

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_rules(list(&self.rules), Scope::Cluster, &mut faults);
        if let Some(rule) = &self.aggregation_rule {
            validate_aggregation(rule, &mut faults);
        }
        faults.into_vec()
    }
}

impl Kind for RoleBinding {
    const NAME_RULE: NameRule = NameRule::PathSegment;

    fn set_defaults(&mut self) {
        set_role_ref_defaults(&mut self.role_ref);
        list_mut(&mut self.subjects).iter_mut().for_each(set_subject_defaults);
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        validate_binding(&self.role_ref, &["Role", "ClusterRole"], list(&self.subjects), Scope::Namespaced)
    }

    fn validate_update(&self, old: &Self, gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Kind::validate(self, gates);
        faults.extend(validate_role_ref_kept(&self.role_ref, &old.role_ref));
        faults
    }
}

impl Kind for ClusterRoleBinding {
    const NAME_RULE: NameRule = NameRule::PathSegment;

    fn set_defaults(&mut self) {
        set_role_ref_defaults(&mut self.role_ref);
        list_mut(&mut self.subjects).iter_mut().for_each(set_subject_defaults);
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        validate_binding(&self.role_ref, &["ClusterRole"], list(&self.subjects), Scope::Cluster)
    }

    fn validate_update(&self, old: &Self, gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Kind::validate(self, gates);
        faults.extend(validate_role_ref_kept(&self.role_ref, &old.role_ref));
        faults
    }
}

fn set_role_ref_defaults(role: &mut RoleRef) {
    if text(&role.api_group).is_empty() {
        role.api_group = Some(GROUP.to_owned());
    }
}

fn set_subject_defaults(subject: &mut Subject) {
    if subject.api_group.is_none() && matches!(subject.kind.as_str(), "User" | "Group") {
        subject.api_group = Some(GROUP.to_owned());
    }
}

fn validate_rules(rules: &[PolicyRule], scope: Scope, faults: &mut Faults) {
    for (index, rule) in rules.iter().enumerate() {
        validate_rule(rule, scope, &Path::new("rules").index(index), faults);
    }
}

fn validate_rule(rule: &PolicyRule, scope: Scope, path: &Path, faults: &mut Faults) {
    if rule.verbs.is_empty() {
        faults.required(&path.child("verbs"), "verbs must contain at least one value");
    }
    let (groups, resources, urls) = (list(&rule.api_groups), list(&rule.resources), list(&rule.non_resource_urls));
    if !urls.is_empty() {
        let path = path.child("nonResourceURLs");
        if scope == Scope::Namespaced {
            faults.invalid(&path, urls.to_vec(), "namespaced rules cannot apply to non-resource URLs");
        }
        if !groups.is_empty() || !resources.is_empty() || !list(&rule.resource_names).is_empty() {
            faults.invalid(&path, urls.to_vec(), "rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    if groups.is_empty() {
        faults.required(&path.child("apiGroups"), "resource rules must supply at least one api group");
    }
    if resources.is_empty() {
        faults.required(&path.child("resources"), "resource rules must supply at least one resource");
    }
}

fn validate_aggregation(rule: &AggregationRule, faults: &mut Faults) {
    let path = Path::new("aggregationRule.clusterRoleSelectors");
    let selectors = list(&rule.cluster_role_selectors);
    if selectors.is_empty() {
        faults.required(&path, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for (index, selector) in selectors.iter().enumerate() {
        faults.add(validate_label_selector(selector, &path.index(index)));
        if Selector::from_label_selector(selector).is_err() {
            faults.invalid(&path.index(index), serde_json::Value::Null, "invalid label selector.");
        }
    }
}

fn validate_binding(role: &RoleRef, kinds: &[&str], subjects: &[Subject], scope: Scope) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let path = Path::new("roleRef");
    if text(&role.api_group) != GROUP {
        faults.add([FieldError::not_supported(&path.child("apiGroup"), text(&role.api_group), &[GROUP])]);
    }
    if !kinds.contains(&role.kind.as_str()) {
        faults.add([FieldError::not_supported(&path.child("kind"), role.kind.as_str(), kinds)]);
    }
    faults.set_form(&path.child("name"), &role.name, check_path_segment);
    for (index, subject) in subjects.iter().enumerate() {
        validate_subject(subject, scope, &Path::new("subjects").index(index), &mut faults);
    }
    faults.into_vec()
}

fn validate_subject(subject: &Subject, scope: Scope, path: &Path, faults: &mut Faults) {
    faults.set(&path.child("name"), &subject.name);
    let wants_group = |wanted: &str, faults: &mut Faults| {
        if text(&subject.api_group) != wanted {
            faults.add([FieldError::not_supported(&path.child("apiGroup"), text(&subject.api_group), &[wanted])]);
        }
    };
    match subject.kind.as_str() {
        "User" | "Group" => wants_group(GROUP, faults),
        "ServiceAccount" => {
            if !subject.name.is_empty() {
                faults.form(&path.child("name"), &subject.name, check_dns_subdomain);
            }
            wants_group("", faults);
            if scope == Scope::Cluster {
                faults.set(&path.child("namespace"), text(&subject.namespace));
            }
        }
        other => {
            faults.add([FieldError::not_supported(&path.child("kind"), other, &["ServiceAccount", "User", "Group"])]);
        }
    }
}

fn validate_role_ref_kept(new: &RoleRef, old: &RoleRef) -> Option<FieldError> {
    let changed = (text(&new.api_group), &new.kind, &new.name) != (text(&old.api_group), &old.kind, &old.name);
    let shown = || serde_json::json!({"apiGroup": text(&new.api_group), "kind": new.kind, "name": new.name});
    changed.then(|| FieldError::invalid(&Path::new("roleRef"), shown(), "cannot change roleRef"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{check_create, check_update, created, merged};
    use serde_json::{Value, json};

    fn named(patch: &Value) -> Value {
        merged(json!({"metadata": {"name": "a"}}), patch)
    }

    fn binding(patch: &Value) -> Value {
        let minimal = json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "alice"}]});
        named(&merged(minimal, patch))
    }

    #[test]
    fn groups_of_role_and_subjects_have_defaults() {
        let subjects = json!({"subjects": [
            {"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
        ]});
        let found = serde_json::to_value(created::<RoleBinding>(&binding(&subjects))).expect("JSON");
        assert_eq!(found["roleRef"]["apiGroup"], GROUP);
        let groups: Vec<&Value> = found["subjects"].as_array().into_iter().flatten().map(|subject| &subject["apiGroup"]).collect();
        assert_eq!(groups, [&json!(GROUP), &json!(GROUP), &Value::Null]);
    }

    #[test]
    fn rules_are_of_resources_or_of_paths() {
        let rule = |rule: Value| named(&json!({"rules": [rule]}));
        let of_pods = rule(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}));
        let of_paths = rule(json!({"verbs": ["get"], "nonResourceURLs": ["/metrics"]}));
        check_create::<Role>(&of_pods, &[]);
        check_create::<ClusterRole>(&of_paths, &[]);
        check_create::<Role>(
            &of_paths,
            &["rules[0].nonResourceURLs: Invalid value: [\"/metrics\"]: namespaced rules cannot apply to non-resource URLs"],
        );
        check_create::<ClusterRole>(
            &rule(json!({"verbs": []})),
            &[
                "rules[0].verbs: Required value: verbs must contain at least one value",
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[0].resources: Required value: resource rules must supply at least one resource",
            ],
        );
        check_create::<ClusterRole>(
            &rule(json!({"verbs": ["get"], "nonResourceURLs": ["/a"], "resources": ["pods"]})),
            &["rules[0].nonResourceURLs: Invalid value: [\"/a\"]: rules cannot apply to both regular resources and non-resource URLs"],
        );
        check_create::<ClusterRole>(
            &named(&json!({"aggregationRule": {"clusterRoleSelectors": [{}, {"matchExpressions": [{"key": "a", "operator": "x"}]}]}})),
            &[
                "aggregationRule.clusterRoleSelectors[1].matchExpressions[0].operator: Invalid value: \"x\": not a valid selector operator",
                "aggregationRule.clusterRoleSelectors[1]: Invalid value: null: invalid label selector.",
            ],
        );
        check_create::<ClusterRole>(
            &named(&json!({"aggregationRule": {}})),
            &[
                "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
            ],
        );
    }

    #[test]
    fn bindings_name_a_role_and_subjects_that_can_be() {
        check_create::<RoleBinding>(&binding(&json!({})), &[]);
        check_create::<ClusterRoleBinding>(
            &binding(&json!({})),
            &["roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\""],
        );
        check_create::<RoleBinding>(
            &binding(&json!({"roleRef": {"apiGroup": "x", "name": "a/b"}})),
            &[
                "roleRef.apiGroup: Unsupported value: \"x\": supported values: \"rbac.authorization.k8s.io\"",
                "roleRef.name: Invalid value: \"a/b\": may not contain '/'",
            ],
        );
        check_create::<ClusterRoleBinding>(
            &binding(&json!({"roleRef": {"kind": "ClusterRole"}, "subjects": [
                {"kind": "ServiceAccount", "name": "s"}, {"kind": "Robot", "name": "r"}, {"kind": "User", "name": "", "apiGroup": "x"},
            ]})),
            &[
                "subjects[0].namespace: Required value",
                "subjects[1].kind: Unsupported value: \"Robot\": supported values: \"ServiceAccount\", \"User\", \"Group\"",
                "subjects[2].name: Required value",
                "subjects[2].apiGroup: Unsupported value: \"x\": supported values: \"rbac.authorization.k8s.io\"",
            ],
        );
    }

    #[test]
    fn the_role_of_a_binding_stays() {
        let old = binding(&json!({}));
        check_update::<RoleBinding>(&old, &binding(&json!({"subjects": []})), &[]);
        check_update::<RoleBinding>(
            &old,
            &binding(&json!({"roleRef": {"name": "other"}})),
            &[
                "roleRef: Invalid value: {\"apiGroup\":\"rbac.authorization.k8s.io\",\"kind\":\"Role\",\"name\":\"other\"}: cannot change roleRef",
            ],
        );
    }
}
