//! EndpointSlice.

use super::endpoints::SHOWN_MAX;
use super::text::{AGE, NAME, age_of, first_few, name, or, text};
use crate::resource::{
    Column, Printed, Resource,
    merge_rules::{MergeRule, PatchStrategy, Ssa::Set, atomic, list},
};
use berth_api::k8s_openapi::api::discovery::v1::EndpointSlice;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Its line of the resource table.
pub(super) fn resource() -> Resource {
    Resource::namespaced::<EndpointSlice>().merges(MERGE_RULES).always_has(json!({"endpoints": null, "ports": null}))
}

const MERGE_RULES: &[MergeRule] = &[
    atomic("EndpointSlice", "endpoints"),
    atomic("EndpointSlice", "ports"),
    list("Endpoint", "addresses", PatchStrategy::Plain, Set),
    atomic("EndpointHints", "forNodes"),
    atomic("EndpointHints", "forZones"),
];

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
