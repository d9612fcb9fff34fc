//! The recent past of a workload: the number of its pods by state. Its size is limited.

use berth_chart::{Chart, Level, Mark, MarkKind, Pod, Sample};
use berth_identity::{RolloutRevision, Uid};
use berth_workloads::pod_state::{PodCounts, PodState};
use jiff::{SignedDuration, Timestamp};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// The maximum number of moments. Beyond it, every other moment of the older half is removed.
const MOMENTS_MAX: usize = 360;
const LEVELS_MAX: usize = 64;
const MARKS_MAX: usize = 64;
/// The maximum number of pods that are recorded and drawn individually.
const PODS_MAX: usize = 24;
/// The same limit, including deleted pods.
const LIVES_MAX: usize = 48;
/// The longest period that is drawn.
const WINDOW_MAX: SignedDuration = SignedDuration::from_hours(1);
/// The part of the chart before the last change.
const BEFORE: SignedDuration = SignedDuration::from_secs(5);

/// The past of one workload.
#[derive(Clone, Debug, Default)]
pub struct Past {
    moments: VecDeque<Moment>,
    wanted: VecDeque<(Timestamp, u32)>,
    bound: VecDeque<(Timestamp, u32)>,
    marks: VecDeque<(Timestamp, MarkKind, String)>,
    lives: BTreeMap<Uid, Life>,
    /// The names of revisions.
    names: BTreeMap<RolloutRevision, String>,
    /// The number of each revision, by the uid of the object that stores it.
    keepers: BTreeMap<Uid, RolloutRevision>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Moment {
    at: Timestamp,
    counts: Vec<(RolloutRevision, PodCounts)>,
}

#[derive(Clone, Debug)]
struct Life {
    name: String,
    revision: RolloutRevision,
    states: Vec<(Timestamp, Option<PodState>)>,
}

/// The current pods of a workload.
#[derive(Clone, Debug, Default)]
pub struct Present {
    /// The counts by revision.
    pub counts: BTreeMap<RolloutRevision, PodCounts>,
    /// The desired number of pods.
    pub wanted: u32,
    /// The maximum number of pods.
    pub bound: Option<u32>,
    /// The pods individually, if there are few.
    pub pods: Vec<(Uid, String, RolloutRevision, PodState)>,
    /// The names of revisions.
    pub names: BTreeMap<RolloutRevision, String>,
    /// The revisions by the uid of the object that stores them.
    pub keepers: BTreeMap<Uid, RolloutRevision>,
}

impl Present {
    /// Counts one pod.
    pub fn add(&mut self, uid: &Uid, name: &str, revision: RolloutRevision, state: PodState) {
        self.counts.entry(revision).or_default().moved(None, Some(state));
        if self.pods.len() <= PODS_MAX {
            self.pods.push((uid.clone(), name.to_owned(), revision, state));
        }
    }
}

impl Past {
    /// Records the current pods.
    pub fn note(&mut self, present: &Present, now: Timestamp) {
        self.renumber(&present.keepers);
        let counts: Vec<_> = present.counts.iter().map(|(revision, counts)| (*revision, *counts)).collect();
        if self.moments.back().is_none_or(|last| last.counts != counts) {
            self.moments.push_back(Moment { at: now, counts });
        }
        if MOMENTS_MAX < self.moments.len() {
            thin(&mut self.moments);
        }
        level(&mut self.wanted, Some(present.wanted), now);
        level(&mut self.bound, present.bound, now);
        self.names.extend(present.names.iter().map(|(revision, name)| (*revision, name.clone())));
        let shown = &self.moments;
        self.names.retain(|revision, _| {
            present.names.contains_key(revision) || shown.iter().any(|moment| moment.counts.iter().any(|(of, _)| of == revision))
        });
        self.note_lives(present, now);
    }

