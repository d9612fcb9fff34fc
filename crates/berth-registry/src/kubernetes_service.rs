//! The Service `kubernetes`: how the API server is reached from inside the cluster. Tools wait for it when they start.

use crate::{
    ApiError, Body, Collection, DeleteOptions, Patch, Registry, Target, WriteOptions, allocation::DEFAULT_CIDR, key, resource, stored,
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
use serde_json::{Value, json};
use std::{net::IpAddr, sync::Arc};

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";
/// Who makes these objects.
const SERVER: &str = "kube-apiserver";
const PORT_NAME: &str = "https";
/// The port of the Service, whatever the server's is.
const PORT: i32 = 443;

/// Where the API server is reached from outside itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    /// An address that others can reach; `None`: there is none, and the Service has no endpoints.
    pub address: Option<IpAddr>,
    /// The port that the server listens on.
    pub port: u16,
}

impl Registry {
    /// Makes the ServiceCIDR, the Service, its Endpoints and its EndpointSlice what they should be. To be called when the server starts and
    /// now and then: what somebody deletes or changes comes back.
    ///
    /// # Errors
    /// The store's; a first address of the range that another Service has.
    pub async fn publish_server(&self, server: ServerAddress) -> Result<(), ApiError> {
        let spec = ServiceCIDRSpec { cidrs: Some(vec![self.ranges.cluster_ips.network().to_string()]) };
        let metadata = ObjectMeta { name: Some(DEFAULT_CIDR.to_owned()), ..ObjectMeta::default() };
        if self.find::<ServiceCIDR>(None).await?.is_none() {
            self.make(None, ServiceCIDR { metadata, spec: Some(spec), status: None }).await?;
        }
        self.publish_service(server.port).await?;
        match server.address {
            Some(address) => {
                self.publish(endpoints(address, server.port), "subsets").await?;
                self.publish(slice(address, server.port), "endpoints").await
            }
            None => {
                self.withdraw::<Endpoints>().await?;
                self.withdraw::<EndpointSlice>().await
            }
        }
    }

    async fn publish_service(&self, port: u16) -> Result<(), ApiError> {
        let wanted = self.service(port);
        let ports = wanted.spec.as_ref().and_then(|spec| spec.ports.clone());
        match self.find::<Service>(Some(NAMESPACE)).await? {
            None => self.make(Some(NAMESPACE), wanted).await,
            Some(found) if found.spec.as_ref().and_then(|spec| spec.ports.clone()) == ports => Ok(()),
            Some(_) => self.change::<Service>(json!({"spec": {"type": "ClusterIP", "ports": ports}})).await,
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
            cluster_ip: Some(self.ranges.cluster_ips.host(0).to_string()),
            ports: Some(vec![port]),
            ..ServiceSpec::default()
        };
        let metadata = ObjectMeta { labels: Some(labels.into()), ..meta() };
        Service { metadata, spec: Some(spec), status: None }
    }

    /// Makes an object what is wanted, by the member that says it.
    async fn publish<K: Kind>(&self, wanted: K, member: &str) -> Result<(), ApiError> {
        let tree = |object: &K| -> Value { serde_json::to_value(object).expect("API types have string keys only") };
        match self.find::<K>(Some(NAMESPACE)).await? {
            None => self.make(Some(NAMESPACE), wanted).await,
            Some(found) => {
                let (found, mut wanted) = (tree(&found), tree(&wanted));
                let is_same = |member: &str| found.get(member) == wanted.get(member);
                if is_same(member) && is_same("ports") {
                    return Ok(());
                }
                let mut patch = json!({member: wanted[member].take()});
                if let Some(ports) = wanted.get_mut("ports") {
                    patch["ports"] = ports.take();
                }
                self.change::<K>(patch).await
            }
        }
    }

    async fn find<K: Kind>(&self, namespace: Option<&str>) -> Result<Option<K>, ApiError> {
        let resource = resource::of::<K>();
        let Some(entry) = self.store.get(&key::key_of(resource, namespace, NAME)).await? else { return Ok(None) };
        Ok(stored::load(resource, &entry)?.downcast_ref::<K>().cloned())
    }

    /// Another server may have been quicker.
    async fn make<K: Kind>(&self, namespace: Option<&str>, object: K) -> Result<(), ApiError> {
        let at = Collection { resource: Arc::clone(resource::of::<K>()), namespace: namespace.map(str::to_owned) };
        match self.create(&at, Body::Object(Box::new(object)), &options()).await {
            Ok(_) | Err(ApiError::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn change<K: Kind>(&self, patch: Value) -> Result<(), ApiError> {
        self.patch(&target::<K>(), Patch::MergeValue(patch), &options()).await.map(drop)
    }

    async fn withdraw<K: Kind>(&self) -> Result<(), ApiError> {
        if self.find::<K>(Some(NAMESPACE)).await?.is_none() {
            return Ok(());
        }
        match self.delete(&target::<K>(), &DeleteOptions::default()).await {
            Ok(_) | Err(ApiError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn endpoints(address: IpAddr, port: u16) -> Endpoints {
    // The server makes the slice too: nobody has to copy these.
    let labels = [("endpointslice.kubernetes.io/skip-mirror".to_owned(), "true".to_owned())].into();
    let port =
        EndpointPort { name: Some(PORT_NAME.to_owned()), port: port.into(), protocol: Some("TCP".to_owned()), ..EndpointPort::default() };
    let subset = EndpointSubset {
        addresses: Some(vec![EndpointAddress { ip: address.to_string(), ..EndpointAddress::default() }]),
        ports: Some(vec![port]),
        ..EndpointSubset::default()
    };
    Endpoints { metadata: ObjectMeta { labels: Some(labels), ..meta() }, subsets: Some(vec![subset]) }
}

fn slice(address: IpAddr, port: u16) -> EndpointSlice {
    let labels = [("kubernetes.io/service-name".to_owned(), NAME.to_owned())].into();
    let conditions = EndpointConditions { ready: Some(true), ..EndpointConditions::default() };
    let endpoint = Endpoint { addresses: vec![address.to_string()], conditions: Some(conditions), ..Endpoint::default() };
    let port =
        SlicePort { name: Some(PORT_NAME.to_owned()), port: Some(port.into()), protocol: Some("TCP".to_owned()), ..SlicePort::default() };
    EndpointSlice {
        address_type: family(address).to_owned(),
        endpoints: Some(vec![endpoint]),
        metadata: ObjectMeta { labels: Some(labels), ..meta() },
        ports: Some(vec![port]),
    }
}

fn meta() -> ObjectMeta {
    ObjectMeta { name: Some(NAME.to_owned()), namespace: Some(NAMESPACE.to_owned()), ..ObjectMeta::default() }
}

fn options() -> WriteOptions {
    WriteOptions { field_manager: SERVER.to_owned(), ..WriteOptions::default() }
}

fn target<K: Kind>() -> Target {
    Target { resource: Arc::clone(resource::of::<K>()), namespace: Some(NAMESPACE.to_owned()), name: NAME.to_owned(), subresource: None }
}
