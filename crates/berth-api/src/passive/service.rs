//! Service. The registry allocates cluster IPs and node ports, not this module.

use super::IMMUTABLE;
use crate::{
    FeatureGates, FieldError, Kind, Path,
    faults::Faults,
    ip::{check_endpoint_ip, check_ip, check_network, family, ip_warning, network_warning},
    metadata::validate_labels,
    names::{check_dns_label, check_dns_subdomain, check_qualified_name},
    object::NameRule,
    pod::validate::check_port_name,
    unset::{default_to, drop_zero, list, list_mut, text},
};
use k8s_openapi::{
    api::core::v1::{LoadBalancerIngress, Service, ServicePort, ServiceSpec, ServiceStatus},
    apimachinery::pkg::util::intstr::IntOrString,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

/// The cluster IP of a headless Service, whose pods are found individually.
const HEADLESS: &str = "None";
/// The default timeout of client affinity.
const AFFINITY_TIMEOUT_SECONDS: i32 = 10_800;
const AFFINITY_TIMEOUT_SECONDS_MAX: i32 = 86_400;
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const TRAFFIC_POLICIES: &[&str] = &["Cluster", "Local"];
const DUAL_STACK: &[&str] = &["PreferDualStack", "RequireDualStack"];
const ONLY_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

impl Kind for Service {
    const NAME_RULE: NameRule = NameRule::Label;
    const HAS_STATUS: bool = true;

    fn set_defaults(&mut self) {
        set_spec_defaults(self.spec.get_or_insert_default());
        let balancer = self.status.get_or_insert_default().load_balancer.get_or_insert_default();
        for ingress in list_mut(&mut balancer.ingress).iter_mut().filter(|ingress| !text(&ingress.ip).is_empty()) {
            default_to(&mut ingress.ip_mode, "VIP");
        }
    }

    fn prepare_create(&mut self, _gates: &FeatureGates) {
        self.status = Some(ServiceStatus { load_balancer: Some(Default::default()), conditions: None });
        fill_addresses(self.spec.get_or_insert_default());
    }

    fn prepare_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.status.clone_from(&old.status);
        let spec = self.spec.get_or_insert_default();
        let Some(old) = &old.spec else { return };
        unify_cluster_ips(spec, old);
        keep_what_was_allocated(spec, old);
        drop_what_the_type_lacks(spec, old);
        // Applied again: a field that the client removed may have a default.
        set_spec_defaults(spec);
        fill_addresses(spec);
        if is_balancer(old) && !is_balancer(spec) {
            self.status.get_or_insert_default().load_balancer = Some(Default::default());
        }
    }

    fn prepare_status_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.spec.clone_from(&old.spec);
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_service(self, &ServiceSpec::default(), &mut faults);
        faults.into_vec()
    }

    fn validate_update(&self, old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let old = old.spec.clone().unwrap_or_default();
        let mut of_addresses = Faults::default();
        if let Some(spec) = self.spec.as_ref().filter(|spec| !is_external(spec)) {
            validate_addresses(spec, &old, &Path::new("spec"), &mut of_addresses);
        }
        if let (Some(spec), 0) = (&self.spec, of_addresses.len()) {
            validate_change(spec, &old, &mut faults);
        }
        validate_service(self, &old, &mut faults);
        faults.into_vec()
    }

    fn validate_status_update(&self, _old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let status = self.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        let ingress = status.map_or(&[][..], |status| list(&status.ingress));
        let path = Path::new("status.loadBalancer.ingress");
        if !ingress.is_empty() && !self.spec.as_ref().is_some_and(is_balancer) {
            faults.forbidden(&path, "may only be used when `spec.type` is 'LoadBalancer'");
            return faults.into_vec();
        }
        ingress.iter().enumerate().for_each(|(index, ingress)| validate_ingress(ingress, &path.index(index), &mut faults));
        faults.into_vec()
    }

    fn warnings(&self, _old: Option<&Self>) -> Vec<String> {
        let spec = self.spec.clone().unwrap_or_default();
        let ignored = |field: &str, when: &str| format!("spec.{field} is ignored when {when}");
        let mut warnings = Vec::new();
        if self.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(OLD_HINTS)) {
            warnings.push(format!("annotation {OLD_HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"));
        }
        if is_headless(&spec) && !is_external(&spec) {
            if !text(&spec.load_balancer_ip).is_empty() {
                warnings.push("spec.loadBalancerIP is ignored for headless services".to_owned());
            }
            if !list(&spec.external_ips).is_empty() {
                warnings.push("spec.externalIPs is ignored for headless services".to_owned());
            }
            if text(&spec.session_affinity) == "ClientIP" {
                warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
            }
        } else if is_external(&spec) && !list(&spec.external_ips).is_empty() {
            warnings.push(ignored("externalIPs", "spec.type is \"ExternalName\""));
        } else if !list(&spec.external_ips).is_empty() {
            warnings.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
        }
        if !is_external(&spec) && spec.external_name.is_some() {
            warnings.push(ignored("externalName", "spec.type is not \"ExternalName\""));
        }
        warnings.extend(address_warnings(&spec));
        if text(&spec.traffic_distribution) == "PreferClose" {
            warnings.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned());
        }
        warnings
    }
}

