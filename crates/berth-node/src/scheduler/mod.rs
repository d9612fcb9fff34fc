//! Gives pods a node: filters nodes by what the pods ask for, and takes the best of those that are left. If none is left, pods of a lower priority make
//! room.

mod affinity;
mod board;
mod claims;
mod defaults;
mod fit;
mod neighbors;
mod of_pod;
mod pod_set;
mod preempt;
mod run;
mod score;
mod spread;
mod spread_constraint;
mod sums;
mod tallies;
mod view;

pub use board::{Board, MakeRoom, Placement};
pub use claims::ClaimChoice;
pub use defaults::{SelectingKind, SelectorView};
pub use pod_set::PodSet;
pub use run::Scheduler;
pub use spread_constraint::SpreadConstraint;
pub use view::{HostPort, NamespaceView, NodeView, Nominal, PodInfo, PodTerm, PodTerms};

/// A running sum that differs from what a recount gives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Inconsistent(String);
