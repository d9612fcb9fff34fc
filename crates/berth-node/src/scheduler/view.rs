//! What the scheduler reads of pods and nodes.

use super::{
    pod_set::{NamespaceLabels, PodSet},
    selecting_kind::SelectingKind,
    spread_constraint::SpreadConstraint,
};
use crate::{
    condition::WireCondition,
    resources::{Amounts, WireAmounts},
};
use berth_api::{
    Object,
    decode::from_json,
    k8s_openapi::{
        api::core::v1::{
            NodeSelectorTerm, PodAffinityTerm, PodCondition, PodResourceClaim, PreferredSchedulingTerm, Taint, Toleration,
            TopologySpreadConstraint, WeightedPodAffinityTerm,
        },
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
    /// What it counts for when nodes are compared.
    pub nominal: Nominal,
    /// Its terms about other pods; `None` if there are none.
    pub terms: Option<Box<PodTerms>>,
    /// The claims that it uses, by name.
    pub claims: Vec<String>,
    /// Ports of the node that it takes.
    pub host_ports: Vec<HostPort>,
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
    /// Terms of which its node must match one; `None`: any node.
    pub node_terms: Option<Vec<NodeSelectorTerm>>,
    /// Terms that make a node better for it.
    pub preferred_nodes: Vec<PreferredSchedulingTerm>,
    /// Taints that it does not mind.
    pub tolerations: Vec<Toleration>,
    /// Its claim to devices, which berth does not allocate: `resource claim "gpu"`.
    pub device_claim: Option<String>,
    /// How evenly it and pods like it are to be spread.
    pub spread: Vec<SpreadConstraint>,
    /// The set of pods that controls it.
    pub owner: Option<(SelectingKind, Name)>,
    /// Its conditions.
    pub conditions: Vec<PodCondition>,
}

static NONE: Wishes = Wishes {
    scheduler_name: String::new(),
    node_selector: BTreeMap::new(),
    node_terms: None,
    preferred_nodes: Vec::new(),
    tolerations: Vec::new(),
    device_claim: None,
    spread: Vec::new(),
    owner: None,
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

    /// Whether the other pod finds a node, or none, as this one does: nothing differs that the scheduler reads for that.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let (wishes, others) = (self.wishes(), other.wishes());
        self.asks_as(other)
            && self.claims.is_empty()
            && other.claims.is_empty()
            && (&self.namespace, self.preempts, &self.nominal, &self.terms, &self.host_ports)
                == (&other.namespace, other.preempts, &other.nominal, &other.terms, &other.host_ports)
            && (&wishes.preferred_nodes, &wishes.spread, &wishes.owner) == (&others.preferred_nodes, &others.spread, &others.owner)
    }

    /// Where it may be placed, and which scheduler decides.
    #[must_use]
    pub fn wishes(&self) -> &Wishes {
        self.wishes.as_deref().unwrap_or(&NONE)
    }

    /// Whether it belongs to the set.
    pub(super) fn is_in(&self, set: &PodSet, namespaces: &NamespaceLabels) -> bool {
        set.contains(&self.namespace, &self.labels, self.deleting, namespaces)
    }

    /// Its condition `PodScheduled` while that is False.
    #[must_use]
    pub fn unschedulable(&self) -> Option<&PodCondition> {
        self.wishes().conditions.iter().find(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
    }
}

/// What a pod counts for when nodes are compared: a container that requests no cpu or memory counts for a little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nominal {
    /// In millicores.
    pub cpu: i64,
    /// In bytes.
    pub memory: i64,
}

impl Nominal {
    /// Adds the other amounts.
    pub(super) fn add(&mut self, other: Self) {
        *self = Self { cpu: self.cpu.saturating_add(other.cpu), memory: self.memory.saturating_add(other.memory) };
    }

    /// Subtracts the other amounts.
    pub(super) fn subtract(&mut self, other: Self) {
        *self = Self { cpu: self.cpu.saturating_sub(other.cpu), memory: self.memory.saturating_sub(other.memory) };
    }
}

/// A port of the node that a pod takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// Its number.
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The address of the node; empty: all.
    pub address: String,
}

