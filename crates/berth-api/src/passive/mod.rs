//! Kinds that are stored and served, with upstream's types: the rules that clients rely on.

mod addresses;
mod autoscaling;
mod budget;
mod cluster;
mod config;
mod events;
mod extensions;
mod limits;
mod network;
mod node;
mod rbac;
mod reviews;
mod routing;
mod service;
mod storage;
mod subresources;
#[cfg(test)]
mod tests;

pub(crate) use storage::{set_claim_spec_defaults, validate_claim_spec};

/// What a field that was set once and for all is refused with.
const IMMUTABLE: &str = "field is immutable";
