//! The volume that is provisioned for a claim.

use super::{
    DRIVER, PROVISIONED_BY, PROVISIONER,
    view::{ClaimView, ClassView},
};
use k8s_openapi::{
    api::core::v1::{CSIPersistentVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

/// The name of the volume for `claim`. It contains the claim's uid, so that a repeated create conflicts instead of adding a volume.
pub(super) fn name_for(claim: &ClaimView) -> String {
    format!("pvc-{}", claim.meta.uid)
}

/// The volume for `claim`, bound to it from the start.
pub(super) fn volume_for(claim: &ClaimView, class: &ClassView) -> PersistentVolume {
    let name = name_for(claim);
    PersistentVolume {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            annotations: Some([(PROVISIONED_BY.to_owned(), PROVISIONER.to_owned())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: Some(claim.access_modes.clone()),
            capacity: Some(
                claim.requests.iter().filter(|(name, _)| *name == "storage").map(|(name, size)| (name.clone(), size.clone())).collect(),
            ),
            claim_ref: Some(claim_ref(claim)),
            csi: Some(CSIPersistentVolumeSource { driver: DRIVER.to_owned(), volume_handle: name, ..CSIPersistentVolumeSource::default() }),
            mount_options: (!class.mount_options.is_empty()).then(|| class.mount_options.clone()),
            persistent_volume_reclaim_policy: Some(class.reclaim_policy.clone()),
            storage_class_name: Some(class.meta.name.to_string()),
            volume_mode: Some(claim.volume_mode.clone()),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}

/// A volume's reference to `claim`.
pub(super) fn claim_ref(claim: &ClaimView) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: Some(claim.meta.namespace.to_string()),
        name: Some(claim.meta.name.to_string()),
        uid: Some(claim.meta.uid.to_string()),
        resource_version: Some(claim.meta.revision.to_string()),
        ..ObjectReference::default()
    }
}
