//! Role.

use crate::resource::{Printed, Resource, merge_rules::atomic};
use berth_api::k8s_openapi::api::rbac::v1::Role;

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::namespaced::<Role>().put_creates().merges(const { &[atomic("Role", "rules")] })
}

impl Printed for Role {}
