//! ClusterRoleBinding.

use super::role_binding::{COLUMNS, cells};
use crate::resource::{Column, Printed, Resource, merge_rules::atomic};
use berth_api::k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use jiff::Timestamp;
use serde_json::Value;

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::cluster::<ClusterRoleBinding>().put_creates().merges(const { &[atomic("ClusterRoleBinding", "subjects")] })
}

impl Printed for ClusterRoleBinding {
    const COLUMNS: &'static [Column] = COLUMNS;

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        cells(&self.metadata, &self.role_ref, self.subjects.as_deref().unwrap_or_default(), now)
    }
}
