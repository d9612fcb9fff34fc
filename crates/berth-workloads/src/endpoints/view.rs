//! What is read of Services, of pods as their endpoints, of nodes, and of what was written about them.

use crate::{
    resources::{ENDPOINTS, SERVICES, SLICES, reference},
    selector::{Labels, Selector},
    view::{Identity, View, WireMetadata, read_metadata},
};
use berth_api::decode::{Codec, from_json};
use berth_identity::{Name, Namespace, NodeName, ObjectRef, Revision, Uid};
use k8s_openapi::{
    api::{
        core::v1::{EndpointSubset, Endpoints, LoadBalancerStatus, Service, ServicePort},
        discovery::v1::EndpointSlice,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use serde::Deserialize;
use std::net::IpAddr;

/// The label with a node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// What is read of a Service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceView {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: Name,
    /// Its uid.
    pub uid: Uid,
    /// The resource version.
    pub revision: Revision,
    /// Whether its `deletionTimestamp` is set.
    pub deleting: bool,
    /// Its labels.
    pub labels: Labels,
    /// The selector of its pods. `None` if another component manages its endpoints.
    pub selector: Option<Selector>,
    /// Its ports.
    pub ports: Vec<ServicePort>,
    /// Its address families, `IPv4` or `IPv6`.
    pub families: Vec<String>,
    /// Whether it has no cluster IP.
    pub is_headless: bool,
    /// Whether it is only an alias for an external name.
    pub is_external: bool,
    /// Whether unready pods count as ready.
    pub publishes_not_ready: bool,
    /// Whether it requests a load balancer of the cluster's default class.
    pub wants_balancer: bool,
    /// Whether its type is LoadBalancer, whatever its class.
    pub is_balancer: bool,
    /// The load balancer in its status.
    pub balancer: LoadBalancerStatus,
}

impl View for ServiceView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let Service { metadata, spec, status } = Service::decode_json(json)?;
        let spec = spec.unwrap_or_default();
        let match_labels = spec.selector.filter(|selector| !selector.is_empty());
        let selector =
            match_labels.and_then(|labels| Selector::parse(&LabelSelector { match_labels: Some(labels), ..LabelSelector::default() }));
        let type_ = spec.type_.unwrap_or_default();
        let (is_balancer, deleting) = (type_ == "LoadBalancer", metadata.deletion_timestamp.is_some());
        Ok(Self {
            namespace: metadata.namespace.into(),
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            revision,
            deleting,
            labels: metadata.labels.unwrap_or_default().into_iter().collect(),
            selector,
            ports: spec.ports.unwrap_or_default(),
            families: spec.ip_families.unwrap_or_else(|| vec!["IPv4".to_owned()]),
            is_headless: spec.cluster_ip.as_deref() == Some("None"),
            is_external: type_ == "ExternalName",
            publishes_not_ready: spec.publish_not_ready_addresses.unwrap_or(false),
            is_balancer,
            wants_balancer: is_balancer && spec.load_balancer_class.is_none() && !deleting,
            balancer: status.and_then(|status| status.load_balancer).unwrap_or_default(),
        })
    }

    fn identity(&self) -> Identity<'_> {
        Identity { namespace: Some(&self.namespace), name: &self.name, uid: &self.uid, is_being_deleted: self.deleting }
    }
}

impl ServiceView {
    /// The Service, in the version of this view.
    #[must_use]
    pub fn reference(&self) -> ObjectRef {
        self.identity().reference(SERVICES, self.revision)
    }

    /// Whether the Service selects this pod.
    #[must_use]
    pub fn selects(&self, pod: &EndpointPodView) -> bool {
        self.namespace == pod.namespace && self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
    }
}

/// A named port of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedPort {
    /// Its name.
    pub name: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Its number.
    pub number: i32,
}

