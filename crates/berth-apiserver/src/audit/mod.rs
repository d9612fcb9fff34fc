//! The audit log: who did what, as lines of JSON, without ever holding a request up.
//!
//! A [`Policy`] says how much of which requests is written. Events go through a bounded queue to a thread that writes them; what does not
//! fit is dropped and counted; so is what cannot be written.

mod event;
mod file;
mod log;
mod policy;

pub(crate) use event::{Entry, Head, Stage, Watched};
pub use file::Rotation;
pub use log::{AuditError, AuditLog};
pub use policy::{Level, Policy, PolicyError};
