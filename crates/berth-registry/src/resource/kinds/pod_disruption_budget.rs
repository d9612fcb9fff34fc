//! PodDisruptionBudget.

use super::text::{AGE, NAME, age_of, int_or_string, integer, name, text};
use crate::resource::{
    Column, Printed, Resource, Subresource,
    merge_rules::{MergeRule, PatchStrategy::Replace, Ssa, conditions, list, to},
};
use berth_api::k8s_openapi::api::policy::v1::PodDisruptionBudget;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::namespaced::<PodDisruptionBudget>().short(&["pdb"]).sub(&[Subresource::Status]).merges(MERGE_RULES)
}

const MERGE_RULES: &[MergeRule] = &[
    to("PodDisruptionBudget", "spec", "PodDisruptionBudgetSpec"),
    to("PodDisruptionBudget", "status", "PodDisruptionBudgetStatus"),
    list("PodDisruptionBudgetSpec", "selector", Replace, Ssa::Granular),
    conditions("PodDisruptionBudgetStatus"),
];

impl Printed for PodDisruptionBudget {
    const COLUMNS: &'static [Column] = &[
        NAME,
        text("Min Available", "How many pods must stay available."),
        text("Max Unavailable", "How many pods may be unavailable."),
        integer("Allowed Disruptions", "How many pods may be evicted now."),
        AGE,
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let spec = self.spec.clone().unwrap_or_default();
        let allowed = self.status.as_ref().and_then(|status| status.disruptions_allowed).unwrap_or_default();
        vec![
            json!(name(&self.metadata)),
            json!(int_or_string(spec.min_available.as_ref())),
            json!(int_or_string(spec.max_unavailable.as_ref())),
            json!(allowed),
            json!(age_of(&self.metadata, now)),
        ]
    }
}
