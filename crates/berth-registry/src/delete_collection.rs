//! Deleting all that a list selects.

use crate::{ApiError, Collection, DeleteOptions, List, ListOptions, Registry, Target, checks, key};
use berth_api::Scope;

impl Registry {
    /// Deletes every object that `list` selects, each as by [`Registry::delete`] with the same options. Gives them as they were.
    ///
    /// # Errors
    /// Those of list and delete; what was deleted before the error stays deleted. Objects that others delete meanwhile are no error.
    pub async fn delete_collection(&self, at: &Collection, list: &ListOptions, options: &DeleteOptions) -> Result<List, ApiError> {
        ApiError::check_writable(&at.resource)?;
        checks::delete_options(options)?;
        if at.namespace.is_none() && at.resource.scope == Scope::Namespaced {
            return Err(ApiError::MethodNotAllowed);
        }
        let found = self.list(at, list).await?;
        let targets = found.items.iter().filter_map(|entry| key::target_of(&at.resource, &entry.key));
        for target in targets.collect::<Vec<Target>>() {
            match self.delete(&target, options).await {
                Ok(_) | Err(ApiError::NotFound { .. }) => (),
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}
