//! StorageClass.

use super::text::{AGE, NAME, age_of, name, or, text};
use crate::resource::{
    Column, Printed, Resource,
    merge_rules::{MergeRule, atomic},
};
use berth_api::k8s_openapi::api::storage::v1::StorageClass;
use jiff::Timestamp;
use serde_json::{Value, json};

const DEFAULT_CLASS_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::cluster::<StorageClass>().short(&["sc"]).merges(MERGE_RULES)
}

const MERGE_RULES: &[MergeRule] = &[
    atomic("StorageClass", "allowedTopologies"),
    atomic("StorageClass", "mountOptions"),
    atomic("TopologySelectorTerm", "matchLabelExpressions"),
    atomic("TopologySelectorLabelRequirement", "values"),
];

impl Printed for StorageClass {
    const COLUMNS: &'static [Column] = &[
        NAME,
        text("Provisioner", "Who makes volumes of this class."),
        text("ReclaimPolicy", "What becomes of a volume when its claim goes."),
        text("VolumeBindingMode", "When a volume is bound to its claim."),
        text("AllowVolumeExpansion", "Whether volumes can grow."),
        AGE,
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let annotations = self.metadata.annotations.as_ref();
        let default = DEFAULT_CLASS_ANNOTATIONS.iter().any(|key| annotations.and_then(|a| a.get(*key)).is_some_and(|v| v == "true"));
        vec![
            json!(format!("{}{}", name(&self.metadata), if default { " (default)" } else { "" })),
            json!(self.provisioner),
            json!(or(self.reclaim_policy.as_deref(), "Delete")),
            json!(or(self.volume_binding_mode.as_deref(), "Immediate")),
            json!(self.allow_volume_expansion.unwrap_or_default()),
            json!(age_of(&self.metadata, now)),
        ]
    }
}
