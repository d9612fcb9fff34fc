//! The StatefulSet controller's decisions: pods with ordinals and their own claims, and how a new template replaces the old one.
//!
//! [`StatefulSetState`] and [`plan`] are the controller. Each of the other public functions is one of its rules.

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

/// The label of a pod that contains its ControllerRevision.
pub const REVISION_LABEL: &str = "controller-revision-hash";
