//! The Node object of a simulated node, which is always healthy.

use super::{images::MissingImages, status::whole_seconds};
use berth_api::{
    annotations::BERTH_NODE_LABELS,
    k8s_openapi::{
        api::{
            coordination::v1::{Lease, LeaseSpec},
            core::v1::{Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeSpec, NodeStatus, NodeSystemInfo, Taint},
        },
        apimachinery::pkg::{
            api::resource::Quantity as WireQuantity,
            apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference},
        },
    },
    names,
    quantity::Quantity,
};
use berth_workloads::node_lifecycle::NODE_LEASES;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{collections::BTreeMap, str::FromStr};

const NO_SCHEDULE: &str = "NoSchedule";

/// The label of simulated nodes.
pub(super) const SIMULATED: &str = "berth.dev/simulated-node";

/// The taint of simulated nodes beside real ones. Nothing runs there, so a pod that does not tolerate it must not count as running.
pub(super) const SIMULATED_TAINT: &str = "berth.dev/simulated";

/// The duration of a lease, which is renewed four times as often.
pub(super) const LEASE_SECONDS: i32 = 40;

/// The resources and properties of simulated nodes.
#[derive(Clone, Debug)]
pub struct NodeShape {
    /// Quantities by the names of the resources.
    pub resources: BTreeMap<String, String>,
    /// Labels of every node.
    pub labels: BTreeMap<String, String>,
    /// The zones of the nodes, in turn. Without zones, nodes are in none.
    pub zones: Vec<Zone>,
    /// Images that the nodes cannot pull.
    pub missing_images: MissingImages,
    /// Whether they have the taint `berth.dev/simulated=true:NoSchedule`.
    pub is_tainted: bool,
}

impl NodeShape {
    /// The shape of nodes with so much cpu and memory (quantities) and room for so many pods, with ample ephemeral storage.
    #[must_use]
    pub fn new(cpu: &str, memory: &str, pods: u32) -> Self {
        let resources = [("cpu", cpu), ("memory", memory), ("pods", &pods.to_string()), ("ephemeral-storage", EPHEMERAL_STORAGE)];
        Self {
            resources: resources.map(|(name, quantity)| (name.to_owned(), quantity.to_owned())).into(),
            labels: BTreeMap::new(),
            zones: Vec::new(),
            missing_images: MissingImages::default(),
            is_tainted: false,
        }
    }

    /// The taint that repels all pods, if the nodes have it.
    fn taint(&self) -> Option<Taint> {
        let taint = || Taint {
            key: SIMULATED_TAINT.to_owned(),
            value: Some("true".to_owned()),
            effect: NO_SCHEDULE.to_owned(),
            ..Taint::default()
        };
        self.is_tainted.then(taint)
    }

    /// The labels of a node: those of a kubelet, its zone and its shape.
    fn labels_of(&self, index: u32) -> BTreeMap<String, String> {
        let name = name(index);
        let own = [
            ("kubernetes.io/hostname", name.as_str()),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", "amd64"),
            ("beta.kubernetes.io/os", "linux"),
            ("beta.kubernetes.io/arch", "amd64"),
            ("node.kubernetes.io/instance-type", "simulated"),
            (SIMULATED, "true"),
        ];
        let mut labels = BTreeMap::from(own.map(|(key, value)| (key.to_owned(), value.to_owned())));
        if let Some(zone) = self.zones.iter().cycle().nth(usize::try_from(index).unwrap_or(0) % self.zones.len().max(1)) {
            labels.insert("topology.kubernetes.io/zone".to_owned(), zone.name.clone());
            labels.extend(zone.region.clone().map(|region| ("topology.kubernetes.io/region".to_owned(), region)));
        }
        labels.extend(self.labels.clone());
        labels
    }
}

/// More than a realistic pod requests.
const EPHEMERAL_STORAGE: &str = "1Ti";

/// A zone of the cluster: `eu-1a`, or with its region `eu-1/eu-1a`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    region: Option<String>,
    name: String,
}

