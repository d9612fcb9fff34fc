//! The StatefulSet controller's decisions: pods with numbers, each with its own claims, and how one template gives way to the next.
//!
//! [`State`] and [`plan`] are the controller; the other public functions are its rules, one each.

mod auto_rollback;
mod claims;
mod condemned;
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
mod roster;
mod slots;
mod status;
mod strategy;
mod volumes;
mod work;

pub use crate::ordinals::{Ordinals, PodName, Split, member_ordinal, ordinals};
pub use claims::{Claim, ClaimOwner, PodFate, claim_owner, must_wait_for_claims};
pub use events::wait_event;
pub use history::revision_data;
pub use names::{claim_name, pod_name};
pub use observe::{Figures, figures};
pub use plan::plan;
pub use revisions::{NewPod, RevisionChoice, RevisionName, controller_revision_name, new_pod_revision};
pub use rollout::{Phase, PhaseCounts, Share, complete_rolling_update, counts, is_ready, max_unavailable, revision_of};
pub use roster::Roster;
pub use strategy::{EffectiveStrategy, partition, strategy};
pub use volumes::claims_in_doubt;

use crate::view::{ClaimView, PodView, RevisionView, StatefulSetView};
use berth_api::FeatureGates;
use jiff::Timestamp;
use std::{collections::BTreeSet, sync::Arc};

/// The label by which a pod names its ControllerRevision.
pub const REVISION_LABEL: &str = "controller-revision-hash";

/// What the plan of one StatefulSet is made from: one consistent reading of the caches, in which every own write is already visible.
pub struct State<'a> {
    /// The set.
    pub set: &'a StatefulSetView,
    /// The ControllerRevisions that it controls, and at least those that it selects of its namespace and that nobody controls. Any order.
    pub revisions: Vec<Arc<RevisionView>>,
    /// The ControllerRevision of its namespace with this name, whoever controls it.
    pub revision_named: &'a dyn Fn(&str) -> Option<Arc<RevisionView>>,
    /// The pods that it controls, at `now`.
    pub roster: &'a Roster,
    /// Pods of its namespace that nobody controls, at least those that it selects.
    pub orphans: Vec<Arc<PodView>>,
    /// Whether the namespace has a pod of this name, whoever controls it.
    pub is_pod_there: &'a dyn Fn(&str) -> bool,
    /// The PersistentVolumeClaim of its namespace with this name.
    pub claim_named: &'a dyn Fn(&str) -> Option<Arc<ClaimView>>,
    /// Numbers of pods whose claims may not go with whom they should: all that [`claims_in_doubt`] would name are among them.
    pub claims_in_doubt: &'a BTreeSet<i64>,
    /// Why pods or claims could not be made in the last look.
    pub last_error: Option<&'a str>,
    /// The controllers' feature gates.
    pub gates: &'a FeatureGates,
    /// The time of this reading.
    pub now: Timestamp,
}
