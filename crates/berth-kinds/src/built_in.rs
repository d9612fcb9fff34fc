//! Upstream's kinds that are data: a file each.

use crate::Definition;

/// The definitions of these kinds.
#[must_use]
pub fn built_in() -> Vec<Definition> {
    Vec::new()
}
