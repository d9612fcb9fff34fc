//! Narrow views: the fields that plans read of an object, decoded directly from its JSON. Other fields are skipped, not stored.
//!
//! A view contains the revision of its version, so that a plan can state which version it depends on.

use crate::{
    owners::OwnerReferences,
    resources::{BUDGETS, DEPLOYMENTS, PODS, STATEFUL_SETS},
    selector::{Labels, Selector},
};
use berth_api::{
    Object,
    annotations::BERTH_DELETED_POD_REPLACEMENT_POLICY,
    apps::{DeploymentSpec, DeploymentStatus, ReplicaSetStatus, StatefulSetSpec, StatefulSetStatus},
    decode::from_json,
};
use berth_identity::{Generation, GroupResource, Name, Namespace, NodeName, ObjectKey, ObjectRef, Revision, Uid};
use bytes::Bytes;
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        core::v1::PodTemplateSpec,
        policy::v1::{PodDisruptionBudgetSpec, PodDisruptionBudgetStatus},
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

mod choices;
mod cron_job;
mod daemon_set;
mod event;
mod foreign;
mod identity;
mod job;
mod metadata;
mod of_pod;
mod replica_kind;
mod saved;
mod stateful_set;
mod symptoms;
mod volumes;
mod wire;

pub use choices::{
    AutoRollback, DeploymentChoices, DeploymentStrategy, PodManagement, PodReplacementPolicy, Retention, RetentionPolicy,
    StatefulSetChoices, UnknownChoice, UpdateStrategy,
};
pub use cron_job::{Concurrency, CronJobChoices, CronJobView, is_cron_job};
pub use daemon_set::{DaemonNodeView, DaemonSetView, DaemonUpdate};
pub use event::EventView;
pub use foreign::{ForeignWrite, ForeignWrites};
pub use identity::{Identity, View};
pub use job::{CompletionMode, ContainerError, JobChoices, JobPodView, JobView, PodConditionView, PodReplacement, concerns_jobs, is_job};
pub use metadata::{WireMetadata, read_metadata};
pub use replica_kind::ReplicaKind;
pub use stateful_set::{ClaimView, KEPT, RevisionView};
pub use symptoms::{ContainerRole, ContainerSymptom, Ended, ReasonMessage, Symptoms};
pub use volumes::{PodVolume, claims_of};

/// Metadata that every plan reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: Name,
    /// Its uid.
    pub uid: Uid,
    /// The resource version.
    pub revision: Revision,
    /// The generation of the spec.
    pub generation: Generation,
    /// Its labels.
    pub labels: Labels,
    /// All its owners, because adopting and releasing write the whole list.
    pub owners: OwnerReferences,
    /// `creationTimestamp`.
    pub created: Option<Timestamp>,
    /// `deletionTimestamp`: for pods, when the grace period ends.
    pub deleted: Option<Timestamp>,
    /// What other controllers wrote to it.
    pub foreign: Option<Box<ForeignWrites>>,
}

impl Meta {
    /// Its controller, if it has one.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owners.iter().find(|owner| owner.controller == Some(true))
    }

    /// Whether the object with this uid is its controller.
    #[must_use]
    pub fn is_controlled_by(&self, uid: &Uid) -> bool {
        self.controller().is_some_and(|owner| owner.uid == *uid)
    }

    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        self.identity().key()
    }

    fn identity(&self) -> Identity<'_> {
        Identity { namespace: Some(&self.namespace), name: &self.name, uid: &self.uid, is_being_deleted: self.deleted.is_some() }
    }

    fn reference(&self, resource: GroupResource) -> ObjectRef {
        self.identity().reference(resource, self.revision)
    }
}

/// The API group of the workloads.
pub const APPS: &str = "apps";

/// `status.phase` of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PodPhase {
    /// Not set yet.
    #[default]
    Unset,
    /// Accepted, not yet running.
    Pending,
    /// At least one container runs.
    Running,
    /// All containers succeeded.
    Succeeded,
    /// All containers ended, and at least one failed.
    Failed,
    /// Its node does not report.
    Unknown,
    /// Any other text.
    Other,
}

impl PodPhase {
    /// Whether the pod has finished.
    #[must_use]
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }

    pub(crate) fn parse(phase: &str) -> Self {
        match phase {
            "" => Self::Unset,
            "Pending" => Self::Pending,
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            "Unknown" => Self::Unknown,
            _ => Self::Other,
        }
    }
}

