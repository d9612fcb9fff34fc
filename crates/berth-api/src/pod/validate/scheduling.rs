//! Where a pod may go: affinity, spread constraints, tolerations.

use crate::{
    FieldError, Path,
    faults::Faults,
    label_selector::validate_label_selector,
    names::{check_dns_label, check_label_key, check_label_value},
    unset::{list, text},
};
use k8s_openapi::{
    api::core::v1::{
        Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, Toleration,
        TopologySpreadConstraint, WeightedPodAffinityTerm,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use std::collections::BTreeSet;

/// What a taint can do.
pub(crate) const TAINT_EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn validate_affinity(affinity: Option<&Affinity>, path: &Path, faults: &mut Faults) {
    let Some(affinity) = affinity else { return };
    if let Some(node) = &affinity.node_affinity {
        validate_node_affinity(node, &path.child("nodeAffinity"), faults);
    }
    if let Some(pods) = &affinity.pod_affinity {
        let (required, preferred) =
            (&pods.required_during_scheduling_ignored_during_execution, &pods.preferred_during_scheduling_ignored_during_execution);
        validate_pod_terms(list(required), list(preferred), &path.child("podAffinity"), faults);
    }
    if let Some(pods) = &affinity.pod_anti_affinity {
        let (required, preferred) =
            (&pods.required_during_scheduling_ignored_during_execution, &pods.preferred_during_scheduling_ignored_during_execution);
        validate_pod_terms(list(required), list(preferred), &path.child("podAntiAffinity"), faults);
    }
}

fn validate_node_affinity(affinity: &NodeAffinity, path: &Path, faults: &mut Faults) {
    if let Some(selector) = &affinity.required_during_scheduling_ignored_during_execution {
        validate_node_selector(selector, &path.child("requiredDuringSchedulingIgnoredDuringExecution"), faults);
    }
    let preferred = list(&affinity.preferred_during_scheduling_ignored_during_execution);
    for (index, term) in preferred.iter().enumerate() {
        let path = path.child("preferredDuringSchedulingIgnoredDuringExecution").index(index);
        validate_weight(term.weight, &path, faults);
        validate_node_term(&term.preference, NodeValues::Texts, &path.child("preference"), faults);
    }
}

/// The nodes that a pod, a volume or a device may be on.
pub fn validate_node_selector(selector: &NodeSelector, path: &Path, faults: &mut Faults) {
    let path = path.child("nodeSelectorTerms");
    if selector.node_selector_terms.is_empty() {
        faults.required(&path, "must have at least one node selector term");
    }
    for (index, term) in selector.node_selector_terms.iter().enumerate() {
        validate_node_term(term, NodeValues::Labels, &path.index(index), faults);
    }
}

/// What the values are that a label of a node is compared with.
#[derive(Clone, Copy)]
enum NodeValues {
    /// Labels.
    Labels,
    /// Any texts, where nodes are only preferred.
    Texts,
}

fn validate_weight(weight: i32, path: &Path, faults: &mut Faults) {
    if !(1..=100).contains(&weight) {
        faults.invalid(&path.child("weight"), weight, "must be in the range 1-100");
    }
}

fn validate_node_term(term: &NodeSelectorTerm, values: NodeValues, path: &Path, faults: &mut Faults) {
    for (index, requirement) in list(&term.match_expressions).iter().enumerate() {
        let path = path.child("matchExpressions").index(index);
        validate_node_requirement(requirement, &path, faults);
        if let NodeValues::Labels = values {
            let labels = list(&requirement.values).iter().enumerate();
            labels.for_each(|(index, label)| faults.form(&path.child("values").index(index), label, check_label_value));
        }
    }
    for (index, requirement) in list(&term.match_fields).iter().enumerate() {
        validate_node_field(requirement, &path.child("matchFields").index(index), faults);
    }
}

fn validate_node_requirement(requirement: &NodeSelectorRequirement, path: &Path, faults: &mut Faults) {
    let count = list(&requirement.values).len();
    match requirement.operator.as_str() {
        "In" | "NotIn" if count == 0 => {
            faults.required(&path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if count > 0 => {
            faults.forbidden(&path.child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if count != 1 => {
            faults.required(&path.child("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => (),
        other => faults.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
    faults.form(&path.child("key"), &requirement.key, check_label_key);
}

/// The only field of a node that can be matched is its name.
fn validate_node_field(requirement: &NodeSelectorRequirement, path: &Path, faults: &mut Faults) {
    match requirement.operator.as_str() {
        "In" | "NotIn" if list(&requirement.values).len() == 1 => (),
        "In" | "NotIn" => {
            faults.required(&path.child("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector");
        }
        other => faults.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
    if requirement.key != "metadata.name" {
        faults.invalid(&path.child("key"), requirement.key.as_str(), "not a valid field selector key");
    }
}

fn validate_pod_terms(required: &[PodAffinityTerm], preferred: &[WeightedPodAffinityTerm], path: &Path, faults: &mut Faults) {
    for (index, term) in required.iter().enumerate() {
        validate_pod_term(term, &path.child("requiredDuringSchedulingIgnoredDuringExecution").index(index), faults);
    }
    for (index, term) in preferred.iter().enumerate() {
        let path = path.child("preferredDuringSchedulingIgnoredDuringExecution").index(index);
        validate_weight(term.weight, &path, faults);
        validate_pod_term(&term.pod_affinity_term, &path.child("podAffinityTerm"), faults);
    }
}

fn validate_pod_term(term: &PodAffinityTerm, path: &Path, faults: &mut Faults) {
    validate_selector(term.label_selector.as_ref(), &path.child("labelSelector"), faults);
    validate_selector(term.namespace_selector.as_ref(), &path.child("namespaceSelector"), faults);
    for name in list(&term.namespaces) {
        faults.form(&path.child("namespace"), name, check_dns_label);
    }
    let path = path.child("topologyKey");
    validate_topology_key(&term.topology_key, &path, faults);
    faults.form(&path, &term.topology_key, check_label_key);
}

fn validate_topology_key(key: &str, path: &Path, faults: &mut Faults) {
    if key.is_empty() {
        faults.required(path, "can not be empty");
    }
}

fn validate_selector(selector: Option<&LabelSelector>, path: &Path, faults: &mut Faults) {
    faults.add(selector.into_iter().flat_map(|selector| validate_label_selector(selector, path)));
}

pub(super) fn validate_spread(constraints: &[TopologySpreadConstraint], path: &Path, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (index, constraint) in constraints.iter().enumerate() {
        let path = path.index(index);
        if constraint.max_skew <= 0 {
            faults.invalid(&path.child("maxSkew"), constraint.max_skew, "must be greater than 0");
        }
        validate_topology_key(&constraint.topology_key, &path.child("topologyKey"), faults);
        let when = constraint.when_unsatisfiable.as_str();
        if !["DoNotSchedule", "ScheduleAnyway"].contains(&when) {
            faults.add([FieldError::not_supported(&path.child("whenUnsatisfiable"), when, &["DoNotSchedule", "ScheduleAnyway"])]);
        }
        if !seen.insert((constraint.topology_key.as_str(), when)) {
            let value = format!("{{{}, {when}}}", constraint.topology_key);
            faults.duplicate(&path.child("{topologyKey, whenUnsatisfiable}"), value);
        }
        validate_min_domains(constraint, &path.child("minDomains"), faults);
        faults.optional_one_of(&path.child("nodeAffinityPolicy"), &constraint.node_affinity_policy, &["Honor", "Ignore"]);
        faults.optional_one_of(&path.child("nodeTaintsPolicy"), &constraint.node_taints_policy, &["Honor", "Ignore"]);
        validate_selector(constraint.label_selector.as_ref(), &path.child("labelSelector"), faults);
    }
}

fn validate_min_domains(constraint: &TopologySpreadConstraint, path: &Path, faults: &mut Faults) {
    let Some(domains) = constraint.min_domains else { return };
    if domains <= 0 {
        faults.invalid(path, domains, "must be greater than 0");
    }
    if constraint.when_unsatisfiable != "DoNotSchedule" {
        let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}", constraint.when_unsatisfiable);
        faults.invalid(path, domains, detail);
    }
}

/// The taints that a pod tolerates.
///
/// Source: upstream `ValidateTolerations`.
pub fn validate_tolerations(tolerations: &[Toleration], path: &Path, faults: &mut Faults) {
    for (index, toleration) in tolerations.iter().enumerate() {
        validate_toleration(toleration, &path.index(index), faults);
    }
}

fn validate_toleration(toleration: &Toleration, path: &Path, faults: &mut Faults) {
    faults.optional_form(&path.child("key"), &toleration.key, check_label_key);
    let operator = text(&toleration.operator);
    let operator_path = path.child("operator");
    if text(&toleration.key).is_empty() && operator != "Exists" {
        let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        faults.invalid(&operator_path, operator, detail);
    }
    if toleration.toleration_seconds.is_some() && text(&toleration.effect) != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        faults.invalid(&path.child("effect"), text(&toleration.effect), detail);
    }
    let value = text(&toleration.value);
    match operator {
        "" | "Equal" => {
            let messages = check_label_value(value);
            if !messages.is_empty() {
                faults.invalid(&operator_path, value, messages.join(";"));
            }
        }
        "Exists" if value.is_empty() => (),
        "Exists" => faults.invalid(&operator_path, value, "value must be empty when `operator` is 'Exists'"),
        // The gate of these operators is off. As upstream, the message still lists them.
        "Lt" | "Gt" => faults.add([FieldError::not_supported(&operator_path, operator, &["Equal", "Exists", "Lt", "Gt"])]),
        other => faults.add([FieldError::not_supported(&operator_path, other, &["Equal", "Exists"])]),
    }
    faults.optional_one_of(&path.child("effect"), &toleration.effect, TAINT_EFFECTS);
}
