//! Reads the ConfigMaps and Secrets that pods reference. Nothing is cached: they are read when a pod needs them, and a resource is watched
//! only while a pod waits for one of its objects.

use super::references::{Found, FoundObjects, Referenced, key, keys_of};
use berth_controllers::{Cluster, ClusterError};
use berth_identity::{GroupResource, ObjectKey};
use event_listener::Event;
use std::collections::{BTreeMap, BTreeSet};

/// The known state of a ConfigMap or a Secret of another cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownObject {
    /// It exists, and has these keys.
    Keys(BTreeSet<String>),
    /// It exists with unknown keys, which all count as existing.
    Exists,
    /// It does not exist.
    Missing,
}

/// The known ConfigMaps and Secrets of another cluster. Others count as existing, with every key.
pub type KnownObjects = BTreeMap<(GroupResource, ObjectKey), KnownObject>;

/// The source of a node's reads.
pub(super) struct Sources {
    known: Option<KnownObjects>,
    /// Notified when a pod begins to wait.
    pub(super) wanted: Event,
}

impl Sources {
    /// Reads the cluster.
    pub(super) fn cluster() -> Self {
        Self { known: None, wanted: Event::new() }
    }

    /// Reads known objects.
    pub(super) fn known(objects: KnownObjects) -> Self {
        Self { known: Some(objects), ..Self::cluster() }
    }

    /// Finds which of the objects exist.
    ///
    /// # Errors
    /// The cluster cannot answer now.
    pub(super) async fn find(
        &self,
        cluster: &dyn Cluster,
        namespace: &str,
        objects: &BTreeSet<Referenced>,
    ) -> Result<FoundObjects, ClusterError> {
        let mut all = FoundObjects::new();
        for object in objects {
            let place = key(namespace, object);
            let found = match &self.known {
                Some(known) => known.get(&place).and_then(KnownObject::found),
                None => Some(read(cluster, &place).await?),
            };
            all.extend(found.map(|found| (object.clone(), found)));
        }
        Ok(all)
    }
}

impl KnownObject {
    /// The known state of a ConfigMap or a Secret, from its JSON.
    ///
    /// # Errors
    /// It is neither.
    pub fn with_keys_of(json: &[u8]) -> Result<Self, serde_json::Error> {
        keys_of(json).map(Self::Keys)
    }

    fn found(&self) -> Option<Found> {
        match self {
            Self::Keys(keys) => Some(Found::Keys(keys.clone())),
            Self::Exists => None,
            Self::Missing => Some(Found::Missing),
        }
    }
}

async fn read(cluster: &dyn Cluster, (resource, key): &(GroupResource, ObjectKey)) -> Result<Found, ClusterError> {
    if key.name.is_empty() {
        return Ok(Found::Missing);
    }
    match cluster.get(resource.clone(), key).await {
        Ok(None) | Err(ClusterError::NotFound(_)) => Ok(Found::Missing),
        Ok(Some(object)) => keys_of(&object.json).map(Found::Keys).map_err(|error| ClusterError::Refused(error.to_string())),
        Err(ClusterError::Refused(message)) => Ok(Found::Refused(message)),
        Err(error) => Err(error),
    }
}
