//! Manifests, and forecasts of them.
#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod scenario;

use berth_plan::{Change, Edit, Edits, Forecast, Snapshot, Suppositions, forecast};
use berth_workloads::workload::{WorkloadId, WorkloadKind};
use scenario::deployment;
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) fn edit(kind: WorkloadKind, edits: Edits) -> Change {
    let edit = Edit { workload: WorkloadId::new(kind, "default", "web"), edits };
    Change { edits: vec![edit], ..Change::default() }
}

pub(crate) fn new_image() -> Edits {
    Edits { images: vec![("main".to_owned(), "main:2".to_owned())], ..Edits::default() }
}

pub(crate) fn suppositions(start: u64, stop: u64) -> Suppositions {
    Suppositions { start: Some(Duration::from_secs(start)), stop: Some(Duration::from_secs(stop)), ..Suppositions::default() }
}

pub(crate) fn forecast_change(objects: Vec<Value>, change: &Change) -> Forecast {
    forecast(&Snapshot::of_documents(objects), change, &suppositions(5, 20)).expect("a forecast")
}

pub(crate) fn rolling(surge: u32, unavailable: u32, policy: &str) -> Value {
    json!({
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
        "podReplacementPolicy": policy,
    })
}

/// A pod as a kubelet reports it.
pub(crate) fn pod(name: &str, status: Value) -> Value {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "set", "controller": true}]);
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web", "pod-template-hash": "1"}, "ownerReferences": owner,
            "creationTimestamp": "2026-03-01T10:00:00Z"},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "main:1"}]}, "status": status})
}

/// A Deployment as stored in a cluster, with its set and these pods.
pub(crate) fn cluster(replicas: u32, pods: Vec<Value>) -> Vec<Value> {
    let mut web = deployment(replicas, &rolling(1, 0, "TerminationComplete"));
    web["metadata"]["uid"] = json!("web");
    web["metadata"]["generation"] = json!(1);
    web["metadata"]["creationTimestamp"] = json!("2026-03-01T10:00:00Z");
    web["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": "1"});
    let labels = json!({"app": "web", "pod-template-hash": "1"});
    let mut template = web["spec"]["template"].clone();
    template["metadata"]["labels"] = labels.clone();
    let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": true, "blockOwnerDeletion": true}]);
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web-1", "namespace": "default", "uid": "set", "generation": 1, "labels": labels, "ownerReferences": owner,
            "annotations": {"deployment.kubernetes.io/revision": "1"}, "creationTimestamp": "2026-03-01T10:00:00Z"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}, "status": {"replicas": replicas, "observedGeneration": 1}});
    [vec![web, set], pods].concat()
}

pub(crate) fn ready(after: &str) -> Value {
    json!({"phase": "Running", "startTime": "2026-03-01T10:00:00Z",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": after}],
        "containerStatuses": [{"name": "main", "image": "main:1", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {"startedAt": "2026-03-01T10:00:01Z"}}}]})
}
