//! Requests and limits.

use crate::{
    FieldError, Path,
    faults::{Faults, NOT_NEGATIVE},
    names::{check_dns_label, check_qualified_name},
    pod::quantities::{ResourceList, parse, requests_of_containers},
    quantity::Quantity,
    unset::{entries, list},
};
use k8s_openapi::{
    api::core::v1::{PodSpec, ResourceClaim, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity as WireQuantity,
};
use std::collections::{BTreeMap, BTreeSet};

/// What a container can ask for without a domain in front.
const CONTAINER_RESOURCES: &[&str] = &["cpu", "memory", "ephemeral-storage"];
/// Resources that need no domain in front.
const STANDARD_RESOURCES: &[&str] = &[
    "configmaps",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
    "storage",
];
/// Prefix of the memory pages that a node sets aside.
const HUGE_PAGES: &str = "hugepages-";

/// Source: upstream `ValidateContainerResourceRequirements`.
///
/// `claim_names` are those of the pod.
pub(super) fn validate_requirements(resources: Option<&ResourceRequirements>, claim_names: &[&str], path: &Path, faults: &mut Faults) {
    let Some(resources) = resources else { return };
    validate_amounts(resources, validate_container_resource, path, faults);
    validate_claims(list(&resources.claims), claim_names, &path.child("claims"), faults);
}

/// What a pod takes besides its containers: amounts, by the rules of a container's limits.
///
/// Source: upstream `validateOverhead`.
pub fn validate_container_limits(amounts: BTreeMap<String, WireQuantity>, path: &Path, faults: &mut Faults) {
    let limits = ResourceRequirements { limits: Some(amounts), ..ResourceRequirements::default() };
    validate_amounts(&limits, validate_container_resource, path, faults);
}

/// Source: upstream `validateResourceClaimNames`.
fn validate_claims(claims: &[ResourceClaim], claim_names: &[&str], path: &Path, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let path = path.index(index);
        if !faults.set(&path, &claim.name) {
            continue;
        }
        if !seen.insert((&claim.name, &claim.request)) {
            faults
                .duplicate(&path, [Some(&claim.name), claim.request.as_ref()].into_iter().flatten().cloned().collect::<Vec<_>>().join("/"));
        }
        faults.optional_form(&path.child("request"), &claim.request, check_dns_label);
        if !claim_names.contains(&claim.name.as_str()) {
            let known = if claim_names.is_empty() { " which is empty".to_owned() } else { format!(": {}", claim_names.join(", ")) };
            let detail = format!("must be one of the names in pod.spec.resourceClaims{known}");
            faults.add([FieldError { detail, ..FieldError::not_found(&path, claim.name.as_str()) }]);
        }
    }
}

/// The resources of a pod as a whole. Those of its containers are part of them.
///
/// Source: upstream `validatePodResources`.
pub(super) fn validate_whole(spec: &PodSpec, path: &Path, faults: &mut Faults) {
    let Some(whole) = &spec.resources else { return };
    if whole.claims.is_some() {
        faults.forbidden(&path.child("claims"), "claims may not be set for Resources at pod-level");
    }
    validate_amounts(whole, validate_pod_resource, path, faults);
    // `resources: {}` sets no pod-level resources.
    if entries(&whole.limits).chain(entries(&whole.requests)).next().is_none() {
        return;
    }
    for (name, sum) in requests_of_containers(spec).into_iter().filter(|(name, _)| is_of_pod(name)) {
        let request = whole.requests.as_ref().and_then(|requests| requests.get(&name));
        if request.and_then(parse).unwrap_or(Quantity::ZERO) < sum {
            let detail = format!("must be greater than or equal to aggregate container requests of {sum}");
            faults.invalid(&path.child("requests").key(&name), request.map_or("0", |request| &request.0), detail);
        }
    }
    for (index, container) in spec.containers.iter().enumerate() {
        let path = path.child("containers").index(index);
        for (name, own) in container.resources.iter().flat_map(|resources| entries(&resources.limits)) {
            let Some(limit) = whole.limits.as_ref().and_then(|limits| limits.get(name)) else { continue };
            if parse(own) > parse(limit) {
                let detail = format!("must be less than or equal to pod limits of {}", limit.0);
                faults.invalid(&path.key(name).child("limits"), own.0.as_str(), detail);
            }
        }
    }
}

/// Names and amounts of what may be used, and of what is asked for within it.
fn validate_amounts(resources: &ResourceRequirements, check_name: fn(&str, &Path, &mut Faults), path: &Path, faults: &mut Faults) {
    for (name, limit) in entries(&resources.limits) {
        let path = path.child("limits").key(name);
        check_name(name, &path, faults);
        validate_amount(name, limit, &path, faults);
        validate_pages(name, limit, &path, faults);
    }
    for (name, request) in entries(&resources.requests) {
        let request_path = path.child("requests").key(name);
        check_name(name, &request_path, faults);
        validate_amount(name, request, &request_path, faults);
        let limit = resources.limits.as_ref().and_then(|limits| limits.get(name));
        validate_against_limit(name, request, limit, path, faults);
        validate_pages(name, request, &request_path, faults);
    }
    let mut names = [&resources.limits, &resources.requests].into_iter().flatten().flat_map(BTreeMap::keys);
    let is_beside = names.clone().any(|name| matches!(name.as_str(), "cpu" | "memory"));
    if !is_beside && names.any(|name| is_huge_pages(name)) {
        faults.forbidden(path, "HugePages require cpu or memory");
    }
}