impl HostPort {
    /// Whether one node cannot have both.
    #[must_use]
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let is_any = |address: &str| address.is_empty() || address == "0.0.0.0";
        let share = is_any(&self.address) || is_any(&other.address) || self.address == other.address;
        self.port == other.port && self.protocol == other.protocol && share
    }
}

/// The terms of a pod about other pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodTerms {
    /// Pods that it requires in its part of the cluster.
    pub affinity: Vec<PodTerm>,
    /// Pods that must not be in its part of the cluster.
    pub anti_affinity: Vec<PodTerm>,
    /// Pods that make a part of the cluster better by a weight, or worse by a negative one.
    pub preferred: Vec<(i64, PodTerm)>,
}

/// Pods that share a part of the cluster with the pod that has this term, or do not.
#[derive(Clone, Debug, PartialEq)]
pub struct PodTerm {
    /// The node label whose values name the parts: `kubernetes.io/hostname`.
    pub topology_key: String,
    /// The pods.
    pub pods: PodSet,
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

impl NodeView {
    /// Whether pods fit both versions alike.
    pub(super) fn is_equal_for_pods(&self, other: &Self) -> bool {
        (&self.labels, self.unschedulable, &self.taints, &self.allocatable)
            == (&other.labels, other.unschedulable, &other.taints, &other.allocatable)
    }
}

/// What the scheduler reads of a namespace.
#[derive(Clone, Debug)]
pub struct NamespaceView {
    name: Name,
    uid: Uid,
    deleting: bool,
    /// Its labels.
    pub labels: Labels,
}

impl NamespaceView {
    pub(super) fn name(&self) -> Namespace {
        Namespace::shared(&self.name)
    }
}

impl View for NamespaceView {
    fn decode(json: &[u8], _: Revision) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Wire {
            metadata: WireMetadata,
        }
        let wire: Wire = from_json(json)?;
        Ok(Self {
            name: wire.metadata.name.into(),
            uid: wire.metadata.uid.into(),
            deleting: wire.metadata.deletion_timestamp.is_some(),
            labels: wire.metadata.labels.unwrap_or_default(),
        })
    }

    fn identity(&self) -> Identity<'_> {
        Identity { namespace: None, name: &self.name, uid: &self.uid, is_being_deleted: self.deleting }
    }
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
    pub(super) resource_claims: Vec<PodResourceClaim>,
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
    #[serde(rename = "hostIP")]
    pub(super) host_ip: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireAffinity {
    pub(super) node_affinity: Option<WireTerms<WireNodeTerms, PreferredSchedulingTerm>>,
    pub(super) pod_affinity: Option<WireTerms<Vec<PodAffinityTerm>, WeightedPodAffinityTerm>>,
    pub(super) pod_anti_affinity: Option<WireTerms<Vec<PodAffinityTerm>, WeightedPodAffinityTerm>>,
}

