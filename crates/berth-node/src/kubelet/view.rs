//! What a node reads of its pods.

mod containers;

pub use containers::RestartPolicy;
pub(super) use containers::{ContainerView, Containers};

use super::references::References;
use crate::condition::WireCondition;
use berth_api::{
    Object,
    annotations::{SIM_READY_AFTER, SIM_TERMINATES_AFTER},
    decode::from_json,
    k8s_openapi::api::core::v1::{Container, ContainerState, ContainerStatus, Pod, PodCondition, PodSpec, PodStatus},
    simulation::{self, Courses, Failure, seed},
};
use berth_identity::{Name, Namespace, NodeName, Revision, Uid};
use berth_workloads::view::{Identity, PodVolume, View, WireMetadata, claims_of};
use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, de::IgnoredAny};
use std::{collections::BTreeMap, mem, time::Duration};

/// What a node reads of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KubeletPod {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: Name,
    /// Its uid.
    pub uid: Uid,
    /// Its resource version. A decision based on it overwrites no other version.
    pub revision: Revision,
    /// The node it is bound to; empty if it is not.
    pub node_name: NodeName,
    /// When its grace period ends. Set while it is terminating.
    pub deletion_deadline: Option<Timestamp>,
    /// Whether a finalizer must be removed before the pod can be deleted.
    pub has_finalizers: bool,
    /// Its containers.
    pub containers: Containers,
    /// Its init containers, in order.
    pub init_containers: Containers,
    /// Names of claims by the names of the pod's volumes.
    pub claims: BTreeMap<String, String>,
    /// Whether it has an owner, which may count it.
    pub has_owner: bool,
    /// Whether one of its volumes may use a ConfigMap or a Secret.
    pub mounts_references: bool,
    /// Whether a container's environment, or the pull of its image, references a ConfigMap or a Secret.
    pub reads_references: bool,
    /// Whether it uses its node's address.
    pub host_network: bool,
    /// How long it may be active on its node. A value of more than a century is dropped.
    pub active_deadline_seconds: Option<u32>,
    /// The maximum time of its termination.
    pub grace_period_seconds: Option<u32>,
    /// Its restart policy.
    pub restart_policy: RestartPolicy,
    /// Its readiness gates.
    pub gates: Box<[Gate]>,
    /// The values of its annotations. `None` if it has none.
    pub annotated: Option<Box<Annotated>>,
    /// Its progress, from its status.
    pub status: StatusView,
    /// Its JSON. In one process with the store these are the store's own bytes. Decoded, they would be the largest part of the view.
    pub(super) json: Bytes,
}

/// What the annotations `sim.berth.dev/…` of a pod specify.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotated {
    /// `ready-after`.
    pub ready_after: Option<Duration>,
    /// `terminates-after`.
    pub terminates_after: Option<Duration>,
    /// `fails`.
    pub fails: Option<Failure>,
    /// `completes-after`, `exit-code` and `fails-first`.
    pub courses: Option<Courses>,
}

impl Annotated {
    fn of_pod(annotations: &BTreeMap<String, String>, uid: &str) -> Option<Box<Self>> {
        // The pod's own value in a range of durations.
        let duration = |key: &str| simulation::spread(annotations, key).map(|spread| spread.pick(seed(&[uid, key])));
        let annotated = Self {
            ready_after: duration(SIM_READY_AFTER),
            terminates_after: duration(SIM_TERMINATES_AFTER),
            fails: simulation::fails(annotations),
            courses: Courses::of_pod(annotations),
        };
        (annotated != Self::default()).then(|| Box::new(annotated))
    }
}

/// A readiness gate of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// The type of the condition that opens it.
    pub condition_type: String,
    /// The status of that condition, if the pod has it.
    pub status: Option<String>,
}

impl Gate {
    /// Whether its condition is True.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.status.as_deref() == Some("True")
    }
}

/// The progress of a pod, from its last written status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatusView {
    /// Whether its phase is final.
    pub finished: bool,
    /// Its address.
    pub pod_ip: Option<Box<str>>,
    /// When its node accepted it.
    pub start_time: Option<Timestamp>,
    /// Whether the condition Ready is True.
    pub ready: bool,
    /// Whether a container waits because its image could not be pulled, or because its configuration is missing.
    pub waits_to_be_created: bool,
    /// The history of its containers.
    pub runs: Runs,
}

