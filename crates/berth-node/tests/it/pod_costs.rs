//! The memory of a pod in each view: a cluster has many pods, and several caches of them.

use berth_controllers::{RawObject, metadata::MetaView};
use berth_identity::Revision;
use berth_node::{kubelet, scheduler};
use berth_workloads::{
    endpoints::view::EndpointPodView,
    view::{PodView, View},
};
use serde_json::json;
use std::sync::Arc;

/// A pod of a ReplicaSet, bound and ready, as the server stores it.
fn pod(n: usize) -> RawObject {
    let (since, uid) = ("2026-01-01T00:00:00Z", format!("ee8e69de-2622-4129-804d-{n:012}"));
    let condition = |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": since});
    let conditions = ["PodScheduled", "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"].map(condition);
    let tolerates = |taint: &str| json!({"effect": "NoExecute", "key": taint, "operator": "Exists", "tolerationSeconds": 300});
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("web-646f5f7fb7-{n:05}"), "generateName": "web-646f5f7fb7-", "namespace": "default", "uid": uid,
            "creationTimestamp": since, "generation": 1, "labels": {"app": "web", "pod-template-hash": "646f5f7fb7"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-646f5f7fb7", "uid": "6afc9de1-1e10-4530-80c8-f9686dbd6147",
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "containers": [{"name": "main", "image": "shop:1", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}],
            "nodeName": format!("node-{}", n % 7), "schedulerName": "default-scheduler", "serviceAccountName": "default", "priority": 0,
            "tolerations": [tolerates("node.kubernetes.io/not-ready"), tolerates("node.kubernetes.io/unreachable")],
        },
        "status": {
            "phase": "Running", "podIP": "10.64.4.128", "podIPs": [{"ip": "10.64.4.128"}], "startTime": since,
            "conditions": conditions,
            "containerStatuses": [{
                "name": "main", "image": "shop:1", "imageID": "shop:1@sha256:simulated", "containerID": format!("simulated://{uid}/main/0"),
                "ready": true, "started": true, "restartCount": 0, "state": {"running": {"startedAt": since}},
            }],
        },
    });
    RawObject::new(pod.to_string(), Revision(1))
}

/// The bytes that each of many pods of one template allocates as a `V`, without its JSON.
fn costs<V: View>() -> u64 {
    const PODS: usize = 200;
    let raw: Vec<RawObject> = (0..=PODS).map(pod).collect();
    let mut kept = Vec::with_capacity(raw.len());
    // Data that all pods share belongs to none.
    kept.push(Arc::new(raw[PODS].view::<V>().expect("a pod")));
    let counted = allocation_counter::measure(|| kept.extend(raw[..PODS].iter().map(|raw| Arc::new(raw.view::<V>().expect("a pod")))));
    u64::try_from(counted.bytes_current).expect("nothing else is freed") / PODS as u64
}

#[test]
fn a_view_of_a_pod_is_small() {
    let found = [
        ("workload controllers", costs::<PodView>(), 400),
        ("scheduler", costs::<scheduler::PodInfo>(), 600),
        ("nodes", costs::<kubelet::KubeletPod>(), 450),
        ("metadata", costs::<MetaView>(), 250),
        ("endpoints", costs::<EndpointPodView>(), 400),
    ];
    let larger: Vec<_> = found.iter().filter(|(_, bytes, bound)| bytes > bound).collect();
    assert!(larger.is_empty(), "{larger:?} of {found:?}: bytes for each pod, and what they should be at most");
}
