//! What is read of nodes, their leases and the pods on them.

use crate::{
    resources::{NODES, PODS},
    view::{Identity, PodPhase, View, WireMetadata},
};
use berth_api::decode::from_json;
use berth_identity::{Name, Namespace, ObjectRef, Revision, Uid};
use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::LeaseSpec,
    core::v1::{NodeCondition, PodCondition, Taint, Toleration},
};
use serde::{Deserialize, de::DeserializeOwned};

/// What is read of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeView {
    /// Its name.
    pub name: Name,
    /// Its uid.
    pub uid: Uid,
    /// The resource version.
    pub revision: Revision,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// Whether its `deletionTimestamp` is set.
    pub deleting: bool,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// All its taints, because a write replaces the list.
    pub taints: Vec<Taint>,
    /// All its conditions, because a write replaces the list.
    pub conditions: Vec<NodeCondition>,
}

/// The state of a node's condition Ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The condition is missing: the kubelet has not reported yet.
    Unreported,
    /// True.
    Ready,
    /// False: the kubelet reports that the node is not ready.
    NotReady,
    /// Unknown: the kubelet no longer reports.
    Unknown,
}

/// What is read of a node's lease.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaseView {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name, which is the node's.
    pub name: Name,
    /// Its uid.
    pub uid: Uid,
    /// When it was renewed last, by the node's clock.
    pub renewed: Option<Timestamp>,
}

/// What is read of a pod on an unhealthy node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BoundPodView {
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
    /// Its node; empty if it has none.
    pub node_name: String,
    /// `status.phase`.
    pub phase: PodPhase,
    /// Its tolerations.
    pub tolerations: Vec<Toleration>,
    /// All its conditions, because a write replaces the list.
    pub conditions: Vec<PodCondition>,
}

#[derive(Deserialize)]
#[serde(bound = "Spec: DeserializeOwned, Status: DeserializeOwned")]
struct Wire<Spec, Status> {
    metadata: WireMetadata,
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
struct NodeSpec {
    unschedulable: Option<bool>,
    taints: Option<Vec<Taint>>,
}

#[derive(Default, Deserialize)]
struct NodeStatus {
    conditions: Option<Vec<NodeCondition>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    node_name: Option<String>,
    tolerations: Option<Vec<Toleration>>,
}

#[derive(Default, Deserialize)]
struct PodStatus {
    phase: Option<String>,
    conditions: Option<Vec<PodCondition>>,
}

impl View for NodeView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let wire: Wire<NodeSpec, NodeStatus> = from_json(json)?;
        let spec = wire.spec.unwrap_or_default();
        Ok(Self {
            name: wire.metadata.name.into(),
            uid: wire.metadata.uid.into(),
            revision,
            created: wire.metadata.creation_timestamp.map(|time| time.0),
            deleting: wire.metadata.deletion_timestamp.is_some(),
            unschedulable: spec.unschedulable.unwrap_or(false),
            taints: spec.taints.unwrap_or_default(),
            conditions: wire.status.and_then(|status| status.conditions).unwrap_or_default(),
        })
    }

    fn identity(&self) -> Identity<'_> {
        Identity { namespace: None, name: &self.name, uid: &self.uid, is_being_deleted: self.deleting }
    }
}

impl NodeView {
    /// The state of its condition Ready.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        match self.condition("Ready").map(|condition| condition.status.as_str()) {
            None => Readiness::Unreported,
            Some("True") => Readiness::Ready,
            Some("False") => Readiness::NotReady,
            Some(_) => Readiness::Unknown,
        }
    }

    /// Its taints that evict pods.
    pub fn evicting(&self) -> impl Iterator<Item = &Taint> {
        self.taints.iter().filter(|taint| taint.effect == "NoExecute")
    }

    /// Whether its pods require reconciling: it is not ready, or has taints that evict pods.
    #[must_use]
    pub fn is_troubled(&self) -> bool {
        matches!(self.readiness(), Readiness::NotReady | Readiness::Unknown) || self.evicting().next().is_some()
    }

    /// The node, in the version of this view.
    #[must_use]
    pub fn reference(&self) -> ObjectRef {
        self.identity().reference(NODES, self.revision)
    }

    pub(super) fn condition(&self, type_: &str) -> Option<&NodeCondition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }
}

