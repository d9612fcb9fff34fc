//! The roles and bindings that clients of Kubernetes count on, for the kinds that berth serves, and how those of a store that has them
//! already are brought up to date.
//!
//! Source: kubernetes `bootstrappolicy/policy.go`, `reconciliation/reconcile_role.go`.

use crate::{AUTHENTICATED, GROUP, MASTERS, SERVICE_ACCOUNTS, UNAUTHENTICATED, stale_aggregates, uncovered};
use berth_api::k8s_openapi::{
    api::rbac::v1::{AggregationRule, ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use std::collections::BTreeMap;

/// `false` on a role or binding: it is left as it is.
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const CREATE: &[&str] = &["create"];

const HEALTH_PATHS: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];
const DISCOVERY_PATHS: &[&str] =
    &["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version", "/version/"];
const ISSUER_PATHS: &[&str] =
    &["/.well-known/openid-configuration", "/.well-known/openid-configuration/", "/openid/v1/jwks", "/openid/v1/jwks/"];
const MONITORING_PATHS: &[&str] = &["/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/readyz", "/readyz/*"];

/// The user of the requests of `berth up`'s page, and the name of the role and the binding with its permissions. A server has them after a user has
/// first opened the page.
pub const DASHBOARD: &str = "berth:dashboard";

/// What the page of `berth up` may: read what it shows, and change workloads by patches, which is what its actions are. Less than `edit`, which reads Secrets.
#[must_use]
pub fn dashboard_role() -> ClusterRole {
    let core = ["events", "nodes", "persistentvolumeclaims", "pods", "resourcequotas"];
    let apps = ["controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"];
    let changed = ["daemonsets", "deployments", "statefulsets"];
    let rules = vec![rule("", &core, READ), rule("apps", &apps, READ), rule("apps", &changed, &["patch"])];
    role(DASHBOARD, rules)
}

/// Whose that is.
#[must_use]
pub fn dashboard_binding() -> ClusterRoleBinding {
    let user = Subject { api_group: Some(GROUP.to_owned()), kind: "User".to_owned(), name: DASHBOARD.to_owned(), namespace: None };
    ClusterRoleBinding { subjects: Some(vec![user]), ..binding(DASHBOARD, &[]) }
}

/// Every cluster role that a server has from the start, aggregated ones filled.
#[must_use]
pub fn cluster_roles() -> Vec<ClusterRole> {
    let mut roles = unfilled_roles();
    for filled in stale_aggregates(roles.clone()) {
        roles.iter_mut().filter(|role| role.metadata.name == filled.metadata.name).for_each(|role| role.clone_from(&filled));
    }
    roles
}

fn unfilled_roles() -> Vec<ClusterRole> {
    vec![
        role("cluster-admin", crate::everything()),
        // Of those that gather, each comes behind what it gathers: they are made in this order.
        part("view", view_rules()),
        part("edit", edit_rules()),
        part("admin", admin_rules()),
        metrics_reader(),
        aggregate("view", &["edit"], "view"),
        aggregate("edit", &["admin"], "edit"),
        aggregate("admin", &[], "admin"),
        role("system:basic-user", basic_user_rules()),
        role("system:discovery", vec![paths(DISCOVERY_PATHS)]),
        role("system:monitoring", vec![paths(MONITORING_PATHS)]),
        role("system:public-info-viewer", vec![paths(HEALTH_PATHS)]),
        role("system:service-account-issuer-discovery", vec![paths(ISSUER_PATHS)]),
        role("system:auth-delegator", auth_delegator_rules()),
        approver("kube-apiserver-client"),
        approver("kube-apiserver-client-kubelet"),
        approver("kubelet-serving"),
        approver("legacy-unknown"),
    ]
}

/// Every cluster role binding that a server has from the start.
#[must_use]
pub fn cluster_role_bindings() -> Vec<ClusterRoleBinding> {
    vec![
        binding("cluster-admin", &[MASTERS]),
        binding("system:basic-user", &[AUTHENTICATED]),
        binding("system:discovery", &[AUTHENTICATED]),
        binding("system:monitoring", &["system:monitoring"]),
        binding("system:public-info-viewer", &[AUTHENTICATED, UNAUTHENTICATED]),
        binding("system:service-account-issuer-discovery", &[SERVICE_ACCOUNTS]),
    ]
}

fn view_rules() -> Vec<PolicyRule> {
    let core = [
        "configmaps",
        "endpoints",
        "events",
        "limitranges",
        "namespaces",
        "namespaces/status",
        "persistentvolumeclaims",
        "persistentvolumeclaims/status",
        "pods",
        "pods/log",
        "pods/status",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "replicationcontrollers/status",
        "resourcequotas",
        "resourcequotas/status",
        "serviceaccounts",
        "services",
        "services/status",
    ];
    let apps = [
        "controllerrevisions",
        "daemonsets",
        "daemonsets/status",
        "deployments",
        "deployments/scale",
        "deployments/status",
        "replicasets",
        "replicasets/scale",
        "replicasets/status",
        "statefulsets",
        "statefulsets/scale",
        "statefulsets/status",
    ];
    vec![
        rule("", &core, READ),
        rule("apps", &apps, READ),
        rule("autoscaling", &["horizontalpodautoscalers", "horizontalpodautoscalers/status"], READ),
        rule("batch", &["cronjobs", "cronjobs/status", "jobs", "jobs/status"], READ),
        rule("discovery.k8s.io", &["endpointslices"], READ),
        rule("events.k8s.io", &["events"], READ),
        rule("networking.k8s.io", &["ingresses", "ingresses/status", "networkpolicies"], READ),
        rule("policy", &["poddisruptionbudgets", "poddisruptionbudgets/status"], READ),
        rule("resource.k8s.io", &["resourceclaims", "resourceclaims/status", "resourceclaimtemplates"], READ),
    ]
}

fn edit_rules() -> Vec<PolicyRule> {
    let core = [
        "configmaps",
        "events",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "secrets",
        "serviceaccounts",
        "services",
    ];
    // They are refused, but for a reason that those who would have them may know.
    let connections = ["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "services/proxy"];
    let apps = ["daemonsets", "deployments", "deployments/scale", "replicasets", "replicasets/scale", "statefulsets", "statefulsets/scale"];
    vec![
        rule("", &["secrets"], READ),
        rule("", &connections, READ),
        rule("", &["serviceaccounts"], &["impersonate"]),
        rule("", &core, WRITE),
        rule("", &connections, WRITE),
        rule("", &["pods/eviction", "serviceaccounts/token"], CREATE),
        rule("apps", &apps, WRITE),
        rule("autoscaling", &["horizontalpodautoscalers"], WRITE),
        rule("batch", &["cronjobs", "jobs"], WRITE),
        rule("coordination.k8s.io", &["leases"], ALL),
        rule("networking.k8s.io", &["ingresses", "networkpolicies"], WRITE),
        rule("policy", &["poddisruptionbudgets"], WRITE),
        rule("resource.k8s.io", &["resourceclaims", "resourceclaimtemplates"], WRITE),
    ]
}

fn admin_rules() -> Vec<PolicyRule> {
    vec![rule("authorization.k8s.io", &["localsubjectaccessreviews"], CREATE), rule(GROUP, &["rolebindings", "roles"], ALL)]
}

/// The role that metrics-server brings: users who may view may read the usage of pods and nodes.
fn metrics_reader() -> ClusterRole {
    let mut reader = role("system:aggregated-metrics-reader", vec![rule("metrics.k8s.io", &["nodes", "pods"], READ)]);
    label(&mut reader, &["admin", "edit", "view"]);
    reader
}

fn basic_user_rules() -> Vec<PolicyRule> {
    vec![
        rule("authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"], CREATE),
        rule("authentication.k8s.io", &["selfsubjectreviews"], CREATE),
    ]
}

fn auth_delegator_rules() -> Vec<PolicyRule> {
    vec![rule("authentication.k8s.io", &["tokenreviews"], CREATE), rule("authorization.k8s.io", &["subjectaccessreviews"], CREATE)]
}

/// Who may approve requests for certificates of one of Kubernetes' signers.
fn approver(signer: &str) -> ClusterRole {
    let signers = PolicyRule {
        resource_names: Some(vec![format!("kubernetes.io/{signer}")]),
        ..rule("certificates.k8s.io", &["signers"], &["approve"])
    };
    role(&format!("system:certificates.k8s.io:{signer}-approver"), vec![signers])
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    PolicyRule { api_groups: Some(owned(&[group])), resources: Some(owned(resources)), verbs: owned(verbs), ..PolicyRule::default() }
}

fn paths(paths: &[&str]) -> PolicyRule {
    PolicyRule { non_resource_urls: Some(owned(paths)), verbs: owned(&["get"]), ..PolicyRule::default() }
}

fn meta(name: &str) -> ObjectMeta {
    let pair = |key: &str, value: &str| Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: pair("kubernetes.io/bootstrapping", "rbac-defaults"),
        annotations: pair(AUTOUPDATE, "true"),
        ..ObjectMeta::default()
    }
}

