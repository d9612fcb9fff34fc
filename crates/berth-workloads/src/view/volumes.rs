//! The claims that pods use, from their volumes.

use k8s_openapi::api::core::v1::Volume;
use serde::{Deserialize, de::IgnoredAny};
use std::collections::BTreeMap;

/// One entry of a pod's `spec.volumes`: the claim that it names, and whether it references other objects.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodVolume {
    name: String,
    persistent_volume_claim: Option<PodVolumeClaim>,
    config_map: Option<IgnoredAny>,
    secret: Option<IgnoredAny>,
    projected: Option<IgnoredAny>,
}

impl PodVolume {
    /// The entry for a volume of a decoded pod.
    #[must_use]
    pub fn of(volume: &Volume) -> Self {
        let claim = volume.persistent_volume_claim.as_ref();
        let persistent_volume_claim = claim.map(|claim| PodVolumeClaim { claim_name: claim.claim_name.clone() });
        Self {
            name: volume.name.clone(),
            persistent_volume_claim,
            config_map: volume.config_map.is_some().then_some(IgnoredAny),
            secret: volume.secret.is_some().then_some(IgnoredAny),
            projected: volume.projected.is_some().then_some(IgnoredAny),
        }
    }

    /// Whether its content comes, or may come, from ConfigMaps or Secrets.
    #[must_use]
    pub fn references_objects(&self) -> bool {
        [&self.config_map, &self.secret, &self.projected].into_iter().any(Option::is_some)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodVolumeClaim {
    claim_name: String,
}

/// The claims that a pod uses: the volume's name in the pod, and the claim's name.
#[must_use]
pub fn claims_of(volumes: &[PodVolume]) -> BTreeMap<String, String> {
    let claim = |volume: &PodVolume| Some((volume.name.clone(), volume.persistent_volume_claim.as_ref()?.claim_name.clone()));
    volumes.iter().filter_map(claim).collect()
}
