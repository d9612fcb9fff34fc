//! Whether one node can take one pod, by the node's own state.

use super::{
    affinity,
    view::{NodeView, PodInfo},
};
use crate::resources::Amounts;
use berth_api::k8s_openapi::api::core::v1::Taint;
use berth_identity::Uid;
use berth_workloads::placement;
use std::{collections::BTreeMap, fmt, sync::Arc};

/// A node and what is on it.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeState {
    pub(super) view: Arc<NodeView>,
    /// What its pods ask for.
    pub(super) used: Amounts,
    /// Its pods, by uid.
    pub(super) pods: BTreeMap<Uid, Arc<PodInfo>>,
    /// Those of them that shun others.
    pub(super) shy: BTreeMap<Uid, Arc<PodInfo>>,
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
    HostPort,
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
            Self::TooManyPods | Self::HostPort | Self::AntiAffinity | Self::ExistingAntiAffinity | Self::Spread => true,
            Self::Insufficient { ever, .. } => !ever,
            Self::Unschedulable | Self::Taint | Self::Selector | Self::SpreadLabel => false,
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
            Self::HostPort => f.write_str("node(s) didn't have free ports for the requested pod ports"),
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
        self.pods.insert(pod.uid.clone(), Arc::clone(pod));
        *self.priorities.entry(pod.priority).or_default() += 1;
        if !pod.anti_affinity.is_empty() {
            self.shy.insert(pod.uid.clone(), Arc::clone(pod));
        }
    }

    pub(super) fn remove(&mut self, uid: &str) {
        if let Some(pod) = self.pods.remove(uid) {
            self.used.subtract(&pod.requests);
            self.shy.remove(uid);
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
        let node = &*self.view;
        if node.unschedulable && !tolerates(pod, &unschedulable_taint()) {
            return vec![Misfit::Unschedulable];
        }
        if !tolerates_all(pod, node) {
            return vec![Misfit::Taint];
        }
        if !affinity::selects(pod, node) {
            return vec![Misfit::Selector];
        }
        if pod.host_ports.iter().any(|port| self.pods.values().any(|other| other.host_ports.contains(port))) {
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

    /// How empty the node would be with the pod, 0 to 200: the mean of cpu and memory, so that pods spread.
    pub(super) fn score(&self, pod: &PodInfo) -> i64 {
        let left = |amount: fn(&Amounts) -> i64, at_least: i64| {
            let has = amount(&self.view.allocatable);
            if has == 0 {
                return 0;
            }
            let nominal = i64::try_from(self.pods.len() + 1).unwrap_or(i64::MAX).saturating_mul(at_least);
            let taken = amount(&self.used).saturating_add(amount(&pod.requests)).max(nominal);
            (has.saturating_sub(taken)).max(0).saturating_mul(1000) / has
        };
        left(Amounts::cpu, NOMINAL_CPU_MILLIS) + left(Amounts::memory, NOMINAL_MEMORY_BYTES)
    }
}

/// Pods that ask for nothing still count for this much when nodes are compared, as upstream has it.
const NOMINAL_CPU_MILLIS: i64 = 100;
const NOMINAL_MEMORY_BYTES: i64 = 200 << 20;

fn unschedulable_taint() -> Taint {
    Taint { key: "node.kubernetes.io/unschedulable".to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() }
}

/// Whether the pod minds none of the node's taints that keep pods away.
pub(super) fn tolerates_all(pod: &PodInfo, node: &NodeView) -> bool {
    node.taints.iter().all(|taint| taint.effect == "PreferNoSchedule" || tolerates(pod, taint))
}

fn tolerates(pod: &PodInfo, taint: &Taint) -> bool {
    pod.wishes().tolerations.iter().any(|toleration| placement::tolerates(toleration, taint))
}