/// What plans read of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodView {
    /// Its metadata; `generation` is not read.
    pub meta: Meta,
    /// `spec.nodeName`; empty until it is bound.
    pub node_name: NodeName,
    /// The node that its affinity requires by name, as that of a DaemonSet's pod does; empty once it is bound.
    #[serde(default)]
    pub required_node: NodeName,
    /// `status.phase`.
    pub phase: PodPhase,
    /// Whether the condition Ready is True.
    pub ready: bool,
    /// Since when the condition Ready is what it is.
    pub ready_since: Option<Timestamp>,
    /// `deletionGracePeriodSeconds`.
    pub grace_period_seconds: Option<i64>,
    /// From its annotation; 0 if that is missing or not valid.
    pub deletion_cost: i32,
    /// The highest restart count of its containers.
    pub restarts: i32,
    /// The highest restart count of its init containers that restart always.
    pub sidecar_restarts: i32,
    /// Names of claims by the names of the pod's volumes.
    pub claims: BTreeMap<String, String>,
    /// Why it is not ready or not deleted, from its own status.
    pub symptoms: Option<Box<Symptoms>>,
}

impl View for PodView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let mut wire: wire::Object<wire::PodSpec, wire::PodStatus> = from_json(json)?;
        let (spec, status) = (wire.spec.unwrap_or_default(), wire.status.unwrap_or_default());
        let finalizers = wire.metadata.finalizers.take();
        let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
        Ok(Self {
            deletion_cost: wire.metadata.annotations.as_ref().map_or(0, berth_api::pod::deletion_cost),
            grace_period_seconds: wire.metadata.deletion_grace_period_seconds,
            symptoms: Symptoms::read(&status, finalizers, wire.metadata.is_going()),
            meta: wire.metadata.into_meta(revision),
            phase: PodPhase::parse(status.phase.as_deref().unwrap_or_default()),
            ready: ready.is_some_and(|condition| condition.status == "True"),
            ready_since: ready.and_then(|condition| condition.last_transition_time),
            restarts: status.container_statuses.iter().flatten().map(|status| status.restart_count).max().unwrap_or(0),
            sidecar_restarts: spec.sidecar_restarts(&status),
            claims: spec.claims(),
            required_node: spec.required_node(),
            node_name: spec.node_name.unwrap_or_default(),
        })
    }

    fn of_object(object: &dyn Object, _: &Bytes, revision: Revision) -> Option<Self> {
        object.downcast_ref().map(|pod| Self::of_pod(pod, revision))
    }

    fn identity(&self) -> Identity<'_> {
        self.meta.identity()
    }
}

/// Waiting reasons of containers that are about to start. They indicate no problem.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

impl PodView {
    /// Whether it counts toward a set's replicas: neither finished nor terminating.
    #[must_use]
    pub fn is_active(&self) -> bool {
        !self.phase.is_finished() && self.meta.deleted.is_none()
    }

    /// Whether it is terminating and not finished.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        !self.phase.is_finished() && self.meta.deleted.is_some()
    }

    /// Why its containers wait, each reason once, in order of the containers. Empty once it is ready.
    #[must_use]
    pub fn waiting_reasons(&self) -> Vec<&str> {
        let containers = self.symptoms.iter().flat_map(|symptoms| &symptoms.containers);
        let mut reasons = Vec::new();
        for reason in containers.filter_map(|container| Some(container.waiting.as_ref()?.reason.as_str())) {
            if !reason.is_empty() && !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        reasons
    }

    /// Why it does not become ready: an unschedulable pod, and the waiting reasons of its containers. Reasons of containers that are about
    /// to start are left out.
    pub fn troubles(&self) -> impl Iterator<Item = &str> {
        let waiting = self.waiting_reasons().into_iter().filter(|reason| !STARTING.contains(reason));
        self.is_unschedulable().then_some("Unschedulable").into_iter().chain(waiting)
    }

    /// Whether the scheduler found no node for it.
    #[must_use]
    pub fn is_unschedulable(&self) -> bool {
        let unscheduled = self.symptoms.as_ref().and_then(|symptoms| symptoms.unscheduled.as_ref());
        unscheduled.is_some_and(|unscheduled| unscheduled.reason == "Unschedulable")
    }

    /// When a ready pod becomes (or became) available. `None` if it is not ready.
    #[must_use]
    pub fn available_at(&self, min_ready_seconds: i32) -> Option<Timestamp> {
        match (self.ready, min_ready_seconds) {
            (false, _) => None,
            (true, ..=0) => Some(Timestamp::MIN),
            (true, seconds) => self.ready_since?.checked_add(jiff::SignedDuration::from_secs(seconds.into())).ok(),
        }
    }

    /// The node that it is bound to or, until then, the one that its affinity requires by name; empty if there is none.
    #[must_use]
    pub fn target_node(&self) -> &NodeName {
        if self.node_name.is_empty() { &self.required_node } else { &self.node_name }
    }

    /// The pod, in the version of this view.
    #[must_use]
    pub fn reference(&self) -> ObjectRef {
        self.meta.reference(PODS)
    }
}

