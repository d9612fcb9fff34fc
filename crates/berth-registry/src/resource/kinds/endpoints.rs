//! Endpoints.

use super::text::{AGE, NAME, age_of, first_few, name, text};
use crate::resource::{
    Column, Printed, Resource,
    merge_rules::{MergeRule, atomic},
};
use berth_api::k8s_openapi::api::core::v1::{EndpointSubset, Endpoints};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The maximum number of addresses or ports in a cell. Further ones are only counted.
pub(super) const SHOWN_MAX: usize = 3;

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::namespaced::<Endpoints>().short(&["ep"]).put_creates().stored_at("services/endpoints").merges(MERGE_RULES)
}

const MERGE_RULES: &[MergeRule] = &[
    atomic("Endpoints", "subsets"),
    atomic("EndpointSubset", "addresses"),
    atomic("EndpointSubset", "notReadyAddresses"),
    atomic("EndpointSubset", "ports"),
];

impl Printed for Endpoints {
    const COLUMNS: &'static [Column] = &[NAME, text("Endpoints", "Addresses and ports that are ready."), AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let subsets = self.subsets.as_deref().unwrap_or_default();
        let all: Vec<String> = subsets.iter().flat_map(addresses).collect();
        let cell = if subsets.is_empty() { "<none>".to_owned() } else { first_few(&all, SHOWN_MAX) };
        vec![json!(name(&self.metadata)), json!(cell), json!(age_of(&self.metadata, now))]
    }
}

/// Returns every address with every port, or addresses only if there are no ports.
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
