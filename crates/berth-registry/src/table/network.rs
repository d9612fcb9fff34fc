//! Services and where they lead.

use super::{
    Printed,
    text::{AGE, NAME, SELECTOR, age_of, first_few, labels, name, or, text},
};
use crate::resource::Column;
use berth_api::k8s_openapi::api::{
    core::v1::{EndpointSubset, Endpoints, Service, ServicePort, ServiceSpec, ServiceStatus},
    discovery::v1::EndpointSlice,
    networking::v1::{IPAddress, ServiceCIDR},
};
use jiff::Timestamp;
use serde_json::{Value, json};

/// More addresses or ports than these are only counted.
const SHOWN_MAX: usize = 3;

impl Printed for Service {
    const COLUMNS: &'static [Column] = &[
        NAME,
        text("Type", "How the service is exposed."),
        text("Cluster-IP", "The service's address inside the cluster."),
        text("External-IP", "The service's addresses outside the cluster."),
        text("Port(s)", "The service's ports, with their node ports."),
        AGE,
        SELECTOR,
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let (spec, status) = (self.spec.clone().unwrap_or_default(), self.status.clone().unwrap_or_default());
        let first_ip = spec.cluster_ips.as_deref().and_then(|ips| ips.first()).or(spec.cluster_ip.as_ref());
        vec![
            json!(name(&self.metadata)),
            json!(spec.type_.as_deref().unwrap_or_default()),
            json!(or(first_ip.map(String::as_str), "<none>")),
            json!(external_ip(&spec, &status)),
            json!(ports(spec.ports.as_deref().unwrap_or_default())),
            json!(age_of(&self.metadata, now)),
            json!(labels(spec.selector.as_ref())),
        ]
    }
}

fn external_ip(spec: &ServiceSpec, status: &ServiceStatus) -> String {
    let own = spec.external_ips.clone().unwrap_or_default();
    match spec.type_.as_deref().unwrap_or_default() {
        "ExternalName" => spec.external_name.clone().unwrap_or_default(),
        "LoadBalancer" => {
            let ingress = status.load_balancer.iter().flat_map(|balancer| balancer.ingress.iter().flatten());
            let given = ingress.filter_map(|i| i.ip.clone().filter(|ip| !ip.is_empty()).or_else(|| i.hostname.clone()));
            let all: Vec<String> = given.chain(own).collect();
            or(Some(&all.join(",")), "<pending>").to_owned()
        }
        "ClusterIP" | "NodePort" => or(Some(&own.join(",")), "<none>").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn ports(ports: &[ServicePort]) -> String {
    let texts: Vec<String> = ports
        .iter()
        .map(|port| {
            let protocol = or(port.protocol.as_deref(), "TCP");
            match port.node_port.unwrap_or_default() {
                0 => format!("{}/{protocol}", port.port),
                node_port => format!("{}:{node_port}/{protocol}", port.port),
            }
        })
        .collect();
    or(Some(&texts.join(",")), "<none>").to_owned()
}

impl Printed for Endpoints {
    const COLUMNS: &'static [Column] = &[NAME, text("Endpoints", "Addresses and ports that are ready."), AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let subsets = self.subsets.as_deref().unwrap_or_default();
        let all: Vec<String> = subsets.iter().flat_map(addresses).collect();
        let cell = if subsets.is_empty() { "<none>".to_owned() } else { first_few(&all, SHOWN_MAX) };
        vec![json!(name(&self.metadata)), json!(cell), json!(age_of(&self.metadata, now))]
    }
}

/// Every address with every port; addresses alone where there are no ports.
fn addresses(subset: &EndpointSubset) -> Vec<String> {
    let ips: Vec<&str> = subset.addresses.iter().flatten().map(|address| address.ip.as_str()).collect();
    match subset.ports.as_deref() {
        None | Some([]) => ips.into_iter().map(str::to_owned).collect(),
        Some(ports) => ports.iter().flat_map(|port| ips.iter().map(|ip| host_port(ip, port.port))).collect(),
    }
}

fn host_port(host: &str, port: i32) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl Printed for EndpointSlice {
    const COLUMNS: &'static [Column] = &[
        NAME,
        text("AddressType", "What the addresses are."),
        text("Ports", "The ports of every endpoint."),
        text("Endpoints", "The addresses."),
        AGE,
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let ports = self.ports.iter().flatten();
        let ports: Vec<String> = ports.map(|p| p.port.map_or_else(|| "*".to_owned(), |port| port.to_string())).collect();
        let addresses: Vec<String> = self.endpoints.iter().flatten().flat_map(|endpoint| endpoint.addresses.clone()).collect();
        vec![
            json!(name(&self.metadata)),
            json!(self.address_type),
            json!(or(Some(&first_few(&ports, SHOWN_MAX)), "<unset>")),
            json!(or(Some(&first_few(&addresses, SHOWN_MAX)), "<unset>")),
            json!(age_of(&self.metadata, now)),
        ]
    }
}

impl Printed for IPAddress {
    const COLUMNS: &'static [Column] = &[NAME, text("ParentRef", "What has the address.")];

    fn cells(&self, _now: Timestamp) -> Vec<Value> {
        let parent = &self.spec.parent_ref;
        let resource = match parent.group.as_deref().unwrap_or_default() {
            "" => parent.resource.clone(),
            group => format!("{}.{group}", parent.resource),
        };
        let parts = [Some(resource), parent.namespace.clone(), Some(parent.name.clone())];
        let parts: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        vec![json!(name(&self.metadata)), json!(parts.join("/"))]
    }
}

impl Printed for ServiceCIDR {
    const COLUMNS: &'static [Column] = &[NAME, text("CIDRs", "The ranges that addresses are given out from."), AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let cidrs = self.spec.as_ref().and_then(|spec| spec.cidrs.clone()).unwrap_or_default();
        vec![json!(name(&self.metadata)), json!(cidrs.join(",")), json!(age_of(&self.metadata, now))]
    }
}
