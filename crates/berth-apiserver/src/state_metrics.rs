//! The metric families of kube-state-metrics for Deployments, ReplicaSets and StatefulSets, with its names.
//!
//! Each scrape reads the current objects, and nothing is cached. The names differ between kinds, as in
//! kube-state-metrics.

use berth_api::{
    int_or_string::{Rounding, resolve},
    k8s_openapi::{
        api::apps::v1::{RollingUpdateDeployment, StatefulSetOrdinals, StatefulSetPersistentVolumeClaimRetentionPolicy},
        apimachinery::pkg::apis::meta::v1::ObjectMeta,
    },
};
use berth_identity::GroupVersionResource;
use berth_registry::{Actor, ApiError, Collection, ListOptions, Registry, resource};
use futures::future::BoxFuture;
use prometheus::{GaugeVec, Opts, TextEncoder};
use serde::Deserialize;
use std::{error::Error, sync::Arc};

/// Why objects cannot be read, in the words of their source.
pub type SourceError = Box<dyn Error + Send + Sync>;

/// The source of Deployments, ReplicaSets and StatefulSets for `/metrics`.
pub trait WorkloadSource: Send + Sync {
    /// The JSON of all objects of a resource of the group `apps`, as they are now.
    ///
    /// # Errors
    /// They cannot be read.
    fn all(&self, plural: &'static str) -> BoxFuture<'_, Result<Vec<Vec<u8>>, SourceError>>;
}

/// Returns all families as text.
///
/// # Errors
/// Errors of the store.
pub(crate) async fn text(registry: &Registry) -> Result<String, ApiError> {
    let families = prometheus::Registry::new();
    for kind in KINDS {
        let resource =
            resource::built_in().find(&GroupVersionResource::from_static("apps", "v1", kind.plural)).ok_or(ApiError::UnknownResource)?;
        let list =
            registry.list(&Actor::System, &Collection { resource: Arc::clone(resource), namespace: None }, &ListOptions::default()).await?;
        let objects: Vec<Seen> = list.items.iter().filter_map(|entry| serde_json::from_slice(&entry.value).ok()).collect();
        fill(kind, &objects, &families).map_err(|error| cannot_show(&error))?;
    }
    TextEncoder::new().encode_to_string(&families.gather()).map_err(|error| cannot_show(&error))
}

/// Does the same for objects of another source.
///
/// # Errors
/// The objects cannot be read or encoded.
pub(crate) async fn text_of(source: &dyn WorkloadSource) -> Result<String, ApiError> {
    let families = prometheus::Registry::new();
    for kind in KINDS {
        let objects = source.all(kind.plural).await.map_err(|error| ApiError::Unavailable { message: error.to_string() })?;
        let objects: Vec<Seen> = objects.iter().filter_map(|object| serde_json::from_slice(object).ok()).collect();
        fill(kind, &objects, &families).map_err(|error| cannot_show(&error))?;
    }
    TextEncoder::new().encode_to_string(&families.gather()).map_err(|error| cannot_show(&error))
}

pub(crate) fn cannot_show(error: &prometheus::Error) -> ApiError {
    ApiError::Internal { message: format!("could not show the state of what is stored as metrics: {error}") }
}

fn fill(kind: &Kind, objects: &[Seen], families: &prometheus::Registry) -> Result<(), prometheus::Error> {
    for family in kind.families {
        let mut labels = vec![kind.label, "namespace"];
        labels.extend(family.labels);
        let gauges = GaugeVec::new(Opts::new(family.name, family.help), &labels)?;
        for object in objects {
            let meta = &object.metadata;
            let own = [meta.name.as_deref().unwrap_or_default(), meta.namespace.as_deref().unwrap_or_default()];
            for (more, value) in family.series.of(object) {
                let values: Vec<&str> = own.into_iter().chain(more.iter().map(String::as_str)).collect();
                gauges.get_metric_with_label_values(&values)?.set(value);
            }
        }
        families.register(Box::new(gauges))?;
    }
    Ok(())
}

/// The decoded fields of an object of any of the kinds.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Seen {
    metadata: ObjectMeta,
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    replicas: Option<i32>,
    paused: bool,
    strategy: DeploymentStrategy,
    ordinals: Option<StatefulSetOrdinals>,
    persistent_volume_claim_retention_policy: Option<StatefulSetPersistentVolumeClaimRetentionPolicy>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DeploymentStrategy {
    rolling_update: Option<RollingUpdateDeployment>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    replicas: i32,
    ready_replicas: i32,
    available_replicas: i32,
    unavailable_replicas: i32,
    updated_replicas: i32,
    current_replicas: i32,
    fully_labeled_replicas: i32,
    terminating_replicas: Option<i32>,
    observed_generation: i64,
    current_revision: String,
    update_revision: String,
    conditions: Vec<Condition>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
}

/// The families of one kind.
struct Kind {
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
    series: Series,
}

/// Values, each with its labels besides the object's name and namespace.
type Labelled = Vec<(Vec<String>, f64)>;

/// How to compute the series of one object.
enum Series {
    One(fn(&Seen) -> Option<f64>),
    Many(fn(&Seen) -> Labelled),
}

impl Series {
    fn of(&self, object: &Seen) -> Labelled {
        match self {
            Self::One(read) => read(object).into_iter().map(|value| (Vec::new(), value)).collect(),
            Self::Many(read) => read(object),
        }
    }
}

impl Family {
    const fn one(name: &'static str, help: &'static str, read: fn(&Seen) -> Option<f64>) -> Self {
        Self { name, help, labels: &[], series: Series::One(read) }
    }

