//! Numbers that name something. Each has its own type: a revision of a workload is no generation, and neither counts pods.

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
    /// The number of a pod in its StatefulSet: `web-3` has 3.
    Ordinal
}

number! {
    /// The number of a template among those that a workload had: `deployment.kubernetes.io/revision` of a ReplicaSet, `revision` of a ControllerRevision.
    RolloutRevision
}

number! {
    /// `metadata.generation`: how often an object's specification changed.
    Generation
}

impl Ordinal {
    /// Below all others.
    pub const MIN: Self = Self(i64::MIN);
    /// Above all others.
    pub const MAX: Self = Self(i64::MAX);

    /// The one this far behind it; the last where there is none.
    #[must_use]
    pub fn plus(self, pods: i64) -> Self {
        Self(self.0.saturating_add(pods))
    }

    /// Those from here up to `end`, which is not one of them.
    pub fn up_to(self, end: Self) -> impl DoubleEndedIterator<Item = Self> + Clone {
        (self.0..end.0).map(Self)
    }
}

impl RolloutRevision {
    /// No revision: numbers begin with 1, and 0 is an option or annotation that is not set.
    pub const UNSET: Self = Self(0);
    /// That of the first template.
    pub const FIRST: Self = Self(1);

    /// The one before it.
    #[must_use]
    pub fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// The one after it; the last where there is none.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}
