//! The life of one pod on its node, as a state machine.

use super::{
    behavior::{Behavior, CRASHES_AFTER, PULL_ERROR_SHOWN, back_off},
    references::Step,
    view::KubeletPod,
};
use berth_api::simulation::Failure;
use jiff::Timestamp;

/// Where a pod is on its node. Moves on only in [`step`]; never backwards, but for containers that crash and are started again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodStage {
    /// Taken on, its volumes not mounted: a claim has none, or is being deleted, or a ConfigMap or a Secret is missing. Does not end by time.
    Mounting,
    /// Taken on, its containers not started.
    Creating {
        /// When they start.
        runs_at: Timestamp,
        /// When it is ready.
        ready_at: Timestamp,
    },
    /// Its containers are not started, and will not be.
    Stuck {
        /// Why.
        failure: Failure,
    },
    /// An image could not be pulled, which is tried again and again. Containers whose images are there run, unless the missing one is an init container's.
    PullFailing {
        /// Since when those run.
        since: Timestamp,
        /// When the last pull failed.
        failed: Timestamp,
        /// How many have.
        tries: u32,
        /// Whether it waits for the next one.
        backs_off: bool,
    },
    /// The configuration of a container is missing. Containers whose configuration is there run, unless the other is an init container. Does not end by time.
    ConfigMissing {
        /// Since when those run.
        since: Timestamp,
        /// How often its containers were started again.
        restarts: u32,
    },
    /// Its containers run.
    Running {
        /// Since when.
        since: Timestamp,
        /// When its probe passes; `None`: it never does, or it has passed.
        ready_at: Option<Timestamp>,
        /// Whether it is ready.
        ready: bool,
        /// When its containers end badly, if they do.
        crashes_at: Option<Timestamp>,
        /// How often its containers were started again.
        restarts: u32,
    },
    /// Its containers ended badly and wait to be started again.
    CrashLoop {
        /// When they started last.
        started: Timestamp,
        /// When they ended.
        crashed: Timestamp,
        /// When they are started again.
        again_at: Timestamp,
        /// How often they were started again, the coming start counted.
        restarts: u32,
    },
    /// It is being deleted and still holds its place.
    Terminating {
        /// When it lets go.
        gone_at: Timestamp,
    },
    /// It has let go; nothing of it is left on the node.
    Gone,
}

/// The stage of a pod that the node sees for the first time: from its status if that records the stage, else from the start.
#[must_use]
pub fn begin(pod: &KubeletPod, behavior: &Behavior, now: Timestamp) -> PodStage {
    if pod.deletion_deadline.is_some() {
        return terminating(pod, behavior, now);
    }
    let start = pod.status.start_time;
    if pod.status.waits_to_be_created {
        return taken_on(behavior, start.unwrap_or(now));
    }
    match &pod.status.running {
        Some(running) => running_on(pod, behavior, running.started_at.unwrap_or(now), now),
        // What it waited for is not written down; a fresh back-off is what a restarted kubelet gives it too.
        _ if pod.status.restarts > 0 => crash_loop(now, now, pod.status.restarts),
        _ if !pod.claims.is_empty() || pod.mounts_references => PodStage::Mounting,
        _ => taken_on(behavior, start.unwrap_or(now)),
    }
}

/// The stage of a pod whose images have been changed while one could not be pulled; `None`: it goes on as before.
#[must_use]
pub(super) fn images_changed(stage: &PodStage, behavior: &Behavior, now: Timestamp) -> Option<PodStage> {
    matches!(stage, PodStage::PullFailing { .. }).then(|| PodStage::Creating { runs_at: now, ready_at: now + behavior.ready_after })
}

/// The stage of a pod whose configuration is there now; `None`: it goes on as before.
#[must_use]
pub(super) fn configured(stage: &PodStage, behavior: &Behavior, probed: bool, now: Timestamp) -> Option<PodStage> {
    match stage {
        PodStage::ConfigMissing { restarts, .. } => Some(start(now, now + behavior.ready_after, *restarts, behavior, probed)),
        _ => None,
    }
}

/// What the node does next for a pod that references ConfigMaps and Secrets, if it is due.
#[must_use]
pub(super) fn next_step(stage: &PodStage, now: Timestamp) -> Option<Step> {
    match stage {
        PodStage::Mounting => Some(Step::Mount),
        PodStage::PullFailing { .. } | PodStage::ConfigMissing { .. } => Some(Step::Create),
        PodStage::Creating { .. } | PodStage::CrashLoop { .. } => due(stage).filter(|at| *at <= now).map(|_| Step::Create),
        _ => None,
    }
}

