//! Charts of replays for `berth-chart`: one of each workload in each column, with the same axis.

use crate::{
    chart::{pod, revisions},
    replay::column::{Column, Ending, Replay, WorkloadColumn},
};
use berth_chart::{Chart, Level, Mark, MarkKind, Sample};
use std::time::Duration;

/// How many charts are drawn: those of the workloads with the most pods.
const CHARTS_MAX: usize = 24;
/// How many marks one chart has.
const MARKS_MAX: usize = 40;

/// The charts of each workload: recorded, replayed, with the policy, and with the other autoscaler. Workloads with rollouts come first.
#[must_use]
pub fn charts(replay: &Replay) -> Vec<Chart> {
    let columns: Vec<&Column> = replay.columns().collect();
    let mut workloads: Vec<&WorkloadColumn> = replay.recorded.workloads.iter().collect();
    workloads.sort_by_key(|workload| std::cmp::Reverse((!workload.rollouts.is_empty(), workload.sum.pods.value)));
    let mut charts = Vec::new();
    for workload in workloads {
        let same =
            |other: &&WorkloadColumn| (other.kind, &other.namespace, &other.name) == (workload.kind, &workload.namespace, &workload.name);
        for column in &columns {
            if let Some(found) = column.workloads.iter().find(same).filter(|_| charts.len() < CHARTS_MAX) {
                charts.push(chart(&column.name, found, replay.recording.lasts));
            }
        }
    }
    charts
}

fn chart(column: &str, workload: &WorkloadColumn, lasts: Duration) -> Chart {
    let WorkloadColumn { kind, namespace, name, policy, sum, lanes, lives, .. } = workload;
    let revisions = revisions(lanes, None);
    let sample = |lane: &crate::forecast::Lane| Sample {
        at: lane.at,
        counts: revisions.iter().map(|revision| lane.revisions.get(revision).copied().unwrap_or_default()).collect(),
    };
    let level = |(at, pods): &(Duration, u32)| Level { at: *at, pods: *pods };
    let how = if ["recorded", "replayed"].contains(&column) { column.to_owned() } else { format!("under {column}") };
    let policy = if policy.is_empty() { String::new() } else { format!("{policy}; ") };
    let bound = workload.bound.and_then(|bound| u32::try_from(bound).ok());
    Chart {
        title: format!("{kind} {namespace}/{name}, {how}"),
        note: format!("{policy}at most {} pods, including terminating pods; {:.1} pod-minutes", sum.pods.value, sum.pod_minutes),
        end: lanes.last().map_or(lasts, |last| last.at.max(lasts)) + Duration::from_secs(1),
        now: None,
        samples: lanes.iter().map(sample).collect(),
        pods: lives.iter().map(|life| pod(life, &revisions)).collect(),
        wanted: workload.wanted.iter().map(level).collect(),
        bound: bound.into_iter().map(|pods| Level { at: Duration::ZERO, pods }).collect(),
        marks: marks(workload),
        revisions,
    }
}

fn marks(workload: &WorkloadColumn) -> Vec<Mark> {
    let mark = |at: Duration, kind, text: &str| Mark { at, kind, text: text.to_owned() };
    let of_rollout = |rollout: &crate::replay::column::Rollout| {
        let begins = match rollout.is {
            Ending::First => "it is created",
            Ending::UnderWay => "a rollout is in progress",
            Ending::Replacing | Ending::Superseded | Ending::Deleted => "a new template",
        };
        let complete = rollout.complete.map(|at| mark(at, MarkKind::Done, "complete"));
        let settled = rollout.settled.filter(|settled| rollout.complete < Some(*settled));
        let settled = settled.map(|at| mark(at, MarkKind::Done, "the last replaced pod is deleted"));
        [Some(mark(rollout.at, MarkKind::Change, begins)), complete, settled].into_iter().flatten()
    };
    workload.rollouts.iter().flat_map(of_rollout).take(MARKS_MAX).collect()
}
