//! The Kubernetes API objects: types, defaults, validation, feature gates, selectors.
//!
//! Start with [`Kind`] (the rules of one kind, typed) and [`Object`] (the same, when the kind is known only at run time).
//! This crate uses no clock, randomness, IO or async: every function returns the same result for the same input.

pub mod annotations;
pub mod apps;
pub mod certificates;
#[cfg(test)]
mod check;
pub mod cron;
pub mod decode;
pub mod deletion;
pub mod faults;
pub mod fencing;
pub mod field;
pub mod gates;
pub mod go;
pub mod int_or_string;
pub mod ip;
mod kinds;
pub mod label_selector;
pub mod limit_range;
pub mod metadata;
pub mod names;
pub mod normal;
pub mod object;
pub mod own_annotations;
mod passive;
pub mod pod;
pub mod pod_security;
pub mod quantity;
pub mod quota;
pub mod selector;
pub mod simulation;
pub mod status_part;
pub mod subresource;
mod unset;

pub use field::{FieldError, FieldErrorReason, Path};
pub use gates::{FeatureGates, Gate};
pub use object::{Kind, Object, ObjectRules, ObjectStrategy, Scope};
pub use selector::{FieldSelector, Selector, SelectorError};
pub use status_part::StatusPart;
pub use subresource::Subresource;

/// The types of kinds that berth stores and serves with upstream's types.
pub use k8s_openapi;
