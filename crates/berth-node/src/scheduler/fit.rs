//! Whether one node can take one pod, by the node's own state.

use super::{
    affinity,
    view::{NodeView, PodView},
};
use crate::resources::Amounts;
use berth_api::k8s_openapi::api::core::v1::{Taint, Toleration};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// A node and what is on it.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeState {
    pub(super) view: Arc<NodeView>,
    /// What its pods ask for.
    pub(super) used: Amounts,
    /// Its pods, by uid.
    pub(super) pods: BTreeMap<String, Arc<PodView>>,
    /// Those of them that shun others.
    pub(super) shy: BTreeMap<String, Arc<PodView>>,
}

/// Why a node is no place for a pod. The texts are those that people know from `kubectl describe pod`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Misfit {
    TooManyPods,
    Insufficient(String),
    Unschedulable,
    Taint(String),
    Selector,
    HostPort,
    AntiAffinity,
    /// A pod that is there does not want the new one.
    ExistingAntiAffinity,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyPods => f.write_str("Too many pods"),
            Self::Insufficient(resource) => write!(f, "Insufficient {resource}"),
            Self::Unschedulable => f.write_str("node(s) were unschedulable"),
            Self::Taint(taint) => write!(f, "node(s) had untolerated taint(s) {{{taint}}}"),
            Self::Selector => f.write_str("node(s) didn't match Pod's node affinity/selector"),
            Self::HostPort => f.write_str("node(s) didn't have free ports for the requested pod ports"),
            Self::AntiAffinity => f.write_str("node(s) didn't match pod anti-affinity rules"),
            Self::ExistingAntiAffinity => f.write_str("node(s) didn't satisfy existing pods anti-affinity rules"),
        }
    }
}

impl NodeState {
    pub(super) fn insert(&mut self, pod: &Arc<PodView>) {
        self.used.add(&pod.requests);
        self.pods.insert(pod.uid.clone(), Arc::clone(pod));
        if !pod.anti_affinity.is_empty() {
            self.shy.insert(pod.uid.clone(), Arc::clone(pod));
        }
    }

    pub(super) fn remove(&mut self, uid: &str) {
        if let Some(pod) = self.pods.remove(uid) {
            self.used.subtract(&pod.requests);
            self.shy.remove(uid);
        }
    }

    /// Why the pod cannot run here, looking at this node alone. `None`: it can.
    pub(super) fn misfit(&self, pod: &PodView) -> Option<Misfit> {
        let node = &*self.view;
        if node.unschedulable && !tolerates(&pod.tolerations, &unschedulable_taint()) {
            return Some(Misfit::Unschedulable);
        }
        if !affinity::selects(pod, node) {
            return Some(Misfit::Selector);
        }
        if let Some(taint) = node.taints.iter().find(|taint| taint.effect != "PreferNoSchedule" && !tolerates(&pod.tolerations, taint)) {
            return Some(Misfit::Taint(shown(taint)));
        }
        if pod.host_ports.iter().any(|port| self.pods.values().any(|other| other.host_ports.contains(port))) {
            return Some(Misfit::HostPort);
        }
        self.shortage(pod)
    }

    fn shortage(&self, pod: &PodView) -> Option<Misfit> {
        let short = |(name, wanted): (&str, i64)| wanted > 0 && self.view.allocatable.get(name) - self.used.get(name) < wanted;
        let (name, _) = pod.requests.iter().find(|request| short(*request))?;
        Some(if name == "pods" { Misfit::TooManyPods } else { Misfit::Insufficient(name.to_owned()) })
    }

    /// How empty the node would be with the pod, 0 to 200: the mean of cpu and memory, so that pods spread.
    pub(super) fn score(&self, pod: &PodView) -> i64 {
        let left = |resource: &str, at_least: i64| {
            let has = self.view.allocatable.get(resource);
            if has == 0 {
                return 0;
            }
            let nominal = i64::try_from(self.pods.len() + 1).unwrap_or(i64::MAX).saturating_mul(at_least);
            let taken = (self.used.get(resource).saturating_add(pod.requests.get(resource))).max(nominal);
            (has.saturating_sub(taken)).max(0).saturating_mul(1000) / has
        };
        left("cpu", NOMINAL_CPU_MILLIS) + left("memory", NOMINAL_MEMORY_BYTES)
    }
}

/// Pods that ask for nothing still count for this much when nodes are compared, as upstream has it.
const NOMINAL_CPU_MILLIS: i64 = 100;
const NOMINAL_MEMORY_BYTES: i64 = 200 << 20;

fn unschedulable_taint() -> Taint {
    Taint { key: "node.kubernetes.io/unschedulable".to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() }
}

fn shown(taint: &Taint) -> String {
    match taint.value.as_deref() {
        Some(value) if !value.is_empty() => format!("{}: {value}", taint.key),
        _ => format!("{}: ", taint.key),
    }
}

/// Whether one of the tolerations covers the taint.
pub(super) fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| {
        let effect = toleration.effect.as_deref().unwrap_or_default();
        let key = toleration.key.as_deref().unwrap_or_default();
        let exists = toleration.operator.as_deref() == Some("Exists");
        (effect.is_empty() || effect == taint.effect)
            && (key == taint.key || (key.is_empty() && exists))
            && (exists || toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default())
    })
}
