//! Views of decoded pods.

use super::{ForeignWrites, Meta, PodPhase, PodView, Symptoms, wire};
use crate::{owners::OwnerReferences, selector::Labels};
use berth_identity::{Generation, Namespace, NodeName, Revision};
use k8s_openapi::{
    api::core::v1::{ContainerState, ContainerStatus, Pod, PodCondition, PodSpec, PodStatus},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use std::collections::BTreeMap;

impl Meta {
    /// The metadata of a decoded object.
    pub(super) fn of(meta: &ObjectMeta, revision: Revision) -> Self {
        Self {
            namespace: meta.namespace.as_deref().map(Namespace::shared).unwrap_or_default(),
            name: meta.name.as_deref().unwrap_or_default().into(),
            uid: meta.uid.as_deref().unwrap_or_default().into(),
            revision,
            generation: Generation(meta.generation.unwrap_or(0)),
            labels: meta.labels.as_ref().map(Labels::shared).unwrap_or_default(),
            owners: meta.owner_references.as_deref().map(OwnerReferences::shared).unwrap_or_default(),
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            deleted: meta.deletion_timestamp.as_ref().map(|time| time.0),
            foreign: ForeignWrites::of(meta.managed_fields.as_deref()),
        }
    }
}

impl PodView {
    /// The view of a decoded pod, equal to that of its JSON.
    pub(super) fn of_pod(pod: &Pod, revision: Revision) -> Self {
        let meta = &pod.metadata;
        let (spec, status) = (pod.spec.as_ref(), pod.status.as_ref());
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
        let is_ready = ready.is_some_and(|condition| condition.status == "True");
        let containers = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
        Self {
            deletion_cost: meta.annotations.as_ref().map_or(0, berth_api::pod::deletion_cost),
            grace_period_seconds: meta.deletion_grace_period_seconds,
            symptoms: symptoms(meta, status, is_ready),
            meta: Meta::of(meta, revision),
            phase: PodPhase::parse(status.and_then(|status| status.phase.as_deref()).unwrap_or_default()),
            ready: is_ready,
            ready_since: ready.and_then(|condition| condition.last_transition_time.as_ref()).map(|time| time.0),
            restarts: containers.iter().map(|status| status.restart_count).max().unwrap_or(0),
            sidecar_restarts: spec.zip(status).map_or(0, |(spec, status)| sidecar_restarts(spec, status)),
            claims: spec.map(claims).unwrap_or_default(),
            required_node: spec.map(required_node).unwrap_or_default(),
            node_name: spec.and_then(|spec| spec.node_name.as_deref()).map(NodeName::shared).unwrap_or_default(),
        }
    }
}

fn required_node(spec: &PodSpec) -> NodeName {
    if spec.node_name.as_ref().is_some_and(|node| !node.is_empty()) {
        return NodeName::default();
    }
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    affinity.and_then(super::daemon_set::required_node).map(NodeName::shared).unwrap_or_default()
}

/// Most pods are ready and have no symptoms, so their source is only built where symptoms are possible.
fn symptoms(meta: &ObjectMeta, status: Option<&PodStatus>, is_ready: bool) -> Option<Box<Symptoms>> {
    let is_going = meta.deletion_timestamp.is_some();
    let is_held = is_going && meta.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
    if is_ready && !is_held {
        return None;
    }
    Symptoms::read(&status.map(wire::PodStatus::from).unwrap_or_default(), meta.finalizers.clone(), is_going)
}

fn sidecar_restarts(spec: &PodSpec, status: &PodStatus) -> i32 {
    let is_sidecar = |name: &str| {
        let mut containers = spec.init_containers.iter().flatten();
        containers.any(|container| container.name == name && container.restart_policy.as_deref() == Some("Always"))
    };
    let sidecars = status.init_container_statuses.iter().flatten().filter(|status| is_sidecar(&status.name));
    sidecars.map(|status| status.restart_count).max().unwrap_or(0)
}

fn claims(spec: &PodSpec) -> BTreeMap<String, String> {
    let volumes = spec.volumes.iter().flatten();
    let claim = volumes.filter_map(|volume| Some((volume.name.clone(), volume.persistent_volume_claim.as_ref()?.claim_name.clone())));
    claim.collect()
}

impl From<&PodStatus> for wire::PodStatus {
    fn from(status: &PodStatus) -> Self {
        let containers = |list: &Option<Vec<ContainerStatus>>| list.as_ref().map(|list| list.iter().map(Into::into).collect());
        Self {
            phase: status.phase.clone(),
            reason: status.reason.clone(),
            message: status.message.clone(),
            conditions: status.conditions.as_ref().map(|list| list.iter().map(Into::into).collect()),
            container_statuses: containers(&status.container_statuses),
            init_container_statuses: containers(&status.init_container_statuses),
        }
    }
}

impl From<&PodCondition> for wire::Condition {
    fn from(condition: &PodCondition) -> Self {
        Self {
            type_: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            last_transition_time: at(condition.last_transition_time.as_ref()),
        }
    }
}

impl From<&ContainerStatus> for wire::ContainerStatus {
    fn from(status: &ContainerStatus) -> Self {
        Self {
            name: status.name.clone(),
            ready: status.ready,
            restart_count: status.restart_count,
            state: status.state.as_ref().map(Into::into),
            last_state: status.last_state.as_ref().map(Into::into),
        }
    }
}

impl From<&ContainerState> for wire::ContainerState {
    fn from(state: &ContainerState) -> Self {
        let waiting = state.waiting.as_ref();
        let running = state.running.as_ref();
        let terminated = state.terminated.as_ref();
        Self {
            waiting: waiting.map(|waiting| wire::Waiting { reason: waiting.reason.clone(), message: waiting.message.clone() }),
            running: running.map(|running| wire::Running { started_at: at(running.started_at.as_ref()) }),
            terminated: terminated.map(|end| wire::Terminated {
                exit_code: end.exit_code,
                reason: end.reason.clone(),
                message: end.message.clone(),
            }),
        }
    }
}

fn at(time: Option<&Time>) -> Option<jiff::Timestamp> {
    time.map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::View;
    use berth_api::Object;
    use serde_json::{Value, json};

    /// Checks that the view of a decoded pod equals that of its JSON.
    fn check(pod: Value) {
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        let json = Object::encode(&pod).into();
        let made = PodView::of_object(&pod, &json, Revision(7)).expect("it is a pod");
        assert_eq!(made, PodView::decode(&json, Revision(7)).expect("it is JSON"));
    }

    #[test]
    fn a_pod_that_is_read_already_is_seen_as_its_bytes_are() {
        let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let waits = json!({"name": "web", "image": "i", "imageID": "", "ready": false, "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "m"}},
            "lastState": {"terminated": {"exitCode": 2, "reason": "Error", "message": "e"}}});
        let runs = json!({"name": "log", "image": "i", "imageID": "", "ready": true, "restartCount": 1, "state": {"running": {"startedAt": "2026-01-01T00:00:01Z"}}});
        let metadata = json!({
            "name": "web-1", "namespace": "shop", "uid": "u", "generation": 2, "labels": {"b": "1", "a": "2"}, "deletionGracePeriodSeconds": 30,
            "annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}, "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": true}],
        });
        let spec = json!({
            "nodeName": "n", "containers": [{"name": "web"}], "initContainers": [{"name": "log", "restartPolicy": "Always"}, {"name": "once"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "tmp", "emptyDir": {}}],
        });
        let mut going = metadata.clone();
        (going["deletionTimestamp"], going["finalizers"]) = (json!("2026-01-01T00:00:30Z"), json!(["example.com/hold"]));
        let ready = json!({"phase": "Running", "conditions": [condition("PodScheduled", "True"), condition("Ready", "True")],
            "containerStatuses": [runs], "initContainerStatuses": [runs]});
        let failing = json!({"phase": "Failed", "reason": "Evicted", "message": "m", "conditions": [condition("Ready", "False"), condition("PodScheduled", "True")],
            "containerStatuses": [waits, runs], "initContainerStatuses": [waits]});
        let pending = json!({"phase": "Pending", "conditions": [condition("PodScheduled", "False")]});
        for metadata in [json!({"name": "p"}), metadata, going] {
            for status in [json!({}), ready.clone(), failing.clone(), pending.clone()] {
                check(json!({"metadata": metadata, "spec": spec, "status": status}));
            }
            check(json!({"metadata": metadata}));
        }
    }
}
