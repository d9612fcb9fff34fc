//! `LimitRange`s: default requests and limits of containers, and bounds for pods and claims.
//!
//! Source: upstream `plugin/pkg/admission/limitranger`.

use crate::{
    Object,
    pod::quantities::{ResourceList, amounts, limits_of_spec, requests_of_spec},
    quantity::Quantity,
    quota::Amounts,
    unset::list_mut,
};
use k8s_openapi::api::core::v1::{Container, LimitRange, LimitRangeItem, PersistentVolumeClaim, Pod};

/// The annotation of a pod with the defaults from its namespace's limit ranges.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// The item types that apply to pods, containers and claims.
const CONTAINER: &str = "Container";
const POD: &str = "Pod";
const CLAIM: &str = "PersistentVolumeClaim";

/// Sets missing requests and limits of a new pod's containers, and records them in an annotation.
pub fn set_defaults(range: &LimitRange, pod: &mut Pod) {
    let (mut requests, mut limits) = (ResourceList::new(), ResourceList::new());
    for item in items(range, CONTAINER) {
        requests.extend(item.default_request.clone().unwrap_or_default());
        limits.extend(item.default.clone().unwrap_or_default());
    }
    let Some(spec) = &mut pod.spec else { return };
    let mut given = Vec::new();
    for container in &mut spec.containers {
        given.extend(fill(container, "container", &requests, &limits));
    }
    for container in list_mut(&mut spec.init_containers) {
        given.extend(fill(container, "init container", &requests, &limits));
    }
    if !given.is_empty() {
        let text = format!("LimitRanger plugin set: {}", given.join("; "));
        pod.metadata.annotations.get_or_insert_default().insert(ANNOTATION.to_owned(), text);
    }
}

/// Sets missing values of one container. Returns a description of them.
fn fill(container: &mut Container, kind: &str, requests: &ResourceList, limits: &ResourceList) -> Vec<String> {
    let resources = container.resources.get_or_insert_default();
    let added = [("request", add_missing(&mut resources.requests, requests)), ("limit", add_missing(&mut resources.limits, limits))];
    let named = added.into_iter().filter(|(_, names)| !names.is_empty());
    named.map(|(what, names)| format!("{} {what} for {kind} {}", names.join(", "), container.name)).collect()
}

fn add_missing<'a>(list: &mut Option<ResourceList>, defaults: &'a ResourceList) -> Vec<&'a str> {
    let mut added = Vec::new();
    for (name, quantity) in defaults {
        if list.as_ref().is_none_or(|list| !list.contains_key(name)) {
            list.get_or_insert_default().insert(name.clone(), quantity.clone());
            added.push(name.as_str());
        }
    }
    added
}

/// The bounds of a range that an object breaks. Printed as what follows `is forbidden: ` in upstream's answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", listed(.0))]
pub struct OutOfRange(Vec<String>);

