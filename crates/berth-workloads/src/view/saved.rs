//! The serialized form of views. Parsed fields are not serialized: reading parses them again, so that the two cannot disagree.

use super::{Meta, PodReplacementPolicy, ReplicaKind, ReplicaSetView, WorkloadSpec, WorkloadView};
use crate::{selector::Selector, shared};
use berth_api::{annotations::BERTH_DELETED_POD_REPLACEMENT_POLICY, apps::ReplicaSetStatus};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// A Deployment or a StatefulSet.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub(super) struct Workload<S: WorkloadSpec> {
    meta: Meta,
    annotations: BTreeMap<String, String>,
    #[serde(with = "shared")]
    spec: Arc<S>,
    status: S::Status,
}

impl<S: WorkloadSpec> From<WorkloadView<S>> for Workload<S> {
    fn from(view: WorkloadView<S>) -> Self {
        let WorkloadView { meta, annotations, spec, choices: _, selector: _, status } = view;
        Self { meta, annotations, spec, status }
    }
}

impl<S: WorkloadSpec> From<Workload<S>> for WorkloadView<S> {
    fn from(saved: Workload<S>) -> Self {
        let Workload { meta, annotations, spec, status } = saved;
        Self { choices: spec.choices(&annotations), selector: spec.selector().and_then(Selector::parse), meta, annotations, spec, status }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReplicaSet {
    #[serde(default)]
    kind: ReplicaKind,
    meta: Meta,
    annotations: BTreeMap<String, String>,
    replicas: i32,
    min_ready_seconds: i32,
    selector: Option<Selector>,
    #[serde(with = "shared")]
    template: Arc<PodTemplateSpec>,
    status: ReplicaSetStatus,
}

impl From<ReplicaSetView> for ReplicaSet {
    fn from(view: ReplicaSetView) -> Self {
        let ReplicaSetView { kind, meta, annotations, replicas, min_ready_seconds, selector, deleted_pod_policy: _, template, status } =
            view;
        Self { kind, meta, annotations, replicas, min_ready_seconds, selector, template, status }
    }
}

impl From<ReplicaSet> for ReplicaSetView {
    fn from(saved: ReplicaSet) -> Self {
        let ReplicaSet { kind, meta, annotations, replicas, min_ready_seconds, selector, template, status } = saved;
        let deleted_pod_policy = match kind {
            ReplicaKind::ReplicaSet => PodReplacementPolicy::of_annotation(&annotations, BERTH_DELETED_POD_REPLACEMENT_POLICY),
            ReplicaKind::ReplicationController => PodReplacementPolicy::default(),
        };
        Self { kind, meta, annotations, replicas, min_ready_seconds, selector, deleted_pod_policy, template, status }
    }
}
