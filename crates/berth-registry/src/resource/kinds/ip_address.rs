//! IPAddress.

use super::text::{NAME, name, text};
use crate::resource::{Column, Printed, Resource};
use berth_api::k8s_openapi::api::networking::v1::IPAddress;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::cluster::<IPAddress>().short(&["ip"])
}

impl Printed for IPAddress {
    const COLUMNS: &'static [Column] = &[NAME, text("ParentRef", "What has the address.")];

    fn cells(&self, _now: Timestamp) -> Vec<Value> {
        let parent = &self.spec.parent_ref;
        let resource = match parent.group.as_deref().unwrap_or_default() {
            "" => parent.resource.clone(),
            group => format!("{}.{group}", parent.resource),
        };
        let parts = [Some(resource), parent.namespace.clone(), Some(parent.name.clone())];
        let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        vec![json!(name(&self.metadata)), json!(parts.join("/"))]
    }
}
