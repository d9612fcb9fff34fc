//! The life of one pod on its node, as a state machine.

use super::{
    behavior::{Behavior, PULL_ERROR_SHOWN, back_off, later},
    lives::{Habit, Lives, Outcome, Stop},
    references::Step,
    view::{KubeletPod, Runs},
};
use berth_api::simulation::Failure;
use jiff::Timestamp;

/// The stage of a pod on its node. Only [`step`] advances it. It never moves back, except for restarted containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodStage {
    /// Accepted, with unmounted volumes: a claim is unbound or terminating, or a ConfigMap or a Secret is missing. Does not end by time.
    Mounting,
    /// Accepted, with containers that are not started.
    Creating {
        /// When they start.
        runs_at: Timestamp,
    },
    /// Its containers are not started and never will be.
    Stuck {
        /// Why.
        failure: Failure,
    },
    /// The pull of an image fails repeatedly. Containers whose images exist run, unless the missing image is an init container's.
    PullFailing {
        /// Since when those containers run.
        since: Timestamp,
        /// When the last pull failed.
        failed: Timestamp,
        /// The number of failed pulls.
        tries: u32,
        /// Whether it waits for the next pull.
        backs_off: bool,
    },
    /// The configuration of a container is missing. Containers with their configuration run, unless the other is an init container. Does
    /// not end by time.
    ConfigMissing {
        /// Since when those containers run that were never started before.
        since: Timestamp,
        /// The lives of its containers, if they were started before.
        lives: Option<Box<Lives>>,
    },
    /// Its containers run, end and are restarted. After the pod has ended, its status is final.
    Active(Box<Lives>),
    /// It is terminating and still uses resources of its node.
    Terminating {
        /// When its containers have ended.
        gone_at: Timestamp,
        /// How containers are stopped that have not ended by then.
        stop: Stop,
        /// The lives of its containers, if they were started.
        lives: Option<Box<Lives>>,
    },
    /// It is removed from the node.
    Gone {
        /// The lives of its containers, if they were started.
        lives: Option<Box<Lives>>,
    },
}

impl PodStage {
    /// Whether its containers are ready.
    pub(super) fn is_ready(&self, pod: &KubeletPod, behavior: &Behavior) -> bool {
        matches!(self, Self::Active(lives) if lives.are_ready(Habit { pod, behavior }))
    }

    /// How the pod ended by itself. `None` if it has not.
    pub(super) fn outcome(&self, pod: &KubeletPod, behavior: &Behavior) -> Option<Outcome> {
        match self {
            Self::Active(lives) => lives.outcome(Habit { pod, behavior }),
            _ => None,
        }
    }

    pub(super) fn lives(&self) -> Option<&Lives> {
        match self {
            Self::Active(lives) => Some(lives),
            Self::ConfigMissing { lives, .. } | Self::Terminating { lives, .. } | Self::Gone { lives } => lives.as_deref(),
            Self::Mounting | Self::Creating { .. } | Self::Stuck { .. } | Self::PullFailing { .. } => None,
        }
    }
}

/// The stage of a pod that the node observes for the first time: from its status if that contains it, otherwise from the start.
#[must_use]
pub fn begin(pod: &KubeletPod, behavior: &Behavior, now: Timestamp) -> PodStage {
    let habit = Habit { pod, behavior };
    let until = pod.active_until().map_or(now, |deadline| deadline.min(now));
    let lives = match pod.status.runs {
        Runs::None => None,
        Runs::AllSince(since) => Some(Lives::all_running(habit, since, until)),
        Runs::Mixed => pod.written_status().ok().map(|written| Lives::of_status(habit, &written, until)),
    };
    if pod.deletion_deadline.is_some() {
        return terminating(pod, behavior, lives.map(Box::new), now);
    }
    let start = pod.status.start_time.unwrap_or(now);
    match lives {
        // The lives do not show which containers run beside those that cannot be created.
        Some(lives) if !(pod.status.waits_to_be_created && lives.are_first(habit)) => PodStage::Active(Box::new(lives)),
        _ if pod.status.waits_to_be_created => taken_on(behavior, start),
        _ if !pod.claims.is_empty() || pod.mounts_references => PodStage::Mounting,
        _ => taken_on(behavior, start),
    }
}

/// The stage of a pod whose images were changed after a failed pull. `None` if it continues as before.
#[must_use]
pub(super) fn images_changed(stage: &PodStage, now: Timestamp) -> Option<PodStage> {
    matches!(stage, PodStage::PullFailing { .. }).then_some(PodStage::Creating { runs_at: now })
}

