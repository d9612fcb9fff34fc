//! ResourceQuota.

use super::text::{AGE, NAME, age_of, name, text};
use crate::resource::{
    Column, Printed, Resource, Subresource,
    merge_rules::{MergeRule, atomic},
};
use berth_api::k8s_openapi::api::core::v1::ResourceQuota;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::namespaced::<ResourceQuota>().short(&["quota"]).sub(&[Subresource::Status]).merges(MERGE_RULES)
}

const MERGE_RULES: &[MergeRule] = &[
    atomic("ResourceQuotaSpec", "scopes"),
    atomic("ScopeSelector", "matchExpressions"),
    atomic("ScopedResourceSelectorRequirement", "values"),
];

impl Printed for ResourceQuota {
    const COLUMNS: &'static [Column] =
        &[NAME, text("Request", "Used and allowed, of requests and counts."), text("Limit", "Used and allowed, of limits."), AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let status = self.status.clone().unwrap_or_default();
        let used = status.used.unwrap_or_default();
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        for (resource, hard) in status.hard.iter().flatten() {
            let used = used.get(resource).map_or("0", |quantity| quantity.0.as_str());
            let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
            column.push(format!("{resource}: {used}/{}", hard.0));
        }
        vec![json!(name(&self.metadata)), json!(requests.join(", ")), json!(limits.join(", ")), json!(age_of(&self.metadata, now))]
    }
}
