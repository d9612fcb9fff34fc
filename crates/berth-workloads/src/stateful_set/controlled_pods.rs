//! An index of a set's pods by ordinal, with the answers that plans need. Reconciling a set of thousands of pods costs only the changes.

use super::{
    names::claim_name,
    rollout::{PhaseCounts, Share, revision_of, set_counts},
};
use crate::{
    cause,
    ordinals::{Ordinals, member_ordinal, ordinals},
    selector::Selector,
    view::{PodView, StatefulSetView},
};
use berth_api::{annotations::STATEFUL_SET_POD_NAME, apps::StatefulSetStatus};
use berth_identity::{Name, Ordinal};
use jiff::Timestamp;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

/// The pods that a set controls. The index is valid for one generation of the set, because selector, size and `minReadySeconds` are in the
/// spec.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlledPods {
    set: Expectation,
    /// Availability is as of this time.
    now: Timestamp,
    pods: BTreeMap<Ordinal, Arc<PodView>>,
    /// Pods that the set controls although they are not members, by name.
    strays: BTreeMap<Name, Arc<PodView>>,
    total: Share,
    revisions: BTreeMap<String, Members>,
    unavailable: BTreeSet<Ordinal>,
    unsettled: BTreeSet<Ordinal>,
    /// Not terminating, and not becoming ready.
    failing: BTreeSet<Ordinal>,
    /// Ready pods that are not available yet, by the time when they will be.
    pending: BTreeSet<(Timestamp, Ordinal)>,
    /// Every desired pod below this ordinal exists.
    next_missing: Ordinal,
}

/// The parts of the spec that concern pods.
#[derive(Clone, Debug, PartialEq)]
struct Expectation {
    name: Name,
    selector: Option<Selector>,
    ordinals: Ordinals,
    min_ready_seconds: i32,
    volumes: Vec<String>,
}

/// The ordinals of the pods of one revision.
#[derive(Clone, Debug, Default, PartialEq)]
struct Members {
    live: BTreeSet<Ordinal>,
    deleting: BTreeSet<Ordinal>,
}

impl Members {
    fn of(&mut self, pod: &PodView) -> &mut BTreeSet<Ordinal> {
        if pod.meta.deleted.is_some() { &mut self.deleting } else { &mut self.live }
    }
}

