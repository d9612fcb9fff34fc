//! What the checks read of objects: their own reading of the wire form, apart from the controllers' views.

mod cron_job;
mod job;
mod stateful_set;

pub(crate) use cron_job::{CronJob, RunOfCronJob};
pub(crate) use job::Job;
pub(crate) use stateful_set::{GoesWith, StatefulSet, StatefulSetSpec};

use berth_store::env::Timestamp;
use serde::Deserialize;
use std::{collections::BTreeMap, fmt};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) generation: i64,
    pub(crate) creation_timestamp: Option<Timestamp>,
    pub(crate) deletion_timestamp: Option<Timestamp>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    finalizers: Vec<String>,
    owner_references: Vec<OwnerReference>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct OwnerReference {
    kind: String,
    uid: String,
    controller: bool,
}

impl Metadata {
    pub(crate) fn is_owned_by(&self, uid: &str) -> bool {
        self.owner_references.iter().any(|owner| owner.uid == uid)
    }

    /// Whether it goes with something of this kind that has another uid.
    pub(crate) fn goes_with_another(&self, kind: &str, uid: &str) -> bool {
        self.owner_references.iter().any(|owner| owner.kind == kind && owner.uid != uid)
    }

    /// The uids of all owners.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &str> {
        self.owner_references.iter().map(|owner| owner.uid.as_str())
    }

    /// The uid of the controlling owner; empty if there is none.
    pub(crate) fn controller(&self) -> &str {
        self.owner_references.iter().find(|owner| owner.controller).map_or("", |owner| &owner.uid)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub(crate) metadata: Metadata,
    pub(crate) spec: PodSpec,
    pub(crate) status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    pub(crate) node_name: String,
    containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Container {
    image: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodStatus {
    pub(crate) phase: String,
    #[serde(rename = "podIP")]
    pub(crate) pod_ip: String,
    pub(crate) conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) last_transition_time: Option<Timestamp>,
}

impl Pod {
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// It counts, and has no `deletionTimestamp`.
    pub(crate) fn is_live(&self) -> bool {
        !self.is_finished() && self.metadata.deletion_timestamp.is_none()
    }

    /// Goes because of the state of its node, or was evicted: no controller of workloads wanted that.
    pub(crate) fn is_disrupted(&self) -> bool {
        self.status.conditions.iter().any(|condition| condition.type_ == "DisruptionTarget" && condition.status == "True")
    }

    /// Its number in a StatefulSet.
    pub(crate) fn ordinal(&self) -> Option<i64> {
        self.metadata.name.rsplit_once('-')?.1.parse().ok()
    }

    /// The revision of a StatefulSet that it was made from; empty without one.
    pub(crate) fn revision(&self) -> &str {
        self.metadata.labels.get("controller-revision-hash").map_or("", String::as_str)
    }

    /// Its completion index in an Indexed Job.
    pub(crate) fn index(&self) -> Option<i64> {
        self.metadata.annotations.get("batch.kubernetes.io/job-completion-index")?.parse().ok()
    }

    /// Whether it has the finalizer that keeps it until its Job has counted it.
    pub(crate) fn is_counted_later(&self) -> bool {
        self.metadata.finalizers.iter().any(|finalizer| finalizer == "batch.kubernetes.io/job-tracking")
    }

    /// That of its first container; empty without one.
    pub(crate) fn image(&self) -> &str {
        self.spec.containers.first().map_or("", |container| &container.image)
    }

    /// Its containers run and pass their probes, whether or not it is terminating.
    pub(crate) fn is_ready(&self) -> bool {
        self.status.conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    }

    /// `controller.kubernetes.io/pod-deletion-cost`; 0 without it.
    pub(crate) fn deletion_cost(&self) -> i32 {
        let text = self.metadata.annotations.get("controller.kubernetes.io/pod-deletion-cost");
        text.and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Was asked to go, and still holds its place.
    pub(crate) fn is_terminating(&self) -> bool {
        !self.is_finished() && self.metadata.deletion_timestamp.is_some()
    }

    pub(crate) fn is_available(&self, min_ready_seconds: i64, now: Timestamp) -> bool {
        let is_ready = |condition: &&Condition| condition.type_ == "Ready" && condition.status == "True";
        let since = |condition: &Condition| condition.last_transition_time.map_or(0, |at| now.as_second() - at.as_second());
        self.is_live() && self.status.conditions.iter().find(is_ready).is_some_and(|ready| since(ready) >= min_ready_seconds)
    }
}

impl fmt::Display for Pod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.metadata.deletion_timestamp.is_some() { " terminating" } else { "" };
        let ready = if self.is_available(0, Timestamp::MAX) { " ready" } else { "" };
        write!(f, "{}{state}{ready} node={} ip={} {}", self.status.phase, self.spec.node_name, self.status.pod_ip, self.revision())
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ReplicaSet {
    pub(crate) metadata: Metadata,
    pub(crate) spec: ReplicaSetSpec,
    pub(crate) status: Status,
}

impl ReplicaSet {
    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.get(key).map(String::as_str)
    }

    /// The number of its rollout.
    pub(crate) fn revision(&self) -> i64 {
        self.annotation("deployment.kubernetes.io/revision").and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Whether a rollout to it was ever complete.
    pub(crate) fn was_complete(&self) -> bool {
        self.annotation("berth.dev/completed-revision").is_some()
    }

    /// The step that its latest rollout is at, counted from 1; `None` if it goes in none.
    pub(crate) fn step(&self) -> Option<usize> {
        let (place, _) = self.annotation("berth.dev/step")?.split_once('@')?;
        let (revision, step) = place.split_once('/')?;
        (revision.parse() == Ok(self.revision())).then(|| step.parse().ok()).flatten()
    }

    /// Whether its Deployment has had another size since it was made for one, or it is short of its due.
    pub(crate) fn waits_for_scaling(&self, replicas: i64) -> bool {
        let sized_for: Option<i64> = self.annotation("deployment.kubernetes.io/desired-replicas").and_then(|text| text.parse().ok());
        self.is_partially_scaled() || sized_for.is_some_and(|sized_for| sized_for != replicas)
    }

    /// A Deployment that grows has not come to this set yet, or not with all that is its due.
    pub(crate) fn is_partially_scaled(&self) -> bool {
        self.metadata.annotations.contains_key("deployment.kubernetes.io/replicaset-replicas-before-scale")
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReplicaSetSpec {
    pub(crate) replicas: i64,
    pub(crate) min_ready_seconds: i64,
}

/// Of a ReplicaSet and of a Deployment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    pub(crate) observed_generation: i64,
    pub(crate) replicas: i64,
    pub(crate) updated_replicas: i64,
    pub(crate) ready_replicas: i64,
    pub(crate) available_replicas: i64,
    pub(crate) unavailable_replicas: i64,
    pub(crate) terminating_replicas: Option<i64>,
    conditions: Vec<Condition>,
}

impl Status {
    /// The reason of the condition `Progressing` where it is true; empty otherwise.
    pub(crate) fn progress(&self) -> &str {
        let progressing = self.conditions.iter().find(|condition| condition.type_ == "Progressing" && condition.status == "True");
        progressing.map_or("", |condition| &condition.reason)
    }
}

impl fmt::Display for ReplicaSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "generation={} size={} {}", self.metadata.generation, self.spec.replicas, self.status)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { observed_generation, replicas, updated_replicas, available_replicas, terminating_replicas, .. } = self;
        write!(f, "status: observed={observed_generation} replicas={replicas} updated={updated_replicas} available={available_replicas}")?;
        terminating_replicas.map_or(Ok(()), |terminating| write!(f, " terminating={terminating}"))
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Deployment {
    pub(crate) metadata: Metadata,
    pub(crate) spec: DeploymentSpec,
    pub(crate) status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeploymentSpec {
    pub(crate) replicas: i64,
    pub(crate) min_ready_seconds: i64,
    pub(crate) revision_history_limit: i64,
    pub(crate) paused: bool,
    pub(crate) pod_replacement_policy: String,
    pub(crate) strategy: DeploymentStrategy,
}

/// When the first new pods come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recreation {
    WhenOldPodsAreDeleted,
    WhenOldPodsAreGone,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeploymentStrategy {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    rolling_update: Option<RollingUpdate>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RollingUpdate {
    max_surge: Amount,
    max_unavailable: Amount,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub(crate) enum Amount {
    Pods(i64),
    Percent(String),
}

impl Amount {
    /// In hundredths of a pod.
    pub(crate) fn hundredths(&self, replicas: i64) -> i64 {
        match self {
            Self::Pods(pods) => pods * 100,
            Self::Percent(text) => text.trim_end_matches('%').parse::<i64>().expect("the API server has validated it") * replicas,
        }
    }
}

impl Deployment {
    pub(crate) fn is_rolling(&self) -> bool {
        self.spec.strategy.type_ == "RollingUpdate"
    }

    /// The controller has seen the newest spec.
    pub(crate) fn is_observed(&self) -> bool {
        self.status.observed_generation == self.metadata.generation
    }

    pub(crate) fn waits_for_termination(&self) -> bool {
        self.spec.pod_replacement_policy == "TerminationComplete"
    }

    /// Also of pods that no controller of workloads deleted.
    pub(crate) fn waits_for_deleted(&self) -> bool {
        self.waits_for_termination() && self.annotation("berth.dev/deleted-pod-replacement-policy") == "TerminationComplete"
    }

    fn annotation(&self, key: &str) -> &str {
        self.metadata.annotations.get(key).map_or("", String::as_str)
    }

    /// Whether new templates roll out in steps.
    pub(crate) fn has_steps(&self) -> bool {
        self.is_rolling() && !self.annotation("berth.dev/steps").is_empty()
    }

    /// How many pods the set at this step, counted from 1, may have; `None` without steps.
    pub(crate) fn share_at(&self, step: usize) -> Option<i64> {
        let steps: Vec<&str> = self.annotation("berth.dev/steps").split(',').map(str::trim).collect();
        let reached = steps.iter().take(step).rev();
        let percent: i64 = reached.filter_map(|step| step.strip_suffix('%')?.parse().ok()).next()?;
        Some((percent * self.spec.replicas + 99) / 100)
    }

    /// Pods of different templates may not run at the same time; `None` where they may.
    pub(crate) fn recreates(&self) -> Option<Recreation> {
        match (self.spec.strategy.type_.as_str(), self.spec.pod_replacement_policy.as_str()) {
            ("Recreate", "TerminationStarted") => Some(Recreation::WhenOldPodsAreDeleted),
            ("Recreate", _) => Some(Recreation::WhenOldPodsAreGone),
            _ => None,
        }
    }

    /// The most pods there may be.
    pub(crate) fn max(&self) -> i64 {
        let surge = self.spec.strategy.rolling_update.as_ref().map_or(0, |rolling| rolling.max_surge.hundredths(self.spec.replicas));
        self.spec.replicas + (surge + 99) / 100
    }

    /// The fewest available pods that a rollout leaves.
    pub(crate) fn min_available(&self) -> i64 {
        let Some(rolling) = &self.spec.strategy.rolling_update else { return 0 };
        let unavailable = rolling.max_unavailable.hundredths(self.spec.replicas) / 100;
        let neither = unavailable == 0 && self.max() == self.spec.replicas;
        (self.spec.replicas - if neither { 1 } else { unavailable }).max(0)
    }

    /// `kubectl rollout status` would report completion. Under TerminationComplete all old pods are deleted too.
    pub(crate) fn is_rolled_out(&self) -> bool {
        let Status { observed_generation, replicas, updated_replicas, available_replicas, terminating_replicas, .. } = self.status;
        let leaving = if self.waits_for_termination() { terminating_replicas.unwrap_or(0) } else { 0 };
        observed_generation == self.metadata.generation
            && [replicas, updated_replicas, available_replicas] == [self.spec.replicas; 3]
            && leaving == 0
    }
}

impl fmt::Display for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paused = if self.spec.paused { " paused" } else { "" };
        write!(f, "generation={} size={}{paused} {} ", self.metadata.generation, self.spec.replicas, self.spec.strategy.type_)?;
        if self.is_rolling() {
            write!(f, "max={} available-min={} ", self.max(), self.min_available())?;
        }
        write!(f, "{} {}", self.spec.pod_replacement_policy, self.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn limits_round_as_specified() {
        for (replicas, surge, unavailable, wanted) in [
            (10, json!("25%"), json!("25%"), (13, 8)),
            (100, json!("25%"), json!("25%"), (125, 75)),
            (3, json!(2), json!(0), (5, 3)),
            (3, json!(0), json!("10%"), (3, 2)),
            (1, json!(0), json!(5), (1, 0)),
        ] {
            let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
            let spec = json!({"replicas": replicas, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}});
            let deployment: Deployment = serde_json::from_value(json!({"spec": spec})).expect("a Deployment");
            assert_eq!((deployment.max(), deployment.min_available()), wanted, "{spec}");
        }
    }
}
