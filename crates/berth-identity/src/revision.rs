//! Versions.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A point in a backing store's one sequence of writes. `0` is before the first; the wire's `resourceVersion` is this number. Only its
/// order means something: others may write to the same backing store, so nothing follows from how far apart two revisions are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Revision(pub u64);

impl Revision {
    /// The one so far behind it: what a store gives out that counts its writes itself.
    #[must_use]
    pub fn later(self, by: u64) -> Self {
        Self(self.0 + by)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
