//! Pod: its status column, and its expected growth.

use super::text::{AGE, NAME, age_of, name, or, text, wide};
use crate::{
    age,
    resource::{
        Column, Printed, Resource, Simulated, Subresource,
        merge_rules::{
            self, MergeRule, PatchStrategy,
            PatchStrategy::{Key, KeyRetainKeys},
            Ssa::{Atomic, MapOf, Set},
            atomic, list, list_of, to,
        },
    },
};
use berth_api::k8s_openapi::{
    api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodCondition, PodSpec, PodStatus},
    apimachinery::pkg::apis::meta::v1::Time,
};
use berth_store::Entry;
use jiff::Timestamp;
use serde_json::{Value, json};

/// The bytes that a binding adds to a pod, plus half: the node and a condition.
const BINDING_BYTES: usize = 768;
/// The bytes that the status adds until the pod runs, besides the status of each container: conditions, addresses,
/// managed fields.
const POD_STATUS_BYTES: usize = 1024;

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::namespaced::<Pod>()
        .short(&["po"])
        .all()
        .sub(&[Subresource::Binding, Subresource::Eviction, Subresource::Log, Subresource::Status])
        .fields(FIELDS)
        .absent_is_false(&["spec.hostNetwork"])
        .merges(MERGE_RULES)
        .always_has(json!({"spec": {"containers": null}}))
        .status_keeps(&[&["metadata", "ownerReferences"]])
        .grows(growth)
        .refuses(SIMULATED)
}

const FIELDS: &[(&str, &str)] = &[
    ("spec.hostNetwork", "/spec/hostNetwork"),
    ("spec.nodeName", "/spec/nodeName"),
    ("spec.restartPolicy", "/spec/restartPolicy"),
    ("spec.schedulerName", "/spec/schedulerName"),
    ("spec.serviceAccountName", "/spec/serviceAccountName"),
    ("status.nominatedNodeName", "/status/nominatedNodeName"),
    ("status.phase", "/status/phase"),
    ("status.podIP", "/status/podIP"),
    ("status.podIPs", "/status/podIPs"),
];

const SIMULATED: &[Simulated] = &[
    simulated("exec", "pods are simulated: no container runs in which a command could be executed"),
    simulated("attach", "pods are simulated: no container runs to which one could attach"),
    simulated("portforward", "pods are simulated: no container runs to which a port could be forwarded"),
    simulated("ephemeralcontainers", "pods are simulated: no ephemeral container could run beside the others"),
    simulated("proxy", "pods are simulated: no container runs that could answer"),
];

const fn simulated(subresource: &'static str, why: &'static str) -> Simulated {
    Simulated { subresource, why, names_an_object: true }
}

/// A pod grows by its node and status.
fn growth(entry: &Entry) -> usize {
    let [node, phase] = ["spec.nodeName", "status.phase"].map(|name| entry.header.field(name));
    let (Some(node), Some("" | "Pending")) = (node, phase) else { return 0 };
    // A status repeats each container.
    let status = POD_STATUS_BYTES + entry.value.len() / 2;
    if node.is_empty() { BINDING_BYTES + status } else { status }
}

const MERGE_RULES: &[MergeRule] = &[
    to("Pod", "spec", "PodSpec"),
    to("Pod", "status", "PodStatus"),
    merge_rules::conditions("PodStatus"),
    list("PodStatus", "podIPs", Key("ip"), MapOf(&["ip"])),
    list("PodStatus", "hostIPs", Key("ip"), Atomic),
    list("PodStatus", "resourceClaimStatuses", KeyRetainKeys("name"), MapOf(&["name"])),
    atomic("PodStatus", "nodeAllocatableResourceClaimStatuses"),
    statuses("containerStatuses"),
    statuses("initContainerStatuses"),
    statuses("ephemeralContainerStatuses"),
    list("ContainerStatus", "allocatedResourcesStatus", Key("name"), MapOf(&["name"])),
    list("ContainerStatus", "volumeMounts", Key("mountPath"), MapOf(&["mountPath"])),
    atomic("LinuxContainerUser", "supplementalGroups"),
    list("ResourceStatus", "resources", PatchStrategy::Plain, MapOf(&["resourceID"])),
    list("NodeAllocatableResourceClaimStatus", "containers", PatchStrategy::Plain, Set),
    atomic("PodExtendedResourceClaimStatus", "requestMappings"),
];

const fn statuses(name: &'static str) -> MergeRule {
    list_of("PodStatus", name, PatchStrategy::Plain, Atomic, "ContainerStatus")
}

