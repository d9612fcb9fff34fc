//! Ingress, IngressClass and NetworkPolicy. No traffic flows: they are kept for those who wrote them.

use super::IMMUTABLE;
use crate::{
    FeatureGates, FieldError, Kind, Path,
    faults::Faults,
    ip::{Cidr, check_ip, check_network, network_warning},
    label_selector::validate_label_selector,
    names::{check_dns_label, check_dns_subdomain, check_path_segment, check_wildcard},
    object::GenerationRule,
    pod::validate::check_port_name,
    unset::{default_to, list, list_mut, text},
};
use k8s_openapi::{
    api::networking::v1::{
        HTTPIngressPath, IPBlock, Ingress, IngressBackend, IngressClass, IngressClassParametersReference, IngressLoadBalancerIngress,
        IngressRule, IngressSpec, IngressStatus, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use serde_json::json;
use std::net::IpAddr;

const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const POLICY_TYPES: &[&str] = &["Ingress", "Egress"];

/// The annotation that named an Ingress's class before the field did.
const OLD_CLASS: &str = "kubernetes.io/ingress.class";

fn old_class(ingress: &Ingress) -> Option<&String> {
    ingress.metadata.annotations.as_ref()?.get(OLD_CLASS)
}

impl Kind for Ingress {
    const CHECKS_NEW_NAME_BASE: bool = true;

    fn warnings(&self, old: Option<&Self>) -> Vec<String> {
        let is_told = old.is_none() && old_class(self).is_some();
        is_told
            .then(|| format!("annotation \"{OLD_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"))
            .into_iter()
            .collect()
    }

    const GENERATION_RULE: GenerationRule = GenerationRule::Spec;
    const HAS_STATUS: bool = true;

    fn set_defaults(&mut self) {
        self.spec.get_or_insert_default();
        self.status.get_or_insert_default().load_balancer.get_or_insert_default();
    }

    fn prepare_create(&mut self, _gates: &FeatureGates) {
        self.status = Some(IngressStatus { load_balancer: Some(Default::default()) });
    }

    fn prepare_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.status.clone_from(&old.status);
    }

    fn prepare_status_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.spec.clone_from(&old.spec);
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_ingress(self.spec.as_ref().unwrap_or(&IngressSpec::default()), &mut faults);
        let class = self.spec.as_ref().and_then(|spec| spec.ingress_class_name.as_ref());
        if let (Some(old), Some(class)) = (old_class(self), class)
            && old != class
        {
            let path = Path::new("annotations").child(OLD_CLASS);
            faults.invalid(&path, old.as_str(), "must match `ingressClassName` when both are specified");
        }
        faults.into_vec()
    }

    /// A spec that did not change is not judged again: rules come to be that it was made without.
    fn validate_update(&self, old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        if self.spec == old.spec {
            return Vec::new();
        }
        let mut faults = Faults::default();
        validate_ingress(self.spec.as_ref().unwrap_or(&IngressSpec::default()), &mut faults);
        faults.into_vec()
    }

    /// Source: upstream `ValidateIngressLoadBalancerStatus`.
    fn validate_status_update(&self, old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let old: Vec<String> = points(old).iter().filter_map(|point| point.ip.clone()).collect();
        for (index, point) in points(self).iter().enumerate() {
            let path = Path::new("status.loadBalancer.ingress").index(index);
            if let Some(ip) = point.ip.as_deref().filter(|ip| !ip.is_empty()) {
                faults.new_form(&path.child("ip"), ip, &old, check_ip);
            }
            faults.optional_form(&path.child("hostname"), &point.hostname, check_dns_subdomain);
            refuse_address(text(&point.hostname), &path.child("hostname"), &mut faults);
        }
        faults.into_vec()
    }

    fn spec_differs(&self, old: &Self) -> bool {
        self.spec != old.spec
    }
}

/// Where traffic for an Ingress comes in.
fn points(ingress: &Ingress) -> &[IngressLoadBalancerIngress] {
    let balancer = ingress.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    balancer.map_or(&[][..], |balancer| list(&balancer.ingress))
}

fn validate_ingress(spec: &IngressSpec, faults: &mut Faults) {
    let path = Path::new("spec");
    if list(&spec.rules).is_empty() && spec.default_backend.is_none() {
        faults.invalid(&path, json!(spec.rules), "either `defaultBackend` or `rules` must be specified");
    }
    if let Some(backend) = &spec.default_backend {
        validate_backend(backend, &path.child("defaultBackend"), faults);
    }
    for (index, rule) in list(&spec.rules).iter().enumerate() {
        validate_rule(rule, &path.child("rules").index(index), faults);
    }
    for (index, tls) in list(&spec.tls).iter().enumerate() {
        let path = path.child("tls").index(index);
        for (index, host) in list(&tls.hosts).iter().enumerate() {
            faults.form(&path.child("hosts").index(index), host, check_host);
        }
        faults.optional_form(&path.child("secretName"), &tls.secret_name, check_dns_subdomain);
    }
    if let Some(class) = &spec.ingress_class_name {
        faults.form(&path.child("ingressClassName"), class, check_dns_subdomain);
    }
}

