//! Adds finalizers that protect claims and volumes while they are in use.

use super::{
    Admission,
    plug_in::{Chain, PlugIn},
};
use crate::{ApiError, allocation::SERVICE_CIDR_PROTECTION};
use berth_api::k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim},
    networking::v1::ServiceCIDR,
};

/// Protects a claim while pods use it.
const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// Protects a volume while it is bound.
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

pub(super) struct StorageObjectInUseProtection;

impl PlugIn for StorageObjectInUseProtection {
    const NAME: &'static str = "StorageObjectInUseProtection";

    async fn mutate(_chain: &Chain, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        let finalizer = if admission.created::<PersistentVolumeClaim>().is_some() {
            CLAIM_PROTECTION
        } else if admission.created::<PersistentVolume>().is_some() {
            VOLUME_PROTECTION
        } else if admission.created::<ServiceCIDR>().is_some() {
            SERVICE_CIDR_PROTECTION
        } else {
            return Ok(());
        };
        let finalizers = admission.object.meta_mut().finalizers.get_or_insert_default();
        if !finalizers.iter().any(|present| present == finalizer) {
            finalizers.push(finalizer.to_owned());
        }
        Ok(())
    }
}