/// What plans read of a ReplicaSet, or of a ReplicationController.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "saved::ReplicaSet", into = "saved::ReplicaSet")]
pub struct ReplicaSetView {
    /// Which of the two.
    pub kind: ReplicaKind,
    /// Its metadata.
    pub meta: Meta,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// `spec.replicas`.
    pub replicas: i32,
    /// `spec.minReadySeconds`.
    pub min_ready_seconds: i32,
    /// The selector of its pods. `None` if the selector is missing or not valid.
    pub selector: Option<Selector>,
    /// When pods that another client deletes are replaced: berth's annotation, parsed.
    pub deleted_pod_policy: PodReplacementPolicy,
    /// The template of its pods. Shared, because it may be large.
    pub template: Arc<PodTemplateSpec>,
    /// The stored status.
    pub status: ReplicaSetStatus,
}

impl View for ReplicaSetView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let wire: wire::Object<wire::ReplicaSetSpec, ReplicaSetStatus> = from_json(json)?;
        let spec = wire.spec.unwrap_or_default();
        let mut metadata = wire.metadata;
        let annotations = metadata.annotations.take().unwrap_or_default();
        Ok(Self {
            kind: ReplicaKind::ReplicaSet,
            deleted_pod_policy: PodReplacementPolicy::of_annotation(&annotations, BERTH_DELETED_POD_REPLACEMENT_POLICY),
            annotations,
            meta: metadata.into_meta(revision),
            replicas: spec.replicas.unwrap_or(1),
            min_ready_seconds: spec.min_ready_seconds.unwrap_or(0),
            selector: spec.selector.as_ref().and_then(Selector::parse),
            template: Arc::new(spec.template.unwrap_or_default()),
            status: wire.status.unwrap_or_default(),
        })
    }

    fn identity(&self) -> Identity<'_> {
        self.meta.identity()
    }
}

impl ReplicaSetView {
    /// The set, in the version of this view.
    #[must_use]
    pub fn reference(&self) -> ObjectRef {
        self.meta.reference(self.kind.resource())
    }
}

/// The spec of a workload that replaces its pods when its template changes.
pub trait WorkloadSpec: Clone + Default + DeserializeOwned + Serialize + Send + Sync + 'static {
    /// The status of the workload.
    type Status: Clone + Default + DeserializeOwned + Serialize + Send + Sync + 'static;
    /// The parsed choices in the spec and the annotations.
    type Choices: Clone + Debug + Default + PartialEq + Send + Sync + 'static;
    /// The resource of the workload.
    const RESOURCE: GroupResource;

    /// `selector`.
    fn selector(&self) -> Option<&LabelSelector>;
    /// Parses the choices in the spec and in these annotations of the workload.
    fn choices(&self, annotations: &BTreeMap<String, String>) -> Self::Choices;
    /// [`View::decode`] of the workload. It is a method here so that it is compiled only in this crate.
    ///
    /// # Errors
    /// The text is not valid JSON, or a field has another type.
    fn decode(json: &[u8], revision: Revision) -> Result<WorkloadView<Self>, serde_json::Error>;
}

impl WorkloadSpec for DeploymentSpec {
    type Status = DeploymentStatus;
    type Choices = DeploymentChoices;
    const RESOURCE: GroupResource = DEPLOYMENTS;

    fn selector(&self) -> Option<&LabelSelector> {
        self.selector.as_ref()
    }

    fn choices(&self, annotations: &BTreeMap<String, String>) -> DeploymentChoices {
        DeploymentChoices::of(self, annotations)
    }

    fn decode(json: &[u8], revision: Revision) -> Result<DeploymentView, serde_json::Error> {
        decode_workload(json, revision)
    }
}

impl WorkloadSpec for StatefulSetSpec {
    type Status = StatefulSetStatus;
    type Choices = StatefulSetChoices;
    const RESOURCE: GroupResource = STATEFUL_SETS;

    fn selector(&self) -> Option<&LabelSelector> {
        self.selector.as_ref()
    }

