//! Deletes all objects that a list selects.

use crate::{Actor, ApiError, Collection, DeleteOptions, List, ListOptions, Registry, checks, key};
use berth_api::Scope;
use berth_store::env::yield_now;

/// The number of deletions before other tasks run: about a millisecond of work.
const PIECE_OBJECTS: usize = 16;

/// The maximum size of objects in the response, in bytes. Deleted objects are kept only for the response.
pub const RETURNED_BYTES_MAX: usize = 4 << 20;

impl Registry {
    /// Deletes every object that `list` selects, each as [`Registry::delete`] with the same options. Returns the
    /// deleted objects. If they are large, it returns the first ones and the number of the others as remaining.
    ///
    /// # Errors
    /// Those of list and delete. Earlier deletions persist. Concurrent deletions by others are no error.
    pub async fn delete_collection(
        &self,
        actor: &Actor,
        at: &Collection,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<List, ApiError> {
        ApiError::check_writable(&at.resource)?;
        checks::delete_options(options)?;
        if at.namespace.is_none() && at.resource.scope == Scope::Namespaced {
            return Err(ApiError::MethodNotAllowed);
        }
        let found = self.list(actor, at, list).await?;
        let (mut items, mut returned_bytes, mut omitted) = (Vec::new(), 0, 0);
        for (index, entry) in found.items.into_iter().enumerate() {
            // A store that keeps its keys in memory may complete every deletion without waiting.
            if index % PIECE_OBJECTS == PIECE_OBJECTS - 1 {
                yield_now().await;
            }
            if let Some(target) = key::target_of(&at.resource, &entry.key) {
                match self.delete(actor, &target, options).await {
                    Ok(_) | Err(ApiError::NotFound { .. }) => (),
                    Err(error) => return Err(error),
                }
            }
            returned_bytes += entry.value.len();
            if returned_bytes <= RETURNED_BYTES_MAX { items.push(entry) } else { omitted += 1 }
        }
        let remaining = if omitted == 0 { found.remaining } else { Some(found.remaining.unwrap_or(0) + omitted) };
        Ok(List { items, remaining, ..found })
    }
}
