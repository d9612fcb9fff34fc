//! A chart prepared for drawing: times in milliseconds, samples reduced to what is visible, older revisions merged.

use crate::{
    Chart, Level, Mark, Pod, Sample,
    scale::{millis, place},
};
use berth_workloads::pod_state::{PodCounts, PodState};

/// The number of revisions with a color of their own. Older revisions are merged into one.
pub(crate) const REVISIONS_MAX: usize = 6;
/// The maximum number of pods with lanes of their own.
const LANES_MAX: usize = 24;
/// The maximum number of marks that are drawn. Others are only counted.
pub(crate) const MARKS_MAX: usize = 9;

/// What all charts of a picture have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// The length of the time axis in milliseconds.
    pub(crate) end: u64,
    /// The largest value of the vertical axis.
    pub(crate) top: u64,
    /// Whether pods have lanes. Only a single chart has them: lanes would separate charts that a reader compares.
    pub(crate) has_lanes: bool,
}

pub(crate) struct Prepared {
    pub(crate) revisions: Vec<String>,
    /// The past and the forecast.
    pub(crate) parts: Vec<Part>,
    pub(crate) wanted: Vec<(u64, u64)>,
    pub(crate) bound: Vec<(u64, u64)>,
    /// One lane per pod, by revision and start. Empty if there are too many pods.
    pub(crate) lanes: Vec<Lane>,
    /// The marks in order of time, at most [`MARKS_MAX`].
    pub(crate) marks: Vec<(u64, Mark)>,
    /// The number of omitted marks.
    pub(crate) more_marks: usize,
}

/// A period of time.
pub(crate) struct Part {
    pub(crate) is_planned: bool,
    pub(crate) from: u64,
    pub(crate) until: u64,
    /// The first stack begins at `from`.
    pub(crate) stacks: Vec<Stack>,
}

/// The number of pods from a time on.
#[derive(Clone)]
pub(crate) struct Stack {
    pub(crate) at: u64,
    /// The counts by revision.
    pub(crate) counts: Vec<PodCounts>,
}

pub(crate) struct Lane {
    pub(crate) name: String,
    pub(crate) revision: usize,
    /// Start, end, state.
    pub(crate) spans: Vec<(u64, u64, PodState)>,
}

impl Frame {
    pub(crate) fn of(charts: &[Chart]) -> Self {
        let end = charts.iter().map(|chart| millis(chart.end)).max().unwrap_or(0).max(1);
        let totals = charts
            .iter()
            .flat_map(|chart| &chart.samples)
            .filter(|sample| millis(sample.at) <= end)
            .map(|sample| sum(&sample.counts, |_| true));
        let levels = charts.iter().flat_map(|chart| chart.wanted.iter().chain(&chart.bound)).map(|level| u64::from(level.pods));
        Self { end, top: totals.chain(levels).max().unwrap_or(0).max(1), has_lanes: charts.len() == 1 }
    }
}

impl Stack {
    /// Returns the number of pods in the matching states.
    pub(crate) fn sum(&self, of: impl Fn(PodState) -> bool) -> u64 {
        sum(&self.counts, of)
    }

    /// Returns the bands from the bottom up: revision, state, and number of pods.
    pub(crate) fn bands(&self) -> impl Iterator<Item = (usize, PodState, u64)> {
        let of_state =
            |state: PodState| self.counts.iter().enumerate().map(move |(revision, counts)| (revision, state, u64::from(counts.of(state))));
        PodState::ALL.into_iter().flat_map(of_state)
    }
}

fn sum(counts: &[PodCounts], of: impl Fn(PodState) -> bool) -> u64 {
    let states = PodState::ALL.into_iter().filter(|state| of(*state));
    states.flat_map(|state| counts.iter().map(move |counts| u64::from(counts.of(state)))).sum()
}

