//! One topology spread constraint of a pod.

use berth_api::{Selector, k8s_openapi::api::core::v1::TopologySpreadConstraint};
use berth_workloads::selector::Labels;

/// One constraint of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreadConstraint {
    /// The node label whose values name the parts of the cluster.
    pub(super) topology_key: String,
    /// By how many pods a part may be ahead of the one with the fewest.
    pub(super) max_skew: i64,
    /// Whether nodes that break it are out of the question (`DoNotSchedule`); else they are only worse.
    pub(super) required: bool,
    /// As long as there are fewer parts than this, the fewest counts as 0.
    pub(super) min_domains: usize,
    /// Which pods are counted, of the pod's own namespace.
    pub(super) selector: Selector,
    /// The selector's text, by which it is known; `None`: it selects nothing.
    pub(super) text: Option<String>,
    /// Whether parts count only by the nodes that the pod's node selector and affinity allow.
    pub(super) honors_affinity: bool,
    /// Whether parts count only by the nodes whose taints the pod tolerates.
    pub(super) honors_taints: bool,
}

impl SpreadConstraint {
    /// The constraint of a pod with these labels; those that `matchLabelKeys` name become part of the selector. `None` if it is not valid.
    pub(super) fn of(wire: &TopologySpreadConstraint, labels: &Labels) -> Option<Self> {
        let selector = match &wire.label_selector {
            None => Selector::nothing(),
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
                Selector::from_label_selector(&written).ok()?
            }
        };
        Some(Self {
            topology_key: wire.topology_key.clone(),
            max_skew: wire.max_skew.into(),
            required: wire.when_unsatisfiable == "DoNotSchedule",
            min_domains: wire.min_domains.and_then(|domains| usize::try_from(domains).ok()).unwrap_or(1),
            text: wire.label_selector.as_ref().map(|_| selector.to_string()),
            selector,
            honors_affinity: wire.node_affinity_policy.as_deref() != Some("Ignore"),
            honors_taints: wire.node_taints_policy.as_deref() == Some("Honor"),
        })
    }
}
