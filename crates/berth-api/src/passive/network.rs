//! Service, Endpoints and EndpointSlice. Who gets which cluster IP is decided where services are created, not here.

use super::IMMUTABLE;
use crate::{
    FeatureGates, FieldError, Kind, Path,
    faults::Faults,
    metadata::validate_labels,
    names::{check_dns_label, check_dns_subdomain, check_qualified_name},
    object::NameRule,
    pod::validate::{check_ip, check_port_name},
    unset::{default_to, drop_zero, list, list_mut, text},
};
use k8s_openapi::{
    api::{
        core::v1::{Endpoints, Service, ServicePort, ServiceSpec, ServiceStatus},
        discovery::v1::EndpointSlice,
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use std::collections::BTreeSet;

/// Cluster IP of a service that has none and whose pods are found one by one.
const HEADLESS: &str = "None";
/// How long a client stays with one pod where its address decides.
const AFFINITY_TIMEOUT_SECONDS: i32 = 10_800;
/// Most addresses of one endpoint.
const ADDRESSES_MAX: usize = 100;
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const TRAFFIC_POLICIES: &[&str] = &["Cluster", "Local"];

impl Kind for Service {
    const NAME_RULE: NameRule = NameRule::Rfc1035Label;
    const HAS_STATUS: bool = true;

    fn set_defaults(&mut self) {
        set_spec_defaults(self.spec.get_or_insert_default());
        self.status.get_or_insert_default().load_balancer.get_or_insert_default();
    }

    fn prepare_create(&mut self, _gates: &FeatureGates) {
        self.status = Some(ServiceStatus { load_balancer: Some(Default::default()), conditions: None });
    }

    /// What was allocated stays, unless the client says otherwise.
    fn prepare_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.status.clone_from(&old.status);
        let spec = self.spec.get_or_insert_default();
        let Some(old) = &old.spec else { return };
        if is_external(spec) || is_external(old) {
            return;
        }
        if text(&spec.cluster_ip).is_empty() && list(&spec.cluster_ips).is_empty() {
            spec.cluster_ip.clone_from(&old.cluster_ip);
            spec.cluster_ips.clone_from(&old.cluster_ips);
        }
        if has_node_ports(spec) {
            keep_node_ports(spec, old);
        }
    }

    fn prepare_status_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.spec.clone_from(&old.spec);
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_service(self.spec.as_ref().unwrap_or(&ServiceSpec::default()), &mut faults);
        faults.into_vec()
    }

    fn validate_update(&self, old: &Self, gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        if let (Some(spec), Some(old)) = (&self.spec, &old.spec) {
            let (ip, old_ip) = (text(&spec.cluster_ip), text(&old.cluster_ip));
            if !is_external(spec) && !is_external(old) && !old_ip.is_empty() && ip != old_ip {
                faults.invalid(&Path::new("spec.clusterIPs").index(0), ip, "may not change once set");
            }
        }
        faults.add(Kind::validate(self, gates));
        faults.into_vec()
    }
}

fn is_external(spec: &ServiceSpec) -> bool {
    text(&spec.type_) == "ExternalName"
}

fn has_node_ports(spec: &ServiceSpec) -> bool {
    matches!(text(&spec.type_), "NodePort" | "LoadBalancer")
}

