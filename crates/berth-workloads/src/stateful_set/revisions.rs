//! Names of ControllerRevisions, and the revision of a new pod.

use super::EffectiveStrategy;
use crate::hash::safe_encode;
use berth_identity::Ordinal;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::{Value, json};

/// How much of the set's name remains in a revision's name.
const PARENT_LENGTH_MAX: usize = 223;

/// Name and hash label of a ControllerRevision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionName {
    /// Value of the label `controller.kubernetes.io/hash`.
    pub hash: String,
    /// `<set>-<hash>`.
    pub name: String,
}

/// The name of the revision with this data: FNV-1 (32 bit) of the data and the decimal number of collisions.
#[must_use]
pub fn controller_revision_name(parent: &str, data: &[u8], collision_count: Option<i32>) -> RevisionName {
    let collisions = collision_count.map(|count| count.to_string()).unwrap_or_default();
    let bytes = data.iter().chain(collisions.as_bytes());
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(*byte));
    let hash = safe_encode(&hash.to_string());
    let parent = parent.get(..PARENT_LENGTH_MAX).unwrap_or(parent);
    RevisionName { name: format!("{parent}-{hash}"), hash }
}

/// One of the two revisions of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisionChoice {
    /// The current revision, from which the update started.
    Current,
    /// The update revision.
    Update,
}

/// A missing pod, as far as its revision depends on it.
#[derive(Clone, Copy, Debug)]
pub struct NewPod {
    /// Its ordinal.
    pub ordinal: Ordinal,
    /// The set's first ordinal.
    pub start: Ordinal,
    /// `status.currentReplicas`.
    pub current_replicas: i64,
    /// `partition`, in a `rollingUpdate` block.
    pub partition: Option<i64>,
}

/// The revision of a missing pod. Only a rolling update creates pods of the current one.
#[must_use]
pub fn new_pod_revision(strategy: EffectiveStrategy, pod: NewPod) -> RevisionChoice {
    let kept = pod.partition.unwrap_or(pod.current_replicas);
    if strategy == EffectiveStrategy::RollingUpdate && pod.ordinal < pod.start.plus(kept) {
        RevisionChoice::Current
    } else {
        RevisionChoice::Update
    }
}

/// A template in the form of a revision's data: a strategic merge patch that replaces the set's template.
#[must_use]
pub fn revision_data(template: &PodTemplateSpec) -> Value {
    let mut template = serde_json::to_value(template).expect("API structs have string keys only");
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}
