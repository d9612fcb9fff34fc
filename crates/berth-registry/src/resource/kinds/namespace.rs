//! Namespace.

use super::text::{AGE, NAME, age_of, name, text};
use crate::resource::{
    Column, Printed, Resource, Subresource,
    merge_rules::{MergeRule, atomic, conditions, to},
};
use berth_api::k8s_openapi::api::core::v1::Namespace;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::cluster::<Namespace>()
        .short(&["ns"])
        .sub(&[Subresource::Finalize, Subresource::Status])
        .fields(&[("status.phase", "/status/phase")])
        .merges(MERGE_RULES)
        .not_deleted_in_bulk()
}

const MERGE_RULES: &[MergeRule] =
    &[to("Namespace", "status", "NamespaceStatus"), atomic("NamespaceSpec", "finalizers"), conditions("NamespaceStatus")];

impl Printed for Namespace {
    const COLUMNS: &'static [Column] = &[NAME, text("Status", "Whether the namespace is active or going."), AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let phase = self.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        vec![json!(name(&self.metadata)), json!(phase), json!(age_of(&self.metadata, now))]
    }
}