impl Printed for Pod {
    const COLUMNS: &'static [Column] = &[
        NAME,
        text("Ready", "How many of the pod's containers are ready."),
        text("Status", "What the containers of the pod are doing, in one word."),
        text("Restarts", "How often the pod's containers were started again, and when last."),
        AGE,
        wide("IP", "Address of the pod."),
        wide("Node", "The node that the pod is bound to."),
        wide("Nominated Node", "The node on which room is being made for the pod."),
        wide("Readiness Gates", "How many of the pod's readiness gates are passed."),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let (no_spec, no_status) = (PodSpec::default(), PodStatus::default());
        let (spec, status) = (self.spec.as_ref().unwrap_or(&no_spec), self.status.as_ref().unwrap_or(&no_status));
        let summary = Summary::of(self, spec, status);
        vec![
            json!(name(&self.metadata)),
            json!(format!("{}/{}", summary.ready, summary.total)),
            json!(summary.reason),
            json!(summary.restarts.cell(now)),
            json!(age_of(&self.metadata, now)),
            json!(or(status.pod_ip.as_deref(), "<none>")),
            json!(or(spec.node_name.as_deref(), "<none>")),
            json!(or(status.nominated_node_name.as_deref(), "<none>")),
            json!(readiness_gates(spec, status)),
        ]
    }

    fn row_conditions(&self) -> Vec<Value> {
        let phase = self.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        let message = match phase {
            "Succeeded" => "The pod has completed successfully.",
            "Failed" => "The pod failed.",
            _ => return Vec::new(),
        };
        vec![json!({"type": "Completed", "status": "True", "reason": phase, "message": message})]
    }
}

/// The restarts of containers.
#[derive(Default)]
struct Restarts {
    count: i32,
    /// The last time that a container terminated before a restart.
    last: Option<Time>,
}

impl Restarts {
    fn add(&mut self, container: &ContainerStatus) {
        self.count = self.count.saturating_add(container.restart_count);
        let ended = container.last_state.as_ref().and_then(|state| state.terminated.as_ref()).and_then(|t| t.finished_at.clone());
        self.last = self.last.take().max(ended);
    }

    fn cell(&self, now: Timestamp) -> String {
        match &self.last {
            Some(last) if self.count != 0 => format!("{} ({} ago)", self.count, age::since(Some(last), now)),
            _ => self.count.to_string(),
        }
    }
}

/// The columns of a pod that summarize its containers.
struct Summary {
    reason: String,
    ready: usize,
    total: usize,
    restarts: Restarts,
}

impl Summary {
    fn of(pod: &Pod, spec: &PodSpec, status: &PodStatus) -> Self {
        let phase = status.phase.as_deref().unwrap_or_default();
        let mut reason = or(status.reason.as_deref(), phase).to_owned();
        if conditions(status).any(|c| c.type_ == "PodScheduled" && c.reason.as_deref() == Some("SchedulingGated")) {
            "SchedulingGated".clone_into(&mut reason);
        }
        let sidecars = spec.init_containers.iter().flatten().filter(|c| c.restart_policy.as_deref() == Some("Always")).count();
        let mut summary = Self { reason, ready: 0, total: spec.containers.len() + sidecars, restarts: Restarts::default() };
        let init = summary.add_init_containers(spec, status);
        if !init.pending || has_condition(status, "Initialized") {
            summary.restarts = init.sidecar_restarts;
            summary.add_containers(status);
        }
        if pod.metadata.deletion_timestamp.is_some() {
            if status.reason.as_deref() == Some("NodeLost") {
                "Unknown".clone_into(&mut summary.reason);
            } else if !matches!(phase, "Succeeded" | "Failed") {
                "Terminating".clone_into(&mut summary.reason);
            }
        }
        summary
    }

    /// Adds init containers up to the first incomplete one.
    fn add_init_containers(&mut self, spec: &PodSpec, status: &PodStatus) -> Init {
        let unknown = ContainerState::default();
        let mut init = Init::default();
        let count = spec.init_containers.as_ref().map_or(0, Vec::len);
        for (i, container) in status.init_container_statuses.iter().flatten().enumerate() {
            let sidecar =
                spec.init_containers.iter().flatten().any(|c| c.name == container.name && c.restart_policy.as_deref() == Some("Always"));
            self.restarts.add(container);
            if sidecar {
                init.sidecar_restarts.add(container);
            }
            let state = container.state.as_ref().unwrap_or(&unknown);
            if state.terminated.as_ref().is_some_and(|t| t.exit_code == 0) {
                continue;
            }
            if sidecar && container.started == Some(true) {
                self.ready += usize::from(container.ready);
                continue;
            }
            self.reason = init_reason(state).unwrap_or_else(|| format!("Init:{i}/{count}"));
            init.pending = true;
            break;
        }
        init
    }

