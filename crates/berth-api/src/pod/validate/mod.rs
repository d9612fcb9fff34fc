//! Validates a pod or a template. The errors have upstream's order.

pub(crate) mod claim;
mod containers;
mod dns;
mod env;
pub(crate) mod names;
mod os;
mod probes;
pub(crate) mod resources;
pub(crate) mod scheduling;
mod security;
pub(crate) mod sources;
mod surroundings;
pub(crate) mod volume_sources;
mod volumes;

use super::deletion_cost;
use crate::{
    FieldError, Path,
    faults::Faults,
    ip::check_ip,
    metadata::{validate_annotations, validate_labels},
    names::{check_dns_label, check_dns_subdomain, check_qualified_name},
    unset::{list, text},
};
use k8s_openapi::api::core::v1::{PersistentVolumeClaimVolumeSource, Pod, PodResourceClaim, PodSpec, PodTemplateSpec, Volume};
use serde_json::json;
use std::{borrow::Cow, collections::BTreeSet};

pub(crate) use names::check_config_key;
pub use names::check_port_name;
pub use resources::validate_container_limits;
pub use scheduling::{validate_node_selector, validate_tolerations};
pub(crate) use volumes::{ISCSI_TOO_LONG, is_iscsi_too_long};

/// Returns all errors of a template. `path` is `spec.template`. Further requirements of a workload, such as matching
/// labels and the restart policy, are checked by the workload.
#[must_use]
pub fn validate_template(template: &PodTemplateSpec, path: &Path) -> Vec<FieldError> {
    validate_template_with_claims(template, path, &[])
}

/// Returns all errors of a template whose pods have an additional volume for each of `claim_names` (StatefulSet).
#[must_use]
pub fn validate_template_with_claims(template: &PodTemplateSpec, path: &Path, claim_names: &[String]) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let metadata = template.metadata.as_ref();
    faults.add(validate_labels(metadata.and_then(|metadata| metadata.labels.as_ref()), &path.child("labels")));
    let annotations = metadata.and_then(|metadata| metadata.annotations.as_ref());
    let annotations_path = path.child("annotations");
    faults.add(validate_annotations(annotations, &annotations_path));
    faults.add(deletion_cost::validate(annotations, &annotations_path));
    let spec_path = path.child("spec");
    let no_spec = PodSpec::default();
    let spec = template.spec.as_ref().unwrap_or(&no_spec);
    validate_spec(spec, &spec_path, claim_names, &mut faults);
    if !list(&spec.ephemeral_containers).is_empty() {
        faults.forbidden(&spec_path.child("ephemeralContainers"), "ephemeral containers not allowed in pod template");
    }
    faults.into_vec()
}

/// Returns all errors of a new pod, except for generic metadata.
pub(super) fn validate_new_pod(pod: &Pod) -> Vec<FieldError> {
    let mut faults = Faults::default();
    faults.add(deletion_cost::validate(pod.metadata.annotations.as_ref(), &Path::new("metadata.annotations")));
    let Some(spec) = &pod.spec else {
        faults.required(&Path::new("spec.containers"), "");
        return faults.into_vec();
    };
    validate_pod_spec(spec, &mut faults);
    if !list(&spec.ephemeral_containers).is_empty() {
        faults.forbidden(&Path::new("spec.ephemeralContainers"), "cannot be set on create");
    }
    faults.into_vec()
}

/// Returns all errors of the spec of a pod: the rules of templates, and those of pods only.
pub(super) fn validate_pod_spec(spec: &PodSpec, faults: &mut Faults) {
    let path = Path::new("spec");
    validate_spec(spec, &path, &[], faults);
    if text(&spec.service_account_name).is_empty() {
        volumes::refuse_tokens(list(&spec.volumes), &path.child("volumes"), faults);
    }
    containers::validate_image_spaces(&spec.containers, &path.child("containers"), faults);
    containers::validate_image_spaces(list(&spec.init_containers), &path.child("initContainers"), faults);
}

fn validate_spec(spec: &PodSpec, path: &Path, claim_names: &[String], faults: &mut Faults) {
    let all_volumes = with_claims(list(&spec.volumes), claim_names);
    let volumes = volumes::validate(&all_volumes, &path.child("volumes"), faults);
    validate_resource_claims(list(&spec.resource_claims), &path.child("resourceClaims"), faults);
    containers::validate_all(spec, path, &volumes, faults);
    resources::validate_whole(spec, &path.child("resources"), faults);
    containers::validate_host_network(spec, &path.child("containers"), faults);
    faults.one_of(&path.child("restartPolicy"), text(&spec.restart_policy), &["Always", "OnFailure", "Never"]);
    let dns_policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    faults.one_of(&path.child("dnsPolicy"), text(&spec.dns_policy), &dns_policies);
    faults.add(validate_labels(spec.node_selector.as_ref(), &path.child("nodeSelector")));
    security::validate_pod(spec, path, faults);
    scheduling::validate_affinity(spec.affinity.as_ref(), &path.child("affinity"), faults);
    dns::validate(spec, &path.child("dnsConfig"), faults);
    validate_gates(spec, path, faults);
    scheduling::validate_spread(list(&spec.topology_spread_constraints), &path.child("topologySpreadConstraints"), faults);
    validate_host_users(spec, path, faults);
    validate_names(spec, path, faults);
    validate_tolerations(list(&spec.tolerations), &path.child("tolerations"), faults);
    validate_host_aliases(spec, &path.child("hostAliases"), faults);
    faults.optional_form(&path.child("priorityClassName"), &spec.priority_class_name, check_dns_subdomain);
    if let Some(name) = &spec.runtime_class_name {
        faults.form(&path.child("runtimeClassName"), name, check_dns_subdomain);
    }
    faults.optional_one_of(&path.child("preemptionPolicy"), &spec.preemption_policy, &["PreemptLowerPriority", "Never"]);
    resources::validate_overhead(spec.overhead.as_ref(), &path.child("overhead"), faults);
    os::validate(spec, path, faults);
}