    fn choices(&self, annotations: &BTreeMap<String, String>) -> StatefulSetChoices {
        StatefulSetChoices::of(self, annotations)
    }

    fn decode(json: &[u8], revision: Revision) -> Result<StatefulSetView, serde_json::Error> {
        decode_workload(json, revision)
    }
}

/// What plans read of a Deployment.
pub type DeploymentView = WorkloadView<DeploymentSpec>;

/// What plans read of a StatefulSet.
pub type StatefulSetView = WorkloadView<StatefulSetSpec>;

/// What plans read of a workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(bound = "", from = "saved::Workload<S>", into = "saved::Workload<S>")]
pub struct WorkloadView<S: WorkloadSpec> {
    /// Its metadata.
    pub meta: Meta,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The spec. Shared, because its template may be large.
    pub spec: Arc<S>,
    /// The parsed choices in the spec and the annotations.
    pub choices: S::Choices,
    /// `spec.selector`, parsed; `None` if it is missing or not valid.
    pub selector: Option<Selector>,
    /// The stored status.
    pub status: S::Status,
}

fn decode_workload<S: WorkloadSpec>(json: &[u8], revision: Revision) -> Result<WorkloadView<S>, serde_json::Error> {
    let wire: wire::Object<S, S::Status> = from_json(json)?;
    let spec = wire.spec.unwrap_or_default();
    let mut metadata = wire.metadata;
    let annotations = metadata.annotations.take().unwrap_or_default();
    Ok(WorkloadView {
        choices: spec.choices(&annotations),
        annotations,
        meta: metadata.into_meta(revision),
        selector: spec.selector().and_then(Selector::parse),
        spec: Arc::new(spec),
        status: wire.status.unwrap_or_default(),
    })
}

impl<S: WorkloadSpec> View for WorkloadView<S> {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        S::decode(json, revision)
    }

    fn identity(&self) -> Identity<'_> {
        self.meta.identity()
    }
}

impl<S: WorkloadSpec> WorkloadView<S> {
    /// The workload, in the version of this view.
    #[must_use]
    pub fn reference(&self) -> ObjectRef {
        self.meta.reference(S::RESOURCE)
    }
}

/// What plans read of a PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BudgetView {
    /// Its metadata.
    pub meta: Meta,
    /// The spec.
    pub spec: PodDisruptionBudgetSpec,
    /// `spec.selector`, parsed. `None` if it is missing or not valid: then it selects nothing.
    pub selector: Option<Selector>,
    /// The stored status, including granted evictions.
    pub status: PodDisruptionBudgetStatus,
}

impl View for BudgetView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let wire: wire::Object<PodDisruptionBudgetSpec, PodDisruptionBudgetStatus> = from_json(json)?;
        let spec = wire.spec.unwrap_or_default();
        Ok(Self {
            meta: wire.metadata.into_meta(revision),
            selector: spec.selector.as_ref().and_then(Selector::parse),
            spec,
            status: wire.status.unwrap_or_default(),
        })
    }

    fn identity(&self) -> Identity<'_> {
        self.meta.identity()
    }
}

impl BudgetView {
    /// The budget, in the version of this view.
    #[must_use]
    pub fn reference(&self) -> ObjectRef {
        self.meta.reference(BUDGETS)
    }
}

/// The number of replicas of any scalable object: the only field that matters of the Deployment, ReplicaSet or StatefulSet that owns a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScaleView {
    /// Its metadata.
    pub meta: Meta,
    /// `spec.replicas`.
    pub replicas: i32,
}

