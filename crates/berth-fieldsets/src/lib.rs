//! Who owns which fields of an object: what server-side apply and `metadata.managedFields` are made of, as pure functions.
//!
//! Documents are trees of JSON. A [`Schema`] defines which of their maps and lists are granular and which are atomic. A [`Set`] names fields of a
//! document, [`Managers`] has their owners. [`update`] is for every change that is no apply, [`apply`] for those that are. No IO and no clock: the time
//! of a change is a parameter.
//!
//! ```text
//!  document + Schema ── Root::fields ──> Set ── Managers::encode ──> metadata.managedFields
//!                    ── Root::compare ─> Comparison (added, modified, removed)
//!                    ── Root::merge / Root::remove ──> document
//! ```
//!
//! The rules are those of KEP-555 as upstream's `structured-merge-diff` (v6) and `apimachinery/pkg/util/managedfields` carry them out.
//! That is a Go library; crates.io has no counterpart, so this crate is one. Entries of a version that is
//! not served are dropped, as upstream drops them. It leaves out changes of a schema from granular to atomic.

mod apply;
mod atomic;
mod compare;
mod conflict;
mod fields;
mod last_applied;
mod managers;
mod merge;
mod openapi;
mod path;
mod remove;
mod schema;
mod set;
mod update;
mod validate;
mod versions;

pub use apply::{Application, ApplyError, Force, apply};
pub use compare::Comparison;
pub use conflict::{Conflict, Conflicts};
pub use last_applied::{LAST_APPLIED_ANNOTATION, apply_as_kubectl};
pub use managers::{DecodeError, ManagerId, Managers, Operation, Owned};
pub use path::{Literal, Path, PathElement, PathError};
pub use schema::{FieldType, ListKind, ListType, MapKind, MapType, Root, ScalarKind, Schema, Type, TypeId};
pub use set::{Set, SetError};
pub use update::{Update, Writer, update, update_entries};
pub use validate::{Fault, Faults};
pub use versions::{OneVersion, Versions};
