//! Which workload.

use berth_identity::{Name, Namespace, ObjectKey, ResourceName};
use berth_workloads::resources::{DEPLOYMENTS, STATEFUL_SETS};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What a path, or the value of a query, may have as it is.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Kinds that are rolled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Deployment,
    StatefulSet,
}

impl Kind {
    /// `Deployment`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
        }
    }

    /// `deployment`, as commands have it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Deployment => "deployment",
            Self::StatefulSet => "statefulset",
        }
    }

    pub(crate) fn resource(self) -> ResourceName {
        match self {
            Self::Deployment => DEPLOYMENTS,
            Self::StatefulSet => STATEFUL_SETS,
        }
    }

    pub(crate) fn of_plural(plural: &str) -> Option<Self> {
        [Self::Deployment, Self::StatefulSet].into_iter().find(|kind| kind.resource().plural == plural)
    }

    /// By the kind that owner references have.
    pub(crate) fn named(kind: &str) -> Option<Self> {
        [Self::Deployment, Self::StatefulSet].into_iter().find(|known| known.name() == kind)
    }
}

/// A workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    pub(crate) namespace: Namespace,
    pub(crate) kind: Kind,
    pub(crate) name: Name,
}

impl Id {
    pub(crate) fn new(kind: Kind, namespace: impl Into<Namespace>, name: impl Into<Name>) -> Self {
        Self { namespace: namespace.into(), kind, name: name.into() }
    }

    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// `deployment/web`.
    pub(crate) fn title(&self) -> String {
        format!("{}/{}", self.kind.word(), self.name)
    }

    /// Its page.
    pub(crate) fn path(&self) -> String {
        format!("/ns/{}/{}/{}", plain(&self.namespace), self.kind.resource().plural, plain(&self.name))
    }
}

/// A text as it may stand in a path or in the value of a query.
pub(crate) fn plain(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}
