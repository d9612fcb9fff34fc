//! Classes that an object may name, or that one is chosen from for it.

use crate::{ApiError, Registry, Resource, key, resource};
use berth_api::{
    Kind,
    k8s_openapi::api::{core::v1::PersistentVolumeClaim, scheduling::v1::PriorityClass, storage::v1::StorageClass},
};
use berth_store::{Entry, RangeRequest};

/// The annotation that makes a storage class the one for claims that name none.
const DEFAULT_STORAGE_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// The annotation that named a claim's class before the field did.
const OLD_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

impl Registry {
    /// The priority class called `name`.
    pub(super) async fn priority_class(&self, name: &str) -> Result<Option<PriorityClass>, ApiError> {
        let classes = resource::find("scheduling.k8s.io", "v1", "priorityclasses").expect("priority classes are served");
        let entry = self.store.get(&key::key_of(classes, None, name)).await?;
        entry.map(|entry| decoded(&entry)).transpose()
    }

    /// The priority class for pods that name none. Of several the one with the lowest value, as upstream.
    pub(super) async fn default_priority_class(&self) -> Result<Option<PriorityClass>, ApiError> {
        let classes = resource::find("scheduling.k8s.io", "v1", "priorityclasses").expect("priority classes are served");
        let classes: Vec<PriorityClass> = self.classes(classes, "\"globalDefault\":true").await?;
        Ok(classes.into_iter().filter(|class| class.global_default == Some(true)).min_by_key(|class| class.value))
    }

    /// Gives a claim without a class the default one, if there is one.
    pub(super) async fn admit_claim(&self, claim: &mut PersistentVolumeClaim) -> Result<(), ApiError> {
        let names_old = claim.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(OLD_STORAGE_CLASS));
        let spec = claim.spec.get_or_insert_default();
        if spec.storage_class_name.is_none() && !names_old {
            spec.storage_class_name = self.default_storage_class().await?.and_then(|class| class.metadata.name);
        }
        Ok(())
    }

    /// Of several the newest, then the first by name.
    async fn default_storage_class(&self) -> Result<Option<StorageClass>, ApiError> {
        let classes = resource::find("storage.k8s.io", "v1", "storageclasses").expect("storage classes are served");
        let mut classes: Vec<StorageClass> = self.classes(classes, DEFAULT_STORAGE_CLASS).await?;
        let marked = |class: &StorageClass| class.metadata.annotations.as_ref()?.get(DEFAULT_STORAGE_CLASS).map(|value| value == "true");
        classes.retain(|class| marked(class) == Some(true));
        // Keys are in order of names, and a stable sort keeps that order among equally new classes.
        classes.sort_by_key(|class| std::cmp::Reverse(class.metadata.creation_timestamp.as_ref().map(|at| at.0)));
        Ok(classes.into_iter().next())
    }

    /// Classes whose JSON holds `mark`: this runs for every new pod, and hardly any class is a default.
    async fn classes<K: Kind>(&self, classes: &Resource, mark: &str) -> Result<Vec<K>, ApiError> {
        let request = RangeRequest::all(key::resource_prefix(classes));
        let range = self.store.range(request).await?;
        range.entries.iter().filter(|entry| holds(&entry.value, mark)).map(|entry| decoded(entry)).collect()
    }
}

fn holds(value: &[u8], mark: &str) -> bool {
    value.windows(mark.len()).any(|window| window == mark.as_bytes())
}

/// The object of an entry, without defaults.
pub(super) fn decoded<K: Kind>(entry: &Entry) -> Result<K, ApiError> {
    berth_api::decode::decode_bytes(&entry.value)
        .map_err(|error| ApiError::Internal { message: format!("{} cannot be read: {error}", entry.key) })
}
