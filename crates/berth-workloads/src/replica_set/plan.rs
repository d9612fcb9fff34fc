//! One reconcile of one ReplicaSet.

use super::{
    ReplicaSetState,
    rank::{Candidate, DeletionCost, Ranking, Rule, age_ratios},
    status::{is_counted_on, status},
};
use crate::{
    claim,
    counts::PodCounts,
    plan::{Action, EventRecord, Outcome, Plan, Reason, Severity, Stage, Subresource, Urgency, Victims, Wait, merge_patch},
    view::{PodReplacementPolicy, PodView, ReplicaSetView},
};
use berth_api::Gate;
use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use serde_json::json;

/// How many pods one reconcile creates or deletes at most. The rest waits for the next reconcile, so that one set cannot block the others.
pub const BURST_PODS: usize = 500;

/// Longest name of a pod.
const NAME_LENGTH_MAX: usize = 253;

/// Plans one ReplicaSet.
///
/// Adopting and releasing come first and alone, because the counts are only right afterwards. Then missing pods are created or surplus pods
/// are deleted, while the status is written. A set without a valid selector is not reconciled. With the policy TerminationComplete,
/// terminating pods are replaced only after their deletion.
#[must_use]
pub fn plan(state: &ReplicaSetState) -> Plan {
    if state.set.selector.is_none() {
        return Plan::default();
    }
    let claims = claims(state);
    if !claims.is_empty() {
        return Plan { stages: claims, ..Plan::default() };
    }
    let (managed, error) = match manage(state) {
        Ok(managed) => (managed, state.last_error.clone()),
        Err(NoLabels) => (Managed::default(), Some(NoLabels.to_string())),
    };
    let mut managed = managed;
    let action = managed.action.take();
    let status = write_status(state, error.as_deref());
    let actions: Vec<_> = action.into_iter().chain(status).collect();
    let stages = if actions.is_empty() { Vec::new() } else { vec![Stage { actions }] };
    let Managed { wait, deletion_age_ratios, .. } = managed;
    Plan { stages, requeue_at: state.next_available_at, deletion_age_ratios, waits: wait.into_iter().collect(), ..Plan::default() }
}

/// The individual pods that a plan reads. All other pods only count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedPods {
    /// None.
    None,
    /// Those to adopt and to release.
    Adoption,
    /// The active pods, some of which are deleted.
    Victims {
        /// Whether the pods are ranked, which depends on other pods of their nodes. Not needed if all are deleted.
        ranked: bool,
    },
}

/// The individual pods that the plan of this set reads. The controller reads only those into the state. The call costs nothing.
#[must_use]
pub fn wanted_pods(set: &ReplicaSetView, counts: &PodCounts) -> WantedPods {
    if set.selector.is_none() || set.meta.deleted.is_some() {
        return WantedPods::None;
    }
    if 0 < counts.adoptable || 0 < counts.mismatched {
        return WantedPods::Adoption;
    }
    match surplus(set, counts) {
        0 => WantedPods::None,
        surplus => WantedPods::Victims { ranked: surplus < usize::try_from(counts.active).unwrap_or(usize::MAX) },
    }
}

/// How many active pods this reconcile deletes.
fn surplus(set: &ReplicaSetView, counts: &PodCounts) -> usize {
    let surplus = i64::from(counts.active) - i64::from(set.replicas.max(0));
    usize::try_from(surplus.max(0)).unwrap_or(usize::MAX).min(BURST_PODS)
}

/// Adopts matching orphans and releases pods that no longer match. A terminating set does neither.
fn claims(state: &ReplicaSetState) -> Vec<Stage> {
    let set = &state.set;
    if wanted_pods(set, &state.counts) != WantedPods::Adoption {
        return Vec::new();
    }
    let adopt = state.pods.adoptable.iter().map(|pod| claim::adopt(pod.reference(), &pod.meta, owner_reference(state)));
    let release = state.pods.mismatched.iter().map(|pod| claim::release(pod.reference(), &pod.meta, &set.meta.uid));
    claim::stages(set.reference(), adopt.collect(), release.collect())
}

/// The template has no labels, so no selector could match its pods.
#[derive(Debug, PartialEq, Eq)]
struct NoLabels;

impl std::fmt::Display for NoLabels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("unable to create pods, no labels")
    }
}

/// The changes to the number of pods.
#[derive(Default)]
struct Managed {
    action: Option<Action>,
    wait: Option<Wait>,
    deletion_age_ratios: Vec<i64>,
}

/// Creates missing pods or deletes surplus pods.
fn manage(state: &ReplicaSetState) -> Result<Managed, NoLabels> {
    let (wanted, active) = (i64::from(state.set.replicas.max(0)), i64::from(state.counts.active));
    if state.set.meta.deleted.is_some() || wanted == active {
        return Ok(Managed::default());
    }
    if wanted < active {
        return Ok(delete(state, surplus(&state.set, &state.counts)));
    }
    let missing = u32::try_from(wanted - active).unwrap_or(u32::MAX);
    let leaving = if waits_for_deleted(state) { state.counts.all_terminating() } else { 0 };
    let held = missing.min(leaving);
    let wait = (held > 0).then_some(Wait::PodsTerminating { pods: leaving, then_create: held, last: None });
    let count = usize::try_from(missing - held).unwrap_or(usize::MAX).min(BURST_PODS);
    let managed = if count > 0 { create(state, count)? } else { Managed::default() };
    Ok(Managed { wait, ..managed })
}

