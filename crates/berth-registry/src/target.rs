//! The target of a request.

use crate::resource::{Resource, Subresource};
use std::sync::Arc;

/// All objects of a resource, in one namespace or (namespaced resources only) in all.
#[derive(Clone, Debug)]
pub struct Collection {
    /// The resource.
    pub resource: Arc<Resource>,
    /// `None`: cluster-scoped resource, or all namespaces.
    pub namespace: Option<String>,
}

/// One object, or a subresource of it.
#[derive(Clone, Debug)]
pub struct Target {
    /// The resource.
    pub resource: Arc<Resource>,
    /// `None` for cluster-scoped resources.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// `None`: the object itself.
    pub subresource: Option<Subresource>,
}