    /// Adds the regular containers. The first one with a reason determines the pod's status column.
    fn add_containers(&mut self, status: &PodStatus) {
        let unknown = ContainerState::default();
        let mut running = false;
        let mut error = None;
        for container in status.container_statuses.iter().flatten().rev() {
            self.restarts.add(container);
            let state = container.state.as_ref().unwrap_or(&unknown);
            let waiting = state.waiting.as_ref().and_then(|w| w.reason.as_deref()).filter(|reason| !reason.is_empty());
            if let Some(waiting) = waiting {
                waiting.clone_into(&mut self.reason);
            } else if let Some(terminated) = &state.terminated {
                self.reason = terminated_reason(terminated);
                if terminated.exit_code != 0 || self.reason != "Completed" {
                    error = Some(self.reason.clone());
                }
            } else if container.ready && state.running.is_some() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            if running && has_condition(status, "Ready") {
                "Running".clone_into(&mut self.reason);
            } else if let Some(error) = error {
                self.reason = error;
            } else if running {
                "NotReady".clone_into(&mut self.reason);
            }
        }
    }
}

/// The state of the init containers.
#[derive(Default)]
struct Init {
    /// Whether one of them is incomplete.
    pending: bool,
    /// The restarts of sidecars.
    sidecar_restarts: Restarts,
}

fn init_reason(state: &ContainerState) -> Option<String> {
    if let Some(terminated) = &state.terminated {
        return Some(format!("Init:{}", terminated_reason(terminated)));
    }
    let waiting = state.waiting.as_ref()?.reason.as_deref()?;
    (!waiting.is_empty() && waiting != "PodInitializing").then(|| format!("Init:{waiting}"))
}

fn terminated_reason(terminated: &ContainerStateTerminated) -> String {
    match (terminated.reason.as_deref(), terminated.signal.unwrap_or_default()) {
        (Some(reason), _) if !reason.is_empty() => reason.to_owned(),
        (_, 0) => format!("ExitCode:{}", terminated.exit_code),
        (_, signal) => format!("Signal:{signal}"),
    }
}

fn readiness_gates(spec: &PodSpec, status: &PodStatus) -> String {
    let gates = spec.readiness_gates.as_deref().unwrap_or_default();
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let passed = gates.iter().filter(|gate| has_condition(status, &gate.condition_type)).count();
    format!("{passed}/{}", gates.len())
}

fn conditions(status: &PodStatus) -> impl Iterator<Item = &PodCondition> {
    status.conditions.iter().flatten()
}

fn has_condition(status: &PodStatus, kind: &str) -> bool {
    conditions(status).any(|condition| condition.type_ == kind && condition.status == "True")
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "literals of JSON read better without borrows")]
mod tests {
    use super::*;

    /// Checks Ready, Status and Restarts of a pod with containers `a`, `b`, … in the order of the status, init
    /// containers `i0`, `i1`, … and sidecars `s0`, ….
    #[track_caller]
    fn check(status: Value, cells: [&str; 3]) {
        check_pod(json!({}), status, cells);
    }