impl Prepared {
    /// Prepares a chart for an axis of this many columns. Each column keeps its maximum and its minimum.
    pub(crate) fn new(chart: &Chart, frame: Frame, columns: u64) -> Self {
        let folded = chart.revisions.len().saturating_sub(REVISIONS_MAX);
        let mut revisions = chart.revisions[folded..].to_vec();
        if 0 < folded {
            revisions[0] = format!("{} older", folded + 1);
        }
        let stacks = stacks(&chart.samples, revisions.len(), folded, frame.end);
        let now = chart.now.map_or(frame.end, millis).min(frame.end);
        let bounds = [(false, 0, now), (true, now, frame.end)].into_iter().filter(|(_, from, until)| from < until);
        let part = |(is_planned, from, until)| {
            let stacks = thinned(between(&stacks, from, until), |stack: &Stack| place(stack.at, frame.end, columns));
            Part { is_planned, from, until, stacks }
        };
        let mut marks: Vec<(u64, Mark)> =
            chart.marks.iter().map(|mark| (millis(mark.at), mark.clone())).filter(|(at, _)| *at <= frame.end).collect();
        marks.sort_by_key(|(at, _)| *at);
        let more_marks = marks.len().saturating_sub(MARKS_MAX);
        marks.truncate(MARKS_MAX);
        Self {
            parts: bounds.map(part).collect(),
            wanted: levels(&chart.wanted, frame.end),
            bound: levels(&chart.bound, frame.end),
            lanes: if frame.has_lanes { lanes(&chart.pods, revisions.len(), folded, frame.end) } else { Vec::new() },
            revisions,
            marks,
            more_marks,
        }
    }

    /// Whether any pods of the revision are drawn.
    pub(crate) fn is_in_view(&self, revision: usize) -> bool {
        let has =
            |stack: &Stack| stack.counts.get(revision).is_some_and(|counts| PodState::ALL.into_iter().any(|state| 0 < counts.of(state)));
        self.parts.iter().flat_map(|part| &part.stacks).any(has) || self.lanes.iter().any(|lane| lane.revision == revision)
    }

    /// Returns the color index of a revision. 0 is the newest.
    pub(crate) fn hue(&self, revision: usize) -> usize {
        self.revisions.len().saturating_sub(1 + revision)
    }
}

/// Returns the stacks in order of time, from no pods on. The oldest of the revisions includes `folded` older ones.
fn stacks(samples: &[Sample], revisions: usize, folded: usize, end: u64) -> Vec<Stack> {
    let mut stacks = vec![Stack { at: 0, counts: vec![PodCounts::default(); revisions] }];
    for sample in samples {
        let mut counts = vec![PodCounts::default(); revisions];
        // Counts without a revision name are not drawn.
        for (index, of) in sample.counts.iter().enumerate() {
            if let Some(known) = counts.get_mut(index.saturating_sub(folded)) {
                *known = known.plus(*of);
            }
        }
        stacks.push(Stack { at: millis(sample.at), counts });
    }
    stacks.retain(|stack| stack.at <= end);
    stacks.sort_by_key(|stack| stack.at);
    // The last sample of a moment wins.
    stacks.dedup_by(|later, earlier| {
        let is_same = later.at == earlier.at;
        if is_same {
            std::mem::swap(later, earlier);
        }
        is_same
    });
    stacks
}

/// Returns the stack that applies at `from`, and the changes before `until`.
fn between(stacks: &[Stack], from: u64, until: u64) -> Vec<Stack> {
    let first = stacks.iter().rev().find(|stack| stack.at <= from).map(|stack| Stack { at: from, ..stack.clone() });
    let later = stacks.iter().filter(|stack| from < stack.at && stack.at < until).cloned();
    first.into_iter().chain(later).collect()
}

/// Keeps three stacks per column: the largest, the one with the fewest available pods, and the last.
fn thinned(stacks: Vec<Stack>, column: impl Fn(&Stack) -> u64) -> Vec<Stack> {
    let mut kept = Vec::new();
    for of_column in stacks.chunk_by(|one, next| column(one) == column(next)) {
        let index = |of: &dyn Fn(&Stack) -> u64| (0..of_column.len()).max_by_key(|index| of(&of_column[*index]));
        let largest = index(&|stack| stack.sum(|_| true));
        let fewest = index(&|stack| u64::MAX - stack.sum(|state| state == PodState::Available));
        let mut places: Vec<usize> =
            [Some(0).filter(|_| kept.is_empty()), largest, fewest, Some(of_column.len() - 1)].into_iter().flatten().collect();
        places.sort_unstable();
        places.dedup();
        kept.extend(places.into_iter().map(|place| of_column[place].clone()));
    }
    kept
}

