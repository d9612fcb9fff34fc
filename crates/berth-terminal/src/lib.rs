//! `berth rollout watch` as it is seen in a terminal: all workloads, how they stand and why they wait; one workload as a picture over time, with its pods and events.
//!
//! Pure: [`step`](step()) moves a [`WatchState`] on by an [`Event`] and says what is to be done ([`Effect`]); [`draw`](draw()) makes a screen of it, of any size. What is seen of a cluster comes in as
//! [`Shown`], which [`Shown::read`] makes of the [`ClusterCache`](berth_follow::cluster_cache::ClusterCache) that the page is made of too. Terminals, signals and the cluster itself are the
//! caller's. Texts may come from anybody: none can steer a terminal.

mod document;
mod draw;
mod shown;
mod state;
mod step;
mod table;
#[cfg(test)]
mod tests;

pub use draw::{Colours, draw};
pub use shown::{Location, Shown, Wants};
pub use state::{Ask, Effect, Ending, Event, Key, WatchState};
pub use step::step;
