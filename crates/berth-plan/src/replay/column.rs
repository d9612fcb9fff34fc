//! The result of a recording or of its replay: data, whose JSON is an interface (docs/how-to/record-and-replay.md documents the fields).

use crate::{
    forecast::{Lane, Life, Peak},
    times::{maybe_seconds, seconds},
};
use berth_store::env::Timestamp;
use berth_workloads::pod_state::PodCounts;
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

/// A recording and its replays, side by side. Times are relative to the end of the initial list. In JSON they are seconds.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replay {
    /// Facts about the recording.
    pub recording: Facts,
    /// The recorded course.
    pub recorded: Column,
    /// The same changes in the simulation.
    pub replayed: Column,
    /// The same changes in the simulation with another policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub under_policy: Option<Column>,
    /// The same changes with other autoscalers and, if there is one, the other policy. Their targets have their sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub under_hpa: Option<Column>,
    /// The targets of these autoscalers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub autoscaled: Vec<Autoscaled>,
}

/// Facts about a recording.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// When it begins.
    pub at: Timestamp,
    /// How long it lasts.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub lasts: Duration,
    /// `berth`, `kubernetes`.
    pub controllers: &'static str,
    /// The evidence for that.
    pub because: String,
    /// Whether names are hashed.
    pub hashed: bool,
    /// The number of its lines.
    pub lines: u64,
    /// The number of repeated changes.
    pub changes: usize,
    /// The number of pods that started during the recording, with known times.
    pub starts: usize,
    /// The number of pods that stopped.
    pub stops: usize,
    /// The number of samples of usage.
    pub usage_samples: usize,
    /// The times in which changes were missed or observed late.
    pub gaps: Vec<Missed>,
    /// Kinds that could not be read.
    pub missing: Vec<String>,
    /// Where it is truncated, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub torn: Option<String>,
}

/// A time in which changes of a kind were missed or observed late.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Missed {
    /// `pods`.
    pub plural: &'static str,
    /// The end of the gap.
    #[serde(rename = "untilSeconds", serialize_with = "seconds")]
    pub until: Duration,
    /// The length of the gap.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub lasted: Duration,
}

impl Replay {
    /// The columns, from left to right.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &Column> {
        [Some(&self.recorded), Some(&self.replayed), self.under_policy.as_ref(), self.under_hpa.as_ref()].into_iter().flatten()
    }
}

/// One course of events, recorded or replayed.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Column {
    /// `recorded`, `replayed`, `TerminationComplete`, `another autoscaler`.
    pub name: String,
    /// The workloads, by kind, namespace and name.
    pub workloads: Vec<WorkloadColumn>,
    /// The total of all workloads.
    pub sum: Sum,
    /// Changes that could not be repeated, as sentences.
    pub notes: Vec<String>,
}

/// The pods.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sum {
    /// The maximum number of pods, including terminating ones.
    pub pods: Peak<u32>,
    /// The maximum number of terminating pods.
    pub terminating: Peak<u32>,
    /// The maximum use of each resource, including terminating pods: cpu in millicores, all others in their own units.
    pub resources: BTreeMap<String, Peak<i64>>,
    /// The total lifetime of all pods until the end of the recording, including their termination.
    pub pod_minutes: f64,
}

/// One workload.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadColumn {
    /// `Deployment`, `StatefulSet`, `ReplicaSet`.
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How its pods were replaced at the end.
    pub policy: String,
    /// Its pods.
    #[serde(flatten)]
    pub sum: Sum,
    /// The minimum number of available pods while one template replaced another. `None` if none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available: Option<Peak<u32>>,
    /// Its rollouts, in order.
    pub rollouts: Vec<Rollout>,
    /// The sizes of its ReplicaSets, by template.
    pub sets: BTreeMap<String, Vec<Size>>,
    /// The desired number of pods, with the time of each change.
    #[serde(skip)]
    pub wanted: Vec<(Duration, u32)>,
    /// The maximum that its strategy allowed at the end.
    #[serde(skip)]
    pub bound: Option<i64>,
    /// For charts.
    #[serde(skip)]
    pub lanes: Vec<Lane>,
    /// For charts.
    #[serde(skip)]
    pub lives: Vec<Life>,
}

