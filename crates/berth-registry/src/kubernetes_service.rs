//! The Service `kubernetes`, through which clients in the cluster reach the API server. Tools wait for it when they
//! start.

use crate::{
    Actor, ApiError, Body, Collection, DeleteOptions, Patch, Registry, Target, WriteOptions, allocation::DEFAULT_CIDR, key,
    options::Precondition, resource, stored,
};
use berth_api::{
    Kind,
    ip::family,
    k8s_openapi::{
        api::{
            core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Service, ServicePort, ServiceSpec},
            discovery::v1::{Endpoint, EndpointConditions, EndpointPort as SlicePort, EndpointSlice},
            networking::v1::{ServiceCIDR, ServiceCIDRSpec},
        },
        apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
    },
};
use berth_store::{RangeRequest, Revision};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";
/// The field manager of these objects.
const SERVER: &str = "kube-apiserver";
const PORT_NAME: &str = "https";
/// The port of the Service, independent of the server's port.
const PORT: i32 = 443;
/// The label of a slice with the name of its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The maximum number of attempts to publish the servers after conflicts with other servers.
const ATTEMPTS: usize = 3;

/// The address at which clients outside the process reach the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    /// An address that is reachable from outside. `None`: there is none, and the Service has no endpoints.
    pub address: Option<IpAddr>,
    /// The port that the server listens on.
    pub port: u16,
}

impl Registry {
    /// Reconciles the ServiceCIDR, the Service, its Endpoints and its EndpointSlice, for the only server of a store.
    /// Call it at the start and periodically: it reverts deletions and changes by users.
    ///
    /// # Errors
    /// Errors of the store, or another Service has the first address of the range.
    pub async fn publish_server(&self, server: ServerAddress) -> Result<(), ApiError> {
        self.publish_range().await?;
        self.publish_service(server.port).await?;
        let found = self.published().await?;
        let servers: Vec<_> = server.address.map(|address| SocketAddr::new(address, server.port)).into_iter().collect();
        match self.publish_all(found, &servers).await {
            // Another writer was first. The next call reconciles again.
            Err(ApiError::Conflict { .. } | ApiError::AlreadyExists { .. } | ApiError::NotFound { .. }) => Ok(()),
            published => published,
        }
    }

    /// Reconciles the same for one of several servers of a store, with all servers that are alive. If none is alive, it
    /// removes nothing, because a server may be about to come back.
    ///
    /// # Errors
    /// As [`Registry::publish_server`], or several conflicts with other servers.
    pub async fn publish_living_servers(&self, server: ServerAddress) -> Result<(), ApiError> {
        self.publish_range().await?;
        let mut tries = 1..ATTEMPTS;
        loop {
            // Read before the list of live servers: what another server publishes after it is newer and must not be
            // overwritten.
            let found = self.published().await?;
            let living = self.living_servers().await?.servers;
            // All servers must agree on one port, because the Service has only one.
            self.publish_service(
                living.first().map_or(server.port, |first| living.iter().map(SocketAddr::port).fold(first.port(), u16::min)),
            )
            .await?;
            if living.is_empty() {
                return Ok(());
            }
            match self.publish_all(found, &living).await {
                Err(ApiError::Conflict { .. } | ApiError::NotFound { .. } | ApiError::AlreadyExists { .. }) if tries.next().is_some() => (),
                published => return published,
            }
        }
    }

    async fn publish_range(&self) -> Result<(), ApiError> {
        let spec = ServiceCIDRSpec { cidrs: Some(vec![self.chain.allocator.ranges.cluster_ips.network().to_string()]) };
        let metadata = ObjectMeta { name: Some(DEFAULT_CIDR.to_owned()), ..ObjectMeta::default() };
        if self.find::<ServiceCIDR>(None).await?.is_none() {
            self.make(None, ServiceCIDR { metadata, spec: Some(spec), status: None }).await?;
        }
        Ok(())
    }

    /// Returns the published Endpoints and EndpointSlices.
    async fn published(&self) -> Result<Published, ApiError> {
        let endpoints = self.find_at::<Endpoints>(Some(NAMESPACE)).await?;
        let resource = resource::of::<EndpointSlice>();
        let request = RangeRequest::all(key::key_of(resource, Some(NAMESPACE), NAME).as_str());
        let mut slices = BTreeMap::new();
        for entry in self.storage.store.range(request).await?.entries {
            if !is_ours(entry.name()) {
                continue;
            }
            let Some(slice) = stored::load(resource, &entry)?.downcast_ref::<EndpointSlice>().cloned() else { continue };
            slices.insert(entry.name().to_owned(), (slice, entry.mod_revision));
        }
        Ok(Published { endpoints, slices })
    }

