//! A pod's status as a kubelet would report it, from the stage that the pod is in.

mod ended;

pub(super) use ended::{DEADLINE_MESSAGE, DEADLINE_REASON, Ending, ended};

use super::{
    behavior::back_off,
    images::{MissingImages, pull_error},
    references::Faults,
    stage::PodStage,
    view::{ContainerView, Gate, KubeletPod, WrittenStatus},
};
use berth_api::{
    StatusPart,
    k8s_openapi::{
        api::core::v1::{
            ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, HostIP, Pod,
            PodCondition, PodIP, PodStatus,
        },
        apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    },
    simulation::Failure,
};
use jiff::Timestamp;

/// Where a pod runs, and what it lacks there.
pub(super) struct StatusInputs<'a> {
    /// The node's address.
    pub(super) host_ip: &'a str,
    /// The pod's own; unset until its containers are created.
    pub(super) pod_ip: Option<&'a str>,
    /// Images that the node cannot pull.
    pub(super) missing: &'a MissingImages,
    /// Why containers cannot be created whose configuration is missing.
    pub(super) faults: &'a Faults,
}

/// What keeps a container from being created.
enum Hindrance<'a> {
    /// Its image cannot be pulled.
    Image,
    /// Its configuration is missing: the kubelet's words.
    Config(&'a str),
}

/// The members of a pod's status that a node writes.
const MEMBERS: &[&str] = &["phase", "conditions", "containerStatuses", "hostIP", "hostIPs", "podIP", "podIPs", "startTime"];
/// And of that of a pod with init containers.
const MEMBERS_WITH_INIT: &[&str] =
    &["phase", "conditions", "containerStatuses", "hostIP", "hostIPs", "podIP", "podIPs", "startTime", "initContainerStatuses"];

/// The new status of a pod, which replaces the `written` one. `None` where the stage has nothing to report.
pub(super) fn status(
    pod: &KubeletPod,
    written: &WrittenStatus,
    stage: &PodStage,
    inputs: &StatusInputs<'_>,
    now: Timestamp,
) -> Option<StatusPart> {
    if matches!(stage, PodStage::Terminating { .. } | PodStage::Gone) {
        return None;
    }
    let containers = Containers { pod, written, stage, inputs };
    let statuses: Vec<ContainerStatus> = pod.containers.iter().map(|container| containers.status(container)).collect();
    let started = matches!(stage, PodStage::Running { .. } | PodStage::CrashLoop { .. });
    let ips: Vec<PodIP> = inputs.pod_ip.map(|ip| PodIP { ip: ip.to_owned() }).into_iter().collect();
    let has_init = !pod.init_containers.is_empty();
    let status = PodStatus {
        phase: Some(if started { "Running" } else { "Pending" }.to_owned()),
        conditions: Some(conditions(&containers, &statuses, now)),
        container_statuses: Some(statuses),
        host_ip: Some(inputs.host_ip.to_owned()),
        host_ips: Some(vec![HostIP { ip: inputs.host_ip.to_owned() }]),
        pod_ip: inputs.pod_ip.map(str::to_owned),
        pod_ips: Some(ips),
        start_time: Some(pod.status.start_time.map_or_else(|| whole_seconds(now), Time)),
        init_container_statuses: has_init.then(|| containers.init_statuses(now)),
        ..PodStatus::default()
    };
    Some(StatusPart { object: Box::new(named(pod, status)), members: if has_init { MEMBERS_WITH_INIT } else { MEMBERS } })
}

/// A pod with only its identity, its resource version and its status.
fn named(pod: &KubeletPod, status: PodStatus) -> Pod {
    let metadata = ObjectMeta {
        name: Some(pod.name.to_string()),
        namespace: Some(pod.namespace.to_string()),
        uid: Some(pod.uid.to_string()),
        resource_version: Some(pod.revision.to_string()),
        ..ObjectMeta::default()
    };
    Pod { metadata, status: Some(status), ..Pod::default() }
}

fn conditions(containers: &Containers<'_>, statuses: &[ContainerStatus], now: Timestamp) -> Vec<PodCondition> {
    let Containers { pod, written, stage, .. } = containers;
    let mut conditions = written.conditions.clone();
    let joined = |names: Vec<&str>| names.join(" ");
    let unready = joined(statuses.iter().filter(|status| !status.ready).map(|status| status.name.as_str()).collect());
    let unready = format!("containers with unready status: [{unready}]");
    let (ready, since) = match stage {
        PodStage::Running { ready, .. } => (*ready, now),
        // Ready went at the crash, whenever that is written down.
        PodStage::CrashLoop { crashed, .. } => (false, *crashed),
        _ => (false, now),
    };
    let created = !matches!(stage, PodStage::Mounting | PodStage::Creating { .. } | PodStage::Stuck { failure: Failure::Pending });
    set(&mut conditions, "PodReadyToStartContainers", created, None, "", now);
    let incomplete = joined(pod.init_containers.iter().skip(containers.done()).map(|container| container.name.as_str()).collect());
    if incomplete.is_empty() {
        set(&mut conditions, "Initialized", true, None, "", now);
    } else {
        let message = format!("containers with incomplete status: [{incomplete}]");
        set(&mut conditions, "Initialized", false, Some("ContainersNotInitialized"), &message, now);
    }
    let shut = shut_gates(&pod.gates);
    let containers_ready = if ready { (true, None, "") } else { (false, Some("ContainersNotReady"), unready.as_str()) };
    let pod_ready = if ready && !shut.is_empty() { (false, Some("ReadinessGatesNotReady"), shut.as_str()) } else { containers_ready };
    for (type_, (holds, reason, message)) in [("Ready", pod_ready), ("ContainersReady", containers_ready)] {
        set(&mut conditions, type_, holds, reason, message, since);
    }
    set(&mut conditions, "PodScheduled", true, None, "", now);
    conditions
}

