//! The metric families of kube-state-metrics for kinds that run pods and for HorizontalPodAutoscalers, with its names.
//!
//! Each scrape reads the current objects, and nothing is cached. The names differ between kinds, as in kube-state-metrics. `seen.rs`
//! decodes the objects. The families of each kind are in `workloads.rs`, `batch.rs` and `autoscalers.rs`.

mod autoscalers;
mod batch;
mod seen;
mod workloads;

use seen::Seen;

use berth_api::k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use berth_identity::{GroupResource, GroupVersionResource};
use berth_registry::{Actor, ApiError, Collection, ListOptions, Registry, resource};
use berth_store::env::yield_now;
use futures::future::BoxFuture;
use prometheus::{GaugeVec, Opts, TextEncoder};
use std::{error::Error, sync::Arc};

/// Why objects cannot be read, in the words of their source.
pub type SourceError = Box<dyn Error + Send + Sync>;

/// The source of the objects that `/metrics` has families of.
pub trait WorkloadSource: Send + Sync {
    /// The JSON of all objects of a resource, as they are now.
    ///
    /// # Errors
    /// They cannot be read.
    fn all(&self, resource: GroupResource) -> BoxFuture<'_, Result<Vec<Vec<u8>>, SourceError>>;
}

/// The number of objects after which other tasks run: about a millisecond of work.
const PIECE_OBJECTS: usize = 256;

/// Returns all families as text.
///
/// # Errors
/// Errors of the store.
pub(crate) async fn text(registry: &Registry) -> Result<String, ApiError> {
    let mut out = String::new();
    for kind in KINDS {
        let resource = resource::built_in().find(&kind.resource()).ok_or(ApiError::UnknownResource)?;
        let list =
            registry.list(&Actor::System, &Collection { resource: Arc::clone(resource), namespace: None }, &ListOptions::default()).await?;
        kind.show(&list.items, |entry| &entry.value, &mut out).await?;
    }
    Ok(out)
}

/// Does the same for objects of another source. Families of a kind that cannot be read are left out, because the others are useful alone.
///
/// # Errors
/// The objects cannot be encoded.
pub(crate) async fn text_of(source: &dyn WorkloadSource) -> Result<String, ApiError> {
    let mut out = String::new();
    for kind in KINDS {
        match source.all(GroupResource::from_static(kind.group, kind.plural)).await {
            Ok(objects) => kind.show(&objects, |object| object, &mut out).await?,
            Err(error) => tracing::warn!(%error, resource = kind.plural, "cannot show objects as metrics"),
        }
    }
    Ok(out)
}

pub(crate) fn cannot_show(error: &prometheus::Error) -> ApiError {
    ApiError::Internal { message: format!("could not show the state of what is stored as metrics: {error}") }
}

/// The families of one kind.
struct Kind {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    /// The label with the object's name.
    label: &'static str,
    families: &'static [Family],
}

struct Family {
    name: &'static str,
    help: &'static str,
    /// Labels besides the object's name and namespace.
    labels: &'static [&'static str],
    read: Read,
}

/// Values, each with its labels besides the object's name and namespace.
type Series = Vec<(Vec<String>, f64)>;

/// How to compute the series of one object.
enum Read {
    One(fn(&Seen) -> Option<f64>),
    Many(fn(&Seen) -> Series),
}

impl Read {
    fn of(&self, object: &Seen) -> Series {
        match self {
            Self::One(read) => read(object).into_iter().map(|value| (Vec::new(), value)).collect(),
            Self::Many(read) => read(object),
        }
    }
}

impl Kind {
    fn resource(&self) -> GroupVersionResource {
        GroupVersionResource::from_static(self.group, self.version, self.plural)
    }

