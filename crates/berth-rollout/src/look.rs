//! How far a rollout is, in kubectl's words, and what it waits for.

use crate::{
    state::{self, Rollout},
    waits::Observed,
};
use berth_api::{FeatureGates, Gate};
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

/// One look at a workload.
#[derive(Debug, PartialEq, Eq)]
pub struct Look {
    /// The number of the revision that is rolled out.
    pub revision: Option<i64>,
    /// How far it is.
    pub standing: Standing,
    /// The automatic rollback that has made this revision.
    pub rollback: Option<Record>,
    /// The revision that its controller is about to go back to by itself.
    pub goes_back_to: Option<i64>,
    /// Of a StatefulSet's Recreate.
    pub phase: Option<Phase>,
    /// How many pods there are.
    pub replicas: Replicas,
    /// What stands in the way, most telling first.
    pub causes: Vec<Cause>,
    /// What is left undone on purpose.
    pub waits: Vec<Wait>,
    /// Of StatefulSets: pods that something keeps from being ready.
    pub unready_pods: Vec<UnreadyPod>,
    /// When there will be more to say although nothing has changed.
    pub look_again: Option<Timestamp>,
}

/// A pod that is not ready, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadyPod {
    /// Its name.
    pub name: String,
    /// `ImagePullBackOff`, `Unschedulable`, …
    pub reasons: Vec<String>,
}

/// One look at a Deployment. `observed` and `causes` are what its sets and pods say besides; `gates` those of the cluster's controllers.
#[must_use]
pub fn of_deployment(deployment: &DeploymentView, observed: Observed, causes: Causes, gates: &FeatureGates) -> Look {
    let terminating = deployment.status.terminating_replicas.unwrap_or(observed.terminating);
    let name = &deployment.meta.name;
    let waited_for = if gates.enabled(Gate::DeploymentPodReplacementPolicy) { terminating } else { 0 };
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
    let (revision, standing) = (annotations::revision(&deployment.annotations), Standing { state, message });
    let rollback = rollback_to(&deployment.annotations, revision, &deployment.spec.template);
    let Causes { list: causes, look_again } = causes;
    let goes_back_to = observed.goes_back_to;
    Look { revision, standing, rollback, goes_back_to, phase: None, replicas, causes, waits, unready_pods: Vec::new(), look_again }
}

/// The automatic rollback that a workload's annotations tell of, if it has made this revision.
#[must_use]
pub fn rollback_to(annotations: &BTreeMap<String, String>, revision: Option<i64>, template: &PodTemplateSpec) -> Option<Record> {
    Record::of(annotations).filter(|record| revision.is_some_and(|revision| record.has_made(revision, template)))
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
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
    /// `spec.replicas`.
    pub wanted: i32,
    /// `status.replicas`.
    pub total: i32,
    /// Of the newest template.
    pub updated: i32,
    /// `status.availableReplicas`.
    pub available: i32,
    /// Being deleted and still there; not known of a StatefulSet whose pods cannot be read.
    pub terminating: Option<i32>,
}
