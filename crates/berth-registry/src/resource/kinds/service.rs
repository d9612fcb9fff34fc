//! Service.

use super::text::{AGE, NAME, SELECTOR, age_of, labels, name, or, text};
use crate::resource::{
    Column, Printed, Resource, Simulated, Subresource,
    merge_rules::{
        MergeRule,
        PatchStrategy::Key,
        Ssa::{AtomicMap, MapOf},
        atomic, conditions, list, map, to,
    },
};
use berth_api::k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec, ServiceStatus};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::namespaced::<Service>()
        .short(&["svc"])
        .all()
        .sub(&[Subresource::Status])
        .fields(&[("spec.clusterIP", "/spec/clusterIP"), ("spec.type", "/spec/type")])
        .put_creates()
        .stored_at("services/specs")
        .merges(MERGE_RULES)
        .always_has(json!({"status": {"loadBalancer": {}}}))
        // Clients send a scheme and a port together with the Service's name.
        .refuses(&[Simulated {
            subresource: "proxy",
            why: "pods are simulated: none of this service could answer",
            names_an_object: false,
        }])
}

const MERGE_RULES: &[MergeRule] = &[
    to("Service", "spec", "ServiceSpec"),
    to("Service", "status", "ServiceStatus"),
    list("ServiceSpec", "ports", Key("port"), MapOf(&["port", "protocol"])),
    atomic("ServiceSpec", "clusterIPs"),
    atomic("ServiceSpec", "externalIPs"),
    atomic("ServiceSpec", "ipFamilies"),
    atomic("ServiceSpec", "loadBalancerSourceRanges"),
    map("ServiceSpec", "selector", AtomicMap),
    conditions("ServiceStatus"),
    atomic("LoadBalancerStatus", "ingress"),
    atomic("LoadBalancerIngress", "ports"),
];

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