/// The history of a pod's containers, as far as a node needs it without the whole status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Runs {
    /// None has run.
    #[default]
    None,
    /// All have run since then, each for the first time, and there are no init containers.
    AllSince(Timestamp),
    /// Anything else.
    Mixed,
}

impl Runs {
    fn of(has_init: bool, containers: impl Iterator<Item = ContainerRuns>) -> Self {
        let mut containers = containers.peekable();
        let first = containers.peek().and_then(|container| container.running_since);
        let (mut none, mut all) = (true, first.is_some() && !has_init);
        for container in containers {
            none &= !container.has_run;
            all &= container.running_since == first && container.restarts == 0 && !container.has_ended;
        }
        match first {
            _ if none => Self::None,
            Some(since) if all => Self::AllSince(since),
            _ => Self::Mixed,
        }
    }
}

/// The history of one container.
struct ContainerRuns {
    running_since: Option<Timestamp>,
    /// Whether it runs or has run.
    has_run: bool,
    /// Whether a run of it has ended.
    has_ended: bool,
    restarts: i32,
}

impl ContainerRuns {
    fn of(status: &ContainerStatus) -> Self {
        let terminated = |state: &Option<ContainerState>| state.as_ref().is_some_and(|state| state.terminated.is_some());
        let running = status.state.as_ref().and_then(|state| state.running.as_ref());
        let has_ended = terminated(&status.state) || terminated(&status.last_state);
        Self {
            running_since: running.and_then(|running| running.started_at.as_ref()).map(|time| time.0),
            has_run: running.is_some() || has_ended,
            has_ended,
            restarts: status.restart_count,
        }
    }
}

/// The part of a pod's status that stays in a new status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WrittenStatus {
    /// Its conditions, including those of other writers.
    pub conditions: Vec<PodCondition>,
    /// Its containers.
    pub container_statuses: Vec<ContainerStatus>,
    /// Its init containers.
    pub init_container_statuses: Vec<ContainerStatus>,
}

impl KubeletPod {
    /// Whether any container has a readiness probe.
    #[must_use]
    pub fn has_readiness_probe(&self) -> bool {
        self.containers.iter().any(|container| container.readiness_probe.is_some())
    }

    /// How its annotation makes it fail.
    #[must_use]
    pub fn fails(&self) -> Option<Failure> {
        self.annotated.as_ref().and_then(|annotated| annotated.fails)
    }

    /// Whether all its readiness gates are open.
    #[must_use]
    pub fn has_open_gates(&self) -> bool {
        self.gates.iter().all(Gate::is_open)
    }

    /// The end of its active deadline. `None` without a deadline, or before its start.
    #[must_use]
    pub fn active_until(&self) -> Option<Timestamp> {
        self.status.start_time?.checked_add(Duration::from_secs(self.active_deadline_seconds?.into())).ok()
    }

    /// Decodes the ConfigMaps and Secrets that it references.
    ///
    /// # Errors
    /// A field has another type than a pod's.
    pub(super) fn references(&self) -> Result<References, serde_json::Error> {
        References::decode(&self.json)
    }

    /// Decodes the part of its status that stays in a new status.
    ///
    /// # Errors
    /// A field has another type than a pod's.
    pub fn written_status(&self) -> Result<WrittenStatus, serde_json::Error> {
        #[derive(Deserialize)]
        struct Wire {
            #[serde(default)]
            status: WrittenStatus,
        }
        Ok(from_json::<Wire>(&self.json)?.status)
    }
}

