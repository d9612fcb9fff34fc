//! The identities of objects and their versions, which all layers share, from the store to the planners. This crate
//! knows no kinds.

mod api_name;
mod group_version;
mod lookup;
mod number;
mod object;
mod recent;
mod revision;
mod text;

pub use api_name::ApiName;
pub use group_version::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource, ParseGroupVersionError};
pub use lookup::{Hashes, Lookup, seed_hashes};
pub use number::{Generation, Ordinal, RolloutRevision};
pub use object::{ObjectKey, ObjectRef};
pub use recent::Recent;
pub use revision::Revision;
pub use text::{Name, Namespace, NodeName, TemplateHash, Uid};
