//! Names of ControllerRevisions, and which of them a new pod gets.

use super::EffectiveStrategy;
use crate::hash::safe_encode;
use berth_identity::Ordinal;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Value, json};

/// How much of the set's name stays in a revision's name.
const PARENT_LENGTH_MAX: usize = 223;

/// Name and hash label of a ControllerRevision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionName {
    /// Value of the label `controller.kubernetes.io/hash`.
    pub hash: String,
    /// `<set>-<hash>`.
    pub name: String,
}

/// The name of the revision with this data: FNV-1 (32 bit) over the data and the decimal number of collisions.
#[must_use]
pub fn controller_revision_name(parent: &str, data: &[u8], collision_count: Option<i32>) -> RevisionName {
    let collisions = collision_count.map(|count| count.to_string()).unwrap_or_default();
    let bytes = data.iter().chain(collisions.as_bytes());
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(*byte));
    let hash = safe_encode(&hash.to_string());
    let parent = parent.get(..PARENT_LENGTH_MAX).unwrap_or(parent);
    RevisionName { name: format!("{parent}-{hash}"), hash }
}

/// One of the two revisions that a set rolls between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisionChoice {
    /// The one that the update started from.
    Current,
    /// The one that it leads to.
    Update,
}

/// A pod that is missing, as far as its revision depends on it.
#[derive(Clone, Copy, Debug)]
pub struct NewPod {
    /// Its number.
    pub ordinal: Ordinal,
    /// The set's first number.
    pub start: Ordinal,
    /// `status.currentReplicas`.
    pub current_replicas: i64,
    /// `partition`, in a `rollingUpdate` block.
    pub partition: Option<i64>,
}

/// The revision that a missing pod gets. Only a rolling update ever makes pods of the current one.
#[must_use]
pub fn new_pod_revision(strategy: EffectiveStrategy, pod: NewPod) -> RevisionChoice {
    let kept = pod.partition.unwrap_or(pod.current_replicas);
    if strategy == EffectiveStrategy::RollingUpdate && pod.ordinal < pod.start.plus(kept) {
        RevisionChoice::Current
    } else {
        RevisionChoice::Update
    }
}

/// A template as a revision keeps it: a strategic merge patch that replaces the set's template.
#[must_use]
pub fn revision_data(template: &PodTemplateSpec) -> Value {
    let mut template = serde_json::to_value(template).expect("API structs have string keys only");
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}