/// Returns warnings about the forms of addresses.
fn address_warnings(spec: &ServiceSpec) -> Vec<String> {
    let path = Path::new("spec");
    let indexed = |field: &str, texts: &Option<Vec<String>>, warning: fn(&Path, &str) -> Option<String>| {
        let path = path.child(field);
        list(texts).iter().enumerate().filter_map(|(index, text)| warning(&path.index(index), text)).collect::<Vec<_>>()
    };
    let mut warnings = indexed("clusterIPs", &spec.cluster_ips, ip_warning);
    warnings.extend(indexed("externalIPs", &spec.external_ips, ip_warning));
    warnings.extend(ip_warning(&path.child("loadBalancerIP"), text(&spec.load_balancer_ip)));
    warnings.extend(indexed("loadBalancerSourceRanges", &spec.load_balancer_source_ranges, network_warning));
    warnings
}

/// Validates the address of a load balancer.
///
/// Source: upstream `ValidateLoadBalancerStatus`.
fn validate_ingress(ingress: &LoadBalancerIngress, path: &Path, faults: &mut Faults) {
    faults.optional_form(&path.child("ip"), &ingress.ip, check_ip);
    let has_ip = !text(&ingress.ip).is_empty();
    match &ingress.ip_mode {
        None if has_ip => faults.required(&path.child("ipMode"), "must be specified when `ip` is set"),
        Some(_) if !has_ip => faults.forbidden(&path.child("ipMode"), "may not be specified when `ip` is not set"),
        Some(mode) if !["Proxy", "VIP"].contains(&mode.as_str()) => {
            faults.add([FieldError::not_supported(&path.child("ipMode"), mode.as_str(), &["Proxy", "VIP"])]);
        }
        _ => (),
    }
    if let Some(name) = ingress.hostname.as_deref().filter(|name| !name.is_empty()) {
        faults.form(&path.child("hostname"), name, check_dns_subdomain);
        if name.parse::<IpAddr>().is_ok() {
            faults.invalid(&path.child("hostname"), name, "must be a DNS name, not an IP address");
        }
    }
}

/// The deprecated annotation for topology-aware routing.
const OLD_HINTS: &str = "service.kubernetes.io/topology-aware-hints";

fn is_external(spec: &ServiceSpec) -> bool {
    text(&spec.type_) == "ExternalName"
}

fn is_balancer(spec: &ServiceSpec) -> bool {
    text(&spec.type_) == "LoadBalancer"
}

fn is_headless(spec: &ServiceSpec) -> bool {
    text(&spec.cluster_ip) == HEADLESS
}

fn has_node_ports(spec: &ServiceSpec) -> bool {
    matches!(text(&spec.type_), "NodePort" | "LoadBalancer")
}

/// Whether clients outside the cluster can reach it.
fn is_reachable(spec: &ServiceSpec) -> bool {
    has_node_ports(spec) || (text(&spec.type_) == "ClusterIP" && !list(&spec.external_ips).is_empty())
}

/// Whether its load balancer checks the nodes for its pods.
fn has_health_check(spec: &ServiceSpec) -> bool {
    is_balancer(spec) && text(&spec.external_traffic_policy) == "Local"
}

/// Applies a change of only `clusterIP` to the first of `clusterIPs`.
fn unify_cluster_ips(spec: &mut ServiceSpec, old: &ServiceSpec) {
    if text(&spec.cluster_ip) == text(&old.cluster_ip) || spec.cluster_ips != old.cluster_ips {
        return;
    }
    spec.cluster_ips = spec.cluster_ip.clone().map(|ip| vec![ip]);
}

