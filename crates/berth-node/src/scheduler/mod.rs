//! Gives pods a node: filters by what they ask for, takes the least allocated node of those that are left.

mod affinity;
mod board;
mod claims;
mod fit;
mod run;
mod view;

pub use board::{Board, Placement};
pub use run::Scheduler;
pub use view::{NodeView, PodView};