/// What is read of a pod as an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointPodView {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: Name,
    /// Its uid.
    pub uid: Uid,
    /// Its labels.
    pub labels: Labels,
    /// Its addresses; none until it runs.
    pub addresses: Vec<IpAddr>,
    /// Where it runs.
    pub node_name: NodeName,
    /// `spec.hostname`.
    pub hostname: String,
    /// `spec.subdomain`.
    pub subdomain: String,
    /// The condition Ready is True.
    pub is_ready: bool,
    /// It is being deleted.
    pub is_terminating: bool,
    /// It has run to its end.
    pub is_finished: bool,
    /// Ports of its containers that have a name.
    pub ports: Vec<NamedPort>,
}

#[derive(Deserialize)]
struct Pod {
    metadata: WireMetadata,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    node_name: Option<NodeName>,
    hostname: Option<String>,
    subdomain: Option<String>,
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    ports: Option<Vec<ContainerPort>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerPort {
    name: Option<String>,
    protocol: Option<String>,
    container_port: i32,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodStatus {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(rename = "podIPs")]
    pod_ips: Option<Vec<PodIp>>,
    conditions: Option<Vec<Condition>>,
}

#[derive(Deserialize)]
struct PodIp {
    ip: Option<String>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: Option<String>,
}

impl View for EndpointPodView {
    fn decode(json: &[u8], _: Revision) -> Result<Self, serde_json::Error> {
        let Pod { metadata, spec, status } = from_json(json)?;
        let named = |port: &ContainerPort| {
            let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
            Some(NamedPort { name: port.name.clone()?, protocol, number: port.container_port })
        };
        let several = status.pod_ips.iter().flatten().filter_map(|ip| ip.ip.as_deref());
        let mut addresses: Vec<IpAddr> = several.filter_map(|ip| ip.parse().ok()).collect();
        if addresses.is_empty() {
            addresses.extend(status.pod_ip.as_deref().and_then(|ip| ip.parse::<IpAddr>().ok()));
        }
        Ok(Self {
            namespace: metadata.namespace.into(),
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            labels: metadata.labels.unwrap_or_default(),
            addresses,
            ports: spec.containers.iter().flat_map(|container| container.ports.iter().flatten()).filter_map(named).collect(),
            node_name: spec.node_name.unwrap_or_default(),
            hostname: spec.hostname.unwrap_or_default(),
            subdomain: spec.subdomain.unwrap_or_default(),
            is_ready: status.conditions.iter().flatten().any(|one| one.type_ == "Ready" && one.status.as_deref() == Some("True")),
            is_terminating: metadata.deletion_timestamp.is_some(),
            is_finished: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
        })
    }

    fn identity(&self) -> Identity<'_> {
        Identity { namespace: Some(&self.namespace), name: &self.name, uid: &self.uid, is_being_deleted: self.is_terminating }
    }
}

impl EndpointPodView {
    /// Its address of a family.
    #[must_use]
    pub fn address(&self, family: &str) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|address| berth_api::ip::family(*address) == family)
    }
}

/// What is read of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneView {
    /// Its name.
    pub name: Name,
    /// Its uid.
    pub uid: Uid,
    /// Its zone; empty: it has none.
    pub zone: String,
}

impl View for ZoneView {
    fn decode(json: &[u8], _: Revision) -> Result<Self, serde_json::Error> {
        let metadata: WireMetadata = read_metadata(json)?;
        let zone = metadata.labels.as_ref().and_then(|labels| labels.get(ZONE)).unwrap_or_default().to_owned();
        Ok(Self { name: metadata.name.into(), uid: metadata.uid.into(), zone })
    }

    fn identity(&self) -> Identity<'_> {
        Identity { namespace: None, name: &self.name, uid: &self.uid, is_being_deleted: false }
    }
}

/// An EndpointSlice with its resource version.
#[derive(Clone, Debug, PartialEq)]
pub struct SliceView {
    /// Which one it is.
    pub id: ObjectRef,
    /// All of it but the resource version and who owns which fields.
    pub slice: EndpointSlice,
}

impl View for SliceView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let mut slice = EndpointSlice::decode_json(json)?;
        slice.metadata.managed_fields = None;
        Ok(Self { id: reference(SLICES, &slice.metadata, revision), slice })
    }

    fn identity(&self) -> Identity<'_> {
        Identity::new(&self.id, &self.slice.metadata)
    }
}