    const fn many(name: &'static str, help: &'static str, labels: &'static [&'static str], read: fn(&Seen) -> Labelled) -> Self {
        Self { name, help, labels, series: Series::Many(read) }
    }
}

const CREATED: &str = "When the object was created, in seconds since 1970.";
const OBSERVED: &str = "The generation that the controller has acted on.";
const GENERATION: &str = "The generation of the spec.";
const LABELS: &str = "One for each object; labels of objects are not shown.";
const ANNOTATIONS: &str = "One for each object; annotations of objects are not shown.";
const TERMINATING: &str = "Pods that are marked for deletion and not gone yet.";

static KINDS: &[Kind] = &[
    Kind { plural: "deployments", label: "deployment", families: DEPLOYMENT },
    Kind { plural: "replicasets", label: "replicaset", families: REPLICA_SET },
    Kind { plural: "statefulsets", label: "statefulset", families: STATEFUL_SET },
];

static DEPLOYMENT: &[Family] = &[
    Family::one("kube_deployment_created", CREATED, created),
    Family::one("kube_deployment_status_replicas", "Pods, terminating ones not counted.", |seen| number(seen.status.replicas)),
    Family::one("kube_deployment_status_replicas_ready", "Ready pods.", |seen| number(seen.status.ready_replicas)),
    Family::one("kube_deployment_status_replicas_available", "Available pods.", |seen| number(seen.status.available_replicas)),
    Family::one("kube_deployment_status_replicas_unavailable", "Pods that are missing or not available.", |seen| {
        number(seen.status.unavailable_replicas)
    }),
    Family::one("kube_deployment_status_replicas_updated", "Pods of the newest template.", |seen| number(seen.status.updated_replicas)),
    Family::one("kube_deployment_status_replicas_terminating", TERMINATING, terminating),
    // The name in some releases of kube-state-metrics.
    Family::one("kube_deployment_status_terminating_replicas", TERMINATING, terminating),
    Family::one("kube_deployment_status_observed_generation", OBSERVED, observed_generation),
    Family::many("kube_deployment_status_condition", "Whether a condition has a status.", &["reason", "condition", "status"], conditions),
    Family::one("kube_deployment_metadata_generation", GENERATION, generation),
    Family::one("kube_deployment_spec_replicas", "Pods wanted.", replicas),
    Family::one("kube_deployment_spec_paused", "Whether rollouts are paused.", |seen| number(i32::from(seen.spec.paused))),
    Family::one(
        "kube_deployment_spec_strategy_rollingupdate_max_unavailable",
        "Pods that may be missing during a rolling update.",
        |seen| {
            let value = seen.spec.strategy.rolling_update.as_ref()?.max_unavailable.as_ref()?;
            number(resolve(value, seen.spec.replicas?, Rounding::Down)?)
        },
    ),
    Family::one(
        "kube_deployment_spec_strategy_rollingupdate_max_surge",
        "Pods that there may be above the wanted number during a rolling update.",
        |seen| {
            let value = seen.spec.strategy.rolling_update.as_ref()?.max_surge.as_ref()?;
            number(resolve(value, seen.spec.replicas?, Rounding::Up)?)
        },
    ),
    Family::one("kube_deployment_labels", LABELS, one),
    Family::one("kube_deployment_annotations", ANNOTATIONS, one),
];

static REPLICA_SET: &[Family] = &[
    Family::one("kube_replicaset_created", CREATED, created),
    Family::one("kube_replicaset_status_replicas", "Pods, terminating ones not counted.", |seen| number(seen.status.replicas)),
    Family::one("kube_replicaset_status_fully_labeled_replicas", "Pods with all labels of the template.", |seen| {
        number(seen.status.fully_labeled_replicas)
    }),
    Family::one("kube_replicaset_status_ready_replicas", "Ready pods.", |seen| number(seen.status.ready_replicas)),
    Family::one("kube_replicaset_status_terminating_replicas", TERMINATING, terminating),
    Family::one("kube_replicaset_status_observed_generation", OBSERVED, observed_generation),
    Family::one("kube_replicaset_spec_replicas", "Pods wanted.", replicas),
    Family::one("kube_replicaset_metadata_generation", GENERATION, generation),
    Family::many("kube_replicaset_owner", "The set's owners.", &["owner_kind", "owner_name", "owner_is_controller"], owners),
    Family::one("kube_replicaset_labels", LABELS, one),
    Family::one("kube_replicaset_annotations", ANNOTATIONS, one),
];

