//! Whether one node can take one pod, by the node's own state.

use super::{
    affinity,
    view::{HostPort, NodeView, Nominal, PodInfo},
};
use crate::resources::Amounts;
use berth_api::k8s_openapi::api::core::v1::{Taint, Toleration};
use berth_identity::Uid;
use berth_workloads::placement;
use std::{collections::BTreeMap, fmt, sync::Arc};

/// A node and what is on it.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeState {
    pub(super) view: Arc<NodeView>,
    /// What its pods ask for.
    pub(super) used: Amounts,
    /// What its pods count for when nodes are compared.
    pub(super) nominal: Nominal,
    /// Its pods, by uid.
    pub(super) pods: BTreeMap<Uid, Arc<PodInfo>>,
    /// How many of them there are of each priority.
    pub(super) priorities: BTreeMap<i32, usize>,
}

/// Why a node is no place for a pod. The texts are those that people know from `kubectl describe pod`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Misfit {
    TooManyPods,
    Insufficient {
        resource: String,
        /// Whether the node could not take the pod if it were empty.
        ever: bool,
    },
    Unschedulable,
    Taint,
    Selector,
    /// The pod's node affinity names other nodes.
    NotNamed,
    HostPort,
    /// Another pod uses a claim that only one pod may use.
    ClaimInUse,
    /// A bound volume is not available there.
    VolumeElsewhere,
    /// There is no volume for a claim that waits for a node.
    NoVolume,
    VolumeZone,
    /// Pods that the pod requires are not in this part of the cluster.
    Affinity,
    AntiAffinity,
    /// A pod that is there does not want the new one.
    ExistingAntiAffinity,
    /// There would be too many pods like it in this part of the cluster.
    Spread,
    /// The node is in no part of the cluster that pods could be spread over.
    SpreadLabel,
}

impl Misfit {
    /// Whether the node could take the pod if some pods left it.
    pub(super) fn is_resolvable(&self) -> bool {
        match self {
            Self::TooManyPods | Self::HostPort | Self::ClaimInUse | Self::AntiAffinity | Self::ExistingAntiAffinity | Self::Spread => true,
            Self::Insufficient { ever, .. } => !ever,
            Self::Unschedulable
            | Self::Taint
            | Self::Selector
            | Self::NotNamed
            | Self::VolumeElsewhere
            | Self::NoVolume
            | Self::VolumeZone
            | Self::Affinity
            | Self::SpreadLabel => false,
        }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyPods => f.write_str("Too many pods"),
            Self::Insufficient { resource, .. } => write!(f, "Insufficient {resource}"),
            Self::Unschedulable => f.write_str("node(s) were unschedulable"),
            Self::Taint => f.write_str("node(s) had untolerated taint(s)"),
            Self::Selector => f.write_str("node(s) didn't match Pod's node affinity/selector"),
            Self::NotNamed => f.write_str("node(s) didn't satisfy plugin(s) [NodeAffinity]"),
            Self::HostPort => f.write_str("node(s) didn't have free ports for the requested pod ports"),
            Self::ClaimInUse => f.write_str(
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
            ),
            Self::VolumeElsewhere => f.write_str("node(s) didn't match PersistentVolume's node affinity"),
            Self::NoVolume => f.write_str("node(s) didn't find available persistent volumes to bind"),
            Self::VolumeZone => f.write_str("node(s) had no available volume zone"),
            Self::Affinity => f.write_str("node(s) didn't match pod affinity rules"),
            Self::AntiAffinity => f.write_str("node(s) didn't match pod anti-affinity rules"),
            Self::ExistingAntiAffinity => f.write_str("node(s) didn't satisfy existing pods anti-affinity rules"),
            Self::Spread => f.write_str("node(s) didn't match pod topology spread constraints"),
            Self::SpreadLabel => f.write_str("node(s) didn't match pod topology spread constraints (missing required label)"),
        }
    }
}

impl NodeState {
    pub(super) fn insert(&mut self, pod: &Arc<PodInfo>) {
        self.used.add(&pod.requests);
        self.nominal.add(pod.nominal);
        self.pods.insert(pod.uid.clone(), Arc::clone(pod));
        *self.priorities.entry(pod.priority).or_default() += 1;
    }

    pub(super) fn remove(&mut self, uid: &str) {
        if let Some(pod) = self.pods.remove(uid) {
            self.used.subtract(&pod.requests);
            self.nominal.subtract(pod.nominal);
            if let Some(count) = self.priorities.get_mut(&pod.priority) {
                *count -= 1;
                if *count == 0 {
                    self.priorities.remove(&pod.priority);
                }
            }
        }
    }

    /// Whether a pod of a lower priority is here. Takes no time, however many there are.
    pub(super) fn has_below(&self, priority: i32) -> bool {
        self.priorities.first_key_value().is_some_and(|(lowest, _)| *lowest < priority)
    }

    /// Why the pod cannot run here, considering this node alone: all reasons of the first violated rule. Empty: it can.
    ///
    /// Source: the order of the filter plugins of kube-scheduler.
    pub(super) fn misfits(&self, pod: &PodInfo) -> Vec<Misfit> {
        let (node, wishes) = (&*self.view, pod.wishes());
        if node.unschedulable && !tolerates(&wishes.tolerations, &unschedulable_taint()) {
            return vec![Misfit::Unschedulable];
        }
        if !tolerates_all(&wishes.tolerations, node) {
            return vec![Misfit::Taint];
        }
        if !affinity::selects(wishes, node) {
            return vec![Misfit::Selector];
        }
        let is_taken = |port: &HostPort| self.pods.values().any(|other| other.host_ports.iter().any(|taken| taken.conflicts_with(port)));
        if pod.host_ports.iter().any(is_taken) {
            return vec![Misfit::HostPort];
        }
        self.shortages(pod).collect()
    }

    fn shortages(&self, pod: &PodInfo) -> impl Iterator<Item = Misfit> {
        let (has, used) = (&self.view.allocatable, &self.used);
        pod.requests.beyond(has, used).map(|(name, wanted)| match name {
            "pods" => Misfit::TooManyPods,
            _ => Misfit::Insufficient { resource: name.to_owned(), ever: has.get(name) < wanted },
        })
    }
}

fn unschedulable_taint() -> Taint {
    Taint { key: "node.kubernetes.io/unschedulable".to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() }
}

/// Whether these tolerate all of the node's taints that keep pods away.
pub(super) fn tolerates_all(tolerations: &[Toleration], node: &NodeView) -> bool {
    node.taints.iter().all(|taint| taint.effect == "PreferNoSchedule" || tolerates(tolerations, taint))
}

/// How many taints the pod does not tolerate of those that keep pods away if possible.
pub(super) fn avoided_taints(pod: &PodInfo, node: &NodeView) -> i64 {
    let taints = node.taints.iter().filter(|taint| taint.effect == "PreferNoSchedule");
    let avoided = taints.filter(|taint| !tolerates(&pod.wishes().tolerations, taint)).count();
    i64::try_from(avoided).unwrap_or(i64::MAX)
}

fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| placement::tolerates(toleration, taint))
}
