//! A simulated node as an object: what it has, and that it is well.

use super::status::whole_seconds;
use berth_api::k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::{Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeSpec, NodeStatus, NodeSystemInfo},
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference},
    },
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The label by which simulated nodes are known.
pub(super) const SIMULATED: &str = "berth.dev/simulated-node";

/// The namespace of the nodes' leases.
pub(super) const LEASES: &str = "kube-node-lease";

/// How long a lease holds; it is renewed four times as often.
pub(super) const LEASE_SECONDS: i32 = 40;

/// What each simulated node has.
#[derive(Clone, Debug)]
pub struct NodeShape {
    /// Its cores, a quantity.
    pub cpu: String,
    /// Its memory, a quantity.
    pub memory: String,
    /// How many pods it takes.
    pub pods: u32,
}

/// `node-0`, `node-1`, …
pub(super) fn name(index: u32) -> String {
    format!("node-{index}")
}

/// The node's address; pods have theirs elsewhere.
pub(super) fn address(index: u32) -> String {
    let [_, high, middle, low] = index.saturating_add(1).to_be_bytes();
    format!("10.{}.{middle}.{low}", high.saturating_add(1))
}

/// The node as it registers.
pub(super) fn object(index: u32, shape: &NodeShape, now: Timestamp) -> Node {
    let name = name(index);
    let labels = [
        ("kubernetes.io/hostname", name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("node.kubernetes.io/instance-type", "simulated"),
        (SIMULATED, "true"),
    ];
    Node {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec { provider_id: Some(format!("simulated://{name}")), ..NodeSpec::default() }),
        status: Some(status(index, shape, now)),
    }
}

fn status(index: u32, shape: &NodeShape, now: Timestamp) -> NodeStatus {
    let quantity = |text: &str| Quantity(text.to_owned());
    let amounts = BTreeMap::from([
        ("cpu".to_owned(), quantity(&shape.cpu)),
        ("memory".to_owned(), quantity(&shape.memory)),
        ("pods".to_owned(), quantity(&shape.pods.to_string())),
    ]);
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

/// A merge patch of the status that says the node is well and has what `shape` says.
pub(super) fn heartbeat(index: u32, shape: &NodeShape, now: Timestamp, ready_since: Option<Timestamp>) -> Value {
    let status = NodeStatus { conditions: Some(conditions(now, ready_since)), ..status(index, shape, now) };
    json!({"status": status})
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
            namespace: Some(LEASES.to_owned()),
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
}
