//! Whether the pods of a complete rollout have stayed available: one that crashes a moment after its start is available for that moment.

use crate::status::{RolloutProgress, RolloutStage, RolloutStatus};
use berth_workloads::{
    Wait,
    cause::{self, About, Cause, Kind},
    rollback::STEADY,
    view::PodView,
};
use jiff::{SignedDuration, Timestamp};

/// The same status, but not complete before all of these pods have stayed available for [`STEADY`]. `rollout status` does without, as kubectl does.
#[must_use]
pub fn settled<'p>(
    status: RolloutStatus,
    pods: impl IntoIterator<Item = &'p PodView>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> RolloutStatus {
    if status.progress.state != RolloutStage::Complete {
        return status;
    }
    let Some(Unsettled { message, cause, wait, until }) = unsettled(&status.progress.message, pods, min_ready_seconds, now) else {
        return status;
    };
    RolloutStatus {
        progress: RolloutProgress { state: RolloutStage::Waiting, message },
        causes: status.causes.into_iter().chain(cause).collect(),
        waits: status.waits.into_iter().chain([wait]).collect(),
        requeue_at: status.requeue_at.into_iter().chain([until]).min(),
        ..status
    }
}

/// What keeps a workload from being complete whose pods are all available.
#[derive(Debug)]
pub struct Unsettled {
    /// Its message, with what is left to do.
    pub message: String,
    /// Why a pod was not available before.
    pub cause: Option<Cause>,
    /// What is left to do.
    pub wait: Wait,
    /// When nothing is left.
    pub until: Timestamp,
}

/// What is left until all of these pods have stayed available for [`STEADY`]. `None`: nothing. `message` is that of the complete workload.
#[must_use]
pub fn unsettled<'p>(
    message: &str,
    pods: impl IntoIterator<Item = &'p PodView>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Option<Unsettled> {
    let settles_at = |pod: &PodView| {
        // One that is not ready has stopped being so since the workload's status was read.
        let ready = pod.ready_since.filter(|_| pod.ready).unwrap_or(now);
        let available = ready.checked_add(SignedDuration::from_secs(min_ready_seconds.max(0).into())).ok()?;
        available.checked_add(STEADY).ok().filter(|at| pod.is_active() && now < *at)
    };
    let mut young: Vec<(&PodView, Timestamp)> = pods.into_iter().filter_map(|pod| Some((pod, settles_at(pod)?))).collect();
    young.sort_by(|(a, _), (b, _)| a.meta.name.cmp(&b.meta.name));
    let until = young.iter().map(|(_, at)| *at).max()?;
    let message = format!("{}; its pods have to stay available for {}s", message.trim_end_matches('.'), STEADY.as_secs());
    let wait = Wait::Settling {
        pods: u32::try_from(young.len()).unwrap_or(u32::MAX),
        seconds: u32::try_from(STEADY.as_secs()).unwrap_or(u32::MAX),
    };
    Some(Unsettled { message, cause: crashed(&young), wait, until })
}

/// Those that came up again after they had ended, or have ended again.
fn crashed(young: &[(&PodView, Timestamp)]) -> Option<Cause> {
    let again: Vec<&PodView> = young.iter().map(|(pod, _)| *pod).filter(|pod| 0 < pod.restarts).collect();
    let first = again.first()?;
    let times = if first.restarts == 1 { "once".to_owned() } else { format!("{} times", first.restarts) };
    let evidence = cause::of_pod(first).map_or_else(|| format!("it is ready again, restarted {times} so far"), |cause| cause.evidence);
    Some(Cause { kind: Kind::Crash, pods: again.len(), about: About { kind: "Pod", name: first.meta.name.to_string() }, evidence })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Replicas;
    use berth_identity::Revision;
    use berth_identity::RolloutRevision;
    use berth_workloads::view::View;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).expect("in range")
    }

    fn pod(name: &str, ready_at: i64, restarts: i32) -> PodView {
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": at(ready_at)});
        let container = json!({"name": "main", "ready": true, "restartCount": restarts});
        let pod = json!({"metadata": {"name": name}, "spec": {}, "status": {"phase": "Running", "conditions": [ready], "containerStatuses": [container]}});
        PodView::decode(pod.to_string().as_bytes(), Revision(1)).expect("a pod")
    }

    fn complete() -> RolloutStatus {
        RolloutStatus {
            revision: Some(RolloutRevision(1)),
            progress: RolloutProgress { state: RolloutStage::Complete, message: "deployment \"web\" successfully rolled out".to_owned() },
            rollback: None,
            goes_back_to: None,
            phase: None,
            replicas: Replicas { wanted: 2, total: 2, updated: 2, available: 2, terminating: Some(0) },
            causes: Vec::new(),
            waits: Vec::new(),
            unready_pods: Vec::new(),
            requeue_at: None,
        }
    }

    #[test]
    fn a_rollout_is_complete_when_its_pods_have_stayed_available() {
        let status = |second: i64| settled(complete(), &[pod("web-1", 0, 0), pod("web-2", 5, 0)], 0, at(second));
        let early = status(12);
        assert_eq!((early.progress.state, early.requeue_at), (RolloutStage::Waiting, Some(at(15))));
        assert_eq!(early.waits.iter().map(ToString::to_string).collect::<Vec<_>>(), ["waiting for 1 pod to stay available for 10s"]);
        assert_eq!(early.causes, []);
        assert_eq!(status(15), complete());
    }

    #[test]
    fn a_pod_that_has_come_up_again_is_one_that_crashes() {
        let status = |second: i64| settled(complete(), &[pod("web-1", 0, 3)], 0, at(second));
        let crash = "web-1 keeps crashing: it is ready again, restarted 3 times so far";
        assert_eq!(status(9).causes.iter().map(ToString::to_string).collect::<Vec<_>>(), [crash]);
        assert_eq!(status(10), complete(), "it has not for long");
    }

    /// The status was read a moment before.
    #[test]
    fn a_pod_that_has_just_stopped_being_ready_is_not_well() {
        let mut ended = pod("web-1", 0, 3);
        ended.ready = false;
        let status = settled(complete(), &[ended], 0, at(60));
        assert_eq!((status.progress.state, status.causes.len(), status.requeue_at), (RolloutStage::Waiting, 1, Some(at(70))));
    }

    #[test]
    fn min_ready_seconds_come_before() {
        let status = |second: i64| settled(complete(), &[pod("web-1", 0, 0)], 30, at(second)).progress.state;
        assert_eq!([status(39), status(40)], [RolloutStage::Waiting, RolloutStage::Complete]);
    }
}
