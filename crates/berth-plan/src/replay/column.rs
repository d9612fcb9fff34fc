//! What is told of a recording, or of a replay of it: data, whose JSON is an interface (docs/how-to/record-and-replay.md names the fields).

use crate::{
    forecast::{Lane, Life, Peak},
    times::{maybe_seconds, seconds},
};
use berth_store::env::Timestamp;
use berth_workloads::pod_state::PodCounts;
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};

/// A recording and its replays, side by side. Times are counted from when all that there was at the beginning was told; in JSON they are seconds.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replay {
    /// What the recording is of.
    pub recording: Facts,
    /// As it was recorded.
    pub recorded: Column,
    /// The same changes in the simulation.
    pub replayed: Column,
    /// The same changes in the simulation under another policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub under_policy: Option<Column>,
}

/// What a recording is of.
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
    /// By what that was found.
    pub because: String,
    /// Whether names are hashed.
    pub hashed: bool,
    /// How many lines it has.
    pub lines: u64,
    /// How many changes are made again.
    pub changes: usize,
    /// How many pods started while it lasts, whose times are known.
    pub starts: usize,
    /// How many stopped.
    pub stops: usize,
    /// When changes were missed, or seen late.
    pub gaps: Vec<Missed>,
    /// Kinds that could not be read.
    pub missing: Vec<String>,
    /// Where it breaks off, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub torn: Option<String>,
}

/// When changes of a kind were missed, or seen late.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Missed {
    /// `pods`.
    pub plural: &'static str,
    /// Until then.
    #[serde(rename = "untilSeconds", serialize_with = "seconds")]
    pub until: Duration,
    /// For so long.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub lasted: Duration,
}

/// One way in which it went, or would have gone.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Column {
    /// `recorded`, `replayed`, `TerminationComplete`.
    pub name: String,
    /// Each workload, by kind, namespace and name.
    pub workloads: Vec<WorkloadColumn>,
    /// All workloads together.
    pub sum: Sum,
    /// Changes that could not be made again, in sentences.
    pub notes: Vec<String>,
}

/// What pods there were.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sum {
    /// The most at once, terminating ones included.
    pub pods: Peak<u32>,
    /// The most that terminated at once.
    pub terminating: Peak<u32>,
    /// The most that they held of each resource, terminating ones included: cpu in thousandths of a core, all else in its own unit.
    pub resources: BTreeMap<String, Peak<i64>>,
    /// How long pods were there, terminating ones included, all together, until the recording ends.
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
    /// How its pods gave way at the end.
    pub policy: String,
    /// Its pods.
    #[serde(flatten)]
    pub sum: Sum,
    /// The fewest available pods while one template replaced another; `None`: none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available: Option<Peak<u32>>,
    /// Its rollouts, in order.
    pub rollouts: Vec<Rollout>,
    /// By template: how many pods its ReplicaSet was wanted to have, whenever that changed.
    pub sets: BTreeMap<String, Vec<Size>>,
    /// How many pods were wanted from when on.
    #[serde(skip)]
    pub wanted: Vec<(Duration, u32)>,
    /// The most that its strategy allowed at the end.
    #[serde(skip)]
    pub bound: Option<i64>,
    /// For pictures.
    #[serde(skip)]
    pub lanes: Vec<Lane>,
    /// For pictures.
    #[serde(skip)]
    pub lives: Vec<Life>,
}

/// How many pods a ReplicaSet was wanted to have from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Size {
    /// From then on.
    #[serde(rename = "atSeconds", serialize_with = "seconds")]
    pub at: Duration,
    /// So many.
    pub replicas: i64,
}

/// One rollout.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// When its template came.
    #[serde(rename = "atSeconds", serialize_with = "seconds")]
    pub at: Duration,
    /// Which it is; or what ended it before it was complete.
    pub is: Ending,
    /// When its controller said that it is complete.
    #[serde(rename = "completeAtSeconds", serialize_with = "maybe_seconds", skip_serializing_if = "Option::is_none")]
    pub complete: Option<Duration>,
    /// When the last pod that it replaced was gone.
    #[serde(rename = "settledAtSeconds", serialize_with = "maybe_seconds", skip_serializing_if = "Option::is_none")]
    pub settled: Option<Duration>,
    /// When it gave way to another, or its workload was deleted.
    #[serde(rename = "endedAtSeconds", serialize_with = "maybe_seconds", skip_serializing_if = "Option::is_none")]
    pub ended: Option<Duration>,
    /// The most pods meanwhile, terminating ones included.
    pub pods: Peak<u32>,
    /// The fewest available meanwhile; not of a workload's first.
    #[serde(rename = "available", skip_serializing_if = "Option::is_none")]
    pub lowest: Option<Peak<u32>>,
}

/// What a rollout is, or came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Ending {
    /// A workload's first.
    First,
    /// One template replaces another.
    Replacing,
    /// It was under way when the recording began.
    UnderWay,
    /// Another template came before it was settled.
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

    /// How long it took until it was complete.
    #[must_use]
    pub fn took(&self) -> Option<Duration> {
        self.complete.map(|complete| complete.saturating_sub(self.at))
    }
}
