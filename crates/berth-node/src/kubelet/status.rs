//! A pod's status as a kubelet would report it, from the stage that the pod is in.

mod ended;

pub(super) use ended::{DEADLINE_MESSAGE, DEADLINE_REASON, Ending, ended};

use super::{
    behavior::Behavior,
    images::{MissingImages, pull_error},
    lives::{End, Habit, Life, LifeState, Lives, Outcome},
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
use std::time::Duration;

/// The location of a pod, and what it lacks there.
pub(super) struct StatusInputs<'a> {
    /// Its behavior.
    pub(super) behavior: &'a Behavior,
    /// The node's address.
    pub(super) host_ip: String,
    /// The pod's own address. Unset until its containers are created.
    pub(super) pod_ip: Option<&'a str>,
    /// Images that the node cannot pull.
    pub(super) missing: &'a MissingImages,
    /// Why containers with a missing configuration cannot be created.
    pub(super) faults: &'a Faults,
}

/// What prevents the creation of a container.
enum Hindrance<'a> {
    /// Its image cannot be pulled.
    Image,
    /// Its configuration is missing. Contains the kubelet's message.
    Config(&'a str),
}

/// The reason of the conditions of a pod that has succeeded.
const COMPLETED: &str = "PodCompleted";
/// The reason of the conditions of a pod that has failed.
const FAILED: &str = "PodFailed";

/// The members of a pod's status that a node writes.
const MEMBERS: &[&str] = &["phase", "conditions", "containerStatuses", "hostIP", "hostIPs", "podIP", "podIPs", "startTime"];
/// The same for a pod with init containers.
const MEMBERS_WITH_INIT: &[&str] =
    &["phase", "conditions", "containerStatuses", "hostIP", "hostIPs", "podIP", "podIPs", "startTime", "initContainerStatuses"];