static STATEFUL_SET: &[Family] = &[
    Family::one("kube_statefulset_created", CREATED, created),
    Family::one("kube_statefulset_status_replicas", "Pods.", |seen| number(seen.status.replicas)),
    Family::one("kube_statefulset_status_replicas_available", "Available pods.", |seen| number(seen.status.available_replicas)),
    Family::one("kube_statefulset_status_replicas_current", "Pods of the current revision.", |seen| number(seen.status.current_replicas)),
    Family::one("kube_statefulset_status_replicas_ready", "Ready pods.", |seen| number(seen.status.ready_replicas)),
    Family::one("kube_statefulset_status_replicas_updated", "Pods of the update revision.", |seen| number(seen.status.updated_replicas)),
    Family::one("kube_statefulset_status_observed_generation", OBSERVED, observed_generation),
    Family::one("kube_statefulset_replicas", "Pods wanted.", replicas),
    Family::one("kube_statefulset_ordinals_start", "The first pod's number.", |seen| {
        number(seen.spec.ordinals.as_ref()?.start.unwrap_or(0))
    }),
    Family::one("kube_statefulset_metadata_generation", GENERATION, generation),
    Family::many("kube_statefulset_status_current_revision", "The revision of pods not yet updated.", &["revision"], |seen| {
        vec![(vec![seen.status.current_revision.clone()], 1.0)]
    }),
    Family::many("kube_statefulset_status_update_revision", "The revision of updated pods.", &["revision"], |seen| {
        vec![(vec![seen.status.update_revision.clone()], 1.0)]
    }),
    Family::many(
        "kube_statefulset_persistentvolumeclaim_retention_policy",
        "What becomes of claims.",
        &["when_deleted", "when_scaled"],
        retention,
    ),
    Family::one("kube_statefulset_labels", LABELS, one),
    Family::one("kube_statefulset_annotations", ANNOTATIONS, one),
];

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

fn created(seen: &Seen) -> Option<f64> {
    large(seen.metadata.creation_timestamp.as_ref()?.0.as_second())
}

fn generation(seen: &Seen) -> Option<f64> {
    large(seen.metadata.generation.unwrap_or(0))
}

fn observed_generation(seen: &Seen) -> Option<f64> {
    large(seen.status.observed_generation)
}

fn replicas(seen: &Seen) -> Option<f64> {
    number(seen.spec.replicas?)
}

/// Missing if the gate is off.
fn terminating(seen: &Seen) -> Option<f64> {
    number(seen.status.terminating_replicas?)
}

fn conditions(seen: &Seen) -> Labelled {
    let series = |condition: &Condition, status: &str| {
        let labels = vec![condition.reason.clone(), condition.kind.clone(), status.to_owned()];
        (labels, f64::from(u8::from(condition.status.eq_ignore_ascii_case(status))))
    };
    let all = seen.status.conditions.iter();
    all.flat_map(|condition| ["true", "false", "unknown"].map(|status| series(condition, status))).collect()
}

fn owners(seen: &Seen) -> Labelled {
    let owners = seen.metadata.owner_references.as_deref().unwrap_or_default();
    if owners.is_empty() {
        return vec![(vec![String::new(); 3], 1.0)];
    }
    owners.iter().map(|owner| (vec![owner.kind.clone(), owner.name.clone(), owner.controller.unwrap_or(false).to_string()], 1.0)).collect()
}

fn retention(seen: &Seen) -> Labelled {
    let Some(policy) = &seen.spec.persistent_volume_claim_retention_policy else { return Vec::new() };
    let [deleted, scaled] = [&policy.when_deleted, &policy.when_scaled].map(|when| when.clone().unwrap_or_default());
    vec![(vec![deleted, scaled], 1.0)]
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

    /// Returns the text for one object of each kind.
    fn shown() -> String {
        let families = prometheus::Registry::new();
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
        let seen = |object: Value| [serde_json::from_value(object).expect("an object")];
        for (kind, object) in KINDS.iter().zip([deployment, set, stateful]) {
            fill(kind, &seen(object), &families).expect("new names");
        }
        TextEncoder::new().encode_to_string(&families.gather()).expect("text")
    }

    #[test]
    fn families_have_the_names_and_values_of_kube_state_metrics() {
        let text = shown();
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
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} in {text}");
        }
    }

    #[test]
    fn terminating_pods_are_shown_only_where_the_status_has_them() {
        let families = prometheus::Registry::new();
        for kind in KINDS {
            fill(kind, &[Seen::default()], &families).expect("new names");
        }
        let text = TextEncoder::new().encode_to_string(&families.gather()).expect("text");
        assert!(!text.contains("_terminating"), "{text}");
    }

    #[test]
    fn promtool_finds_no_fault() {
        let started =
            Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let Ok(mut promtool) = started else {
            return skip(Tool::Promtool, "it is not on this machine (Debian package prometheus)");
        };
        promtool.stdin.take().expect("piped").write_all(shown().as_bytes()).expect("promtool reads");
        let output = promtool.wait_with_output().expect("promtool ends");
        assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    }
}
