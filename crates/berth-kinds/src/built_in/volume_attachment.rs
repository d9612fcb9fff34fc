//! VolumeAttachment: a volume that is attached to a node. Simulated volumes need no attachment: the objects are kept for the controllers that read them.

use super::values::{at, list, native, spec, text};
use crate::{Column, Content, Definition, Names, Strategy, Version};
use berth_api::{FieldError, ObjectRules, Path, Scope, Subresource, faults::Faults, names::check_dns_subdomain, object::GenerationRule};
use serde_json::{Value, json};
use std::sync::Arc;

/// Longest name of a driver, in bytes.
const ATTACHER_BYTES_MAX: usize = 63;
/// Longest message of an error, in bytes.
const MESSAGE_BYTES_MAX: usize = 1 << 18;
/// What an inline volume cannot have.
const NOT_INLINE: [&str; 6] = ["capacity", "claimRef", "nodeAffinity", "persistentVolumeReclaimPolicy", "storageClassName", "volumeMode"];

/// The definition of the kind.
#[must_use]
pub fn volume_attachment() -> Definition {
    let column = |name: &str, description: &str, path: &str| Column { cell: at(path), ..Column::text(name, description) };
    let version = Version {
        status: true,
        columns: vec![
            Column::of_name(super::NAME_DESCRIPTION),
            Column { format: "name".to_owned(), ..column("Attacher", "The driver that attaches the volume.", ".spec.attacher") },
            column("PV", "The volume.", ".spec.source.persistentVolumeName"),
            column("Node", "The node to which the volume is attached.", ".spec.nodeName"),
            Column { kind: "boolean".to_owned(), ..column("Attached", "Whether the volume is attached.", ".status.attached") },
            Column::age(),
        ],
        ..Version::default()
    };
    Definition {
        rules: ObjectRules { generation_rule: GenerationRule::None, requires_resource_version: true, ..super::rules() },
        empty: json!({"metadata": {}, "spec": {"attacher": "", "nodeName": "", "source": {}}, "status": {"attached": false}}),
        strategy: Some(Arc::new(Attachments)),
        ..native::<k8s_openapi::api::storage::v1::VolumeAttachment>(
            "storage.k8s.io",
            Names::of("VolumeAttachment", "volumeattachments"),
            Scope::Cluster,
            version,
            &[TYPES],
        )
    }
}

struct Attachments;

impl Strategy for Attachments {
    fn validate(&self, attachment: &Content) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let (path, spec) = (Path::new("spec"), spec(attachment));
        let attacher = text(spec, "attacher");
        if faults.set(&path.child("attacher"), attacher) {
            if ATTACHER_BYTES_MAX < attacher.len() {
                faults.add([FieldError::too_long(&path.child("attacher"), ATTACHER_BYTES_MAX)]);
            }
            for why in check_dns_subdomain(&attacher.to_lowercase()) {
                faults.invalid(&path.child("attacher"), attacher, why);
            }
        }
        validate_source(&spec["source"], &path.child("source"), &mut faults);
        faults.form(&path.child("nodeName"), text(spec, "nodeName"), check_dns_subdomain);
        validate_status(&attachment.members()["status"], &mut faults);
        faults.into_vec()
    }

    fn validate_update(&self, attachment: &Content, old: &Content, _: Option<Subresource>) -> Vec<FieldError> {
        let mut faults = Faults::default();
        faults.add(self.validate(attachment));
        if spec(attachment) != spec(old) {
            faults.invalid(&Path::new("spec"), spec(attachment).clone(), "field is immutable");
        }
        faults.into_vec()
    }
}

/// Source: upstream `validateVolumeAttachmentSource`.
fn validate_source(source: &Value, path: &Path, faults: &mut Faults) {
    let one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let (volume, name) = (source.get("inlineVolumeSpec"), source.get("persistentVolumeName").and_then(Value::as_str));
    match (volume, name) {
        (None, None) => faults.required(path, one),
        (Some(_), Some(_)) => faults.forbidden(path, one),
        _ => (),
    }
    if let Some(name) = name {
        let path = path.child("persistentVolumeName");
        if name.is_empty() {
            faults.required(&path, "must specify non empty persistentVolumeName");
        }
        faults.form(&path, name, check_dns_subdomain);
    }
    if let (Some(volume), None) = (volume, name) {
        validate_inline(volume, &path.child("inlineVolumeSpec"), faults);
    }
}

/// Source: upstream `ValidatePersistentVolumeSpec`, for a volume in an attachment.
fn validate_inline(volume: &Value, path: &Path, faults: &mut Faults) {
    for field in NOT_INLINE.into_iter().filter(|field| volume.get(field).is_some()) {
        faults.forbidden(&path.child(field), "may not be specified in the context of inline volumes");
    }
    if volume.get("csi").is_none() {
        faults.required(&path.child("csi"), "has to be specified in the context of inline volumes");
    }
    if list(volume, "accessModes").is_empty() {
        faults.required(&path.child("accessModes"), "");
    }
}

fn validate_status(status: &Value, faults: &mut Faults) {
    for field in ["attachError", "detachError"] {
        let Some(error) = status.get(field) else { continue };
        let path = Path::new("status").child(field);
        if MESSAGE_BYTES_MAX < text(error, "message").len() {
            faults.add([FieldError::too_long(&path.child("message"), MESSAGE_BYTES_MAX)]);
        }
        if let Some(code) = error.get("errorCode").and_then(Value::as_i64) {
            faults.within(&path.child("errorCode"), code, (0, i64::from(i32::MAX)));
        }
    }
}

/// Its types as OpenAPI publishes them, without their descriptions, which are `k8s-openapi`'s. The marks are for what upstream's Go types leave out and what they always write.
const TYPES: &str = include_str!("volume_attachment.json");