#[derive(Deserialize)]
pub(super) struct WireTerms<R, P> {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(super) required: Option<R>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub(super) preferred: Option<Vec<P>>,
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
        let labels = metadata.labels.unwrap_or_default();
        let controller = metadata.owner_references.iter().flat_map(|owners| owners.iter()).find(|owner| owner.controller == Some(true));
        // No placement needs that of a pod that has a node, and nearly all have one.
        let wishes = spec.node_name.is_empty().then(|| {
            let constraints = mem::take(&mut spec.topology_spread_constraints).unwrap_or_default();
            Wishes {
                spread: constraints.iter().filter_map(|constraint| SpreadConstraint::of(constraint, &namespace, &labels)).collect(),
                owner: controller
                    .and_then(|owner| Some((SelectingKind::of_owner(&owner.api_version, &owner.kind)?, Name::from(&owner.name)))),
                ..spec.take_wishes(self.status.conditions)
            }
        });
        let wishes = wishes.filter(|wishes| *wishes != NONE);
        let terms = spec.affinity.as_ref().and_then(|affinity| affinity.terms(&namespace, &labels));
        PodInfo {
            requests: spec.requests(Nominal::default()),
            nominal: spec.nominal(),
            host_ports: spec.host_ports(),
            claims: claims_of(spec.volumes.as_deref().unwrap_or_default()).into_values().collect(),
            terms: terms.map(Box::new),
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

/// A claim of a pod as people know it.
fn device_claim(claim: &PodResourceClaim) -> String {
    match (&claim.resource_claim_name, &claim.resource_claim_template_name) {
        (Some(name), _) => format!("resource claim \"{name}\""),
        (None, template) => format!("resource claim template \"{}\"", template.as_deref().unwrap_or_default()),
    }
}
/// What a container that requests none counts for when nodes are compared.
///
/// Source: kube-scheduler, `DefaultMilliCPURequest` and `DefaultMemoryRequest`.
const MISSING_REQUEST: Nominal = Nominal { cpu: 100, memory: 200 << 20 };

impl WireSpec {
    /// Where the pod may be placed, apart from the terms about other pods.
    fn take_wishes(&mut self, conditions: Vec<PodCondition>) -> Wishes {
        let nodes = self.affinity.as_mut().and_then(|affinity| affinity.node_affinity.take());
        let (required, preferred) = nodes.map(|nodes| (nodes.required, nodes.preferred)).unwrap_or_default();
        Wishes {
            scheduler_name: mem::take(&mut self.scheduler_name),
            node_selector: mem::take(&mut self.node_selector),
            node_terms: required.map(|terms| terms.node_selector_terms),
            preferred_nodes: preferred.unwrap_or_default(),
            tolerations: mem::take(&mut self.tolerations),
            device_claim: self.resource_claims.first().map(device_claim),
            conditions,
            ..Wishes::default()
        }
    }

    fn nominal(&self) -> Nominal {
        let requests = self.requests(MISSING_REQUEST);
        Nominal { cpu: requests.cpu(), memory: requests.memory() }
    }

    /// Containers run together; init containers run before them, one after the other, unless they are sidecars, which stay. `missing` is what a
    /// container counts for that requests no cpu or memory.
    fn requests(&self, missing: Nominal) -> Amounts {
        let of = |container: &WireContainer| {
            let requests = &container.resources.requests;
            let missing = [("cpu", missing.cpu), ("memory", missing.memory)]
                .map(|(name, amount)| (name, if requests.contains_key(name) { 0 } else { amount }));
            let mut amounts = Amounts::from_wire(requests);
            amounts.add(&Amounts::from(missing));
            amounts
        };
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

    fn host_ports(&self) -> Vec<HostPort> {
        let ports = self.containers.iter().flat_map(|container| &container.ports).filter(|port| port.host_port != 0);
        ports.map(|port| HostPort { port: port.host_port, protocol: port.protocol.clone(), address: port.host_ip.clone() }).collect()
    }
}

impl WireAffinity {
    /// The terms about other pods of a pod with these labels; `None` if there are none.
    fn terms(&self, namespace: &Namespace, labels: &Labels) -> Option<PodTerms> {
        let term =
            |term: &PodAffinityTerm| PodTerm { topology_key: term.topology_key.clone(), pods: PodSet::of_term(term, namespace, labels) };
        let (near, apart) = (self.pod_affinity.as_ref(), self.pod_anti_affinity.as_ref());
        let required = |terms: Option<&WireTerms<Vec<PodAffinityTerm>, WeightedPodAffinityTerm>>| -> Vec<PodTerm> {
            terms.and_then(|terms| terms.required.as_ref()).into_iter().flatten().map(term).collect()
        };
        let preferred = |terms: Option<&WireTerms<Vec<PodAffinityTerm>, WeightedPodAffinityTerm>>, sign: i64| -> Vec<(i64, PodTerm)> {
            let weighted = terms.and_then(|terms| terms.preferred.as_ref()).into_iter().flatten();
            weighted.map(|weighted| (sign * i64::from(weighted.weight), term(&weighted.pod_affinity_term))).collect()
        };
        let mut terms = PodTerms { affinity: required(near), anti_affinity: required(apart), preferred: preferred(near, 1) };
        terms.preferred.extend(preferred(apart, -1));
        (terms != PodTerms::default()).then_some(terms)
    }
}
