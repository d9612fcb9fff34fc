//! The identity of a workload that rolls out.

use crate::resources::{DAEMON_SET, DAEMON_SETS, DEPLOYMENT, DEPLOYMENTS, STATEFUL_SET, STATEFUL_SETS, v1};
use berth_identity::{GroupResource, GroupVersionKind, GroupVersionResource, Name, Namespace, ObjectKey};
use serde::Serialize;
use std::fmt;

/// A kind of workload that rolls out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum WorkloadKind {
    /// `Deployment`.
    Deployment,
    /// `StatefulSet`.
    StatefulSet,
    /// `DaemonSet`.
    DaemonSet,
}

impl WorkloadKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Deployment, Self::StatefulSet, Self::DaemonSet];

    /// Its name in manifests and owner references: `Deployment`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
        }
    }

    /// Its name on command lines: `deployment`.
    #[must_use]
    pub fn singular(self) -> &'static str {
        match self {
            Self::Deployment => "deployment",
            Self::StatefulSet => "statefulset",
            Self::DaemonSet => "daemonset",
        }
    }

    /// Its resource, in any version: `deployments.apps`.
    #[must_use]
    pub fn resource(self) -> GroupResource {
        match self {
            Self::Deployment => DEPLOYMENTS,
            Self::StatefulSet => STATEFUL_SETS,
            Self::DaemonSet => DAEMON_SETS,
        }
    }

    /// Its resource in paths.
    #[must_use]
    pub fn gvr(self) -> GroupVersionResource {
        v1(self.resource())
    }

    /// Its group, version and kind.
    #[must_use]
    pub fn gvk(self) -> GroupVersionKind {
        match self {
            Self::Deployment => DEPLOYMENT,
            Self::StatefulSet => STATEFUL_SET,
            Self::DaemonSet => DAEMON_SET,
        }
    }

    /// Returns the kind with this name in manifests and owner references.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the kind with this plural in paths.
    #[must_use]
    pub fn of_plural(plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.resource().plural == plural)
    }

    /// Returns the kind of a manifest with these fields.
    #[must_use]
    pub fn of_manifest(api_version: &str, kind: &str) -> Option<Self> {
        Self::named(kind).filter(|known| known.gvk().api_version() == api_version)
    }
}

/// A workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct WorkloadId {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its kind.
    pub kind: WorkloadKind,
    /// Its name.
    pub name: Name,
}

impl WorkloadId {
    /// The workload of this kind and name.
    #[must_use]
    pub fn new(kind: WorkloadKind, namespace: impl Into<Namespace>, name: impl Into<Name>) -> Self {
        Self { namespace: namespace.into(), kind, name: name.into() }
    }

    /// The workload of this kind under this key.
    #[must_use]
    pub fn of_key(kind: WorkloadKind, key: ObjectKey) -> Self {
        Self { namespace: key.namespace, kind, name: key.name }
    }

    /// Its key among the objects of its kind.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// Its name on command lines: `deployment/web`.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{}/{}", self.kind.singular(), self.name)
    }
}

/// `Deployment shop/web`.
impl fmt::Display for WorkloadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.name(), self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_each_of_its_names() {
        for kind in WorkloadKind::ALL {
            assert_eq!(WorkloadKind::named(kind.name()), Some(kind));
            assert_eq!(WorkloadKind::of_plural(&kind.resource().plural), Some(kind));
            assert_eq!(WorkloadKind::of_manifest("apps/v1", kind.name()), Some(kind));
            assert_eq!(kind.gvk().kind, *kind.name());
        }
        assert_eq!(WorkloadKind::of_manifest("apps/v1beta1", "Deployment"), None);
        assert_eq!(WorkloadKind::named("ReplicaSet"), None);
        assert_eq!(WorkloadKind::of_plural("pods"), None);
    }

    #[test]
    fn a_workload_has_a_key_and_names_for_people() {
        let id = WorkloadId::new(WorkloadKind::StatefulSet, "shop", "db");
        assert_eq!(WorkloadId::of_key(id.kind, id.key()), id);
        assert_eq!((id.title(), id.to_string()), ("statefulset/db".to_owned(), "StatefulSet shop/db".to_owned()));
    }
}