/// Why a text describes no part of a node. It quotes the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeOptionError {
    /// It has no `=`.
    #[error("{text:?} is not {form}, such as {example}")]
    NoPair {
        /// The text.
        text: String,
        /// `KEY=VALUE`.
        form: &'static str,
        /// `disk=ssd`.
        example: &'static str,
    },
    /// A name or a label value that Kubernetes does not accept.
    #[error("{text:?}: {}", .faults.join("; "))]
    Name {
        /// The name or the value.
        text: String,
        /// The rules that it breaks, in upstream's words.
        faults: Vec<String>,
    },
    /// It is not a quantity.
    #[error("{0:?} is not a quantity, such as 8, 500m or 100Gi")]
    NoQuantity(String),
    /// The quantity is negative.
    #[error("{0:?} is negative")]
    Negative(String),
    /// A resource other than cpu has a fraction.
    #[error("{0:?} is not whole; only cpu has fractions")]
    Fraction(String),
}

impl FromStr for Zone {
    type Err = NodeOptionError;

    fn from_str(text: &str) -> Result<Self, NodeOptionError> {
        let (region, name) = text.split_once('/').map_or((None, text), |(region, name)| (Some(region), name));
        for part in region.into_iter().chain([name]) {
            valid(part, if part.is_empty() { vec!["must not be empty".to_owned()] } else { names::check_label_value(part) })?;
        }
        Ok(Self { region: region.map(str::to_owned), name: name.to_owned() })
    }
}

/// Reads `nvidia.com/gpu=8`.
///
/// # Errors
/// [`NodeOptionError`].
pub fn parse_resource(text: &str) -> Result<(String, String), NodeOptionError> {
    let (name, amount) = pair(text, "NAME=QUANTITY", "nvidia.com/gpu=8")?;
    valid(name, names::check_qualified_name(name))?;
    let amount = if name == "cpu" { parse_cpu(amount)? } else { parse_amount(amount)? };
    Ok((name.to_owned(), amount))
}

/// Reads `8` or `500m`.
///
/// # Errors
/// [`NodeOptionError`].
pub fn parse_cpu(text: &str) -> Result<String, NodeOptionError> {
    quantity(text).map(|_| text.to_owned())
}

/// Reads `100Gi`, an amount of anything except cpu.
///
/// # Errors
/// [`NodeOptionError`].
pub fn parse_amount(text: &str) -> Result<String, NodeOptionError> {
    if quantity(text)?.is_integer() { Ok(text.to_owned()) } else { Err(NodeOptionError::Fraction(text.to_owned())) }
}

fn quantity(text: &str) -> Result<Quantity, NodeOptionError> {
    let quantity: Quantity = text.parse().map_err(|_| NodeOptionError::NoQuantity(text.to_owned()))?;
    if quantity.is_negative() { Err(NodeOptionError::Negative(text.to_owned())) } else { Ok(quantity) }
}

/// Reads `disk=ssd`.
///
/// # Errors
/// [`NodeOptionError`].
pub fn parse_label(text: &str) -> Result<(String, String), NodeOptionError> {
    let (key, value) = pair(text, "KEY=VALUE", "disk=ssd")?;
    valid(key, names::check_label_key(key))?;
    valid(value, names::check_label_value(value))?;
    Ok((key.to_owned(), value.to_owned()))
}

fn pair<'t>(text: &'t str, form: &'static str, example: &'static str) -> Result<(&'t str, &'t str), NodeOptionError> {
    text.split_once('=').ok_or_else(|| NodeOptionError::NoPair { text: text.to_owned(), form, example })
}

fn valid(text: &str, faults: Vec<String>) -> Result<(), NodeOptionError> {
    if faults.is_empty() { Ok(()) } else { Err(NodeOptionError::Name { text: text.to_owned(), faults }) }
}

/// `node-0`, `node-1`, …
pub(super) fn name(index: u32) -> String {
    format!("node-{index}")
}

