//! Charts of forecasts, for `berth-chart`.

use crate::{
    change::Change,
    compare::Alternative,
    forecast::{Forecast, Lane, Life, Outcome, Trouble, TroubleKind, WorkloadForecast},
    text::{End, pods},
};
use berth_chart::{Chart, Level, Mark, MarkKind, Pod, Sample};
use berth_workloads::{pod_state::PodCounts, workload::WorkloadId};
use std::{collections::BTreeMap, time::Duration};

/// The part of the time axis after the end: the total divided by this, plus a second.
const BEHIND: u32 = 16;

/// A chart of each changed workload.
#[must_use]
pub fn charts(forecast: &Forecast, change: &Change) -> Vec<Chart> {
    forecast.workloads.iter().map(|workload| chart(forecast, change, workload)).collect()
}

impl Alternative {
    /// A chart of each workload with this policy.
    #[must_use]
    pub fn charts(&self, change: &Change) -> Vec<Chart> {
        let workloads = self.forecast.workloads.iter().filter(|workload| workload.workload.kind == self.kind);
        workloads.map(|workload| chart(&self.forecast, change, workload)).collect()
    }
}

fn chart(forecast: &Forecast, change: &Change, workload: &WorkloadForecast) -> Chart {
    let revisions = revisions(&workload.lanes, workload.newest.as_deref());
    let level = |pods: i64| Level { at: Duration::ZERO, pods: u32::try_from(pods).unwrap_or(0) };
    let sample = |lane: &Lane| {
        let counts = revisions.iter().map(|revision| lane.revisions.get(revision).copied().unwrap_or_default());
        Sample { at: lane.at, counts: counts.collect() }
    };
    let end = workload.outcome.ends();
    let WorkloadForecast { workload: id, policy, replicas, .. } = workload;
    let (most, least) = (workload.pods.value, workload.available.value);
    // Only its first line: the marks contain the obstacles.
    let outcome = End(workload).to_string();
    let outcome = outcome.lines().next().unwrap_or_default();
    Chart {
        title: format!("{id}, {}, {policy}", pods(*replicas)),
        note: format!("{outcome}; at most {}, including terminating pods, at least {least} available", pods(i64::from(most))),
        end: end + end / BEHIND + Duration::from_secs(1),
        now: None,
        samples: workload.lanes.iter().map(sample).collect(),
        pods: workload.lives.iter().map(|life| pod(life, &revisions)).collect(),
        wanted: vec![level(*replicas)],
        bound: workload.most.iter().map(|most| level(*most)).collect(),
        marks: marks(forecast, change, workload),
        revisions,
    }
}

/// The revisions, oldest first: those that exist before the change, with the fewest remaining pods first, then the new ones. The template's
/// own revision is last, with or without pods, so that colors have the same meaning in all charts of the workload.
pub(crate) fn revisions(lanes: &[Lane], newest: Option<&str>) -> Vec<String> {
    let mut places: BTreeMap<&str, (usize, u32)> = BTreeMap::new();
    for (index, lane) in lanes.iter().enumerate() {
        for revision in lane.revisions.keys() {
            let left = lanes.last().and_then(|last| last.revisions.get(revision)).map_or(0, PodCounts::total);
            places.entry(revision).or_insert((index, left));
        }
    }
    let mut sorted: Vec<(&str, (usize, u32))> = places.into_iter().collect();
    sorted.sort_by_key(|(_, place)| *place);
    let others = sorted.into_iter().map(|(revision, _)| revision).filter(|revision| Some(*revision) != newest);
    others.chain(newest).map(str::to_owned).collect()
}

pub(crate) fn pod(life: &Life, revisions: &[String]) -> Pod {
    let revision = revisions.iter().position(|revision| *revision == life.revision).unwrap_or(usize::MAX);
    let states = life.states.iter().map(|state| (state.at, Some(state.is))).chain(life.gone.map(|gone| (gone, None)));
    Pod { name: life.pod.clone(), revision, states: states.collect() }
}

/// The marks: the change, the problems and the end.
fn marks(forecast: &Forecast, change: &Change, workload: &WorkloadForecast) -> Vec<Mark> {
    let mark = |at, kind, text: &str| Mark { at, kind, text: text.to_owned() };
    let words = change.words(&workload.workload);
    let mut marks: Vec<Mark> = Some(mark(Duration::ZERO, MarkKind::Change, &words)).filter(|_| !words.is_empty()).into_iter().collect();
    let is_it = |about: &WorkloadId| *about == workload.workload;
    // A problem with a quota is marked for all workloads that share it.
    let is_its = |trouble: &&Trouble| trouble.kind == TroubleKind::Quota || trouble.about.as_ref().is_none_or(is_it);
    let troubles = forecast.troubles.iter().filter(is_its);
    marks.extend(troubles.map(|trouble| mark(trouble.at, MarkKind::Trouble, &trouble.text)));
    let (after, settled_after, words, gone) = match &workload.outcome {
        Outcome::Complete { after, settled_after } => (after, settled_after, "complete", "the last replaced pod is deleted"),
        Outcome::Held { after, settled_after, .. } => (after, settled_after, "held", "the last surplus pod is deleted"),
        Outcome::Stuck { .. } => return marks,
    };
    marks.push(mark(*after, MarkKind::Done, words));
    if after < settled_after {
        marks.push(mark(*settled_after, MarkKind::Done, gone));
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_in_the_order_in_which_they_come() {
        let lane = |revisions: &[(&str, u32)]| Lane {
            at: Duration::ZERO,
            revisions: revisions
                .iter()
                .map(|(name, available)| ((*name).to_owned(), PodCounts { available: *available, ..PodCounts::default() }))
                .collect(),
        };
        let lanes = [lane(&[("b", 3), ("a", 1)]), lane(&[("a", 1), ("b", 3), ("c", 1)]), lane(&[("b", 2), ("c", 2)])];
        assert_eq!(revisions(&lanes, None), ["a", "b", "c"]);
        assert_eq!(revisions(&lanes, Some("c")), ["a", "b", "c"]);
        assert_eq!(revisions(&lanes[..1], Some("c")), ["a", "b", "c"], "it has no pods as yet");
        assert_eq!(revisions(&lanes, Some("a")), ["b", "c", "a"], "what is gone back to");
        // A rollback target exists before and has the most pods at the end.
        assert_eq!(revisions(&[lane(&[("a", 1), ("b", 3)]), lane(&[("a", 4)])], None), ["b", "a"]);
        assert_eq!(revisions(&[], None), [] as [&str; 0]);
    }
}
