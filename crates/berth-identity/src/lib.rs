//! Which object, and which version of it: words that every layer has, the store and the core alike. Knows no kinds.

mod interned;
mod lookup;
mod object;
mod recent;
mod revision;
mod text;

pub use interned::interned;
pub use lookup::{Hashes, Lookup};
pub use object::{ObjectKey, ObjectRef, ResourceName};
pub use recent::Recent;
pub use revision::Revision;
pub use text::{Name, Namespace, NodeName, Uid};