/// Returns the volumes of a pod with a volume for each claim: those first, then those of the template with other names.
///
/// Source: upstream `ValidatePodTemplateSpecForStatefulSet`.
fn with_claims<'a>(volumes: &'a [Volume], claim_names: &[String]) -> Cow<'a, [Volume]> {
    if claim_names.is_empty() {
        return Cow::Borrowed(volumes);
    }
    let mut seen = BTreeSet::new();
    let volume = |name: &String| {
        let claim = PersistentVolumeClaimVolumeSource { claim_name: name.clone(), read_only: None };
        Volume { name: name.clone(), persistent_volume_claim: Some(claim), ..Volume::default() }
    };
    let mut all: Vec<Volume> = claim_names.iter().filter(|name| seen.insert(name.as_str())).map(volume).collect();
    all.extend(volumes.iter().filter(|volume| !seen.contains(volume.name.as_str())).cloned());
    Cow::Owned(all)
}

/// Source: upstream `validatePodResourceClaims`.
fn validate_resource_claims(claims: &[PodResourceClaim], path: &Path, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let path = path.index(index);
        match claim.name.as_str() {
            "" => faults.required(&path.child("name"), ""),
            name if seen.insert(name) => faults.form(&path.child("name"), name, check_dns_label),
            name => faults.duplicate(&path.child("name"), name),
        }
        let sources =
            [("resourceClaimName", &claim.resource_claim_name), ("resourceClaimTemplateName", &claim.resource_claim_template_name)];
        let problem = match sources.map(|(_, name)| name.is_some()) {
            [true, true] => Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"),
            [false, false] => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            _ => None,
        };
        if let Some(problem) = problem {
            faults.invalid(&path, json!(claim), problem);
        }
        for (field, name) in sources {
            name.iter().for_each(|name| faults.form(&path.child(field), name, check_dns_subdomain));
        }
    }
}

/// A pod with a user namespace must not share namespaces of its node.
///
/// Source: upstream `validateHostUsers`.
fn validate_host_users(spec: &PodSpec, path: &Path, faults: &mut Faults) {
    if spec.host_users != Some(false) {
        return;
    }
    // Upstream spells two of them as in Go.
    let shared = [("hostNetwork", spec.host_network), ("HostPID", spec.host_pid), ("HostIPC", spec.host_ipc)];
    for (field, _) in shared.into_iter().filter(|(_, is_shared)| *is_shared == Some(true)) {
        faults.forbidden(&path.child(field), "when `pod.Spec.HostUsers` is false");
    }
}

fn validate_gates(spec: &PodSpec, path: &Path, faults: &mut Faults) {
    for (index, gate) in list(&spec.readiness_gates).iter().enumerate() {
        faults.form(&path.child("readinessGates").index(index).child("conditionType"), &gate.condition_type, check_qualified_name);
    }
    let mut seen = BTreeSet::new();
    for (index, gate) in list(&spec.scheduling_gates).iter().enumerate() {
        let path = path.child("schedulingGates").index(index);
        faults.form(&path, &gate.name, check_qualified_name);
        faults.unique(&path, &gate.name, &mut seen);
    }
}

fn validate_names(spec: &PodSpec, path: &Path, faults: &mut Faults) {
    faults.optional_form(&path.child("serviceAccountName"), &spec.service_account_name, check_dns_subdomain);
    faults.optional_form(&path.child("nodeName"), &spec.node_name, check_dns_subdomain);
    if let Some(seconds) = spec.active_deadline_seconds {
        faults.within(&path.child("activeDeadlineSeconds"), seconds, (1, i64::from(i32::MAX)));
    }
    faults.optional_form(&path.child("hostname"), &spec.hostname, check_dns_label);
    faults.optional_form(&path.child("subdomain"), &spec.subdomain, check_dns_label);
}

fn validate_host_aliases(spec: &PodSpec, path: &Path, faults: &mut Faults) {
    for (index, alias) in list(&spec.host_aliases).iter().enumerate() {
        faults.form(&path.index(index).child("ip"), &alias.ip, check_ip);
        for (name_index, name) in list(&alias.hostnames).iter().enumerate() {
            faults.form(&path.index(index).child("hostnames").index(name_index), name, check_dns_subdomain);
        }
    }
}
