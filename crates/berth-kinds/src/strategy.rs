//! The rules of a kind that a schema cannot express.

use crate::Content;
use berth_api::{FeatureGates, FieldError, Subresource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// A few rules of one kind, in code. A custom resource has none. Each method has the result of a kind without such rules.
pub trait Strategy: Send + Sync + 'static {
    /// Sets defaults that depend on other fields. The schema has set its own. Idempotent.
    fn default(&self, _object: &mut Content) {}

    /// Before validation of a create. The status has been cleared.
    fn prepare_create(&self, _object: &mut Content, _gates: &FeatureGates) {}

    /// Before validation of an update. What the endpoint cannot change has been taken from `old`.
    fn prepare_update(&self, _object: &mut Content, _old: &Content, _gates: &FeatureGates) {}

    /// Before validation of a write to `/status`. All but metadata and status has been taken from `old`.
    fn prepare_status_update(&self, _object: &mut Content, _old: &Content) {}

    /// Before validation of a write to `/approval`. All but metadata and status has been taken from `old`.
    fn prepare_approval(&self, _object: &mut Content, _old: &Content) {}

    /// When a client deletes the object, before its finalizers decide whether it stays. `now` is for conditions.
    fn begin_deletion(&self, _object: &mut Content, _now: &Time) {}

    /// Records times that only the server knows. Before validation of a create, and of every update but `/finalize`. `old` is absent on create.
    fn stamp(&self, _object: &mut Content, _old: Option<&Content>, _now: &Time) {}

    /// The faults of a new object, without those of the schema and of generic metadata.
    fn validate(&self, _object: &Content) -> Vec<FieldError> {
        Vec::new()
    }

    /// The faults of an update through the object's endpoint, `/status` or `/approval`.
    fn validate_update(&self, object: &Content, _old: &Content, subresource: Option<Subresource>) -> Vec<FieldError> {
        if subresource.is_none() { self.validate(object) } else { Vec::new() }
    }

    /// Texts for `Warning` headers. `old` is absent on create.
    fn warnings(&self, _object: &Content, _old: Option<&Content>) -> Vec<String> {
        Vec::new()
    }
}
