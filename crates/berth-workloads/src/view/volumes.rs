//! What pods say of the claims that they use.

use k8s_openapi::api::core::v1::Volume;
use serde::Deserialize;
use std::collections::BTreeMap;

/// One entry of a pod's `spec.volumes`, as far as claims go.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodVolume {
    name: String,
    persistent_volume_claim: Option<PodVolumeClaim>,
}

impl PodVolume {
    /// One of a pod that is read already.
    #[must_use]
    pub fn of(volume: &Volume) -> Self {
        let claim = volume.persistent_volume_claim.as_ref();
        let persistent_volume_claim = claim.map(|claim| PodVolumeClaim { claim_name: claim.claim_name.clone() });
        Self { name: volume.name.clone(), persistent_volume_claim }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodVolumeClaim {
    claim_name: String,
}

/// The claims that a pod uses: the volume's name in the pod, and the claim's.
#[must_use]
pub fn claims_of(volumes: &[PodVolume]) -> BTreeMap<String, String> {
    let claim = |volume: &PodVolume| Some((volume.name.clone(), volume.persistent_volume_claim.as_ref()?.claim_name.clone()));
    volumes.iter().filter_map(claim).collect()
}