impl ControlledPods {
    /// The index as of `now`. `controlled` contains the pods that the set controls.
    pub fn new<'p>(set: &StatefulSetView, controlled: impl IntoIterator<Item = &'p Arc<PodView>>, now: Timestamp) -> Self {
        let ordinals = ordinals(set);
        let volumes = set.spec.volume_claim_templates.iter().flatten().filter_map(|claim| claim.metadata.name.clone());
        let expectation = Expectation {
            name: set.meta.name.clone(),
            selector: set.selector.clone(),
            ordinals,
            min_ready_seconds: set.spec.min_ready_seconds,
            volumes: volumes.collect(),
        };
        let mut pods = Self {
            set: expectation,
            now,
            pods: BTreeMap::new(),
            strays: BTreeMap::new(),
            total: Share::default(),
            revisions: BTreeMap::new(),
            unavailable: BTreeSet::new(),
            unsettled: BTreeSet::new(),
            failing: BTreeSet::new(),
            pending: BTreeSet::new(),
            next_missing: ordinals.start,
        };
        controlled.into_iter().for_each(|pod| pods.add(pod));
        pods
    }

    /// All pods: members by ordinal, then the others by name.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<PodView>> {
        self.pods.values().chain(self.strays.values())
    }

    /// Availability is as of this time.
    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// Adds a pod that the set controls. The index must not contain it.
    pub fn add(&mut self, pod: &Arc<PodView>) {
        match self.set.ordinal(pod) {
            Some(ordinal) => {
                self.pods.insert(ordinal, Arc::clone(pod));
                self.count(ordinal, pod);
                while self.pods.contains_key(&self.next_missing) {
                    self.next_missing = self.next_missing.plus(1);
                }
            }
            None => drop(self.strays.insert(pod.meta.name.clone(), Arc::clone(pod))),
        }
    }

    /// Removes a pod that the index contains.
    pub fn remove(&mut self, pod: &PodView) {
        match self.set.ordinal(pod) {
            Some(ordinal) => {
                self.pods.remove(&ordinal);
                self.uncount(ordinal, pod);
                if (self.set.ordinals.start..self.next_missing).contains(&ordinal) {
                    self.next_missing = ordinal;
                }
            }
            None => drop(self.strays.remove(&pod.meta.name)),
        }
    }

    /// Advances the time: pods that are available by `now` count as such. Time never decreases.
    pub fn advance(&mut self, now: Timestamp) {
        let due: Vec<Ordinal> = self.pending.iter().take_while(|(at, _)| *at <= now).map(|(_, ordinal)| *ordinal).collect();
        let due: Vec<_> = due.into_iter().filter_map(|ordinal| Some((ordinal, Arc::clone(self.pods.get(&ordinal)?)))).collect();
        due.iter().for_each(|(ordinal, pod)| self.uncount(*ordinal, pod));
        self.now = self.now.max(now);
        due.iter().for_each(|(ordinal, pod)| self.count(*ordinal, pod));
    }

    fn count(&mut self, ordinal: Ordinal, pod: &PodView) {
        let share = Share::of(pod, self.set.min_ready_seconds, self.now);
        self.total.replicas += share.replicas;
        self.total.ready += share.ready;
        self.total.available += share.available;
        self.revisions.entry(revision_of(pod).to_owned()).or_default().of(pod).insert(ordinal);
        let is_available = share.available == 1 && pod.meta.deleted.is_none();
        if !is_available {
            self.unavailable.insert(ordinal);
        }
        if !is_available || !self.set.has_identity(pod) || !self.set.has_volumes(ordinal, pod) {
            self.unsettled.insert(ordinal);
        }
        if pod.meta.deleted.is_none() && cause::of_pod(pod).is_some() {
            self.failing.insert(ordinal);
        }
        self.pending.extend(self.due(pod).map(|at| (at, ordinal)));
    }

    fn uncount(&mut self, ordinal: Ordinal, pod: &PodView) {
        let share = Share::of(pod, self.set.min_ready_seconds, self.now);
        self.total.replicas -= share.replicas;
        self.total.ready -= share.ready;
        self.total.available -= share.available;
        let revision = revision_of(pod);
        if let Some(known) = self.revisions.get_mut(revision) {
            known.of(pod).remove(&ordinal);
            if known.live.is_empty() && known.deleting.is_empty() {
                self.revisions.remove(revision);
            }
        }
        self.unavailable.remove(&ordinal);
        self.unsettled.remove(&ordinal);
        self.failing.remove(&ordinal);
        if let Some(at) = self.due(pod) {
            self.pending.remove(&(at, ordinal));
        }
    }

    /// When a ready pod that is not available yet becomes available.
    fn due(&self, pod: &PodView) -> Option<Timestamp> {
        pod.available_at(self.set.min_ready_seconds).filter(|at| *at > self.now)
    }

    /// When the next ready pod becomes available. `None` if no ready pod waits for that.
    #[must_use]
    pub fn next_available_at(&self) -> Option<Timestamp> {
        self.pending.first().map(|(at, _)| *at)
    }

    /// Pods that the set controls although selector or name do not match, by name.
    pub fn strays(&self) -> impl Iterator<Item = &PodView> {
        self.strays.values().map(|pod| &**pod)
    }

    /// The ordinals of all members, desired or not, ascending.
    pub fn ordinals(&self) -> impl Iterator<Item = Ordinal> {
        self.pods.keys().copied()
    }

    /// The pod with this ordinal.
    #[must_use]
    pub fn pod(&self, ordinal: Ordinal) -> Option<&PodView> {
        self.pods.get(&ordinal).map(|pod| &**pod)
    }

    /// Existing pods that are desired, with their ordinals, ascending.
    pub fn slots(&self) -> impl Iterator<Item = (Ordinal, &PodView)> {
        self.pods.range(self.wanted()).map(|(ordinal, pod)| (*ordinal, &**pod))
    }

    /// The ordinals of missing pods, ascending.
    pub fn missing(&self) -> impl Iterator<Item = Ordinal> {
        self.next_missing.up_to(self.wanted().end).filter(|ordinal| !self.pods.contains_key(ordinal))
    }

    /// The ordinals of desired pods that are missing, unavailable or terminating, or that have a wrong identity or wrong volumes,
    /// ascending.
    pub fn attention(&self) -> impl Iterator<Item = Ordinal> {
        let mut missing = self.missing().peekable();
        let mut unsettled = self.unsettled().peekable();
        std::iter::from_fn(move || match (missing.peek(), unsettled.peek()) {
            (Some(absent), Some(present)) if absent < present => missing.next(),
            (_, Some(_)) => unsettled.next(),
            (_, None) => missing.next(),
        })
    }

    /// The pods of [`ControlledPods::attention`] that exist. The cost depends only on these, however many are missing.
    pub fn unsettled(&self) -> impl Iterator<Item = Ordinal> {
        self.unsettled.range(self.wanted()).copied()
    }

    /// Existing pods that are not desired, highest ordinal first.
    pub fn condemned(&self) -> impl Iterator<Item = (Ordinal, &PodView)> {
        let Range { start, end } = self.wanted();
        let below = self.pods.range(..start).rev();
        self.pods.range(end.max(start)..).rev().chain(below).map(|(ordinal, pod)| (*ordinal, &**pod))
    }

    /// Whether an existing pod has been ready for `minReadySeconds` and is not terminating.
    #[must_use]
    pub fn is_available(&self, ordinal: Ordinal) -> bool {
        self.pods.contains_key(&ordinal) && !self.unavailable.contains(&ordinal)
    }

    /// How many pods are available and not terminating, desired or not. If a revision is given, counts only its pods.
    #[must_use]
    pub fn available(&self, revision: Option<&str>) -> i64 {
        let available = match revision {
            None => self.pods.len() - self.unavailable.len(),
            Some(name) => self.revisions.get(name).map_or(0, |pods| pods.live.difference(&self.unavailable).count()),
        };
        i64::try_from(available).unwrap_or(i64::MAX)
    }

    /// The pods of this revision that do not become ready, lowest ordinal first: see [`cause::of_pod`].
    pub fn failing(&self, revision: &str) -> impl Iterator<Item = &PodView> {
        let live = self.revisions.get(revision).map(|pods| &pods.live);
        let failing = self.failing.iter().filter(move |ordinal| live.is_some_and(|live| live.contains(ordinal)));
        failing.filter_map(|ordinal| self.pod(*ordinal))
    }

    /// Whether the pod has the right identity labels.
    #[must_use]
    pub fn has_identity(&self, pod: &PodView) -> bool {
        self.set.has_identity(pod)
    }

    /// Whether a pod mounts the claims of its ordinal.
    #[must_use]
    pub fn has_volumes(&self, ordinal: Ordinal, pod: &PodView) -> bool {
        self.set.has_volumes(ordinal, pod)
    }

    /// Desired pods that are missing or unavailable.
    #[must_use]
    pub fn unavailable_slots(&self) -> i64 {
        let wanted = self.wanted();
        let present = self.pods.len() - self.condemned().count();
        let unavailable = self.unavailable.range(wanted.clone()).count();
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        (wanted.end.0 - wanted.start.0) - number(present) + number(unavailable)
    }

    /// The highest desired ordinal, at least `from`, whose pod is missing or unavailable.
    #[must_use]
    pub fn highest_unavailable(&self, from: Ordinal) -> Option<Ordinal> {
        let Range { start, end } = self.wanted();
        let from = from.clamp(start, end);
        let unavailable = self.unavailable.range(from..end).next_back().copied();
        // Every pod below the lowest gap exists.
        let first_gap = self.missing().next().map_or(end, |gap| gap.max(from));
        let missing = first_gap.up_to(end).rev().find(|ordinal| !self.pods.contains_key(ordinal));
        missing.max(unavailable)
    }

    /// Ordinals, highest first, of the pods in `range` that have another revision and are not terminating.
    #[must_use]
    pub fn outdated(&self, revision: &str, range: Range<Ordinal>) -> Vec<Ordinal> {
        if range.is_empty() {
            return Vec::new();
        }
        let others = self.revisions.iter().filter(|(name, _)| *name != revision);
        let mut outdated: Vec<Ordinal> = others.flat_map(|(_, pods)| pods.live.range(range.clone())).copied().collect();
        outdated.sort_unstable_by(|a, b| b.cmp(a));
        outdated
    }

    /// The highest of [`ControlledPods::outdated`].
    #[must_use]
    pub fn highest_outdated(&self, revision: &str, range: Range<Ordinal>) -> Option<Ordinal> {
        if range.is_empty() {
            return None;
        }
        let others = self.revisions.iter().filter(|(name, _)| *name != revision);
        others.filter_map(|(_, pods)| pods.live.range(range.clone()).next_back()).max().copied()
    }

    /// Terminating pods of other revisions.
    pub fn outdated_deleting(&self, revision: &str) -> impl Iterator<Item = &PodView> {
        let others = self.revisions.iter().filter(move |(name, _)| *name != revision);
        others.flat_map(|(_, pods)| &pods.deleting).filter_map(|ordinal| self.pod(*ordinal))
    }

    /// Whether any desired pod is terminating.
    #[must_use]
    pub fn is_any_slot_deleting(&self) -> bool {
        self.revisions.values().any(|pods| pods.deleting.range(self.wanted()).next().is_some())
    }

    /// The counts that determine the phase of a Recreate update to this revision.
    #[must_use]
    pub fn phase_counts(&self, revision: &str) -> PhaseCounts {
        let mut counts = PhaseCounts::default();
        for (name, pods) in &self.revisions {
            if name == revision {
                let outside = self.condemned().filter(|(ordinal, _)| pods.live.contains(ordinal)).count();
                counts.new = pods.live.len() - outside;
            } else {
                counts.old += pods.live.len();
                counts.old_deleting += pods.deleting.len();
            }
        }
        counts
    }

    /// Whether any pod has this revision.
    #[must_use]
    pub fn names_revision(&self, revision: &str) -> bool {
        self.revisions.contains_key(revision)
    }

    /// Writes the counts of a set's status, with the same result as [`super::counts`].
    pub fn write_counts(&self, status: &mut StatefulSetStatus) {
        let (current, updated) = (self.live(&status.current_revision), self.live(&status.update_revision));
        set_counts(status, self.total, current, updated);
    }

    /// How many pods of this revision are not terminating, desired or not. The empty revision has none.
    #[must_use]
    pub fn live(&self, revision: &str) -> i32 {
        let pods = self.revisions.get(revision).filter(|_| !revision.is_empty());
        pods.map_or(0, |pods| i32::try_from(pods.live.len()).unwrap_or(i32::MAX))
    }

    fn wanted(&self) -> Range<Ordinal> {
        self.set.ordinals.start..self.set.ordinals.end()
    }
}

impl Expectation {
    /// The ordinal of a member: its name follows the set's pattern, and the selector matches. A terminating pod remains a member whatever
    /// its labels. It still uses its name and its claims, and KEP-3541 waits for every pod that the set owns.
    fn ordinal(&self, pod: &PodView) -> Option<Ordinal> {
        let is_selected = || self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.meta.labels));
        member_ordinal(&self.name, &pod.meta.name).filter(|_| pod.meta.deleted.is_some() || is_selected())
    }

    fn has_identity(&self, pod: &PodView) -> bool {
        pod.meta.labels.get(STATEFUL_SET_POD_NAME).is_some_and(|name| pod.meta.name == name)
    }

    fn has_volumes(&self, ordinal: Ordinal, pod: &PodView) -> bool {
        self.volumes.iter().all(|volume| pod.claims.get(volume).is_some_and(|claim| *claim == claim_name(volume, &self.name, ordinal)))
    }
}
