//! The address of a webhook's Service.
//!
//! berth's pods are simulated and serve nothing. So a Service has an address only if an option names one, or if a user
//! or a program outside the cluster wrote its endpoints.

use berth_admission::ServiceReference;
use berth_api::decode::Codec;
use berth_api::k8s_openapi::api::{
    core::v1::{Endpoints, Service, ServicePort},
    discovery::v1::EndpointSlice,
};
use berth_registry::{Actor, ApiError, Collection, Current, GetOptions, ListOptions, Registry, Target, resource};
use std::{collections::BTreeMap, net::IpAddr, str::FromStr};

/// The label of the controller that made an EndpointSlice.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The controllers whose slices list pods.
const OF_PODS: [&str; 2] = ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];
/// The label with the name of a slice's Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The kind of an endpoint that is a pod.
const POD: &str = "Pod";

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// A name or an IP address.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// The addresses of Services that an option names: `NAMESPACE/NAME=HOST:PORT`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceAddresses(BTreeMap<(String, String), Address>);

/// Why the address of a Service cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not NAMESPACE/NAME=HOST:PORT")]
pub struct AddressError(String);

impl ServiceAddresses {
    /// Adds an address, in the form of the option.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn add(&mut self, text: &str) -> Result<(), AddressError> {
        let (service, address) = parse(text).ok_or_else(|| AddressError(text.to_owned()))?;
        self.0.insert(service, address);
        Ok(())
    }

    fn find(&self, service: &ServiceReference) -> Option<&Address> {
        self.0.get(&(service.namespace.clone(), service.name.clone()))
    }
}

impl FromStr for ServiceAddresses {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let mut addresses = Self::default();
        addresses.add(text).map(|()| addresses)
    }
}

fn parse(text: &str) -> Option<((String, String), Address)> {
    let (service, address) = text.split_once('=')?;
    let (namespace, name) = service.split_once('/')?;
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = port.parse().ok().filter(|port| *port > 0)?;
    let is_complete = [namespace, name, host].iter().all(|part| !part.is_empty()) && !name.contains('/');
    is_complete.then(|| ((namespace.to_owned(), name.to_owned()), Address { host: host.to_owned(), port }))
}

/// Why a Service has no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoAddress {
    /// It does not exist.
    #[error("service {0:?} not found")]
    NotFound(String),
    /// It has no such port.
    #[error("no service port {port} found for service {name:?}")]
    NoPort {
        /// The port.
        port: u16,
        /// Its name.
        name: String,
    },
    /// Its endpoints are simulated pods, or it has none.
    #[error(
        "no endpoints available for service {name:?}: the pods of this cluster are simulated (berth up --service-resolver \
         {namespace}/{name}=HOST:PORT names a server)"
    )]
    Simulated {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The store did not answer.
    #[error("{0}")]
    Unknown(String),
}

/// Finds the addresses of Services.
pub(crate) struct Services {
    pub(crate) named: ServiceAddresses,
    pub(crate) registry: Registry,
}

impl Services {
    /// Returns an address at which a real server can answer.
    pub(crate) async fn resolve(&self, reference: &ServiceReference) -> Result<Address, NoAddress> {
        if let Some(address) = self.named.find(reference) {
            return Ok(address.clone());
        }
        let service = self.service(reference).await?;
        let spec = service.spec.unwrap_or_default();
        let ports = spec.ports.unwrap_or_default();
        let port = ports.iter().find(|port| port.port == i32::from(reference.port));
        let port = port.ok_or_else(|| NoAddress::NoPort { port: reference.port, name: reference.name.clone() })?;
        if let (Some("ExternalName"), Some(host)) = (spec.type_.as_deref(), spec.external_name) {
            return Ok(Address { host, port: reference.port });
        }
        let found = match self.of_slices(reference, port).await? {
            Some(address) => Some(address),
            None => self.of_endpoints(reference, port).await?,
        };
        found.ok_or_else(|| NoAddress::Simulated { namespace: reference.namespace.clone(), name: reference.name.clone() })
    }

    async fn service(&self, reference: &ServiceReference) -> Result<Service, NoAddress> {
        let found = self.registry.get(&target::<Service>(reference), &GetOptions::default()).await;
        match found {
            Ok(Current::Stored(entry)) => Service::decode_json(&entry.value).map_err(|error| NoAddress::Unknown(error.to_string())),
            Ok(Current::Made(_)) | Err(ApiError::NotFound { .. }) => Err(NoAddress::NotFound(reference.name.clone())),
            Err(error) => Err(NoAddress::Unknown(error.to_string())),
        }
    }

    async fn of_slices(&self, reference: &ServiceReference, port: &ServicePort) -> Result<Option<Address>, NoAddress> {
        let at = Collection { resource: resource::of::<EndpointSlice>().clone(), namespace: Some(reference.namespace.clone()) };
        let options = ListOptions { label_selector: format!("{SERVICE_NAME}={}", reference.name), ..ListOptions::default() };
        let list = self.registry.list(&Actor::System, &at, &options).await.map_err(|error| NoAddress::Unknown(error.to_string()))?;
        let slices = list.items.iter().filter_map(|entry| EndpointSlice::decode_json(&entry.value).ok());
        Ok(slices.filter(is_real).find_map(|slice| of_slice(&slice, port)))
    }

