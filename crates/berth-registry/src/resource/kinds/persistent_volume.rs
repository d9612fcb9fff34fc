//! PersistentVolume, and columns that it has in common with claims.

use super::text::{AGE, NAME, age_of, name, text, wide};
use crate::resource::{
    Column, Printed, Resource, Subresource,
    merge_rules::{MergeRule, Ssa::GranularMap, atomic, map},
};
use berth_api::k8s_openapi::{
    api::core::v1::{ObjectReference, PersistentVolume},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The annotation that preceded the field for the class, and still precedes it in the output.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) const CLASS: Column = text("StorageClass", "The class that the volume is of.");
pub(super) const ATTRIBUTES_CLASS: Column = text("VolumeAttributesClass", "The class of the volume's changeable attributes.");
pub(super) const MODE: Column = wide("VolumeMode", "Whether the volume is a file system or a block device.");
pub(super) const CAPACITY: Column = text("Capacity", "Size of the volume.");
pub(super) const ACCESS_MODES: Column = text("Access Modes", "How the volume may be mounted.");

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::cluster::<PersistentVolume>().short(&["pv"]).sub(&[Subresource::Status]).merges(MERGE_RULES)
}

const MERGE_RULES: &[MergeRule] = &[
    map("PersistentVolumeSpec", "claimRef", GranularMap),
    atomic("PersistentVolumeSpec", "accessModes"),
    atomic("PersistentVolumeSpec", "mountOptions"),
    atomic("CephFSPersistentVolumeSource", "monitors"),
    atomic("ISCSIPersistentVolumeSource", "portals"),
    atomic("RBDPersistentVolumeSource", "monitors"),
];

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

pub(super) fn phase<'a>(meta: &ObjectMeta, phase: Option<&'a str>) -> &'a str {
    if meta.deletion_timestamp.is_some() { "Terminating" } else { phase.unwrap_or_default() }
}

pub(super) fn capacity(capacity: Option<&BTreeMap<String, Quantity>>) -> String {
    capacity.and_then(|capacity| capacity.get("storage")).map(|size| size.0.clone()).unwrap_or_default()
}

/// In a fixed order, without duplicates.
pub(super) fn access_modes(modes: Option<&[String]>) -> String {
    const SHORT: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let modes = modes.unwrap_or_default();
    let short: Vec<&str> = SHORT.iter().filter(|(mode, _)| modes.iter().any(|m| m == mode)).map(|(_, short)| *short).collect();
    short.join(",")
}

fn claim(claim: &ObjectReference) -> String {
    format!("{}/{}", claim.namespace.as_deref().unwrap_or_default(), claim.name.as_deref().unwrap_or_default())
}

pub(super) fn class<'a>(meta: &'a ObjectMeta, field: Option<&'a str>) -> &'a str {
    let annotation = meta.annotations.as_ref().and_then(|annotations| annotations.get(CLASS_ANNOTATION));
    annotation.map(String::as_str).or(field).unwrap_or_default()
}
