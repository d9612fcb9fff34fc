//! The usage of a `ResourceQuota` by objects, and its limits.
//!
//! The API server, which charges a new object before it is created, and the controller, which counts existing ones,
//! share this code. Source: upstream `pkg/quota/v1/evaluator/core` and `admission/plugin/resourcequota`.

use crate::{
    Object,
    pod::{
        is_terminal, qos_class,
        quantities::{ResourceList, amounts, parse},
        total_limits, total_requests,
    },
    quantity::Quantity,
    unset::{list, text},
};
use berth_identity::GroupResource;
use k8s_openapi::{
    api::core::v1::{
        Container, PersistentVolumeClaim, Pod, PodAffinityTerm, PodSpec, ResourceQuota, ScopedResourceSelectorRequirement, Service,
    },
    apimachinery::pkg::api::resource::Quantity as WireQuantity,
};
use std::collections::BTreeMap;

/// Amounts by their names in quotas: `pods`, `requests.cpu`, `count/deployments.apps`.
pub type Amounts = BTreeMap<String, Quantity>;

/// Amounts that each container of a pod must set if a quota limits them.
const MANDATORY: &[&str] = &["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
/// Kinds that quotas count by their plural too, besides kinds with further amounts.
const COUNTED_BY_PLURAL: &[&str] = &["configmaps", "resourcequotas", "secrets"];
/// Resources with separate names for requests and limits.
const COMPUTE: &[&str] = &["cpu", "memory", "ephemeral-storage"];

/// The traits that determine the scoped quotas of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodTraits {
    has_deadline: bool,
    is_best_effort: bool,
    has_affinity_across_namespaces: bool,
    /// Empty if it has none.
    priority_class: String,
}

/// An object from the view of quotas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The amounts that it uses.
    pub amounts: Amounts,
    /// `Some` for pods only. Other objects do not belong to scoped quotas.
    pub traits: Option<PodTraits>,
}

/// Returns the quota name that counts objects of a resource: `count/deployments.apps`, `count/pods`.
#[must_use]
pub fn count_name(resource: &GroupResource) -> String {
    format!("count/{resource}")
}

/// Returns the resource whose objects a quota name counts, or `None` for amounts.
#[must_use]
pub fn counted_resource(name: &str) -> Option<GroupResource> {
    match name.strip_prefix("count/") {
        Some(resource) => Some(GroupResource::parse(resource)),
        None => COUNTED_BY_PLURAL.contains(&name).then(|| GroupResource::new("", name)),
    }
}

/// Returns the usage of an object.
///
/// A finished pod uses only its object count. A terminating pod uses its full amounts until it is deleted. Unlike
/// upstream, that includes the time after its grace period, because it may still run.
#[must_use]
pub fn taken(resource: &GroupResource, object: &dyn Object) -> Taken {
    let mut amounts = Amounts::from([(count_name(resource), Quantity::from_integer(1))]);
    if resource.group.is_empty() && COUNTED_BY_PLURAL.contains(&resource.plural.as_str()) {
        amounts.insert(resource.plural.to_string(), Quantity::from_integer(1));
    }
    let mut traits = None;
    if let Some(pod) = object.downcast_ref::<Pod>() {
        amounts.extend(pod_amounts(pod));
        traits = Some(pod_traits(pod));
    } else if let Some(service) = object.downcast_ref::<Service>() {
        amounts.extend(service_amounts(service));
    } else if let Some(claim) = object.downcast_ref::<PersistentVolumeClaim>() {
        amounts.extend(claim_amounts(claim));
    }
    Taken { amounts, traits }
}

fn pod_amounts(pod: &Pod) -> Amounts {
    let phase = pod.status.as_ref().map_or("", |status| text(&status.phase));
    let Some(spec) = pod.spec.as_ref().filter(|_| !is_terminal(phase)) else { return Amounts::new() };
    let mut found = compute_amounts(&total_requests(spec), &total_limits(spec));
    found.insert("pods".to_owned(), Quantity::from_integer(1));
    found
}