    /// Adds the families of these objects to a text. Objects that cannot be read are left out.
    async fn show<T>(&self, objects: &[T], json: impl Fn(&T) -> &[u8], out: &mut String) -> Result<(), ApiError> {
        let mut seen: Vec<Seen> = Vec::with_capacity(objects.len());
        for piece in objects.chunks(PIECE_OBJECTS) {
            seen.extend(piece.iter().filter_map(|object| serde_json::from_slice(json(object)).ok()));
            yield_now().await;
        }
        if seen.len() < objects.len() {
            let count = objects.len() - seen.len();
            tracing::warn!(count, resource = self.plural, "cannot show some objects as metrics, because they cannot be read");
        }
        for family in self.families {
            family.show(self.label, &seen, out).await.map_err(|error| cannot_show(&error))?;
        }
        Ok(())
    }
}

impl Family {
    const fn one(name: &'static str, help: &'static str, read: fn(&Seen) -> Option<f64>) -> Self {
        Self { name, help, labels: &[], read: Read::One(read) }
    }

    const fn many(name: &'static str, help: &'static str, labels: &'static [&'static str], read: fn(&Seen) -> Series) -> Self {
        Self { name, help, labels, read: Read::Many(read) }
    }

    async fn show(&self, label: &str, objects: &[Seen], out: &mut String) -> Result<(), prometheus::Error> {
        let mut labels = vec![label, "namespace"];
        labels.extend(self.labels);
        let gauges = GaugeVec::new(Opts::new(self.name, self.help), &labels)?;
        for piece in objects.chunks(PIECE_OBJECTS) {
            for object in piece {
                let meta = &object.metadata;
                let own = [&*meta.name, &*meta.namespace];
                for (more, value) in self.read.of(object) {
                    let values: Vec<&str> = own.into_iter().chain(more.iter().map(String::as_str)).collect();
                    gauges.get_metric_with_label_values(&values)?.set(value);
                }
            }
            yield_now().await;
        }
        let families = prometheus::Registry::new();
        families.register(Box::new(gauges))?;
        TextEncoder::new().encode_utf8(&families.gather(), out)
    }
}

static KINDS: &[Kind] = &[
    Kind { group: "apps", version: "v1", plural: "deployments", label: "deployment", families: workloads::DEPLOYMENT },
    Kind { group: "apps", version: "v1", plural: "replicasets", label: "replicaset", families: workloads::REPLICA_SET },
    Kind { group: "apps", version: "v1", plural: "statefulsets", label: "statefulset", families: workloads::STATEFUL_SET },
    Kind { group: "apps", version: "v1", plural: "daemonsets", label: "daemonset", families: workloads::DAEMON_SET },
    Kind {
        group: "",
        version: "v1",
        plural: "replicationcontrollers",
        label: "replicationcontroller",
        families: workloads::REPLICATION_CONTROLLER,
    },
    Kind { group: "batch", version: "v1", plural: "jobs", label: "job_name", families: batch::JOB },
    Kind { group: "batch", version: "v1", plural: "cronjobs", label: "cronjob", families: batch::CRON_JOB },
    Kind {
        group: "autoscaling",
        version: "v2",
        plural: "horizontalpodautoscalers",
        label: "horizontalpodautoscaler",
        families: autoscalers::FAMILIES,
    },
];

const CREATED: &str = "When the object was created, in seconds since 1970.";
const OBSERVED: &str = "The generation that the controller has acted on.";
const GENERATION: &str = "The generation of the spec.";
const LABELS: &str = "One for each object; labels of objects are not shown.";
const ANNOTATIONS: &str = "One for each object; annotations of objects are not shown.";
const OWNERS: &str = "The object's owners.";
const OWNER_LABELS: &[&str] = &["owner_kind", "owner_name", "owner_is_controller"];
const TERMINATING: &str = "Pods that are marked for deletion and not gone yet.";

#[expect(clippy::unnecessary_wraps, reason = "the shape of every reader of one value")]
fn number(value: i32) -> Option<f64> {
    Some(f64::from(value))
}

#[expect(clippy::unnecessary_wraps, reason = "the shape of every reader of one value")]
fn one(_: &Seen) -> Option<f64> {
    Some(1.0)
}