/// The stage that follows [`PodStage::Mounting`].
#[must_use]
pub(super) fn mounted(behavior: &Behavior, now: Timestamp) -> PodStage {
    taken_on(behavior, now)
}

fn taken_on(behavior: &Behavior, at: Timestamp) -> PodStage {
    match behavior.fails {
        Some(failure @ Failure::Pending) => PodStage::Stuck { failure },
        _ => PodStage::Creating { runs_at: at + behavior.runs_after, ready_at: at + behavior.ready_after },
    }
}

fn running_on(pod: &KubeletPod, behavior: &Behavior, since: Timestamp, now: Timestamp) -> PodStage {
    let ready = pod.status.ready;
    let start = pod.status.start_time.unwrap_or(now);
    let never = ready || behavior.fails == Some(Failure::NeverReady);
    PodStage::Running {
        since,
        ready,
        ready_at: (!never).then(|| (start + behavior.ready_after).max(since)),
        crashes_at: crashes(behavior).then(|| since + CRASHES_AFTER),
        restarts: pod.status.restarts,
    }
}

/// The pod is being deleted: it goes when it has finished its work, and never later than its grace period ends.
#[must_use]
pub(super) fn terminating(pod: &KubeletPod, behavior: &Behavior, now: Timestamp) -> PodStage {
    let wanted = now + behavior.terminates_after;
    PodStage::Terminating { gone_at: pod.deletion_deadline.map_or(wanted, |deadline| wanted.min(deadline)) }
}

/// When the stage ends by itself.
#[must_use]
pub fn due(stage: &PodStage) -> Option<Timestamp> {
    match stage {
        PodStage::Creating { runs_at, .. } => Some(*runs_at),
        PodStage::PullFailing { failed, backs_off: false, .. } => Some(*failed + PULL_ERROR_SHOWN),
        PodStage::PullFailing { failed, tries, backs_off: true, .. } => Some(*failed + back_off(*tries)),
        PodStage::Running { ready_at, crashes_at, .. } => [*ready_at, *crashes_at].into_iter().flatten().min(),
        PodStage::CrashLoop { again_at, .. } => Some(*again_at),
        PodStage::Terminating { gone_at } => Some(*gone_at),
        PodStage::Mounting | PodStage::ConfigMissing { .. } | PodStage::Stuck { .. } | PodStage::Gone => None,
    }
}

/// The next stage, if one is due by `now`. Called until it gives `None`, a late caller ends where timely ones would.
#[must_use]
pub fn step(stage: &PodStage, behavior: &Behavior, probed: bool, now: Timestamp) -> Option<PodStage> {
    let at = due(stage).filter(|at| *at <= now)?;
    Some(match *stage {
        PodStage::Creating { ready_at, .. } => start(at, ready_at, 0, behavior, probed),
        PodStage::PullFailing { since, failed, tries, backs_off: false } => PodStage::PullFailing { since, failed, tries, backs_off: true },
        PodStage::PullFailing { since, tries, .. } => PodStage::PullFailing { since, failed: at, tries: tries + 1, backs_off: false },
        PodStage::Running { since, crashes_at: Some(crash), restarts, .. } if crash <= at => crash_loop(since, crash, restarts + 1),
        PodStage::Running { since, crashes_at, restarts, .. } => {
            PodStage::Running { since, ready_at: None, ready: true, crashes_at, restarts }
        }
        PodStage::CrashLoop { again_at, restarts, .. } => start(again_at, again_at, restarts, behavior, probed),
        PodStage::Terminating { .. } => PodStage::Gone,
        PodStage::Mounting | PodStage::ConfigMissing { .. } | PodStage::Stuck { .. } | PodStage::Gone => return None,
    })
}

