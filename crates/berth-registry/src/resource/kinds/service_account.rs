//! ServiceAccount.

use super::text::{AGE, NAME, age_of, name};
use crate::resource::{
    Column, Printed, Resource, Subresource,
    merge_rules::{MergeRule, PatchStrategy::Key, Ssa::MapOf, atomic, list},
};
use berth_api::k8s_openapi::api::core::v1::ServiceAccount;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::namespaced::<ServiceAccount>().short(&["sa"]).sub(&[Subresource::Token]).merges(MERGE_RULES)
}

const MERGE_RULES: &[MergeRule] = &[
    list("ServiceAccount", "secrets", Key("name"), MapOf(&["name"])),
    atomic("ServiceAccount", "imagePullSecrets"),
    atomic("TokenRequestSpec", "audiences"),
];

impl Printed for ServiceAccount {
    const COLUMNS: &'static [Column] = &[NAME, AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        vec![json!(name(&self.metadata)), json!(age_of(&self.metadata, now))]
    }
}