/// Generations and seconds are far below 2^53, up to which a double is exact.
#[expect(clippy::cast_precision_loss, clippy::unnecessary_wraps, reason = "exact below 2^53; the shape of every reader of one value")]
fn large(value: i64) -> Option<f64> {
    Some(value as f64)
}

fn seconds(time: &Time) -> Option<f64> {
    large(time.0.as_second())
}

/// Which of the three statuses this one is.
fn truth(status: &str) -> [(String, f64); 3] {
    ["true", "false", "unknown"].map(|one| (one.to_owned(), f64::from(u8::from(status.eq_ignore_ascii_case(one)))))
}

fn created(seen: &Seen) -> Option<f64> {
    seconds(seen.metadata.creation_timestamp.as_ref()?)
}

fn generation(seen: &Seen) -> Option<f64> {
    large(seen.metadata.generation)
}

fn observed_generation(seen: &Seen) -> Option<f64> {
    large(seen.status.observed_generation)
}

fn owners(seen: &Seen) -> Series {
    let owners = &seen.metadata.owner_references;
    if owners.is_empty() {
        return vec![(vec![String::new(); 3], 1.0)];
    }
    owners.iter().map(|owner| (vec![owner.kind.clone(), owner.name.clone(), owner.controller.unwrap_or(false).to_string()], 1.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_testing::{Tool, skip};
    use serde_json::{Value, json};
    use std::{
        io::Write as _,
        process::{Command, Stdio},
    };

    /// Returns the text for objects of one kind.
    async fn text_for(plural: &str, objects: &[Value]) -> String {
        let kind = KINDS.iter().find(|kind| kind.plural == plural).expect("it has families");
        let objects: Vec<Vec<u8>> = objects.iter().map(|object| object.to_string().into()).collect();
        let mut out = String::new();
        kind.show(&objects, |object| object, &mut out).await.expect("it is shown");
        out
    }

    #[tokio::test]
    async fn an_object_is_shown_where_lists_are_null() {
        let object = json!({
            "metadata": {"name": "a"},
            "spec": {"metrics": null},
            "status": {"currentMetrics": null, "conditions": null, "active": null, "desiredReplicas": 2},
        });
        for (plural, line) in [
            (
                "horizontalpodautoscalers",
                r#"kube_horizontalpodautoscaler_status_desired_replicas{horizontalpodautoscaler="a",namespace=""} 2"#,
            ),
            ("jobs", r#"kube_job_status_active{job_name="a",namespace=""} 0"#),
            ("deployments", r#"kube_deployment_labels{deployment="a",namespace=""} 1"#),
        ] {
            let text = text_for(plural, &[json!({"metadata": 5}), object.clone()]).await;
            assert!(text.lines().any(|shown| shown == line), "{line} in {text}");
        }
    }

    #[tokio::test]
    async fn the_next_time_of_a_cron_job_is_after_its_last_job_or_its_creation() {
        let cron_job = |spec: Value, status: Value| json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:01Z"}, "spec": spec, "status": status});
        let last = json!({"lastScheduleTime": "2026-01-01T06:00:00Z"});
        for (spec, status, next) in [
            (json!({"schedule": "0 * * * *"}), json!({}), Some("2026-01-01T01:00:00Z")),
            (json!({"schedule": "0 * * * *"}), last.clone(), Some("2026-01-01T07:00:00Z")),
            (json!({"schedule": "0 9 * * *", "timeZone": "Europe/Berlin"}), last.clone(), Some("2026-01-01T08:00:00Z")),
            (json!({"schedule": "0 * * * *", "suspend": true}), last.clone(), None),
            (json!({"schedule": "0 0 31 2 *"}), last.clone(), None),
            (json!({"schedule": "x"}), last, None),
        ] {
            let text = text_for("cronjobs", &[cron_job(spec.clone(), status)]).await;
            let shown = text.lines().find_map(|line| line.strip_prefix(r#"kube_cronjob_next_schedule_time{cronjob="a",namespace=""} "#));
            let next = next.map(|time| time.parse::<jiff::Timestamp>().expect("a time").as_second().to_string());
            assert_eq!(shown, next.as_deref(), "{spec}");
        }
    }

    /// Returns the text for one object of each kind.
    async fn shown() -> String {
        let meta = json!({"name": "web", "namespace": "a", "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z"});
        let mut owned = meta.clone();
        owned["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": true}]);
        let deployment = json!({
            "metadata": meta,
            "spec": {"replicas": 10, "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}},
            "status": {
                "replicas": 11, "readyReplicas": 8, "terminatingReplicas": 2, "observedGeneration": 2,
                "conditions": [{"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}],
            },
        });
        let set = json!({"metadata": owned, "spec": {"replicas": 4}, "status": {"readyReplicas": 3, "terminatingReplicas": 1}});
        let stateful = json!({
            "metadata": meta,
            "spec": {"replicas": 2, "ordinals": {"start": 5},
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"}},
            "status": {
                "currentRevision": "web-1", "updateRevision": "web-2", "observedGeneration": 2, "replicas": 6, "readyReplicas": 5,
                "availableReplicas": 4, "currentReplicas": 3, "updatedReplicas": 1,
            },
        });
        let daemon = json!({"metadata": meta, "status": {"desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3, "numberAvailable": 2, "numberUnavailable": 1, "numberMisscheduled": 6, "updatedNumberScheduled": 7}});
        let controller = json!({"metadata": owned, "spec": {"replicas": 4}, "status": {"readyReplicas": 3, "availableReplicas": 2}});
        let job = json!({
            "metadata": owned,
            "spec": {"parallelism": 2, "completions": 3, "activeDeadlineSeconds": 60},
            "status": {
                "active": 1, "ready": 1, "succeeded": 2, "failed": 4, "startTime": "2026-01-01T00:00:01Z",
                "conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}],
            },
        });
        let cron_job = json!({
            "metadata": {"name": "web", "namespace": "a", "resourceVersion": "17"},
            "spec": {"schedule": "*/5 * * * *", "timeZone": "Etc/UTC", "concurrencyPolicy": "Forbid", "suspend": true, "successfulJobsHistoryLimit": 3},
            "status": {"active": [{"name": "web-1"}, {"name": "web-2"}], "lastScheduleTime": "2026-01-01T00:00:05Z"},
        });
        let autoscaler = json!({
            "metadata": meta,
            "spec": {
                "minReplicas": 2, "maxReplicas": 9, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "metrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}},
                    {"type": "ContainerResource", "containerResource": {"name": "memory", "container": "main", "target": {"type": "AverageValue", "averageValue": "1Ki"}}},
                ],
            },
            "status": {
                "currentReplicas": 4, "desiredReplicas": 5, "conditions": [{"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale"}],
                "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 90, "averageValue": "450m"}}}],
            },
        });
        let objects = [deployment, set, stateful, daemon, controller, job, cron_job, autoscaler];
        assert_eq!(objects.len(), KINDS.len());
        let mut text = String::new();
        for (kind, object) in KINDS.iter().zip(objects) {
            text.push_str(&text_for(kind.plural, &[object]).await);
        }
        text
    }

    #[tokio::test]
    async fn families_have_the_names_and_values_of_kube_state_metrics() {
        let text = shown().await;
        for line in [
            r#"kube_deployment_created{deployment="web",namespace="a"} 1767225600"#,
            r#"kube_deployment_status_replicas{deployment="web",namespace="a"} 11"#,
            r#"kube_deployment_status_replicas_ready{deployment="web",namespace="a"} 8"#,
            r#"kube_deployment_status_replicas_terminating{deployment="web",namespace="a"} 2"#,
            r#"kube_deployment_status_terminating_replicas{deployment="web",namespace="a"} 2"#,
            r#"kube_deployment_spec_strategy_rollingupdate_max_surge{deployment="web",namespace="a"} 3"#,
            r#"kube_deployment_spec_strategy_rollingupdate_max_unavailable{deployment="web",namespace="a"} 2"#,
            r#"kube_deployment_status_condition{condition="Progressing",deployment="web",namespace="a",reason="ReplicaSetUpdated",status="true"} 1"#,
            r#"kube_deployment_status_condition{condition="Progressing",deployment="web",namespace="a",reason="ReplicaSetUpdated",status="false"} 0"#,
            r#"kube_deployment_labels{deployment="web",namespace="a"} 1"#,
            r#"kube_replicaset_status_ready_replicas{namespace="a",replicaset="web"} 3"#,
            r#"kube_replicaset_status_terminating_replicas{namespace="a",replicaset="web"} 1"#,
            r#"kube_replicaset_owner{namespace="a",owner_is_controller="true",owner_kind="Deployment",owner_name="web",replicaset="web"} 1"#,
            r#"kube_statefulset_created{namespace="a",statefulset="web"} 1767225600"#,
            r#"kube_statefulset_replicas{namespace="a",statefulset="web"} 2"#,
            r#"kube_statefulset_metadata_generation{namespace="a",statefulset="web"} 3"#,
            r#"kube_statefulset_status_observed_generation{namespace="a",statefulset="web"} 2"#,
            r#"kube_statefulset_status_replicas{namespace="a",statefulset="web"} 6"#,
            r#"kube_statefulset_status_replicas_ready{namespace="a",statefulset="web"} 5"#,
            r#"kube_statefulset_status_replicas_available{namespace="a",statefulset="web"} 4"#,
            r#"kube_statefulset_status_replicas_current{namespace="a",statefulset="web"} 3"#,
            r#"kube_statefulset_status_replicas_updated{namespace="a",statefulset="web"} 1"#,
            r#"kube_statefulset_status_current_revision{namespace="a",revision="web-1",statefulset="web"} 1"#,
            r#"kube_statefulset_annotations{namespace="a",statefulset="web"} 1"#,
            r#"kube_statefulset_ordinals_start{namespace="a",statefulset="web"} 5"#,
            r#"kube_statefulset_status_update_revision{namespace="a",revision="web-2",statefulset="web"} 1"#,
            r#"kube_statefulset_persistentvolumeclaim_retention_policy{namespace="a",statefulset="web",when_deleted="Retain",when_scaled="Delete"} 1"#,
            r#"kube_daemonset_status_desired_number_scheduled{daemonset="web",namespace="a"} 5"#,
            r#"kube_daemonset_status_current_number_scheduled{daemonset="web",namespace="a"} 4"#,
            r#"kube_daemonset_status_number_ready{daemonset="web",namespace="a"} 3"#,
            r#"kube_daemonset_status_number_available{daemonset="web",namespace="a"} 2"#,
            r#"kube_daemonset_status_number_unavailable{daemonset="web",namespace="a"} 1"#,
            r#"kube_daemonset_status_number_misscheduled{daemonset="web",namespace="a"} 6"#,
            r#"kube_daemonset_status_updated_number_scheduled{daemonset="web",namespace="a"} 7"#,
            r#"kube_replicationcontroller_spec_replicas{namespace="a",replicationcontroller="web"} 4"#,
            r#"kube_replicationcontroller_status_available_replicas{namespace="a",replicationcontroller="web"} 2"#,
            r#"kube_job_spec_parallelism{job_name="web",namespace="a"} 2"#,
            r#"kube_job_spec_active_deadline_seconds{job_name="web",namespace="a"} 60"#,
            r#"kube_job_status_active{job_name="web",namespace="a"} 1"#,
            r#"kube_job_status_succeeded{job_name="web",namespace="a"} 2"#,
            r#"kube_job_status_failed{job_name="web",namespace="a",reason="BackoffLimitExceeded"} 1"#,
            r#"kube_job_status_failed{job_name="web",namespace="a",reason="Evicted"} 0"#,
            r#"kube_job_status_start_time{job_name="web",namespace="a"} 1767225601"#,
            r#"kube_job_failed{condition="true",job_name="web",namespace="a"} 1"#,
            r#"kube_job_failed{condition="false",job_name="web",namespace="a"} 0"#,
            r#"kube_job_owner{job_name="web",namespace="a",owner_is_controller="true",owner_kind="Deployment",owner_name="web"} 1"#,
            r#"kube_cronjob_info{concurrency_policy="Forbid",cronjob="web",namespace="a",schedule="*/5 * * * *",timezone="Etc/UTC"} 1"#,
            r#"kube_cronjob_status_active{cronjob="web",namespace="a"} 2"#,
            r#"kube_cronjob_spec_suspend{cronjob="web",namespace="a"} 1"#,
            r#"kube_cronjob_status_last_schedule_time{cronjob="web",namespace="a"} 1767225605"#,
            r#"kube_cronjob_metadata_resource_version{cronjob="web",namespace="a"} 17"#,
            r#"kube_horizontalpodautoscaler_info{horizontalpodautoscaler="web",namespace="a",scaletargetref_api_version="apps/v1",scaletargetref_kind="Deployment",scaletargetref_name="web"} 1"#,
            r#"kube_horizontalpodautoscaler_spec_min_replicas{horizontalpodautoscaler="web",namespace="a"} 2"#,
            r#"kube_horizontalpodautoscaler_spec_target_metric{container="",horizontalpodautoscaler="web",metric_name="cpu",metric_target_type="utilization",namespace="a"} 80"#,
            r#"kube_horizontalpodautoscaler_spec_target_metric{container="main",horizontalpodautoscaler="web",metric_name="memory",metric_target_type="average",namespace="a"} 1024"#,
            r#"kube_horizontalpodautoscaler_status_target_metric{container="",horizontalpodautoscaler="web",metric_name="cpu",metric_target_type="average",namespace="a"} 0.45"#,
            r#"kube_horizontalpodautoscaler_status_condition{condition="AbleToScale",horizontalpodautoscaler="web",namespace="a",status="true"} 1"#,
            r#"kube_horizontalpodautoscaler_status_desired_replicas{horizontalpodautoscaler="web",namespace="a"} 5"#,
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} in {text}");
        }
    }

    #[test]
    fn failed_pods_of_a_job_are_counted_until_the_job_has_failed_for_a_known_reason() {
        let job = |status: Value| -> Seen { serde_json::from_value(json!({"status": status})).expect("a Job") };
        let failed = |seen: &Seen| {
            let family = batch::JOB.iter().find(|family| family.name == "kube_job_status_failed").expect("a family");
            family.read.of(seen)
        };
        assert_eq!(failed(&job(json!({"failed": 2}))), [(vec![String::new()], 2.0)]);
        let condition = |reason: &str| json!({"failed": 2, "conditions": [{"type": "Failed", "status": "True", "reason": reason}]});
        assert_eq!(failed(&job(condition("PodFailurePolicy"))), [(vec![String::new()], 2.0)]);
        let known = failed(&job(condition("DeadlineExceeded")));
        assert_eq!(known.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [0.0, 1.0, 0.0]);
        let complete = batch::JOB.iter().find(|family| family.name == "kube_job_complete").expect("a family");
        assert_eq!(complete.read.of(&job(json!({}))), Series::new(), "the Job runs");
    }

    #[tokio::test]
    async fn terminating_pods_are_shown_only_where_the_status_has_them() {
        for kind in KINDS {
            let text = text_for(kind.plural, &[json!({})]).await;
            assert!(!text.contains("_terminating"), "{text}");
        }
    }

    #[tokio::test]
    async fn promtool_finds_no_fault() {
        let started =
            Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let Ok(mut promtool) = started else {
            return skip(Tool::Promtool, "it is not on this machine (Debian package prometheus)");
        };
        promtool.stdin.take().expect("piped").write_all(shown().await.as_bytes()).expect("promtool reads");
        let output = promtool.wait_with_output().expect("promtool ends");
        assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    }
}