/// The message of a kubelet about readiness gates that are not open. Empty if all are.
///
/// Source: kubernetes `pkg/kubelet/status/generate.go`, `GeneratePodReadyCondition`.
fn shut_gates(gates: &[Gate]) -> String {
    let message = |Gate { condition_type, status }: &Gate| match status {
        None => format!("corresponding condition of pod readiness gate {condition_type:?} does not exist."),
        Some(status) => format!("the status of pod readiness gate {condition_type:?} is not \"True\", but {status}"),
    };
    gates.iter().filter(|gate| !gate.is_open()).map(message).collect::<Vec<_>>().join(", ")
}

/// Sets one condition; its transition time changes only with its status.
fn set(conditions: &mut Vec<PodCondition>, type_: &str, holds: bool, reason: Option<&str>, message: &str, at: Timestamp) {
    let status = if holds { "True" } else { "False" };
    let known = conditions.iter().position(|condition| condition.type_ == type_);
    let unchanged = known.and_then(|index| conditions.get(index)).filter(|condition| condition.status == status);
    let since = unchanged.and_then(|condition| condition.last_transition_time.clone()).unwrap_or_else(|| whole_seconds(at));
    let condition = PodCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_transition_time: Some(since),
        reason: reason.map(str::to_owned),
        message: (!message.is_empty()).then(|| message.to_owned()),
        ..PodCondition::default()
    };
    match known {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
}

/// The containers of a pod, in the stage that it is in.
struct Containers<'a> {
    pod: &'a KubeletPod,
    written: &'a WrittenStatus,
    stage: &'a PodStage,
    inputs: &'a StatusInputs<'a>,
}

