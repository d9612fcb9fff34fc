//! What the scheduler reads of pods and nodes.

use super::spread_constraint::SpreadConstraint;
use crate::{
    condition::WireCondition,
    resources::{Amounts, WireAmounts},
};
use berth_api::{
    Object, Selector,
    decode::from_json,
    k8s_openapi::{
        api::core::v1::{NodeSelectorTerm, PodAffinityTerm, PodCondition, Taint, Toleration, TopologySpreadConstraint},
        apimachinery::pkg::apis::meta::v1::Time,
    },
};
use berth_identity::{Name, Namespace, NodeName, Revision, Uid};
use berth_workloads::{
    selector::Labels,
    view::{Identity, PodVolume, View, WireMetadata, claims_of},
};
use bytes::Bytes;
use jiff::Timestamp;
use serde::Deserialize;
use std::{collections::BTreeMap, mem};

/// The scheduler that pods name unless they name another.
pub(super) const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The reason of the condition `DisruptionTarget` of a pod that makes room for another.
pub(super) const PREEMPTED: &str = "PreemptionByScheduler";

/// What the scheduler reads of a pod.
#[derive(Clone, Debug, Default)]
pub struct PodInfo {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: Name,
    /// Its uid.
    pub uid: Uid,
    /// Its labels.
    pub labels: Labels,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it has finished: it holds no resources any more.
    pub finished: bool,
    /// The node it is bound to; empty if it is not.
    pub node_name: NodeName,
    /// Whether it may be placed yet.
    pub gated: bool,
    /// Placed first if higher.
    pub priority: i32,
    /// Whether pods of a lower priority may be deleted to make room for it.
    pub preempts: bool,
    /// The node where room is being made for it.
    pub nominated_node: Option<String>,
    /// When its node took it on.
    pub started: Option<Timestamp>,
    /// Whether it was evicted to make room for another.
    pub preempted: bool,
    /// What it asks for, `pods: 1` included.
    pub requests: Amounts,
    /// Pods that it does not want beside itself.
    pub anti_affinity: Vec<AntiAffinityTerm>,
    /// How evenly it and pods like it are to be spread.
    pub spread: Vec<SpreadConstraint>,
    /// The claims that it uses, by name.
    pub claims: Vec<String>,
    /// Ports of the node that it takes: (port, protocol).
    pub host_ports: Vec<(i32, String)>,
    /// What only matters until it has a node; `None` from then on, or if it is nothing.
    pub wishes: Option<Box<Wishes>>,
}

/// Where a pod may be placed, and which scheduler decides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wishes {
    /// Who is to place it; empty: the default scheduler.
    pub scheduler_name: String,
    /// Labels that its node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Terms of which its node must match one; empty: any node.
    pub node_terms: Vec<NodeSelectorTerm>,
    /// Taints that it does not mind.
    pub tolerations: Vec<Toleration>,
    /// Its conditions.
    pub conditions: Vec<PodCondition>,
}

static NONE: Wishes = Wishes {
    scheduler_name: String::new(),
    node_selector: BTreeMap::new(),
    node_terms: Vec::new(),
    tolerations: Vec::new(),
    conditions: Vec::new(),
};

impl PodInfo {
    /// Whether its placement has the same result as that of `other`: nothing that the scheduler reads differs.
    #[must_use]
    pub fn asks_as(&self, other: &Self) -> bool {
        // Everything else that counts cannot be changed as long as the pod exists.
        let (wishes, others) = (self.wishes(), other.wishes());
        (&self.labels, self.priority, &self.requests) == (&other.labels, other.priority, &other.requests)
            && (&wishes.node_selector, &wishes.node_terms, &wishes.tolerations)
                == (&others.node_selector, &others.node_terms, &others.tolerations)
    }

    /// Where it may be placed, and which scheduler decides.
    #[must_use]
    pub fn wishes(&self) -> &Wishes {
        self.wishes.as_deref().unwrap_or(&NONE)
    }

