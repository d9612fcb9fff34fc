//! Validates updates of a pod.

use super::{validate, validate_deletion_cost_update};
use crate::{
    FieldError, Path,
    faults::Faults,
    names::check_qualified_name,
    unset::{list, list_mut, text},
};
use k8s_openapi::api::core::v1::{Affinity, Container, ContainerStatus, NodeSelector, NodeSelectorTerm, Pod, PodSpec, Toleration};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const IMMUTABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
                         `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
                         `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Returns all errors of an update. An unchanged spec is not validated, so that labels and finalizers of old pods can
/// always be changed.
pub(super) fn validate_update(pod: &Pod, old: &Pod) -> Vec<FieldError> {
    let mut faults = Faults::default();
    faults.add(deletion_cost(pod, old));
    let empty = PodSpec::default();
    let (spec, old_spec) = (pod.spec.as_ref().unwrap_or(&empty), old.spec.as_ref().unwrap_or(&empty));
    if spec != old_spec {
        validate::validate_pod_spec(spec, &mut faults);
        validate_change(spec, old_spec, &mut faults);
    }
    faults.into_vec()
}

fn deletion_cost(pod: &Pod, old: &Pod) -> Option<FieldError> {
    validate_deletion_cost_update(pod.metadata.annotations.as_ref(), old.metadata.annotations.as_ref())
}

fn validate_change(spec: &PodSpec, old: &PodSpec, faults: &mut Faults) {
    let path = Path::new("spec");
    let before = faults.len();
    let counts = [
        ("containers", spec.containers.len() == old.containers.len()),
        ("initContainers", list(&spec.init_containers).len() == list(&old.init_containers).len()),
    ];
    for (field, _) in counts.iter().filter(|(_, same)| !same) {
        faults.forbidden(&path.child(field), "pod updates may not add or remove containers");
    }
    validate_deadline(spec.active_deadline_seconds, old.active_deadline_seconds, &path.child("activeDeadlineSeconds"), faults);
    if faults.len() > before {
        return;
    }
    validate_added_tolerations(list(&spec.tolerations), list(&old.tolerations), &path.child("tolerations"), faults);
    let gates: BTreeSet<&str> = list(&old.scheduling_gates).iter().map(|gate| gate.name.as_str()).collect();
    for gate in list(&spec.scheduling_gates).iter().filter(|gate| !gates.contains(gate.name.as_str())) {
        let detail = format!("only deletion is allowed, but found new scheduling gate '{}'", gate.name);
        faults.forbidden(&path.child("schedulingGates"), detail);
    }
    let mut allowed = without_allowed_changes(spec, old);
    if !list(&old.scheduling_gates).is_empty() {
        narrow_gated(&mut allowed, spec, old, faults);
    }
    if allowed != *old {
        faults.forbidden(&path, format!("{IMMUTABLE}\n{}", difference(&allowed, old)));
    }
}

/// The deadline may be set, and shortened.
fn validate_deadline(seconds: Option<i64>, old: Option<i64>, path: &Path, faults: &mut Faults) {
    match (seconds, old) {
        (Some(seconds), Some(old)) if seconds > old => faults.invalid(path, seconds, "must be less than or equal to previous value"),
        (None, Some(_)) => faults.invalid(path, Value::Null, "must not update from a positive integer to nil value"),
        _ => (),
    }
}

/// Each old toleration must remain. Only its duration may change.
fn validate_added_tolerations(tolerations: &[Toleration], old: &[Toleration], path: &Path, faults: &mut Faults) {
    fn but_for_seconds(one: &Toleration) -> [&Option<String>; 4] {
        [&one.key, &one.operator, &one.value, &one.effect]
    }
    let there: BTreeSet<_> = tolerations.iter().map(but_for_seconds).collect();
    if !old.iter().all(|old| there.contains(&but_for_seconds(old))) {
        faults.forbidden(path, "existing toleration can not be modified except its tolerationSeconds");
    }
}

/// Returns the new spec with the old values of all mutable fields.
fn without_allowed_changes(spec: &PodSpec, old: &PodSpec) -> PodSpec {
    let mut same = spec.clone();
    for (container, old) in same.containers.iter_mut().zip(&old.containers) {
        container.image.clone_from(&old.image);
    }
    for (container, old) in list_mut(&mut same.init_containers).iter_mut().zip(list(&old.init_containers)) {
        container.image.clone_from(&old.image);
    }
    same.active_deadline_seconds = old.active_deadline_seconds;
    same.tolerations.clone_from(&old.tolerations);
    same.scheduling_gates.clone_from(&old.scheduling_gates);
    if old.termination_grace_period_seconds.is_some_and(i64::is_negative) && spec.termination_grace_period_seconds == Some(1) {
        same.termination_grace_period_seconds = old.termination_grace_period_seconds;
    }
    same
}

/// The nodes of a pod behind a scheduling gate may be restricted. Such changes are reverted in `allowed`.
fn narrow_gated(allowed: &mut PodSpec, spec: &PodSpec, old: &PodSpec, faults: &mut Faults) {
    let path = Path::new("spec");
    let kept = |(key, value)| spec.node_selector.as_ref().and_then(|selector| selector.get(key)) == Some(value);
    if old.node_selector.iter().flatten().all(kept) {
        allowed.node_selector.clone_from(&old.node_selector);
    } else {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        faults.invalid(&path.child("nodeSelector"), to_value(&spec.node_selector), detail);
        allowed.node_selector.clone_from(&old.node_selector);
    }
    let before = faults.len();
    validate_narrowed(required(spec), required(old), &path, faults);
    if faults.len() == before {
        take_back_node_affinity(&mut allowed.affinity, old.affinity.as_ref());
    }
}