/// Keeps allocated values of fields that a client omits.
fn keep_what_was_allocated(spec: &mut ServiceSpec, old: &ServiceSpec) {
    if !is_external(spec) && !is_external(old) && spec.cluster_ip.is_none() && list(&spec.cluster_ips).is_empty() {
        spec.cluster_ip.clone_from(&old.cluster_ip);
        spec.cluster_ips.clone_from(&old.cluster_ips);
    }
    if has_node_ports(spec) && has_node_ports(old) {
        keep_node_ports(list_mut(&mut spec.ports), list(&old.ports));
    }
    if has_health_check(spec) && has_health_check(old) && spec.health_check_node_port.is_none() {
        spec.health_check_node_port = old.health_check_node_port;
    }
}

/// Ports with the same name are the same port.
fn keep_node_ports(ports: &mut [ServicePort], old: &[ServicePort]) {
    let mut used: BTreeSet<i32> = ports.iter().filter_map(|port| port.node_port).collect();
    // The first of several ports with one name applies.
    let by_name: BTreeMap<&str, &ServicePort> = old.iter().rev().map(|other| (text(&other.name), other)).collect();
    for port in ports.iter_mut().filter(|port| port.node_port.is_none()) {
        let same = by_name.get(text(&port.name));
        port.node_port = same.and_then(|other| other.node_port).filter(|number| used.insert(*number));
    }
}

/// Drops fields of the old type that the client left unchanged.
fn drop_what_the_type_lacks(spec: &mut ServiceSpec, old: &ServiceSpec) {
    if is_external(spec) && !is_external(old) {
        if spec.cluster_ips == old.cluster_ips {
            (spec.cluster_ip, spec.cluster_ips) = (None, None);
        }
        drop_unchanged(&mut spec.ip_families, &old.ip_families);
        drop_unchanged(&mut spec.ip_family_policy, &old.ip_family_policy);
        drop_unchanged(&mut spec.internal_traffic_policy, &old.internal_traffic_policy);
    }
    let numbers = |ports: &Option<Vec<ServicePort>>| list(ports).iter().map(|port| port.node_port).collect::<Vec<_>>();
    if has_node_ports(old) && !has_node_ports(spec) && numbers(&spec.ports) == numbers(&old.ports) {
        list_mut(&mut spec.ports).iter_mut().for_each(|port| port.node_port = None);
    }
    if has_health_check(old) && !has_health_check(spec) {
        drop_unchanged(&mut spec.health_check_node_port, &old.health_check_node_port);
    }
    if is_balancer(old) && !is_balancer(spec) {
        drop_unchanged(&mut spec.allocate_load_balancer_node_ports, &old.allocate_load_balancer_node_ports);
        drop_unchanged(&mut spec.load_balancer_class, &old.load_balancer_class);
    }
    if is_reachable(old) && !is_reachable(spec) {
        drop_unchanged(&mut spec.external_traffic_policy, &old.external_traffic_policy);
    }
}

fn drop_unchanged<T: PartialEq>(new: &mut Option<T>, old: &Option<T>) {
    if new == old {
        *new = None;
    }
}

fn set_spec_defaults(spec: &mut ServiceSpec) {
    default_to(&mut spec.session_affinity, "None");
    if text(&spec.session_affinity) == "ClientIP" {
        let config = spec.session_affinity_config.get_or_insert_default().client_ip.get_or_insert_default();
        config.timeout_seconds.get_or_insert(AFFINITY_TIMEOUT_SECONDS);
    } else {
        spec.session_affinity_config = None;
    }
    default_to(&mut spec.type_, "ClusterIP");
    list_mut(&mut spec.ports).iter_mut().for_each(set_port_defaults);
    drop_zero(&mut spec.selector);
    drop_zero(&mut spec.external_ips);
    drop_zero(&mut spec.cluster_ip);
    drop_zero(&mut spec.cluster_ips);
    drop_zero(&mut spec.ip_families);
    drop_zero(&mut spec.external_name);
    drop_zero(&mut spec.health_check_node_port);
    if is_reachable(spec) {
        default_to(&mut spec.external_traffic_policy, "Cluster");
    }
    if is_balancer(spec) {
        spec.allocate_load_balancer_node_ports.get_or_insert(true);
    }
    if !is_external(spec) {
        default_to(&mut spec.internal_traffic_policy, "Cluster");
    }
}