#[derive(Deserialize)]
struct Wire {
    metadata: WireMetadata,
    spec: WireSpec,
    #[serde(default)]
    status: WireStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireSpec {
    node_name: NodeName,
    containers: Containers,
    init_containers: Containers,
    volumes: Option<Vec<PodVolume>>,
    image_pull_secrets: Vec<IgnoredAny>,
    readiness_gates: Vec<WireGate>,
    active_deadline_seconds: Option<i64>,
    termination_grace_period_seconds: Option<i64>,
    restart_policy: Option<String>,
    host_network: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireGate {
    condition_type: String,
}

impl WireSpec {
    fn reads_references(&self) -> bool {
        reads_some(&self.init_containers, &self.containers) || !self.image_pull_secrets.is_empty()
    }

    fn gates(&mut self, status: &WireStatus) -> Box<[Gate]> {
        let gate = |WireGate { condition_type }: WireGate| {
            let condition = status.conditions.iter().find(|condition| condition.type_ == condition_type);
            Gate { condition_type, status: condition.map(|condition| condition.status.clone()) }
        };
        mem::take(&mut self.readiness_gates).into_iter().map(gate).collect()
    }
}

fn reads_some(init: &[ContainerView], main: &[ContainerView]) -> bool {
    init.iter().chain(main).any(|container| container.reads_keys || container.reads_all)
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireStatus {
    phase: String,
    #[serde(rename = "podIP")]
    pod_ip: Option<Box<str>>,
    start_time: Option<Timestamp>,
    conditions: Vec<WireCondition>,
    container_statuses: Vec<WireContainerStatus>,
    init_container_statuses: Vec<WireContainerStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireContainerStatus {
    restart_count: i32,
    state: Option<WireState>,
    last_state: Option<WireState>,
}

impl WireContainerStatus {
    fn runs(&self) -> ContainerRuns {
        let terminated = |state: &Option<WireState>| state.as_ref().is_some_and(|state| state.terminated.is_some());
        let running = self.state.as_ref().and_then(|state| state.running.as_ref());
        let has_ended = terminated(&self.state) || terminated(&self.last_state);
        ContainerRuns {
            running_since: running.and_then(|running| running.started_at),
            has_run: running.is_some() || has_ended,
            has_ended,
            restarts: self.restart_count,
        }
    }
}

#[derive(Deserialize)]
struct WireState {
    waiting: Option<WireWaiting>,
    running: Option<WireRunning>,
    terminated: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireRunning {
    started_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct WireWaiting {
    reason: Option<String>,
}

/// Whether this waiting reason means that an image or a configuration is missing.
fn holds_creation(reason: &str) -> bool {
    matches!(reason, "ErrImagePull" | "ImagePullBackOff" | "CreateContainerConfigError")
}

impl From<WireStatus> for StatusView {
    fn from(wire: WireStatus) -> Self {
        let all = || wire.init_container_statuses.iter().chain(&wire.container_statuses);
        let mut reasons = all().filter_map(|status| status.state.as_ref()?.waiting.as_ref()?.reason.as_deref());
        let waits_to_be_created = reasons.any(holds_creation);
        Self {
            finished: berth_api::pod::is_terminal(&wire.phase),
            start_time: wire.start_time,
            ready: wire.conditions.iter().any(WireCondition::is_ready),
            waits_to_be_created,
            runs: Runs::of(!wire.init_container_statuses.is_empty(), all().map(WireContainerStatus::runs)),
            pod_ip: wire.pod_ip,
        }
    }
}

impl KubeletPod {
    /// The view of a decoded pod, which must equal that of its JSON.
    fn of_pod(pod: &Pod, json: &Bytes, revision: Revision) -> Self {
        let (meta, none) = (&pod.metadata, BTreeMap::new());
        let annotations = meta.annotations.as_ref().unwrap_or(&none);
        let spec = pod.spec.as_ref();
        let containers = |list: Option<&[Container]>| Containers::of(list.unwrap_or_default());
        let volumes: Vec<PodVolume> = spec.and_then(|spec| spec.volumes.as_ref()).into_iter().flatten().map(PodVolume::of).collect();
        let pull_secrets = spec.and_then(|spec| spec.image_pull_secrets.as_ref()).is_some_and(|secrets| !secrets.is_empty());
        let (main, init) =
            (containers(spec.map(|spec| &*spec.containers)), containers(spec.and_then(|spec| spec.init_containers.as_deref())));
        Self {
            namespace: meta.namespace.as_deref().map(Namespace::shared).unwrap_or_default(),
            name: meta.name.as_deref().unwrap_or_default().into(),
            uid: meta.uid.as_deref().unwrap_or_default().into(),
            revision,
            node_name: spec.and_then(|spec| spec.node_name.as_deref()).map(NodeName::shared).unwrap_or_default(),
            deletion_deadline: meta.deletion_timestamp.as_ref().map(|time| time.0),
            has_finalizers: meta.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty()),
            has_owner: meta.owner_references.as_ref().is_some_and(|owners| !owners.is_empty()),
            mounts_references: volumes.iter().any(PodVolume::references_objects),
            reads_references: reads_some(&init, &main) || pull_secrets,
            host_network: spec.and_then(|spec| spec.host_network) == Some(true),
            active_deadline_seconds: spec.and_then(|spec| spec.active_deadline_seconds).and_then(seconds),
            grace_period_seconds: spec.and_then(|spec| spec.termination_grace_period_seconds).and_then(seconds),
            restart_policy: RestartPolicy::of(spec.and_then(|spec| spec.restart_policy.as_deref())),
            gates: spec.map(|spec| gates(spec, pod.status.as_ref())).unwrap_or_default(),
            containers: main,
            init_containers: init,
            claims: claims_of(&volumes),
            annotated: Annotated::of_pod(annotations, meta.uid.as_deref().unwrap_or_default()),
            status: pod.status.as_ref().map(StatusView::of).unwrap_or_default(),
            json: json.clone(),
        }
    }
}

fn seconds(seconds: i64) -> Option<u32> {
    u32::try_from(seconds).ok()
}

fn gates(spec: &PodSpec, status: Option<&PodStatus>) -> Box<[Gate]> {
    let status_of = |type_: &str| {
        let conditions = || status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        conditions().find(|condition| condition.type_ == type_).map(|condition| condition.status.clone())
    };
    let gate = |condition_type: &String| Gate { condition_type: condition_type.clone(), status: status_of(condition_type) };
    spec.readiness_gates.iter().flatten().map(|one| gate(&one.condition_type)).collect()
}

impl StatusView {
    fn of(status: &PodStatus) -> Self {
        let containers = || status.container_statuses.iter().flatten();
        let waiting = |status: &ContainerStatus| status.state.as_ref()?.waiting.as_ref()?.reason.clone();
        let mut reasons = status.init_container_statuses.iter().flatten().chain(containers()).filter_map(waiting);
        let is_ready = |condition: &PodCondition| condition.type_ == "Ready" && condition.status == "True";
        let init = || status.init_container_statuses.iter().flatten();
        Self {
            finished: berth_api::pod::is_terminal(status.phase.as_deref().unwrap_or_default()),
            pod_ip: status.pod_ip.as_deref().map(Into::into),
            start_time: status.start_time.as_ref().map(|time| time.0),
            ready: status.conditions.iter().flatten().any(is_ready),
            waits_to_be_created: reasons.any(|reason| holds_creation(&reason)),
            runs: Runs::of(init().next().is_some(), init().chain(containers()).map(ContainerRuns::of)),
        }
    }
}

impl View for KubeletPod {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        Self::decode_shared(&Bytes::copy_from_slice(json), revision)
    }

    fn decode_shared(json: &Bytes, revision: Revision) -> Result<Self, serde_json::Error> {
        let mut wire: Wire = from_json(json)?;
        let annotations = wire.metadata.annotations.unwrap_or_default();
        let uid = wire.metadata.uid.as_deref().unwrap_or_default();
        Ok(Self {
            namespace: wire.metadata.namespace.into(),
            name: wire.metadata.name.into(),
            annotated: Annotated::of_pod(&annotations, uid),
            uid: wire.metadata.uid.into(),
            revision,
            has_owner: wire.metadata.owner_references.as_ref().is_some_and(|owners| !owners.is_empty()),
            mounts_references: wire.spec.volumes.iter().flatten().any(PodVolume::references_objects),
            reads_references: wire.spec.reads_references(),
            host_network: wire.spec.host_network,
            active_deadline_seconds: wire.spec.active_deadline_seconds.and_then(seconds),
            grace_period_seconds: wire.spec.termination_grace_period_seconds.and_then(seconds),
            restart_policy: RestartPolicy::of(wire.spec.restart_policy.as_deref()),
            gates: wire.spec.gates(&wire.status),
            node_name: wire.spec.node_name,
            deletion_deadline: wire.metadata.deletion_timestamp.map(|time| time.0),
            has_finalizers: wire.metadata.finalizers.is_some_and(|finalizers| !finalizers.is_empty()),
            containers: wire.spec.containers,
            init_containers: wire.spec.init_containers,
            claims: claims_of(&wire.spec.volumes.unwrap_or_default()),
            status: wire.status.into(),
            json: json.clone(),
        })
    }

    fn of_object(object: &dyn Object, json: &Bytes, revision: Revision) -> Option<Self> {
        object.downcast_ref().map(|pod| Self::of_pod(pod, json, revision))
    }

    fn identity(&self) -> Identity<'_> {
        let is_being_deleted = self.deletion_deadline.is_some();
        Identity { namespace: Some(&self.namespace), name: &self.name, uid: &self.uid, is_being_deleted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(status: &Value) -> KubeletPod {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}, "status": status});
        KubeletPod::decode(pod.to_string().as_bytes(), Revision(1)).expect("a pod")
    }

    #[test]
    fn a_status_shows_the_stage_of_the_pod() {
        assert_eq!(read(&json!({})).status, StatusView::default());
        let waiting = |reason: &str| json!({"state": {"waiting": {"reason": reason}}});
        let running = json!({"restartCount": 3, "state": {"running": {"startedAt": "2026-01-01T00:00:02Z"}}});
        let up = read(&json!({
            "phase": "Running", "podIP": "10.0.0.1", "startTime": "2026-01-01T00:00:00Z", "containerStatuses": [{"restartCount": 1}, running.clone()],
            "conditions": [{"type": "Initialized", "status": "False"}, {"type": "Ready", "status": "True"}],
        }));
        let expected = StatusView {
            pod_ip: Some("10.0.0.1".into()),
            start_time: "2026-01-01T00:00:00Z".parse().ok(),
            ready: true,
            runs: Runs::Mixed,
            ..StatusView::default()
        };
        assert_eq!(up.status, expected);
        assert_eq!(up.written_status().expect("a status").container_statuses.len(), 2);
        let stuck = |list: &str| read(&json!({"phase": "Pending", list: [waiting("ContainerCreating"), waiting("ErrImagePull")]})).status;
        assert!(stuck("containerStatuses").waits_to_be_created && stuck("initContainerStatuses").waits_to_be_created);
        let runs = |status: Value| read(&status).status.runs;
        let first = json!({"restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:02Z"}}});
        let since = "2026-01-01T00:00:02Z".parse().expect("a time");
        let ended = json!({"state": {"terminated": {"exitCode": 0}}});
        assert_eq!(runs(json!({"containerStatuses": [waiting("ContainerCreating"), waiting("ContainerCreating")]})), Runs::None);
        assert_eq!(runs(json!({"containerStatuses": [first, first]})), Runs::AllSince(since));
        assert_eq!(runs(json!({"containerStatuses": [first, running]})), Runs::Mixed);
        assert_eq!(runs(json!({"containerStatuses": [waiting("ContainerCreating"), first]})), Runs::Mixed);
        assert_eq!(runs(json!({"containerStatuses": [first], "initContainerStatuses": [ended]})), Runs::Mixed);
        assert_eq!(runs(json!({"containerStatuses": [ended]})), Runs::Mixed);
        assert!(read(&json!({"phase": "Failed"})).status.finished);
    }

