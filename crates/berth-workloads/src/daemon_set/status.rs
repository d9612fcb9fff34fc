//! The status of a DaemonSet.

use super::{fit::Fit, observe::Observed};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSetStatus;

/// The status that the observed pods make.
///
/// Source: kubernetes `pkg/controller/daemon/daemon_controller.go`, `updateDaemonSetStatus`.
pub(super) fn status(observed: &Observed<'_>, collision_count: Option<i32>) -> DaemonSetStatus {
    let (mut desired, mut scheduled, mut misscheduled, mut ready, mut available, mut updated) = (0, 0, 0, 0, 0, 0);
    for node in observed.nodes.values().filter(|node| node.fit.is_some()) {
        let first = node.pods.first();
        if node.fit != Some(Fit::Runs) {
            misscheduled += i32::from(first.is_some());
            continue;
        }
        desired += 1;
        let Some(pod) = first else { continue };
        scheduled += 1;
        ready += i32::from(pod.ready);
        available += i32::from(observed.is_available(pod));
        updated += i32::from(observed.is_new(pod));
    }
    // Upstream leaves these out when they are 0.
    let unless_0 = |count: i32| (count != 0).then_some(count);
    DaemonSetStatus {
        desired_number_scheduled: desired,
        current_number_scheduled: scheduled,
        number_misscheduled: misscheduled,
        number_ready: ready,
        number_available: unless_0(available),
        number_unavailable: unless_0(desired - available),
        updated_number_scheduled: unless_0(updated),
        observed_generation: Some(observed.set().meta.generation.0),
        collision_count,
        conditions: observed.set().status.conditions.clone(),
    }
}

/// When the next ready pod becomes available.
pub(super) fn next_available_at(observed: &Observed<'_>) -> Option<Timestamp> {
    let pods = observed.nodes.values().flat_map(|node| &node.pods);
    pods.filter_map(|pod| pod.available_at(observed.min_ready_seconds())).filter(|at| observed.state.now < *at).min()
}
