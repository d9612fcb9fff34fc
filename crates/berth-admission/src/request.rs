//! A request, as rules and selectors see it.

use berth_identity::{GroupVersionKind, GroupVersionResource};
use std::collections::BTreeMap;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Creates an object.
    Create,
    /// Changes an object.
    Update,
    /// Deletes an object.
    Delete,
    /// Connects to an object.
    Connect,
}

impl Operation {
    /// Returns its name in rules and reviews.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// Labels of an object. `None`: it has none.
pub(crate) type Labels<'a> = Option<&'a BTreeMap<String, String>>;

/// A resource in one API version, and the kind of the request's object in it. With a subresource, it is the kind of the
/// subresource's object (`autoscaling/v1` `Scale`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// `deployments` of `apps/v1`.
    pub resource: GroupVersionResource,
    /// `apps/v1` `Deployment`.
    pub kind: GroupVersionKind,
}

/// A request, as rules and selectors see it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What it does.
    pub operation: Operation,
    /// The requested version of the resource.
    pub form: &'a Form,
    /// The other versions of the same objects, also of other groups, in the order of discovery.
    pub equivalents: &'a [Form],
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// The object's namespace, its own name if it is a namespace, or empty.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
    /// The labels of the new object. `None` without a new object.
    pub labels: Option<Labels<'a>>,
    /// The labels of the stored object. `None` without a stored object.
    pub old_labels: Option<Labels<'a>>,
}

impl Request<'_> {
    /// Whether the resource is that of namespaces, or a subresource of it.
    #[must_use]
    pub fn is_namespace(&self) -> bool {
        self.form.resource.plural == "namespaces" && self.form.resource.group.is_empty()
    }

    /// Whether the request is about an object that has the labels of its namespace itself: a namespace that is created
    /// or changed. Then [`Request::labels`] are the labels of the namespace.
    #[must_use]
    pub fn has_namespace_labels(&self) -> bool {
        self.is_namespace() && self.subresource.is_empty() && matches!(self.operation, Operation::Create | Operation::Update)
    }
}