fn compute_amounts(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut found = Amounts::new();
    for (name, amount) in requests {
        if COMPUTE.contains(&name.as_str()) || name.starts_with("hugepages-") {
            found.insert(name.clone(), *amount);
            found.insert(format!("requests.{name}"), *amount);
        } else if is_extended(name) {
            found.insert(format!("requests.{name}"), *amount);
        }
    }
    let bounded = limits.iter().filter(|(name, _)| COMPUTE.contains(&name.as_str()));
    found.extend(bounded.map(|(name, amount)| (format!("limits.{name}"), *amount)));
    found
}

/// Whether it is an extended resource, which Kubernetes itself does not define.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}

fn service_amounts(service: &Service) -> Amounts {
    let spec = service.spec.as_ref();
    let ports = spec.map_or(&[][..], |spec| list(&spec.ports));
    let count = |number: usize| Quantity::from_integer(i64::try_from(number).unwrap_or(i64::MAX));
    let (balancers, node_ports) = match spec.map_or("", |spec| text(&spec.type_)) {
        "NodePort" => (0, ports.len()),
        "LoadBalancer" if spec.and_then(|spec| spec.allocate_load_balancer_node_ports) == Some(false) => {
            (1, ports.iter().filter(|port| port.node_port.is_some_and(|port| port != 0)).count())
        }
        "LoadBalancer" => (1, ports.len()),
        _ => (0, 0),
    };
    [("services", 1), ("services.loadbalancers", balancers), ("services.nodeports", node_ports)]
        .map(|(name, number)| (name.to_owned(), count(number)))
        .into()
}

fn claim_amounts(claim: &PersistentVolumeClaim) -> Amounts {
    let spec = claim.spec.as_ref();
    let requests = spec.and_then(|spec| spec.resources.as_ref()).and_then(|resources| resources.requests.as_ref());
    let storage = requests.and_then(|requests| requests.get("storage")).and_then(parse);
    let class = spec.map_or("", |spec| text(&spec.storage_class_name));
    let mut found = Amounts::new();
    let prefixes = [String::new(), format!("{class}.storageclass.storage.k8s.io/")];
    for prefix in prefixes.iter().take(if class.is_empty() { 1 } else { 2 }) {
        found.insert(format!("{prefix}persistentvolumeclaims"), Quantity::from_integer(1));
        found.extend(storage.map(|storage| (format!("{prefix}requests.storage"), storage)));
    }
    found
}

fn pod_traits(pod: &Pod) -> PodTraits {
    let Some(spec) = &pod.spec else { return PodTraits::default() };
    PodTraits {
        has_deadline: spec.active_deadline_seconds.is_some_and(|seconds| seconds >= 0),
        is_best_effort: qos_class(spec) == "BestEffort",
        has_affinity_across_namespaces: affinity_terms(spec)
            .any(|term| term.namespaces.as_ref().is_some_and(|all| !all.is_empty()) || term.namespace_selector.is_some()),
        priority_class: text(&spec.priority_class_name).to_owned(),
    }
}

/// Returns every term that relates the pod to other pods.
fn affinity_terms(spec: &PodSpec) -> impl Iterator<Item = &PodAffinityTerm> {
    let affinity = spec.affinity.as_ref();
    let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let far = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let required = [
        near.map_or(&[][..], |near| list(&near.required_during_scheduling_ignored_during_execution)),
        far.map_or(&[][..], |far| list(&far.required_during_scheduling_ignored_during_execution)),
    ];
    let preferred = [
        near.map_or(&[][..], |near| list(&near.preferred_during_scheduling_ignored_during_execution)),
        far.map_or(&[][..], |far| list(&far.preferred_during_scheduling_ignored_during_execution)),
    ];
    required.into_iter().flatten().chain(preferred.into_iter().flatten().map(|weighted| &weighted.pod_affinity_term))
}

/// Whether objects with these traits match all scopes of the quota.
#[must_use]
pub fn is_in_scope(quota: &ResourceQuota, traits: Option<&PodTraits>) -> bool {
    let Some(spec) = &quota.spec else { return true };
    let selected = spec.scope_selector.as_ref().map_or(&[][..], |selector| list(&selector.match_expressions));
    list(&spec.scopes).iter().all(|scope| traits.is_some_and(|traits| traits.has_scope(scope)))
        && selected.iter().all(|wanted| traits.is_some_and(|traits| traits.satisfy(wanted)))
}

