//! Ingress, IngressClass and NetworkPolicy. No traffic flows: they are kept for those who wrote them.

use super::IMMUTABLE;
use crate::{
    FeatureGates, FieldError, Kind, Path,
    faults::Faults,
    ip::{Cidr, check_network},
    label_selector::validate_label_selector,
    names::{check_dns_label, check_dns_subdomain, check_path_segment},
    object::GenerationRule,
    pod::validate::check_port_name,
    unset::{default_to, list, list_mut, text},
};
use k8s_openapi::{
    api::networking::v1::{
        HTTPIngressPath, IPBlock, Ingress, IngressBackend, IngressClass, IngressClassParametersReference, IngressRule, IngressSpec,
        IngressStatus, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
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
        faults.into_vec()
    }

    fn spec_differs(&self, old: &Self) -> bool {
        self.spec != old.spec
    }
}

fn validate_ingress(spec: &IngressSpec, faults: &mut Faults) {
    let path = Path::new("spec");
    if list(&spec.rules).is_empty() && spec.default_backend.is_none() {
        faults.invalid(&path, json!(spec), "either `defaultBackend` or `rules` must be specified");
    }
    for (index, rule) in list(&spec.rules).iter().enumerate() {
        validate_rule(rule, &path.child("rules").index(index), faults);
    }
    if let Some(backend) = &spec.default_backend {
        validate_backend(backend, &path.child("defaultBackend"), faults);
    }
    for (index, tls) in list(&spec.tls).iter().enumerate() {
        let path = path.child("tls").index(index);
        for (index, host) in list(&tls.hosts).iter().enumerate() {
            validate_host(host, &path.child("hosts").index(index), faults);
        }
        faults.optional_form(&path.child("secretName"), &tls.secret_name, check_dns_subdomain);
    }
    faults.optional_form(&path.child("ingressClassName"), &spec.ingress_class_name, check_dns_subdomain);
}