fn validate_rule(rule: &IngressRule, path: &Path, faults: &mut Faults) {
    refuse_address(text(&rule.host), &path.child("host"), faults);
    faults.optional_form(&path.child("host"), &rule.host, check_host);
    let Some(http) = &rule.http else { return };
    let path = path.child("http").child("paths");
    if http.paths.is_empty() {
        faults.required(&path, "");
    }
    for (index, http) in http.paths.iter().enumerate() {
        validate_path(http, &path.index(index), faults);
    }
}

/// A name, or one whose first label is `*`.
fn check_host(host: &str) -> Vec<String> {
    if host.contains('*') { check_wildcard(host) } else { check_dns_subdomain(host) }
}

fn refuse_address(host: &str, path: &Path, faults: &mut Faults) {
    if host.parse::<IpAddr>().is_ok() {
        faults.invalid(path, host, "must be a DNS name, not an IP address");
    }
}

/// Source: upstream `validateHTTPIngressPath`.
fn validate_path(http: &HTTPIngressPath, path: &Path, faults: &mut Faults) {
    let (written, written_path) = (text(&http.path), path.child("path"));
    let is_absolute = written.starts_with('/');
    match http.path_type.as_str() {
        "" => return faults.required(&path.child("pathType"), "pathType must be specified"),
        "Exact" | "Prefix" => {
            if !is_absolute {
                faults.invalid(&written_path, written, "must be an absolute path");
            }
            check_steps(written, &written_path, faults);
        }
        "ImplementationSpecific" => {
            if !is_absolute && !written.is_empty() {
                faults.invalid(&written_path, written, "must be an absolute path");
            }
        }
        other => faults.known(&path.child("pathType"), other, PATH_TYPES),
    }
    validate_backend(&http.backend, &path.child("backend"), faults);
}

/// Paths that some proxies change before they compare them.
fn check_steps(written: &str, path: &Path, faults: &mut Faults) {
    for part in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|part| written.contains(part)) {
        faults.invalid(path, written, format!("must not contain '{part}'"));
    }
    for end in ["/..", "/."].into_iter().filter(|end| written.ends_with(end)) {
        faults.invalid(path, written, format!("cannot end with '{end}'"));
    }
}

fn validate_backend(backend: &IngressBackend, path: &Path, faults: &mut Faults) {
    match (&backend.resource, &backend.service) {
        (Some(_), Some(_)) => faults.invalid(path, "", "cannot set both resource and service backends"),
        (None, None) => faults.invalid(path, "", "resource or service backend is required"),
        (Some(resource), None) => {
            let path = path.child("resource");
            if let Some(group) = &resource.api_group {
                faults.form(&path.child("apiGroup"), group, check_dns_subdomain);
            }
            faults.set_form(&path.child("kind"), &resource.kind, check_path_segment);
            faults.set_form(&path.child("name"), &resource.name, check_path_segment);
        }
        (None, Some(service)) => {
            let of_service = path.child("service");
            faults.set_form(&of_service.child("name"), &service.name, check_dns_label);
            let port = service.port.clone().unwrap_or_default();
            match (text(&port.name), port.number.unwrap_or(0)) {
                ("", 0) => faults.required(path, "port name or number is required"),
                ("", number) => faults.port(&of_service.child("port").child("number"), number),
                (name, 0) => faults.form(&of_service.child("port").child("name"), name, check_port_name),
                _ => faults.invalid(path, "", "cannot set both port name & port number"),
            }
        }
    }
}

impl Kind for IngressClass {
    const CHECKS_NEW_NAME_BASE: bool = true;
    const GENERATION_RULE: GenerationRule = GenerationRule::Spec;

    fn set_defaults(&mut self) {
        if let Some(parameters) = self.spec.get_or_insert_default().parameters.as_mut() {
            parameters.scope.get_or_insert_with(|| "Cluster".to_owned());
        }
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let path = Path::new("spec");
        validate_controller(controller(self), &path.child("controller"), &mut faults);
        validate_class_parameters(self, &path, &mut faults);
        faults.into_vec()
    }

    fn validate_update(&self, old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let path = Path::new("spec");
        if controller(self) != controller(old) {
            faults.invalid(&path.child("controller"), controller(self), IMMUTABLE);
            validate_controller(controller(self), &path.child("controller"), &mut faults);
        }
        validate_class_parameters(self, &path, &mut faults);
        faults.into_vec()
    }

