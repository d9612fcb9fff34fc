//! What happened to a cluster's workloads, made to happen again: [`Recorded`] is read from a recording, [`replay`] makes the same changes in a simulation,
//! and in another under another policy. What is counted is counted in one way for all of them (`ledger.rs`); who decides are the controllers.

mod chart;
mod column;
mod ledger;
mod pod_times;
mod recorded;
mod run;
mod text;

pub use chart::charts;
pub use column::{Column, Ending, Facts, Missed, Replay, Rollout, Size, Sum, WorkloadColumn};
pub use recorded::{Recorded, ReplayError};
pub use run::{Passing, Policy, ReplayOptions, replay};
pub use text::text;
