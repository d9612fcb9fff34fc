//! Sets the storage class of a new claim without one.

use super::{
    Admission,
    classes::classes,
    plug_in::{Chain, PlugIn},
    reader::Reader,
};
use crate::ApiError;
use berth_api::k8s_openapi::api::{core::v1::PersistentVolumeClaim, storage::v1::StorageClass};
use berth_store::MinRevision;

/// The annotation of the default storage class.
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
/// The annotation that preceded the field for the class.
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) struct DefaultStorageClass;

impl PlugIn for DefaultStorageClass {
    const NAME: &'static str = "DefaultStorageClass";

    async fn mutate(chain: &Chain, admission: &mut Admission<'_>) -> Result<(), ApiError> {
        let as_of = admission.as_of.clone();
        let Some(claim) = admission.created_mut::<PersistentVolumeClaim>() else { return Ok(()) };
        let names_old = claim.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(OLD_CLASS));
        let spec = claim.spec.get_or_insert_default();
        if spec.storage_class_name.is_none() && !names_old {
            spec.storage_class_name = default_storage_class(&chain.reader, &as_of).await?.and_then(|class| class.metadata.name);
        }
        Ok(())
    }
}

/// Returns the default class. Of several, the newest, then the first by name.
async fn default_storage_class(reader: &Reader, as_of: &MinRevision) -> Result<Option<StorageClass>, ApiError> {
    let mut classes: Vec<StorageClass> = classes(reader, IS_DEFAULT, as_of).await?;
    let marked = |class: &StorageClass| class.metadata.annotations.as_ref()?.get(IS_DEFAULT).map(|value| value == "true");
    classes.retain(|class| marked(class) == Some(true));
    // Keys are sorted by name, and a stable sort keeps that order among classes of the same age.
    classes.sort_by_key(|class| std::cmp::Reverse(class.metadata.creation_timestamp.as_ref().map(|at| at.0)));
    Ok(classes.into_iter().next())
}