fn levels(levels: &[Level], end: u64) -> Vec<(u64, u64)> {
    let mut levels: Vec<(u64, u64)> =
        levels.iter().map(|level| (millis(level.at), u64::from(level.pods))).filter(|(at, _)| *at <= end).collect();
    levels.sort_by_key(|(at, _)| *at);
    levels
}

fn lanes(pods: &[Pod], revisions: usize, folded: usize, end: u64) -> Vec<Lane> {
    if LANES_MAX < pods.len() {
        return Vec::new();
    }
    let lane = |pod: &Pod| {
        let mut states: Vec<(u64, Option<PodState>)> = pod.states.iter().map(|(at, state)| (millis(*at), *state)).collect();
        states.sort_by_key(|(at, _)| *at);
        let spans = states.iter().enumerate().filter_map(|(index, (from, state))| {
            let until = states.get(index + 1).map_or(end, |(at, _)| *at).min(end);
            Some((*from, until, (*state)?)).filter(|(from, until, _)| from < until)
        });
        Lane { name: pod.name.clone(), revision: pod.revision.saturating_sub(folded), spans: spans.collect() }
    };
    let mut lanes: Vec<Lane> = pods.iter().map(lane).filter(|lane| lane.revision < revisions && !lane.spans.is_empty()).collect();
    lanes.sort_by(|one, other| {
        let key = |lane: &Lane| (lane.revision, lane.spans[0].0);
        key(one).cmp(&key(other)).then_with(|| one.name.cmp(&other.name))
    });
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(millis: u64, available: u32, terminating: u32) -> Sample {
        Sample { at: Duration::from_millis(millis), counts: vec![PodCounts { available, terminating, ..PodCounts::default() }] }
    }

    fn chart(samples: Vec<Sample>) -> Chart {
        Chart { end: Duration::from_secs(10), revisions: vec!["one".to_owned()], samples, ..Chart::default() }
    }

    /// The time, the available pods and the terminating pods.
    type Shown = Vec<(u64, u64, u64)>;

    fn shown(chart: &Chart, columns: u64) -> Vec<(bool, Shown)> {
        let prepared = Prepared::new(chart, Frame::of(std::slice::from_ref(chart)), columns);
        let stack =
            |stack: &Stack| (stack.at, stack.sum(|state| state == PodState::Available), stack.sum(|state| state == PodState::Terminating));
        prepared.parts.iter().map(|part| (part.is_planned, part.stacks.iter().map(stack).collect())).collect()
    }

    #[test]
    fn what_happens_within_a_column_is_seen_at_its_most_and_its_least() {
        let samples = vec![at(0, 5, 0), at(5000, 4, 0), at(5001, 4, 4), at(5002, 1, 0), at(5003, 3, 0), at(5004, 2, 0), at(9000, 5, 0)];
        assert_eq!(shown(&chart(samples.clone()), 10), [(false, vec![(0, 5, 0), (5001, 4, 4), (5002, 1, 0), (5004, 2, 0), (9000, 5, 0)])]);
        assert_eq!(shown(&chart(samples), 10_000)[0].1.len(), 7, "there is room for all");
    }

    #[test]
    fn what_is_to_come_begins_with_what_is() {
        let planned = Chart {
            now: Some(Duration::from_secs(4)),
            ..chart(vec![at(0, 1, 0), at(3000, 2, 0), at(4000, 3, 0), at(7000, 4, 0), at(11_000, 9, 0)])
        };
        assert_eq!(shown(&planned, 100), [(false, vec![(0, 1, 0), (3000, 2, 0)]), (true, vec![(4000, 3, 0), (7000, 4, 0)])]);
        let planned = Chart { now: Some(Duration::ZERO), ..planned };
        assert_eq!(shown(&planned, 100).iter().map(|(is_planned, stacks)| (*is_planned, stacks.len())).collect::<Vec<_>>(), [(true, 4)]);
    }

    #[test]
    fn odd_data_is_put_in_order() {
        let odd = chart(vec![at(5000, 2, 0), at(1000, 1, 0), at(5000, 3, 0)]);
        assert_eq!(shown(&odd, 100), [(false, vec![(0, 0, 0), (1000, 1, 0), (5000, 3, 0)])]);
        assert_eq!(shown(&Chart::default(), 100), [(false, vec![(0, 0, 0)])]);
        let more = Sample { at: Duration::ZERO, counts: vec![PodCounts::default(), PodCounts { ready: 7, ..PodCounts::default() }] };
        assert_eq!(shown(&chart(vec![more]), 100), [(false, vec![(0, 0, 0)])], "the chart names one revision");
    }

    #[test]
    fn the_oldest_revisions_are_one_where_there_are_many() {
        let one = PodCounts { available: 1, ..PodCounts::default() };
        let many = Chart {
            revisions: (0..9).map(|number| number.to_string()).collect(),
            pods: vec![Pod { name: "a".to_owned(), revision: 2, states: vec![(Duration::ZERO, Some(PodState::Ready))] }],
            ..chart(vec![Sample { at: Duration::ZERO, counts: vec![one; 9] }])
        };
        let prepared = Prepared::new(&many, Frame::of(std::slice::from_ref(&many)), 100);
        assert_eq!(prepared.revisions, ["4 older", "4", "5", "6", "7", "8"]);
        let counts: Vec<u32> = prepared.parts[0].stacks[0].counts.iter().map(|counts| counts.available).collect();
        assert_eq!(counts, [4, 1, 1, 1, 1, 1]);
        assert_eq!((prepared.lanes[0].revision, prepared.hue(0), prepared.hue(5)), (0, 5, 0));
    }

    #[test]
    fn a_revision_is_in_view_while_pods_of_it_are_drawn() {
        let one = PodCounts { terminating: 1, ..PodCounts::default() };
        let at = |seconds, counts: &[PodCounts]| Sample { at: Duration::from_secs(seconds), counts: counts.to_vec() };
        let mut three = Chart {
            revisions: ["gone", "going", "new"].map(str::to_owned).to_vec(),
            ..chart(vec![at(0, &[PodCounts::default(), one]), at(11, &[one])])
        };
        let seen = |chart: &Chart| {
            let prepared = Prepared::new(chart, Frame::of(std::slice::from_ref(chart)), 100);
            [0, 1, 2].map(|revision| prepared.is_in_view(revision))
        };
        assert_eq!(seen(&three), [false, true, false], "what is behind the end is not drawn");
        three.pods = vec![Pod { name: "a".to_owned(), revision: 2, states: vec![(Duration::ZERO, Some(PodState::Pending))] }];
        assert_eq!(seen(&three), [false, true, true], "it has a lane");
    }

    #[test]
    fn pods_have_lanes_unless_they_are_many() {
        let pod = |name: &str, revision, from| Pod {
            name: name.to_owned(),
            revision,
            states: vec![(Duration::from_secs(from), Some(PodState::Starting)), (Duration::from_secs(8), None)],
        };
        let mut few =
            Chart { pods: vec![pod("c", 1, 0), pod("b", 0, 2), pod("a", 0, 2), pod("gone", 0, 9), pod("odd", 7, 0)], ..chart(Vec::new()) };
        few.revisions.push("two".to_owned());
        let frame = Frame::of(std::slice::from_ref(&few));
        let names =
            |chart: &Chart| -> Vec<String> { Prepared::new(chart, frame, 100).lanes.iter().map(|lane| lane.name.clone()).collect() };
        assert_eq!(names(&few), ["a", "b", "gone", "c"]);
        assert_eq!(Prepared::new(&few, frame, 100).lanes[0].spans, [(2000, 8000, PodState::Starting)]);
        few.pods = vec![few.pods[0].clone(); LANES_MAX + 1];
        assert_eq!(names(&few), [] as [&str; 0]);
    }

    #[test]
    fn charts_of_a_picture_share_their_axes() {
        let long = Chart { end: Duration::from_secs(60), bound: vec![Level { at: Duration::ZERO, pods: 7 }], ..chart(Vec::new()) };
        let frame = Frame::of(&[chart(vec![at(0, 3, 2), at(11_000, 99, 0)]), long]);
        assert_eq!((frame.end, frame.top), (60_000, 99));
        assert_eq!(Frame::of(&[]).end, 1);
    }
}
