//! Views of DaemonSets, and of nodes and pods as DaemonSets read them.

use super::{Identity, View, WireMetadata, WorkloadSpec, WorkloadView, decode_workload};
use crate::{resources::DAEMON_SETS, selector::Labels};
use berth_api::decode::from_json;
use berth_identity::{GroupResource, Name, Revision, Uid};
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSetSpec, DaemonSetStatus},
        core::v1::{NodeAffinity, Taint},
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What plans read of a DaemonSet.
pub type DaemonSetView = WorkloadView<DaemonSetSpec>;

/// How a DaemonSet replaces pods of older templates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DaemonUpdate {
    /// As fast as `maxUnavailable` or `maxSurge` allows.
    #[default]
    RollingUpdate,
    /// When a client deletes them. So is any type that is unknown here.
    OnDelete,
}

impl WorkloadSpec for DaemonSetSpec {
    type Status = DaemonSetStatus;
    type Choices = DaemonUpdate;
    const RESOURCE: GroupResource = DAEMON_SETS;

    fn selector(&self) -> Option<&LabelSelector> {
        Some(&self.selector)
    }

    fn choices(&self, _: &BTreeMap<String, String>) -> DaemonUpdate {
        match self.update_strategy.as_ref().and_then(|strategy| strategy.type_.as_deref()) {
            None | Some("" | "RollingUpdate") => DaemonUpdate::RollingUpdate,
            Some(_) => DaemonUpdate::OnDelete,
        }
    }

    fn decode(json: &[u8], revision: Revision) -> Result<DaemonSetView, serde_json::Error> {
        decode_workload(json, revision)
    }
}

/// What DaemonSets read of a node: which pods fit it. Heartbeats change nothing here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonNodeView {
    /// Its name.
    pub name: Name,
    /// Its uid.
    pub uid: Uid,
    /// Its labels.
    pub labels: Labels,
    /// Its taints.
    pub taints: Vec<Taint>,
}

#[derive(Deserialize)]
struct NodeWire {
    metadata: WireMetadata,
    spec: Option<NodeSpec>,
}

#[derive(Default, Deserialize)]
struct NodeSpec {
    taints: Option<Vec<Taint>>,
}

impl View for DaemonNodeView {
    fn decode(json: &[u8], _: Revision) -> Result<Self, serde_json::Error> {
        let NodeWire { metadata, spec } = from_json(json)?;
        Ok(Self {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            labels: metadata.labels.unwrap_or_default(),
            taints: spec.and_then(|spec| spec.taints).unwrap_or_default(),
        })
    }

    fn identity(&self) -> Identity<'_> {
        Identity { namespace: None, name: &self.name, uid: &self.uid, is_being_deleted: false }
    }
}

/// The node that an affinity requires by name. `None`: none, or several.
///
/// Source: kubernetes `pkg/controller/daemon/util/daemonset_util.go`, `GetTargetNodeName`.
pub(super) fn required_node(affinity: &NodeAffinity) -> Option<&str> {
    let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
    let mut fields = terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    let field = fields.find(|field| field.key == "metadata.name" && field.operator == "In")?;
    match field.values.as_deref() {
        Some([node]) => Some(node),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::PodView;
    use serde_json::{Value, json};

    #[test]
    fn a_daemon_set_and_a_node_are_read() {
        let set = |strategy: &Value| {
            let json = json!({
                "metadata": {"name": "agent", "generation": 2},
                "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": {"spec": {"containers": []}}, "updateStrategy": strategy},
            });
            DaemonSetView::decode(json.to_string().as_bytes(), Revision(1)).expect("a set")
        };
        let types = [json!(null), json!({"type": "RollingUpdate"}), json!({"type": "OnDelete"}), json!({"type": "Other"})];
        let wanted = [DaemonUpdate::RollingUpdate, DaemonUpdate::RollingUpdate, DaemonUpdate::OnDelete, DaemonUpdate::OnDelete];
        assert_eq!(types.map(|strategy| set(&strategy).choices), wanted);
        assert!(set(&json!(null)).selector.is_some_and(|selector| selector.matches(&Labels::from([("app", "agent")]))));
        let node = json!({"metadata": {"name": "n1", "labels": {"zone": "a"}}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
        let node = DaemonNodeView::decode(node.to_string().as_bytes(), Revision(1)).expect("a node");
        assert_eq!((&*node.name, node.labels.get("zone"), &*node.taints[0].key), ("n1", Some("a"), "k"));
    }

    #[test]
    fn a_pod_names_its_node_before_it_is_bound() {
        let pod = |node: Value, nodes: &[&str]| {
            let field = json!({"key": "metadata.name", "operator": "In", "values": nodes});
            let required = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
            let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
            let json = json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "containers": [], "affinity": affinity}});
            let read = PodView::decode(json.to_string().as_bytes(), Revision(1)).expect("a pod");
            let typed: k8s_openapi::api::core::v1::Pod = serde_json::from_value(json).expect("a pod");
            assert_eq!(PodView::of_pod(&typed, Revision(1)), read);
            read.target_node().to_string()
        };
        assert_eq!(pod(json!(null), &["n1"]), "n1");
        assert_eq!(pod(json!("n2"), &["n1"]), "n2");
        assert_eq!(pod(json!(null), &["n1", "n2"]), "");
    }
}