/// The node's address, outside the pods' range.
pub(super) fn address(index: u32) -> String {
    let [_, high, middle, low] = index.saturating_add(1).to_be_bytes();
    format!("10.{}.{middle}.{low}", high.saturating_add(1))
}

/// The node at its registration.
pub(super) fn object(index: u32, shape: &NodeShape, now: Timestamp) -> Node {
    let (name, labels) = (name(index), shape.labels_of(index));
    Node {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            annotations: Some(BTreeMap::from([(BERTH_NODE_LABELS.to_owned(), shaped(&labels))])),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: Some(format!("simulated://{name}")),
            taints: shape.taint().map(|taint| vec![taint]),
            ..NodeSpec::default()
        }),
        status: Some(status(index, shape, now)),
    }
}

/// The keys in the annotation's form.
fn shaped(labels: &BTreeMap<String, String>) -> String {
    labels.keys().map(String::as_str).collect::<Vec<_>>().join(",")
}

/// A merge patch that gives an existing node the labels of its shape, and removes those of an earlier shape. `None` if there is nothing to
/// change. Labels of other writers remain.
pub(super) fn relabel(index: u32, shape: &NodeShape, found: &Node) -> Option<Value> {
    let wanted = shape.labels_of(index);
    let (labels, annotations) = (found.metadata.labels.clone().unwrap_or_default(), found.metadata.annotations.clone().unwrap_or_default());
    let earlier = annotations.get(BERTH_NODE_LABELS).map(String::as_str).unwrap_or_default();
    let stale = earlier.split(',').filter(|key| !wanted.contains_key(*key) && labels.contains_key(*key));
    let mut changes: BTreeMap<&str, Option<&String>> = stale.map(|key| (key, None)).collect();
    changes.extend(wanted.iter().filter(|(key, value)| labels.get(*key) != Some(value)).map(|(key, value)| (key.as_str(), Some(value))));
    let keys = shaped(&wanted);
    (!changes.is_empty() || earlier != keys)
        .then(|| json!({"metadata": {"uid": found.metadata.uid, "labels": changes, "annotations": {BERTH_NODE_LABELS: keys}}}))
}

