//! The writes of a replay that a forecast does not make: deletions and node reports.

use super::{CONTROLLERS, Simulation, Subject, options};
use crate::error::PlanError;
use berth_api::Subresource;
use berth_node::ForeignNodes;
use berth_registry::{Actor, ApiError, DeleteOptions, Patch};
use serde_json::Value;

impl Simulation {
    /// Starts the components of a forecast and the garbage collector, because recordings contain deleted workloads.
    pub(crate) fn start_with_deletions(&self, nodes: ForeignNodes) {
        self.start_these(nodes, &format!("{CONTROLLERS},garbagecollector"));
    }

    /// Deletes an object, and in the background the objects that it owns. A missing object is no error. `grace` is the grace period of a
    /// pod.
    ///
    /// # Errors
    /// The errors of the API server.
    pub(crate) fn delete(&mut self, subject: &Subject, grace: Option<i64>) -> Result<(), PlanError> {
        let target = self.target(subject)?;
        let registry = self.registry.clone();
        let how =
            DeleteOptions { grace_period_seconds: grace, propagation_policy: Some("Background".to_owned()), ..DeleteOptions::default() };
        match self.block_on(async move { registry.delete(&Actor::System, &target, &how).await })? {
            Ok(_) | Err(ApiError::NotFound { .. }) => Ok(()),
            Err(source) => Err(subject.refused(source)),
        }
    }

    /// Changes an object's status by a JSON merge patch.
    ///
    /// # Errors
    /// The errors of the API server.
    pub(crate) fn patch_status(&mut self, subject: &Subject, patch: Value) -> Result<(), PlanError> {
        let mut target = self.target(subject)?;
        target.subresource = Some(Subresource::Status);
        let registry = self.registry.clone();
        let written = self.block_on(async move { registry.patch(&Actor::System, &target, Patch::MergeValue(patch), &options()).await })?;
        written.map(drop).map_err(|source| subject.refused(source))
    }
}
