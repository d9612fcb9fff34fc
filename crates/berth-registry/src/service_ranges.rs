//! Repairs the allocations of Services, and releases unused ranges.

use crate::{
    Actor, ApiError, Patch, Registry, WriteOptions,
    allocation::repair::{Repaired, Step, UnusedRange},
};
use serde_json::json;

impl Registry {
    /// Runs one round of [repairs](crate::allocation::repair), and returns its steps. Removes the finalizer of
    /// terminating ranges after none of their addresses is claimed, or if another range has the same addresses.
    ///
    /// # Errors
    /// Errors of the store. Earlier steps persist.
    pub async fn repair_allocations(&self) -> Result<Vec<Step>, ApiError> {
        let Repaired { steps, unused } = self.chain.allocator.repair().await?;
        for UnusedRange { target, revision, finalizers } in unused {
            let patch = json!({"metadata": {"resourceVersion": revision.to_string(), "finalizers": finalizers}});
            match self.patch(&Actor::System, &target, Patch::MergeValue(patch), &WriteOptions::default()).await {
                Ok(_) | Err(ApiError::Conflict { .. } | ApiError::NotFound { .. }) => (),
                Err(error) => return Err(error),
            }
        }
        Ok(steps)
    }
}
