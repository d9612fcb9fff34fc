//! The pods of a DaemonSet by node.

use super::{
    DaemonSetState,
    fit::{Fit, fit},
    tolerations::with_daemon_tolerations,
};
use crate::{
    stateful_set::REVISION_LABEL,
    view::{DaemonSetView, PodView},
};
use k8s_openapi::api::core::v1::PodSpec;
use std::collections::BTreeMap;

/// The state, sorted.
pub(super) struct Observed<'a> {
    pub(super) state: &'a DaemonSetState,
    /// The revision that new pods name.
    pub(super) hash: &'a str,
    /// The spec of new pods, without their node.
    pub(super) spec: PodSpec,
    /// Nodes that exist or that a pod names, by name.
    pub(super) nodes: BTreeMap<&'a str, OnNode<'a>>,
}

/// A node and the set's pods on it.
#[derive(Default)]
pub(super) struct OnNode<'a> {
    /// `None`: the node does not exist.
    pub(super) fit: Option<Fit>,
    /// Bound ones first, then the oldest first. Pods that have finished and terminate are left out.
    pub(super) pods: Vec<&'a PodView>,
}

/// The pod of each revision on a node, terminating ones left out.
pub(super) struct Pair<'a> {
    pub(super) new: Option<&'a PodView>,
    pub(super) old: Option<&'a PodView>,
}

impl<'a> Observed<'a> {
    pub(super) fn new(state: &'a DaemonSetState, hash: &'a str) -> Self {
        let spec = with_daemon_tolerations(state.set.spec.template.spec.clone().unwrap_or_default());
        let mut nodes: BTreeMap<&str, OnNode<'_>> = BTreeMap::new();
        for node in &state.nodes {
            nodes.entry(node.name.as_str()).or_default().fit = Some(fit(&spec, node));
        }
        let mut pods: Vec<&PodView> = state.pods.iter().map(|pod| &**pod).collect();
        pods.retain(|pod| !(pod.phase.is_finished() && pod.meta.deleted.is_some()));
        pods.sort_by(|a, b| {
            let key = |pod: &PodView| (pod.node_name.is_empty(), pod.meta.created);
            key(a).cmp(&key(b)).then_with(|| a.meta.name.cmp(&b.meta.name))
        });
        for pod in pods.into_iter().filter(|pod| !pod.target_node().is_empty()) {
            nodes.entry(pod.target_node().as_str()).or_default().pods.push(pod);
        }
        Self { state, hash, spec, nodes }
    }

    pub(super) fn set(&self) -> &'a DaemonSetView {
        &self.state.set
    }

    /// How many nodes should have a pod.
    pub(super) fn desired(&self) -> u32 {
        count(self.nodes.values().filter(|node| node.fit == Some(Fit::Runs)))
    }

    pub(super) fn is_new(&self, pod: &PodView) -> bool {
        pod.meta.labels.get(REVISION_LABEL) == Some(self.hash)
    }

    pub(super) fn is_available(&self, pod: &PodView) -> bool {
        pod.available_at(self.min_ready_seconds()).is_some_and(|at| at <= self.state.now)
    }

    pub(super) fn min_ready_seconds(&self) -> i32 {
        self.set().spec.min_ready_seconds.unwrap_or(0)
    }

    /// The pods of the node by revision. `None`: it has several of one.
    pub(super) fn pair(&self, node: &OnNode<'a>) -> Option<Pair<'a>> {
        let mut pair = Pair { new: None, old: None };
        for pod in node.pods.iter().copied().filter(|pod| pod.meta.deleted.is_none()) {
            let place = if self.is_new(pod) { &mut pair.new } else { &mut pair.old };
            if place.replace(pod).is_some() {
                return None;
            }
        }
        Some(pair)
    }

    /// The pods of older revisions that do not terminate.
    pub(super) fn outdated(&self) -> u32 {
        let pods = self.nodes.values().flat_map(|node| &node.pods);
        count(pods.filter(|pod| pod.meta.deleted.is_none() && !self.is_new(pod)))
    }
}

/// How many there are.
pub(super) fn count<T>(items: impl Iterator<Item = T>) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}