/// Containers start. They are ready at once if they have no probe, or if the probe passes by then.
fn start(at: Timestamp, ready_at: Timestamp, restarts: u32, behavior: &Behavior, probed: bool) -> PodStage {
    if behavior.pull_fails {
        return PodStage::PullFailing { since: at, failed: at, tries: 1, backs_off: false };
    }
    if behavior.config_fails {
        return PodStage::ConfigMissing { since: at, restarts };
    }
    let never_ready = behavior.fails == Some(Failure::NeverReady) || (probed && crashes(behavior));
    let ready = !never_ready && (!probed || ready_at <= at);
    PodStage::Running {
        since: at,
        ready,
        ready_at: (!never_ready && !ready).then_some(ready_at),
        crashes_at: crashes(behavior).then(|| at + CRASHES_AFTER),
        restarts,
    }
}

fn crash_loop(started: Timestamp, crashed: Timestamp, restarts: u32) -> PodStage {
    PodStage::CrashLoop { started, crashed, again_at: crashed + back_off(restarts), restarts }
}

fn crashes(behavior: &Behavior) -> bool {
    behavior.fails == Some(Failure::CrashLoopBackOff)
}

#[cfg(test)]
mod tests {
    use super::{super::view::RunningView, *};
    use std::time::Duration;