/// One fault as it is, several as a list in brackets.
fn listed(faults: &[String]) -> String {
    match faults {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// Checks a pod or a claim against the bounds of the range. Other objects always pass.
///
/// # Errors
/// [`OutOfRange`].
pub fn check(range: &LimitRange, object: &dyn Object) -> Result<(), OutOfRange> {
    let mut faults = if let Some(pod) = object.downcast_ref::<Pod>() {
        pod_faults(range, pod)
    } else if let Some(claim) = object.downcast_ref::<PersistentVolumeClaim>() {
        claim_faults(range, claim)
    } else {
        Vec::new()
    };
    // Identical containers violate a bound with the same message.
    let mut seen = std::collections::BTreeSet::new();
    faults.retain(|fault| seen.insert(fault.clone()));
    if faults.is_empty() { Ok(()) } else { Err(OutOfRange(faults)) }
}

/// The values that are checked against the bounds of an item.
struct Usage {
    requests: Amounts,
    limits: Amounts,
}

impl Usage {
    fn of(container: &Container) -> Self {
        let resources = container.resources.as_ref();
        let amounts_of = |list: Option<&ResourceList>| list.into_iter().flat_map(amounts).collect();
        Self {
            requests: amounts_of(resources.and_then(|resources| resources.requests.as_ref())),
            limits: amounts_of(resources.and_then(|resources| resources.limits.as_ref())),
        }
    }
}

fn pod_faults(range: &LimitRange, pod: &Pod) -> Vec<String> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let mut faults = Vec::new();
    for item in range.spec.iter().flat_map(|spec| &spec.limits) {
        if item.type_ == CONTAINER {
            let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
            containers.for_each(|container| faults.extend(item_faults(item, &Usage::of(container))));
        } else if item.type_ == POD {
            faults.extend(item_faults(item, &Usage { requests: requests_of_spec(spec), limits: limits_of_spec(spec) }));
        }
    }
    faults
}

fn claim_faults(range: &LimitRange, claim: &PersistentVolumeClaim) -> Vec<String> {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let requests: Amounts = resources.and_then(|resources| resources.requests.as_ref()).into_iter().flat_map(amounts).collect();
    let usage = Usage { requests, limits: Amounts::new() };
    let mut faults = Vec::new();
    for item in items(range, CLAIM) {
        faults.extend(bounds(&item.min).filter_map(|(name, min)| too_little(CLAIM, &name, min, &usage)));
        // The user cannot set the limits of a claim.
        faults.extend(bounds(&item.max).filter_map(|(name, max)| too_much_asked(CLAIM, &name, max, &usage)));
    }
    faults
}

fn item_faults(item: &LimitRangeItem, usage: &Usage) -> Vec<String> {
    let kind = item.type_.as_str();
    let mut faults: Vec<String> = bounds(&item.min).filter_map(|(name, min)| too_little(kind, &name, min, usage)).collect();
    faults.extend(bounds(&item.max).filter_map(|(name, max)| too_much(kind, &name, max, usage)));
    faults.extend(bounds(&item.max_limit_request_ratio).filter_map(|(name, max)| too_far_apart(kind, &name, max, usage)));
    faults
}

fn items<'a>(range: &'a LimitRange, kind: &'static str) -> impl Iterator<Item = &'a LimitRangeItem> {
    range.spec.iter().flat_map(|spec| &spec.limits).filter(move |item| item.type_ == kind)
}

fn bounds(list: &Option<ResourceList>) -> impl Iterator<Item = (String, Quantity)> {
    list.iter().flat_map(amounts)
}

fn too_little(kind: &str, name: &str, min: Quantity, usage: &Usage) -> Option<String> {
    let rule = format!("minimum {name} usage per {kind} is {min}");
    match (usage.requests.get(name), usage.limits.get(name)) {
        (None, _) => Some(format!("{rule}.  No request is specified")),
        (Some(request), _) if *request < min => Some(format!("{rule}, but request is {request}")),
        (_, Some(limit)) if *limit < min => Some(format!("{rule}, but limit is {limit}")),
        _ => None,
    }
}

fn too_much(kind: &str, name: &str, max: Quantity, usage: &Usage) -> Option<String> {
    let rule = format!("maximum {name} usage per {kind} is {max}");
    match (usage.requests.get(name), usage.limits.get(name)) {
        (_, None) => Some(format!("{rule}.  No limit is specified")),
        (_, Some(limit)) if *limit > max => Some(format!("{rule}, but limit is {limit}")),
        (Some(request), _) if *request > max => Some(format!("{rule}, but request is {request}")),
        _ => None,
    }
}

fn too_much_asked(kind: &str, name: &str, max: Quantity, usage: &Usage) -> Option<String> {
    let rule = format!("maximum {name} usage per {kind} is {max}");
    match usage.requests.get(name) {
        None => Some(format!("{rule}.  No request is specified")),
        Some(request) if *request > max => Some(format!("{rule}, but request is {request}")),
        Some(_) => None,
    }
}

/// Checks the maximum ratio of limit to request.
fn too_far_apart(kind: &str, name: &str, max: Quantity, usage: &Usage) -> Option<String> {
    let rule = format!("{name} max limit to request ratio per {kind} is {max}");
    let positive = |amounts: &Amounts| amounts.get(name).copied().filter(|amount| !amount.is_zero());
    let Some(request) = positive(&usage.requests) else {
        return Some(format!("{rule}, but no request is specified or request is 0"));
    };
    let Some(limit) = positive(&usage.limits) else {
        return Some(format!("{rule}, but no limit is specified or limit is 0"));
    };
    let ratio = ratio(limit, request);
    (max.nanos() as f64 / 1e9 < ratio).then(|| format!("{rule}, but provided ratio is {ratio:.6}"))
}

/// Returns `whole` / `part`, as precise as its error message needs.
pub(crate) fn ratio(whole: Quantity, part: Quantity) -> f64 {
    whole.nanos() as f64 / part.nanos() as f64
}

#[cfg(test)]
mod tests {
    #![expect(clippy::needless_pass_by_value, reason = "tests write their JSON where they send it")]

    use super::*;
    use crate::check::decoded;
    use serde_json::{Value, json};

    fn range(limits: Value) -> LimitRange {
        decoded(&json!({"metadata": {"name": "l"}, "spec": {"limits": limits}}))
    }

    fn pod(containers: Value, init_containers: Value) -> Pod {
        decoded(&json!({"metadata": {"name": "p"}, "spec": {"containers": containers, "initContainers": init_containers}}))
    }

    fn container(name: &str, requests: Value, limits: Value) -> Value {
        json!({"name": name, "image": "i", "resources": {"requests": requests, "limits": limits}})
    }

    #[test]
    fn containers_get_what_they_do_not_name() {
        let range = range(json!([{"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}}]));
        let mut given = pod(
            json!([container("a", json!({}), json!({})), container("b", json!({"cpu": "1", "memory": "1"}), json!({"cpu": "2"}))]),
            json!([container("i", json!({}), json!({"memory": "2Gi"}))]),
        );
        set_defaults(&range, &mut given);
        let resources = |container: &Container| serde_json::to_value(&container.resources).expect("JSON");
        let spec = given.spec.as_ref().expect("a spec");
        let wanted = json!({"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}});
        assert_eq!(resources(&spec.containers[0]), wanted);
        let wanted = json!({"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}});
        assert_eq!(resources(&spec.containers[1]), wanted);
        let init = spec.init_containers.as_ref().expect("one");
        let wanted = json!({"requests": {"cpu": "100m", "memory": "2Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}});
        assert_eq!(resources(&init[0]), wanted, "a limit alone is also the request");
        let text = "LimitRanger plugin set: cpu, memory request for container a; cpu, memory limit for container a; memory limit for \
                    container b; cpu request for init container i; cpu limit for init container i";
        assert_eq!(given.metadata.annotations.expect("one")[ANNOTATION], text);
    }

    #[test]
    fn a_pod_that_names_everything_is_left_alone() {
        let range = range(json!([{"type": "Container", "default": {"cpu": "1"}}, {"type": "Pod", "max": {"cpu": "4"}}]));
        let mut given = pod(json!([container("a", json!({"cpu": "1"}), json!({"cpu": "1"}))]), json!([]));
        let before = given.clone();
        set_defaults(&range, &mut given);
        assert_eq!(given, before);
    }

    #[track_caller]
    fn check_pod(item: Value, pod: Pod, wanted: &str) {
        assert_eq!(check(&range(json!([item])), &pod).map_or_else(|error| error.to_string(), |()| String::new()), wanted);
    }

    #[test]
    fn containers_keep_to_bounds() {
        let one = |requests: Value, limits: Value| pod(json!([container("a", requests, limits)]), json!([]));
        let min = || json!({"type": "Container", "min": {"cpu": "100m"}});
        check_pod(min(), one(json!({}), json!({})), "minimum cpu usage per Container is 100m.  No request is specified");
        check_pod(min(), one(json!({"cpu": "50m"}), json!({})), "minimum cpu usage per Container is 100m, but request is 50m");
        check_pod(min(), one(json!({"cpu": "100m"}), json!({"cpu": "50m"})), "minimum cpu usage per Container is 100m, but limit is 50m");
        check_pod(min(), one(json!({"cpu": "100m"}), json!({})), "");
        let max = || json!({"type": "Container", "max": {"memory": "1Gi"}});
        check_pod(max(), one(json!({}), json!({})), "maximum memory usage per Container is 1Gi.  No limit is specified");
        check_pod(max(), one(json!({}), json!({"memory": "2Gi"})), "maximum memory usage per Container is 1Gi, but limit is 2Gi");
        let too_much_asked = one(json!({"memory": "2Gi"}), json!({"memory": "1Gi"}));
        check_pod(max(), too_much_asked, "maximum memory usage per Container is 1Gi, but request is 2Gi");
        check_pod(max(), one(json!({}), json!({"memory": "1024Mi"})), "");
        let ratio = || json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}});
        let text = |why: &str| format!("cpu max limit to request ratio per Container is 2, but {why}");
        check_pod(ratio(), one(json!({}), json!({})), &text("no request is specified or request is 0"));
        check_pod(ratio(), one(json!({"cpu": "1"}), json!({"cpu": "0"})), &text("no limit is specified or limit is 0"));
        check_pod(ratio(), one(json!({"cpu": "1"}), json!({"cpu": "2500m"})), &text("provided ratio is 2.500000"));
        check_pod(ratio(), one(json!({"cpu": "1"}), json!({"cpu": "2"})), "");
        let both = json!({"type": "Container", "min": {"cpu": "1"}, "max": {"memory": "1Gi"}});
        let alike = pod(json!([container("a", json!({}), json!({}))]), json!([container("i", json!({}), json!({}))]));
        let wanted = "[minimum cpu usage per Container is 1.  No request is specified, maximum memory usage per Container is 1Gi.  No \
                      limit is specified]";
        check_pod(both, alike, wanted);
    }

    #[test]
    fn pods_keep_to_bounds_with_all_their_containers() {
        let two = || {
            let amounts = || json!({"cpu": "1"});
            pod(json!([container("a", amounts(), amounts()), container("b", amounts(), amounts())]), json!([]))
        };
        let item = |max: &str| json!({"type": "Pod", "max": {"cpu": max}});
        check_pod(item("1500m"), two(), "maximum cpu usage per Pod is 1500m, but limit is 2");
        check_pod(item("2"), two(), "");
        let asking = |name: &str, request: &str, limit: &str| container(name, json!({"cpu": request}), json!({"cpu": limit}));
        let worst = pod(json!([asking("a", "500m", "1")]), json!([asking("i", "1", "3")]));
        check_pod(item("2"), worst, "maximum cpu usage per Pod is 2, but limit is 3");
    }

    #[test]
    fn claims_keep_to_bounds_with_what_they_ask_for() {
        let range = range(json!([{"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}]));
        let claim = |storage: &str| -> PersistentVolumeClaim {
            decoded(&json!({"metadata": {"name": "c"}, "spec": {"resources": {"requests": {"storage": storage}}}}))
        };
        let wrong = |storage: &str| check(&range, &claim(storage)).expect_err("out of bounds").to_string();
        assert_eq!(wrong("500Mi"), "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 500Mi");
        assert_eq!(wrong("3Gi"), "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi");
        assert_eq!(check(&range, &claim("1Gi")), Ok(()));
    }
}