fn role(name: &str, rules: Vec<PolicyRule>) -> ClusterRole {
    ClusterRole { metadata: meta(name), rules: Some(rules), aggregation_rule: None }
}

/// The label of roles that are gathered into `target`.
fn aggregation_label(target: &str) -> String {
    format!("rbac.authorization.k8s.io/aggregate-to-{target}")
}

fn label(role: &mut ClusterRole, targets: &[&str]) {
    let labels = role.metadata.labels.get_or_insert_default();
    labels.extend(targets.iter().map(|target| (aggregation_label(target), "true".to_owned())));
}

/// A role that aggregates those labeled for `target`, and is itself aggregated into `into`.
fn aggregate(name: &str, into: &[&str], target: &str) -> ClusterRole {
    let match_labels = Some(BTreeMap::from([(aggregation_label(target), "true".to_owned())]));
    let selector = LabelSelector { match_labels, ..LabelSelector::default() };
    let mut role = role(name, Vec::new());
    role.aggregation_rule = Some(AggregationRule { cluster_role_selectors: Some(vec![selector]) });
    label(&mut role, into);
    role
}

/// What berth's own kinds add to one of the user-facing roles.
fn part(target: &str, rules: Vec<PolicyRule>) -> ClusterRole {
    let mut role = role(&format!("system:aggregate-to-{target}"), rules);
    label(&mut role, &[target]);
    role
}

