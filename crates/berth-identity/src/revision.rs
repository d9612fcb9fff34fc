//! Revisions of a store.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A position in a backing store's single sequence of writes. `0` precedes the first write. On the wire it is the
/// `resourceVersion`. Only its order is meaningful: other programs may write to the same backing store, so the distance
/// between two revisions has no meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Revision(pub u64);

impl Revision {
    /// Returns the revision this many writes later, in a store that counts its writes itself.
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