fn validate_rule(rule: &IngressRule, path: &Path, faults: &mut Faults) {
    if !text(&rule.host).is_empty() {
        validate_host(text(&rule.host), &path.child("host"), faults);
    }
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
fn validate_host(host: &str, path: &Path, faults: &mut Faults) {
    if host.parse::<IpAddr>().is_ok() {
        faults.invalid(path, host, "must be a DNS name, not an IP address");
        return;
    }
    faults.form(path, host, |host| check_dns_subdomain(host.strip_prefix("*.").unwrap_or(host)));
}

fn validate_path(http: &HTTPIngressPath, path: &Path, faults: &mut Faults) {
    match http.path_type.as_str() {
        "" => faults.required(&path.child("pathType"), "pathType must be specified"),
        other => faults.one_of(&path.child("pathType"), other, PATH_TYPES),
    }
    let written = text(&http.path);
    let may_be_missing = http.path_type == "ImplementationSpecific";
    let is_missing = may_be_missing && written.is_empty();
    if !is_missing && !written.starts_with('/') {
        faults.invalid(&path.child("path"), written, "must be an absolute path");
    }
    if !may_be_missing {
        check_steps(written, &path.child("path"), faults);
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
    const GENERATION_RULE: GenerationRule = GenerationRule::Spec;

    fn set_defaults(&mut self) {
        if let Some(parameters) = self.spec.get_or_insert_default().parameters.as_mut() {
            default_to(&mut parameters.scope, "Cluster");
        }
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let path = Path::new("spec");
        let spec = self.spec.clone().unwrap_or_default();
        let controller = text(&spec.controller);
        if faults.set(&path.child("controller"), controller) && !controller.contains('/') {
            faults.invalid(&path.child("controller"), controller, "must be a domain-prefixed path (such as \"acme.io/foo\")");
        }
        if let Some(parameters) = &spec.parameters {
            validate_parameters(parameters, &path.child("parameters"), &mut faults);
        }
        faults.into_vec()
    }

    fn validate_update(&self, old: &Self, gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let controller = |class: &Self| class.spec.as_ref().and_then(|spec| spec.controller.clone()).unwrap_or_default();
        if controller(self) != controller(old) {
            faults.invalid(&Path::new("spec").child("controller"), controller(self), IMMUTABLE);
        }
        faults.add(Kind::validate(self, gates));
        faults.into_vec()
    }

    fn spec_differs(&self, old: &Self) -> bool {
        self.spec != old.spec
    }
}

fn validate_parameters(parameters: &IngressClassParametersReference, path: &Path, faults: &mut Faults) {
    faults.optional_form(&path.child("apiGroup"), &parameters.api_group, check_dns_subdomain);
    faults.set_form(&path.child("kind"), &parameters.kind, check_path_segment);
    faults.set_form(&path.child("name"), &parameters.name, check_path_segment);
    faults.one_of(&path.child("scope"), text(&parameters.scope), &["Cluster", "Namespace"]);
    let namespace = text(&parameters.namespace);
    match text(&parameters.scope) {
        "Namespace" => faults.set_form(&path.child("namespace"), namespace, check_dns_label),
        "Cluster" if !namespace.is_empty() => {
            faults.forbidden(&path.child("namespace"), "`parameters.scope` is set to 'Cluster'");
        }
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
        validate_policy(self.spec.as_ref().unwrap_or(&NetworkPolicySpec::default()), &mut faults);
        faults.into_vec()
    }

    fn spec_differs(&self, old: &Self) -> bool {
        self.spec != old.spec
    }
}

fn validate_policy(spec: &NetworkPolicySpec, faults: &mut Faults) {
    let path = Path::new("spec");
    faults.add(spec.pod_selector.iter().flat_map(|selector| validate_label_selector(selector, &path.child("podSelector"))));
    for (index, rule) in list(&spec.ingress).iter().enumerate() {
        validate_traffic(list(&rule.ports), (list(&rule.from), "from"), &path.child("ingress").index(index), faults);
    }
    for (index, rule) in list(&spec.egress).iter().enumerate() {
        validate_traffic(list(&rule.ports), (list(&rule.to), "to"), &path.child("egress").index(index), faults);
    }
    let types = list(&spec.policy_types);
    if types.len() > POLICY_TYPES.len() {
        faults.invalid(&path.child("policyTypes"), json!(types), "may not specify more than two policyTypes");
        return;
    }
    for (index, policy_type) in types.iter().enumerate() {
        faults.one_of(&path.child("policyTypes").index(index), policy_type, POLICY_TYPES);
    }
}

fn validate_traffic(ports: &[NetworkPolicyPort], (peers, field): (&[NetworkPolicyPeer], &str), path: &Path, faults: &mut Faults) {
    for (index, port) in ports.iter().enumerate() {
        validate_port(port, &path.child("ports").index(index), faults);
    }
    for (index, peer) in peers.iter().enumerate() {
        validate_peer(peer, &path.child(field).index(index), faults);
    }
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

fn validate_peer(peer: &NetworkPolicyPeer, path: &Path, faults: &mut Faults) {
    let selectors = [("podSelector", &peer.pod_selector), ("namespaceSelector", &peer.namespace_selector)];
    let is_selector_set = selectors.iter().any(|(_, selector)| selector.is_some());
    for (field, selector) in selectors {
        faults.add(selector.iter().flat_map(|selector| validate_label_selector(selector, &path.child(field))));
    }
    match &peer.ip_block {
        Some(block) => {
            validate_block(block, &path.child("ipBlock"), faults);
            if is_selector_set {
                faults.forbidden(path, "may not specify both ipBlock and another peer");
            }
        }
        None if !is_selector_set => faults.required(path, "must specify a peer"),
        None => (),
    }
}

fn validate_block(block: &IPBlock, path: &Path, faults: &mut Faults) {
    if !faults.set(&path.child("cidr"), &block.cidr) {
        return;
    }
    faults.form(&path.child("cidr"), &block.cidr, check_network);
    let Ok(whole) = block.cidr.parse::<Cidr>() else { return };
    for (index, except) in list(&block.except).iter().enumerate() {
        let path = path.child("except").index(index);
        faults.form(&path, except, check_network);
        if except.parse().is_ok_and(|part| !whole.strictly_holds(&part)) {
            faults.invalid(&path, except.as_str(), "must be a strict subset of `cidr`");
        }
    }
}