fn binding(role: &str, groups: &[&str]) -> ClusterRoleBinding {
    let group =
        |name: &&str| Subject { api_group: Some(GROUP.to_owned()), kind: "Group".to_owned(), name: (*name).to_owned(), namespace: None };
    ClusterRoleBinding {
        metadata: meta(role),
        role_ref: RoleRef { api_group: Some(GROUP.to_owned()), kind: "ClusterRole".to_owned(), name: role.to_owned() },
        subjects: Some(groups.iter().map(group).collect()),
    }
}

/// `existing` with what `wanted` has more: rules, labels, annotations. What an administrator added stays. `None`: nothing is missing, or
/// the role is not to be touched.
#[must_use]
pub fn updated_role(existing: &ClusterRole, wanted: &ClusterRole) -> Option<ClusterRole> {
    let mut role = existing.clone();
    update_meta(&mut role.metadata, &wanted.metadata)?;
    role.aggregation_rule.clone_from(&wanted.aggregation_rule);
    if wanted.aggregation_rule.is_none() {
        let missing = uncovered(existing.rules.as_deref().unwrap_or_default(), wanted.rules.as_deref().unwrap_or_default());
        role.rules.get_or_insert_default().extend(crate::compact(&missing));
    }
    (role != *existing).then_some(role)
}

/// What an existing binding becomes.
#[derive(Clone, Debug, PartialEq)]
pub enum BindingUpdate {
    /// It stays.
    Keep,
    /// It gets subjects, labels or annotations that it lacks.
    Replace(Box<ClusterRoleBinding>),
    /// It binds another role, which cannot be changed: it is deleted and recreated.
    Recreate,
}

/// As [`updated_role`], for a binding.
#[must_use]
pub fn updated_binding(existing: &ClusterRoleBinding, wanted: &ClusterRoleBinding) -> BindingUpdate {
    let mut binding = existing.clone();
    if update_meta(&mut binding.metadata, &wanted.metadata).is_none() {
        return BindingUpdate::Keep;
    }
    if existing.role_ref != wanted.role_ref {
        return BindingUpdate::Recreate;
    }
    let subjects = binding.subjects.get_or_insert_default();
    for subject in wanted.subjects.iter().flatten() {
        if !subjects.contains(subject) {
            subjects.push(subject.clone());
        }
    }
    if binding == *existing { BindingUpdate::Keep } else { BindingUpdate::Replace(Box::new(binding)) }
}

