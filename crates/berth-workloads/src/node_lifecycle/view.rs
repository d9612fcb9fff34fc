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
    /// The resource version of this version.
    pub revision: Revision,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// All its taints, complete: they are written as a whole.
    pub taints: Vec<Taint>,
    /// All its conditions, complete likewise.
    pub conditions: Vec<NodeCondition>,
}

/// What a node's condition Ready says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// There is no such condition: its kubelet has not reported yet.
    Unreported,
    /// True.
    Ready,
    /// False: its kubelet says that it is not.
    NotReady,
    /// Unknown: its kubelet says nothing any more.
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

/// What is read of a pod on a node that is not well.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BoundPodView {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: Name,
    /// Its uid.
    pub uid: Uid,
    /// The resource version of this version.
    pub revision: Revision,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its node; empty if it has none.
    pub node_name: String,
    /// `status.phase`.
    pub phase: PodPhase,
    /// Taints that it bears.
    pub tolerations: Vec<Toleration>,
    /// All its conditions, complete: they are written as a whole.
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
    /// What its condition Ready says.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        match self.condition("Ready").map(|condition| condition.status.as_str()) {
            None => Readiness::Unreported,
            Some("True") => Readiness::Ready,
            Some("False") => Readiness::NotReady,
            Some(_) => Readiness::Unknown,
        }
    }

    /// Its taints that drive pods away.
    pub fn evicting(&self) -> impl Iterator<Item = &Taint> {
        self.taints.iter().filter(|taint| taint.effect == "NoExecute")
    }

    /// Whether its pods need looking at: it is not ready, or has taints that drive pods away.
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
