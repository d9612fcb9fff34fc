//! The screens of `berth rollout watch`: all workloads with their state and wait reason, or one workload with its
//! chart, pods and events.
//!
//! This crate is pure. [`step`](step()) applies an [`Event`] to a [`WatchState`] and returns the [`Effect`] that the
//! caller must execute. [`draw`](draw()) draws the state at any size. The data of the cluster comes in as [`Shown`],
//! which [`Shown::read`] builds from the same [`ClusterCache`](berth_follow::cluster_cache::ClusterCache) as the
//! dashboard. The caller owns the terminal, the signals and the cluster. Untrusted texts cannot control the terminal.

mod document;
mod draw;
mod shown;
mod state;
mod step;
mod table;
#[cfg(test)]
mod tests;

pub use draw::{Colors, draw};
pub use shown::{Location, Shown, Wants};
pub use state::{Ask, Effect, Ending, Event, Key, WatchState};
pub use step::step;
