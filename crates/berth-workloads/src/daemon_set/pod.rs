//! The pods that a DaemonSet creates.

use super::observe::Observed;
use crate::{claim, resources::DAEMON_SET, stateful_set::REVISION_LABEL};
use k8s_openapi::{
    api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

/// The longest name of a pod.
const NAME_LENGTH_MAX: usize = 253;
/// How often the template has changed, in an annotation of the set and a label of its pods.
const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";
const GENERATION_LABEL: &str = "pod-template-generation";

/// The pod for a node, without a name.
pub(super) fn on_node(observed: &Observed<'_>, node: &str) -> Pod {
    let set = observed.set();
    let template = set.spec.template.metadata.as_ref();
    let mut labels = template.and_then(|metadata| metadata.labels.clone()).unwrap_or_default();
    if let Some(generation) = set.annotations.get(GENERATION_ANNOTATION).and_then(|text| text.parse::<i64>().ok()) {
        labels.insert(GENERATION_LABEL.to_owned(), generation.to_string());
    }
    labels.insert(REVISION_LABEL.to_owned(), observed.hash.to_owned());
    // The dash is left out where no room is left for it. The API server cuts the rest to fit.
    let dash = if set.meta.name.len() < NAME_LENGTH_MAX { "-" } else { "" };
    let mut spec = observed.spec.clone();
    require_node(&mut spec, node);
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}{dash}", set.meta.name)),
            namespace: Some(set.meta.namespace.to_string()),
            labels: Some(labels),
            annotations: template.and_then(|metadata| metadata.annotations.clone()),
            finalizers: template.and_then(|metadata| metadata.finalizers.clone()),
            owner_references: Some(vec![claim::controller_reference(&DAEMON_SET, &set.meta)]),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        ..Pod::default()
    }
}

/// Replaces the required affinity, which the node matches, by the node's name.
///
/// Source: kubernetes `pkg/controller/daemon/util/daemonset_util.go`, `ReplaceDaemonSetPodNodeNameNodeAffinity`.
fn require_node(spec: &mut PodSpec, node: &str) {
    let name = NodeSelectorRequirement { key: "metadata.name".to_owned(), operator: "In".to_owned(), values: Some(vec![node.to_owned()]) };
    let term = NodeSelectorTerm { match_fields: Some(vec![name]), ..NodeSelectorTerm::default() };
    let affinity = spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
    affinity.required_during_scheduling_ignored_during_execution = Some(NodeSelector { node_selector_terms: vec![term] });
}
