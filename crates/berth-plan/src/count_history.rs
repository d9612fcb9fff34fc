//! Counts of one workload's pods, with their maximums and minimums.

use crate::forecast::{Lane, Life, LifeState, Peak};
use berth_identity::Uid;
use berth_node::resources::Amounts;
use berth_workloads::pod_state::{PodCounts, PodState};
use std::{collections::BTreeMap, time::Duration};

/// The maximum number of lanes.
const LANES_MAX: usize = 2000;

/// Above this number, pods are not followed individually.
const LIVES_MAX: usize = 64;

/// The pods of one workload.
#[derive(Default)]
pub(crate) struct CountHistory {
    revisions: BTreeMap<String, PodCounts>,
    all: PodCounts,
    held: Amounts,
    /// Nothing is recorded before the change.
    began: bool,
    pub(crate) pods: Peak<u32>,
    pub(crate) terminating: Peak<u32>,
    pub(crate) available: Peak<u32>,
    pub(crate) resources: BTreeMap<String, Peak<i64>>,
    pub(crate) lanes: Vec<Lane>,
    /// How many lanes there were, without those that were thinned out and the first.
    drawn: usize,
    /// The interval of the lanes that are kept, besides the newest.
    stride: usize,
    lives: Lives,
}

/// The lives of pods, while there are few.
#[derive(Default)]
struct Lives {
    list: Vec<Life>,
    places: BTreeMap<Uid, usize>,
    are_many: bool,
}

impl CountHistory {
    /// Starts recording, when the change is made.
    pub(crate) fn begin(&mut self) {
        self.began = true;
        let at = |value| Peak { value, at: Duration::ZERO };
        (self.pods, self.terminating, self.available) = (at(self.all.total()), at(self.all.terminating), at(self.all.available));
        self.resources = self.held.iter().map(|(name, value)| (name.to_owned(), Peak { value, at: Duration::ZERO })).collect();
        self.lanes = vec![Lane { at: Duration::ZERO, revisions: self.revisions.clone() }];
    }

    pub(crate) fn all(&self) -> PodCounts {
        self.all
    }

    /// Moves a pod of `revision` from one state to another. `None` if it does not exist.
    pub(crate) fn change(&mut self, revision: &str, from: Option<PodState>, to: Option<PodState>, at: Duration) {
        let counts = self.revisions.entry(revision.to_owned()).or_default();
        for counts in [counts, &mut self.all] {
            counts.moved(from, to);
        }
        if self.revisions[revision].total() == 0 {
            self.revisions.remove(revision);
        }
        if !self.began {
            return;
        }
        let all = self.all;
        raise(&mut self.pods, all.total(), at);
        raise(&mut self.terminating, all.terminating, at);
        if all.available < self.available.value {
            self.available = Peak { value: all.available, at };
        }
        self.draw_lane(at);
    }

    /// Records the state of the pod itself.
    pub(crate) fn follow(&mut self, uid: &Uid, name: &str, revision: &str, to: Option<PodState>, at: Duration) {
        let Lives { list, places, are_many } = &mut self.lives;
        if *are_many {
            return;
        }
        let place = *places.entry(uid.clone()).or_insert(list.len());
        if place == list.len() {
            list.push(Life { pod: name.to_owned(), revision: revision.to_owned(), states: Vec::new(), gone: None });
        }
        match to {
            Some(is) => list[place].states.push(LifeState { at, is }),
            None => drop(list[place].gone.get_or_insert(at)),
        }
        if LIVES_MAX < list.len() {
            self.lives = Lives { are_many: true, ..Lives::default() };
        }
    }

    /// The lives of all pods since the change.
    pub(crate) fn take_lives(&mut self) -> Vec<Life> {
        let lives = std::mem::take(&mut self.lives.list);
        lives.into_iter().filter(|life| !life.states.is_empty()).collect()
    }

    /// Adds the requests of a new pod.
    pub(crate) fn hold(&mut self, amounts: &Amounts, at: Duration) {
        self.held.add(amounts);
        for (name, value) in self.held.iter().filter(|_| self.began) {
            raise(self.resources.entry(name.to_owned()).or_default(), value, at);
        }
    }

