//! ServiceCIDR.

use super::text::{AGE, NAME, age_of, name, text};
use crate::resource::{
    Column, Printed, Resource, Subresource,
    merge_rules::{MergeRule, atomic, conditions, to},
};
use berth_api::k8s_openapi::api::networking::v1::ServiceCIDR;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::cluster::<ServiceCIDR>().sub(&[Subresource::Status]).merges(MERGE_RULES)
}

const MERGE_RULES: &[MergeRule] =
    &[atomic("ServiceCIDRSpec", "cidrs"), to("ServiceCIDR", "status", "ServiceCIDRStatus"), conditions("ServiceCIDRStatus")];

impl Printed for ServiceCIDR {
    const COLUMNS: &'static [Column] = &[NAME, text("CIDRs", "The ranges that addresses are given out from."), AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let cidrs = self.spec.as_ref().and_then(|spec| spec.cidrs.clone()).unwrap_or_default();
        vec![json!(name(&self.metadata)), json!(cidrs.join(",")), json!(age_of(&self.metadata, now))]
    }
}
