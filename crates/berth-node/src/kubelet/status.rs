//! A pod's status as a kubelet would report it, from the stage that the pod is in.

use super::{
    behaviour::back_off,
    stage::Stage,
    view::{ContainerView, PodView},
};
use berth_api::{
    k8s_openapi::{
        api::core::v1::{
            ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, HostIP, PodCondition,
            PodIP,
        },
        apimachinery::pkg::apis::meta::v1::Time,
    },
    simulation::Failure,
};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Where a pod runs.
pub(super) struct Place<'a> {
    /// The node's address.
    pub(super) host_ip: &'a str,
    /// The pod's own; unset until its containers are created.
    pub(super) pod_ip: Option<&'a str>,
}

/// The pod's whole status, for a merge patch; `None` where the stage has nothing to report.
pub(super) fn status(pod: &PodView, stage: &Stage, place: &Place<'_>, now: Timestamp) -> Option<Value> {
    let containers: Vec<ContainerStatus> = match stage {
        Stage::Terminating { .. } | Stage::Gone => return None,
        _ => pod.containers.iter().map(|container| container_status(pod, container, stage)).collect(),
    };
    let started = matches!(stage, Stage::Running { .. } | Stage::CrashLoop { .. });
    let ips: Vec<PodIP> = place.pod_ip.map(|ip| PodIP { ip: ip.to_owned() }).into_iter().collect();
    Some(json!({
        "phase": if started { "Running" } else { "Pending" },
        "conditions": conditions(pod, stage, now),
        "containerStatuses": containers,
        "hostIP": place.host_ip,
        "hostIPs": [HostIP { ip: place.host_ip.to_owned() }],
        "podIP": place.pod_ip,
        "podIPs": ips,
        "startTime": pod.status.start_time.clone().unwrap_or_else(|| whole_seconds(now)),
    }))
}

/// The status of a pod whose containers have ended because it was deleted: for pods that somebody holds back by a finalizer.
pub(super) fn ended(pod: &PodView, now: Timestamp) -> Value {
    let ended = |status: &ContainerStatus| {
        let started_at = status.state.as_ref().and_then(|state| state.running.as_ref()).and_then(|running| running.started_at.clone());
        let terminated = ContainerStateTerminated {
            reason: Some("Completed".to_owned()),
            started_at,
            finished_at: Some(whole_seconds(now)),
            container_id: status.container_id.clone(),
            ..ContainerStateTerminated::default()
        };
        let state = ContainerState { terminated: Some(terminated), ..ContainerState::default() };
        ContainerStatus { ready: false, started: Some(false), state: Some(state), ..status.clone() }
    };
    let containers: Vec<ContainerStatus> = pod.status.container_statuses.iter().map(ended).collect();
    let mut conditions = pod.status.conditions.clone();
    for type_ in ["Ready", "ContainersReady"] {
        set(&mut conditions, type_, false, Some("PodCompleted"), "", now);
    }
    json!({"phase": "Succeeded", "conditions": conditions, "containerStatuses": containers})
}

fn conditions(pod: &PodView, stage: &Stage, now: Timestamp) -> Vec<PodCondition> {
    let mut conditions = pod.status.conditions.clone();
    let names: Vec<&str> = pod.containers.iter().map(|container| container.name.as_str()).collect();
    let unready = format!("containers with unready status: [{}]", names.join(" "));
    let (ready, since) = match stage {
        Stage::Running { ready, .. } => (*ready, now),
        // Ready went at the crash, whenever that is written down.
        Stage::CrashLoop { crashed, .. } => (false, *crashed),
        _ => (false, now),
    };
    let created = !matches!(stage, Stage::Mounting | Stage::Creating { .. } | Stage::Stuck { failure: Failure::Pending });
    set(&mut conditions, "PodReadyToStartContainers", created, None, "", now);
    set(&mut conditions, "Initialized", true, None, "", now);
    for type_ in ["Ready", "ContainersReady"] {
        let (reason, message) = if ready { (None, "") } else { (Some("ContainersNotReady"), unready.as_str()) };
        set(&mut conditions, type_, ready, reason, message, since);
    }
    set(&mut conditions, "PodScheduled", true, None, "", now);
    conditions
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

fn container_status(pod: &PodView, container: &ContainerView, stage: &Stage) -> ContainerStatus {
    let mut status = ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone(),
        image_id: String::new(),
        started: Some(false),
        state: Some(state(container, pod, stage)),
        ..ContainerStatus::default()
    };
    match stage {
        Stage::Running { ready, restarts, .. } => {
            status.ready = *ready;
            status.started = Some(true);
            status.restart_count = i32::try_from(*restarts).unwrap_or(i32::MAX);
            status.last_state = last_end(pod, &container.name);
        }
        Stage::CrashLoop { started, crashed, restarts, .. } => {
            status.restart_count = i32::try_from(*restarts).unwrap_or(i32::MAX);
            status.last_state = Some(crash(pod, container, *started, *crashed));
        }
        _ => return status,
    }
    status.image_id = format!("{}@sha256:simulated", container.image);
    status.container_id = Some(container_id(pod, container, status.restart_count));
    status
}

fn state(container: &ContainerView, pod: &PodView, stage: &Stage) -> ContainerState {
    let waiting = |reason: &str, message: Option<String>| ContainerState {
        waiting: Some(ContainerStateWaiting { reason: Some(reason.to_owned()), message }),
        ..ContainerState::default()
    };
    match stage {
        Stage::Running { since, .. } => {
            ContainerState { running: Some(ContainerStateRunning { started_at: Some(whole_seconds(*since)) }), ..ContainerState::default() }
        }
        Stage::Stuck { failure: Failure::ImagePullBackOff } => {
            waiting("ImagePullBackOff", Some(format!("Back-off pulling image \"{}\"", container.image)))
        }
        Stage::CrashLoop { restarts, .. } => {
            let message = format!(
                "back-off {} restarting failed container={} pod={}_{}({})",
                back_off_text(*restarts),
                container.name,
                pod.name,
                pod.namespace,
                pod.uid
            );
            waiting("CrashLoopBackOff", Some(message))
        }
        _ => waiting("ContainerCreating", None),
    }
}

fn back_off_text(restarts: u32) -> String {
    let seconds = back_off(restarts).as_secs();
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{}s", seconds / 60, seconds % 60) }
}

fn crash(pod: &PodView, container: &ContainerView, started: Timestamp, crashed: Timestamp) -> ContainerState {
    let before = last_restarts(pod, &container.name);
    let terminated = ContainerStateTerminated {
        exit_code: 1,
        reason: Some("Error".to_owned()),
        started_at: Some(whole_seconds(started)),
        finished_at: Some(whole_seconds(crashed)),
        container_id: Some(container_id(pod, container, before)),
        ..ContainerStateTerminated::default()
    };
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}

fn last_end(pod: &PodView, name: &str) -> Option<ContainerState> {
    pod.status.container_statuses.iter().find(|status| status.name == name)?.last_state.clone()
}

fn last_restarts(pod: &PodView, name: &str) -> i32 {
    pod.status.container_statuses.iter().find(|status| status.name == name).map_or(0, |status| status.restart_count)
}

/// Unique per start of a container, the same for whoever computes it.
fn container_id(pod: &PodView, container: &ContainerView, restarts: i32) -> String {
    format!("simulated://{}/{}/{restarts}", pod.uid, container.name)
}

/// Kubernetes' times in statuses have whole seconds.
pub(super) fn whole_seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}
