//! Facts that few plans need and that are expensive to read. The caller builds the state without them, [`wanted`] names those that the plan
//! needs, and the caller reads them.

use super::{
    DeploymentState, auto_rollback,
    observe::{Observed, observe},
    revision, steps,
};
use crate::view::ReplicaSetView;
use berth_identity::Uid;

/// The maximum number of nodes in [`super::Found::unready_on`]. They are read one by one.
pub const NODES_MAX: usize = 16;

/// The facts that a plan needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Whether the namespace has a ReplicaSet of this name.
    pub set_name: Option<String>,
    /// Since when all pods of this set are ready.
    pub all_ready_since: Option<Uid>,
    /// The nodes of pods of this set that are not ready.
    pub unready_on: Option<Uid>,
}

/// The facts that the plan of this state needs and that the caller has to read. Most states need none.
#[must_use]
pub fn wanted(state: &DeploymentState) -> Wanted {
    let Ok(observed) = observe(state) else { return Wanted::default() };
    let Some(new) = observed.new_set() else {
        return Wanted { set_name: Some(revision::name_of_new(&observed).0), ..Wanted::default() };
    };
    Wanted {
        set_name: None,
        all_ready_since: needs_readiness(&observed, new).then(|| new.meta.uid.clone()),
        unready_on: auto_rollback::needs_nodes(&observed).map(|from| from.meta.uid.clone()),
    }
}

/// Whether the plan depends on how long the new set's pods have been ready: at a step, or until the rollout's success is decided. If the
/// counts show unready pods, it does not.
fn needs_readiness(observed: &Observed<'_>, new: &ReplicaSetView) -> bool {
    let counts = observed.state.counts(&new.meta.uid);
    let may_be_ready = counts.ready == counts.active && 0 < counts.active + counts.mismatched;
    may_be_ready && (steps::current_step(observed).is_some() || auto_rollback::is_complete(observed, new))
}
