//! PriorityClass.

use super::text::{AGE, NAME, age_of, integer, name, or, text};
use crate::resource::{Column, Printed, Resource};
use berth_api::k8s_openapi::api::scheduling::v1::PriorityClass;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::cluster::<PriorityClass>().short(&["pc"]).always_has(json!({"value": 0}))
}

impl Printed for PriorityClass {
    const COLUMNS: &'static [Column] = &[
        NAME,
        integer("Value", "The priority; higher goes first."),
        Column { kind: "boolean", ..text("Global-Default", "Whether pods without a class have this one.") },
        AGE,
        text("PreemptionPolicy", "Whether pods of this class push others out."),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        vec![
            json!(name(&self.metadata)),
            json!(self.value.unwrap_or_default()),
            json!(self.global_default.unwrap_or_default()),
            json!(age_of(&self.metadata, now)),
            json!(or(self.preemption_policy.as_deref(), "PreemptLowerPriority")),
        ]
    }
}