/// Adds missing labels and annotations; `None`: the object is not to be touched.
fn update_meta(existing: &mut ObjectMeta, wanted: &ObjectMeta) -> Option<()> {
    let annotations = existing.annotations.get_or_insert_default();
    if annotations.get(AUTOUPDATE).is_some_and(|value| value == "false") {
        return None;
    }
    let labels = existing.labels.get_or_insert_default();
    let missing = |from: &Option<BTreeMap<String, String>>, to: &mut BTreeMap<String, String>| {
        for (key, value) in from.iter().flatten() {
            to.entry(key.clone()).or_insert_with(|| value.clone());
        }
    };
    missing(&wanted.annotations, annotations);
    missing(&wanted.labels, labels);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attributes, PathAttributes, Policy, ResourceAttributes, User};

    fn policy() -> Policy {
        let mut policy = Policy::default();
        cluster_roles().into_iter().for_each(|role| policy.put_cluster_role(role));
        cluster_role_bindings().into_iter().for_each(|binding| policy.put_binding(binding.into()));
        for name in ["admin", "edit", "view"] {
            let mut bound = binding(name, &[name]);
            bound.metadata.name = Some(format!("to-{name}"));
            policy.put_binding(bound.into());
        }
        policy
    }

    fn allows(policy: &Policy, groups: &[&str], verb: &str, group: &str, resource: &str) -> bool {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let user = User { name: "u".to_owned(), groups: owned(groups), ..User::default() };
        let attributes = ResourceAttributes { verb, group, resource, subresource, namespace: "n", name: "" };
        policy.grant(&user, &attributes.into()).is_some()
    }

    #[test]
    fn user_facing_roles_contain_each_other() {
        let policy = policy();
        for (verb, group, resource, may) in [
            ("get", "apps", "deployments", "admin edit view"),
            ("get", "", "pods", "admin edit view"),
            ("get", "batch", "jobs/status", "admin edit view"),
            ("create", "batch", "cronjobs", "admin edit"),
            ("patch", "apps", "daemonsets", "admin edit"),
            ("update", "", "replicationcontrollers/scale", "admin edit"),
            ("create", "", "podtemplates", ""),
            ("get", "", "secrets", "admin edit"),
            ("update", "apps", "deployments/scale", "admin edit"),
            ("create", "", "pods/eviction", "admin edit"),
            ("get", "", "pods/log", "admin edit view"),
            ("create", "", "pods/exec", "admin edit"),
            ("get", "", "pods/portforward", "admin edit"),
            ("patch", "", "pods/ephemeralcontainers", ""),
            ("create", "", "serviceaccounts/token", "admin edit"),
            ("create", "rbac.authorization.k8s.io", "rolebindings", "admin"),
            ("create", "authorization.k8s.io", "localsubjectaccessreviews", "admin"),
            ("update", "", "pods/status", ""),
            ("create", "", "namespaces", ""),
            ("get", "", "nodes", ""),
            ("get", "discovery.k8s.io", "endpointslices", "admin edit view"),
            ("update", "discovery.k8s.io", "endpointslices", ""),
            ("update", "", "endpoints", ""),
            ("get", "networking.k8s.io", "ipaddresses", ""),
            ("bind", "rbac.authorization.k8s.io", "roles", ""),
            ("create", "rbac.authorization.k8s.io", "clusterrolebindings", ""),
        ] {
            let allowed: Vec<&str> =
                ["admin", "edit", "view"].into_iter().filter(|name| allows(&policy, &[name], verb, group, resource)).collect();
            assert_eq!(allowed.join(" "), may, "{verb} {resource}");
        }
        assert!(allows(&policy, &[MASTERS], "anything", "any", "thing"));
        assert!(allows(&policy, &[AUTHENTICATED], "create", "authorization.k8s.io", "selfsubjectaccessreviews"));
    }

    #[test]
    fn the_page_reads_what_it_shows_and_changes_workloads_and_nothing_else() {
        let mut policy = policy();
        let user = User::authenticated(DASHBOARD, &[]);
        let may = |policy: &Policy, verb: &str, group: &str, resource: &str| {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let attributes = ResourceAttributes { verb, group, resource, subresource, namespace: "n", name: "" };
            policy.grant(&user, &attributes.into()).is_some()
        };
        assert!(!may(&policy, "list", "", "pods"), "nothing before the first sign-in");
        policy.put_cluster_role(dashboard_role());
        policy.put_binding(dashboard_binding().into());
        for resource in ["events", "nodes", "persistentvolumeclaims", "pods", "resourcequotas"] {
            assert!(READ.iter().all(|verb| may(&policy, verb, "", resource)), "{resource}");
            assert!(!WRITE.iter().any(|verb| may(&policy, verb, "", resource)), "{resource}");
        }
        for (resource, verbs) in [
            ("deployments", "get list patch watch"),
            ("statefulsets", "get list patch watch"),
            ("daemonsets", "get list patch watch"),
            ("replicasets", "get list watch"),
            ("controllerrevisions", "get list watch"),
            ("deployments/scale", ""),
            ("deployments/status", ""),
        ] {
            let allowed: Vec<&str> = ALL.iter().copied().filter(|verb| may(&policy, verb, "apps", resource)).collect();
            assert_eq!(allowed.join(" "), verbs, "{resource}");
        }
        for (group, resource) in [
            ("", "secrets"),
            ("", "configmaps"),
            ("", "pods/exec"),
            ("", "serviceaccounts/token"),
            (GROUP, "clusterroles"),
            (GROUP, "roles"),
        ] {
            assert!(!ALL.iter().any(|verb| may(&policy, verb, group, resource)), "{resource}");
        }
    }

    #[test]
    fn anonymous_users_see_health_and_version_others_discovery_too() {
        let policy = policy();
        let may = |user: &User, path| policy.grant(user, &Attributes::Path(PathAttributes { verb: "get", path })).is_some();
        let (anonymous, alice) = (User::anonymous(), User::authenticated("alice", &[]));
        for path in ["/healthz", "/livez", "/readyz", "/version"] {
            assert!(may(&anonymous, path) && may(&alice, path), "{path}");
        }
        for path in ["/api", "/api/v1", "/apis/apps/v1", "/openapi/v3"] {
            assert!(!may(&anonymous, path) && may(&alice, path), "{path}");
        }
        assert!(!may(&alice, "/metrics") && !may(&alice, "/apisx") && !may(&alice, "/openid/v1/jwks"));
        assert!(may(&User::service_account("n", "s", ""), "/openid/v1/jwks"));
    }

    #[test]
    fn missing_rules_are_added_and_others_stay() {
        let wanted = role("r", vec![rule("", &["pods"], &["get", "list"]), rule("", &["nodes"], READ)]);
        assert_eq!(updated_role(&wanted, &wanted), None);
        let mut existing = role("r", vec![rule("", &["pods"], &["get"]), rule("", &["secrets"], READ)]);
        existing.metadata.labels = None;
        let updated = updated_role(&existing, &wanted).expect("rules are missing");
        assert!(uncovered(updated.rules.as_deref().unwrap_or_default(), wanted.rules.as_deref().unwrap_or_default()).is_empty());
        assert!(uncovered(updated.rules.as_deref().unwrap_or_default(), existing.rules.as_deref().unwrap_or_default()).is_empty());
        assert_eq!(updated.metadata.labels, wanted.metadata.labels);
        assert_eq!(updated_role(&updated, &wanted), None);
        existing.metadata.annotations = Some(BTreeMap::from([(AUTOUPDATE.to_owned(), "false".to_owned())]));
        assert_eq!(updated_role(&existing, &wanted), None);
    }

    #[test]
    fn missing_subjects_are_added_and_another_role_is_replaced() {
        let wanted = binding("r", &["a", "b"]);
        assert_eq!(updated_binding(&wanted, &wanted), BindingUpdate::Keep);
        let BindingUpdate::Replace(updated) = updated_binding(&binding("r", &["c", "b"]), &wanted) else { panic!("a subject is missing") };
        let names: Vec<&str> = updated.subjects.iter().flatten().map(|subject| subject.name.as_str()).collect();
        assert_eq!(names, ["c", "b", "a"]);
        assert_eq!(updated_binding(&binding("other", &["a", "b"]), &wanted), BindingUpdate::Recreate);
    }
}
