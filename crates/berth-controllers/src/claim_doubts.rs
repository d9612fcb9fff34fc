//! Pods of StatefulSets whose claims may go with the wrong owners: a look at a set need not look at all its claims each time.

use crate::lock;
use berth_identity::{ObjectKey, Uid};
use berth_workloads::{
    stateful_set::{Roster, claims_in_doubt},
    view::{ClaimView, StatefulSetView, View},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

/// The doubts about all sets. By default none has been looked at, so that all is doubtful.
#[derive(Default)]
pub struct ClaimDoubts(Mutex<BTreeMap<ObjectKey, Doubts>>);

/// The doubts about one set. They hold for this generation of it; after a change of the spec all is doubtful.
struct Doubts {
    uid: Uid,
    generation: i64,
    ordinals: BTreeSet<i64>,
}

impl ClaimDoubts {
    /// The pod with this number or one of its claims has changed. A set that was never looked at is doubtful as a whole.
    pub(crate) fn add(&self, set: &ObjectKey, ordinal: i64) {
        if let Some(doubts) = lock(&self.0).get_mut(set) {
            doubts.ordinals.insert(ordinal);
        }
    }

    /// The doubts that are left after looking at what is doubtful.
    pub(crate) fn settle(
        &self,
        set: &StatefulSetView,
        roster: &Roster,
        claim_named: &dyn Fn(&str) -> Option<Arc<ClaimView>>,
    ) -> BTreeSet<i64> {
        if set.spec.volume_claim_templates.iter().flatten().next().is_none() {
            return BTreeSet::new();
        }
        let mut all = lock(&self.0);
        let known = all.remove(&set.key()).filter(|known| known.uid == set.meta.uid && known.generation == set.meta.generation);
        let candidates = known.map_or_else(|| roster.ordinals().collect(), |known| known.ordinals);
        let ordinals = claims_in_doubt(set, roster, claim_named, candidates);
        let doubts = Doubts { uid: set.meta.uid.clone(), generation: set.meta.generation, ordinals: ordinals.clone() };
        all.insert(set.key(), doubts);
        ordinals
    }

    /// The set is gone.
    pub(crate) fn forget(&self, set: &ObjectKey) {
        lock(&self.0).remove(set);
    }
}
