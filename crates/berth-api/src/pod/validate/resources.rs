//! Requests and limits.

use crate::{
    Path,
    faults::{Faults, NOT_NEGATIVE},
    names::check_qualified_name,
    pod::quantities::{ResourceList, parse},
    quantity::Quantity,
    unset::entries,
};
use k8s_openapi::{api::core::v1::ResourceRequirements, apimachinery::pkg::api::resource::Quantity as WireQuantity};

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

pub(super) fn validate_requirements(resources: Option<&ResourceRequirements>, path: &Path, faults: &mut Faults) {
    let Some(resources) = resources else { return };
    validate_list(resources.limits.as_ref(), &path.child("limits"), faults);
    for (name, request) in entries(&resources.requests) {
        validate_entry(name, request, &path.child("requests").key(name), faults);
        let limit = resources.limits.as_ref().and_then(|limits| limits.get(name));
        validate_against_limit(name, request, limit, path, faults);
    }
}

/// Names and amounts of the resources of a container or of a pod's overhead.
pub(super) fn validate_list(list: Option<&ResourceList>, path: &Path, faults: &mut Faults) {
    for (name, quantity) in list.into_iter().flatten() {
        validate_entry(name, quantity, &path.key(name), faults);
    }
}

/// The name and the amount of a resource that containers can ask for.
pub(crate) fn validate_entry(name: &str, quantity: &WireQuantity, path: &Path, faults: &mut Faults) {
    validate_container_resource(name, path, faults);
    validate_amount(name, quantity, path, faults);
}

/// The name of a resource that containers can ask for.
///
/// Source: upstream `validateContainerResourceName`.
pub(crate) fn validate_container_resource(name: &str, path: &Path, faults: &mut Faults) {
    validate_resource_name(name, path, faults);
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    if !name.contains('/') && !CONTAINER_RESOURCES.contains(&name) && !name.starts_with(HUGE_PAGES) {
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
    if !name.contains('/') && !STANDARD_RESOURCES.contains(&name) && !name.starts_with(HUGE_PAGES) {
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
    !is_extended(name) && !name.starts_with(HUGE_PAGES)
}

/// Resources that others than Kubernetes define, such as devices: whole, and never lent twice.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}
