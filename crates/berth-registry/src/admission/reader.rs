//! What the steps of the chain see of what is stored.

use crate::{ApiError, Collection, Resource, key};
use berth_store::{Entry, MinRevision, RangeRequest, Store};
use std::sync::Arc;

/// Reads objects as the system: every object, whoever writes. It writes nothing.
#[derive(Clone)]
pub(crate) struct Reader(Arc<dyn Store>);

impl Reader {
    pub(super) fn of(store: Arc<dyn Store>) -> Self {
        Self(store)
    }

    /// The object of this name, if there is one, as new as `as_of` says.
    ///
    /// # Errors
    /// The store's.
    pub(super) async fn get(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        name: &str,
        as_of: &MinRevision,
    ) -> Result<Option<Arc<Entry>>, ApiError> {
        Ok(self.0.get_as_of(&key::key_of(resource, namespace, name), as_of).await?)
    }

    /// The objects of a namespace, or all of a resource, in the order of their keys, as new as `as_of` says.
    ///
    /// # Errors
    /// The store's.
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
