//! Forecasts the effect of a change of Deployments, StatefulSets and DaemonSets, and of the Jobs and ReplicationControllers beside them.
//!
//! [`forecast`] puts a [`Snapshot`] of a cluster into a store and makes the [`Change`] there. The controllers, the scheduler and the API
//! rules of `berth up` then continue in virtual time, over simulated nodes whose pods take as long as the cluster's pods did. The result is
//! the [`Forecast`]: data. There is no other model: this crate makes no decisions about workloads, and `cargo xtask tidy` enforces that.
//!
//! The crate is pure except for its CPU time: no clock, no IO, and no randomness except the seed's. Start with [`forecast`], then read
//! `simulation.rs` (the simulated cluster) and `observer.rs` (what a forecast reads of it).

mod analyses;
mod asked_pods;
mod autoscalers;
mod change;
mod changed;
mod chart;
mod compare;
mod consequences;
mod controller_log;
mod count_history;
mod demand;
mod difference;
mod dry_run;
mod error;
mod extensions;
mod forecast;
mod load;
mod nodes;
mod observer;
mod others;
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
pub use autoscalers::{AutoscalerChange, AutoscalerForecast, AutoscalerUsage, KnownUsage, measured_namespaces};
pub use change::{Change, Edit, Edits};
pub use chart::charts;
pub use compare::{Alternative, Spread, compare, forecast_many};
pub use consequences::consequences;
pub use dry_run::{Write, WriteBody, writes};
pub use error::{PlanError, UnfitAutoscaler};
pub use extensions::{ADMISSION_KINDS, DEFINITIONS, ObjectQuery, QueriedObjects, UnevaluatedRule, needs_definitions, object_queries};
pub use forecast::{
    Failure, Forecast, Lane, Life, LifeState, NodeRoom, OtherForecast, OtherOutcome, Outcome, Peak, QuotaPeak, Step, StepKind, Supposed,
    Trouble, TroubleKind, Victim, WaitSpan, WorkloadForecast,
};
pub use pod_timings::{Source, Timing};
pub use replay::{
    Autoscaled, Column, Ending, Facts, Missed, Passing, Policy, Recorded, Replay, ReplayError, ReplayOptions, Rollout, Scaling, Size, Sum,
    WorkloadColumn, charts as replay_charts, replay, text as replay_text,
};
pub use run::{KnownGates, Suppositions, forecast};
pub use snapshot::{Controllers, KINDS, Snapshot, SnapshotKind, SnapshotScope};
pub use text::{compared, text, victims};
