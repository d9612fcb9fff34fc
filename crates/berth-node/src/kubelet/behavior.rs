//! What a simulated pod does, as data: the node's defaults, overridden by the pod's annotations.

use super::{images::MissingImages, view::KubeletPod};
use berth_api::simulation::Failure;
use std::time::Duration;

/// The default latencies of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// From being bound to being ready.
    pub start: Duration,
    /// From being deleted to being gone.
    pub stop: Duration,
}

/// What one pod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behavior {
    /// From being bound to its containers running.
    pub runs_after: Duration,
    /// From being bound to being ready; never before it runs.
    pub ready_after: Duration,
    /// From being deleted to being gone.
    pub terminates_after: Duration,
    /// How it fails, if it does.
    pub fails: Option<Failure>,
    /// Whether the pull of one of its images fails.
    pub pull_fails: bool,
    /// Whether the configuration of one of its containers is missing.
    pub config_fails: bool,
}

impl Behavior {
    /// What `pod` does. Without a readiness probe it is ready as soon as it runs, so that `ready-after` then delays the start of its
    /// containers; with one it runs after the node's latency and passes the probe later.
    #[must_use]
    pub fn of(pod: &KubeletPod, latencies: Latencies, missing: &MissingImages) -> Self {
        let ready_after = pod.ready_after.unwrap_or(latencies.start);
        let runs_after = if pod.has_readiness_probe() { latencies.start.min(ready_after) } else { ready_after };
        Self {
            runs_after,
            ready_after,
            terminates_after: pod.terminates_after.unwrap_or(latencies.stop),
            fails: pod.fails,
            pull_fails: missing.fail_some(pod),
            config_fails: false,
        }
    }
}

/// How long a container that crashes runs before it does.
pub(super) const CRASHES_AFTER: Duration = Duration::from_secs(1);

/// How long a pull that has failed is shown as such before the pod waits for the next one.
pub(super) const PULL_ERROR_SHOWN: Duration = Duration::from_millis(500);

/// How long the `restarts`-th restart, or the pull after the `restarts`-th that failed, is held back: 10 s, doubling up to 5 minutes, as a kubelet does.
pub(super) fn back_off(restarts: u32) -> Duration {
    Duration::from_secs(10).saturating_mul(1 << restarts.saturating_sub(1).min(5)).min(Duration::from_secs(300))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_are_held_back_longer_and_longer() {
        assert_eq!([1, 2, 3, 4, 5, 6, 100].map(|restarts| back_off(restarts).as_secs()), [10, 20, 40, 80, 160, 300, 300]);
    }
}
