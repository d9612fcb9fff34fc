//! Lease.

use super::text::{AGE, NAME, age_of, name, text};
use crate::resource::{Column, Printed, Resource};
use berth_api::k8s_openapi::api::coordination::v1::Lease;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::namespaced::<Lease>().put_creates().rarely_read()
}

impl Printed for Lease {
    const COLUMNS: &'static [Column] = &[NAME, text("Holder", "Who holds the lease."), AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let holder = self.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
        vec![json!(name(&self.metadata)), json!(holder), json!(age_of(&self.metadata, now))]
    }
}
