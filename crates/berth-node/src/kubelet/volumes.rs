//! The content of simulated volumes: an id, recorded by the first pod that mounts one, and found by every pod after it.

use berth_api::annotations::CONTENT_ID;
use berth_controllers::{
    Cluster, ClusterError,
    cache::{AnyCache, Delta},
    volume_binder::{ClaimCache, VolumeCache, claim_key},
};
use berth_env::Rng;
use berth_identity::{Namespace, ObjectKey};
use berth_workloads::{
    resources::{CLAIMS, VOLUMES},
    volume_binding::{ClaimView, VolumeView},
};
use serde_json::json;
use std::{collections::BTreeMap, fmt::Write, sync::Arc};

/// The nodes' view of claims and volumes.
pub(super) struct Volumes {
    pub(super) claims: Arc<ClaimCache>,
    pub(super) volumes: Arc<VolumeCache>,
}

/// Content ids by the names of the volumes in the pod: `data=<id>,logs=<id>` in messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Contents(BTreeMap<String, String>);

impl Default for Volumes {
    fn default() -> Self {
        Self { claims: Arc::new(ClaimCache::new(CLAIMS)), volumes: Arc::new(VolumeCache::new(VOLUMES)) }
    }
}

impl Volumes {
    /// Registers `wake`, which is called with each claim that changes, or whose volume does. Call it before the caches start.
    pub(super) fn on_change(&self, wake: impl Fn(&ObjectKey) + Send + Sync + Clone + 'static) {
        let woken = wake.clone();
        self.claims.on_change(move |delta: &Delta<ClaimView>| {
            delta.sides().take(1).for_each(|claim| woken(&claim.meta.key()));
        });
        self.volumes.on_change(move |delta: &Delta<VolumeView>| {
            delta.sides().filter_map(|volume| volume.claim_ref.as_ref()).for_each(|claim_ref| wake(&claim_key(claim_ref)));
        });
    }

    pub(super) async fn synced(&self) {
        self.claims.synced().await;
        self.volumes.synced().await;
    }

    /// The content of a pod's volumes. `None` while a claim is unbound or terminating, or its volume is not in the cache yet.
    ///
    /// # Errors
    /// A content id could not be recorded.
    pub(super) async fn mount(
        &self,
        cluster: &dyn Cluster,
        rng: &dyn Rng,
        namespace: &Namespace,
        claims: &BTreeMap<String, String>,
    ) -> Result<Option<Contents>, ClusterError> {
        let bound = claims.iter().map(|(name, claim)| Some((name, self.volume_of(&ObjectKey::new(namespace, claim))?)));
        let Some(bound) = bound.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let mut contents = Contents::default();
        for (name, volume) in bound {
            contents.0.insert(name.clone(), content(cluster, rng, &volume).await?);
        }
        Ok(Some(contents))
    }

    fn volume_of(&self, claim: &ObjectKey) -> Option<Arc<VolumeView>> {
        let claim = self.claims.get(claim).filter(|claim| claim.is_bound() && !claim.meta.deleting)?;
        self.volumes.get(&ObjectKey::cluster_scoped(&claim.volume_name)).filter(|volume| volume.is_for(&claim))
    }
}

/// The id of the volume's content. The first mount records it. The resource version ensures that only one mount is the first.
async fn content(cluster: &dyn Cluster, rng: &dyn Rng, volume: &VolumeView) -> Result<String, ClusterError> {
    if let Some(id) = volume.meta.annotations.get(CONTENT_ID) {
        return Ok(id.clone());
    }
    let mut bytes = [0; 8];
    rng.fill(&mut bytes);
    let id = format!("{:016x}", u64::from_be_bytes(bytes));
    let patch = json!({"metadata": {
        "uid": volume.meta.uid, "resourceVersion": volume.meta.revision.to_string(), "annotations": {CONTENT_ID: id},
    }});
    cluster.patch(VOLUMES, &volume.meta.key(), None, patch).await?;
    Ok(id)
}

impl Contents {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn text(&self) -> String {
        self.0.iter().fold(String::new(), |mut text, (name, id)| {
            let comma = if text.is_empty() { "" } else { "," };
            write!(text, "{comma}{name}={id}").expect("writing to a String does not fail");
            text
        })
    }
}