impl View for ScaleView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let wire: wire::Object<wire::ScaleSpec, serde::de::IgnoredAny> = from_json(json)?;
        let replicas = wire.spec.and_then(|spec| spec.replicas).unwrap_or(1);
        Ok(Self { meta: wire.metadata.into_meta(revision), replicas })
    }

    fn identity(&self) -> Identity<'_> {
        self.meta.identity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn decode(value: &serde_json::Value) -> PodView {
        PodView::decode(value.to_string().as_bytes(), Revision(7)).expect("a pod")
    }

    #[test]
    fn a_pod_is_read_with_what_ranks_it() {
        let pod = decode(&json!({
            "metadata": {
                "name": "web-1", "namespace": "shop", "uid": "u", "labels": {"app": "web"}, "managedFields": [{"manager": "x"}],
                "annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}, "deletionGracePeriodSeconds": 30,
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n"},
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": true},
                ],
            },
            "spec": {
                "nodeName": "n1", "containers": [{"name": "web"}],
                "initContainers": [{"name": "once"}, {"name": "proxy", "restartPolicy": "Always"}],
            },
            "status": {
                "phase": "Running",
                "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                ],
                "initContainerStatuses": [{"name": "once", "restartCount": 9}, {"name": "proxy", "restartCount": 2}],
                "containerStatuses": [
                    {"name": "web", "restartCount": 3}, {"name": "log", "restartCount": 1},
                ],
            },
        }));
        assert_eq!((pod.meta.key(), View::key(&pod)), (ObjectKey::new("shop", "web-1"), ObjectKey::new("shop", "web-1")));
        assert_eq!(View::uid(&pod).as_str(), "u");
        assert_eq!(pod.meta.controller().map(|owner| owner.uid.as_str()), Some("rs"));
        assert_eq!((pod.deletion_cost, pod.restarts, pod.sidecar_restarts), (-5, 3, 2));
        assert_eq!((pod.ready, pod.node_name.as_str()), (true, "n1"));
        assert_eq!(pod.available_at(30), "2026-01-01T00:00:30Z".parse().ok());
        assert_eq!((pod.grace_period_seconds, pod.reference().resource_version), (Some(30), Some(Revision(7))));
    }

    #[test]
    fn each_reason_why_a_pod_is_not_up_is_returned_once() {
        let waits = |name: &str, reason: &str| json!({"name": name, "state": {"waiting": {"reason": reason}}});
        let pod = decode(&json!({"metadata": {"name": "p"}, "status": {
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
            "initContainerStatuses": [waits("init", "PodInitializing")],
            "containerStatuses": [waits("web", "CrashLoopBackOff"), waits("log", "CrashLoopBackOff"), waits("late", "")],
        }}));
        assert_eq!((pod.waiting_reasons(), pod.is_unschedulable()), (vec!["PodInitializing", "CrashLoopBackOff"], true));
        assert_eq!(pod.troubles().collect::<Vec<_>>(), ["Unschedulable", "CrashLoopBackOff"]);
        let starts = decode(&json!({"metadata": {"name": "p"}, "status": {"containerStatuses": [waits("web", "ContainerCreating")]}}));
        assert_eq!((starts.waiting_reasons(), starts.troubles().next()), (vec!["ContainerCreating"], None));
        assert_eq!((PodView::default().waiting_reasons(), PodView::default().is_unschedulable()), (vec![], false));
    }

    #[test]
    fn only_containers_that_are_not_up_and_finalizers_of_a_pod_that_goes_are_symptoms() {
        let pod = decode(&json!({"metadata": {"name": "p", "finalizers": ["example.com/hold"]}, "status": {
            "initContainerStatuses": [{"name": "init", "state": {"terminated": {"exitCode": 0}}}],
            "containerStatuses": [
                {"name": "up", "ready": true, "state": {"running": {}}}, {"name": "waits", "state": {"waiting": {"reason": "r"}}}, {"name": "unseen"},
            ],
        }}));
        let symptoms = pod.symptoms.expect("symptoms");
        assert_eq!(symptoms.containers.iter().map(|container| container.name.as_str()).collect::<Vec<_>>(), ["waits"]);
        assert_eq!(symptoms.finalizers, [""; 0]);
    }

    #[test]
    fn nulls_count_as_absent() {
        let pod = decode(&json!({"metadata": {"name": "p", "labels": null, "ownerReferences": null}, "spec": null, "status": null}));
        assert_eq!(pod, PodView { meta: Meta { name: "p".into(), revision: Revision(7), ..Meta::default() }, ..PodView::default() });
    }

    #[test]
    fn a_set_without_a_valid_selector_selects_nothing_and_wants_one_pod() {
        let json = json!({"metadata": {"name": "s"}, "spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}});
        let set = ReplicaSetView::decode(json.to_string().as_bytes(), Revision(1)).expect("a set");
        assert_eq!((set.replicas, set.selector), (1, None));
    }

    #[test]
    fn a_scale_is_what_an_object_of_any_kind_wants() {
        let scale = |spec: serde_json::Value| {
            let json = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u"}, "spec": spec, "status": {"replicas": 9}});
            ScaleView::decode(json.to_string().as_bytes(), Revision(2)).expect("a scale")
        };
        assert_eq!(
            [scale(json!({"replicas": 3, "template": {}})), scale(json!({})), scale(json!(null))].map(|scale| scale.replicas),
            [3, 1, 1]
        );
        assert_eq!((scale(json!({})).meta.uid.as_str(), scale(json!({})).meta.revision), ("u", Revision(2)));
    }
}