fn required(spec: &PodSpec) -> Option<&NodeSelector> {
    spec.affinity.as_ref()?.node_affinity.as_ref()?.required_during_scheduling_ignored_during_execution.as_ref()
}

/// Terms are alternatives: none may be added or removed. The requirements of one term are combined: more may be added.
fn validate_narrowed(selector: Option<&NodeSelector>, old: Option<&NodeSelector>, path: &Path, faults: &mut Faults) {
    let Some(old) = old else { return };
    let path =
        path.child("affinity").child("nodeAffinity").child("requiredDuringSchedulingIgnoredDuringExecution").child("nodeSelectorTerms");
    let terms = selector.map(|selector| selector.node_selector_terms.as_slice()).unwrap_or_default();
    if terms.len() != old.node_selector_terms.len() {
        faults.invalid(&path, to_value(terms), "no additions/deletions to non-empty NodeSelectorTerms list are allowed");
        return;
    }
    for (index, (term, old)) in terms.iter().zip(&old.node_selector_terms).enumerate() {
        if !is_narrowed(term, old) {
            faults.invalid(&path.index(index), to_value(term), "only additions are allowed (no mutations or deletions)");
        }
    }
}

/// An empty term matches no node and cannot be restricted.
fn is_narrowed(term: &NodeSelectorTerm, old: &NodeSelectorTerm) -> bool {
    let (expressions, old_expressions) = (list(&term.match_expressions), list(&old.match_expressions));
    let (fields, old_fields) = (list(&term.match_fields), list(&old.match_fields));
    if old_expressions.is_empty() && old_fields.is_empty() {
        return expressions.is_empty() && fields.is_empty();
    }
    expressions.starts_with(old_expressions) && fields.starts_with(old_fields)
}

/// Restores the old node affinity, and keeps the rest of the new affinity.
fn take_back_node_affinity(affinity: &mut Option<Affinity>, old: Option<&Affinity>) {
    let old_node = old.and_then(|affinity| affinity.node_affinity.clone());
    let mut mixed = affinity.take().unwrap_or_default();
    mixed.node_affinity = old_node;
    let is_empty = mixed == Affinity::default();
    *affinity = if is_empty && old.is_none() { None } else { Some(mixed) };
}

/// Returns the fields that differ, as JSON, each with its old line first.
fn difference(spec: &PodSpec, old: &PodSpec) -> String {
    let (Value::Object(new), Value::Object(old)) = (to_value(spec), to_value(old)) else { return String::new() };
    let line = |sign, name: &str, value: Option<&Value>| value.map(|value| format!("{sign}  {name}: {value}"));
    let names: BTreeSet<&String> = new.keys().chain(old.keys()).collect();
    let differing = names.into_iter().filter(|name| new.get(*name) != old.get(*name));
    let lines = differing.flat_map(|name| [line('-', name, old.get(name)), line('+', name, new.get(name))]);
    lines.flatten().collect::<Vec<_>>().join("\n")
}

fn to_value(part: impl serde::Serialize) -> Value {
    serde_json::to_value(part).expect("API types have string keys only")
}

/// Returns all errors of a write of the status.
pub(super) fn validate_status_update(pod: &Pod, old: &Pod) -> Vec<FieldError> {
    let mut faults = Faults::default();
    // A write to `/status` can change annotations too.
    faults.add(deletion_cost(pod, old));
    let path = Path::new("status");
    let (Some(status), Some(spec)) = (&pod.status, &pod.spec) else { return faults.into_vec() };
    for (index, condition) in list(&status.conditions).iter().enumerate() {
        faults.form(&path.child("conditions").index(index).child("type"), &condition.type_, check_qualified_name);
    }
    let Some(old) = &old.status else { return faults.into_vec() };
    if text(&status.qos_class) != text(&old.qos_class) {
        faults.invalid(&path.child("qosClass"), text(&status.qos_class), "field is immutable");
    }
    let containers = (list(&status.container_statuses), list(&old.container_statuses));
    validate_transitions(containers, spec, &path.child("containerStatuses"), &mut faults);
    let init_containers = (list(&status.init_container_statuses), list(&old.init_container_statuses));
    validate_transitions(init_containers, spec, &path.child("initContainerStatuses"), &mut faults);
    faults.into_vec()
}

/// A terminated container that will not be restarted cannot run again.
fn validate_transitions((new, old): (&[ContainerStatus], &[ContainerStatus]), spec: &PodSpec, path: &Path, faults: &mut Faults) {
    // A pod may have thousands of containers.
    let runs = |status: &ContainerStatus| status.state.as_ref().is_none_or(|state| state.terminated.is_none());
    let running: BTreeSet<&str> = new.iter().filter(|status| runs(status)).map(|status| status.name.as_str()).collect();
    let of_spec = spec.containers.iter().chain(list(&spec.init_containers)).rev();
    let containers: BTreeMap<&str, &Container> = of_spec.map(|container| (container.name.as_str(), container)).collect();
    for (index, old) in old.iter().enumerate() {
        let Some(ended) = old.state.as_ref().and_then(|state| state.terminated.as_ref()) else { continue };
        let own = containers.get(old.name.as_str()).copied();
        if !may_restart(own, ended.exit_code, spec) && running.contains(old.name.as_str()) {
            faults.forbidden(&path.index(index).child("state"), "may not be transitioned to non-terminated state");
        }
    }
}

fn may_restart(own: Option<&Container>, exit_code: i32, spec: &PodSpec) -> bool {
    let has_rules = own.is_some_and(|container| !list(&container.restart_policy_rules).is_empty());
    let policy = own.and_then(|container| container.restart_policy.as_deref()).or(spec.restart_policy.as_deref());
    match policy {
        Some("Never") => has_rules,
        Some("OnFailure") => has_rules || exit_code != 0,
        _ => true,
    }
}