/// Sets the defaults that the server chooses. No field manager owns them.
fn fill_addresses(spec: &mut ServiceSpec) {
    if is_external(spec) {
        return;
    }
    if spec.cluster_ips.is_none() {
        spec.cluster_ips = spec.cluster_ip.clone().map(|ip| vec![ip]);
    }
    set_family_defaults(spec);
}

/// The default is one family. A headless Service without a selector gets both, because only the client knows its
/// endpoints.
fn set_family_defaults(spec: &mut ServiceSpec) {
    let leads_anywhere = is_headless(spec) && spec.selector.is_none();
    default_to(&mut spec.ip_family_policy, if leads_anywhere { "RequireDualStack" } else { "SingleStack" });
    let first = if text(&spec.cluster_ip).contains(':') { "IPv6" } else { "IPv4" };
    default_to(&mut spec.ip_families, vec![first.to_owned()]);
    if let Some([only]) = spec.ip_families.as_deref().filter(|_| leads_anywhere && DUAL_STACK.contains(&text(&spec.ip_family_policy))) {
        let other = if only == "IPv4" { "IPv6" } else { "IPv4" };
        spec.ip_families.get_or_insert_default().push(other.to_owned());
    }
}

fn set_port_defaults(port: &mut ServicePort) {
    default_to(&mut port.protocol, "TCP");
    drop_zero(&mut port.name);
    drop_zero(&mut port.node_port);
    let is_unset = match &port.target_port {
        None => true,
        Some(IntOrString::Int(number)) => *number == 0,
        Some(IntOrString::String(name)) => name.is_empty(),
    };
    if is_unset {
        port.target_port = Some(IntOrString::Int(port.port));
    }
}

/// Validates fields that are immutable, or change only together with the type.
fn validate_change(spec: &ServiceSpec, old: &ServiceSpec, faults: &mut Faults) {
    let path = Path::new("spec");
    let (ip, old_ip) = (text(&spec.cluster_ip), text(&old.cluster_ip));
    if !is_external(spec) && !is_external(old) && !old_ip.is_empty() && ip != old_ip {
        faults.invalid(&path.child("clusterIPs").index(0), json!(list(&spec.cluster_ips)), "may not change once set");
    }
    if has_health_check(spec) && has_health_check(old) && spec.health_check_node_port != old.health_check_node_port {
        faults.forbidden(&path.child("healthCheckNodePort"), IMMUTABLE);
    }
    if is_balancer(spec) && is_balancer(old) && spec.load_balancer_class != old.load_balancer_class {
        faults.invalid(&path.child("loadBalancerClass"), json!(spec.load_balancer_class), "may not change once set");
    }
}

