//! Endpoints and EndpointSlice: where the pods of Services are.

use super::IMMUTABLE;
use crate::{
    FeatureGates, FieldError, Kind, Path,
    faults::Faults,
    ip::{check_canonical_ip, check_endpoint_ip, check_ip, check_ordinary_ip, family, ip_warning},
    names::{check_dns_label, check_dns_subdomain, check_label_value, check_qualified_name},
    object::GenerationRule,
    unset::{default_to, list, list_mut, text},
};
use k8s_openapi::api::{
    core::v1::{EndpointAddress, Endpoints},
    discovery::v1::{Endpoint, EndpointHints, EndpointSlice},
};
use std::{collections::BTreeSet, net::IpAddr};

/// Most addresses of one endpoint.
const ADDRESSES_MAX: usize = 100;
/// Most zones, and most nodes, of the hints of one endpoint.
const HINTS_MAX: usize = 8;
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
        endpoints_faults(self, &[])
    }

    fn validate_update(&self, old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        let old: Vec<String> = ips(old).into_iter().map(|(_, ip)| ip.to_owned()).collect();
        endpoints_faults(self, &old)
    }

    fn warnings(&self, _old: Option<&Self>) -> Vec<String> {
        let of_addresses = ips(self).into_iter().filter_map(|(path, ip)| ip_warning(&path, ip));
        std::iter::once(DEPRECATED.to_owned()).chain(of_addresses).collect()
    }
}

/// All addresses, with their paths.
fn ips(endpoints: &Endpoints) -> Vec<(Path, &str)> {
    let mut ips = Vec::new();
    for (index, subset) in list(&endpoints.subsets).iter().enumerate() {
        let path = Path::new("subsets").index(index);
        for (field, addresses) in [("addresses", &subset.addresses), ("notReadyAddresses", &subset.not_ready_addresses)] {
            let numbered = list(addresses).iter().enumerate();
            ips.extend(numbered.map(|(index, address)| (path.child(field).index(index).child("ip"), address.ip.as_str())));
        }
    }
    ips
}

