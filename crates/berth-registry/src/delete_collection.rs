//! Deleting all that a list selects.

use crate::{Actor, ApiError, Collection, DeleteOptions, List, ListOptions, Registry, checks, key};
use berth_api::Scope;
use berth_store::env::yield_now;

/// How many objects are deleted before others have their turn: about a millisecond's work.
const PIECE_OBJECTS: usize = 16;

/// Bytes of objects that the answer to deleting a collection tells. What is deleted is kept for the answer alone.
pub const TOLD_BYTES_MAX: usize = 4 << 20;

impl Registry {
    /// Deletes every object that `list` selects, each as by [`Registry::delete`] with the same options. Gives them as they were:
    /// the first of them, if they are large together, and the number of the others as what remains.
    ///
    /// # Errors
    /// Those of list and delete; what was deleted before the error stays deleted. Objects that others delete meanwhile are no error.
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
        let (mut items, mut told_bytes, mut untold) = (Vec::new(), 0, 0);
        for (index, entry) in found.items.into_iter().enumerate() {
            // A store that keeps its keys in memory may answer every deletion at once.
            if index % PIECE_OBJECTS == PIECE_OBJECTS - 1 {
                yield_now().await;
            }
            if let Some(target) = key::target_of(&at.resource, &entry.key) {
                match self.delete(actor, &target, options).await {
                    Ok(_) | Err(ApiError::NotFound { .. }) => (),
                    Err(error) => return Err(error),
                }
            }
            told_bytes += entry.value.len();
            if told_bytes <= TOLD_BYTES_MAX { items.push(entry) } else { untold += 1 }
        }
        let remaining = if untold == 0 { found.remaining } else { Some(found.remaining.unwrap_or(0) + untold) };
        Ok(List { items, remaining, ..found })
    }
}
