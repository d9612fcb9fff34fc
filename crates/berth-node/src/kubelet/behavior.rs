//! The behavior of a simulated pod, as data: the node's defaults, overridden by the pod's annotations.

use super::{images::MissingImages, view::KubeletPod};
use berth_api::simulation::Failure;
use jiff::Timestamp;
use std::time::Duration;

/// The default latencies of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// The time from binding to readiness.
    pub start: Duration,
    /// The time from deletion to its end.
    pub stop: Duration,
}

/// The behavior of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behavior {
    /// The time from binding until its containers run.
    pub runs_after: Duration,
    /// The time from binding to readiness. Never less than `runs_after`.
    pub ready_after: Duration,
    /// The time from deletion to its end.
    pub terminates_after: Duration,
    /// How it fails, if it does.
    pub fails: Option<Failure>,
    /// Whether the pull of one of its images fails.
    pub pull_fails: bool,
    /// Whether the configuration of one of its containers is missing.
    pub config_fails: bool,
    /// Whether containers that are not always restarted end soon, if no annotation specifies otherwise.
    pub completes: bool,
}

impl Behavior {
    /// The behavior of `pod`. Without a readiness probe it is ready as soon as it runs, so `ready-after` delays the start of its
    /// containers. With a probe, it runs after the node's latency and passes the probe later.
    #[must_use]
    pub fn of(pod: &KubeletPod, latencies: Latencies, missing: &MissingImages) -> Self {
        let annotated = pod.annotated.as_deref();
        let ready_after = annotated.and_then(|annotated| annotated.ready_after).unwrap_or(latencies.start);
        let runs_after = if pod.has_readiness_probe() { latencies.start.min(ready_after) } else { ready_after };
        Self {
            runs_after,
            ready_after,
            terminates_after: annotated.and_then(|annotated| annotated.terminates_after).unwrap_or(latencies.stop),
            fails: pod.fails(),
            pull_fails: missing.fail_some(pod),
            config_fails: false,
            completes: true,
        }
    }
}

/// Adds a duration to a time, up to the latest time. Annotations and statuses, which users write, can contain any duration.
pub(super) fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// How long the status reports a failed pull before the pod waits for the next one.
pub(super) const PULL_ERROR_SHOWN: Duration = Duration::from_millis(500);

/// The `tries`-th backoff of a container or of a pull: 10 s, doubling up to 5 minutes, as a kubelet's.
pub(super) fn back_off(tries: u32) -> Duration {
    Duration::from_secs(10).saturating_mul(1 << tries.saturating_sub(1).min(5)).min(Duration::from_secs(300))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_back_off_is_longer_up_to_a_limit() {
        assert_eq!([1, 2, 3, 4, 5, 6, 100].map(|tries| back_off(tries).as_secs()), [10, 20, 40, 80, 160, 300, 300]);
    }
}