    #[test]
    fn a_pod_that_is_read_already_is_seen_as_its_bytes_are() {
        let check = |pod: &Value| {
            let pod: Pod = serde_json::from_value(pod.clone()).expect("a pod");
            let json = Object::encode(&pod).into();
            let made = KubeletPod::of_object(&pod, &json, Revision(1)).expect("it is a pod");
            assert_eq!(made, KubeletPod::decode(&json, Revision(1)).expect("it is JSON"));
            assert!(std::ptr::eq(&made.containers[..], &KubeletPod::of_pod(&pod, &json, Revision(1)).containers[..]));
        };
        let state = |state: Value| json!({"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 2, "state": state});
        let (waits, runs) =
            (state(json!({"waiting": {"reason": "ErrImagePull"}})), state(json!({"running": {"startedAt": "2026-01-01T00:00:02Z"}})));
        let mut pod = json!({
            "metadata": {
                "name": "web-1", "namespace": "shop", "uid": "u",
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "o", "controller": true}],
                "deletionTimestamp": "2026-01-01T00:00:30Z", "finalizers": ["example.com/hold"],
                "annotations": {"sim.berth.dev/ready-after": "5s", "sim.berth.dev/terminates-after": "7s±2s", "sim.berth.dev/fails": "Pending", "sim.berth.dev/exit-code.d": "3"},
            },
            "spec": {
                "nodeName": "n", "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "tmp", "emptyDir": {}}],
                "containers": [{"name": "c", "image": "i", "readinessProbe": {}}, {"name": "d", "restartPolicy": "Never",
                    "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [3]}}]}],
                "restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 7,
                "initContainers": [{"name": "once", "image": "i", "restartPolicy": "Always"}],
                "hostNetwork": true, "activeDeadlineSeconds": 30,
                "readinessGates": [{"conditionType": "Ready"}, {"conditionType": "example.com/gate"}],
            },
            "status": {
                "phase": "Running", "podIP": "10.0.0.1", "startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [runs, waits], "initContainerStatuses": [],
            },
        });
        check(&pod);
        pod["status"] = json!({"phase": "Failed", "containerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0}, waits, runs]});
        check(&pod);
        check(&json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}, "status": {"initContainerStatuses": [waits]}}));
        check(&json!({"metadata": {"name": "p"}, "spec": {"containers": []}}));
        let (plain, key) =
            (json!({"name": "A", "value": "1"}), |source: &str| json!({"name": "B", "valueFrom": {source: {"name": "n", "key": "k"}}}));
        for spec in [
            json!({"containers": [{"name": "c", "env": [plain, key("configMapKeyRef")]}]}),
            json!({"containers": [{"name": "c", "env": [plain, key("secretKeyRef")]}]}),
            json!({"containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "s"}}]}]}),
            json!({"containers": [{"name": "c", "env": [plain], "envFrom": []}]}),
            json!({"containers": [], "imagePullSecrets": [{"name": "s"}]}),
            json!({"containers": [], "volumes": [{"name": "v", "configMap": {"name": "c"}}]}),
            json!({"containers": [], "volumes": [{"name": "v", "secret": {"secretName": "s"}}]}),
            json!({"containers": [], "volumes": [{"name": "v", "projected": {"sources": []}}]}),
        ] {
            check(&json!({"metadata": {"name": "p"}, "spec": spec}));
        }
    }

    #[test]
    fn a_pod_without_references_reports_none() {
        let flags = |spec: Value| {
            let pod = json!({"metadata": {"name": "p"}, "spec": spec});
            let pod = KubeletPod::decode(pod.to_string().as_bytes(), Revision(1)).expect("a pod");
            (pod.mounts_references, pod.reads_references)
        };
        let field = json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}});
        let none = json!({"containers": [{"name": "c", "env": [field, {"name": "B", "value": "1"}]}], "volumes": [{"name": "tmp", "emptyDir": {}}]});
        assert_eq!(flags(none), (false, false));
        let key = json!({"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}});
        assert_eq!(flags(json!({"containers": [], "initContainers": [{"name": "c", "env": [key]}]})), (false, true));
        assert_eq!(flags(json!({"containers": [], "volumes": [{"name": "v", "projected": {"sources": []}}]})), (true, false));
    }

    #[test]
    fn pods_of_one_template_keep_their_containers_once() {
        assert!(std::ptr::eq(&read(&json!({})).containers[..], &read(&json!({"phase": "Running"})).containers[..]));
    }
}
