//! Kinds that are stored and served with upstream's types: the rules that clients rely on.

mod addresses;
#[cfg(test)]
mod as_upstream;
#[cfg(test)]
mod as_upstream_changes;
mod autoscaling;
mod budget;
mod cluster;
mod config;
mod events;
mod job;
mod limits;
mod network;
mod node;
mod rbac;
mod reviews;
mod service;
mod storage;
mod subresources;
#[cfg(test)]
mod tests;

/// The message about a change of an immutable field.
const IMMUTABLE: &str = "field is immutable";