impl PodTraits {
    fn has_scope(&self, scope: &str) -> bool {
        match scope {
            "Terminating" => self.has_deadline,
            "NotTerminating" => !self.has_deadline,
            "BestEffort" => self.is_best_effort,
            "NotBestEffort" => !self.is_best_effort,
            "CrossNamespacePodAffinity" => self.has_affinity_across_namespaces,
            "PriorityClass" => !self.priority_class.is_empty(),
            _ => false,
        }
    }

    fn satisfy(&self, wanted: &ScopedResourceSelectorRequirement) -> bool {
        if wanted.scope_name != "PriorityClass" {
            return self.has_scope(&wanted.scope_name);
        }
        let is_named = !self.priority_class.is_empty() && list(&wanted.values).contains(&self.priority_class);
        match wanted.operator.as_str() {
            "In" => is_named,
            "NotIn" => !is_named,
            "DoesNotExist" => self.priority_class.is_empty(),
            _ => !self.priority_class.is_empty(),
        }
    }
}

/// Why a quota does not admit an object. Printed as what follows `is forbidden: ` in upstream's answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuotaError {
    /// Containers have no amount of what the quota bounds: `limits.cpu for: a,b; requests.cpu for: b`.
    #[error("failed quota: {quota}: must specify {missing}")]
    MissingAmounts {
        /// The quota's name.
        quota: String,
        /// The missing amounts.
        missing: String,
    },
    /// The quota's controller has not counted these resources yet.
    #[error("status unknown for quota: {quota}, resources: {resources}")]
    UnknownStatus {
        /// The quota's name.
        quota: String,
        /// Names, joined by commas.
        resources: String,
    },
    /// The object does not fit.
    #[error("exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}")]
    Exceeded {
        /// The quota's name.
        quota: String,
        /// `pods=1,requests.cpu=2`: what the object requests of the resources that are exceeded.
        requested: String,
        /// What is used of them.
        used: String,
        /// Their bounds.
        limited: String,
    },
}

/// Returns the new usage of the quota after it admits a new object, for each name that the quota limits and the object uses. Empty if the quota
/// does not apply. Only limits in `status.hard` apply, which the controller copies from the spec.
///
/// # Errors
/// [`QuotaError`].
pub fn charge(quota: &ResourceQuota, taken: &Taken, object: &dyn Object) -> Result<Amounts, QuotaError> {
    let status = quota.status.as_ref();
    let Some(hard) = status.and_then(|status| status.hard.as_ref()).filter(|_| is_in_scope(quota, taken.traits.as_ref())) else {
        return Ok(Amounts::new());
    };
    let name = text(&quota.metadata.name);
    if let Some(missing) = object.downcast_ref::<Pod>().and_then(|pod| missing_amounts(pod, hard)) {
        return Err(QuotaError::MissingAmounts { quota: name.to_owned(), missing });
    }
    let used = status.and_then(|status| status.used.as_ref());
    let bounded: Vec<_> = taken.amounts.iter().filter_map(|(name, amount)| Some((name, *amount, parse(hard.get(name)?)?))).collect();
    let known = |name: &String| used.and_then(|used| parse(used.get(name)?));
    let unknown: Vec<&str> = bounded.iter().filter(|(name, ..)| known(name).is_none()).map(|(name, ..)| name.as_str()).collect();
    if !unknown.is_empty() {
        return Err(QuotaError::UnknownStatus { quota: name.to_owned(), resources: unknown.join(",") });
    }
    let after: Amounts = bounded.iter().filter_map(|(name, amount, _)| Some(((*name).clone(), known(name)?.plus(*amount)))).collect();
    let exceeded: Vec<&String> = bounded.iter().filter(|(name, _, hard)| after.get(*name) > Some(hard)).map(|(name, ..)| *name).collect();
    if exceeded.is_empty() {
        return Ok(after);
    }
    let shown = |amount: &dyn Fn(&String) -> Option<Quantity>| {
        let texts = exceeded.iter().filter_map(|name| Some(format!("{name}={}", amount(name)?)));
        texts.collect::<Vec<_>>().join(",")
    };
    let requested = shown(&|name| taken.amounts.get(name).copied());
    let limited = shown(&|name| hard.get(name).and_then(parse));
    Err(QuotaError::Exceeded { quota: name.to_owned(), requested, used: shown(&known), limited })
}