impl SliceView {
    pub(super) fn reference(&self) -> ObjectRef {
        self.id.clone()
    }
}

/// An Endpoints object with its resource version.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointsView {
    /// Which ones.
    pub id: ObjectRef,
    /// Its metadata without who owns which fields.
    pub metadata: ObjectMeta,
    /// Where the Service leads.
    pub subsets: Vec<EndpointSubset>,
}

impl View for EndpointsView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let Endpoints { mut metadata, subsets } = Endpoints::decode_json(json)?;
        metadata.managed_fields = None;
        Ok(Self { id: reference(ENDPOINTS, &metadata, revision), metadata, subsets: subsets.unwrap_or_default() })
    }

    fn identity(&self) -> Identity<'_> {
        Identity::new(&self.id, &self.metadata)
    }
}

impl EndpointsView {
    pub(super) fn reference(&self) -> ObjectRef {
        self.id.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(json: &Value) -> EndpointPodView {
        EndpointPodView::decode(json.to_string().as_bytes(), Revision(1)).expect("a pod")
    }

    #[test]
    fn a_pod_is_read_as_an_endpoint() {
        let read = pod(&json!({
            "metadata": {"namespace": "ns", "name": "p", "uid": "u", "labels": {"app": "web"}},
            "spec": {"nodeName": "n1", "hostname": "web-0", "subdomain": "web", "containers": [
                {"ports": [{"name": "http", "containerPort": 80}, {"containerPort": 81}]},
                {"ports": [{"name": "dns", "containerPort": 53, "protocol": "UDP"}]}, {},
            ]},
            "status": {
                "phase": "Running", "podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}, {"ip": "?"}],
                "conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}],
            },
        }));
        let port = |name: &str, protocol: &str, number| NamedPort { name: name.to_owned(), protocol: protocol.to_owned(), number };
        let wanted = EndpointPodView {
            namespace: "ns".into(),
            name: "p".into(),
            uid: "u".into(),
            labels: [("app", "web")].into(),
            addresses: ["10.0.0.1", "fd00::1"].map(|address| address.parse().expect("an address")).into(),
            node_name: "n1".into(),
            hostname: "web-0".to_owned(),
            subdomain: "web".to_owned(),
            is_ready: true,
            is_terminating: false,
            is_finished: false,
            ports: vec![port("http", "TCP", 80), port("dns", "UDP", 53)],
        };
        assert_eq!(read, wanted);
        assert_eq!(
            ["IPv4", "IPv6", "IPX"].map(|family| read.address(family).map(|address| address.to_string())),
            [Some("10.0.0.1".to_owned()), Some("fd00::1".to_owned()), None]
        );
    }

    #[test]
    fn a_pod_is_ready_finished_or_terminating_as_its_fields_state() {
        let of = |status: Value, deleted: Option<&str>| {
            let pod = pod(&json!({"metadata": {"name": "p", "deletionTimestamp": deleted}, "status": status}));
            [pod.is_ready, pod.is_finished, pod.is_terminating]
        };
        assert_eq!(of(json!({"phase": "Running"}), None), [false, false, false]);
        assert_eq!(
            of(json!({"conditions": [{"type": "Ready", "status": "False"}, {"type": "Other", "status": "True"}]}), None),
            [false; 3]
        );
        assert_eq!(["Succeeded", "Failed"].map(|phase| of(json!({"phase": phase}), None)), [[false, true, false]; 2]);
        assert_eq!(of(json!({}), Some("2026-01-01T00:00:00Z")), [false, false, true]);
        let old = pod(&json!({"metadata": {"name": "p"}, "status": {"podIP": "10.0.0.9"}}));
        assert_eq!(old.address("IPv4").map(|address| address.to_string()).as_deref(), Some("10.0.0.9"), "servers before podIPs");
    }

    #[test]
    fn a_service_selects_pods_of_its_namespace_by_labels_if_it_has_a_selector() {
        let service = |spec: Value| {
            let json = json!({"metadata": {"namespace": "ns", "name": "s", "uid": "u"}, "spec": spec});
            ServiceView::decode(json.to_string().as_bytes(), Revision(4)).expect("a Service")
        };
        let pod = |namespace: &str, app: &str| pod(&json!({"metadata": {"namespace": namespace, "name": "p", "labels": {"app": app}}}));
        let web = service(json!({"selector": {"app": "web"}}));
        assert_eq!([pod("ns", "web"), pod("other", "web"), pod("ns", "db")].map(|pod| web.selects(&pod)), [true, false, false]);
        assert!([json!({}), json!({"selector": {}})].iter().all(|spec| !service(spec.clone()).selects(&pod("ns", "web"))));
        assert_eq!(
            (web.reference().resource, web.reference().uid.as_str(), web.reference().resource_version),
            (SERVICES, "u", Some(Revision(4)))
        );
    }

    #[test]
    fn a_service_is_what_its_spec_defines() {
        let of = |spec: Value, deleted: Option<&str>| {
            let json = json!({"metadata": {"name": "s", "deletionTimestamp": deleted}, "spec": spec});
            let service = ServiceView::decode(json.to_string().as_bytes(), Revision(4)).expect("a Service");
            let kinds = [
                ("headless", service.is_headless),
                ("external", service.is_external),
                ("not ready ones", service.publishes_not_ready),
                ("balancer", service.is_balancer),
                ("wants one", service.wants_balancer),
                ("deleting", service.deleting),
            ];
            let kinds = kinds.into_iter().filter(|(_, is)| *is).map(|(kind, _)| kind);
            [service.families.join("+")].into_iter().chain(kinds.map(str::to_owned)).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(of(json!({"clusterIP": "10.0.0.1"}), None), "IPv4");
        assert_eq!(of(json!({"clusterIP": "None", "ipFamilies": ["IPv6", "IPv4"]}), None), "IPv6+IPv4, headless");
        assert_eq!(of(json!({"type": "ExternalName", "publishNotReadyAddresses": true}), None), "IPv4, external, not ready ones");
        assert_eq!(of(json!({"type": "LoadBalancer"}), None), "IPv4, balancer, wants one");
        assert_eq!(of(json!({"type": "LoadBalancer", "loadBalancerClass": "x.io/y"}), None), "IPv4, balancer");
        assert_eq!(of(json!({"type": "LoadBalancer"}), Some("2026-01-01T00:00:00Z")), "IPv4, balancer, deleting");
    }

    #[test]
    fn a_node_may_have_a_zone() {
        let read = |labels: Value| {
            let json = json!({"metadata": {"name": "n", "uid": "u", "labels": labels}, "spec": {}});
            ZoneView::decode(json.to_string().as_bytes(), Revision(1)).expect("a node")
        };
        let view = |zone: &str| ZoneView { name: "n".into(), uid: "u".into(), zone: zone.to_owned() };
        assert_eq!(read(json!({"topology.kubernetes.io/zone": "z1", "other": "z2"})), view("z1"));
        assert_eq!(read(json!(null)), view(""));
    }

    #[test]
    fn who_owns_which_fields_is_not_kept() {
        let metadata = json!({"name": "s", "namespace": "ns", "uid": "u", "managedFields": [{"manager": "m"}]});
        let slice = json!({"metadata": metadata, "addressType": "IPv4", "endpoints": []});
        let slice = SliceView::decode(slice.to_string().as_bytes(), Revision(5)).expect("a slice");
        let endpoints = json!({"metadata": metadata, "subsets": [{"addresses": [{"ip": "10.0.0.1"}]}]});
        let endpoints = EndpointsView::decode(endpoints.to_string().as_bytes(), Revision(6)).expect("Endpoints");
        assert_eq!((slice.slice.metadata.managed_fields.as_ref(), endpoints.metadata.managed_fields.as_ref()), (None, None));
        assert_eq!((slice.reference().resource, slice.reference().resource_version), (SLICES, Some(Revision(5))));
        assert_eq!((endpoints.reference().resource, endpoints.reference().resource_version), (ENDPOINTS, Some(Revision(6))));
        assert_eq!(endpoints.subsets.len(), 1);
    }
}
