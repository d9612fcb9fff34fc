//! Views of Jobs, and of the additional fields of their pods.

use super::{Identity, PodView, UnknownChoice, View, WorkloadSpec, WorkloadView, decode_workload, wire};
use crate::resources::{JOB, JOBS};
use berth_api::{
    annotations::{JOB_COMPLETION_INDEX, JOB_INDEX_FAILURE_COUNT, JOB_INDEX_IGNORED_FAILURE_COUNT, JOB_TRACKING},
    decode::from_json,
};
use berth_identity::{GroupResource, Revision, Uid};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::batch::v1::{JobSpec, JobStatus},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What plans read of a Job.
pub type JobView = WorkloadView<JobSpec>;

/// The value of `spec.managedBy` that names the built-in controller.
const BUILT_IN_CONTROLLER: &str = "kubernetes.io/job-controller";

/// The choices of a Job, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobChoices {
    /// `spec.completionMode`.
    pub mode: Result<CompletionMode, UnknownChoice>,
    /// When failed pods are replaced.
    pub replacement: PodReplacement,
    /// `spec.managedBy`, if it contains another controller.
    pub managed_by: Option<String>,
}

/// `spec.completionMode` of a Job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompletionMode {
    /// All pods are alike, and the Job counts those that succeed.
    #[default]
    NonIndexed,
    /// Each pod has a completion index, and each index succeeds once.
    Indexed,
}

/// When a pod of a Job counts as failed, and is replaced (`spec.podReplacementPolicy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodReplacement {
    /// When it terminates, or has the phase `Failed`.
    #[default]
    TerminatingOrFailed,
    /// When it has the phase `Failed`.
    Failed,
}

impl Default for JobChoices {
    fn default() -> Self {
        Self { mode: Ok(CompletionMode::default()), replacement: PodReplacement::default(), managed_by: None }
    }
}

impl WorkloadSpec for JobSpec {
    type Status = JobStatus;
    type Choices = JobChoices;
    const RESOURCE: GroupResource = JOBS;

    fn selector(&self) -> Option<&LabelSelector> {
        self.selector.as_ref()
    }

    fn choices(&self, _: &BTreeMap<String, String>) -> JobChoices {
        // A pod failure policy decides by how a pod ended, so it must have ended.
        let is_failed_only = self.pod_replacement_policy.as_deref() == Some("Failed") || self.pod_failure_policy.is_some();
        JobChoices {
            mode: match self.completion_mode.as_deref() {
                None | Some("" | "NonIndexed") => Ok(CompletionMode::NonIndexed),
                Some("Indexed") => Ok(CompletionMode::Indexed),
                Some(other) => Err(UnknownChoice(other.to_owned())),
            },
            replacement: if is_failed_only { PodReplacement::Failed } else { PodReplacement::TerminatingOrFailed },
            managed_by: self.managed_by.clone().filter(|name| name != BUILT_IN_CONTROLLER),
        }
    }

    fn decode(json: &[u8], revision: Revision) -> Result<JobView, serde_json::Error> {
        decode_workload(json, revision)
    }
}

/// What plans read of a pod of a Job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobPodView {
    /// What plans read of each pod.
    pub pod: PodView,
    /// `metadata.finalizers`, because a write replaces the list.
    pub finalizers: Vec<String>,
    /// Its completion index, by its annotation.
    pub index: Option<u32>,
    /// How many pods of its index failed before it, by its annotation.
    pub index_failures: u32,
    /// How many more failed that the pod failure policy ignores.
    pub ignored_index_failures: u32,
    /// The restarts of all its containers.
    pub all_restarts: i32,
    /// Types and statuses of its conditions, in their order.
    pub conditions: Vec<PodConditionView>,
    /// Containers that have ended with an error, init containers last.
    pub errors: Vec<ContainerError>,
    /// When it finished. If its status has no such time, an estimate: when it was last ready, was deleted, or was created.
    pub finished_at: Option<Timestamp>,
}

/// The type and the status of a condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodConditionView {
    /// `DisruptionTarget`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`.
    pub status: String,
}

/// A container that has ended with an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerError {
    /// Its name.
    pub name: String,
    /// Its exit code, which is not 0.
    pub exit_code: i32,
}