/// Returns the amounts that containers must set because `hard` limits them: `limits.cpu for: a,b; requests.cpu for: b`.
fn missing_amounts(pod: &Pod, hard: &ResourceList) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let of_the_whole = spec.resources.as_ref().is_some_and(|whole| whole.requests.is_some() || whole.limits.is_some());
    let wanted: Vec<&str> = MANDATORY.iter().copied().filter(|name| !of_the_whole && hard.contains_key(*name)).collect();
    let mut missing = BTreeMap::<&str, Vec<&str>>::new();
    for container in spec.containers.iter().chain(list(&spec.init_containers)) {
        let said = container_amounts(container);
        for name in wanted.iter().filter(|name| !said.contains_key(**name)) {
            missing.entry(name).or_default().push(&container.name);
        }
    }
    let sentence = |(name, mut containers): (&str, Vec<&str>)| {
        containers.sort_unstable();
        format!("{name} for: {}", containers.join(","))
    };
    let sentences: Vec<String> = missing.into_iter().map(sentence).collect();
    (!sentences.is_empty()).then(|| sentences.join("; "))
}

fn container_amounts(container: &Container) -> Amounts {
    let resources = container.resources.as_ref();
    let part = |list: Option<&ResourceList>| list.into_iter().flat_map(amounts).collect::<Amounts>();
    let requests = part(resources.and_then(|resources| resources.requests.as_ref()));
    let limits = part(resources.and_then(|resources| resources.limits.as_ref()));
    compute_amounts(&requests, &limits)
}

/// Converts amounts to the wire format.
#[must_use]
pub fn to_wire(amounts: &Amounts) -> BTreeMap<String, WireQuantity> {
    amounts.iter().map(|(name, amount)| (name.clone(), WireQuantity(amount.to_string()))).collect()
}