    /// Renumbers revisions after a rollback. A rollback gives the old revision a new number, and its recorded pods must
    /// belong to the newest revision.
    fn renumber(&mut self, keepers: &BTreeMap<Uid, RolloutRevision>) {
        let moved: BTreeMap<RolloutRevision, RolloutRevision> =
            keepers.iter().filter_map(|(keeper, now)| self.keepers.get(keeper).filter(|was| *was != now).map(|was| (*was, *now))).collect();
        self.keepers.clone_from(keepers);
        if moved.is_empty() {
            return;
        }
        let renumbered = |number: &mut RolloutRevision| *number = moved.get(number).copied().unwrap_or(*number);
        for moment in &mut self.moments {
            moment.counts.iter_mut().for_each(|(number, _)| renumbered(number));
            moment.counts.sort_by_key(|(number, _)| *number);
        }
        self.lives.values_mut().for_each(|life| renumbered(&mut life.revision));
        let names = std::mem::take(&mut self.names);
        self.names = names.into_iter().map(|(number, name)| (moved.get(&number).copied().unwrap_or(number), name)).collect();
    }

    fn note_lives(&mut self, present: &Present, now: Timestamp) {
        if PODS_MAX < present.pods.len() {
            self.lives.clear();
            return;
        }
        for (uid, name, revision, state) in &present.pods {
            let life =
                self.lives.entry(uid.clone()).or_insert_with(|| Life { name: name.clone(), revision: *revision, states: Vec::new() });
            life.revision = *revision;
            if life.states.last().is_none_or(|(_, last)| *last != Some(*state)) {
                life.states.push((now, Some(*state)));
            }
            // A pod that changes its state back and forth.
            if MARKS_MAX < life.states.len() {
                life.states.drain(1..MARKS_MAX / 2);
            }
        }
        let is_there = |uid: &Uid| present.pods.iter().any(|(there, ..)| there == uid);
        for (_, life) in self.lives.iter_mut().filter(|(uid, _)| !is_there(uid)) {
            if life.states.last().is_some_and(|(_, last)| last.is_some()) {
                life.states.push((now, None));
            }
        }
        while LIVES_MAX < self.lives.len() {
            let gone = self.lives.iter().filter(|(_, life)| life.states.last().is_some_and(|(_, last)| last.is_none()));
            let Some(oldest) = gone.min_by_key(|(_, life)| life.states.last().map(|(at, _)| *at)).map(|(uid, _)| uid.clone()) else {
                break;
            };
            self.lives.remove(&oldest);
        }
    }

    /// Records an event.
    pub fn mark(&mut self, at: Timestamp, kind: MarkKind, text: String) {
        self.marks.push_back((at, kind, text));
        if MARKS_MAX < self.marks.len() {
            self.marks.pop_front();
        }
    }

    /// Returns the chart. A running rollout is drawn up to `now`. A settled one is drawn as it settled, so that its
    /// chart stays the same.
    #[must_use]
    pub fn chart(&self, title: String, note: String, now: Timestamp, is_under_way: bool) -> Chart {
        let last = self.moments.back().map(|moment| moment.at).into_iter().chain(self.marks.back().map(|(at, ..)| *at)).max();
        let last = last.unwrap_or(now);
        let end = if is_under_way { now.max(last) } else { last };
        let first = self.moments.front().map_or(end, |moment| moment.at);
        // The first of several changes in quick succession.
        let mut changes = self.marks.iter().rev().filter(|(_, kind, _)| *kind == MarkKind::Change).map(|(at, ..)| *at);
        let changed = changes.next().and_then(|at| at.checked_sub(BEFORE).ok()).unwrap_or(first);
        let longest = end.checked_sub(WINDOW_MAX).unwrap_or(first);
        let begin = changed.max(first).max(longest);
        let since = |at: Timestamp| Duration::try_from(at.duration_since(begin)).unwrap_or_default();
        let length = since(end);
        let revisions: Vec<RolloutRevision> = self.names.keys().copied().collect();
        let seen = |revision: RolloutRevision| revisions.iter().position(|known| *known == revision);
        let sample = |moment: &Moment| {
            let mut counts = vec![PodCounts::default(); revisions.len()];
            for (revision, of) in &moment.counts {
                seen(*revision).into_iter().for_each(|place| counts[place] = *of);
            }
            Sample { at: since(moment.at), counts }
        };
        let from = self.moments.iter().rposition(|moment| moment.at <= begin).unwrap_or(0);
        let level = |levels: &VecDeque<(Timestamp, u32)>| levels.iter().map(|(at, pods)| Level { at: since(*at), pods: *pods }).collect();
        let lives = self.lives.values().filter(|life| life.states.last().is_some_and(|(at, last)| last.is_some() || begin < *at));
        Chart {
            title,
            note,
            end: length + length / 16 + Duration::from_secs(1),
            now: None,
            samples: self.moments.iter().skip(from).map(sample).collect(),
            pods: lives
                .filter_map(|life| {
                    let states = life.states.iter().map(|(at, state)| (since(*at), *state)).collect();
                    Some(Pod { name: life.name.clone(), revision: seen(life.revision)?, states })
                })
                .collect(),
            wanted: level(&self.wanted),
            bound: level(&self.bound),
            marks: self
                .marks
                .iter()
                .filter(|(at, ..)| begin <= *at)
                .map(|(at, kind, text)| Mark { at: since(*at), kind: *kind, text: text.clone() })
                .collect(),
            revisions: revisions.iter().map(|revision| self.names[revision].clone()).collect(),
        }
    }

