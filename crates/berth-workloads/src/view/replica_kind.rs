//! The two kinds that keep a number of equal pods. One planner serves both, as one controller does upstream.

use super::{PodReplacementPolicy, ReplicaSetView, wire};
use crate::{
    resources::{REPLICA_SET, REPLICA_SETS, REPLICATION_CONTROLLER, REPLICATION_CONTROLLERS},
    selector::Selector,
};
use berth_api::{apps::ReplicaSetStatus, decode::from_json};
use berth_identity::{GroupResource, GroupVersionKind, Revision};
use k8s_openapi::{api::core::v1::PodTemplateSpec, apimachinery::pkg::apis::meta::v1::LabelSelector};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// A kind that keeps a number of equal pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReplicaKind {
    /// `apps/v1`.
    #[default]
    ReplicaSet,
    /// `v1`: its predecessor. Its selector is a map, and its status has no `terminatingReplicas`.
    ReplicationController,
}

impl ReplicaKind {
    /// Its resource.
    #[must_use]
    pub const fn resource(self) -> GroupResource {
        match self {
            Self::ReplicaSet => REPLICA_SETS,
            Self::ReplicationController => REPLICATION_CONTROLLERS,
        }
    }

    /// Its name in manifests and owner references.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReplicaSet => "ReplicaSet",
            Self::ReplicationController => "ReplicationController",
        }
    }

    /// Its group, version and kind.
    #[must_use]
    pub const fn kind(self) -> GroupVersionKind {
        match self {
            Self::ReplicaSet => REPLICA_SET,
            Self::ReplicationController => REPLICATION_CONTROLLER,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ControllerSpec {
    replicas: Option<i32>,
    min_ready_seconds: Option<i32>,
    selector: Option<BTreeMap<String, String>>,
    template: Option<PodTemplateSpec>,
}

impl ReplicaSetView {
    /// Reads a ReplicationController's JSON. berth's annotations of ReplicaSets have no effect on it. An empty selector selects nothing.
    ///
    /// # Errors
    /// Those of [`View::decode`](super::View::decode).
    pub fn decode_controller(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let wire: wire::Object<ControllerSpec, ReplicaSetStatus> = from_json(json)?;
        let (spec, mut metadata) = (wire.spec.unwrap_or_default(), wire.metadata);
        let labels = spec.selector.filter(|labels| !labels.is_empty());
        let selector = labels.map(|labels| LabelSelector { match_labels: Some(labels), match_expressions: None });
        Ok(Self {
            kind: ReplicaKind::ReplicationController,
            deleted_pod_policy: PodReplacementPolicy::default(),
            annotations: metadata.annotations.take().unwrap_or_default(),
            meta: metadata.into_meta(revision),
            replicas: spec.replicas.unwrap_or(1),
            min_ready_seconds: spec.min_ready_seconds.unwrap_or(0),
            selector: selector.as_ref().and_then(Selector::parse),
            template: Arc::new(spec.template.unwrap_or_default()),
            status: wire.status.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selector::Labels;
    use serde_json::{Value, json};

    fn controller(spec: &Value) -> ReplicaSetView {
        let annotations = json!({"berth.dev/deleted-pod-replacement-policy": "TerminationComplete"});
        let metadata = json!({"name": "web", "namespace": "shop", "uid": "u", "generation": 3, "annotations": annotations});
        let json = json!({"metadata": metadata, "spec": spec, "status": {"replicas": 2, "observedGeneration": 2}});
        ReplicaSetView::decode_controller(json.to_string().as_bytes(), Revision(4)).expect("a controller")
    }

    #[test]
    fn a_replication_controller_is_read_and_saved() {
        let view = controller(&json!({
            "selector": {"app": "web"}, "minReadySeconds": 5,
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}},
        }));
        let selector = view.selector.as_ref().expect("a selector");
        assert!(selector.matches(&Labels::from([("app", "web"), ("tier", "a")])) && !selector.matches(&Labels::from([("app", "db")])));
        assert_eq!((view.replicas, view.min_ready_seconds, view.status.replicas), (1, 5, 2));
        assert_eq!(view.deleted_pod_policy, PodReplacementPolicy::default());
        assert_eq!((view.reference().resource, view.reference().resource_version), (REPLICATION_CONTROLLERS, Some(Revision(4))));
        let saved = serde_json::to_string(&view).expect("JSON");
        assert_eq!(serde_json::from_str::<ReplicaSetView>(&saved).expect("a controller"), view);
    }

    #[test]
    fn an_empty_selector_selects_nothing() {
        assert_eq!([json!({"selector": {}}), json!({})].map(|spec| controller(&spec).selector), [None, None]);
    }
}