    fn spec_differs(&self, old: &Self) -> bool {
        self.spec != old.spec
    }
}

fn controller(class: &IngressClass) -> &str {
    class.spec.as_ref().map_or("", |spec| text(&spec.controller))
}

/// Longest name of a controller, in bytes.
const CONTROLLER_BYTES_MAX: usize = 250;

/// A domain, and a path in it.
///
/// Source: upstream `IsDomainPrefixedPath`.
fn validate_controller(controller: &str, path: &Path, faults: &mut Faults) {
    if controller.len() > CONTROLLER_BYTES_MAX {
        faults.add([FieldError::too_long(path, CONTROLLER_BYTES_MAX)]);
    }
    if !faults.set(path, controller) {
        return;
    }
    let Some((domain, rest)) = controller.split_once('/').filter(|(domain, rest)| !domain.is_empty() && !rest.is_empty()) else {
        return faults.invalid(path, controller, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    faults.form(path, domain, check_dns_subdomain);
    if !rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte)) {
        faults.invalid(path, rest, r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')");
    }
}

fn validate_class_parameters(class: &IngressClass, path: &Path, faults: &mut Faults) {
    if let Some(parameters) = class.spec.as_ref().and_then(|spec| spec.parameters.as_ref()) {
        validate_parameters(parameters, &path.child("parameters"), faults);
    }
}

fn validate_parameters(parameters: &IngressClassParametersReference, path: &Path, faults: &mut Faults) {
    if let Some(group) = &parameters.api_group {
        faults.form(&path.child("apiGroup"), group, check_dns_subdomain);
    }
    faults.set_form(&path.child("kind"), &parameters.kind, check_path_segment);
    faults.set_form(&path.child("name"), &parameters.name, check_path_segment);
    faults.known(&path.child("scope"), text(&parameters.scope), &["Cluster", "Namespace"]);
    let path = path.child("namespace");
    match (text(&parameters.scope), &parameters.namespace) {
        ("Namespace", None) => faults.required(&path, "`parameters.scope` is set to 'Namespace'"),
        ("Namespace", Some(namespace)) => faults.form(&path, namespace, check_dns_label),
        ("Cluster", Some(_)) => faults.forbidden(&path, "`parameters.scope` is set to 'Cluster'"),
        _ => (),
    }
}

impl Kind for NetworkPolicy {
    const GENERATION_RULE: GenerationRule = GenerationRule::Spec;

    fn set_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        spec.pod_selector.get_or_insert_default();
        for port in list_mut(&mut spec.ingress).iter_mut().flat_map(|rule| list_mut(&mut rule.ports)) {
            default_to(&mut port.protocol, "TCP");
        }
        for port in list_mut(&mut spec.egress).iter_mut().flat_map(|rule| list_mut(&mut rule.ports)) {
            default_to(&mut port.protocol, "TCP");
        }
        if list(&spec.policy_types).is_empty() {
            let egress = (!list(&spec.egress).is_empty()).then_some("Egress");
            spec.policy_types = Some(std::iter::once("Ingress").chain(egress).map(str::to_owned).collect());
        }
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_policy(self.spec.as_ref().unwrap_or(&NetworkPolicySpec::default()), &[], &mut faults);
        faults.into_vec()
    }

    fn validate_update(&self, old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let ranges = old.spec.as_ref().map(ranges).unwrap_or_default();
        validate_policy(self.spec.as_ref().unwrap_or(&NetworkPolicySpec::default()), &ranges, &mut faults);
        faults.into_vec()
    }

    fn warnings(&self, _old: Option<&Self>) -> Vec<String> {
        let spec = self.spec.clone().unwrap_or_default();
        let path = Path::new("spec");
        let rules =
            list(&spec.ingress).iter().enumerate().map(|(index, rule)| (path.child("ingress").index(index).child("from"), &rule.from));
        let rules = rules
            .chain(list(&spec.egress).iter().enumerate().map(|(index, rule)| (path.child("egress").index(index).child("to"), &rule.to)));
        let mut warnings = Vec::new();
        for (path, peers) in rules {
            for (index, peer) in list(peers).iter().enumerate() {
                let Some(block) = &peer.ip_block else { continue };
                let path = path.index(index).child("ipBlock");
                warnings.extend(network_warning(&path.child("cidr"), &block.cidr));
                let except = list(&block.except).iter().enumerate();
                warnings.extend(except.filter_map(|(index, range)| network_warning(&path.child("except").index(index), range)));
            }
        }
        warnings
    }

    fn spec_differs(&self, old: &Self) -> bool {
        self.spec != old.spec
    }
}