    /// Returns the number of recorded moments.
    #[cfg(test)]
    fn size(&self) -> [usize; 5] {
        [self.moments.len(), self.wanted.len(), self.marks.len(), self.lives.len(), self.names.len()]
    }
}

/// Removes every other moment of the older half, except the first.
fn thin(moments: &mut VecDeque<Moment>) {
    let half = moments.len() / 2;
    let mut place = 0;
    moments.retain(|_| {
        place += 1;
        half < place || place % 2 == 1
    });
}

fn level(levels: &mut VecDeque<(Timestamp, u32)>, pods: Option<u32>, now: Timestamp) {
    let Some(pods) = pods else { return };
    if levels.back().is_none_or(|(_, last)| *last != pods) {
        levels.push_back((now, pods));
    }
    if LEVELS_MAX < levels.len() {
        levels.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).expect("in range")
    }

    fn present(revision: RolloutRevision, pods: usize, state: PodState) -> Present {
        let mut present = Present { wanted: 3, names: BTreeMap::from([(revision, format!("#{revision}"))]), ..Present::default() };
        for pod in 0..pods {
            present.add(&Uid::from(format!("{revision}-{pod}").as_str()), &format!("pod-{revision}-{pod}"), revision, state);
        }
        present
    }

    #[test]
    fn however_much_happens_little_is_remembered_and_the_first_and_the_last_stay() {
        let mut past = Past::default();
        for second in 0..20_000 {
            let revision = second / 100;
            let state = if second % 2 == 0 { PodState::Starting } else { PodState::Available };
            past.note(&present(RolloutRevision(revision), usize::try_from(second % 7).expect("small"), state), at(second));
            past.mark(at(second), MarkKind::Change, second.to_string());
        }
        let [moments, levels, marks, lives, names] = past.size();
        assert!(
            moments <= MOMENTS_MAX && levels <= LEVELS_MAX && marks <= MARKS_MAX && lives <= LIVES_MAX && names <= 201,
            "{:?}",
            past.size()
        );
        assert_eq!(
            (past.moments.front().map(|moment| moment.at), past.moments.back().map(|moment| moment.at)),
            (Some(at(0)), Some(at(19_999)))
        );
    }

    #[test]
    fn many_pods_have_no_lives_of_their_own() {
        let mut past = Past::default();
        past.note(&present(RolloutRevision(1), 3, PodState::Starting), at(0));
        assert_eq!(past.size()[3], 3);
        past.note(&present(RolloutRevision(1), 10_000, PodState::Starting), at(1));
        assert_eq!(past.size()[3], 0);
        let chart = past.chart(String::new(), String::new(), at(5), true);
        assert_eq!(chart.samples.last().map(|sample| sample.counts[0].starting), Some(10_000));
    }

