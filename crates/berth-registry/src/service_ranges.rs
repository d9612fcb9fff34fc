//! What has been allocated to Services is kept in order, and ranges that nothing uses any more go.

use crate::{
    Actor, ApiError, Patch, Registry, WriteOptions,
    allocation::repair::{Repaired, Step, UnusedRange},
};
use serde_json::json;

impl Registry {
    /// One round of [repairs](crate::allocation::repair): does what is to be done, and gives what that was. Takes the finalizer off ranges that are being
    /// deleted once no address of theirs is claimed, or another range has it too.
    ///
    /// # Errors
    /// The store's; what was done before stays done.
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
