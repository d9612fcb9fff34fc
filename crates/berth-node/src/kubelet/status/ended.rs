//! The final status of a pod: its containers have ended.

use super::{COMPLETED, Containers, FAILED, StatusInputs, named, set, whole_seconds};
use crate::kubelet::{
    stage::PodStage,
    view::{KubeletPod, WrittenStatus},
};
use berth_api::{
    StatusPart,
    k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, PodCondition, PodStatus},
};
use jiff::Timestamp;

/// Why a pod ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kubelet) enum Ending {
    /// It was deleted.
    Deleted,
    /// It was active for longer than `activeDeadlineSeconds`.
    DeadlineExceeded,
}

/// The reason of the status and of the event of a pod past its deadline.
pub(in crate::kubelet) const DEADLINE_REASON: &str = "DeadlineExceeded";
/// The message of a kubelet about it.
pub(in crate::kubelet) const DEADLINE_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

/// The exit code of a container in an unknown state.
const UNKNOWN_EXIT_CODE: i32 = 137;

/// The members of a status that an end writes.
const MEMBERS: &[&str] = &["phase", "conditions", "containerStatuses", "initContainerStatuses"];
/// The same past a deadline.
const MEMBERS_WITH_REASON: &[&str] = &["phase", "conditions", "containerStatuses", "initContainerStatuses", "reason", "message"];

/// The status of a pod whose containers have ended, according to the lives of the stage. Without lives, containers that ran have succeeded,
/// and other known facts remain. A container that never ran counts as lost.
///
/// Source: kubernetes `pkg/kubelet/status/status_manager.go`, `TerminatePod`.
pub(in crate::kubelet) fn ended(
    pod: &KubeletPod,
    written: &WrittenStatus,
    (stage, inputs): (&PodStage, &StatusInputs<'_>),
    ending: Ending,
    now: Timestamp,
) -> StatusPart {
    let containers = Containers { pod, written, stage, inputs };
    let (init, main) = match stage.lives() {
        Some(_) => (containers.init_statuses(now), containers.main_statuses()),
        None => (written.init_container_statuses.clone(), written.container_statuses.clone()),
    };
    let init: Vec<ContainerStatus> = init.iter().map(|status| stopped(status, now)).collect();
    let is_initialized = init.iter().all(has_ended);
    let end = |status: &ContainerStatus| {
        let status = stopped(status, now);
        if is_initialized && !has_ended(&status) { lost(status) } else { status }
    };
    let main: Vec<ContainerStatus> = main.iter().map(end).collect();
    let succeeded = ending == Ending::Deleted && !main.is_empty() && main.iter().all(has_succeeded);
    let exceeded = |text: &str| (ending == Ending::DeadlineExceeded).then(|| text.to_owned());
    let status = PodStatus {
        phase: Some(if succeeded { "Succeeded" } else { "Failed" }.to_owned()),
        conditions: Some(conditions(written, succeeded, now)),
        container_statuses: Some(main),
        init_container_statuses: Some(init).filter(|statuses| !statuses.is_empty()),
        reason: exceeded(DEADLINE_REASON),
        message: exceeded(DEADLINE_MESSAGE),
        ..PodStatus::default()
    };
    let members = if ending == Ending::DeadlineExceeded { MEMBERS_WITH_REASON } else { MEMBERS };
    StatusPart { object: Box::new(named(pod, status)), members }
}

fn conditions(written: &WrittenStatus, succeeded: bool, now: Timestamp) -> Vec<PodCondition> {
    let mut conditions = written.conditions.clone();
    let reason = if succeeded { COMPLETED } else { FAILED };
    set(&mut conditions, "PodReadyToStartContainers", false, None, "", now);
    for type_ in ["Ready", "ContainersReady"] {
        set(&mut conditions, type_, false, Some(reason), "", now);
    }
    conditions
}

/// A container that ran has ended now. One that waited for its restart has ended as it did the last time.
fn stopped(status: &ContainerStatus, now: Timestamp) -> ContainerStatus {
    if has_ended(status) {
        return status.clone();
    }
    let running = status.state.as_ref().and_then(|state| state.running.as_ref());
    let last = status.last_state.as_ref().and_then(|last| last.terminated.clone());
    let terminated = match running {
        Some(running) => Some(ContainerStateTerminated {
            reason: Some("Completed".to_owned()),
            started_at: running.started_at.clone(),
            finished_at: Some(whole_seconds(now)),
            container_id: status.container_id.clone(),
            ..ContainerStateTerminated::default()
        }),
        None => last,
    };
    let state = terminated.map(|terminated| ContainerState { terminated: Some(terminated), ..ContainerState::default() });
    let state = state.or_else(|| status.state.clone());
    ContainerStatus { ready: false, started: Some(false), state, ..status.clone() }
}

fn lost(status: ContainerStatus) -> ContainerStatus {
    let terminated = ContainerStateTerminated {
        exit_code: UNKNOWN_EXIT_CODE,
        reason: Some("ContainerStatusUnknown".to_owned()),
        message: Some("The container could not be located when the pod was terminated".to_owned()),
        ..ContainerStateTerminated::default()
    };
    ContainerStatus { state: Some(ContainerState { terminated: Some(terminated), ..ContainerState::default() }), ..status }
}

fn has_ended(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.terminated.is_some())
}

fn has_succeeded(status: &ContainerStatus) -> bool {
    status.state.as_ref().and_then(|state| state.terminated.as_ref()).is_some_and(|end| end.exit_code == 0)
}