    #[track_caller]
    fn check_pod(metadata: Value, status: Value, cells: [&str; 3]) {
        let named = |list: &str| -> Vec<Value> {
            status[list]
                .as_array()
                .into_iter()
                .flatten()
                .map(|c| {
                    let sidecar = c["name"].as_str().is_some_and(|name| name.starts_with('s'));
                    if sidecar { json!({"name": c["name"], "restartPolicy": "Always"}) } else { json!({"name": c["name"]}) }
                })
                .collect()
        };
        let spec = json!({"containers": named("containerStatuses"), "initContainers": named("initContainerStatuses")});
        let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).expect("a pod");
        let found = pod.cells(Timestamp::constant(1_000, 0));
        assert_eq!([&found[1], &found[2], &found[3]], cells.map(|cell| json!(cell)).each_ref());
    }

    fn running(name: &str) -> Value {
        json!({"name": name, "ready": true, "restartCount": 0, "image": "", "imageID": "", "started": true,
               "state": {"running": {"startedAt": "1970-01-01T00:00:00Z"}}})
    }

    fn waiting(name: &str, reason: &str) -> Value {
        json!({"name": name, "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": {"waiting": {"reason": reason}}})
    }

    fn ended(name: &str, terminated: Value) -> Value {
        json!({"name": name, "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": {"terminated": terminated}})
    }

    #[test]
    fn without_containers_the_phase_or_the_reason_speaks() {
        check(json!({"phase": "Pending"}), ["0/0", "Pending", "0"]);
        check(json!({"phase": "Failed", "reason": "Evicted"}), ["0/0", "Evicted", "0"]);
        let gated = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
        check(json!({"phase": "Pending", "conditions": gated}), ["0/0", "SchedulingGated", "0"]);
    }

    #[test]
    fn containers_speak_before_the_phase() {
        check(json!({"phase": "Running", "containerStatuses": [running("a"), running("b")]}), ["2/2", "Running", "0"]);
        check(
            json!({"phase": "Running", "containerStatuses": [running("a"), waiting("b", "CrashLoopBackOff")]}),
            ["1/2", "CrashLoopBackOff", "0"],
        );
        check(
            json!({"phase": "Pending", "containerStatuses": [waiting("a", "ErrImagePull"), waiting("b", "ContainerCreating")]}),
            ["0/2", "ErrImagePull", "0"],
        );
        check(json!({"phase": "Failed", "containerStatuses": [ended("a", json!({"exitCode": 3}))]}), ["0/1", "ExitCode:3", "0"]);
        check(
            json!({"phase": "Failed", "containerStatuses": [ended("a", json!({"exitCode": 137, "signal": 9}))]}),
            ["0/1", "Signal:9", "0"],
        );
    }

    #[test]
    fn completed_beside_others_is_running_an_error_or_not_ready() {
        let done = ended("a", json!({"exitCode": 0, "reason": "Completed"}));
        let failed = ended("b", json!({"exitCode": 1, "reason": "Error"}));
        let ready = json!([{"type": "Ready", "status": "True"}]);
        check(json!({"phase": "Running", "conditions": ready, "containerStatuses": [done, running("b")]}), ["1/2", "Running", "0"]);
        check(json!({"phase": "Running", "containerStatuses": [done, running("b")]}), ["1/2", "NotReady", "0"]);
        check(json!({"phase": "Running", "containerStatuses": [done, failed, running("c")]}), ["1/3", "Error", "0"]);
        check(json!({"phase": "Succeeded", "containerStatuses": [done]}), ["0/1", "Completed", "0"]);
    }

    #[test]
    fn init_containers_speak_while_they_run() {
        let done = ended("i0", json!({"exitCode": 0}));
        check(json!({"phase": "Pending", "initContainerStatuses": [done, running("i1")]}), ["0/0", "Init:1/2", "0"]);
        check(json!({"initContainerStatuses": [waiting("i0", "PodInitializing")]}), ["0/0", "Init:0/1", "0"]);
        check(json!({"initContainerStatuses": [waiting("i0", "ErrImagePull")]}), ["0/0", "Init:ErrImagePull", "0"]);
        check(json!({"initContainerStatuses": [ended("i0", json!({"exitCode": 1, "reason": "Error"}))]}), ["0/0", "Init:Error", "0"]);
        check(json!({"initContainerStatuses": [ended("i0", json!({"exitCode": 2}))]}), ["0/0", "Init:ExitCode:2", "0"]);
        check(json!({"initContainerStatuses": [ended("i0", json!({"exitCode": 2, "signal": 15}))]}), ["0/0", "Init:Signal:15", "0"]);
        check(
            json!({"phase": "Running", "initContainerStatuses": [running("s0")], "containerStatuses": [running("a")]}),
            ["2/2", "Running", "0"],
        );
    }

    #[test]
    fn a_pod_that_is_being_deleted_terminates_unless_it_has_ended() {
        let deleting = json!({"deletionTimestamp": "1970-01-01T00:00:00Z"});
        check_pod(deleting.clone(), json!({"phase": "Running", "containerStatuses": [running("a")]}), ["1/1", "Terminating", "0"]);
        check_pod(deleting.clone(), json!({"phase": "Running", "reason": "NodeLost"}), ["0/0", "Unknown", "0"]);
        check_pod(deleting, json!({"phase": "Succeeded"}), ["0/0", "Succeeded", "0"]);
    }

    #[test]
    fn restarts_include_the_time_of_the_last_one() {
        let mut restarted = running("a");
        restarted["restartCount"] = json!(3);
        check(json!({"phase": "Running", "containerStatuses": [restarted]}), ["1/1", "Running", "3"]);
        restarted["lastState"] = json!({"terminated": {"exitCode": 1, "finishedAt": "1970-01-01T00:11:40Z"}});
        check(json!({"phase": "Running", "containerStatuses": [restarted, running("b")]}), ["2/2", "Running", "3 (5m ago)"]);
    }

    #[test]
    fn finished_pods_carry_a_row_condition() {
        for (phase, count) in [("Running", 0), ("Succeeded", 1), ("Failed", 1)] {
            let pod: Pod = serde_json::from_value(json!({"metadata": {}, "status": {"phase": phase}})).expect("a pod");
            let conditions = pod.row_conditions();
            assert_eq!(conditions.len(), count, "{phase}");
            assert!(conditions.iter().all(|c| c["reason"] == phase && c["type"] == "Completed" && c["status"] == "True"));
        }
    }
}