/// Addresses of `old` may have forms that are invalid for new ones.
fn validate_service(service: &Service, old: &ServiceSpec, faults: &mut Faults) {
    let (path, no_spec) = (Path::new("spec"), ServiceSpec::default());
    let spec = service.spec.as_ref().unwrap_or(&no_spec);
    // Upstream validates addresses before it allocates any. If they are invalid, it reports nothing else.
    if !is_external(spec) {
        let before = faults.len();
        validate_addresses(spec, old, &path, faults);
        if faults.len() > before {
            return;
        }
    }
    let ports = list(&spec.ports);
    let ports_path = path.child("ports");
    if ports.is_empty() && !is_headless(spec) && !is_external(spec) {
        faults.required(&ports_path, "");
    }
    if is_headless(spec) && has_node_ports(spec) {
        let detail = format!("may not be set to 'None' for {} services", text(&spec.type_));
        faults.invalid(&path.child("clusterIPs").index(0), HEADLESS, detail);
    }
    validate_ports(ports, &ports_path, faults);
    faults.add(validate_labels(spec.selector.as_ref(), &path.child("selector")));
    validate_affinity(spec, &path, faults);
    for (index, ip) in list(&spec.external_ips).iter().enumerate() {
        faults.new_form(&path.child("externalIPs").index(index), ip, list(&old.external_ips), check_endpoint_ip);
    }
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    faults.one_of(&path.child("type"), text(&spec.type_), &types);
    if text(&spec.type_) == "ClusterIP" {
        for (index, _) in ports.iter().enumerate().filter(|(_, port)| port.node_port.is_some_and(|number| number != 0)) {
            faults.forbidden(&ports_path.index(index).child("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
    }
    validate_ranges(service, old, faults);
    validate_balancer(spec, &path, faults);
    validate_traffic(spec, &path, faults);
    if is_external(spec) {
        validate_external_name(spec, &path, faults);
    }
}

fn validate_affinity(spec: &ServiceSpec, path: &Path, faults: &mut Faults) {
    faults.one_of(&path.child("sessionAffinity"), text(&spec.session_affinity), &["ClientIP", "None"]);
    let config = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
    let seconds = config.and_then(|config| config.timeout_seconds);
    if let Some(seconds) = seconds.filter(|seconds| !(1..=AFFINITY_TIMEOUT_SECONDS_MAX).contains(seconds)) {
        let path = path.child("sessionAffinityConfig").child("clientIP").child("timeoutSeconds");
        faults.invalid(&path, seconds, format!("must be greater than 0 and less than {AFFINITY_TIMEOUT_SECONDS_MAX}"));
    }
}

/// The annotation that preceded the field for source ranges.
const OLD_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// Validates the source ranges of a load balancer.
fn validate_ranges(service: &Service, old: &ServiceSpec, faults: &mut Faults) {
    let is_balancer = service.spec.as_ref().is_some_and(is_balancer);
    let ranges = service.spec.as_ref().map_or(&[][..], |spec| list(&spec.load_balancer_source_ranges));
    let annotation = service.metadata.annotations.as_ref().and_then(|annotations| annotations.get(OLD_RANGES));
    if !ranges.is_empty() {
        let path = Path::new("spec.LoadBalancerSourceRanges");
        if !is_balancer {
            faults.forbidden(&path, ONLY_BALANCERS);
        }
        for (index, range) in ranges.iter().enumerate() {
            faults.new_form(&path.index(index), range.trim(), list(&old.load_balancer_source_ranges), check_network);
        }
    } else if let Some(ranges) = annotation {
        let path = Path::new("metadata.annotations").key(OLD_RANGES);
        if !is_balancer {
            faults.forbidden(&path, ONLY_BALANCERS);
        }
        if !ranges.trim().is_empty() {
            ranges.split(',').for_each(|range| faults.form(&path, range.trim(), check_network));
        }
    }
}

/// Validates fields that only load balancers have.
fn validate_balancer(spec: &ServiceSpec, path: &Path, faults: &mut Faults) {
    let is_balancer = is_balancer(spec);
    if spec.allocate_load_balancer_node_ports.is_some() && !is_balancer {
        faults.forbidden(&path.child("allocateLoadBalancerNodePorts"), ONLY_BALANCERS);
    }
    if let Some(class) = &spec.load_balancer_class {
        let path = path.child("loadBalancerClass");
        if is_balancer { faults.form(&path, class, check_qualified_name) } else { faults.forbidden(&path, ONLY_BALANCERS) }
    }
}

fn validate_traffic(spec: &ServiceSpec, path: &Path, faults: &mut Faults) {
    let external = path.child("externalTrafficPolicy");
    if spec.external_traffic_policy.is_some() && !is_reachable(spec) {
        let detail = "may only be set for externally-accessible services";
        faults.invalid(&external, text(&spec.external_traffic_policy), detail);
    } else {
        faults.optional_one_of(&external, &spec.external_traffic_policy, TRAFFIC_POLICIES);
    }
    if let Some(number) = spec.health_check_node_port.filter(|number| *number != 0) {
        let path = path.child("healthCheckNodePort");
        if has_health_check(spec) {
            faults.port(&path, number);
        } else {
            let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            faults.invalid(&path, number, detail);
        }
    }
    faults.optional_one_of(&path.child("internalTrafficPolicy"), &spec.internal_traffic_policy, TRAFFIC_POLICIES);
    let distributions = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    faults.optional_one_of(&path.child("trafficDistribution"), &spec.traffic_distribution, &distributions);
}

fn validate_external_name(spec: &ServiceSpec, path: &Path, faults: &mut Faults) {
    let set = [
        ("clusterIPs", spec.cluster_ips.is_some() || spec.cluster_ip.is_some()),
        ("ipFamilies", spec.ip_families.is_some()),
        ("ipFamilyPolicy", spec.ip_family_policy.is_some()),
    ];
    for (field, _) in set.into_iter().filter(|(_, is_set)| *is_set) {
        faults.forbidden(&path.child(field), "may not be set for ExternalName services");
    }
    faults.set_form(&path.child("externalName"), text(&spec.external_name).trim_end_matches('.'), check_dns_subdomain);
}

/// Source: upstream `ValidateServiceClusterIPsRelatedFields`.
fn validate_addresses(spec: &ServiceSpec, old: &ServiceSpec, path: &Path, faults: &mut Faults) {
    let (families, policy) = (list(&spec.ip_families), text(&spec.ip_family_policy));
    let before = faults.len();
    let mut seen = BTreeSet::new();
    for (index, name) in families.iter().enumerate() {
        if !FAMILIES.contains(&name.as_str()) {
            faults.add([FieldError::not_supported(&path.child("ipFamilies").index(index), name.as_str(), FAMILIES)]);
        }
        faults.unique(&path.child("ipFamilies").index(index), name, &mut seen);
    }
    let policy_path = path.child("ipFamilyPolicy");
    faults.optional_one_of(&policy_path, &spec.ip_family_policy, &["PreferDualStack", "RequireDualStack", "SingleStack"]);
    if families.len() > 1 && policy == "SingleStack" && faults.len() == before {
        let detail = "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified";
        faults.invalid(&policy_path, policy, detail);
    }
    validate_cluster_ips(spec, list(&old.cluster_ips), &path.child("clusterIPs"), faults);
}

const FAMILIES: &[&str] = &["IPv4", "IPv6"];
/// The maximum number of addresses of a Service: one per family.
const CLUSTER_IPS_MAX: usize = 2;

fn validate_cluster_ips(spec: &ServiceSpec, old: &[String], path: &Path, faults: &mut Faults) {
    let ips = list(&spec.cluster_ips);
    let whole = || -> Value { json!(ips) };
    match &spec.cluster_ip {
        None if !ips.is_empty() => faults.invalid(path, whole(), "must be empty when `clusterIP` is not specified"),
        Some(first) if ips.first() != Some(first) => faults.invalid(path, whole(), "first value must match `clusterIP`"),
        _ => (),
    }
    let before = faults.len();
    let is_headless = is_headless(spec);
    if is_headless && ips.len() > 1 {
        faults.invalid(path, whole(), "'None' must be the first and only value");
    }
    for (index, ip) in ips.iter().enumerate().skip(usize::from(is_headless)) {
        faults.new_form(&path.index(index), ip, old, check_ip);
    }
    if ips.len() > CLUSTER_IPS_MAX {
        faults.invalid(path, whole(), format!("may only hold up to {CLUSTER_IPS_MAX} values"));
    }
    // Further errors would only repeat those of an address.
    if is_headless || faults.len() > before {
        return;
    }
    let of_ips: Vec<&str> = ips.iter().filter_map(|ip| ip.parse().ok()).map(family).collect();
    if of_ips.iter().collect::<BTreeSet<_>>().len() < of_ips.len() {
        faults.invalid(path, whole(), "may specify no more than one IP for each IP family");
    }
    for (index, (ip, wanted)) in ips.iter().zip(list(&spec.ip_families)).enumerate() {
        let is_other = ip.parse().is_ok_and(|ip| family(ip) != wanted);
        if is_other && FAMILIES.contains(&wanted.as_str()) {
            faults.invalid(&path.index(index), ip.as_str(), format!("expected an {wanted} value as indicated by `ipFamilies[{index}]`"));
        }
    }
}

fn validate_ports(ports: &[ServicePort], path: &Path, faults: &mut Faults) {
    let mut names = BTreeSet::new();
    let mut sockets = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(&port.name);
        if !name.is_empty() {
            faults.form(&path.child("name"), name, check_dns_label);
            faults.unique(&path.child("name"), name, &mut names);
        } else if ports.len() > 1 {
            faults.required(&path.child("name"), "");
        }
        faults.port(&path.child("port"), port.port);
        faults.one_of(&path.child("protocol"), text(&port.protocol), PROTOCOLS);
        match &port.target_port {
            Some(IntOrString::Int(number)) => faults.port(&path.child("targetPort"), *number),
            Some(IntOrString::String(name)) => faults.form(&path.child("targetPort"), name, check_port_name),
            None => (),
        }
        if let Some(protocol) = &port.app_protocol {
            faults.form(&path.child("appProtocol"), protocol, check_qualified_name);
        }
        if !sockets.insert((port.port, text(&port.protocol))) {
            faults.duplicate(&path, json!({"port": port.port, "protocol": port.protocol}));
        }
    }
}
