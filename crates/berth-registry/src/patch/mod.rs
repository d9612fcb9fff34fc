//! Patches as pure functions from a document and a patch to a document. The caller validates the result.
//!
//! [`json()`] (RFC 6902), [`merge`] (RFC 7386), and [`strategic()`] (Kubernetes' own patch with list keys:
//! [`merge_keys`]). [`three_way_merge`] computes a merge patch from the last applied manifest.
//!
//! A result never nests deeper than the inputs, or than [`DEPTH_MAX`], so its readers may be recursive.

mod go;
mod json;
mod merge;
pub(crate) mod merge_keys;
mod misfit;
mod parsed;
mod pointer;
mod strategic;

pub use json::{JsonPatchError, json, json_with_reason};
pub use merge::{merge, merge_changes, three_way_merge};
pub use misfit::Misfit;
pub(crate) use parsed::Parsed;
pub use strategic::strategic;

/// The maximum nesting of a document after a JSON patch, as in the JSON decoder.
pub const DEPTH_MAX: usize = 128;
