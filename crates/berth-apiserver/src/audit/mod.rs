//! The audit log: JSON lines about requests. It never delays a request.
//!
//! A [`Policy`] selects requests and the level of detail. A bounded queue passes events to a writer thread. Events that
//! exceed the queue, and events that cannot be written, are dropped and counted.

mod event;
mod file;
mod log;
mod policy;

pub(crate) use event::{Entry, Head, Stage, Watched};
pub use file::Rotation;
pub use log::{AuditError, AuditLog};
pub use policy::{Level, Policy, PolicyError};
