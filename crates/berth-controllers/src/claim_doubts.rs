//! Ordinals of StatefulSets whose claims may have wrong owners. With this index, a reconcile does not read all claims of a set.

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

/// The doubts about all sets. By default no set has been checked, so all ordinals are doubtful.
#[derive(Default)]
pub struct ClaimDoubts(Mutex<BTreeMap<ObjectKey, Doubts>>);

/// The doubts about one set. They are valid for one generation. After a change of the spec, all ordinals are doubtful.
struct Doubts {
    uid: Uid,
    generation: Generation,
    ordinals: BTreeSet<Ordinal>,
}

impl ClaimDoubts {
    /// Records that the pod with this ordinal or one of its claims has changed. A set that was never checked is doubtful as a whole.
    pub(crate) fn add(&self, set: &ObjectKey, ordinal: Ordinal) {
        if let Some(doubts) = lock(&self.0).get_mut(set) {
            doubts.ordinals.insert(ordinal);
        }
    }

    /// Checks the doubtful ordinals, and returns those that are wrong.
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

    /// Removes the doubts about a deleted set.
    pub(crate) fn forget(&self, set: &ObjectKey) {
        lock(&self.0).remove(set);
    }
}

/// The ordinals with a claim of the set's naming pattern, whether there is a pod or not.
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

/// The claims of a namespace with these names.
pub(crate) fn named(
    claims: &Known<ClaimView>,
    namespace: &Namespace,
    names: impl IntoIterator<Item = String>,
) -> BTreeMap<String, Arc<ClaimView>> {
    let claim = |name: String| claims.get(&ObjectKey::new(namespace, &name)).map(|claim| (name, claim));
    names.into_iter().filter_map(claim).collect()
}
