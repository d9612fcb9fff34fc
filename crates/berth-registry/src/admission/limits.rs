//! `LimitRange`: new pods get requests and limits, and pods and claims that pass a bound are refused.

use super::classes::decoded;
use crate::{ApiError, Collection, Registry, Resource, key, resource};
use berth_api::{
    Object,
    k8s_openapi::api::core::v1::{LimitRange, PersistentVolumeClaim, Pod},
    limit_range,
};
use berth_store::RangeRequest;
use std::sync::Arc;

impl Registry {
    /// The limit ranges that an object has to keep to: those of its namespace for pods and claims, none for all else.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn limit_ranges(&self, namespace: Option<&str>, object: &dyn Object) -> Result<Vec<LimitRange>, ApiError> {
        let is_limited = object.as_any().is::<Pod>() || object.as_any().is::<PersistentVolumeClaim>();
        let Some(namespace) = namespace.filter(|_| is_limited) else { return Ok(Vec::new()) };
        let ranges = resource::by_name("", "limitranges").expect("limit ranges are served");
        let at = Collection { resource: Arc::clone(ranges), namespace: Some(namespace.to_owned()) };
        let request = RangeRequest::all(key::prefix(&at));
        self.store.range(request).await?.entries.iter().map(|entry| decoded(entry)).collect()
    }

    /// A claim that asks for another size must still keep to the limit ranges. What pods ask for cannot change.
    ///
    /// # Errors
    /// [`ApiError::Forbidden`] for a size out of bounds.
    pub(super) async fn admit_resized(
        &self,
        resource: &Resource,
        old: &PersistentVolumeClaim,
        new: &PersistentVolumeClaim,
    ) -> Result<(), ApiError> {
        let asked = |claim: &PersistentVolumeClaim| claim.spec.as_ref().and_then(|spec| spec.resources.clone());
        if asked(old) == asked(new) {
            return Ok(());
        }
        check(resource, &self.limit_ranges(new.metadata.namespace.as_deref(), new).await?, new)
    }
}

/// Whether an object keeps to these limit ranges.
///
/// # Errors
/// [`ApiError::Forbidden`] with all that the first range says against it.
pub(crate) fn check(resource: &Resource, ranges: &[LimitRange], object: &dyn Object) -> Result<(), ApiError> {
    let name = object.meta().name.as_deref().unwrap_or_default();
    ranges
        .iter()
        .try_for_each(|range| limit_range::check(range, object))
        .map_err(|why| ApiError::forbidden(resource, name, &why, Vec::new()))
}
