//! Missing and surplus pods, whatever their revision.

use super::{
    changes::Changes,
    fit::Fit,
    observe::{Observed, OnNode},
    rolling,
};
use crate::{
    plan::{EventRecord, Reason, Severity},
    view::{PodPhase, PodView},
};
use berth_identity::{Generation, NodeName};

/// Decides which nodes get a pod, and which pods are deleted, so that each node has the pods that it should have.
///
/// Source: kubernetes `pkg/controller/daemon/daemon_controller.go`, `podsShouldBeOnNode`.
pub(super) fn manage<'a>(observed: &Observed<'a>) -> Changes<'a> {
    let mut changes = Changes::default();
    let surges = 0 < rolling::limits(observed).surge;
    for (&name, node) in &observed.nodes {
        let alive = node.pods.iter().copied().filter(|pod| pod.meta.deleted.is_none());
        match node.fit {
            None => {
                // The scheduler never binds these, and the pod garbage collector leaves them.
                let unbound = alive.filter(|pod| pod.node_name.is_empty());
                changes.delete.extend(unbound.map(|pod| (pod, Reason::NodeGone)));
            }
            Some(Fit::Leaves) => changes.delete.extend(alive.map(|pod| (pod, Reason::NodeDoesNotFit { node: NodeName::shared(name) }))),
            Some(Fit::Runs) if node.pods.is_empty() => changes.create_on.push((name, Reason::PodMissing)),
            Some(fit) => {
                let running = without_finished(observed, &mut changes, name, node);
                match surges {
                    true => prune_surging(observed, &mut changes, (name, fit), &running),
                    false => changes.delete.extend(running.into_iter().skip(1).map(|pod| (pod, Reason::SecondOnNode))),
                }
            }
        }
    }
    changes
}

/// Deletes the finished pods of a node, failed ones with a back-off. Gives the pods that are left and do not terminate.
fn without_finished<'a>(observed: &Observed<'a>, changes: &mut Changes<'a>, name: &str, node: &OnNode<'a>) -> Vec<&'a PodView> {
    let set = observed.set();
    let about = |pod: &PodView| format!("{}/{} on node {name}", pod.meta.namespace, pod.meta.name);
    let mut running = Vec::new();
    for pod in node.pods.iter().copied().filter(|pod| pod.meta.deleted.is_none()) {
        match pod.phase {
            PodPhase::Failed => {
                let generation = observed_generation(observed);
                if let Some(until) = observed.state.failed_pods.kept_until(name, generation, observed.state.now) {
                    changes.requeue(until);
                    continue;
                }
                let message = format!("Found failed daemon pod {}, will try to kill it", about(pod));
                changes.events.push(EventRecord::new(set.reference(), Severity::Warning, "FailedDaemonPod", message));
                changes.delete.push((pod, Reason::PodFailed { node: NodeName::shared(name) }));
            }
            PodPhase::Succeeded => {
                let message = format!("Found succeeded daemon pod {}, will try to delete it", about(pod));
                changes.events.push(EventRecord::new(set.reference(), Severity::Normal, "SucceededDaemonPod", message));
                changes.delete.push((pod, Reason::PodFinished));
            }
            _ => running.push(pod),
        }
    }
    running
}

/// `status.observedGeneration`.
pub(super) fn observed_generation(observed: &Observed<'_>) -> Generation {
    Generation(observed.set().status.observed_generation.unwrap_or(0))
}

/// Keeps two pods on a node only while the old one is ready and the new one is not available.
fn prune_surging<'a>(observed: &Observed<'a>, changes: &mut Changes<'a>, (name, fit): (&'a str, Fit), running: &[&'a PodView]) {
    if running.is_empty() && fit == Fit::Runs {
        changes.create_on.push((name, Reason::PodMissing));
    }
    let (new, old): (Vec<&PodView>, Vec<&PodView>) = running.iter().copied().partition(|pod| observed.is_new(pod));
    let surplus = new.iter().skip(1).chain(old.iter().skip(1));
    changes.delete.extend(surplus.map(|pod| (*pod, Reason::SecondOnNode)));
    if let (Some(new), Some(&old)) = (new.first(), old.first()) {
        if !old.ready {
            changes.delete.push((old, Reason::OutdatedUnavailable));
        } else if observed.is_available(new) {
            changes.delete.push((old, Reason::Surged));
        }
    }
}
