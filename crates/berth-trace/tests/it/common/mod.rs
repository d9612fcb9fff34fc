//! Objects as a server shows them, and recordings of them.
#![allow(dead_code, reason = "each test uses a part")]

use berth_trace::{Ended, Frames, Header, KINDS, Naming, Recorder, TracedKind};
use serde_json::{Value, json};
use std::io::Read;

/// No recording may contain this text. It has a blank, so it is not a valid name.
pub(crate) const SECRET: &str = "s3cret-!of somebody";
/// A valid name that no recording needs.
pub(crate) const WORD: &str = "s3cretword";

pub(crate) fn kind(name: &str) -> &'static TracedKind {
    KINDS.iter().find(|kind| kind.kind == name).expect("it is recorded")
}

pub(crate) fn at(millis: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_millisecond(1_800_000_000_000 + millis).expect("in range")
}

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "web", "team": WORD}, "annotations": {"note": SECRET}},
        "spec": {
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "serviceAccountName": WORD, "priorityClassName": "high",
            "nodeSelector": {"disk": "ssd"}, "imagePullSecrets": [{"name": WORD}],
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "volumes": [{"name": WORD, "secret": {"secretName": WORD}}],
            "containers": [{
                "name": WORD, "image": format!("registry.example/{WORD}:1"), "command": [SECRET], "args": ["--password", SECRET],
                "env": [{"name": "PASSWORD", "value": SECRET}, {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": WORD, "key": WORD}}}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}},
                "readinessProbe": {"exec": {"command": [SECRET]}}, "ports": [{"containerPort": 80, "name": WORD}],
            }],
        },
    })
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "generation": 3, "resourceVersion": "77",
        "creationTimestamp": "2027-01-15T08:00:00Z", "labels": {"app": "web", "team": WORD}, "finalizers": [WORD],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": SECRET, "example.com/token": WORD},
        "managedFields": [{"manager": WORD}]})
}

fn condition(name: &str) -> Value {
    json!({"type": name, "status": "True", "reason": "Because", "message": SECRET, "lastTransitionTime": "2027-01-15T08:00:00Z"})
}

pub(crate) fn deployment(name: &str, replicas: u32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(name),
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}},
        "status": {"observedGeneration": 3, "replicas": replicas, "conditions": [condition("Available")]}})
}

pub(crate) fn pod(name: &str) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata(name), "spec": template()["spec"].clone(),
        "status": {"phase": "Running", "message": SECRET, "podIP": "10.0.0.1", "conditions": [condition("Ready")],
            "containerStatuses": [{"name": WORD, "ready": true, "restartCount": 2, "image": SECRET, "imageID": SECRET,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": SECRET}}}]}});
    pod["spec"]["nodeName"] = json!("node-1");
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "uid-web-1", "controller": true}]);
    pod
}

pub(crate) fn autoscaler() -> Value {
    let cpu = json!({"type": "Utilization", "averageUtilization": 60});
    let named = json!({"name": WORD, "selector": {"matchLabels": {"queue": WORD}}});
    let others = [
        json!({"type": "External", "external": {"metric": named, "target": {"type": "Value", "value": "30"}}}),
        json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": WORD, "target": cpu}}),
    ];
    let current = json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 71, "averageValue": "71m"}}});
    let metrics: Vec<Value> = [json!({"type": "Resource", "resource": {"name": "cpu", "target": cpu}})].into_iter().chain(others).collect();
    json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata("web"),
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "minReplicas": 2, "maxReplicas": 9,
            "metrics": metrics,
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60, "selectPolicy": "Max",
                "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}}},
        "status": {"currentReplicas": 3, "desiredReplicas": 3, "lastScaleTime": "2027-01-15T08:00:00Z", "currentMetrics": [current],
            "conditions": [condition("AbleToScale")]}})
}

/// A list of `metrics.k8s.io`: each pod uses 120m and 64Mi in two containers.
pub(crate) fn usage(pods: &[&str]) -> Vec<Value> {
    let container = |name: &str, cpu: &str, memory: &str| json!({"name": name, "usage": {"cpu": cpu, "memory": memory}});
    let item = |pod: &&str| {
        json!({"metadata": {"name": pod, "namespace": "shop", "labels": {"team": WORD}}, "timestamp": "2027-01-15T08:00:00Z", "window": "15s",
            "containers": [container(WORD, "100m", "32Mi"), container("log", "20000000n", "32Mi")]})
    };
    pods.iter().map(item).collect()
}

/// Returns one object of each kind, with all allowed fields.
pub(crate) fn objects() -> Vec<Value> {
    let mut set = deployment("web-1", 3);
    set["kind"] = json!("ReplicaSet");
    let mut stateful = deployment("db", 3);
    stateful["kind"] = json!("StatefulSet");
    stateful["spec"]["serviceName"] = json!("db");
    stateful["spec"]["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
    let mut template = template();
    template["$patch"] = json!("replace");
    let cluster = |name: &str| {
        let mut metadata = metadata(name);
        metadata.as_object_mut().expect("an object").remove("namespace");
        metadata
    };
    let amounts = json!({"cpu": "4", "memory": "8Gi", "pods": "10"});
    vec![
        deployment("web", 3),
        stateful,
        set,
        json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata("db-1"), "revision": 1, "data": {"spec": {"template": template}}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata("web"),
            "spec": {"minAvailable": 1, "selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}},
            "status": {"currentHealthy": 3, "conditions": [condition("DisruptionAllowed")]}}),
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata("q"), "spec": {"hard": amounts}, "status": {"hard": amounts, "used": {"pods": "3"}}}),
        json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata("l"), "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}}),
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": cluster("high"), "value": 7, "description": SECRET}),
        json!({"apiVersion": "v1", "kind": "Node", "metadata": cluster("node-1"), "spec": {"podCIDR": "10.0.0.0/24", "taints": [{"key": "gpu", "effect": "NoSchedule"}]},
            "status": {"allocatable": amounts, "capacity": amounts, "conditions": [condition("Ready")], "addresses": [{"type": "Hostname", "address": SECRET}],
                "nodeInfo": {"machineID": SECRET}, "images": [{"names": [SECRET]}]}}),
        pod("web-1-abcde"),
        autoscaler(),
    ]
}

/// Returns a whole recording of these objects.
pub(crate) fn recorded(naming: Naming, key: u8, objects: &[Value]) -> Vec<u8> {
    let mut recorder = Recorder::new(naming, &[key; 32], at(0));
    let mut frames = Frames::new(Vec::new(), 0);
    frames.line(&header().line()).expect("in memory");
    for object in objects {
        recorder.put(kind(object["kind"].as_str().expect("a kind")), object, at(10));
    }
    recorder.listed(at(20));
    recorder.take_lines().iter().for_each(|line| frames.line(line).expect("in memory"));
    frames.finish(&recorder.ended(Ended::Stopped, at(30))).expect("in memory")
}

pub(crate) fn header() -> Header {
    Header {
        at: at(0),
        controllers: "berth".to_owned(),
        because: "an option sets it".to_owned(),
        is_hashed: false,
        namespace: None,
        missing: Vec::new(),
    }
}

pub(crate) fn unpacked(file: &[u8]) -> String {
    let mut text = String::new();
    zstd::Decoder::new(file).expect("frames").read_to_string(&mut text).expect("whole frames");
    text
}