    #[test]
    fn what_is_settled_is_drawn_the_same_however_late_it_is() {
        let mut past = Past::default();
        past.note(&present(RolloutRevision(1), 3, PodState::Available), at(0));
        past.mark(at(100), MarkKind::Change, "revision 2".to_owned());
        past.note(&present(RolloutRevision(2), 3, PodState::Starting), at(101));
        past.note(&present(RolloutRevision(2), 3, PodState::Available), at(110));
        past.mark(at(110), MarkKind::Done, "complete".to_owned());
        let draw = |second, is_under_way| past.chart("web".to_owned(), String::new(), at(second), is_under_way);
        assert_eq!(draw(120, false), draw(9000, false));
        assert_eq!(draw(120, false).end, Duration::from_millis(16_937) + Duration::from_micros(500));
        assert!(draw(120, true).end < draw(140, true).end);
        let chart = draw(120, false);
        assert_eq!(chart.revisions, ["#1", "#2"]);
        assert_eq!(chart.marks.iter().map(|mark| mark.at.as_secs()).collect::<Vec<_>>(), [5, 15]);
        assert_eq!(chart.samples[0].at, Duration::ZERO, "what holds when it begins");
        assert_eq!(chart.pods.len(), 6, "pods that went meanwhile are shown");
    }

    #[test]
    fn after_an_undo_the_pods_of_the_old_revision_are_those_of_the_newest() {
        let keepers =
            |pairs: &[(&str, RolloutRevision)]| pairs.iter().map(|(uid, number)| (Uid::from(*uid), *number)).collect::<BTreeMap<_, _>>();
        let mut past = Past::default();
        past.note(
            &Present { keepers: keepers(&[("a", RolloutRevision(1))]), ..present(RolloutRevision(1), 3, PodState::Available) },
            at(0),
        );
        let mut both = present(RolloutRevision(1), 2, PodState::Available);
        both.add(&Uid::from("new"), "new", RolloutRevision(2), PodState::Starting);
        both.names.insert(RolloutRevision(2), "#2".to_owned());
        past.note(&Present { keepers: keepers(&[("a", RolloutRevision(1)), ("b", RolloutRevision(2))]), ..both }, at(10));
        // After a rollback, the object of the old revision has the number 3, and so have its pods.
        let mut undone = Present {
            names: BTreeMap::from([(RolloutRevision(2), "#2".to_owned()), (RolloutRevision(3), "#3".to_owned())]),
            wanted: 3,
            ..Present::default()
        };
        for pod in 0..2 {
            undone.add(&Uid::from(format!("1-{pod}").as_str()), &format!("pod-1-{pod}"), RolloutRevision(3), PodState::Available);
        }
        undone.add(&Uid::from("new"), "new", RolloutRevision(2), PodState::Terminating);
        past.note(&Present { keepers: keepers(&[("a", RolloutRevision(3)), ("b", RolloutRevision(2))]), ..undone }, at(20));
        let chart = past.chart(String::new(), String::new(), at(20), true);
        assert_eq!(chart.revisions, ["#2", "#3"], "the old one is the newest");
        let counts: Vec<_> =
            chart.samples.iter().map(|sample| sample.counts.iter().map(|counts| counts.available).collect::<Vec<_>>()).collect();
        assert_eq!(counts, [[0, 3], [0, 2], [0, 2]]);
        let lanes: Vec<_> = chart.pods.iter().map(|pod| (pod.name.as_str(), pod.revision)).collect();
        assert_eq!(lanes, [("pod-1-0", 1), ("pod-1-1", 1), ("pod-1-2", 1), ("new", 0)], "one that went before, too");
    }

    /// The cache may discover a workload long after its creation. The number of its pods before that is unknown, not 0.
    #[test]
    fn nothing_is_drawn_of_the_time_before_a_workload_was_seen() {
        let mut past = Past::default();
        past.note(&present(RolloutRevision(1), 3, PodState::Starting), at(0));
        past.note(&present(RolloutRevision(1), 3, PodState::Available), at(4));
        let chart = past.chart(String::new(), String::new(), at(4), true);
        let counts = |sample: &Sample| (sample.at.as_secs(), sample.counts[0].starting, sample.counts[0].available);
        assert_eq!(chart.samples.iter().map(counts).collect::<Vec<_>>(), [(0, 3, 0), (4, 0, 3)]);
    }
}
