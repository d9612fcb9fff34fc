//! Volumes, claims and classes.

use super::{
    Printed,
    text::{AGE, NAME, age_of, name, or, text, wide},
};
use crate::resource::Column;
use berth_api::k8s_openapi::{
    api::{
        core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim},
        storage::v1::StorageClass,
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Where volumes and claims named their class before the field existed; it still comes first.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const DEFAULT_CLASS_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

const CLASS: Column = text("StorageClass", "The class that the volume is of.");
const ATTRIBUTES_CLASS: Column = text("VolumeAttributesClass", "The class of the volume's changeable attributes.");
const MODE: Column = wide("VolumeMode", "Whether the volume is a file system or a block device.");
const CAPACITY: Column = text("Capacity", "Size of the volume.");
const ACCESS_MODES: Column = text("Access Modes", "How the volume may be mounted.");

impl Printed for PersistentVolume {
    const COLUMNS: &'static [Column] = &[
        NAME,
        CAPACITY,
        ACCESS_MODES,
        text("Reclaim Policy", "What becomes of the volume when its claim goes."),
        text("Status", "Whether the volume is available, bound or released."),
        text("Claim", "The claim that the volume is bound to."),
        CLASS,
        ATTRIBUTES_CLASS,
        text("Reason", "Why the volume is in its phase."),
        AGE,
        MODE,
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let (spec, status) = (self.spec.clone().unwrap_or_default(), self.status.clone().unwrap_or_default());
        vec![
            json!(name(&self.metadata)),
            json!(capacity(spec.capacity.as_ref())),
            json!(access_modes(spec.access_modes.as_deref())),
            json!(spec.persistent_volume_reclaim_policy.unwrap_or_default()),
            json!(phase(&self.metadata, status.phase.as_deref())),
            json!(spec.claim_ref.as_ref().map(claim).unwrap_or_default()),
            json!(class(&self.metadata, spec.storage_class_name.as_deref())),
            json!(spec.volume_attributes_class_name.as_deref().unwrap_or("<unset>")),
            json!(status.reason.unwrap_or_default()),
            json!(age_of(&self.metadata, now)),
            json!(spec.volume_mode.as_deref().unwrap_or("<unset>")),
        ]
    }
}

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

fn phase<'a>(meta: &ObjectMeta, phase: Option<&'a str>) -> &'a str {
    if meta.deletion_timestamp.is_some() { "Terminating" } else { phase.unwrap_or_default() }
}

fn capacity(capacity: Option<&BTreeMap<String, Quantity>>) -> String {
    capacity.and_then(|capacity| capacity.get("storage")).map(|size| size.0.clone()).unwrap_or_default()
}

/// In a fixed order, each once.
fn access_modes(modes: Option<&[String]>) -> String {
    const SHORT: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let modes = modes.unwrap_or_default();
    let short: Vec<&str> = SHORT.iter().filter(|(mode, _)| modes.iter().any(|m| m == mode)).map(|(_, short)| *short).collect();
    short.join(",")
}

fn claim(claim: &ObjectReference) -> String {
    format!("{}/{}", claim.namespace.as_deref().unwrap_or_default(), claim.name.as_deref().unwrap_or_default())
}

fn class<'a>(meta: &'a ObjectMeta, field: Option<&'a str>) -> &'a str {
    let annotation = meta.annotations.as_ref().and_then(|annotations| annotations.get(CLASS_ANNOTATION));
    annotation.map(String::as_str).or(field).unwrap_or_default()
}
