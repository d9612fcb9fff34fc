//! The StatefulSet controller's decisions: pods with numbers, each with its own claims, and how one template gives way to the next.
//!
//! [`StatefulSetState`] and [`plan`] are the controller; the other public functions are its rules, one each.

mod auto_rollback;
mod claims;
mod condemned;
mod controlled_pods;
mod events;
mod history;
mod kept_progress;
mod names;
mod notes;
mod observe;
mod plan;
mod pod;
mod progress;
mod records;
mod recreate;
mod revisions;
mod rolling;
mod rollout;
mod slots;
mod state;
mod status;
mod strategy;
mod volumes;
mod wanted;
mod work;

pub use crate::ordinals::{Ordinals, PodName, Split, member_ordinal, ordinals};
pub use claims::{Claim, ClaimOwner, PodMembership, claim_owner, must_wait_for_claims};
pub use controlled_pods::ControlledPods;
pub use events::wait_event;
pub use history::wanted_revision;
pub use names::{claim_name, pod_name};
pub use observe::{Figures, figures};
pub use plan::plan;
pub use revisions::{NewPod, RevisionChoice, RevisionName, controller_revision_name, new_pod_revision, revision_data};
pub use rollout::{Phase, PhaseCounts, Share, complete_rolling_update, counts, is_ready, max_unavailable, revision_of};
pub use state::{Found, StatefulSetState};
pub use strategy::{EffectiveStrategy, partition, strategy};
pub use volumes::{claim_names, claims_in_doubt};
pub use wanted::{Wanted, wanted};

/// The label by which a pod names its ControllerRevision.
pub const REVISION_LABEL: &str = "controller-revision-hash";