/// The stage of a pod whose configuration now exists. `None` if it continues as before.
#[must_use]
pub(super) fn configured(stage: &PodStage, pod: &KubeletPod, behavior: &Behavior, now: Timestamp) -> Option<PodStage> {
    match stage {
        PodStage::ConfigMissing { lives: None, .. } => Some(start(pod, behavior, now)),
        PodStage::ConfigMissing { lives: Some(lives), .. } => {
            let mut lives = lives.clone();
            lives.release(now);
            Some(PodStage::Active(lives))
        }
        _ => None,
    }
}

/// The next step for a pod that references ConfigMaps and Secrets, if it is due.
#[must_use]
pub(super) fn next_step(stage: &PodStage, now: Timestamp) -> Option<Step> {
    let is_due = |at: Option<Timestamp>| at.is_some_and(|at| at <= now).then_some(Step::Create);
    match stage {
        PodStage::Mounting => Some(Step::Mount),
        PodStage::PullFailing { .. } | PodStage::ConfigMissing { .. } => Some(Step::Create),
        PodStage::Creating { runs_at } => is_due(Some(*runs_at)),
        PodStage::Active(lives) => is_due(lives.starts_at()),
        PodStage::Stuck { .. } | PodStage::Terminating { .. } | PodStage::Gone { .. } => None,
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
        _ => PodStage::Creating { runs_at: later(at, behavior.runs_after) },
    }
}

/// The stage of a deleted pod: it terminates when it has stopped, and at the latest when its grace period ends.
#[must_use]
pub(super) fn terminating(pod: &KubeletPod, behavior: &Behavior, lives: Option<Box<Lives>>, now: Timestamp) -> PodStage {
    let has_ended = lives.as_deref().is_some_and(|lives| lives.outcome(Habit { pod, behavior }).is_some());
    let wanted = if has_ended { now } else { later(now, behavior.terminates_after) };
    let gone_at = pod.deletion_deadline.map_or(wanted, |deadline| wanted.min(deadline));
    let stop = if gone_at < wanted { Stop::ByForce } else { Stop::Gracefully };
    PodStage::Terminating { gone_at, stop, lives }
}

/// When the stage ends by itself.
#[must_use]
pub fn due(stage: &PodStage) -> Option<Timestamp> {
    match stage {
        PodStage::Creating { runs_at } => Some(*runs_at),
        PodStage::PullFailing { failed, backs_off: false, .. } => Some(later(*failed, PULL_ERROR_SHOWN)),
        PodStage::PullFailing { failed, tries, backs_off: true, .. } => Some(later(*failed, back_off(*tries))),
        PodStage::Active(lives) => lives.due(),
        PodStage::Terminating { gone_at, .. } => Some(*gone_at),
        PodStage::Mounting | PodStage::ConfigMissing { .. } | PodStage::Stuck { .. } | PodStage::Gone { .. } => None,
    }
}

/// The next stage if one is due by `now`. Called until it returns `None`, a late caller reaches the same stage as a timely one.
#[must_use]
pub fn step(stage: &PodStage, pod: &KubeletPod, behavior: &Behavior, now: Timestamp) -> Option<PodStage> {
    let at = due(stage).filter(|at| *at <= now)?;
    Some(match stage {
        PodStage::Creating { .. } => start(pod, behavior, at),
        PodStage::PullFailing { since, failed, tries, backs_off: false } => {
            PodStage::PullFailing { since: *since, failed: *failed, tries: *tries, backs_off: true }
        }
        PodStage::PullFailing { since, tries, .. } => {
            PodStage::PullFailing { since: *since, failed: at, tries: tries + 1, backs_off: false }
        }
        PodStage::Active(lives) if behavior.config_fails && lives.starts_at().is_some_and(|starts_at| starts_at <= at) => {
            PodStage::ConfigMissing { since: at, lives: Some(lives.clone()) }
        }
        PodStage::Active(lives) => {
            let mut lives = lives.clone();
            lives.step(Habit { pod, behavior }, at);
            PodStage::Active(lives)
        }
        PodStage::Terminating { stop, lives, .. } => {
            PodStage::Gone { lives: lives.as_ref().map(|lives| Box::new(lives.stopped(at, *stop))) }
        }
        PodStage::Mounting | PodStage::ConfigMissing { .. } | PodStage::Stuck { .. } | PodStage::Gone { .. } => return None,
    })
}

