//! PersistentVolumeClaim.

use super::persistent_volume::{ACCESS_MODES, ATTRIBUTES_CLASS, CAPACITY, CLASS, MODE, access_modes, capacity, class, phase};
use super::text::{AGE, NAME, age_of, name, text};
use crate::resource::{
    Column, Printed, Resource, Subresource,
    merge_rules::{MergeRule, Ssa::GranularMap, atomic, conditions, map, to},
};
use berth_api::k8s_openapi::api::core::v1::PersistentVolumeClaim;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::namespaced::<PersistentVolumeClaim>()
        .short(&["pvc"])
        .sub(&[Subresource::Status])
        .merges(MERGE_RULES)
        .always_has(json!({"spec": {"resources": {}}}))
}

const MERGE_RULES: &[MergeRule] = &[
    to("PersistentVolumeClaim", "status", "PersistentVolumeClaimStatus"),
    conditions("PersistentVolumeClaimStatus"),
    map("PersistentVolumeClaimStatus", "allocatedResourceStatuses", GranularMap),
    atomic("PersistentVolumeClaimSpec", "accessModes"),
    atomic("PersistentVolumeClaimStatus", "accessModes"),
];

impl Printed for PersistentVolumeClaim {
    const COLUMNS: &'static [Column] = &[
        NAME,
        text("Status", "Whether the claim has a volume."),
        text("Volume", "The volume that the claim is bound to."),
        CAPACITY,
        ACCESS_MODES,
        CLASS,
        ATTRIBUTES_CLASS,
        AGE,
        MODE,
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let (spec, status) = (self.spec.clone().unwrap_or_default(), self.status.clone().unwrap_or_default());
        let bound = spec.volume_name.as_deref().is_some_and(|volume| !volume.is_empty());
        let (size, modes) = if bound {
            (capacity(status.capacity.as_ref()), access_modes(status.access_modes.as_deref()))
        } else {
            (String::new(), String::new())
        };
        vec![
            json!(name(&self.metadata)),
            json!(phase(&self.metadata, status.phase.as_deref())),
            json!(spec.volume_name.as_deref().unwrap_or_default()),
            json!(size),
            json!(modes),
            json!(class(&self.metadata, spec.storage_class_name.as_deref())),
            json!(spec.volume_attributes_class_name.as_deref().unwrap_or("<unset>")),
            json!(age_of(&self.metadata, now)),
            json!(spec.volume_mode.as_deref().unwrap_or("<unset>")),
        ]
    }
}
