//! The changes to one ReplicaSet in this reconcile: collected from all rules, then written once.

use super::{
    annotations::{Annotations, BeforeScale, DESIRED_REPLICAS, MAX_REPLICAS, REPLICAS_BEFORE_SCALE},
    observe::Observed,
    scale::Scale,
};
use crate::{
    plan::{Action, EventRecord, Outcome, Reason, Severity, Urgency, Wait, merge_patch},
    view::{DeploymentView, ReplicaSetView},
};
use serde::Serialize;
use serde_json::{Value, json};

/// A ReplicaSet with its changes.
#[derive(Clone)]
pub(super) struct Draft<'a> {
    pub(super) set: &'a ReplicaSetView,
    pub(super) size: i64,
    pub(super) min_ready_seconds: i32,
    /// `None` while the stored annotations are unchanged.
    annotations: Option<Annotations>,
    /// The event of its write if the size does not change.
    pub(super) write_event: Option<EventRecord>,
}

#[derive(PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    replicas: i64,
    min_ready_seconds: i32,
    annotations: &'a Annotations,
}

impl<'a> Draft<'a> {
    pub(super) fn new(set: &'a ReplicaSetView) -> Self {
        Self { set, size: i64::from(set.replicas), min_ready_seconds: set.min_ready_seconds, annotations: None, write_event: None }
    }

    pub(super) fn annotations(&self) -> &Annotations {
        self.annotations.as_ref().unwrap_or(&self.set.annotations)
    }

    pub(super) fn annotations_mut(&mut self) -> &mut Annotations {
        self.annotations.get_or_insert_with(|| self.set.annotations.clone())
    }

    /// Sets size and annotations.
    pub(super) fn apply(&mut self, scale: Scale, before_scale: BeforeScale) {
        self.size = scale.size;
        self.set_count(DESIRED_REPLICAS, scale.desired);
        self.set_count(MAX_REPLICAS, scale.max);
        if before_scale == BeforeScale::Managed {
            self.set_count(REPLICAS_BEFORE_SCALE, scale.before);
        }
    }

    fn set_count(&mut self, key: &str, count: Option<i64>) {
        self.annotate(key, count.map(|count| count.to_string()).as_ref());
    }

    /// Sets or removes an annotation.
    pub(super) fn annotate(&mut self, key: &str, value: Option<&String>) {
        if self.annotations().get(key) == value {
            return;
        }
        match value {
            Some(value) => self.annotations_mut().insert(key.to_owned(), value.clone()),
            None => self.annotations_mut().remove(key),
        };
    }

    pub(super) fn is_resized(&self) -> bool {
        self.size != i64::from(self.set.replicas)
    }

    /// The write of the changes. `None` if there are none.
    pub(super) fn action(&self, observed: &Observed<'_>) -> Option<Action> {
        let (patch, deployment) = (self.patch()?, observed.deployment());
        let from = self.set.replicas;
        let resize = || Reason::Resized { from: from.into(), to: self.size, limit: observed.limit_of(self.set, self.size) };
        let reason = if self.is_resized() { resize() } else { Reason::FollowsDeployment };
        let resized = self.is_resized().then(|| scaled(deployment, &self.set.meta.name, from.into(), self.size));
        let success = resized.or_else(|| self.write_event.clone());
        Some(Action::Patch {
            target: self.set.reference(),
            subresource: None,
            patch,
            urgency: Urgency::Now,
            reason,
            events: Outcome { success, failure: None },
        })
    }

    fn patch(&self) -> Option<Value> {
        let set = self.set;
        let stored = Written { replicas: set.replicas.into(), min_ready_seconds: set.min_ready_seconds, annotations: &set.annotations };
        let wanted = Written { replicas: self.size, min_ready_seconds: self.min_ready_seconds, annotations: self.annotations() };
        let mut fields = merge_patch(&stored, &wanted)?;
        let annotations = fields.as_object_mut().and_then(|fields| fields.remove("annotations"));
        let spec = fields.as_object().filter(|fields| !fields.is_empty()).map(|fields| json!({"spec": fields}));
        let mut patch = spec.unwrap_or_else(|| json!({}));
        if let Some(annotations) = annotations {
            patch["metadata"] = json!({"annotations": annotations});
        }
        Some(patch)
    }
}

/// The event about a change of size.
pub(super) fn scaled(deployment: &DeploymentView, set: &str, from: i64, to: i64) -> EventRecord {
    let direction = if from < to { "up" } else { "down" };
    event(deployment, Severity::Normal, "ScalingReplicaSet", format!("Scaled {direction} replica set {set} from {from} to {to}"))
}

/// The event that `deployment` has begun to wait. `None` if such a wait is too short to report.
#[must_use]
pub fn wait_event(deployment: &DeploymentView, wait: &Wait) -> Option<EventRecord> {
    let severity = if wait.is_failure() { Severity::Warning } else { Severity::Normal };
    Some(event(deployment, severity, wait.event_reason()?, wait.to_string()))
}

/// An event about the Deployment, recorded each time.
pub(super) fn event(deployment: &DeploymentView, severity: Severity, reason: &'static str, message: String) -> EventRecord {
    EventRecord::new(deployment.reference(), severity, reason, message)
}
