//! Secret.

use super::text::{AGE, NAME, age_of, name, text};
use crate::resource::{AuditedBody, Column, Printed, Resource};
use berth_api::k8s_openapi::api::core::v1::Secret;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::namespaced::<Secret>().fields(&[("type", "/type")]).audited(AuditedBody::Never)
}

impl Printed for Secret {
    const COLUMNS: &'static [Column] = &[NAME, text("Type", "What the secret is for."), text("Data", "How many entries it has."), AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        vec![
            json!(name(&self.metadata)),
            json!(self.type_.as_deref().unwrap_or_default()),
            json!(self.data.as_ref().map_or(0, BTreeMap::len)),
            json!(age_of(&self.metadata, now)),
        ]
    }
}
