//! ClusterRole.

use crate::resource::{
    Printed, Resource,
    merge_rules::{MergeRule, atomic},
};
use berth_api::k8s_openapi::api::rbac::v1::ClusterRole;

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::cluster::<ClusterRole>().put_creates().merges(MERGE_RULES)
}

const MERGE_RULES: &[MergeRule] = &[
    atomic("ClusterRole", "rules"),
    atomic("AggregationRule", "clusterRoleSelectors"),
    atomic("PolicyRule", "apiGroups"),
    atomic("PolicyRule", "nonResourceURLs"),
    atomic("PolicyRule", "resourceNames"),
    atomic("PolicyRule", "resources"),
    atomic("PolicyRule", "verbs"),
];

impl Printed for ClusterRole {}
