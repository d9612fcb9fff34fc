//! Gives pods a node: filters by what they ask for, takes the least allocated node of those that are left. Where none is left, pods of a lower priority
//! make room.

mod affinity;
mod board;
mod claims;
mod fit;
mod of_pod;
mod preempt;
mod run;
mod spread;
mod spread_constraint;
mod view;

pub use board::{Board, MakeRoom, Placement};
pub use run::Scheduler;
pub use spread_constraint::SpreadConstraint;
pub use view::{NodeView, PodInfo};

/// A running sum that differs from what a recount gives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Inconsistent(String);
