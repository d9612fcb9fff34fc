//! The kinds whose selectors spread pods that have no constraints of their own.

/// A kind whose objects select pods that are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SelectingKind {
    /// `v1`, Service.
    Service,
    /// `v1`, ReplicationController.
    ReplicationController,
    /// `apps/v1`, ReplicaSet.
    ReplicaSet,
    /// `apps/v1`, StatefulSet.
    StatefulSet,
}

impl SelectingKind {
    /// The kind of an owner whose pods are spread.
    pub(super) fn of_owner(api_version: &str, kind: &str) -> Option<Self> {
        match (api_version, kind) {
            ("v1", "ReplicationController") => Some(Self::ReplicationController),
            ("apps/v1", "ReplicaSet") => Some(Self::ReplicaSet),
            ("apps/v1", "StatefulSet") => Some(Self::StatefulSet),
            _ => None,
        }
    }
}
