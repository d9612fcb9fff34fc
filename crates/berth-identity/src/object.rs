//! The identity of an object.

use crate::{GroupResource, Name, Namespace, Revision, Uid};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The key of an object within its resource, as in caches and work queues. A later object may have the same key.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// Empty for cluster-scoped objects.
    pub namespace: Namespace,
    /// Its name.
    pub name: Name,
}

impl ObjectKey {
    /// Returns a key from its parts.
    #[must_use]
    pub fn new(namespace: impl Into<Namespace>, name: impl Into<Name>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Returns the key of a cluster-scoped object.
    #[must_use]
    pub fn cluster_scoped(name: impl Into<Name>) -> Self {
        Self { namespace: Namespace::default(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        write!(f, "{}{slash}{}", self.namespace, self.name)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One object, distinct from earlier and later ones with its key. Every write carries the uid. It also carries the
/// `resource_version` if it must not change a later version than the one of the decision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// The resource.
    pub resource: GroupResource,
    /// The namespace and name.
    pub key: ObjectKey,
    /// The uid, which distinguishes objects with the same key.
    pub uid: Uid,
    /// The version. `None`: any.
    pub resource_version: Option<Revision>,
}

impl ObjectRef {
    /// Returns the object in any version.
    #[must_use]
    pub fn in_any_version(self) -> Self {
        Self { resource_version: None, ..self }
    }
}