/// The new status of a pod, which replaces `written`. `None` if the stage has nothing to report.
pub(super) fn status(
    pod: &KubeletPod,
    written: &WrittenStatus,
    stage: &PodStage,
    inputs: &StatusInputs<'_>,
    now: Timestamp,
) -> Option<StatusPart> {
    if matches!(stage, PodStage::Terminating { .. } | PodStage::Gone { .. }) {
        return None;
    }
    let containers = Containers { pod, written, stage, inputs };
    let init_statuses = containers.init_statuses(now);
    let statuses = containers.main_statuses();
    let ips: Vec<PodIP> = inputs.pod_ip.map(|ip| PodIP { ip: ip.to_owned() }).into_iter().collect();
    let has_init = !pod.init_containers.is_empty();
    let status = PodStatus {
        phase: Some(phase(&containers).to_owned()),
        conditions: Some(conditions(&containers, [&init_statuses, &statuses], now)),
        container_statuses: Some(statuses),
        host_ip: Some(inputs.host_ip.clone()),
        host_ips: Some(vec![HostIP { ip: inputs.host_ip.clone() }]),
        pod_ip: inputs.pod_ip.map(str::to_owned),
        pod_ips: Some(ips),
        start_time: Some(pod.status.start_time.map_or_else(|| whole_seconds(now), Time)),
        init_container_statuses: has_init.then_some(init_statuses),
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

/// Source: kubernetes `pkg/kubelet/kubelet_pods.go`, `getPhase`.
fn phase(containers: &Containers<'_>) -> &'static str {
    let Containers { pod, stage, inputs, .. } = containers;
    match (stage, stage.outcome(pod, inputs.behavior)) {
        (_, Some(Outcome::Succeeded)) => "Succeeded",
        (_, Some(Outcome::Failed)) => "Failed",
        (PodStage::Active(lives) | PodStage::ConfigMissing { lives: Some(lives), .. }, None) if lives.have_started(containers.habit()) => {
            "Running"
        }
        _ => "Pending",
    }
}

/// Source: kubernetes `pkg/kubelet/status/generate.go`.
fn conditions(containers: &Containers<'_>, statuses: [&Vec<ContainerStatus>; 2], now: Timestamp) -> Vec<PodCondition> {
    let Containers { pod, written, stage, inputs } = containers;
    let mut conditions = written.conditions.clone();
    let outcome = stage.outcome(pod, inputs.behavior);
    let joined = |names: Vec<&str>| names.join(" ");
    let [init, main] = statuses;
    let sidecars = init.iter().zip(pod.init_containers.iter()).filter(|(_, container)| container.is_sidecar()).map(|(status, _)| status);
    let unready = joined(sidecars.chain(main).filter(|status| !status.ready).map(|status| status.name.as_str()).collect());
    let unready = format!("containers with unready status: [{unready}]");
    let ready = stage.is_ready(pod, inputs.behavior);
    // Ready ends with the container, when that is reported.
    let since = stage.lives().and_then(Lives::last_end).filter(|_| !ready).unwrap_or(now);
    let created = !matches!(stage, PodStage::Mounting | PodStage::Creating { .. } | PodStage::Stuck { failure: Failure::Pending });
    set(&mut conditions, "PodReadyToStartContainers", created && outcome.is_none(), None, "", now);
    let incomplete = containers.incomplete();
    if outcome == Some(Outcome::Succeeded) {
        set(&mut conditions, "Initialized", true, Some(COMPLETED), "", now);
    } else if incomplete.is_empty() {
        set(&mut conditions, "Initialized", true, None, "", now);
    } else {
        let message = format!("containers with incomplete status: [{}]", joined(incomplete));
        set(&mut conditions, "Initialized", false, Some("ContainersNotInitialized"), &message, now);
    }
    let shut = shut_gates(&pod.gates);
    let containers_ready = match outcome {
        _ if ready => (true, None, ""),
        Some(Outcome::Succeeded) => (false, Some(COMPLETED), ""),
        Some(Outcome::Failed) => (false, Some(FAILED), ""),
        None => (false, Some("ContainersNotReady"), unready.as_str()),
    };
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

/// The containers of a pod in its stage.
struct Containers<'a> {
    pod: &'a KubeletPod,
    written: &'a WrittenStatus,
    stage: &'a PodStage,
    inputs: &'a StatusInputs<'a>,
}

impl<'a> Containers<'a> {
    fn habit(&self) -> Habit<'a> {
        Habit { pod: self.pod, behavior: self.inputs.behavior }
    }

    /// The number of init containers that have completed while the pod cannot be created as a whole.
    fn done(&self) -> usize {
        match self.stage {
            PodStage::PullFailing { .. } | PodStage::ConfigMissing { .. } => {
                let init = &self.pod.init_containers;
                init.iter().position(|container| self.hindrance(container).is_some()).unwrap_or(init.len())
            }
            _ => 0,
        }
    }

    /// The names of init containers that are not complete.
    fn incomplete(&self) -> Vec<&str> {
        match self.stage.lives() {
            Some(lives) if lives.have_started(self.habit()) => Vec::new(),
            Some(lives) => lives.incomplete(self.pod).collect(),
            None => self.pod.init_containers.iter().skip(self.done()).map(|container| container.name.as_str()).collect(),
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
            if let Some(lives) = self.stage.lives() {
                return self.life_status(container, lives.of(index));
            }
            let mut status = waiting_status(container, self.waiting(container, index == done));
            if index < done {
                let id = container_id(self.pod, container, 0);
                let stays = container.is_sidecar();
                let before = self.written.init_container_statuses.iter().find(|known| known.name == container.name && known.ready);
                let end = End { started: now, finished: now, code: 0 };
                let state = || if stays { running(now) } else { terminated(end, id.clone()) };
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

    fn main_statuses(&self) -> Vec<ContainerStatus> {
        let first = self.pod.init_containers.len();
        let status = |(index, container): (usize, &ContainerView)| match self.stage.lives() {
            Some(lives) => self.life_status(container, lives.of(first + index)),
            None => self.unstarted_status(container),
        };
        self.pod.containers.iter().enumerate().map(status).collect()
    }

    /// The status of a container whose pod was started.
    fn life_status(&self, container: &ContainerView, life: &Life) -> ContainerStatus {
        let fault = self.inputs.faults.get(&container.name).filter(|_| life.waits_for_restart());
        let held_back = matches!(self.stage, PodStage::ConfigMissing { .. }).then_some(fault).flatten();
        let is_main = self.pod.containers.iter().any(|own| own.name == container.name);
        let is_done = !is_main && !container.is_sidecar();
        let mut status = waiting_status(container, self.waiting(container, false));
        status.restart_count = i32::try_from(life.restarts).unwrap_or(i32::MAX);
        let ended_run = if life.is_running() { status.restart_count - 1 } else { status.restart_count };
        let last_state = life.last.map(|end| terminated(end, container_id(self.pod, container, ended_run)));
        match life.state {
            LifeState::Waiting => return status,
            LifeState::Running { since, ready, .. } => {
                status.state = Some(running(since));
                status.ready = ready && !is_done;
                status.started = Some(!is_done);
                status.last_state = last_state;
            }
            LifeState::Ended { .. } | LifeState::BackingOff { .. } if held_back.is_some() => {
                status.state = Some(waiting("CreateContainerConfigError", held_back.cloned()));
                status.last_state = last_state;
                return status;
            }
            LifeState::Ended { .. } => {
                status.state = last_state;
                status.ready = is_done && life.last.is_some_and(|end| end.code == 0);
                status.last_state = last_end(self.written, &container.name, life.restarts);
            }
            LifeState::BackingOff { .. } => {
                status.state = Some(self.backing_off(container, life));
                status.last_state = last_state;
            }
        }
        status.image_id = image_id(container);
        status.container_id = Some(container_id(self.pod, container, status.restart_count));
        status
    }

    fn backing_off(&self, container: &ContainerView, life: &Life) -> ContainerState {
        let (back_off, name) = (back_off_text(life.back_off()), &container.name);
        let pod = format!("{}_{}({})", self.pod.name, self.pod.namespace, self.pod.uid);
        waiting("CrashLoopBackOff", Some(format!("back-off {back_off} restarting failed container={name} pod={pod}")))
    }

    /// The status of a container whose pod was not started as a whole.
    fn unstarted_status(&self, container: &ContainerView) -> ContainerStatus {
        let is_next = self.done() == self.pod.init_containers.len();
        let mut status = waiting_status(container, self.waiting(container, is_next));
        match self.stage {
            PodStage::PullFailing { since, .. } | PodStage::ConfigMissing { since, .. }
                if is_next && self.hindrance(container).is_none() =>
            {
                status.state = Some(self.running_since(container, *since));
                status.ready = container.readiness_probe.is_none();
                status.started = Some(true);
                status.image_id = image_id(container);
                status.container_id = Some(container_id(self.pod, container, status.restart_count));
            }
            _ => (),
        }
        status
    }

    /// Running since then, or since before if the container already ran while others could not be created.
    fn running_since(&self, container: &ContainerView, since: Timestamp) -> ContainerState {
        let known = self.written.container_statuses.iter().find(|status| status.name == container.name);
        let state = known.and_then(|status| status.state.clone()).filter(|state| state.running.is_some());
        state.unwrap_or_else(|| running(since))
    }

    /// The waiting state of a container. `is_next` is true if no other container has to run before it.
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
            _ if !self.pod.init_containers.is_empty() => ("PodInitializing", None),
            _ => ("ContainerCreating", None),
        };
        waiting(reason, message)
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

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

fn terminated(end: End, id: String) -> ContainerState {
    let terminated = ContainerStateTerminated {
        exit_code: end.code,
        reason: Some(if end.code == 0 { "Completed" } else { "Error" }.to_owned()),
        started_at: Some(whole_seconds(end.started)),
        finished_at: Some(whole_seconds(end.finished)),
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

/// A duration of whole seconds in Go's format.
fn back_off_text(back_off: Duration) -> String {
    let seconds = back_off.as_secs();
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{}s", seconds / 60, seconds % 60) }
}

/// The end of the run before the last one, if a status contains it. A node keeps only the last one.
fn last_end(written: &WrittenStatus, name: &str, restarts: u32) -> Option<ContainerState> {
    let mut known = written.container_statuses.iter().chain(&written.init_container_statuses).filter(|status| status.name == name);
    known.find(|status| status.restart_count.unsigned_abs() == restarts)?.last_state.clone()
}

/// Unique for each start of a container, and deterministic.
fn container_id(pod: &KubeletPod, container: &ContainerView, restarts: i32) -> String {
    format!("simulated://{}/{}/{restarts}", pod.uid, container.name)
}

/// Kubernetes' times in statuses have whole seconds.
pub(super) fn whole_seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}