fn keep_node_ports(spec: &mut ServiceSpec, old: &ServiceSpec) {
    for port in list_mut(&mut spec.ports).iter_mut().filter(|port| port.node_port.is_none_or(|number| number == 0)) {
        let same = list(&old.ports).iter().find(|other| other.port == port.port && other.protocol == port.protocol);
        port.node_port = same.and_then(|other| other.node_port);
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
    if has_node_ports(spec) {
        default_to(&mut spec.external_traffic_policy, "Cluster");
    }
    if text(&spec.type_) == "LoadBalancer" {
        spec.allocate_load_balancer_node_ports.get_or_insert(true);
    }
    drop_zero(&mut spec.selector);
    drop_zero(&mut spec.cluster_ip);
    drop_zero(&mut spec.cluster_ips);
    if is_external(spec) {
        return;
    }
    default_to(&mut spec.internal_traffic_policy, "Cluster");
    if spec.cluster_ip.is_none() {
        spec.cluster_ip = list(&spec.cluster_ips).first().cloned();
    }
    if spec.cluster_ips.is_none() {
        spec.cluster_ips = spec.cluster_ip.clone().map(|ip| vec![ip]);
    }
    let family = if text(&spec.cluster_ip).contains(':') { "IPv6" } else { "IPv4" };
    default_to(&mut spec.ip_families, vec![family.to_owned()]);
    default_to(&mut spec.ip_family_policy, "SingleStack");
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

fn validate_service(spec: &ServiceSpec, faults: &mut Faults) {
    let path = Path::new("spec");
    let is_headless = text(&spec.cluster_ip) == HEADLESS;
    let ports = list(&spec.ports);
    let ports_path = path.child("ports");
    if ports.is_empty() && !is_headless && !is_external(spec) {
        faults.required(&ports_path, "");
    }
    if is_headless && has_node_ports(spec) {
        let detail = format!("may not be set to 'None' for {} services", text(&spec.type_));
        faults.invalid(&path.child("clusterIPs").index(0), HEADLESS, detail);
    }
    if is_external(spec) {
        if !list(&spec.cluster_ips).is_empty() || spec.cluster_ip.is_some() {
            faults.forbidden(&path.child("clusterIPs"), "may not be set for ExternalName services");
        }
        let name = text(&spec.external_name).trim_end_matches('.');
        faults.set_form(&path.child("externalName"), name, check_dns_subdomain);
    }
    validate_ports(ports, &ports_path, faults);
    faults.add(validate_labels(spec.selector.as_ref(), &path.child("selector")));
    faults.one_of(&path.child("sessionAffinity"), text(&spec.session_affinity), &["ClientIP", "None"]);
    validate_ips(spec, is_headless, &path, faults);
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    faults.one_of(&path.child("type"), text(&spec.type_), &types);
    if text(&spec.type_) == "ClusterIP" {
        for (index, _) in ports.iter().enumerate().filter(|(_, port)| port.node_port.is_some_and(|number| number != 0)) {
            faults.forbidden(&ports_path.index(index).child("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
    }
    faults.optional_one_of(&path.child("externalTrafficPolicy"), &spec.external_traffic_policy, TRAFFIC_POLICIES);
    faults.optional_one_of(&path.child("internalTrafficPolicy"), &spec.internal_traffic_policy, TRAFFIC_POLICIES);
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    faults.optional_one_of(&path.child("ipFamilyPolicy"), &spec.ip_family_policy, &policies);
}

fn validate_ips(spec: &ServiceSpec, is_headless: bool, path: &Path, faults: &mut Faults) {
    for (index, ip) in list(&spec.cluster_ips).iter().enumerate().filter(|_| !is_headless) {
        faults.form(&path.child("clusterIPs").index(index), ip, check_ip);
    }
    for (index, ip) in list(&spec.external_ips).iter().enumerate() {
        faults.form(&path.child("externalIPs").index(index), ip, check_ip);
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
        faults.optional_form(&path.child("appProtocol"), &port.app_protocol, check_qualified_name);
        if let Some(number) = port.node_port {
            faults.port(&path.child("nodePort"), number);
        }
        if !sockets.insert((port.port, text(&port.protocol))) {
            faults.duplicate(&path, serde_json::json!({"port": port.port, "protocol": port.protocol}));
        }
    }
}

impl Kind for Endpoints {
    fn set_defaults(&mut self) {
        for port in list_mut(&mut self.subsets).iter_mut().flat_map(|subset| list_mut(&mut subset.ports)) {
            default_to(&mut port.protocol, "TCP");
        }
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        for (index, subset) in list(&self.subsets).iter().enumerate() {
            let path = Path::new("subsets").index(index);
            let addresses = [("addresses", &subset.addresses), ("notReadyAddresses", &subset.not_ready_addresses)];
            if addresses.iter().all(|(_, addresses)| list(addresses).is_empty()) {
                faults.required(&path, "must specify `addresses` or `notReadyAddresses`");
            }
            for (field, addresses) in addresses {
                for (index, address) in list(addresses).iter().enumerate() {
                    faults.form(&path.child(field).index(index).child("ip"), &address.ip, check_ip);
                }
            }
            for (index, port) in list(&subset.ports).iter().enumerate() {
                let path = path.child("ports").index(index);
                match text(&port.name) {
                    "" if list(&subset.ports).len() > 1 => faults.required(&path.child("name"), ""),
                    _ => faults.optional_form(&path.child("name"), &port.name, check_dns_label),
                }
                faults.port(&path.child("port"), port.port);
                faults.one_of(&path.child("protocol"), text(&port.protocol), PROTOCOLS);
            }
        }
        faults.into_vec()
    }
}

impl Kind for EndpointSlice {
    fn set_defaults(&mut self) {
        for port in list_mut(&mut self.ports) {
            port.name.get_or_insert_default();
            default_to(&mut port.protocol, "TCP");
        }
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        faults.one_of(&Path::new("addressType"), &self.address_type, &["FQDN", "IPv4", "IPv6"]);
        for (index, endpoint) in list(&self.endpoints).iter().enumerate() {
            let path = Path::new("endpoints").index(index).child("addresses");
            match endpoint.addresses.len() {
                0 => faults.required(&path, "must contain at least 1 address"),
                count if count > ADDRESSES_MAX => faults.add([FieldError::too_many(&path, count, ADDRESSES_MAX)]),
                _ => validate_addresses(&self.address_type, &endpoint.addresses, &path, &mut faults),
            }
        }
        let mut names = BTreeSet::new();
        for (index, port) in list(&self.ports).iter().enumerate() {
            let path = Path::new("ports").index(index);
            faults.optional_form(&path.child("name"), &port.name, check_dns_label);
            faults.unique(&path.child("name"), text(&port.name), &mut names);
            faults.one_of(&path.child("protocol"), text(&port.protocol), PROTOCOLS);
            if let Some(number) = port.port {
                faults.port(&path.child("port"), number);
            }
        }
        faults.into_vec()
    }

    fn validate_update(&self, old: &Self, gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Kind::validate(self, gates);
        if self.address_type != old.address_type {
            faults.push(FieldError::invalid(&Path::new("addressType"), self.address_type.as_str(), IMMUTABLE));
        }
        faults
    }
}

fn validate_addresses(address_type: &str, addresses: &[String], path: &Path, faults: &mut Faults) {
    let check = if address_type == "FQDN" { check_dns_subdomain } else { check_ip };
    for (index, address) in addresses.iter().enumerate() {
        faults.form(&path.index(index), address, check);
    }
}