    /// Writes the wanted objects, if the found ones are unchanged.
    async fn publish_all(&self, found: Published, servers: &[SocketAddr]) -> Result<(), ApiError> {
        let Published { endpoints: found, mut slices } = found;
        match (found, servers) {
            (Some((_, revision)), []) => self.withdraw::<Endpoints>(NAME, revision).await?,
            (None, []) => (),
            (found, _) => self.publish(NAME, found, endpoints(servers), "subsets").await?,
        }
        for (name, wanted) in wanted_slices(servers) {
            let found = slices.remove(&name);
            self.publish(&name, found, wanted, "endpoints").await?;
        }
        for (name, (_, revision)) in slices {
            self.withdraw::<EndpointSlice>(&name, revision).await?;
        }
        Ok(())
    }

    async fn publish_service(&self, port: u16) -> Result<(), ApiError> {
        let wanted = self.service(port);
        let ports = wanted.spec.as_ref().and_then(|spec| spec.ports.clone());
        match self.find::<Service>(Some(NAMESPACE)).await? {
            None => self.make(Some(NAMESPACE), wanted).await,
            Some(found) if found.spec.as_ref().and_then(|spec| spec.ports.clone()) == ports => Ok(()),
            Some(_) => self.change::<Service>(NAME, json!({"spec": {"type": "ClusterIP", "ports": ports}})).await,
        }
    }

    fn service(&self, port: u16) -> Service {
        let labels = [("component", "apiserver"), ("provider", NAME)].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let port = ServicePort {
            name: Some(PORT_NAME.to_owned()),
            port: PORT,
            protocol: Some("TCP".to_owned()),
            target_port: Some(IntOrString::Int(port.into())),
            ..ServicePort::default()
        };
        let spec = ServiceSpec {
            cluster_ip: Some(self.chain.allocator.ranges.cluster_ips.host(0).to_string()),
            ports: Some(vec![port]),
            ..ServiceSpec::default()
        };
        let metadata = ObjectMeta { labels: Some(labels.into()), ..meta(NAME) };
        Service { metadata, spec: Some(spec), status: None }
    }

    /// Writes one object if its `member` differs from the wanted one, and if the found one is unchanged.
    async fn publish<K: Kind>(&self, name: &str, found: Option<(K, Revision)>, wanted: K, member: &str) -> Result<(), ApiError> {
        let tree = |object: &K| -> Value { serde_json::to_value(object).expect("API types have string keys only") };
        match found {
            None => self.create_in(Some(NAMESPACE), wanted).await,
            Some((found, revision)) => {
                let (found, mut wanted) = (tree(&found), tree(&wanted));
                let is_same = |member: &str| found.get(member) == wanted.get(member);
                if is_same(member) && is_same("ports") {
                    return Ok(());
                }
                let mut patch = json!({"metadata": {"resourceVersion": revision.to_string()}, member: wanted[member].take()});
                if let Some(ports) = wanted.get_mut("ports") {
                    patch["ports"] = ports.take();
                }
                self.change::<K>(name, patch).await
            }
        }
    }

    async fn find<K: Kind>(&self, namespace: Option<&str>) -> Result<Option<K>, ApiError> {
        Ok(self.find_at::<K>(namespace).await?.map(|(found, _)| found))
    }

    async fn find_at<K: Kind>(&self, namespace: Option<&str>) -> Result<Option<(K, Revision)>, ApiError> {
        let resource = resource::of::<K>();
        let Some(entry) = self.storage.store.get(&key::key_of(resource, namespace, NAME)).await? else { return Ok(None) };
        Ok(stored::load(resource, &entry)?.downcast_ref::<K>().cloned().map(|found| (found, entry.mod_revision)))
    }

    /// Another server may create it first.
    async fn make<K: Kind>(&self, namespace: Option<&str>, object: K) -> Result<(), ApiError> {
        match self.create_in(namespace, object).await {
            Err(ApiError::AlreadyExists { .. }) => Ok(()),
            made => made,
        }
    }

    async fn create_in<K: Kind>(&self, namespace: Option<&str>, object: K) -> Result<(), ApiError> {
        let at = Collection { resource: Arc::clone(resource::of::<K>()), namespace: namespace.map(str::to_owned) };
        self.create(&Actor::System, &at, Body::Object(Box::new(object)), &options()).await.map(drop)
    }

    async fn change<K: Kind>(&self, name: &str, patch: Value) -> Result<(), ApiError> {
        self.patch(&Actor::System, &target::<K>(name), Patch::MergeValue(patch), &options()).await.map(drop)
    }

