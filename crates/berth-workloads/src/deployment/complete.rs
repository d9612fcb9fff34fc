//! Whether a rollout is complete.

use super::{
    observe::Observed,
    progress::{self, Goal},
    steps,
};
use berth_api::apps::DeploymentStatus;

/// What the rollout is to come to.
pub(super) fn goal(observed: &Observed<'_>) -> Goal {
    Goal {
        desired: observed.size.desired,
        generation: observed.deployment().meta.generation,
        policy: observed.policy,
        terminating: Some(observed.terminating()),
    }
}

/// Whether the rollout is complete by what a status counts, and no step is left that it has not come to.
pub(super) fn is_complete(observed: &Observed<'_>, status: &DeploymentStatus) -> bool {
    progress::is_complete(goal(observed), status) && !steps::are_left(observed)
}
