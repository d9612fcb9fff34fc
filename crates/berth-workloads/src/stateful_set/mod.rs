//! The StatefulSet controller's arithmetic: names and ordinals, revisions, claims, phases. Each function is one rule.

mod claims;
mod ordinals;
mod revisions;
mod rollout;

pub use claims::{Claim, ClaimOwner, PodFate, RetentionPolicy, claim_owner, must_wait_for_claims};
pub use ordinals::{Ordinals, PodName, Split};
pub use revisions::{NewPod, RevisionChoice, RevisionName, controller_revision_name, new_pod_revision};
pub use rollout::{Identity, Phase, complete_rolling_update, counts, max_unavailable, recreate_phase};

/// The label by which a pod names its ControllerRevision.
pub const REVISION_LABEL: &str = "controller-revision-hash";
