//! LimitRange.

use crate::resource::{Printed, Resource, merge_rules::atomic};
use berth_api::k8s_openapi::api::core::v1::LimitRange;
use serde_json::json;

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::namespaced::<LimitRange>()
        .short(&["limits"])
        .put_creates()
        .merges(const { &[atomic("LimitRangeSpec", "limits")] })
        .always_has(json!({"spec": {"limits": null}}))
}

impl Printed for LimitRange {}
