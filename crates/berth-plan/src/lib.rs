//! What a change of Deployments and StatefulSets will do, told before it is made.
//!
//! [`forecast`] puts a [`Snapshot`] of a cluster into a store, makes the [`Change`] there, and lets the controllers, the scheduler and the API rules that
//! `berth up` runs go on from it in virtual time, over simulated nodes whose pods take as long as pods of the cluster did. What then happens is the
//! [`Forecast`]: data. There is no other model: nothing in this crate decides about a workload, and a check of the tree keeps it so.
//!
//! Pure but for the time that it takes: no clock, no IO, no randomness but the seed's. Start with [`forecast`], then `simulation.rs` (the simulated cluster)
//! and `observer.rs` (what a forecast reads of it).

mod analyses;
mod asked_pods;
mod change;
mod chart;
mod compare;
mod consequences;
mod controller_log;
mod count_history;
mod demand;
mod difference;
mod dry_run;
mod error;
mod forecast;
mod nodes;
mod observer;
mod pod_behavior;
mod pod_timings;
mod references;
mod replay;
mod run;
mod simulation;
mod snapshot;
mod text;
mod times;
mod tracked_workload;
mod version;

pub use analyses::Analyses;
pub use asked_pods::{AskedPod, RefusedPod, asked_pods};
pub use change::{Change, Edit, Edits};
pub use chart::charts;
pub use compare::{Alternative, Spread, compare, forecast_many};
pub use consequences::consequences;
pub use dry_run::{Write, WriteBody, writes};
pub use error::PlanError;
pub use forecast::{
    Failure, Forecast, Lane, Life, LifeState, NodeRoom, Outcome, Peak, QuotaPeak, Step, StepKind, Supposed, Trouble, TroubleKind, Victim,
    WaitSpan, WorkloadForecast,
};
pub use pod_timings::{Source, Timing};
pub use replay::{
    Column, Ending, Facts, Missed, Passing, Policy, Recorded, Replay, ReplayError, ReplayOptions, Rollout, Size, Sum, WorkloadColumn,
    charts as replay_charts, replay, text as replay_text,
};
pub use run::{KnownGates, Suppositions, forecast};
pub use snapshot::{Controllers, KINDS, Snapshot, SnapshotKind, SnapshotScope};
pub use text::{compared, text, victims};
