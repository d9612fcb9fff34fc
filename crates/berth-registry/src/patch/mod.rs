//! Patches as pure functions: a document and a patch in, a document out. What the result means is the caller's to check.
//!
//! [`json()`] (RFC 6902), [`merge`] (RFC 7386), [`strategic()`] (Kubernetes' own, which knows lists by key: [`merge_keys`]), and
//! [`three_way_merge`], which makes a merge patch from what was applied before.
//!
//! Nothing here nests deeper than what it was given, or than [`DEPTH_MAX`]: readers of the result may recurse.

mod go;
mod json;
mod merge;
pub(crate) mod merge_keys;
mod parsed;
mod strategic;

pub use json::json;
pub use merge::{merge, merge_changes, three_way_merge};
pub(crate) use parsed::Parsed;
pub use strategic::strategic;

/// How deep a document may nest after a JSON patch; the same as a decoder of JSON takes.
pub const DEPTH_MAX: usize = 128;
