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
mod selecting_kind;
mod spread;
mod spread_constraint;
mod sums;
mod tallies;
mod view;

pub use board::{Board, MakeRoom, Placement};
pub use claims::ClaimChoice;
pub use defaults::SelectorView;
pub use pod_set::PodSet;
pub use run::Scheduler;
pub use selecting_kind::SelectingKind;
pub use spread_constraint::SpreadConstraint;
pub use view::{HostPort, NamespaceView, NodeView, Nominal, PodInfo, PodTerm, PodTerms};

/// The label whose value is the node itself.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// A running sum that differs from what a recount gives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Inconsistent(String);
