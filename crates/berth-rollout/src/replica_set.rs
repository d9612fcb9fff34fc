//! How far a ReplicaSet or a ReplicationController is by itself.

use crate::status::{RolloutProgress, RolloutStage};
use berth_workloads::view::ReplicaSetView;

/// Its progress according to its status.
#[must_use]
pub fn progress(set: &ReplicaSetView) -> RolloutProgress {
    let (wanted, status) = (set.replicas, &set.status);
    let is_observed = set.meta.generation <= status.observed_generation;
    let is_whole = [status.replicas, status.ready_replicas, status.available_replicas] == [wanted; 3];
    let state = if is_whole && is_observed && set.meta.deleted.is_none() { RolloutStage::Complete } else { RolloutStage::Waiting };
    RolloutProgress { state, message: format!("it has {} of {wanted} pods, of which {} are ready", status.replicas, status.ready_replicas) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::Revision;
    use berth_workloads::view::View;
    use serde_json::{Value, json};

    fn progress_of(metadata: Value, ready: i32, available: i32) -> RolloutProgress {
        let mut object = json!({"metadata": metadata, "spec": {"replicas": 2, "selector": {}, "template": {}},
            "status": {"observedGeneration": 3, "replicas": 2, "readyReplicas": ready, "availableReplicas": available}});
        object["metadata"]["name"] = json!("web");
        progress(&ReplicaSetView::decode(object.to_string().as_bytes(), Revision(1)).expect("a ReplicaSet"))
    }

    #[test]
    fn a_set_is_complete_when_its_controller_has_observed_it_and_all_pods_are_available() {
        let state = |metadata: Value, ready: i32, available: i32| progress_of(metadata, ready, available).state;
        assert_eq!(progress_of(json!({"generation": 3}), 1, 0).message, "it has 2 of 2 pods, of which 1 are ready");
        assert_eq!(state(json!({"generation": 3}), 2, 2), RolloutStage::Complete);
        assert_eq!(state(json!({"generation": 3}), 2, 1), RolloutStage::Waiting);
        assert_eq!(state(json!({"generation": 4}), 2, 2), RolloutStage::Waiting, "the counts are those of the previous spec");
        let deleted = json!({"generation": 3, "deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(state(deleted, 2, 2), RolloutStage::Waiting);
    }
}
