//! Which workload.

use berth_identity::{GroupResource, Name, Namespace, ObjectKey};
use berth_workloads::resources::{DEPLOYMENTS, STATEFUL_SETS};

/// Kinds that are rolled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `Deployment`.
    Deployment,
    /// `StatefulSet`.
    StatefulSet,
}

impl Kind {
    /// `Deployment`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
        }
    }

    /// `deployment`, as commands have it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Deployment => "deployment",
            Self::StatefulSet => "statefulset",
        }
    }

    /// What its objects are read under.
    #[must_use]
    pub fn resource(self) -> GroupResource {
        match self {
            Self::Deployment => DEPLOYMENTS,
            Self::StatefulSet => STATEFUL_SETS,
        }
    }

    /// By the name that paths have.
    #[must_use]
    pub fn of_plural(plural: &str) -> Option<Self> {
        [Self::Deployment, Self::StatefulSet].into_iter().find(|kind| kind.resource().plural == plural)
    }

    /// By the kind that owner references have.
    #[must_use]
    pub fn named(kind: &str) -> Option<Self> {
        [Self::Deployment, Self::StatefulSet].into_iter().find(|known| known.name() == kind)
    }
}

/// A workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// Where it is.
    pub namespace: Namespace,
    /// Of which kind.
    pub kind: Kind,
    /// What it is called.
    pub name: Name,
}

impl Id {
    /// The workload of this kind and name.
    #[must_use]
    pub fn new(kind: Kind, namespace: impl Into<Namespace>, name: impl Into<Name>) -> Self {
        Self { namespace: namespace.into(), kind, name: name.into() }
    }

    /// Where it is stored.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// `deployment/web`.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{}/{}", self.kind.word(), self.name)
    }
}
