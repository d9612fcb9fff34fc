//! The files of `berth explain --state`: the input of a controller's plan for one workload.

use super::super::{error::Error, options::PlanOutput, report};
use crate::progress::{line, one_line};
use berth_workloads::{
    Plan, Stage, Wait,
    daemon_set::{self, DaemonSetState},
    deployment::{self, DeploymentState},
    job::{self, JobState},
    plan::EventRecord,
    stateful_set::{self, StatefulSetState},
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The contents of such a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StateFile {
    /// The version of berth that wrote the file. Another version may make another plan.
    berth: String,
    /// The input of the plan.
    state: WorkloadState,
}

/// The input of a plan for one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum WorkloadState {
    Deployment(DeploymentState),
    StatefulSet(StatefulSetState),
    DaemonSet(DaemonSetState),
    Job(JobState),
}

impl WorkloadState {
    fn plan(&self) -> Plan {
        match self {
            Self::Deployment(state) => deployment::plan(state),
            Self::StatefulSet(state) => stateful_set::plan(state),
            Self::DaemonSet(state) => daemon_set::plan(state),
            Self::Job(state) => job::plan(state),
        }
    }

    /// `deployment/web`, and the time of the state.
    fn title(&self) -> (String, Timestamp) {
        match self {
            Self::Deployment(state) => (format!("deployment/{}", state.deployment.meta.name), state.now),
            Self::StatefulSet(state) => (format!("statefulset/{}", state.set.meta.name), state.now),
            Self::DaemonSet(state) => (format!("daemonset/{}", state.set.meta.name), state.now),
            Self::Job(state) => (format!("job/{}", state.job.meta.name), state.now),
        }
    }
}

/// The output of `-o json` for a plan.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    /// The time of the state.
    at: Timestamp,
    stages: &'a [Stage],
    waits: &'a [Wait],
    events: &'a [EventRecord],
    requeue_at: Option<Timestamp>,
}

/// Writes the state of a workload to a file.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write(path: &Path, state: WorkloadState) -> Result<(), Error> {
    let file = StateFile { berth: env!("CARGO_PKG_VERSION").to_owned(), state };
    let mut json = serde_json::to_vec_pretty(&file).expect("its keys are texts");
    json.push(b'\n');
    std::fs::write(path, json).map_err(|source| Error::StateFile { action: "write", path: path.to_owned(), source })
}

/// Prints the plan that the controller makes from the state in a file.
///
/// # Errors
/// The file cannot be read, or contains no state.
pub(super) fn print_plan(path: &Path, output: Option<PlanOutput>) -> Result<(), Error> {
    let json = std::fs::read(path).map_err(|source| Error::StateFile { action: "read", path: path.to_owned(), source })?;
    let file: StateFile = serde_json::from_slice(&json).map_err(|source| Error::NoState { path: path.to_owned(), source })?;
    let plan = file.state.plan();
    let (title, at) = file.state.title();
    match output {
        Some(PlanOutput::Json) => {
            let Plan { stages, waits, events, requeue_at, .. } = &plan;
            line(&report::json(&Report { at, stages, waits, events, requeue_at: *requeue_at }));
        }
        None => text(&title, at, &plan).iter().for_each(|text| line(&one_line(text))),
    }
    Ok(())
}

/// The plan, with a line for each action, event and wait.
fn text(title: &str, at: Timestamp, plan: &Plan) -> Vec<String> {
    let lines = plan.to_string();
    let is_empty = lines.is_empty() && plan.events.is_empty();
    let head = format!("{title}: {} at {at}", if is_empty { "the controller changes nothing" } else { "the controller's plan" });
    let events = plan.events.iter().map(|event| format!("event {}: {}", event.reason, event.message));
    let lines = lines.lines().map(str::to_owned).chain(events).map(|line| format!("  {line}"));
    [head].into_iter().chain(lines).collect()
}
