//! The state of a pod for controllers, scheduler and nodes.

use super::quantities::{ResourceList, is_positive, parse};
use crate::unset::list;
use k8s_openapi::{
    api::core::v1::{Pod, PodCondition, PodSpec, ResourceRequirements},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Time},
};

/// Whether the pod's condition `Ready` is `True`. This ignores phase and deletion.
#[must_use]
pub fn is_ready(pod: &Pod) -> bool {
    ready_condition(pod).is_some_and(|condition| condition.status == "True")
}

/// Returns the time since which the pod is ready, or `None` if it is not ready or has no time.
#[must_use]
pub fn ready_since(pod: &Pod) -> Option<&Time> {
    ready_condition(pod).filter(|condition| condition.status == "True")?.last_transition_time.as_ref()
}

fn ready_condition(pod: &Pod) -> Option<&PodCondition> {
    list(&pod.status.as_ref()?.conditions).iter().find(|condition| condition.type_ == "Ready")
}

/// Whether a pod in this phase has terminated and will not run again.
#[must_use]
pub fn is_terminal(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}

/// Returns the quality of service: `Guaranteed`, `Burstable` or `BestEffort`, from CPU and memory of the containers, or
/// of the pod-level resources if there are any. Requires defaults, so that every limit has a request.
#[must_use]
pub fn qos_class(spec: &PodSpec) -> &'static str {
    let whole = spec.resources.as_ref().filter(|resources| resources.requests.is_some() || resources.limits.is_some());
    let parts: Vec<Option<&ResourceRequirements>> = match whole {
        Some(resources) => vec![Some(resources)],
        None => spec.containers.iter().chain(list(&spec.init_containers)).map(|container| container.resources.as_ref()).collect(),
    };
    if parts.iter().all(|part| COMPUTE.iter().all(|name| bounds(*part, name) == (None, None))) {
        "BestEffort"
    } else if parts.iter().all(|part| COMPUTE.iter().all(|name| is_guaranteed(bounds(*part, name)))) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// The resources that determine the quality of service.
const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// Returns request and limit of one resource, each only if it is positive.
fn bounds<'a>(resources: Option<&'a ResourceRequirements>, name: &str) -> (Option<&'a Quantity>, Option<&'a Quantity>) {
    let positive = |list: &'a Option<ResourceList>| list.as_ref()?.get(name).filter(|quantity| is_positive(quantity));
    resources.map_or((None, None), |resources| (positive(&resources.requests), positive(&resources.limits)))
}

fn is_guaranteed(bounds: (Option<&Quantity>, Option<&Quantity>)) -> bool {
    matches!(bounds, (Some(request), Some(limit)) if parse(request) == parse(limit))
}
