//! What a change of Deployments and StatefulSets will do, told before it is made.
//!
//! [`forecast`] puts a [`Snapshot`] of a cluster into a store, makes the [`Change`] there, and lets the controllers, the scheduler and the API rules that
//! `berth up` runs go on from it in virtual time, over simulated nodes whose pods take as long as pods of the cluster did. What then happens is the
//! [`Forecast`]: data. There is no other model: nothing in this crate decides about a workload, and a check of the tree keeps it so.
//!
//! Pure but for the time that it takes: no clock, no IO, no randomness but the seed's. Start with [`forecast`], then `stage.rs` (the world) and
//! `record.rs` (what is read of it).

mod analyses;
mod asked_pods;
mod change;
mod chart;
mod compare;
mod consequences;
mod demand;
mod difference;
mod dry_run;
mod error;
mod forecast;
mod habits;
mod learn;
mod nodes;
mod read;
mod record;
mod references;
mod replay;
mod snapshot;
mod stage;
mod tally;
mod text;
mod times;
mod told;
mod tracked;
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
pub use learn::{Source, Timing};
pub use read::{KnownGates, Suppositions, forecast};
pub use replay::{
    Column, Ending, Facts, Missed, Passing, Policy, Recorded, Replay, ReplayError, ReplayOptions, Rollout, Size, Sum, WorkloadColumn,
    charts as replay_charts, replay, text as replay_text,
};
pub use snapshot::{Controllers, KINDS, Snapshot, SnapshotKind, SnapshotScope};
pub use text::{compared, text, victims};