impl View for JobPodView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let pod = PodView::decode(json, revision)?;
        let wire: Wire = from_json(json)?;
        let (metadata, status) = (wire.metadata, wire.status.unwrap_or_default());
        let annotation = |key: &str| metadata.annotations.get(key).and_then(|text| text.parse::<u32>().ok());
        let containers = || status.container_statuses.iter().flatten();
        let init_containers = || status.init_container_statuses.iter().flatten();
        let errors = containers().chain(init_containers()).filter_map(ContainerStatus::error);
        let conditions = status.conditions.iter().flatten();
        Ok(Self {
            index: annotation(JOB_COMPLETION_INDEX).filter(|index| *index <= INT_MAX),
            index_failures: annotation(JOB_INDEX_FAILURE_COUNT).filter(|count| *count <= INT_MAX).unwrap_or(0),
            ignored_index_failures: annotation(JOB_INDEX_IGNORED_FAILURE_COUNT).filter(|count| *count <= INT_MAX).unwrap_or(0),
            all_restarts: containers().chain(init_containers()).fold(0, |sum, status| sum.saturating_add(status.restart_count)),
            conditions: conditions
                .map(|condition| PodConditionView { type_: condition.type_.clone(), status: condition.status.clone() })
                .collect(),
            errors: errors.collect(),
            finished_at: finished_at(&pod, &wire.spec.unwrap_or_default(), &status),
            finalizers: metadata.finalizers.unwrap_or_default(),
            pod,
        })
    }

    fn identity(&self) -> Identity<'_> {
        self.pod.identity()
    }
}

/// The largest number that upstream's annotations can have.
const INT_MAX: u32 = i32::MAX.unsigned_abs();

impl JobPodView {
    /// Whether it has the finalizer that keeps it until its Job has counted it.
    #[must_use]
    pub fn is_tracked(&self) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == JOB_TRACKING)
    }

    /// The Job that controls it, if one does.
    #[must_use]
    pub fn job(&self) -> Option<&OwnerReference> {
        self.pod.meta.controller().filter(|owner| is_job(owner))
    }

    /// Its uid.
    #[must_use]
    pub fn uid(&self) -> &Uid {
        &self.pod.meta.uid
    }
}

/// Whether this owner is a Job.
#[must_use]
pub fn is_job(owner: &OwnerReference) -> bool {
    JOB.is_written(&owner.api_version, &owner.kind)
}

/// Whether the plan of a Job can depend on a pod with these owners: a Job controls it, or it has no controller and a Job can adopt it.
#[must_use]
pub fn concerns_jobs(owners: &[OwnerReference]) -> bool {
    owners.iter().find(|owner| owner.controller == Some(true)).is_none_or(is_job)
}

/// When a pod finished.
///
/// Source: kubernetes `pkg/controller/job/backoff_utils.go`, `getFinishedTime`.
fn finished_at(pod: &PodView, spec: &PodSpec, status: &PodStatus) -> Option<Timestamp> {
    let is_sidecar = |name: &str| {
        let mut containers = spec.init_containers.iter().flatten();
        containers.any(|container| container.name == name && container.restart_policy.as_deref() == Some("Always"))
    };
    let sidecars = status.init_container_statuses.iter().flatten().filter(|status| is_sidecar(&status.name));
    let ends: Option<Vec<Timestamp>> =
        status.container_statuses.iter().flatten().chain(sidecars).map(ContainerStatus::finished_at).collect();
    let last_end = ends.and_then(|ends| ends.into_iter().max());
    let unready = || if pod.ready { None } else { pod.ready_since.filter(|_| status.is_unready()) };
    let deleted = || {
        let grace = SignedDuration::from_secs(pod.grace_period_seconds.unwrap_or(0));
        pod.meta.deleted.and_then(|deleted| deleted.checked_sub(grace).ok())
    };
    last_end.or_else(unready).or_else(deleted).or(pod.meta.created)
}

#[derive(Deserialize)]
struct Wire {
    metadata: Metadata,
    spec: Option<PodSpec>,
    status: Option<PodStatus>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default, deserialize_with = "or_default")]
    annotations: BTreeMap<String, String>,
    finalizers: Option<Vec<String>>,
}

