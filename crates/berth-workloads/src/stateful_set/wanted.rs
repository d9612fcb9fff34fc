//! Facts about objects of other owners that a plan needs. The caller builds the state without them, [`wanted`] and
//! [`super::wanted_revision`] name the objects, and the caller reads them.

use super::{
    StatefulSetState,
    names::pod_name,
    slots::BURST_PODS,
    volumes::{self, claim_names},
};
use crate::view::{PodManagement, PodPhase};
use berth_identity::Ordinal;
use std::collections::BTreeSet;

/// The objects that a plan needs, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Pods whose existence the plan needs to know.
    pub pods: BTreeSet<String>,
    /// PersistentVolumeClaims.
    pub claims: BTreeSet<String>,
}

/// The objects that the plan of this state needs. The cost is linear in the pods that the plan creates, the pending pods, and the claims in
/// doubt.
#[must_use]
pub fn wanted(state: &StatefulSetState) -> Wanted {
    let set = &state.set;
    if set.meta.deleted.is_some() {
        return Wanted::default();
    }
    let (missing, pending) = unsettled(state);
    let name = |ordinal: &Ordinal| pod_name(&set.meta.name, *ordinal);
    let pods = missing.iter().chain(&state.claims_in_doubt).map(name).collect();
    let with_claims = missing.iter().chain(&pending).chain(&state.claims_in_doubt).copied();
    let claims = if volumes::has_templates(set) { claim_names(set, with_claims).collect() } else { BTreeSet::new() };
    Wanted { pods, claims }
}

/// The ordinals of the pods that this plan may create, and of those whose claims it may create.
fn unsettled(state: &StatefulSetState) -> (Vec<Ordinal>, Vec<Ordinal>) {
    let controlled = &state.pods;
    let is_pending = |ordinal: &Ordinal| controlled.pod(*ordinal).is_some_and(|pod| pod.phase == PodPhase::Pending);
    match state.set.choices.management {
        PodManagement::Parallel => (controlled.missing().take(BURST_PODS).collect(), controlled.unsettled().filter(is_pending).collect()),
        PodManagement::OrderedReady => {
            // The first unavailable pod blocks those after it.
            let mut holds_up = false;
            let first = controlled.attention().take_while(|ordinal| !std::mem::replace(&mut holds_up, !controlled.is_available(*ordinal)));
            let (present, missing): (Vec<Ordinal>, Vec<Ordinal>) = first.partition(|ordinal| controlled.pod(*ordinal).is_some());
            (missing, present.into_iter().filter(is_pending).collect())
        }
    }
}
