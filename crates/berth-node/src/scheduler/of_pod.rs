//! What the scheduler reads of a pod that is read already.

use super::view::{PodInfo, WireAffinity, WireContainer, WireNodeTerms, WirePod, WirePort, WireResources, WireSpec, WireStatus, WireTerms};
use crate::resources::WireAmounts;
use berth_api::k8s_openapi::{
    api::core::v1::{Affinity, Container, ContainerPort, Pod, PodAffinityTerm, PodSpec, PodStatus, WeightedPodAffinityTerm},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use berth_identity::{Namespace, NodeName};
use berth_workloads::{
    owners::OwnerReferences,
    selector::Labels,
    view::{PodVolume, WireMetadata},
};
use serde::de::IgnoredAny;

impl PodInfo {
    /// As it is read from the pod's JSON.
    pub(super) fn of_pod(pod: &Pod) -> Self {
        let spec = pod.spec.as_ref().map(spec).unwrap_or_default();
        let is_bound = !spec.node_name.is_empty();
        let status = pod.status.as_ref().map(|status| self::status(status, is_bound)).unwrap_or_default();
        WirePod { metadata: metadata(&pod.metadata, is_bound), spec, status }.into_view()
    }
}

fn metadata(meta: &ObjectMeta, is_bound: bool) -> WireMetadata {
    WireMetadata {
        namespace: meta.namespace.as_deref().map(Namespace::shared),
        name: meta.name.as_deref().map(Into::into),
        uid: meta.uid.as_deref().map(Into::into),
        labels: meta.labels.as_ref().map(Labels::shared),
        owner_references: meta.owner_references.as_deref().filter(|_| !is_bound).map(OwnerReferences::shared),
        creation_timestamp: meta.creation_timestamp.clone(),
        deletion_timestamp: meta.deletion_timestamp.clone(),
        ..WireMetadata::default()
    }
}

/// The placement rules of a pod that has a node are not read.
fn spec(spec: &PodSpec) -> WireSpec {
    let is_bound = spec.node_name.as_ref().is_some_and(|node| !node.is_empty());
    let wishes = if is_bound {
        WireSpec::default()
    } else {
        WireSpec {
            scheduler_name: spec.scheduler_name.clone().unwrap_or_default(),
            node_selector: spec.node_selector.clone().unwrap_or_default(),
            tolerations: spec.tolerations.clone().unwrap_or_default(),
            resource_claims: spec.resource_claims.clone().unwrap_or_default(),
            topology_spread_constraints: spec.topology_spread_constraints.clone(),
            ..WireSpec::default()
        }
    };
    WireSpec {
        node_name: spec.node_name.as_deref().map(NodeName::shared).unwrap_or_default(),
        scheduling_gates: spec.scheduling_gates.iter().flatten().map(|_| IgnoredAny).collect(),
        priority: spec.priority.unwrap_or_default(),
        preemption_policy: spec.preemption_policy.clone(),
        containers: spec.containers.iter().map(container).collect(),
        init_containers: spec.init_containers.iter().flatten().map(container).collect(),
        overhead: spec.overhead.clone().unwrap_or_default(),
        resources: spec.resources.as_ref().map(|whole| resources(whole.requests.as_ref())),
        affinity: spec.affinity.as_ref().map(|affinity| self::affinity(affinity, is_bound)),
        volumes: spec.volumes.as_ref().map(|volumes| volumes.iter().map(PodVolume::of).collect()),
        ..wishes
    }
}

fn container(container: &Container) -> WireContainer {
    let port = |port: &ContainerPort| WirePort {
        host_port: port.host_port.unwrap_or_default(),
        protocol: port.protocol.clone().unwrap_or_default(),
        host_ip: port.host_ip.clone().unwrap_or_default(),
    };
    WireContainer {
        resources: resources(container.resources.as_ref().and_then(|resources| resources.requests.as_ref())),
        // The others take nothing of the node.
        ports: container.ports.iter().flatten().filter(|port| port.host_port.is_some()).map(port).collect(),
        restart_policy: container.restart_policy.clone(),
    }
}

fn resources(requests: Option<&WireAmounts>) -> WireResources {
    WireResources { requests: requests.cloned().unwrap_or_default() }
}

fn affinity(affinity: &Affinity, is_bound: bool) -> WireAffinity {
    let node = affinity.node_affinity.as_ref().filter(|_| !is_bound);
    let required =
        |terms: &k8s_openapi::api::core::v1::NodeSelector| WireNodeTerms { node_selector_terms: terms.node_selector_terms.clone() };
    let terms = |required: &Option<Vec<PodAffinityTerm>>, preferred: &Option<Vec<WeightedPodAffinityTerm>>| WireTerms {
        required: required.clone(),
        preferred: preferred.clone(),
    };
    WireAffinity {
        node_affinity: node.map(|node| WireTerms {
            required: node.required_during_scheduling_ignored_during_execution.as_ref().map(required),
            preferred: node.preferred_during_scheduling_ignored_during_execution.clone(),
        }),
        pod_affinity: affinity.pod_affinity.as_ref().map(|pods| {
            terms(&pods.required_during_scheduling_ignored_during_execution, &pods.preferred_during_scheduling_ignored_during_execution)
        }),
        pod_anti_affinity: affinity.pod_anti_affinity.as_ref().map(|pods| {
            terms(&pods.required_during_scheduling_ignored_during_execution, &pods.preferred_during_scheduling_ignored_during_execution)
        }),
    }
}

/// Of a pod that has a node only one of the conditions counts.
fn status(status: &PodStatus, is_bound: bool) -> WireStatus {
    let conditions = status.conditions.iter().flatten();
    WireStatus {
        phase: status.phase.clone().unwrap_or_default(),
        start_time: status.start_time.clone(),
        nominated_node_name: status.nominated_node_name.clone(),
        conditions: conditions.filter(|condition| !is_bound || condition.type_ == "DisruptionTarget").cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::Object;
    use berth_identity::Revision;
    use berth_workloads::view::View;
    use serde_json::{Value, json};

    /// What is read of a pod that is read already is what is read of its bytes.
    fn check(pod: &Value) {
        let pod: Pod = serde_json::from_value(pod.clone()).expect("a pod");
        let json = Object::encode(&pod).into();
        let made = PodInfo::of_object(&pod, &json, Revision(1)).expect("it is a pod");
        assert_eq!(format!("{made:?}"), format!("{:?}", PodInfo::decode(&json, Revision(1)).expect("it is JSON")));
    }

    #[test]
    fn a_pod_that_is_read_already_is_seen_as_its_bytes_are() {
        let requests = |cpu: &str| json!({"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"cpu": "2"}});
        let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}, "namespaces": ["a"]});
        let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]});
        let weighted = json!([{"weight": 5, "podAffinityTerm": term}]);
        let preferred = json!([{"weight": 5, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]);
        let pods =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": [term], "preferredDuringSchedulingIgnoredDuringExecution": weighted});
        let affinity = json!({
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": terms, "preferredDuringSchedulingIgnoredDuringExecution": preferred,
            },
            "podAffinity": pods, "podAntiAffinity": pods,
        });
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "o", "controller": true});
        let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "PreemptionByScheduler"});
        let mut pod = json!({
            "metadata": {
                "name": "web-1", "namespace": "shop", "uid": "u", "labels": {"app": "web"}, "annotations": {"a": "b"},
                "ownerReferences": [owner], "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-01T00:00:30Z",
            },
            "spec": {
                "schedulerName": "default-scheduler", "schedulingGates": [{"name": "g"}], "priority": 5, "preemptionPolicy": "Never",
                "nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}], "affinity": affinity, "overhead": {"cpu": "10m"},
                "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}],
                "containers": [{"name": "web", "resources": requests("1"), "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP", "hostIP": "10.0.0.1"}, {"containerPort": 1}]}],
                "initContainers": [{"name": "once", "resources": requests("3")}, {"name": "log", "resources": requests("1"), "restartPolicy": "Always"}],
                "resources": requests("2"),
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "tmp", "emptyDir": {}}],
            },
            "status": {
                "phase": "Pending", "startTime": "2026-01-01T00:00:01Z", "nominatedNodeName": "n",
                "conditions": [condition("PodScheduled", "False"), condition("DisruptionTarget", "True")],
            },
        });
        check(&pod);
        pod["spec"]["nodeName"] = json!("n");
        check(&pod);
        pod["status"]["phase"] = json!("Failed");
        check(&pod);
        check(&json!({"metadata": {"name": "p"}, "spec": {"containers": []}}));
    }
}