impl Containers<'_> {
    /// How many init containers have done their work.
    fn done(&self) -> usize {
        let all = self.pod.init_containers.len();
        match self.stage {
            PodStage::Running { .. } | PodStage::CrashLoop { .. } => all,
            PodStage::PullFailing { .. } | PodStage::ConfigMissing { .. } => {
                self.pod.init_containers.iter().position(|container| self.hindrance(container).is_some()).unwrap_or(all)
            }
            _ => 0,
        }
    }

    /// The image is pulled before the configuration is read.
    fn hindrance(&self, container: &ContainerView) -> Option<Hindrance<'_>> {
        if self.inputs.missing.fails(self.pod, container) {
            return Some(Hindrance::Image);
        }
        self.inputs.faults.get(&container.name).map(|message| Hindrance::Config(message))
    }

    fn init_statuses(&self, now: Timestamp) -> Vec<ContainerStatus> {
        let done = self.done();
        let status = |(index, container): (usize, &ContainerView)| {
            let mut status = waiting_status(container, self.waiting(container, index == done));
            if index < done {
                let id = container_id(self.pod, container, 0);
                let stays = container.restart_policy.as_deref() == Some("Always");
                let before = self.written.init_container_statuses.iter().find(|known| known.name == container.name && known.ready);
                let state = || if stays { running(now) } else { completed(id.clone(), now) };
                status.state = before.map_or_else(|| Some(state()), |known| known.state.clone());
                status.ready = true;
                status.started = Some(stays);
                status.image_id = image_id(container);
                status.container_id = Some(id);
            }
            status
        };
        self.pod.init_containers.iter().enumerate().map(status).collect()
    }

    fn status(&self, container: &ContainerView) -> ContainerStatus {
        let pod = self.pod;
        let is_next = self.done() == pod.init_containers.len();
        let mut status = waiting_status(container, self.waiting(container, is_next));
        match self.stage {
            PodStage::Running { since, ready, restarts, .. } => {
                status.state = Some(self.running_since(container, *since));
                status.ready = *ready;
                status.started = Some(true);
                status.restart_count = i32::try_from(*restarts).unwrap_or(i32::MAX);
                status.last_state = last_end(self.written, &container.name);
            }
            PodStage::PullFailing { since, .. } | PodStage::ConfigMissing { since, .. }
                if is_next && self.hindrance(container).is_none() =>
            {
                status.state = Some(self.running_since(container, *since));
                status.ready = container.readiness_probe.is_none();
                status.started = Some(true);
            }
            PodStage::ConfigMissing { restarts, .. } => {
                status.restart_count = i32::try_from(*restarts).unwrap_or(i32::MAX);
                status.last_state = last_end(self.written, &container.name);
                return status;
            }
            PodStage::CrashLoop { started, crashed, restarts, .. } => {
                status.restart_count = i32::try_from(*restarts).unwrap_or(i32::MAX);
                status.last_state = Some(self.crash(container, *started, *crashed));
            }
            _ => return status,
        }
        status.image_id = image_id(container);
        status.container_id = Some(container_id(pod, container, status.restart_count));
        status
    }

    /// Running since then, or since before where the container ran already while others could not be created.
    fn running_since(&self, container: &ContainerView, since: Timestamp) -> ContainerState {
        let known = self.written.container_statuses.iter().find(|status| status.name == container.name);
        let state = known.and_then(|status| status.state.clone()).filter(|state| state.running.is_some());
        state.unwrap_or_else(|| running(since))
    }

    /// What a container waits for that does not run; `is_next`: nothing has to run before it.
    fn waiting(&self, container: &ContainerView, is_next: bool) -> ContainerState {
        let hindrance = self.hindrance(container).filter(|_| is_next);
        let (reason, message) = match (self.stage, hindrance) {
            (PodStage::PullFailing { backs_off, .. }, Some(Hindrance::Image)) => {
                let error = pull_error(&container.image);
                match backs_off {
                    false => ("ErrImagePull", Some(error)),
                    true => ("ImagePullBackOff", Some(format!("{}: ErrImagePull: {error}", backing_off(&container.image)))),
                }
            }
            (PodStage::PullFailing { .. } | PodStage::ConfigMissing { .. }, Some(Hindrance::Config(message))) => {
                ("CreateContainerConfigError", Some(message.to_owned()))
            }
            (PodStage::CrashLoop { restarts, .. }, _) => {
                let (back_off, name) = (back_off_text(*restarts), &container.name);
                let message = format!(
                    "back-off {back_off} restarting failed container={name} pod={}_{}({})",
                    self.pod.name, self.pod.namespace, self.pod.uid
                );
                ("CrashLoopBackOff", Some(message))
            }
            _ if !self.pod.init_containers.is_empty() => ("PodInitializing", None),
            _ => ("ContainerCreating", None),
        };
        let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
        ContainerState { waiting: Some(waiting), ..ContainerState::default() }
    }

    fn crash(&self, container: &ContainerView, started: Timestamp, crashed: Timestamp) -> ContainerState {
        let before = last_restarts(self.written, &container.name);
        let terminated = ContainerStateTerminated {
            exit_code: 1,
            reason: Some("Error".to_owned()),
            started_at: Some(whole_seconds(started)),
            finished_at: Some(whole_seconds(crashed)),
            container_id: Some(container_id(self.pod, container, before)),
            ..ContainerStateTerminated::default()
        };
        ContainerState { terminated: Some(terminated), ..ContainerState::default() }
    }
}

fn waiting_status(container: &ContainerView, state: ContainerState) -> ContainerStatus {
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone(),
        image_id: String::new(),
        started: Some(false),
        state: Some(state),
        ..ContainerStatus::default()
    }
}

fn running(since: Timestamp) -> ContainerState {
    ContainerState { running: Some(ContainerStateRunning { started_at: Some(whole_seconds(since)) }), ..ContainerState::default() }
}

fn completed(id: String, at: Timestamp) -> ContainerState {
    let terminated = ContainerStateTerminated {
        reason: Some("Completed".to_owned()),
        started_at: Some(whole_seconds(at)),
        finished_at: Some(whole_seconds(at)),
        container_id: Some(id),
        ..ContainerStateTerminated::default()
    };
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}

fn image_id(container: &ContainerView) -> String {
    format!("{}@sha256:simulated", container.image)
}

/// The message about an image whose pull is in backoff.
pub(super) fn backing_off(image: &str) -> String {
    format!("Back-off pulling image \"{image}\"")
}

fn back_off_text(restarts: u32) -> String {
    let seconds = back_off(restarts).as_secs();
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{}s", seconds / 60, seconds % 60) }
}

fn last_end(written: &WrittenStatus, name: &str) -> Option<ContainerState> {
    written.container_statuses.iter().find(|status| status.name == name)?.last_state.clone()
}

fn last_restarts(written: &WrittenStatus, name: &str) -> i32 {
    written.container_statuses.iter().find(|status| status.name == name).map_or(0, |status| status.restart_count)
}

/// Unique per start of a container, and the same in each computation.
fn container_id(pod: &KubeletPod, container: &ContainerView, restarts: i32) -> String {
    format!("simulated://{}/{}/{restarts}", pod.uid, container.name)
}

/// Kubernetes' times in statuses have whole seconds.
pub(super) fn whole_seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}