fn or_default<'de, T: Default + Deserialize<'de>, D: serde::Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    init_containers: Option<Vec<InitContainer>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitContainer {
    name: String,
    restart_policy: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodStatus {
    conditions: Option<Vec<wire::Condition>>,
    container_statuses: Option<Vec<ContainerStatus>>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
}

impl PodStatus {
    fn is_unready(&self) -> bool {
        self.conditions.iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "False")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    #[serde(default)]
    name: String,
    #[serde(default)]
    restart_count: i32,
    state: Option<ContainerState>,
}

#[derive(Deserialize)]
struct ContainerState {
    terminated: Option<Terminated>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Terminated {
    #[serde(default)]
    exit_code: i32,
    finished_at: Option<Timestamp>,
}

impl ContainerStatus {
    fn terminated(&self) -> Option<&Terminated> {
        self.state.as_ref()?.terminated.as_ref()
    }

    fn error(&self) -> Option<ContainerError> {
        let exit_code = self.terminated()?.exit_code;
        (exit_code != 0).then(|| ContainerError { name: self.name.clone(), exit_code })
    }

    fn finished_at(&self) -> Option<Timestamp> {
        self.terminated()?.finished_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(metadata: &Value, status: &Value) -> JobPodView {
        let spec =
            json!({"initContainers": [{"name": "once"}, {"name": "proxy", "restartPolicy": "Always"}], "containers": [{"name": "main"}]});
        let json = json!({"metadata": metadata, "spec": spec, "status": status});
        JobPodView::decode(json.to_string().as_bytes(), Revision(3)).expect("a pod")
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn ended(name: &str, exit_code: i32, second: Option<i64>) -> Value {
        json!({"name": name, "restartCount": 2, "state": {"terminated": {"exitCode": exit_code, "finishedAt": second.map(at)}}})
    }

    #[test]
    fn a_pod_is_read_with_what_its_job_counts_by() {
        let annotations = json!({
            "batch.kubernetes.io/job-completion-index": "3", "batch.kubernetes.io/job-index-failure-count": "2",
            "batch.kubernetes.io/job-index-ignored-failure-count": "1",
        });
        let metadata = json!({"name": "p", "annotations": annotations, "finalizers": ["x", "batch.kubernetes.io/job-tracking"]});
        let status = json!({
            "phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}],
            "containerStatuses": [ended("main", 42, Some(9)), ended("fine", 0, Some(5))], "initContainerStatuses": [ended("once", 1, Some(99))],
        });
        let view = pod(&metadata, &status);
        assert_eq!((view.index, view.index_failures, view.ignored_index_failures, view.all_restarts), (Some(3), 2, 1, 6));
        assert!(view.is_tracked() && view.finalizers.len() == 2);
        assert_eq!(view.conditions, [PodConditionView { type_: "DisruptionTarget".to_owned(), status: "True".to_owned() }]);
        let error = |name: &str, exit_code| ContainerError { name: name.to_owned(), exit_code };
        assert_eq!(view.errors, [error("main", 42), error("once", 1)]);
        assert_eq!(view.pod.meta.revision, Revision(3));
    }

    #[test]
    fn annotations_that_are_no_numbers_of_upstream_count_as_absent() {
        for text in ["", "-1", "x", "2147483648"] {
            let annotations =
                json!({"batch.kubernetes.io/job-completion-index": text, "batch.kubernetes.io/job-index-failure-count": text});
            let view = pod(&json!({"name": "p", "annotations": annotations}), &json!({}));
            assert_eq!((view.index, view.index_failures), (None, 0), "{text:?}");
        }
        assert!(!pod(&json!({"name": "p", "annotations": null, "finalizers": null}), &json!(null)).is_tracked());
    }

    #[test]
    fn a_pod_finished_when_its_last_container_ended_or_at_the_best_estimate() {
        let check = |metadata: Value, status: Value, second: Option<i64>| assert_eq!(pod(&metadata, &status).finished_at, second.map(at));
        let created = json!({"name": "p", "creationTimestamp": at(1)});
        check(created.clone(), json!({"containerStatuses": [ended("a", 0, Some(7)), ended("b", 0, Some(9))]}), Some(9));
        let with_sidecar = json!({"containerStatuses": [ended("a", 0, Some(7))], "initContainerStatuses": [ended("once", 0, Some(99)), ended("proxy", 0, Some(12))]});
        check(created.clone(), with_sidecar, Some(12));
        let unready = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at(20)}]);
        check(created.clone(), json!({"containerStatuses": [ended("a", 0, None)], "conditions": unready}), Some(20));
        let deleted = json!({"name": "p", "creationTimestamp": at(1), "deletionTimestamp": at(60), "deletionGracePeriodSeconds": 30});
        check(deleted, json!({}), Some(30));
        check(created, json!({}), Some(1));
        check(json!({"name": "p"}), json!({}), None);
    }

    #[test]
    fn choices_of_a_job_are_parsed() {
        let choices = |spec: Value| {
            let json = json!({"metadata": {"name": "j"}, "spec": spec});
            JobView::decode(json.to_string().as_bytes(), Revision(1)).expect("a Job").choices
        };
        assert_eq!(choices(json!({"template": {}})), JobChoices::default());
        assert_eq!(choices(json!({"template": {}, "completionMode": "Indexed"})).mode, Ok(CompletionMode::Indexed));
        assert_eq!(choices(json!({"template": {}, "completionMode": "Other"})).mode, Err(UnknownChoice("Other".to_owned())));
        assert_eq!(choices(json!({"template": {}, "podReplacementPolicy": "Failed"})).replacement, PodReplacement::Failed);
        assert_eq!(choices(json!({"template": {}, "podFailurePolicy": {"rules": []}})).replacement, PodReplacement::Failed);
        assert_eq!(choices(json!({"template": {}, "managedBy": "kubernetes.io/job-controller"})).managed_by, None);
        assert_eq!(choices(json!({"template": {}, "managedBy": "example.com/x"})).managed_by.as_deref(), Some("example.com/x"));
    }
}