/// Whether terminating pods count until their deletion, whatever deleted them. An annotation requests it.
fn waits_for_deleted(state: &ReplicaSetState) -> bool {
    let asked = state.set.deleted_pod_policy == PodReplacementPolicy::TerminationComplete;
    asked && state.gates.enabled(Gate::DeploymentPodReplacementPolicy)
}

/// The event that `set` has begun to wait. `None` if such a wait is too short to report.
#[must_use]
pub fn wait_event(set: &ReplicaSetView, wait: &Wait) -> Option<EventRecord> {
    let severity = if wait.is_failure() { Severity::Warning } else { Severity::Normal };
    Some(EventRecord::new(set.reference(), severity, wait.event_reason()?, wait.to_string()))
}

fn create(state: &ReplicaSetState, count: usize) -> Result<Managed, NoLabels> {
    let template = Box::new(pod(state));
    if template.metadata.labels.as_ref().is_none_or(std::collections::BTreeMap::is_empty) {
        return Err(NoLabels);
    }
    let action = Action::CreatePods { template, count, owner: state.set.reference(), reason: replicas(state) };
    Ok(Managed { action: Some(action), ..Managed::default() })
}

/// The pod to create, without its name.
fn pod(state: &ReplicaSetState) -> Pod {
    let set = &state.set;
    let template = set.template.metadata.as_ref();
    // The dash is omitted if there is no room for it. The API server truncates the rest.
    let dash = if set.meta.name.len() < NAME_LENGTH_MAX { "-" } else { "" };
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}{dash}", set.meta.name)),
            namespace: Some(set.meta.namespace.to_string()),
            labels: template.and_then(|metadata| metadata.labels.clone()),
            annotations: template.and_then(|metadata| metadata.annotations.clone()),
            finalizers: template.and_then(|metadata| metadata.finalizers.clone()),
            owner_references: Some(vec![owner_reference(state)]),
            ..ObjectMeta::default()
        },
        spec: set.template.spec.clone(),
        ..Pod::default()
    }
}

fn owner_reference(state: &ReplicaSetState) -> OwnerReference {
    claim::controller_reference(&state.set.kind.kind(), &state.set.meta)
}

fn delete(state: &ReplicaSetState, count: usize) -> Managed {
    let active: Vec<&PodView> = state.pods.active.iter().map(|pod| &**pod).collect();
    let chosen = chosen(state, &active, count);
    let all: Vec<_> = chosen.iter().map(|(_, pod)| *pod).collect();
    // If all pods are deleted, none is ranked, so the ratios would not describe the ranking.
    let deletion_age_ratios = if all.len() < active.len() { age_ratios(&all, &active, state.now) } else { Vec::new() };
    // A status update of the pod must not prevent its deletion: only its identity counts.
    let reference = |(_, pod): &(Rule, &PodView)| pod.reference().in_any_version();
    let alike = chosen.chunk_by(|(one, _), (next, _)| one == next);
    let victims = alike.map(|group| Victims { rule: group[0].0, pods: group.iter().map(reference).collect() }).collect();
    let action = Action::DeletePods { victims, owner: state.set.reference(), reason: replicas(state) };
    Managed { action: Some(action), wait: None, deletion_age_ratios }
}

fn replicas(state: &ReplicaSetState) -> Reason {
    Reason::Replicas { wanted: u32::try_from(state.set.replicas).unwrap_or(0), active: state.counts.active }
}

/// The `count` active pods that are deleted first. If all are deleted, none is ranked.
fn chosen<'a>(state: &ReplicaSetState, active: &[&'a PodView], count: usize) -> Vec<(Rule, &'a PodView)> {
    if active.len() <= count {
        return active.iter().map(|pod| (Rule::AllGo, *pod)).collect();
    }
    let candidates = active.iter().map(|pod| Candidate { pod, related: related_on_node(state, pod) }).collect();
    ranking(state).chosen(candidates, count)
}

fn related_on_node(state: &ReplicaSetState, pod: &PodView) -> u32 {
    state.pods.related_on_node.get(&pod.node_name).copied().unwrap_or(0)
}

fn ranking(state: &ReplicaSetState) -> Ranking {
    let cost = if state.gates.enabled(Gate::PodDeletionCost) { DeletionCost::Counts } else { DeletionCost::Ignored };
    Ranking { now: state.now, cost, min_ready_seconds: state.set.min_ready_seconds }
}

fn write_status(state: &ReplicaSetState, error: Option<&str>) -> Option<Action> {
    let (stored, status) = (&state.set.status, status(state, error));
    let patch = merge_patch(stored, &status)?;
    let urgency = if is_counted_on(stored, &status) { Urgency::Now } else { Urgency::Soon };
    Some(Action::Patch {
        target: state.set.reference(),
        subresource: Some(Subresource::Status),
        patch: json!({"status": patch}),
        urgency,
        reason: Reason::PodsChanged,
        events: Outcome::default(),
    })
}
