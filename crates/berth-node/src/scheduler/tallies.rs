//! How many pods of each set of pods are on each node.
//!
//! A set is counted once, and then with each pod that gets or loses a node. So the placement of a pod does not read other pods.

use super::{
    Inconsistent,
    pod_set::{NamespaceLabels, PodSet, SetIndex},
    sums::{Division, Nodes, Parts, Sums},
    view::PodInfo,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// How many sets are counted. Each workload whose pods are being placed has about two. To count a set again reads all pods once.
const SETS_MAX: usize = 1024;

/// How many sums all sets have together, about 100 MB: one for each node with pods of the set, and one for each part of its divisions.
const SUMS_MAX: usize = 1_000_000;

/// The counted sets, by their texts.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    tallies: BTreeMap<Arc<str>, Tally>,
    index: SetIndex<Arc<str>>,
    /// Raised with each pod that is placed.
    round: u64,
}

#[derive(Debug)]
struct Tally {
    pods: PodSet,
    sums: Sums,
    /// The round of its last use.
    last_use: u64,
}

impl Tallies {
    /// Begins the placement of a pod. Sets that are required from here on stay until the next one.
    pub(super) fn begin_round(&mut self) {
        self.round += 1;
    }

    /// Counts the pods of a set by these divisions, unless they are counted. `placed` are all pods with a node, with its name.
    pub(super) fn require<'a>(
        &mut self,
        pods: &PodSet,
        divisions: &[Division],
        placed: impl Iterator<Item = (&'a PodInfo, &'a str)>,
        nodes: &Nodes,
        namespaces: &NamespaceLabels,
    ) {
        if !self.tallies.contains_key(pods.text()) {
            self.remove_unused();
            let mut sums = Sums::default();
            placed.filter(|(pod, _)| pod.is_in(pods, namespaces)).for_each(|(_, node)| sums.add(node, 1, nodes));
            self.index.insert(pods, Arc::clone(pods.text()));
            self.tallies.insert(Arc::clone(pods.text()), Tally { pods: pods.clone(), sums, last_use: 0 });
        }
        if let Some(tally) = self.tallies.get_mut(pods.text()) {
            tally.last_use = self.round;
            divisions.iter().for_each(|division| tally.sums.divide(division, nodes, self.round));
        }
    }

    /// Stops counting the sets that were used least recently, if there are too many.
    fn remove_unused(&mut self) {
        let mut sums: usize = self.tallies.values().map(|tally| tally.sums.count()).sum();
        while self.tallies.len() >= SETS_MAX || sums > SUMS_MAX {
            let unused = self.tallies.iter().filter(|(_, tally)| tally.last_use < self.round);
            let Some((text, tally)) = unused.min_by_key(|(_, tally)| tally.last_use) else { return };
            sums -= tally.sums.count();
            let text = Arc::clone(text);
            self.remove(&text);
        }
    }

    fn remove(&mut self, text: &Arc<str>) {
        if let Some(tally) = self.tallies.remove(text) {
            self.index.remove(&tally.pods, text);
        }
    }

    /// Counts a pod that has got a node (1), or has lost it (-1).
    pub(super) fn change(&mut self, pod: &PodInfo, node: &str, by: i64, nodes: &Nodes, namespaces: &NamespaceLabels) {
        let texts = self.index.candidates(&pod.labels);
        for text in texts {
            if let Some(tally) = self.tallies.get_mut(text).filter(|tally| pod.is_in(&tally.pods, namespaces)) {
                tally.sums.add(node, by, nodes);
            }
        }
    }

    /// Takes in that labels of namespaces have changed.
    pub(super) fn namespaces_changed(&mut self) {
        let stale: Vec<Arc<str>> =
            self.tallies.iter().filter(|(_, tally)| tally.pods.reads_namespaces()).map(|(text, _)| Arc::clone(text)).collect();
        stale.iter().for_each(|text| self.remove(text));
    }

    /// The counts of a set, after [`Tallies::require`].
    pub(super) fn sums(&self, pods: &PodSet) -> Option<&Sums> {
        self.tallies.get(pods.text()).map(|tally| &tally.sums)
    }

    /// The counts of a set by a division, after [`Tallies::require`].
    pub(super) fn parts(&self, pods: &PodSet, by: &Division) -> Option<&Parts> {
        self.sums(pods)?.parts(by)
    }

    /// Checks the counts against `placed`, for tests and the simulation.
    pub(super) fn check<'a>(
        &self,
        placed: impl Iterator<Item = (&'a PodInfo, &'a str)> + Clone,
        namespaces: &NamespaceLabels,
    ) -> Result<(), Inconsistent> {
        for (text, tally) in &self.tallies {
            let mut recount: BTreeMap<&str, i64> = BTreeMap::new();
            for (_, node) in placed.clone().filter(|(pod, _)| pod.is_in(&tally.pods, namespaces)) {
                *recount.entry(node).or_default() += 1;
            }
            if recount != tally.sums.by_node() {
                return Err(Inconsistent(format!("{text}: counted {:?}, found {recount:?}", tally.sums.by_node())));
            }
        }
        Ok(())
    }
}

/// Pods without a node that wait for pods of some sets, by uid.
#[derive(Debug, Default)]
pub(super) struct Watches {
    sets: BTreeMap<Arc<str>, (PodSet, BTreeSet<berth_identity::Uid>)>,
    index: SetIndex<Arc<str>>,
    /// Those whose sets have changed.
    woken: BTreeSet<berth_identity::Uid>,
}

impl Watches {
    /// The pod waits for these sets.
    pub(super) fn insert<'a>(&mut self, pod: &PodInfo, sets: impl Iterator<Item = &'a PodSet>) {
        for set in sets {
            let (_, pods) = self.sets.entry(Arc::clone(set.text())).or_insert_with(|| {
                self.index.insert(set, Arc::clone(set.text()));
                (set.clone(), BTreeSet::new())
            });
            pods.insert(pod.uid.clone());
        }
    }

    /// The pod waits no more.
    pub(super) fn remove<'a>(&mut self, pod: &PodInfo, sets: impl Iterator<Item = &'a PodSet>) {
        self.woken.remove(&pod.uid);
        for set in sets {
            let Some((_, pods)) = self.sets.get_mut(set.text()) else { continue };
            pods.remove(&pod.uid);
            if pods.is_empty() {
                self.sets.remove(set.text());
                self.index.remove(set, set.text());
            }
        }
    }

    /// Takes in that a pod has got a node, or counts no more.
    pub(super) fn change(&mut self, pod: &PodInfo, namespaces: &NamespaceLabels) {
        for text in self.index.candidates(&pod.labels) {
            if let Some((_, pods)) = self.sets.get(text).filter(|(set, _)| pod.is_in(set, namespaces)) {
                self.woken.extend(pods.iter().cloned());
            }
        }
    }

    /// The pods whose sets have changed since the last call.
    pub(super) fn take_woken(&mut self) -> BTreeSet<berth_identity::Uid> {
        std::mem::take(&mut self.woken)
    }

    /// How many sets are watched.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.sets.len()
    }
}