impl View for LeaseView {
    fn decode(json: &[u8], _: Revision) -> Result<Self, serde_json::Error> {
        let wire: Wire<LeaseSpec, serde::de::IgnoredAny> = from_json(json)?;
        Ok(Self {
            namespace: wire.metadata.namespace.into(),
            name: wire.metadata.name.into(),
            uid: wire.metadata.uid.into(),
            renewed: wire.spec.and_then(|spec| spec.renew_time).map(|time| time.0),
        })
    }

    fn identity(&self) -> Identity<'_> {
        Identity { namespace: Some(&self.namespace), name: &self.name, uid: &self.uid, is_being_deleted: false }
    }
}

impl View for BoundPodView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let wire: Wire<PodSpec, PodStatus> = from_json(json)?;
        let (spec, status) = (wire.spec.unwrap_or_default(), wire.status.unwrap_or_default());
        Ok(Self {
            namespace: wire.metadata.namespace.into(),
            name: wire.metadata.name.into(),
            uid: wire.metadata.uid.into(),
            revision,
            deleting: wire.metadata.deletion_timestamp.is_some(),
            node_name: spec.node_name.unwrap_or_default(),
            phase: PodPhase::parse(status.phase.as_deref().unwrap_or_default()),
            tolerations: spec.tolerations.unwrap_or_default(),
            conditions: status.conditions.unwrap_or_default(),
        })
    }

    fn identity(&self) -> Identity<'_> {
        Identity { namespace: Some(&self.namespace), name: &self.name, uid: &self.uid, is_being_deleted: self.deleting }
    }
}

impl BoundPodView {
    /// The pod, in the version of this view.
    #[must_use]
    pub fn reference(&self) -> ObjectRef {
        self.identity().reference(PODS, self.revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node(spec: &Value, ready: Option<&str>) -> NodeView {
        let conditions: Vec<_> = ready.iter().map(|status| json!({"type": "Ready", "status": status})).collect();
        let metadata = json!({"name": "n", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"});
        let json = json!({"metadata": metadata, "spec": spec, "status": {"conditions": conditions}});
        NodeView::decode(json.to_string().as_bytes(), Revision(3)).expect("a node")
    }

    #[test]
    fn a_node_is_troubled_while_it_is_not_ready_or_drives_pods_away() {
        let well = json!({});
        let states = [None, Some("True"), Some("False"), Some("Unknown"), Some("?")];
        let readiness = [Readiness::Unreported, Readiness::Ready, Readiness::NotReady, Readiness::Unknown, Readiness::Unknown];
        assert_eq!(states.map(|ready| node(&well, ready).readiness()), readiness);
        assert_eq!(states.map(|ready| node(&well, ready).is_troubled()), [false, false, true, true, true]);
        let tainted = |effect: &str| node(&json!({"taints": [{"key": "k", "effect": effect}]}), Some("True"));
        assert_eq!(["NoSchedule", "PreferNoSchedule", "NoExecute"].map(|effect| tainted(effect).is_troubled()), [false, false, true]);
    }

    #[test]
    fn a_node_its_lease_and_its_pods_are_read() {
        let read = node(&json!({"unschedulable": true}), None);
        assert_eq!((read.created, read.unschedulable, read.deleting), ("2026-01-01T00:00:00Z".parse().ok(), true, false));
        assert_eq!(
            (read.reference().resource, read.reference().uid.as_str(), read.reference().resource_version),
            (NODES, "u", Some(Revision(3)))
        );
        let metadata = json!({"namespace": "kube-node-lease", "name": "n", "uid": "l"});
        let lease = json!({"metadata": metadata, "spec": {"renewTime": "2026-01-01T00:00:00.250000Z"}});
        let lease = LeaseView::decode(lease.to_string().as_bytes(), Revision(1)).expect("a lease");
        let renewed = "2026-01-01T00:00:00.25Z".parse().ok();
        assert_eq!(lease, LeaseView { namespace: "kube-node-lease".into(), name: "n".into(), uid: "l".into(), renewed });
        let pod = json!({"metadata": {"namespace": "ns", "name": "p", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n1"}, "status": {"phase": "Failed"}});
        let pod = BoundPodView::decode(pod.to_string().as_bytes(), Revision(8)).expect("a pod");
        assert_eq!((pod.deleting, pod.node_name.as_str(), pod.phase), (true, "n1", PodPhase::Failed));
        assert_eq!((pod.reference().resource, pod.reference().key.namespace.as_str()), (PODS, "ns"));
    }
}
