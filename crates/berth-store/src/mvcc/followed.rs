//! What a copy of a store that is elsewhere needs of the structure.

use super::{Mvcc, resource_of, seen};
use crate::{Event, Key, Revision};
use std::sync::Arc;

impl Mvcc {
    /// Nothing of its keys has changed up to `revision`, as far as has not been applied. One that is known already changes nothing.
    pub(crate) fn advance(&mut self, revision: Revision) {
        self.revision = self.revision.max(revision);
    }

    /// The changes of a key behind a revision, in order; `None` if some may be forgotten.
    pub(crate) fn changes_of(&self, key: &Key, after: Revision) -> Option<Vec<Arc<Event>>> {
        let kept = resource_of(&self.resources, key.as_str()).map_or(&self.rest, |(_, found)| found);
        if after < kept.dropped {
            return None;
        }
        let from = seen(&kept.log, after);
        Some(kept.log.range(from..).filter(|event| event.entry.key == *key).cloned().collect())
    }
}
