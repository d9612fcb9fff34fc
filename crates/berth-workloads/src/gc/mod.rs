//! The garbage collector's decisions: who depends on whom ([`graph`]), and what becomes of one object ([`decide`]).

pub mod decide;
pub mod graph;

pub use decide::{OwnerState, Verdict, decide};
pub use graph::{Deletion, Graph, Node, Seen, Work, kind_of_owner};

/// Finalizer of an object that goes after its dependents.
pub const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an object whose dependents stay.
pub const ORPHAN: &str = "orphan";