/// Starts the containers.
fn start(pod: &KubeletPod, behavior: &Behavior, at: Timestamp) -> PodStage {
    if behavior.pull_fails {
        return PodStage::PullFailing { since: at, failed: at, tries: 1, backs_off: false };
    }
    if behavior.config_fails {
        return PodStage::ConfigMissing { since: at, lives: None };
    }
    PodStage::Active(Box::new(Lives::start(Habit { pod, behavior }, at)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::Revision;
    use berth_workloads::view::View;
    use serde_json::{Value, json};
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
            completes: true,
        }
    }

    /// A pod of one container, with a readiness probe or without.
    fn pod_of(probed: bool, status: &Value) -> KubeletPod {
        let probe = if probed { json!({}) } else { Value::Null };
        let pod = json!({
            "metadata": {"name": "p", "uid": "u"}, "status": status,
            "spec": {"containers": [{"name": "main", "image": "i", "readinessProbe": probe}]},
        });
        KubeletPod::decode(pod.to_string().as_bytes(), Revision(1)).expect("a pod")
    }

    fn pod(probed: bool) -> KubeletPod {
        pod_of(probed, &json!({}))
    }

    fn shown(stage: &PodStage) -> String {
        match stage {
            PodStage::Mounting => "mounting".to_owned(),
            PodStage::Creating { .. } => "creating".to_owned(),
            PodStage::Stuck { failure } => format!("stuck {failure:?}"),
            PodStage::PullFailing { tries, backs_off, .. } => format!("pull failed {tries} backs_off={backs_off}"),
            PodStage::ConfigMissing { .. } => "configuration missing".to_owned(),
            PodStage::Active(lives) => lives.to_string(),
            PodStage::Terminating { .. } => "terminating".to_owned(),
            PodStage::Gone { .. } => "gone".to_owned(),
        }
    }

    /// Follows a pod that is bound at 0; gives `second: stage` at each change until `until`.
    fn life(behavior: &Behavior, probed: bool, until: i64) -> Vec<String> {
        let pod = pod(probed);
        let mut stage = begin(&pod, behavior, at(0));
        let mut seen = vec![format!("0: {}", shown(&stage))];
        while let Some(next_at) = due(&stage).filter(|next| *next <= at(until)) {
            stage = step(&stage, &pod, behavior, next_at).expect("it is due");
            seen.push(format!("{}: {}", next_at.duration_since(at(0)).as_secs_f64(), shown(&stage)));
        }
        seen
    }

    #[test]
    fn a_pod_without_probe_is_ready_as_soon_as_it_runs() {
        assert_eq!(life(&behavior(None, 2), false, 60), ["0: creating", "2: ready"]);
    }

    #[test]
    fn a_probe_passes_later() {
        assert_eq!(life(&behavior(None, 7), true, 60), ["0: creating", "2: runs", "7: ready"]);
    }

    #[test]
    fn each_failure_shows() {
        assert_eq!(life(&behavior(Some(Failure::Pending), 2), false, 60), ["0: stuck Pending"]);
        assert_eq!(life(&behavior(Some(Failure::NeverReady), 2), false, 60), ["0: creating", "2: runs"]);
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
        // A restarted node counts from when it accepted the pod: it is late, and reaches the same stage as a timely one.
        let waits = json!({"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}});
        let pod = pod_of(false, &json!({"startTime": at(0).to_string(), "containerStatuses": [waits]}));
        let mut stage = begin(&pod, &missing, at(40));
        while let Some(next) = step(&stage, &pod, &missing, at(40)) {
            stage = next;
        }
        assert_eq!(shown(&stage), "pull failed 3 backs_off=true");
        // The image or the registry was fixed.
        assert_eq!(shown(&begin(&pod, &behavior(None, 2), at(40))), "creating");
        let corrected = images_changed(&stage, at(40)).expect("it was failing");
        assert_eq!(step(&corrected, &pod, &behavior(None, 2), at(40)).as_ref().map(shown), Some("ready".to_owned()));
    }

    #[test]
    fn a_pod_whose_configuration_is_missing_starts_when_it_is_there() {
        let missing = Behavior { config_fails: true, ..behavior(None, 5) };
        assert_eq!(life(&missing, true, 60), ["0: creating", "2: configuration missing"]);
        let (there, pod) = (behavior(None, 5), pod(true));
        let waits = PodStage::ConfigMissing { since: at(2), lives: None };
        let running = configured(&waits, &pod, &there, at(40)).expect("it waited for that");
        assert_eq!((shown(&running), due(&running)), ("runs".to_owned(), Some(at(43))));
        assert_eq!(configured(&running, &pod, &there, at(41)), None);
    }

    #[test]
    fn a_container_whose_configuration_is_missing_at_its_restart_waits_for_it() {
        let crashing = behavior(Some(Failure::CrashLoopBackOff), 2);
        let missing = Behavior { config_fails: true, ..crashing };
        let pod = pod(false);
        let mut stage = begin(&pod, &crashing, at(0));
        while let Some(next) = step(&stage, &pod, &crashing, at(13)) {
            stage = next;
        }
        assert_eq!(shown(&stage), "backs off, restarts=1, code=1");
        assert_eq!((next_step(&stage, at(14)), next_step(&stage, at(15))), (None, Some(Step::Create)));
        let waits = step(&stage, &pod, &missing, at(15)).expect("it is due");
        assert_eq!((shown(&waits), step(&waits, &pod, &missing, at(99))), ("configuration missing".to_owned(), None));
        let released = configured(&waits, &pod, &crashing, at(100)).expect("it waited for that");
        assert_eq!((shown(&released), due(&released)), ("backs off, restarts=1, code=1".to_owned(), Some(at(100))));
        let restarted = step(&released, &pod, &crashing, at(100)).expect("it is due");
        assert_eq!(shown(&restarted), "ready, restarts=2, code=1");
    }

    #[test]
    fn a_restarted_node_checks_missing_configuration_again() {
        let waits = json!({"name": "main", "state": {"waiting": {"reason": "CreateContainerConfigError"}}});
        let pod = pod_of(false, &json!({"startTime": at(0).to_string(), "containerStatuses": [waits]}));
        assert_eq!(shown(&begin(&pod, &behavior(None, 2), at(40))), "creating");
        let mounts = KubeletPod { mounts_references: true, ..KubeletPod::default() };
        assert_eq!(shown(&begin(&mounts, &behavior(None, 2), at(0))), "mounting");
    }

    #[test]
    fn a_crash_loop_is_ready_for_a_moment_each_time_unless_probed() {
        let crashing = behavior(Some(Failure::CrashLoopBackOff), 2);
        let unprobed = [
            "0: creating",
            "2: ready",
            "3: ended, code=1",
            "3.5: ready, restarts=1, code=1",
            "4.5: ended, restarts=1, code=1",
            "5: backs off, restarts=1, code=1",
            "14.5: ready, restarts=2, code=1",
            "15.5: ended, restarts=2, code=1",
            "16: backs off, restarts=2, code=1",
            "35.5: ready, restarts=3, code=1",
        ];
        assert_eq!(life(&crashing, false, 36), unprobed);
        assert!(life(&crashing, true, 20).iter().all(|line| !line.contains("ready")));
    }

    #[test]
    fn a_late_caller_ends_where_timely_ones_would() {
        let (crashing, pod) = (behavior(Some(Failure::CrashLoopBackOff), 2), pod(false));
        let mut stage = begin(&pod, &crashing, at(0));
        while let Some(next) = step(&stage, &pod, &crashing, at(20)) {
            stage = next;
        }
        assert_eq!(shown(&stage), "backs off, restarts=2, code=1");
        assert_eq!(due(&stage), Some(at(35) + Duration::from_millis(500)));
    }

    #[test]
    fn termination_never_outlasts_the_grace_period() {
        let pod = |deadline| KubeletPod { deletion_deadline: Some(at(deadline)), ..KubeletPod::default() };
        let terminating = |deadline| terminating(&pod(deadline), &behavior(None, 2), None, at(0));
        assert_eq!(terminating(30), PodStage::Terminating { gone_at: at(5), stop: Stop::Gracefully, lives: None });
        assert_eq!(terminating(3), PodStage::Terminating { gone_at: at(3), stop: Stop::ByForce, lives: None });
    }

    #[test]
    fn a_restarted_node_continues_at_the_stage_of_the_status() {
        let begun = |status: &Value| shown(&begin(&pod_of(true, status), &behavior(None, 200), at(100)));
        assert_eq!(begun(&json!({"startTime": at(0).to_string()})), "creating");
        let running = json!({"name": "main", "restartCount": 0, "state": {"running": {"startedAt": at(2).to_string()}}});
        assert_eq!(begun(&json!({"startTime": at(0).to_string(), "containerStatuses": [running]})), "runs");
        let ready = json!([{"type": "Ready", "status": "True"}]);
        assert_eq!(begun(&json!({"startTime": at(0).to_string(), "containerStatuses": [running], "conditions": ready})), "ready");
    }
}
