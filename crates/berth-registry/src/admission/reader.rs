//! The read access of plug-ins to the store.

use crate::{ApiError, Collection, Resource, key};
use berth_store::{Entry, MinRevision, RangeRequest, Store};
use std::sync::Arc;

/// Reads all objects, with the rights of the system and independent of the caller. It does not write.
#[derive(Clone)]
pub(crate) struct Reader(Arc<dyn Store>);

impl Reader {
    pub(super) fn of(store: Arc<dyn Store>) -> Self {
        Self(store)
    }

    /// Returns the object of this name, if it exists, at least as new as `as_of`.
    ///
    /// # Errors
    /// Errors of the store.
    pub(super) async fn get(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
        as_of: &MinRevision,
    ) -> Result<Option<Arc<Entry>>, ApiError> {
        Ok(self.0.get_as_of(&key::key_of(resource, namespace, name), as_of).await?)
    }

    /// Returns the objects of a namespace, or all of a resource, sorted by key, at least as new as `as_of`.
    ///
    /// # Errors
    /// Errors of the store.
    pub(super) async fn list(
        &self,
        resource: &Arc<Resource>,
        namespace: Option<&str>,
        as_of: &MinRevision,
    ) -> Result<Vec<Arc<Entry>>, ApiError> {
        let at = Collection { resource: Arc::clone(resource), namespace: namespace.map(str::to_owned) };
        Ok(self.0.range_as_of(RangeRequest::all(key::prefix_of(&at)), as_of).await?.entries)
    }
}