/// A workload whose size another autoscaler decides in the last column.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Autoscaled {
    /// `Deployment`, `StatefulSet`, `ReplicaSet`.
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The name of the autoscaler.
    pub autoscaler: String,
    /// The name of the recorded autoscaler that it replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<String>,
    /// The number of samples of usage.
    pub samples: usize,
    /// The largest usage of all its pods together: cpu in millicores, memory in bytes.
    pub load: BTreeMap<&'static str, Peak<i64>>,
    /// The result in each column.
    pub columns: Vec<Scaling>,
}

/// The sizes of a workload in one column, and how they fit its load.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scaling {
    /// The name of the column.
    pub column: String,
    /// The first size, and each change.
    pub sizes: Vec<Size>,
    /// The number of changes.
    pub changes: usize,
    /// The total lifetime of all pods, including their termination.
    pub pod_seconds: f64,
    /// How long the ready pods used more than the autoscaler of the last column aims at.
    #[serde(rename = "overTargetSeconds", serialize_with = "seconds")]
    pub over_target: Duration,
}

/// A size of a ReplicaSet, or of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Size {
    /// Since when.
    #[serde(rename = "atSeconds", serialize_with = "seconds")]
    pub at: Duration,
    /// `spec.replicas`.
    pub replicas: i64,
}

/// One rollout.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// When the template changed.
    #[serde(rename = "atSeconds", serialize_with = "seconds")]
    pub at: Duration,
    /// Its kind, or what ended it before it was complete.
    pub is: Ending,
    /// When its controller reported that it is complete.
    #[serde(rename = "completeAtSeconds", serialize_with = "maybe_seconds", skip_serializing_if = "Option::is_none")]
    pub complete: Option<Duration>,
    /// When the last replaced pod was deleted.
    #[serde(rename = "settledAtSeconds", serialize_with = "maybe_seconds", skip_serializing_if = "Option::is_none")]
    pub settled: Option<Duration>,
    /// When another rollout replaced it, or its workload was deleted.
    #[serde(rename = "endedAtSeconds", serialize_with = "maybe_seconds", skip_serializing_if = "Option::is_none")]
    pub ended: Option<Duration>,
    /// The maximum number of pods meanwhile, including terminating ones.
    pub pods: Peak<u32>,
    /// The minimum number of available pods meanwhile. Not for a workload's first rollout.
    #[serde(rename = "available", skip_serializing_if = "Option::is_none")]
    pub lowest: Option<Peak<u32>>,
}

/// The kind or the end of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Ending {
    /// The first of a workload.
    First,
    /// One template replaces another.
    Replacing,
    /// It was in progress when the recording began.
    UnderWay,
    /// Another template replaced it before it had settled.
    Superseded,
    /// Its workload was deleted.
    Deleted,
}

impl Rollout {
    pub(crate) fn new(at: Duration, is: Ending) -> Self {
        Self { at, is, complete: None, settled: None, ended: None, pods: Peak { value: 0, at }, lowest: None }
    }

    pub(crate) fn note(&mut self, counts: PodCounts, at: Duration) {
        if self.pods.value < counts.total() {
            self.pods = Peak { value: counts.total(), at };
        }
        let is_lower = self.lowest.is_none_or(|lowest| counts.available < lowest.value);
        if self.is != Ending::First && is_lower {
            self.lowest = Some(Peak { value: counts.available, at });
        }
    }

    pub(crate) fn end(&mut self, at: Duration, how: Ending) {
        self.ended = Some(at);
        if self.complete.is_none() {
            self.is = how;
        }
    }

    /// The time until it was complete.
    #[must_use]
    pub fn took(&self) -> Option<Duration> {
        self.complete.map(|complete| complete.saturating_sub(self.at))
    }
}