/// Converts amounts from the wire format. Malformed ones, which validation rejects, are omitted.
#[must_use]
pub fn from_wire(list: Option<&BTreeMap<String, WireQuantity>>) -> Amounts {
    list.into_iter().flat_map(amounts).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::needless_pass_by_value, reason = "tests write their JSON where they send it")]

    use super::*;
    use serde_json::{Value, json};

    fn pod(spec: Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).expect("a pod")
    }

    fn container(name: &str, requests: Value, limits: Value) -> Value {
        json!({"name": name, "image": "i", "resources": {"requests": requests, "limits": limits}})
    }

    fn show(amounts: &Amounts) -> String {
        amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn pods_take_what_their_containers_ask_for_under_every_name() {
        let two = pod(json!({"containers": [
            container("a", json!({"cpu": "100m", "memory": "1Gi", "example.com/gpu": "2"}), json!({"cpu": "1"})),
            container("b", json!({"cpu": "200m", "hugepages-2Mi": "4Mi"}), json!({"memory": "2Gi"})),
        ]}));
        let wanted = "count/pods=1 cpu=300m hugepages-2Mi=4Mi limits.cpu=1 limits.memory=2Gi memory=1Gi pods=1 requests.cpu=300m \
                      requests.example.com/gpu=2 requests.hugepages-2Mi=4Mi requests.memory=1Gi";
        assert_eq!(show(&taken(&GroupResource::from_static("", "pods"), &two).amounts), wanted);
        let mut ended = two;
        ended.status.get_or_insert_default().phase = Some("Succeeded".to_owned());
        assert_eq!(show(&taken(&GroupResource::from_static("", "pods"), &ended).amounts), "count/pods=1");
    }

    #[test]
    fn services_and_claims_take_more_than_their_number() {
        let check = |group: &str, plural: &str, object: &dyn Object, wanted: &str| {
            assert_eq!(show(&taken(&GroupResource::new(group, plural), object).amounts), wanted);
        };
        let service = |spec: Value| serde_json::from_value::<Service>(json!({"spec": spec})).expect("a service");
        let ports = json!([{"port": 80, "nodePort": 30000}, {"port": 81}]);
        let of_type = |kind: &str| service(json!({"type": kind, "ports": ports}));
        check("", "services", &of_type("ClusterIP"), "count/services=1 services=1 services.loadbalancers=0 services.nodeports=0");
        check("", "services", &of_type("NodePort"), "count/services=1 services=1 services.loadbalancers=0 services.nodeports=2");
        check("", "services", &of_type("LoadBalancer"), "count/services=1 services=1 services.loadbalancers=1 services.nodeports=2");
        let claim = json!({"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "5Gi"}}}});
        let claim: PersistentVolumeClaim = serde_json::from_value(claim).expect("a claim");
        check(
            "",
            "persistentvolumeclaims",
            &claim,
            "count/persistentvolumeclaims=1 fast.storageclass.storage.k8s.io/persistentvolumeclaims=1 \
             fast.storageclass.storage.k8s.io/requests.storage=5Gi persistentvolumeclaims=1 requests.storage=5Gi",
        );
        let set: crate::apps::ReplicaSet = serde_json::from_value(json!({"spec": {"selector": {}, "template": {}}})).expect("a set");
        check("apps", "replicasets", &set, "count/replicasets.apps=1");
    }

    #[track_caller]
    fn check_charge(spec: Value, status: Value, pod_spec: Value, wanted: Result<&str, &str>) {
        let quota = json!({"metadata": {"name": "q"}, "spec": spec, "status": status});
        let quota: ResourceQuota = serde_json::from_value(quota).expect("a quota");
        let pod = pod(pod_spec);
        let found = charge(&quota, &taken(&GroupResource::from_static("", "pods"), &pod), &pod).map(|after| show(&after));
        assert_eq!(found.map_err(|error| error.to_string()), wanted.map(str::to_owned).map_err(str::to_owned));
    }

    #[test]
    fn a_quota_allows_what_fits_and_reports_what_does_not() {
        let bare = || json!({"containers": [container("c", json!({}), json!({}))]});
        let asking = || json!({"containers": [container("c", json!({"cpu": "600m"}), json!({}))]});
        check_charge(json!({}), json!({}), bare(), Ok(""));
        check_charge(json!({"hard": {"pods": "2"}}), json!({}), bare(), Ok(""));
        let pods = |used: &str| json!({"hard": {"pods": "2"}, "used": {"pods": used}});
        check_charge(json!({}), pods("1"), bare(), Ok("pods=2"));
        check_charge(json!({}), pods("2"), bare(), Err("exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"));
        check_charge(json!({}), json!({"hard": {"pods": "2"}}), bare(), Err("status unknown for quota: q, resources: pods"));
        let cpu = || json!({"hard": {"cpu": "1", "pods": "5", "limits.memory": "1Gi"}, "used": {"cpu": "500m", "pods": "1", "limits.memory": "0"}});
        check_charge(json!({}), cpu(), bare(), Err("failed quota: q: must specify cpu for: c; limits.memory for: c"));
        check_charge(json!({}), cpu(), asking(), Err("failed quota: q: must specify limits.memory for: c"));
        let cpu = || json!({"hard": {"cpu": "1", "pods": "5"}, "used": {"cpu": "500m", "pods": "1"}});
        check_charge(json!({}), cpu(), asking(), Err("exceeded quota: q, requested: cpu=600m, used: cpu=500m, limited: cpu=1"));
    }

    #[test]
    fn scopes_choose_pods() {
        let full = || json!({"hard": {"pods": "0"}, "used": {"pods": "0"}});
        let check = |scopes: Value, pod: Value, applies: bool| {
            let refusal = "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0";
            check_charge(scopes, full(), pod, if applies { Err(refusal) } else { Ok("") });
        };
        let pod = |extra: Value| {
            let mut spec = json!({"containers": [container("c", json!({}), json!({}))]});
            spec.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
            spec
        };
        check(json!({"scopes": ["Terminating"]}), pod(json!({})), false);
        check(json!({"scopes": ["Terminating"]}), pod(json!({"activeDeadlineSeconds": 1})), true);
        check(json!({"scopes": ["NotTerminating", "BestEffort"]}), pod(json!({})), true);
        check(json!({"scopes": ["NotTerminating", "NotBestEffort"]}), pod(json!({})), false);
        let class = |operator: &str, values: Value| json!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": values}]}});
        let high = || pod(json!({"priorityClassName": "high"}));
        check(class("In", json!(["high"])), high(), true);
        check(class("In", json!(["low"])), high(), false);
        check(class("NotIn", json!(["low"])), high(), true);
        check(class("NotIn", json!(["low"])), pod(json!({})), true);
        check(class("Exists", json!([])), pod(json!({})), false);
        check(class("DoesNotExist", json!([])), pod(json!({})), true);
    }
}