/// `old_ips` are those of the stored object, whose form is not judged again.
fn endpoints_faults(endpoints: &Endpoints, old_ips: &[String]) -> Vec<FieldError> {
    let mut faults = Faults::default();
    for (index, subset) in list(&endpoints.subsets).iter().enumerate() {
        let path = Path::new("subsets").index(index);
        let addresses = [("addresses", &subset.addresses), ("notReadyAddresses", &subset.not_ready_addresses)];
        if addresses.iter().all(|(_, addresses)| list(addresses).is_empty()) {
            faults.required(&path, "must specify `addresses` or `notReadyAddresses`");
        }
        for (field, addresses) in addresses {
            for (index, address) in list(addresses).iter().enumerate() {
                validate_endpoint(address, old_ips, &path.child(field).index(index), &mut faults);
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

/// Source: upstream `validateEndpointAddress`.
fn validate_endpoint(address: &EndpointAddress, old_ips: &[String], path: &Path, faults: &mut Faults) {
    faults.new_form(&path.child("ip"), &address.ip, old_ips, check_ip);
    faults.optional_form(&path.child("hostname"), &address.hostname, check_dns_label);
    if let Some(name) = &address.node_name {
        faults.form(&path.child("nodeName"), name, check_dns_subdomain);
    }
    faults.form(&path.child("ip"), &address.ip, check_ordinary_ip);
}

impl Kind for EndpointSlice {
    const CHECKS_NEW_NAME_BASE: bool = true;
    const GENERATION_RULE: GenerationRule = GenerationRule::Spec;

    fn warnings(&self, old: Option<&Self>) -> Vec<String> {
        let is_by_name = self.address_type == "FQDN" && old.is_none();
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
        validate_type_and_ports(self, &mut faults);
        validate_endpoints(self, &mut faults);
        faults.into_vec()
    }

    /// Endpoints that did not change are not judged again.
    fn validate_update(&self, old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_type_and_ports(self, &mut faults);
        if self.endpoints != old.endpoints {
            validate_endpoints(self, &mut faults);
        }
        if self.address_type != old.address_type {
            faults.invalid(&Path::new("addressType"), self.address_type.as_str(), IMMUTABLE);
        }
        faults.into_vec()
    }

    /// All but the metadata, and the labels too.
    fn spec_differs(&self, old: &Self) -> bool {
        (list(&self.endpoints), list(&self.ports), &self.metadata.labels) != (list(&old.endpoints), list(&old.ports), &old.metadata.labels)
    }
}

fn validate_type_and_ports(slice: &EndpointSlice, faults: &mut Faults) {
    faults.one_of(&Path::new("addressType"), &slice.address_type, &["FQDN", "IPv4", "IPv6"]);
    let mut names = BTreeSet::new();
    for (index, port) in list(&slice.ports).iter().enumerate() {
        let path = Path::new("ports").index(index);
        faults.optional_form(&path.child("name"), &port.name, check_dns_label);
        faults.unique(&path.child("name"), text(&port.name), &mut names);
        faults.known(&path.child("protocol"), text(&port.protocol), PROTOCOLS);
        if let Some(protocol) = &port.app_protocol {
            faults.form(&path.child("appProtocol"), protocol, check_qualified_name);
        }
    }
}

fn validate_endpoints(slice: &EndpointSlice, faults: &mut Faults) {
    for (index, endpoint) in list(&slice.endpoints).iter().enumerate() {
        let path = Path::new("endpoints").index(index);
        let addresses = path.child("addresses");
        match endpoint.addresses.len() {
            0 => faults.required(&addresses, "must contain at least 1 address"),
            count if count > ADDRESSES_MAX => faults.add([FieldError::too_many(&addresses, count, ADDRESSES_MAX)]),
            _ => validate_addresses(&slice.address_type, &endpoint.addresses, &addresses, faults),
        }
        validate_place(endpoint, &path, faults);
        if let Some(hints) = &endpoint.hints {
            validate_hints(hints, &path.child("hints"), faults);
        }
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

/// Zones and nodes whose traffic an endpoint should serve. Too many zones are the only fault that is reported.
fn validate_hints(hints: &EndpointHints, path: &Path, faults: &mut Faults) {
    let zones: Vec<&str> = list(&hints.for_zones).iter().map(|zone| zone.name.as_str()).collect();
    let nodes: Vec<&str> = list(&hints.for_nodes).iter().map(|node| node.name.as_str()).collect();
    if validate_hinted(&zones, check_label_value, &path.child("forZones"), faults) {
        validate_hinted(&nodes, check_dns_subdomain, &path.child("forNodes"), faults);
    }
}

/// Whether there are not too many of these names, which are checked then.
fn validate_hinted(names: &[&str], check: fn(&str) -> Vec<String>, path: &Path, faults: &mut Faults) -> bool {
    faults.at_most(path, names.len(), HINTS_MAX);
    if names.len() > HINTS_MAX {
        return false;
    }
    let mut seen = BTreeSet::new();
    for (index, name) in names.iter().enumerate() {
        let path = path.index(index).child("name");
        faults.unique(&path, name, &mut seen);
        faults.form(&path, name, check);
    }
    true
}

/// Addresses of an unknown type are not judged.
fn validate_addresses(address_type: &str, addresses: &[String], path: &Path, faults: &mut Faults) {
    for (index, address) in addresses.iter().enumerate() {
        let at = path.index(index);
        match address_type {
            "FQDN" => validate_domain(address, &at, faults),
            "IPv4" | "IPv6" => validate_ip(address_type, address, path, &at, faults),
            _ => (),
        }
    }
}

/// A name of at least two labels, which may end with a dot.
///
/// Source: upstream `IsFullyQualifiedDomainName`.
fn validate_domain(address: &str, path: &Path, faults: &mut Faults) {
    let name = address.strip_suffix('.').unwrap_or(address);
    let labels: Vec<&str> = name.split('.').collect();
    if address.is_empty() {
        faults.required(path, "");
    } else if !check_dns_subdomain(name).is_empty() {
        faults.form(path, name, check_dns_subdomain);
    } else if labels.len() < 2 {
        faults.invalid(path, name, "should be a domain with at least two segments separated by dots");
    } else {
        labels.into_iter().for_each(|label| faults.form(path, label, check_dns_label));
    }
}

/// An address of the wrong family is reported at the list, independent of its form.
fn validate_ip(address_type: &str, address: &str, list: &Path, path: &Path, faults: &mut Faults) {
    let form = check_ip(address);
    let is_of_type = address.parse::<IpAddr>().is_ok_and(|ip| family(ip) == address_type);
    if !form.is_empty() {
        faults.form(path, address, check_ip);
    } else if !is_of_type {
        faults.invalid(list, address, format!("must be an {address_type} address"));
        faults.form(path, address, check_endpoint_ip);
    } else {
        faults.form(path, address, check_canonical_ip);
        faults.form(path, address, check_endpoint_ip);
    }
}
