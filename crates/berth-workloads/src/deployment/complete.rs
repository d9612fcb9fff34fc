//! Whether a rollout is complete.

use super::{
    observe::Observed,
    progress::{self, Goal},
    steps,
};
use berth_api::apps::DeploymentStatus;

/// The conditions for completion.
pub(super) fn goal(observed: &Observed<'_>) -> Goal {
    Goal {
        desired: observed.size.desired,
        generation: observed.deployment().meta.generation,
        policy: observed.policy,
        terminating: Some(observed.terminating()),
    }
}

/// Whether the rollout is complete by the counts of a status, with no step left.
pub(super) fn is_complete(observed: &Observed<'_>, status: &DeploymentStatus) -> bool {
    progress::is_complete(goal(observed), status) && !steps::are_left(observed)
}