    pub(crate) fn let_go(&mut self, amounts: &Amounts) {
        self.held.subtract(amounts);
    }

    /// The lanes have equal intervals, so a chart of a long rollout has the same resolution everywhere.
    fn draw_lane(&mut self, at: Duration) {
        let revisions = self.revisions.clone();
        let last = self.lanes.last_mut().filter(|last| last.at == at);
        if let Some(last) = last {
            last.revisions = revisions;
            return;
        }
        if !self.drawn.is_multiple_of(self.stride.max(1)) {
            self.lanes.pop();
        }
        self.drawn += 1;
        self.lanes.push(Lane { at, revisions });
        if self.lanes.len() > LANES_MAX {
            self.stride = self.stride.max(1) * 2;
            let newest = self.lanes.pop();
            let mut index = 0;
            self.lanes.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.lanes.extend(newest);
        }
    }
}

fn raise<T: PartialOrd>(peak: &mut Peak<T>, value: T, at: Duration) {
    if peak.value < value {
        *peak = Peak { value, at };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn peaks_are_of_the_time_after_the_change_and_first_reached() {
        let mut tally = CountHistory::default();
        (0..3).for_each(|_| tally.change("old", None, Some(PodState::Available), Duration::ZERO));
        tally.begin();
        tally.change("new", None, Some(PodState::Pending), SECOND);
        tally.change("old", Some(PodState::Available), Some(PodState::Terminating), SECOND * 2);
        tally.change("new", Some(PodState::Pending), Some(PodState::Available), SECOND * 3);
        tally.change("old", Some(PodState::Terminating), None, SECOND * 4);
        tally.change("old", Some(PodState::Available), Some(PodState::Terminating), SECOND * 5);
        let peak = |value, seconds: u32| Peak { value, at: SECOND * seconds };
        assert_eq!((tally.pods, tally.terminating, tally.available), (peak(4, 1), peak(1, 2), peak(2, 2)));
        assert_eq!(tally.lanes.len(), 6);
        assert_eq!(tally.all(), PodCounts { available: 2, terminating: 1, ..PodCounts::default() });
    }

    #[test]
    fn resources_peak_with_terminating_pods_among_them() {
        let mut tally = CountHistory::default();
        let pod = Amounts::from([("cpu", 500), ("pods", 1)]);
        tally.hold(&pod, Duration::ZERO);
        tally.begin();
        tally.hold(&pod, SECOND);
        tally.let_go(&pod);
        tally.hold(&pod, SECOND * 2);
        assert_eq!(tally.resources["cpu"], Peak { value: 1000, at: SECOND });
    }

    #[test]
    fn pods_are_followed_one_by_one_unless_they_are_many() {
        let mut tally = CountHistory::default();
        let mut follow = |number: usize, to, at| tally.follow(&Uid::from(number.to_string()), "web", "new", to, at);
        follow(0, Some(PodState::Pending), Duration::ZERO);
        follow(1, None, SECOND);
        follow(0, Some(PodState::Available), SECOND);
        follow(0, None, SECOND * 2);
        let states = vec![LifeState { at: Duration::ZERO, is: PodState::Pending }, LifeState { at: SECOND, is: PodState::Available }];
        assert_eq!(tally.take_lives(), [Life { pod: "web".to_owned(), revision: "new".to_owned(), states, gone: Some(SECOND * 2) }]);
        (0..=LIVES_MAX).for_each(|number| tally.follow(&Uid::from(number.to_string()), "web", "new", Some(PodState::Ready), SECOND * 3));
        assert_eq!(tally.take_lives(), []);
    }

    #[test]
    fn lanes_are_thinned_out_and_end_with_the_newest() {
        let mut tally = CountHistory::default();
        tally.begin();
        for second in 1..=5000 {
            tally.change("new", None, Some(PodState::Available), SECOND * second);
        }
        assert!(tally.lanes.len() <= LANES_MAX, "{}", tally.lanes.len());
        let last = tally.lanes.last().expect("some");
        assert_eq!((last.at, last.revisions["new"].available), (SECOND * 5000, 5000));
        let apart: Vec<Duration> = tally.lanes.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
        assert!(apart[..apart.len() - 1].iter().all(|apart| *apart == SECOND * 4), "{apart:?}");
    }
}
