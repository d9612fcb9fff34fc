//! The usage of workloads over the time of a recording, beside their pods.

use crate::load::Load;
use berth_trace::ObjectId;
use std::{collections::BTreeMap, time::Duration};

/// The usage of a workload at one moment of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Since the start of the replay.
    pub(crate) at: Duration,
    pub(crate) load: Load,
    /// The recorded pods at that moment.
    pub(crate) pods: ReadyPods,
}

/// The ready pods of a workload, and what each of them requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadyPods {
    pub(crate) count: u32,
    /// Of one pod. As the scheduler counts them, on average over all pods.
    pub(crate) requests: Load,
}

/// The ready pods of each target at each of its samples.
pub(crate) type Readings = BTreeMap<ObjectId, Vec<ReadyPods>>;
