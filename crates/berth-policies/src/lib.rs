//! Evaluates admission policies: ValidatingAdmissionPolicy, MutatingAdmissionPolicy and their bindings.
//!
//! Start with [`Policies`]: a reviewer of writes. `berth-admission` compiles and evaluates the expressions of a policy,
//! and decides what a policy matches. This crate reads what they need: parameters, namespaces and the rights of users.
//!
//! Policies are read and compiled once, and followed by watches ([`berth_registry::Following`]). A write of a policy
//! through this server applies to its next request. Requests about objects of the group of admission are never
//! reviewed, so that a broken policy can be removed.

mod installed;
mod metrics;
mod params;
mod reviewer;
mod statuses;
mod stopwatch;
mod types;

pub use reviewer::Policies;
pub use statuses::keep_statuses;
