//! Identifying numbers, each with its own type: a workload's revision is not a generation, and neither is a number of
//! pods.

use serde::{Deserialize, Serialize};
use std::{fmt, num::ParseIntError, str::FromStr};

macro_rules! number {
    ($(#[$about:meta])* $name:ident) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIntError;

            fn from_str(text: &str) -> Result<Self, ParseIntError> {
                text.parse().map(Self)
            }
        }
    };
}

number! {
    /// The ordinal of a pod in its StatefulSet: 3 for `web-3`.
    Ordinal
}

number! {
    /// The number of a template in the history of a workload: `deployment.kubernetes.io/revision` of a ReplicaSet,
    /// `revision` of a ControllerRevision.
    RolloutRevision
}

number! {
    /// `metadata.generation`: the number of changes of an object's spec.
    Generation
}

impl Ordinal {
    /// The lowest ordinal.
    pub const MIN: Self = Self(i64::MIN);
    /// The highest ordinal.
    pub const MAX: Self = Self(i64::MAX);

    /// Returns the ordinal at this distance. Saturates.
    #[must_use]
    pub fn plus(self, pods: i64) -> Self {
        Self(self.0.saturating_add(pods))
    }

    /// Iterates from this ordinal up to, but not including, `end`.
    pub fn up_to(self, end: Self) -> impl DoubleEndedIterator<Item = Self> + Clone {
        (self.0..end.0).map(Self)
    }
}

impl RolloutRevision {
    /// No revision. Revisions begin with 1, and 0 is an unset option or annotation.
    pub const UNSET: Self = Self(0);
    /// The revision of the first template.
    pub const FIRST: Self = Self(1);

    /// Returns the previous revision.
    #[must_use]
    pub fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// Returns the next revision. Saturates.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}
