//! ConfigMap.

use super::text::{AGE, NAME, age_of, name, text};
use crate::resource::{AuditedBody, Column, Printed, Resource};
use berth_api::k8s_openapi::api::core::v1::ConfigMap;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::namespaced::<ConfigMap>().short(&["cm"]).audited(AuditedBody::Never)
}

impl Printed for ConfigMap {
    const COLUMNS: &'static [Column] = &[NAME, text("Data", "How many entries it has."), AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let count = self.data.as_ref().map_or(0, BTreeMap::len) + self.binary_data.as_ref().map_or(0, BTreeMap::len);
        vec![json!(name(&self.metadata)), json!(count), json!(age_of(&self.metadata, now))]
    }
}
