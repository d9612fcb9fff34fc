//! What controllers, scheduler and nodes ask of a pod.

use super::quantities::{ResourceList, is_positive, parse};
use crate::unset::list;
use k8s_openapi::{
    api::core::v1::{Pod, PodCondition, PodSpec, ResourceRequirements},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Time},
};

/// Whether the pod's condition `Ready` is `True`. Neither phase nor deletion is looked at.
#[must_use]
pub fn is_ready(pod: &Pod) -> bool {
    ready_condition(pod).is_some_and(|condition| condition.status == "True")
}

/// Since when the pod is ready; absent if it is not, or if its status does not say.
#[must_use]
pub fn ready_since(pod: &Pod) -> Option<&Time> {
    ready_condition(pod).filter(|condition| condition.status == "True")?.last_transition_time.as_ref()
}

fn ready_condition(pod: &Pod) -> Option<&PodCondition> {
    list(&pod.status.as_ref()?.conditions).iter().find(|condition| condition.type_ == "Ready")
}

/// Whether a pod in this phase has ended and will not run again.
#[must_use]
pub fn is_terminal(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}

/// How a pod is treated when its node runs short: `Guaranteed`, `Burstable` or `BestEffort`, from cpu and memory of its containers (or of the
/// pod as a whole, where it says them). Expects defaults, so that requests stand where only limits were said.
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

/// The resources that the quality of service looks at.
const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// Request and limit of one resource, each only if it is more than nothing.
fn bounds<'a>(resources: Option<&'a ResourceRequirements>, name: &str) -> (Option<&'a Quantity>, Option<&'a Quantity>) {
    let positive = |list: &'a Option<ResourceList>| list.as_ref()?.get(name).filter(|quantity| is_positive(quantity));
    resources.map_or((None, None), |resources| (positive(&resources.requests), positive(&resources.limits)))
}

fn is_guaranteed(bounds: (Option<&Quantity>, Option<&Quantity>)) -> bool {
    matches!(bounds, (Some(request), Some(limit)) if parse(request) == parse(limit))
}
