//! Who is asked outside about writes, and what about.

use super::{Operation, Remarks};
use crate::{ApiError, Resource, Subresource};
use berth_api::Object;
use berth_rbac::User;
use futures::future::BoxFuture;

/// Somebody who is asked about writes, and may take their time: nothing is held and nothing is charged meanwhile.
///
/// Each is asked once about every try of a write, by each of the two methods, after what the server itself has to say: of creates, updates
/// and deletions of objects, also by way of a subresource. It is not asked about what an eviction does to the pod and its budget.
pub trait Reviewer: Send + Sync {
    /// Changes the object, refuses the write or remarks on it. What names the object stays as it is. Absent of a deletion, which can only be
    /// refused.
    fn mutate<'a>(
        &'a self,
        request: &'a AdmissionRequest<'_>,
        object: Option<&'a mut dyn Object>,
    ) -> BoxFuture<'a, Result<Remarks, ApiError>>;

    /// Refuses the write or remarks on it. The object is as it will be stored, but for its owners and, of a Service, what is allocated.
    fn validate<'a>(
        &'a self,
        request: &'a AdmissionRequest<'_>,
        object: Option<&'a dyn Object>,
    ) -> BoxFuture<'a, Result<Remarks, ApiError>>;
}

/// A write that somebody is asked about.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionRequest<'a> {
    /// What it does.
    pub operation: Operation,
    /// To what kind of object.
    pub resource: &'a Resource,
    /// By which door; `None`: the object's own. The object is then what that door takes: a `Scale`, a `Binding`, an `Eviction`.
    pub subresource: Option<Subresource>,
    /// `None` for cluster-scoped objects.
    pub namespace: Option<&'a str>,
    /// The object's name, also where it was generated; another one may be generated later, if this one is taken.
    pub name: &'a str,
    /// Whether it is only tried: then nothing must come of it elsewhere.
    pub is_dry_run: bool,
    /// The user who asks; `None`: the server itself, or an administrator.
    pub caller: Option<&'a User>,
    /// As it stands, of updates and deletions.
    pub old: Option<&'a dyn Object>,
}