    const LATENCY: Duration = Duration::from_secs(2);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("a small number")
    }

    fn behavior(fails: Option<Failure>, ready_after: u64) -> Behavior {
        Behavior {
            runs_after: LATENCY,
            ready_after: Duration::from_secs(ready_after),
            terminates_after: Duration::from_secs(5),
            fails,
            pull_fails: fails == Some(Failure::ImagePullBackOff),
            config_fails: false,
        }
    }

    fn shown(stage: &PodStage) -> String {
        match stage {
            PodStage::Mounting => "mounting".to_owned(),
            PodStage::Creating { .. } => "creating".to_owned(),
            PodStage::Stuck { failure } => format!("stuck {failure:?}"),
            PodStage::PullFailing { tries, backs_off, .. } => format!("pull failed {tries} backs_off={backs_off}"),
            PodStage::ConfigMissing { .. } => "configuration missing".to_owned(),
            PodStage::Running { ready, restarts, .. } => format!("running ready={ready} restarts={restarts}"),
            PodStage::CrashLoop { restarts, .. } => format!("crashed restarts={restarts}"),
            PodStage::Terminating { .. } => "terminating".to_owned(),
            PodStage::Gone => "gone".to_owned(),
        }
    }

    /// Follows a pod that is bound at 0; gives `second: stage` at each change until `until`.
    fn life(behavior: &Behavior, probed: bool, until: i64) -> Vec<String> {
        let mut stage = begin(&KubeletPod::default(), behavior, at(0));
        let mut seen = vec![format!("0: {}", shown(&stage))];
        while let Some(next_at) = due(&stage).filter(|next| *next <= at(until)) {
            stage = step(&stage, behavior, probed, next_at).expect("it is due");
            seen.push(format!("{}: {}", next_at.duration_since(at(0)).as_secs_f64(), shown(&stage)));
        }
        seen
    }

    #[test]
    fn a_pod_without_probe_is_ready_as_soon_as_it_runs() {
        assert_eq!(life(&behavior(None, 2), false, 60), ["0: creating", "2: running ready=true restarts=0"]);
    }

    #[test]
    fn a_probe_passes_later() {
        assert_eq!(
            life(&behavior(None, 7), true, 60),
            ["0: creating", "2: running ready=false restarts=0", "7: running ready=true restarts=0"]
        );
    }

    #[test]
    fn each_failure_shows() {
        assert_eq!(life(&behavior(Some(Failure::Pending), 2), false, 60), ["0: stuck Pending"]);
        assert_eq!(life(&behavior(Some(Failure::NeverReady), 2), false, 60), ["0: creating", "2: running ready=false restarts=0"]);
    }

    #[test]
    fn a_pull_that_fails_is_tried_again_later_and_later() {
        let missing = behavior(Some(Failure::ImagePullBackOff), 2);
        let expected = [
            "0: creating",
            "2: pull failed 1 backs_off=false",
            "2.5: pull failed 1 backs_off=true",
            "12: pull failed 2 backs_off=false",
            "12.5: pull failed 2 backs_off=true",
            "32: pull failed 3 backs_off=false",
            "32.5: pull failed 3 backs_off=true",
        ];
        assert_eq!(life(&missing, false, 60), expected);
        // A restarted node counts from when it accepted the pod: it is late, and ends where a timely one would.
        let mut pod = KubeletPod::default();
        pod.status.start_time = Some(at(0));
        (pod.status.running, pod.status.waits_to_be_created) = (Some(RunningView::default()), true);
        let mut stage = begin(&pod, &missing, at(40));
        while let Some(next) = step(&stage, &missing, false, at(40)) {
            stage = next;
        }
        assert_eq!(shown(&stage), "pull failed 3 backs_off=true");
        // The image has been put right, or the registry.
        assert_eq!(shown(&begin(&pod, &behavior(None, 2), at(40))), "creating");
        let corrected = images_changed(&stage, &behavior(None, 2), at(40)).expect("it was failing");
        assert_eq!(
            step(&corrected, &behavior(None, 2), false, at(40)).as_ref().map(shown),
            Some("running ready=true restarts=0".to_owned())
        );
    }

    #[test]
    fn a_pod_whose_configuration_is_missing_starts_when_it_is_there() {
        let missing = Behavior { config_fails: true, ..behavior(None, 5) };
        assert_eq!(life(&missing, true, 60), ["0: creating", "2: configuration missing"]);
        let there = behavior(None, 5);
        let waits = PodStage::ConfigMissing { since: at(2), restarts: 3 };
        let running = configured(&waits, &there, true, at(40)).expect("it waited for that");
        assert_eq!(running, PodStage::Running { since: at(40), ready_at: Some(at(45)), ready: false, crashes_at: None, restarts: 3 });
        assert_eq!(configured(&running, &there, true, at(41)), None);
        // A crashed container finds it gone at its next start.
        let crashed = PodStage::CrashLoop { started: at(2), crashed: at(3), again_at: at(13), restarts: 1 };
        assert_eq!((next_step(&crashed, at(12)), next_step(&crashed, at(13))), (None, Some(Step::Create)));
        assert_eq!(step(&crashed, &missing, false, at(13)).as_ref().map(shown), Some("configuration missing".to_owned()));
    }

    #[test]
    fn a_restarted_node_checks_missing_configuration_again() {
        let mut pod = KubeletPod::default();
        (pod.status.start_time, pod.status.waits_to_be_created) = (Some(at(0)), true);
        assert_eq!(shown(&begin(&pod, &behavior(None, 2), at(40))), "creating");
        let mounts = KubeletPod { mounts_references: true, ..KubeletPod::default() };
        assert_eq!(shown(&begin(&mounts, &behavior(None, 2), at(0))), "mounting");
    }

    #[test]
    fn a_crash_loop_is_ready_for_a_moment_each_time_unless_probed() {
        let crashing = behavior(Some(Failure::CrashLoopBackOff), 2);
        let unprobed = [
            "0: creating",
            "2: running ready=true restarts=0",
            "3: crashed restarts=1",
            "13: running ready=true restarts=1",
            "14: crashed restarts=2",
        ];
        assert_eq!(life(&crashing, false, 20), unprobed);
        assert!(life(&crashing, true, 20).iter().all(|line| !line.contains("ready=true")));
    }

    #[test]
    fn a_late_caller_ends_where_timely_ones_would() {
        let crashing = behavior(Some(Failure::CrashLoopBackOff), 2);
        let mut stage = begin(&KubeletPod::default(), &crashing, at(0));
        while let Some(next) = step(&stage, &crashing, false, at(20)) {
            stage = next;
        }
        assert_eq!(stage, PodStage::CrashLoop { started: at(13), crashed: at(14), again_at: at(34), restarts: 2 });
    }

    #[test]
    fn termination_never_outlasts_the_grace_period() {
        let pod = |deadline| KubeletPod { deletion_deadline: Some(at(deadline)), ..KubeletPod::default() };
        assert_eq!(terminating(&pod(30), &behavior(None, 2), at(0)), PodStage::Terminating { gone_at: at(5) });
        assert_eq!(terminating(&pod(3), &behavior(None, 2), at(0)), PodStage::Terminating { gone_at: at(3) });
    }

    #[test]
    fn a_restarted_node_continues_at_the_stage_of_the_status() {
        let mut pod = KubeletPod::default();
        pod.status.start_time = Some(at(0));
        assert_eq!(shown(&begin(&pod, &behavior(None, 2), at(100))), "creating");
        (pod.status.running, pod.status.restarts) = (Some(RunningView { started_at: Some(at(2)) }), 3);
        assert_eq!(shown(&begin(&pod, &behavior(None, 2), at(100))), "running ready=false restarts=3");
    }
}