    /// Its condition `PodScheduled` while that is False.
    #[must_use]
    pub fn unschedulable(&self) -> Option<&PodCondition> {
        self.wishes().conditions.iter().find(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
    }
}

/// Pods that may not share a part of the cluster with the pod that has this term.
#[derive(Clone, Debug)]
pub struct AntiAffinityTerm {
    /// The node label whose values name the parts: `kubernetes.io/hostname`.
    pub topology_key: String,
    /// Which pods.
    pub selector: Selector,
    /// Of which namespaces.
    pub namespaces: Vec<Namespace>,
}

/// What the scheduler reads of a node.
#[derive(Clone, Debug, Default)]
pub struct NodeView {
    /// Its name.
    pub name: Name,
    /// Its uid.
    pub uid: Uid,
    /// Its labels.
    pub labels: Labels,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// What it has for pods.
    pub allocatable: Amounts,
    /// Whether its condition Ready is True.
    pub ready: bool,
}

impl View for PodInfo {
    fn decode(json: &[u8], _: Revision) -> Result<Self, serde_json::Error> {
        let wire: WirePod = from_json(json)?;
        Ok(wire.into_view())
    }

    fn of_object(object: &dyn Object, _: &Bytes, _: Revision) -> Option<Self> {
        object.downcast_ref().map(Self::of_pod)
    }

    fn identity(&self) -> Identity<'_> {
        Identity { namespace: Some(&self.namespace), name: &self.name, uid: &self.uid, is_being_deleted: self.deleting }
    }
}

impl View for NodeView {
    fn decode(json: &[u8], _: Revision) -> Result<Self, serde_json::Error> {
        let wire: WireNode = from_json(json)?;
        Ok(Self {
            name: wire.metadata.name.into(),
            uid: wire.metadata.uid.into(),
            deleting: wire.metadata.deletion_timestamp.is_some(),
            labels: wire.metadata.labels.unwrap_or_default(),
            unschedulable: wire.spec.unschedulable,
            taints: wire.spec.taints.unwrap_or_default(),
            allocatable: Amounts::from_wire(&wire.status.allocatable),
            ready: wire.status.conditions.iter().any(WireCondition::is_ready),
        })
    }

    fn identity(&self) -> Identity<'_> {
        Identity { namespace: None, name: &self.name, uid: &self.uid, is_being_deleted: self.deleting }
    }
}