/// A merge patch that adds or removes the taint of the shape on an existing node. `None` if there is nothing to change. Other taints
/// remain: the patch is for this version of the node only.
pub(super) fn retaint(shape: &NodeShape, found: &Node) -> Option<Value> {
    let before: Vec<Taint> = found.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let others = before.iter().filter(|taint| taint.key != SIMULATED_TAINT).cloned();
    let after: Vec<Taint> = others.chain(shape.taint()).collect();
    let same = |one: &Taint, other: &Taint| (&one.key, &one.value, &one.effect) == (&other.key, &other.value, &other.effect);
    let is_same = before.len() == after.len() && after.iter().all(|taint| before.iter().any(|had| same(had, taint)));
    let metadata = json!({"uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version});
    (!is_same).then(|| json!({"metadata": metadata, "spec": {"taints": after}}))
}

fn status(index: u32, shape: &NodeShape, now: Timestamp) -> NodeStatus {
    let amounts: BTreeMap<String, WireQuantity> =
        shape.resources.iter().map(|(name, amount)| (name.clone(), WireQuantity(amount.clone()))).collect();
    let named = |type_: &str, address: String| NodeAddress { type_: type_.to_owned(), address };
    NodeStatus {
        capacity: Some(amounts.clone()),
        allocatable: Some(amounts),
        addresses: Some(vec![named("InternalIP", address(index)), named("Hostname", name(index))]),
        conditions: Some(conditions(now, None)),
        daemon_endpoints: Some(NodeDaemonEndpoints::default()),
        node_info: Some(NodeSystemInfo {
            architecture: "amd64".to_owned(),
            operating_system: "linux".to_owned(),
            os_image: "berth simulated node".to_owned(),
            kernel_version: "simulated".to_owned(),
            container_runtime_version: "simulated://1".to_owned(),
            kubelet_version: "v1.36.0-berth".to_owned(),
            machine_id: name(index),
            system_uuid: name(index),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    }
}

/// The conditions of a healthy node. `ready_since`: when Ready became True, if it is already.
fn conditions(now: Timestamp, ready_since: Option<Timestamp>) -> Vec<NodeCondition> {
    let condition = |type_: &str, status: &str, reason: &str, message: &str| NodeCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: Some(whole_seconds(now)),
        last_transition_time: Some(whole_seconds(ready_since.unwrap_or(now))),
    };
    vec![
        condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        condition("Ready", "True", "KubeletReady", "simulated node is posting ready status"),
    ]
}

/// A merge patch for the status of the node `found`. It contains the ready condition and the amounts of `shape`, and nothing else.
pub(super) fn heartbeat(index: u32, shape: &NodeShape, now: Timestamp, found: &Node) -> Value {
    let status = NodeStatus { conditions: Some(conditions(now, ready_since(found))), ..status(index, shape, now) };
    let mut patch = json!({"status": status});
    let had = found.status.iter().flat_map(|status| [("capacity", &status.capacity), ("allocatable", &status.allocatable)]);
    for (member, amounts) in had {
        for name in amounts.iter().flat_map(BTreeMap::keys).filter(|name| !shape.resources.contains_key(*name)) {
            patch["status"][member][name] = Value::Null;
        }
    }
    patch
}

fn ready_since(node: &Node) -> Option<Timestamp> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    ready.last_transition_time.as_ref().map(|time| time.0)
}

/// The node's lease, renewed now.
pub(super) fn lease(index: u32, node_uid: &str, now: Timestamp) -> Lease {
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: name(index),
        uid: node_uid.to_owned(),
        ..OwnerReference::default()
    };
    Lease {
        metadata: ObjectMeta {
            name: Some(name(index)),
            namespace: Some(NODE_LEASES.to_owned()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(name(index)),
            lease_duration_seconds: Some(LEASE_SECONDS),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_addresses_of_their_own() {
        assert_eq!(address(0), "10.1.0.1");
        assert_eq!(address(255), "10.1.1.0");
        let all: std::collections::BTreeSet<String> = (0..5000).map(address).collect();
        assert_eq!(all.len(), 5000);
    }

    fn labels(shape: &NodeShape, index: u32) -> String {
        let interesting = ["kubernetes.io/hostname", "topology.kubernetes.io/region", "topology.kubernetes.io/zone", "disk"];
        let labels = shape.labels_of(index);
        interesting.iter().map(|key| labels.get(*key).map_or("-", String::as_str)).collect::<Vec<_>>().join(" ")
    }

    fn shape(zones: &[&str], disk: Option<&str>) -> NodeShape {
        let mut shape = NodeShape::new("32", "256Gi", 110);
        shape.zones = zones.iter().map(|zone| zone.parse().expect("a zone")).collect();
        shape.labels = disk.map(|disk| ("disk".to_owned(), disk.to_owned())).into_iter().collect();
        shape
    }

    #[test]
    fn nodes_are_in_the_zones_in_turn() {
        let zoned = shape(&["eu/eu-a", "eu/eu-b", "lone"], Some("ssd"));
        let all: Vec<String> = (0..4).map(|index| labels(&zoned, index)).collect();
        assert_eq!(all, ["node-0 eu eu-a ssd", "node-1 eu eu-b ssd", "node-2 - lone ssd", "node-3 eu eu-a ssd"]);
        assert_eq!(labels(&shape(&[], None), 7), "node-7 - - -");
    }

    #[test]
    fn a_node_that_is_there_gets_the_labels_of_its_new_shape() {
        let zoned = shape(&["eu/a"], Some("ssd"));
        let mut found = object(0, &zoned, Timestamp::UNIX_EPOCH);
        assert_eq!(relabel(0, &zoned, &found), None);
        found.metadata.labels.get_or_insert_default().insert("own".to_owned(), "kept".to_owned());
        let patch = relabel(0, &shape(&["b"], None), &found).expect("it changes");
        let wanted = json!({"topology.kubernetes.io/zone": "b", "topology.kubernetes.io/region": null, "disk": null});
        assert_eq!(patch["metadata"]["labels"], wanted);
    }

    #[test]
    fn simulated_nodes_beside_real_ones_have_a_taint_and_keep_others() {
        let (plain, tainted) = (shape(&[], None), NodeShape { is_tainted: true, ..shape(&[], None) });
        let taints = |node: &Node| node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        let mut found = object(0, &tainted, Timestamp::UNIX_EPOCH);
        let own = json!({"key": "berth.dev/simulated", "value": "true", "effect": "NoSchedule"});
        assert_eq!(serde_json::to_value(taints(&found)).expect("JSON"), json!([own]));
        assert_eq!((retaint(&tainted, &found), taints(&object(0, &plain, Timestamp::UNIX_EPOCH))), (None, Vec::new()));
        let other = json!({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-11-28T00:00:00Z"});
        let spec = found.spec.get_or_insert_default();
        spec.taints = Some(vec![serde_json::from_value(other.clone()).expect("a taint")]);
        let after = |shape: &NodeShape, found: &Node| retaint(shape, found).map(|patch| patch["spec"]["taints"].clone());
        assert_eq!((after(&tainted, &found), after(&plain, &found)), (Some(json!([other, own])), None));
        found.spec.get_or_insert_default().taints.get_or_insert_default().extend(tainted.taint());
        assert_eq!((after(&tainted, &found), after(&plain, &found)), (None, Some(json!([other]))));
    }

    #[test]
    fn a_resource_that_a_node_no_longer_has_is_taken_off() {
        let mut with_gpu = shape(&[], None);
        with_gpu.resources.insert("nvidia.com/gpu".to_owned(), "8".to_owned());
        let found = object(0, &with_gpu, Timestamp::UNIX_EPOCH);
        let patch = heartbeat(0, &shape(&[], None), Timestamp::UNIX_EPOCH, &found);
        let wanted = json!({"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti", "nvidia.com/gpu": null});
        assert_eq!((&patch["status"]["capacity"], &patch["status"]["allocatable"]), (&wanted, &wanted));
    }

    #[test]
    fn options_are_read_or_refused_with_the_reason() {
        let pair = |(name, value): (&str, &str)| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(parse_resource("nvidia.com/gpu=8"), pair(("nvidia.com/gpu", "8")));
        assert_eq!(parse_resource("cpu=500m"), pair(("cpu", "500m")));
        assert_eq!([parse_cpu("1500m"), parse_amount("64Gi")], ["1500m", "64Gi"].map(|text| Ok(text.to_owned())));
        assert_eq!(parse_cpu("four"), Err(NodeOptionError::NoQuantity("four".to_owned())));
        assert_eq!(parse_amount("1500m"), Err(NodeOptionError::Fraction("1500m".to_owned())));
        assert_eq!(parse_label("disk="), pair(("disk", "")));
        for (text, wanted) in [
            ("gpu", "\"gpu\" is not NAME=QUANTITY, such as nvidia.com/gpu=8"),
            ("gpu=many", "\"many\" is not a quantity, such as 8, 500m or 100Gi"),
            ("gpu=-1", "\"-1\" is negative"),
            ("gpu=1500m", "\"1500m\" is not whole; only cpu has fractions"),
        ] {
            assert_eq!(parse_resource(text).expect_err(text).to_string(), wanted);
        }
        assert!(parse_resource("a b=1").is_err_and(|error| error.to_string().starts_with("\"a b\": name part must consist of")));
        assert!(parse_label("disk").is_err_and(|error| error.to_string().starts_with("\"disk\" is not KEY=VALUE")));
        assert!(parse_label("disk=a b").is_err_and(|error| error.to_string().starts_with("\"a b\": a valid label")));
        assert!("eu/".parse::<Zone>().is_err_and(|error| error.to_string() == "\"\": must not be empty"));
        assert!("a/b/c".parse::<Zone>().is_err(), "a zone has one region");
    }
}
