//! One topology spread constraint of a pod.

use super::{HOSTNAME, pod_set::PodSet};
use berth_api::{Selector, k8s_openapi::api::core::v1::TopologySpreadConstraint};
use berth_identity::Namespace;
use berth_workloads::selector::Labels;

/// One constraint of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct SpreadConstraint {
    /// The node label whose values name the parts of the cluster.
    pub(super) topology_key: String,
    /// By how many pods a part may be ahead of the one with the fewest.
    pub(super) max_skew: i64,
    /// Whether nodes that break it are out of the question (`DoNotSchedule`); else they are only worse.
    pub(super) required: bool,
    /// As long as there are fewer parts than this, the fewest counts as 0.
    pub(super) min_domains: usize,
    /// Which pods are counted, of the pod's own namespace. Upstream counts none for an empty selector.
    pub(super) pods: PodSet,
    /// Whether the selector matches the pod itself, also if it is empty.
    pub(super) matches_itself: bool,
    /// Whether parts count only by the nodes that the pod's node selector and affinity allow.
    pub(super) honors_affinity: bool,
    /// Whether parts count only by the nodes whose taints the pod tolerates.
    pub(super) honors_taints: bool,
}

impl SpreadConstraint {
    /// The constraint of a pod with these labels in `namespace`; those that `matchLabelKeys` name become part of the selector. `None` if it is not
    /// valid.
    pub(super) fn of(wire: &TopologySpreadConstraint, namespace: &Namespace, labels: &Labels) -> Option<Self> {
        let selector = match &wire.label_selector {
            None => None,
            Some(written) => {
                let mut written = written.clone();
                for key in wire.match_label_keys.iter().flatten() {
                    let Some(value) = labels.get(key) else { continue };
                    // A requested label already states at least as much: the server writes these keys into new pods' selectors.
                    let asked = written.match_expressions.iter().flatten().any(|expression| expression.key == *key);
                    if !asked {
                        written.match_labels.get_or_insert_default().insert(key.clone(), value.to_owned());
                    }
                }
                Some(Selector::from_label_selector(&written).ok()?)
            }
        };
        Some(Self {
            topology_key: wire.topology_key.clone(),
            max_skew: wire.max_skew.into(),
            required: wire.when_unsatisfiable == "DoNotSchedule",
            min_domains: wire.min_domains.and_then(|domains| usize::try_from(domains).ok()).unwrap_or(1),
            matches_itself: selector.as_ref().is_some_and(|selector| selector.matches(labels)),
            pods: PodSet::active_in(namespace, selector.filter(|selector| !selector.is_everything())),
            honors_affinity: wire.node_affinity_policy.as_deref() != Some("Ignore"),
            honors_taints: wire.node_taints_policy.as_deref() == Some("Honor"),
        })
    }

    /// A constraint that the scheduler adds: pods of the selector are spread over the label if possible.
    pub(super) fn preferred(topology_key: &str, max_skew: i64, pods: &PodSet) -> Self {
        Self {
            topology_key: topology_key.to_owned(),
            max_skew,
            required: false,
            min_domains: 1,
            pods: pods.clone(),
            matches_itself: true,
            honors_affinity: true,
            honors_taints: false,
        }
    }

    /// Whether each node is a part of its own.
    pub(super) fn is_by_node(&self) -> bool {
        self.topology_key == HOSTNAME
    }
}