#[derive(Deserialize)]
struct WireNode {
    metadata: WireMetadata,
    #[serde(default)]
    spec: WireNodeSpec,
    #[serde(default)]
    status: WireNodeStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireNodeSpec {
    unschedulable: bool,
    taints: Option<Vec<Taint>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireNodeStatus {
    allocatable: WireAmounts,
    conditions: Vec<WireCondition>,
}

#[derive(Deserialize)]
pub(super) struct WirePod {
    pub(super) metadata: WireMetadata,
    pub(super) spec: WireSpec,
    #[serde(default)]
    pub(super) status: WireStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireSpec {
    pub(super) node_name: NodeName,
    pub(super) scheduler_name: String,
    pub(super) scheduling_gates: Vec<serde::de::IgnoredAny>,
    pub(super) priority: i32,
    pub(super) preemption_policy: Option<String>,
    pub(super) topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
    pub(super) containers: Vec<WireContainer>,
    pub(super) init_containers: Vec<WireContainer>,
    pub(super) overhead: WireAmounts,
    pub(super) resources: Option<WireResources>,
    pub(super) node_selector: BTreeMap<String, String>,
    pub(super) tolerations: Vec<Toleration>,
    pub(super) affinity: Option<WireAffinity>,
    pub(super) volumes: Option<Vec<PodVolume>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireContainer {
    pub(super) resources: WireResources,
    pub(super) ports: Vec<WirePort>,
    pub(super) restart_policy: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct WireResources {
    pub(super) requests: WireAmounts,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WirePort {
    pub(super) host_port: i32,
    pub(super) protocol: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireAffinity {
    pub(super) node_affinity: Option<WireRequired<WireNodeTerms>>,
    pub(super) pod_anti_affinity: Option<WireRequired<Vec<PodAffinityTerm>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireRequired<T> {
    pub(super) required_during_scheduling_ignored_during_execution: Option<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireNodeTerms {
    pub(super) node_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireStatus {
    pub(super) phase: String,
    pub(super) start_time: Option<Time>,
    pub(super) nominated_node_name: Option<String>,
    pub(super) conditions: Vec<PodCondition>,
}

impl WirePod {
    pub(super) fn into_view(self) -> PodInfo {
        let (metadata, mut spec) = (self.metadata, self.spec);
        let namespace = Namespace::from(metadata.namespace);
        let is_preempted = |condition: &PodCondition| {
            condition.type_ == "DisruptionTarget" && condition.status == "True" && condition.reason.as_deref() == Some(PREEMPTED)
        };
        let preempted = self.status.conditions.iter().any(is_preempted);
        // No placement needs that of a pod that has a node, and nearly all have one.
        let wishes = spec.node_name.is_empty().then(|| spec.take_wishes(self.status.conditions)).filter(|wishes| *wishes != NONE);
        let affinity = spec.affinity.as_ref();
        let labels = metadata.labels.unwrap_or_default();
        let constraints = spec.topology_spread_constraints.as_deref().unwrap_or_default();
        PodInfo {
            requests: spec.requests(),
            host_ports: spec.host_ports(),
            claims: claims_of(spec.volumes.as_deref().unwrap_or_default()).into_values().collect(),
            anti_affinity: affinity
                .and_then(|a| a.pod_anti_affinity.as_ref()?.required_during_scheduling_ignored_during_execution.as_ref())
                .map_or_else(Vec::new, |terms| terms.iter().filter_map(|term| anti_affinity(term, &namespace)).collect()),
            spread: constraints.iter().filter_map(|constraint| SpreadConstraint::of(constraint, &labels)).collect(),
            namespace,
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            labels,
            created: metadata.creation_timestamp.map(|time| time.0),
            deleting: metadata.deletion_timestamp.is_some(),
            finished: berth_api::pod::is_terminal(&self.status.phase),
            gated: !spec.scheduling_gates.is_empty(),
            node_name: spec.node_name,
            priority: spec.priority,
            preempts: spec.preemption_policy.as_deref() != Some("Never"),
            nominated_node: self.status.nominated_node_name.filter(|node| !node.is_empty()),
            started: self.status.start_time.map(|time| time.0),
            preempted,
            wishes: wishes.map(Box::new),
        }
    }
}

impl WireSpec {
    /// Where the pod may be placed, apart from the terms of other pods.
    fn take_wishes(&mut self, conditions: Vec<PodCondition>) -> Wishes {
        let terms = |affinity: &mut WireAffinity| affinity.node_affinity.take()?.required_during_scheduling_ignored_during_execution;
        Wishes {
            scheduler_name: mem::take(&mut self.scheduler_name),
            node_selector: mem::take(&mut self.node_selector),
            node_terms: self.affinity.as_mut().and_then(terms).map_or_else(Vec::new, |terms| terms.node_selector_terms),
            tolerations: mem::take(&mut self.tolerations),
            conditions,
        }
    }

    /// Containers run together; init containers run before them, one after the other, unless they are sidecars, which stay.
    fn requests(&self) -> Amounts {
        let of = |container: &WireContainer| Amounts::from_wire(&container.resources.requests);
        let mut running = Amounts::default();
        let mut peak = Amounts::default();
        for init in &self.init_containers {
            if init.restart_policy.as_deref() == Some("Always") {
                running.add(&of(init));
                peak.raise_to(&running);
            } else {
                let mut at_once = running.clone();
                at_once.add(&of(init));
                peak.raise_to(&at_once);
            }
        }
        self.containers.iter().for_each(|container| running.add(&of(container)));
        peak.raise_to(&running);
        if let Some(whole) = &self.resources {
            peak.raise_to(&Amounts::from_wire(&whole.requests));
        }
        peak.add(&Amounts::from_wire(&self.overhead));
        peak.add(&Amounts::from([("pods", 1)]));
        peak
    }

    fn host_ports(&self) -> Vec<(i32, String)> {
        let ports = self.containers.iter().flat_map(|container| &container.ports).filter(|port| port.host_port != 0);
        ports.map(|port| (port.host_port, port.protocol.clone())).collect()
    }
}

/// `None`: a term without a selector, which matches no pod.
fn anti_affinity(term: &PodAffinityTerm, namespace: &Namespace) -> Option<AntiAffinityTerm> {
    let selector = Selector::from_label_selector(term.label_selector.as_ref()?).ok()?;
    let namespaces = match &term.namespaces {
        Some(named) if !named.is_empty() => named.iter().map(Namespace::from).collect(),
        _ => vec![namespace.clone()],
    };
    Some(AntiAffinityTerm { topology_key: term.topology_key.clone(), selector, namespaces })
}