    async fn of_endpoints(&self, reference: &ServiceReference, port: &ServicePort) -> Result<Option<Address>, NoAddress> {
        match self.registry.get(&target::<Endpoints>(reference), &GetOptions::default()).await {
            Ok(Current::Stored(entry)) => {
                Ok(Endpoints::decode_json(&entry.value).ok().and_then(|endpoints| of_endpoints(&endpoints, port)))
            }
            Ok(Current::Made(_)) | Err(ApiError::NotFound { .. }) => Ok(None),
            Err(error) => Err(NoAddress::Unknown(error.to_string())),
        }
    }
}

fn target<K: berth_api::Kind>(reference: &ServiceReference) -> Target {
    Target {
        resource: resource::of::<K>().clone(),
        namespace: Some(reference.namespace.clone()),
        name: reference.name.clone(),
        subresource: None,
    }
}

/// Whether no controller made the slice of pods.
fn is_real(slice: &EndpointSlice) -> bool {
    let manager = slice.metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY));
    !manager.is_some_and(|manager| OF_PODS.contains(&manager.as_str()))
}

fn of_slice(slice: &EndpointSlice, port: &ServicePort) -> Option<Address> {
    let number = slice
        .ports
        .iter()
        .flatten()
        .find(|own| own.name.as_deref().unwrap_or_default() == port.name.as_deref().unwrap_or_default())?
        .port?;
    let is_ready = |endpoint: &&berth_api::k8s_openapi::api::discovery::v1::Endpoint| {
        endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
    };
    let is_pod = |endpoint: &&berth_api::k8s_openapi::api::discovery::v1::Endpoint| {
        endpoint.target_ref.as_ref().and_then(|target| target.kind.as_deref()) == Some(POD)
    };
    let endpoint = slice.endpoints.iter().flatten().filter(is_ready).find(|endpoint| !is_pod(endpoint))?;
    address(endpoint.addresses.first()?, number)
}

fn of_endpoints(endpoints: &Endpoints, port: &ServicePort) -> Option<Address> {
    endpoints.subsets.iter().flatten().find_map(|subset| {
        let own = subset
            .ports
            .iter()
            .flatten()
            .find(|own| own.name.as_deref().unwrap_or_default() == port.name.as_deref().unwrap_or_default())?;
        let is_pod = |target: &Option<berth_api::k8s_openapi::api::core::v1::ObjectReference>| {
            target.as_ref().and_then(|target| target.kind.as_deref()) == Some(POD)
        };
        let real = subset.addresses.iter().flatten().find(|address| !is_pod(&address.target_ref))?;
        address(&real.ip, own.port)
    })
}

/// An endpoint that is no IP address could be any name.
fn address(ip: &str, port: i32) -> Option<Address> {
    ip.parse::<IpAddr>().ok()?;
    Some(Address { host: ip.to_owned(), port: u16::try_from(port).ok().filter(|port| *port > 0)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn the_option_names_a_service_and_an_address() {
        let address = |text: &str| text.parse::<ServiceAddresses>().map(|all| all.0.into_iter().next().expect("one"));
        let named = |host: &str| Ok((("a".to_owned(), "b".to_owned()), Address { host: host.to_owned(), port: 8443 }));
        assert_eq!(address("a/b=localhost:8443"), named("localhost"));
        assert_eq!(address("a/b=[::1]:8443"), named("::1"));
        for wrong in ["", "a", "a/b", "a=b:1", "a/b=c", "a/b=:1", "a/b=c:0", "a/b=c:x", "/b=c:1", "a/=c:1", "a/b/c=d:1"] {
            assert_eq!(address(wrong), Err(AddressError(wrong.to_owned())));
        }
    }

    fn slice(slice: Value) -> Option<Address> {
        let mut whole = json!({"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": [{"addresses": ["127.0.0.1"]}], "ports": [{"port": 9443}]});
        for (name, value) in slice.as_object().expect("an object") {
            whole[name] = value.clone();
        }
        let slice: EndpointSlice = serde_json::from_value(whole).expect("a slice");
        Some(slice).filter(is_real).and_then(|slice| of_slice(&slice, &ServicePort { port: 443, ..ServicePort::default() }))
    }

    #[test]
    fn endpoints_that_are_simulated_pods_have_no_address() {
        let found = Some(Address { host: "127.0.0.1".to_owned(), port: 9443 });
        assert_eq!(slice(json!({})), found);
        assert_eq!(slice(json!({"metadata": {"labels": {MANAGED_BY: "by-hand"}}})), found);
        assert_eq!(slice(json!({"metadata": {"labels": {MANAGED_BY: OF_PODS[0]}}})), None);
        assert_eq!(slice(json!({"endpoints": [{"addresses": ["127.0.0.1"], "targetRef": {"kind": "Pod", "name": "p"}}]})), None);
        assert_eq!(slice(json!({"endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": false}}]})), None);
        assert_eq!(slice(json!({"endpoints": [{"addresses": ["example.com"]}]})), None);
        assert_eq!(slice(json!({"ports": [{"name": "other", "port": 1}]})), None);
    }
}