/// All ranges of addresses of a policy.
fn ranges(spec: &NetworkPolicySpec) -> Vec<String> {
    let sources = list(&spec.ingress).iter().flat_map(|rule| list(&rule.from));
    let peers = sources.chain(list(&spec.egress).iter().flat_map(|rule| list(&rule.to)));
    let blocks = peers.filter_map(|peer| peer.ip_block.as_ref());
    blocks.flat_map(|block| std::iter::once(&block.cidr).chain(list(&block.except))).cloned().collect()
}

/// Ranges that are `old` may be in forms that new ones may not have.
fn validate_policy(spec: &NetworkPolicySpec, old: &[String], faults: &mut Faults) {
    let path = Path::new("spec");
    faults.add(spec.pod_selector.iter().flat_map(|selector| validate_label_selector(selector, &path.child("podSelector"))));
    for (index, rule) in list(&spec.ingress).iter().enumerate() {
        let path = path.child("ingress").index(index);
        validate_ports(list(&rule.ports), &path.child("ports"), faults);
        validate_peers(list(&rule.from), old, &path.child("from"), faults);
    }
    for (index, rule) in list(&spec.egress).iter().enumerate() {
        let path = path.child("egress").index(index);
        validate_ports(list(&rule.ports), &path.child("ports"), faults);
        validate_peers(list(&rule.to), old, &path.child("to"), faults);
    }
    let types = list(&spec.policy_types);
    if types.len() > POLICY_TYPES.len() {
        faults.invalid(&path.child("policyTypes"), json!(types), "may not specify more than two policyTypes");
        return;
    }
    for (index, policy_type) in types.iter().enumerate() {
        faults.known(&path.child("policyTypes").index(index), policy_type, POLICY_TYPES);
    }
}

fn validate_ports(ports: &[NetworkPolicyPort], path: &Path, faults: &mut Faults) {
    ports.iter().enumerate().for_each(|(index, port)| validate_port(port, &path.index(index), faults));
}

fn validate_peers(peers: &[NetworkPolicyPeer], old: &[String], path: &Path, faults: &mut Faults) {
    peers.iter().enumerate().for_each(|(index, peer)| validate_peer(peer, old, &path.index(index), faults));
}

fn validate_port(port: &NetworkPolicyPort, path: &Path, faults: &mut Faults) {
    faults.optional_one_of(&path.child("protocol"), &port.protocol, PROTOCOLS);
    match (&port.port, port.end_port) {
        (Some(IntOrString::Int(first)), last) => {
            faults.port(&path.child("port"), *first);
            if let Some(last) = last {
                if last < *first {
                    // Upstream shows the port here.
                    faults.invalid(&path.child("endPort"), *first, "must be greater than or equal to `port`");
                }
                faults.port(&path.child("endPort"), last);
            }
        }
        (Some(IntOrString::String(name)), last) => {
            if let Some(last) = last {
                faults.invalid(&path.child("endPort"), last, "may not be specified when `port` is non-numeric");
            }
            faults.form(&path.child("port"), name, check_port_name);
        }
        (None, Some(last)) => faults.invalid(&path.child("endPort"), last, "may not be specified when `port` is not specified"),
        (None, None) => (),
    }
}

fn validate_peer(peer: &NetworkPolicyPeer, old: &[String], path: &Path, faults: &mut Faults) {
    let selectors = [("podSelector", &peer.pod_selector), ("namespaceSelector", &peer.namespace_selector)];
    let is_selector_set = selectors.iter().any(|(_, selector)| selector.is_some());
    for (field, selector) in selectors {
        faults.add(selector.iter().flat_map(|selector| validate_label_selector(selector, &path.child(field))));
    }
    match &peer.ip_block {
        Some(block) => {
            validate_block(block, old, &path.child("ipBlock"), faults);
            if is_selector_set {
                faults.forbidden(path, "may not specify both ipBlock and another peer");
            }
        }
        None if !is_selector_set => faults.required(path, "must specify a peer"),
        None => (),
    }
}

fn validate_block(block: &IPBlock, old: &[String], path: &Path, faults: &mut Faults) {
    if !faults.set(&path.child("cidr"), &block.cidr) {
        return;
    }
    faults.new_form(&path.child("cidr"), &block.cidr, old, check_network);
    let Ok(whole) = block.cidr.parse::<Cidr>() else { return };
    for (index, except) in list(&block.except).iter().enumerate() {
        let path = path.child("except").index(index);
        faults.new_form(&path, except, old, check_network);
        if except.parse().is_ok_and(|part| !whole.strictly_holds(&part)) {
            faults.invalid(&path, except.as_str(), "must be a strict subset of `cidr`");
        }
    }
}
