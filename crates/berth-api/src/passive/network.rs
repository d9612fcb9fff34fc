//! Endpoints and EndpointSlice: where the pods of Services are.

use super::IMMUTABLE;
use crate::{
    FeatureGates, FieldError, Kind, Path,
    faults::Faults,
    ip::{check_endpoint_ip, check_ordinary_ip, check_written_ip, family},
    names::{check_dns_label, check_dns_subdomain, check_qualified_name},
    object::GenerationRule,
    unset::{default_to, list, list_mut, text},
};
use k8s_openapi::api::{
    core::v1::{EndpointAddress, Endpoints},
    discovery::v1::{Endpoint, EndpointSlice},
};
use std::{collections::BTreeSet, net::IpAddr};

/// Most addresses of one endpoint.
const ADDRESSES_MAX: usize = 100;
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
/// What every write of Endpoints is answered with.
const DEPRECATED: &str = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";

impl Kind for Endpoints {
    const CHECKS_NEW_NAME_BASE: bool = true;

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
                    validate_endpoint(address, &path.child(field).index(index), &mut faults);
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
                if let Some(protocol) = &port.app_protocol {
                    faults.form(&path.child("appProtocol"), protocol, check_qualified_name);
                }
            }
        }
        faults.into_vec()
    }

    fn warnings(&self, _old: Option<&Self>) -> Vec<String> {
        vec![DEPRECATED.to_owned()]
    }
}

/// Source: upstream `validateEndpointAddress`.
fn validate_endpoint(address: &EndpointAddress, path: &Path, faults: &mut Faults) {
    faults.form(&path.child("ip"), &address.ip, check_written_ip);
    faults.optional_form(&path.child("hostname"), &address.hostname, check_dns_label);
    if let Some(name) = &address.node_name {
        faults.form(&path.child("nodeName"), name, check_dns_subdomain);
    }
    faults.form(&path.child("ip"), &address.ip, check_ordinary_ip);
}

impl Kind for EndpointSlice {
    const CHECKS_NEW_NAME_BASE: bool = true;
    const GENERATION_RULE: GenerationRule = GenerationRule::Spec;

    fn warnings(&self, _old: Option<&Self>) -> Vec<String> {
        let is_by_name = self.address_type == "FQDN";
        is_by_name.then(|| "spec.addressType: FQDN endpoints are deprecated".to_owned()).into_iter().collect()
    }

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
            validate_place(endpoint, &Path::new("endpoints").index(index), &mut faults);
        }
        let mut names = BTreeSet::new();
        for (index, port) in list(&self.ports).iter().enumerate() {
            let path = Path::new("ports").index(index);
            faults.optional_form(&path.child("name"), &port.name, check_dns_label);
            faults.unique(&path.child("name"), text(&port.name), &mut names);
            faults.one_of(&path.child("protocol"), text(&port.protocol), PROTOCOLS);
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

    /// All but the metadata, and the labels too.
    fn spec_differs(&self, old: &Self) -> bool {
        (&self.endpoints, &self.ports, &self.metadata.labels) != (&old.endpoints, &old.ports, &old.metadata.labels)
    }
}

fn validate_place(endpoint: &Endpoint, path: &Path, faults: &mut Faults) {
    if let Some(name) = &endpoint.node_name {
        faults.form(&path.child("nodeName"), name, check_dns_subdomain);
    }
    if let Some(name) = &endpoint.hostname {
        faults.form(&path.child("hostname"), name, check_dns_label);
    }
}

fn validate_addresses(address_type: &str, addresses: &[String], path: &Path, faults: &mut Faults) {
    for (index, address) in addresses.iter().enumerate() {
        match address.parse::<IpAddr>() {
            _ if address_type == "FQDN" => faults.form(&path.index(index), address, check_dns_subdomain),
            Ok(ip) if matches!(address_type, "IPv4" | "IPv6") && family(ip) != address_type => {
                faults.invalid(path, address.as_str(), format!("must be an {address_type} address"));
            }
            _ => faults.form(&path.index(index), address, check_endpoint_ip),
        }
    }
}
