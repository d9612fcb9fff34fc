//! The resource table with only the built-in kinds.

use super::{Resource, ResourceTable, Resources, kinds, merge_rules::MergeRule};
use berth_api::Kind;
use berth_identity::GroupVersionKind;
use std::sync::{Arc, LazyLock};

static BUILT_IN: LazyLock<Arc<Resources>> = LazyLock::new(|| {
    let all = kinds::stored().into_iter().chain(kinds::reviews()).chain(kinds::metrics());
    Arc::new(Resources::new(all.map(Arc::new).collect()))
});

/// Returns the resource table with only the built-in kinds.
#[must_use]
pub fn built_in() -> &'static Arc<Resources> {
    &BUILT_IN
}

impl Default for ResourceTable {
    /// The built-in kinds.
    fn default() -> Self {
        Self::of(Arc::clone(built_in()))
    }
}

/// Returns the resource of a built-in kind.
///
/// # Panics
/// There is none with this type.
#[must_use]
pub fn of<K: Kind>() -> &'static Arc<Resource> {
    BUILT_IN
        .named(&GroupVersionKind::from_static(K::GROUP, K::VERSION, K::KIND))
        .expect("kinds that the server itself uses are in its table")
}

/// Returns the merge rules of all built-in kinds, and of their common types.
pub(crate) fn merge_rules() -> impl Iterator<Item = &'static MergeRule> {
    BUILT_IN.all().iter().flat_map(|resource| resource.merge_rules).chain(kinds::SHARED_MERGE_RULES)
}