/// The name of a resource that a pod as a whole can ask for.
///
/// Source: upstream `validatePodResourceName`.
fn validate_pod_resource(name: &str, path: &Path, faults: &mut Faults) {
    let before = faults.len();
    validate_resource_name(name, path, faults);
    if faults.len() == before && !is_of_pod(name) {
        faults.add([FieldError::not_supported(path, name, &["cpu", HUGE_PAGES, "memory"])]);
    }
}

/// Whether pods as a whole can ask for it.
pub(crate) fn is_of_pod(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_pages(name)
}

/// Huge pages are used as a whole. An amount below zero is one fault only.
fn validate_pages(name: &str, quantity: &WireQuantity, path: &Path, faults: &mut Faults) {
    let Some(page) = name.strip_prefix(HUGE_PAGES) else { return };
    let Some(amount) = parse(quantity).filter(|amount| !amount.is_negative()) else { return };
    let page = page.parse::<Quantity>().ok().filter(|page| page.is_integer()).map_or(0, Quantity::value);
    if page <= 0 || amount.value() % page != 0 {
        faults.invalid(path, quantity.0.as_str(), format!("{} is not positive integer multiple of {name}", quantity.0));
    }
}

/// Whether it is memory in pages that a node sets aside.
pub(crate) fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// A pod's overhead, which upstream checks as limits.
pub(super) fn validate_overhead(overhead: Option<&ResourceList>, path: &Path, faults: &mut Faults) {
    let Some(overhead) = overhead else { return };
    let limits = ResourceRequirements { limits: Some(overhead.clone()), ..ResourceRequirements::default() };
    validate_amounts(&limits, validate_container_resource, path, faults);
}

/// The name of a resource that containers can ask for.
///
/// Source: upstream `validateContainerResourceName`.
pub(crate) fn validate_container_resource(name: &str, path: &Path, faults: &mut Faults) {
    validate_resource_name(name, path, faults);
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    if !name.contains('/') && !CONTAINER_RESOURCES.contains(&name) && !is_huge_pages(name) {
        faults.invalid(path, name, "must be a standard resource for containers");
    } else if !is_native && (name.starts_with("requests.") || !check_qualified_name(&format!("requests.{name}")).is_empty()) {
        faults.invalid(path, name, "doesn't follow extended resource name standard");
    }
}

/// The name of any resource: a well-known one, or one with its domain.
///
/// Source: upstream `validateResourceName`.
pub(crate) fn validate_resource_name(name: &str, path: &Path, faults: &mut Faults) {
    faults.form(path, name, check_qualified_name);
    if !name.contains('/') && !STANDARD_RESOURCES.contains(&name) && !is_huge_pages(name) {
        faults.invalid(path, name, "must be a standard resource type or fully qualified");
    }
}

/// A quantity must be a number, not negative, and whole where the resource cannot be divided.
pub(crate) fn validate_amount(name: &str, quantity: &WireQuantity, path: &Path, faults: &mut Faults) {
    let number = match quantity.0.parse::<Quantity>() {
        Ok(number) => number,
        Err(error) => return faults.invalid(path, quantity.0.as_str(), error.to_string()),
    };
    if number.is_negative() {
        faults.invalid(path, quantity.0.as_str(), NOT_NEGATIVE);
    }
    if is_extended(name) && !number.is_integer() {
        faults.invalid(path, quantity.0.as_str(), "must be an integer");
    }
}

fn validate_against_limit(name: &str, request: &WireQuantity, limit: Option<&WireQuantity>, path: &Path, faults: &mut Faults) {
    let whole = !may_be_overcommitted(name);
    let Some(limit) = limit else {
        if whole {
            faults.required(&path.child("limits"), "Limit must be set for non overcommitable resources");
        }
        return;
    };
    let (Some(request_number), Some(limit_number)) = (parse(request), parse(limit)) else { return };
    let path = path.child("requests");
    if whole && request_number != limit_number {
        faults.invalid(&path, request.0.as_str(), format!("must be equal to {name} limit of {}", limit.0));
    } else if request_number > limit_number {
        faults.invalid(&path, request.0.as_str(), format!("must be less than or equal to {name} limit of {}", limit.0));
    }
}

/// Whether containers may together be promised more of it than there is.
pub(crate) fn may_be_overcommitted(name: &str) -> bool {
    !is_extended(name) && !is_huge_pages(name)
}

/// Resources that others than Kubernetes define, such as devices: whole, and never lent twice.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}
