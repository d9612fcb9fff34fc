//! How far a rollout is, in kubectl's words, and what it waits for.

use crate::{
    state::{self, Rollout},
    waits::Observed,
};
use berth_api::{FeatureGates, Gate};
use berth_identity::RolloutRevision;
use berth_workloads::{
    Wait,
    cause::{Cause, Causes},
    deployment::annotations,
    rollback::Record,
    stateful_set::Phase,
    view::DeploymentView,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use std::collections::BTreeMap;

/// The status of a workload's rollout at one moment.
#[derive(Debug, PartialEq, Eq)]
pub struct RolloutStatus {
    /// The number of the revision that is rolled out.
    pub revision: Option<RolloutRevision>,
    /// How far it is.
    pub progress: RolloutProgress,
    /// The automatic rollback that has made this revision.
    pub rollback: Option<Record>,
    /// The revision that its controller is about to go back to by itself.
    pub goes_back_to: Option<RolloutRevision>,
    /// Of a StatefulSet's Recreate.
    pub phase: Option<Phase>,
    /// How many pods there are.
    pub replicas: Replicas,
    /// What blocks it, the most important first.
    pub causes: Vec<Cause>,
    /// What is left undone on purpose.
    pub waits: Vec<Wait>,
    /// Of StatefulSets: pods that something keeps from being ready.
    pub unready_pods: Vec<UnreadyPod>,
    /// When the status changes although no object has changed.
    pub requeue_at: Option<Timestamp>,
}

/// A pod that is not ready, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadyPod {
    /// Its name.
    pub name: String,
    /// `ImagePullBackOff`, `Unschedulable`, …
    pub reasons: Vec<String>,
}

/// The status of a Deployment. `observed` and `causes` come from its sets and pods. `gates` are those of the cluster's controllers.
#[must_use]
pub fn of_deployment(deployment: &DeploymentView, observed: Observed, causes: Causes, gates: &FeatureGates) -> RolloutStatus {
    let terminating = deployment.status.terminating_replicas.unwrap_or(observed.terminating);
    let name = &deployment.meta.name;
    let replaced = if describes_rollout(deployment) { terminating } else { terminating.saturating_sub(observed.terminating_newest) };
    let waited_for = if gates.enabled(Gate::DeploymentPodReplacementPolicy) { replaced } else { 0 };
    let (state, message) = match state::of(deployment, waited_for) {
        _ if deployment.meta.deleted.is_some() => (RolloutStage::Waiting, format!("deployment \"{name}\" is being deleted")),
        Rollout::Waiting(pending) => (RolloutStage::Waiting, pending.sentence(name)),
        Rollout::Done => (RolloutStage::Complete, format!("deployment \"{name}\" successfully rolled out")),
        Rollout::Failed(_) => (RolloutStage::Failed, format!("deployment \"{name}\" exceeded its progress deadline")),
    };
    let (waits, causes) = if state == RolloutStage::Complete { (Vec::new(), Causes::default()) } else { (observed.waits, causes) };
    let status = &deployment.status;
    let replicas = Replicas {
        wanted: deployment.spec.replicas.unwrap_or(1),
        total: status.replicas,
        updated: status.updated_replicas,
        available: status.available_replicas,
        terminating: Some(terminating),
    };
    let (revision, progress) = (annotations::revision(&deployment.annotations), RolloutProgress { state, message });
    let rollback = rollback_to(&deployment.annotations, revision, &deployment.spec.template);
    let Causes { list: causes, requeue_at } = causes;
    let goes_back_to = observed.goes_back_to;
    RolloutStatus { revision, progress, rollback, goes_back_to, phase: None, replicas, causes, waits, unready_pods: Vec::new(), requeue_at }
}

/// Whether its condition `Progressing` describes its rollout: not without a deadline, and not while it is paused.
fn describes_rollout(deployment: &DeploymentView) -> bool {
    let mut conditions = deployment.status.conditions.iter().flatten();
    !deployment.spec.paused && conditions.any(|condition| condition.type_ == "Progressing")
}

/// The automatic rollback in a workload's annotations, if it has made this revision.
#[must_use]
pub fn rollback_to(
    annotations: &BTreeMap<String, String>,
    revision: Option<RolloutRevision>,
    template: &PodTemplateSpec,
) -> Option<Record> {
    Record::of(annotations).filter(|record| revision.is_some_and(|revision| record.has_made(revision, template)))
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutProgress {
    /// In a word.
    pub state: RolloutStage,
    /// kubectl's sentence, where it has one.
    pub message: String,
}

/// How far a rollout is, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutStage {
    /// Under way.
    Waiting,
    /// Nothing is left to do.
    Complete,
    /// Its progress deadline is over.
    Failed,
}

/// Pods, by the workload's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// `spec.replicas`. Of a DaemonSet: the number of nodes that should run its pod.
    pub wanted: i32,
    /// `status.replicas`.
    pub total: i32,
    /// Of the newest template.
    pub updated: i32,
    /// `status.availableReplicas`.
    pub available: i32,
    /// Being deleted and still there; not known of a StatefulSet or a DaemonSet whose pods cannot be read.
    pub terminating: Option<i32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_identity::Revision;
    use berth_workloads::view::View;
    use serde_json::{Value, json};

    /// After a scale-down of a Deployment that rolled out before.
    #[test]
    fn pods_that_a_scale_down_deletes_are_no_replaced_ones_without_a_condition_of_completion() {
        let stage = |conditions: Value, paused: bool, terminating_newest| {
            let template = json!({"metadata": {}, "spec": {"containers": []}});
            let spec = json!({"replicas": 1, "podReplacementPolicy": "TerminationComplete", "paused": paused, "selector": {}, "template": template});
            let counts =
                json!({"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "terminatingReplicas": 2, "conditions": conditions});
            let object = json!({"metadata": {"name": "web", "uid": "d"}, "spec": spec, "status": counts});
            let deployment = DeploymentView::decode(object.to_string().as_bytes(), Revision(0)).expect("a Deployment");
            let observed = Observed { terminating: 2, terminating_newest, ..Observed::default() };
            of_deployment(&deployment, observed, Causes::default(), &FeatureGates::default()).progress.state
        };
        let progressing = |reason: &str| json!([{"type": "Progressing", "status": "True", "reason": reason}]);
        assert_eq!(stage(json!([]), false, 2), RolloutStage::Complete, "without a deadline");
        assert_eq!(stage(json!([]), false, 0), RolloutStage::Waiting, "they are of an older template");
        assert_eq!(stage(progressing("DeploymentPaused"), true, 2), RolloutStage::Complete);
        assert_eq!(stage(progressing("NewReplicaSetAvailable"), false, 0), RolloutStage::Complete);
        assert_eq!(stage(progressing("ReplicaSetUpdated"), false, 2), RolloutStage::Waiting, "its controller counts them");
    }
}
