//! Replays of what happened to a cluster's workloads. [`Recorded`] is read from a recording. [`replay`] repeats its changes in a
//! simulation, in another one with another policy, and in another one with other autoscalers. The figures of all are computed alike
//! (`ledger.rs`), and the real controllers decide.

mod chart;
mod column;
mod ledger;
mod pod_times;
mod recorded;
mod run;
mod samples;
mod scaling;
mod text;

pub use chart::charts;
pub use column::{Autoscaled, Column, Ending, Facts, Missed, Replay, Rollout, Scaling, Size, Sum, WorkloadColumn};
pub use recorded::{Recorded, ReplayError};
pub use run::{Passing, Policy, ReplayOptions, replay};
pub use text::text;