    async fn withdraw<K: Kind>(&self, name: &str, revision: Revision) -> Result<(), ApiError> {
        let precondition = Precondition { resource_version: Some(revision.to_string()), ..Precondition::default() };
        let options = DeleteOptions { precondition, ..DeleteOptions::default() };
        match self.delete(&Actor::System, &target::<K>(name), &options).await {
            Ok(_) | Err(ApiError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The published Endpoints and EndpointSlices, each with its revision.
struct Published {
    endpoints: Option<(Endpoints, Revision)>,
    slices: BTreeMap<String, (EndpointSlice, Revision)>,
}

/// Returns the servers of each port, in order.
fn by_port(servers: &[SocketAddr]) -> BTreeMap<u16, Vec<IpAddr>> {
    let mut by_port = BTreeMap::<_, Vec<_>>::new();
    for server in servers {
        by_port.entry(server.port()).or_default().push(server.ip());
    }
    by_port
}

fn endpoints(servers: &[SocketAddr]) -> Endpoints {
    // The server creates the slices itself, so the mirroring controller must skip these Endpoints.
    let labels = [("endpointslice.kubernetes.io/skip-mirror".to_owned(), "true".to_owned())].into();
    let port = |port: u16| EndpointPort {
        name: Some(PORT_NAME.to_owned()),
        port: port.into(),
        protocol: Some("TCP".to_owned()),
        ..EndpointPort::default()
    };
    let address = |address: &IpAddr| EndpointAddress { ip: address.to_string(), ..EndpointAddress::default() };
    let subset = |(at, addresses): (u16, Vec<IpAddr>)| EndpointSubset {
        addresses: Some(addresses.iter().map(address).collect()),
        ports: Some(vec![port(at)]),
        ..EndpointSubset::default()
    };
    let subsets = by_port(servers).into_iter().map(subset).collect();
    Endpoints { metadata: ObjectMeta { labels: Some(labels), ..meta(NAME) }, subsets: Some(subsets) }
}

/// The name prefixes of further slices, by address family. The port follows.
const MORE: [&str; 2] = ["kubernetes-ipv4-", "kubernetes-ipv6-"];

/// Whether this server creates slices of this name. Other slices may have the same prefix.
fn is_ours(name: &str) -> bool {
    name == NAME || MORE.iter().any(|more| name.strip_prefix(more).is_some_and(|port| port.parse::<u16>().is_ok()))
}

/// Returns the slices by name. A slice has addresses of one family and one list of ports. The first has upstream's
/// name.
fn wanted_slices(servers: &[SocketAddr]) -> Vec<(String, EndpointSlice)> {
    let mut slices: Vec<(String, EndpointSlice)> = Vec::new();
    for (port, addresses) in by_port(servers) {
        let (four, six): (Vec<IpAddr>, Vec<IpAddr>) = addresses.into_iter().partition(IpAddr::is_ipv4);
        for addresses in [four, six].into_iter().filter(|addresses| !addresses.is_empty()) {
            let name = if slices.is_empty() { NAME.to_owned() } else { format!("{}{port}", MORE[usize::from(addresses[0].is_ipv6())]) };
            slices.push((name.clone(), slice(&name, &addresses, port)));
        }
    }
    slices
}

fn slice(name: &str, addresses: &[IpAddr], port: u16) -> EndpointSlice {
    let labels = [(SERVICE_NAME.to_owned(), NAME.to_owned())].into();
    let endpoint = |address: &IpAddr| Endpoint {
        addresses: vec![address.to_string()],
        conditions: Some(EndpointConditions { ready: Some(true), ..EndpointConditions::default() }),
        ..Endpoint::default()
    };
    let port =
        SlicePort { name: Some(PORT_NAME.to_owned()), port: Some(port.into()), protocol: Some("TCP".to_owned()), ..SlicePort::default() };
    EndpointSlice {
        address_type: family(addresses[0]).to_owned(),
        endpoints: Some(addresses.iter().map(endpoint).collect()),
        metadata: ObjectMeta { labels: Some(labels), ..meta(name) },
        ports: Some(vec![port]),
    }
}

fn meta(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), namespace: Some(NAMESPACE.to_owned()), ..ObjectMeta::default() }
}

fn options() -> WriteOptions {
    WriteOptions { field_manager: SERVER.to_owned(), ..WriteOptions::default() }
}

fn target<K: Kind>(name: &str) -> Target {
    Target { resource: Arc::clone(resource::of::<K>()), namespace: Some(NAMESPACE.to_owned()), name: name.to_owned(), subresource: None }
}
