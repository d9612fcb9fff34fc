//! Numbers of StatefulSets whose claims may go with the wrong owners: a reconcile of a set need not read all its claims each time.

use crate::{cache::Known, lock};
use berth_identity::{Generation, Namespace, ObjectKey, Ordinal, Uid};
use berth_workloads::{
    stateful_set::{ControlledPods, claim_names, claims_in_doubt, member_ordinal},
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
    generation: Generation,
    ordinals: BTreeSet<Ordinal>,
}

impl ClaimDoubts {
    /// The pod with this number or one of its claims has changed. A set that was never looked at is doubtful as a whole.
    pub(crate) fn add(&self, set: &ObjectKey, ordinal: Ordinal) {
        if let Some(doubts) = lock(&self.0).get_mut(set) {
            doubts.ordinals.insert(ordinal);
        }
    }

    /// The doubts that are left after looking at what is doubtful.
    pub(crate) fn settle(&self, set: &StatefulSetView, controlled: &ControlledPods, claims: &Known<ClaimView>) -> BTreeSet<Ordinal> {
        if set.spec.volume_claim_templates.iter().flatten().next().is_none() {
            return BTreeSet::new();
        }
        let mut all = lock(&self.0);
        let known = all.remove(&set.key()).filter(|known| known.uid == set.meta.uid && known.generation == set.meta.generation);
        let candidates = known.map_or_else(|| claimed(set, claims), |known| known.ordinals);
        let found = named(claims, &set.meta.namespace, claim_names(set, candidates.iter().copied()));
        let ordinals = claims_in_doubt(set, controlled, &found, candidates);
        let doubts = Doubts { uid: set.meta.uid.clone(), generation: set.meta.generation, ordinals: ordinals.clone() };
        all.insert(set.key(), doubts);
        ordinals
    }

    /// The set is gone.
    pub(crate) fn forget(&self, set: &ObjectKey) {
        lock(&self.0).remove(set);
    }
}

/// The numbers for which there is a claim with a name of the set's, whether or not there is a pod.
fn claimed(set: &StatefulSetView, claims: &Known<ClaimView>) -> BTreeSet<Ordinal> {
    let templates = set.spec.volume_claim_templates.iter().flatten().filter_map(|template| template.metadata.name.as_ref());
    let of_template = |template: &String| {
        let prefix = format!("{template}-");
        let beginning = format!("{prefix}{}-", set.meta.name);
        let named = claims.beginning_with(&set.meta.namespace, &beginning);
        named.filter_map(|claim| member_ordinal(&set.meta.name, claim.meta.name.strip_prefix(&*prefix)?)).collect::<Vec<_>>()
    };
    templates.flat_map(of_template).collect()
}

/// The claims of a namespace that have these names.
pub(crate) fn named(
    claims: &Known<ClaimView>,
    namespace: &Namespace,
    names: impl IntoIterator<Item = String>,
) -> BTreeMap<String, Arc<ClaimView>> {
    let claim = |name: String| claims.get(&ObjectKey::new(namespace, &name)).map(|claim| (name, claim));
    names.into_iter().filter_map(claim).collect()
}
