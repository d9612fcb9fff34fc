//! The garbage collector's decisions: the dependency graph ([`graph`]), and the verdict on one object ([`decide`]).

pub mod decide;
pub mod graph;

pub use decide::{OwnerState, Verdict, decide};
pub use graph::{Deletion, Graph, Node, Seen, Work, kind_of_owner};

/// The finalizer of an object that is deleted after its dependents.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an object whose dependents are orphaned.
pub const ORPHAN: &str = "orphan";
