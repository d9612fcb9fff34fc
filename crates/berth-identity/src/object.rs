//! Which object.

use crate::{GroupResource, Name, Namespace, Revision, Uid};
use serde::{Deserialize, Serialize};
use std::fmt;

/// An object among those of its resource: what caches and work queues go by. Another object may have it later.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// Empty for cluster-scoped objects.
    pub namespace: Namespace,
    /// Its name.
    pub name: Name,
}

impl ObjectKey {
    /// A key from its parts.
    #[must_use]
    pub fn new(namespace: impl Into<Namespace>, name: impl Into<Name>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object that is in no namespace.
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

/// One object, whatever has its key before or after it. Every write carries the uid; `resource_version` too, where it must not hit a later
/// version than the one that was decided about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    /// What it is.
    pub resource: GroupResource,
    /// Where it is.
    pub key: ObjectKey,
    /// Which of those that have its key one after the other.
    pub uid: Uid,
    /// Which version of it; `None`: whichever is there.
    pub resource_version: Option<Revision>,
}

impl ObjectRef {
    /// The object, whichever version of it is there.
    #[must_use]
    pub fn in_any_version(self) -> Self {
        Self { resource_version: None, ..self }
    }
}
