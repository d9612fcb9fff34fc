//! The interface of reviewers, such as webhooks, and the request that they get.

use super::{Operation, Remarks};
use crate::{ApiError, Resource, Subresource};
use berth_api::Object;
use berth_rbac::User;
use futures::future::BoxFuture;

/// A reviewer of writes, which may take long. No lock and no charge is held during its calls.
///
/// The chain calls each method once per attempt of a write, after the server's own plug-ins. Writes are creates,
/// updates and deletions, also through a subresource. An eviction's changes of the pod and its budget are not reviewed.
pub trait Reviewer: Send + Sync {
    /// Changes the object, rejects the write or adds warnings. The object's identity cannot be changed. `object` is
    /// absent for a deletion, which can only be rejected.
    fn mutate<'a>(
        &'a self,
        request: &'a AdmissionRequest<'_>,
        object: Option<&'a mut dyn Object>,
    ) -> BoxFuture<'a, Result<Remarks, ApiError>>;

    /// Rejects the write or adds warnings. The object has its stored form, except for its owners and a Service's
    /// allocations.
    fn validate<'a>(
        &'a self,
        request: &'a AdmissionRequest<'_>,
        object: Option<&'a dyn Object>,
    ) -> BoxFuture<'a, Result<Remarks, ApiError>>;
}

/// A write under review.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionRequest<'a> {
    /// The operation.
    pub operation: Operation,
    /// The resource of the object.
    pub resource: &'a Resource,
    /// The subresource. `None`: the object itself. With a subresource, the object has its kind: a `Scale`, a `Binding`,
    /// an `Eviction`.
    pub subresource: Option<Subresource>,
    /// `None` for cluster-scoped objects.
    pub namespace: Option<&'a str>,
    /// The object's name, also if it was generated. If the name exists, the server may generate another one later.
    pub name: &'a str,
    /// Whether it is a dry run, which must have no side effects.
    pub is_dry_run: bool,
    /// The user of the request. `None`: the server itself, or an administrator.
    pub caller: Option<&'a User>,
    /// The stored object of an update or a deletion.
    pub old: Option<&'a dyn Object>,
}
