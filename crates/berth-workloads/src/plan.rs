//! The actions of a controller and their reasons. A plan is complete: its executor makes no choices. It is plain data: a plan can be
//! copied, compared, serialized, deserialized and displayed.

mod identity;
mod new_object;
mod reason;
mod show;
mod wait;

pub use new_object::NewObject;
pub use reason::{Reason, Rule, SizeLimit};
pub use show::Brief;
pub use wait::{AtStep, Next, TerminatingPod, Wait, WaitKind};

pub use berth_api::Subresource;

use crate::{analysis::Question, resources::kind_of};
use berth_identity::{GroupVersionKind, ObjectRef, RolloutRevision};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The decision of one reconcile.
///
/// `Display` prints a line for each action, then one for each wait. [`Plan::brief`] is one line. Only the same version of berth can read
/// its JSON, which changes with the code. Output for users has its own format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Executed in order. A stage starts after the one before has succeeded as a whole.
    pub stages: Vec<Stage>,
    /// Recorded whether the stages succeed or not. Events never delay or fail them.
    pub events: Vec<EventRecord>,
    /// What the plan defers deliberately, and why.
    pub waits: Vec<Wait>,
    /// The question of an analysis, asked while plans contain it.
    pub question: Option<Question>,
    /// When to requeue if nothing changes.
    pub requeue_at: Option<Timestamp>,
    /// Observations for the histogram `replicaset_controller_sorting_deletion_age_ratio`.
    pub deletion_age_ratios: Vec<i64>,
}

impl Plan {
    /// Whether it has no action: it only waits, records events, or requeues.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.is_idle_now(Due::All)
    }

    /// Whether none of its actions is due.
    #[must_use]
    pub fn is_idle_now(&self, due: Due) -> bool {
        !self.stages.iter().flat_map(|stage| &stage.actions).any(|action| due.includes(action))
    }
}

/// Actions that may run at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// In order of start; at most [`STAGE_CONCURRENCY`] run at once.
    pub actions: Vec<Action>,
}

/// How many actions of one stage run at once: enough to fill one group commit, but few enough that a stage cannot starve others.
pub const STAGE_CONCURRENCY: usize = 64;

/// One write, or the check before one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Reads the object past every cache. Fails if it is deleted, has another uid or is terminating, because such an object must not adopt
    /// others.
    ConfirmAlive {
        /// The object, which must still have its uid. The resource version is not compared.
        #[serde(with = "identity")]
        target: ObjectRef,
        /// Why.
        reason: Reason,
    },
    /// Reads the object past every cache. Fails if it still exists under this uid, because its remains must not be deleted yet.
    ConfirmGone {
        /// The object, which must be deleted. The resource version is not compared.
        #[serde(with = "identity")]
        target: ObjectRef,
        /// Why.
        reason: Reason,
    },
    /// Reads nodes past every cache. Fails if none of them is ready and has answered lately: problems of nodes are not faults of their
    /// pods.
    ConfirmNodeReady {
        /// Their names.
        nodes: Vec<String>,
        /// A node has answered if it has renewed its lease since then. A ready node without a lease counts as answering.
        answered_since: Timestamp,
        /// Why.
        reason: Reason,
        /// Recorded on its outcome.
        events: Outcome,
    },
    /// Creates an object under its name. `AlreadyExists` is success if the existing object has the same controller uid.
    Create {
        /// Complete, with name and namespace.
        object: NewObject,
        /// Why.
        reason: Reason,
        /// Recorded when it succeeded, on its outcome.
        events: Outcome,
    },
    /// A JSON merge patch; the executor adds `metadata.uid` and, if given, `metadata.resourceVersion`.
    Patch {
        /// What to patch.
        #[serde(with = "identity")]
        target: ObjectRef,
        /// `None`: the object.
        subresource: Option<Subresource>,
        /// The patch.
        patch: Value,
        /// Whether the write can be deferred.
        urgency: Urgency,
        /// Why.
        reason: Reason,
        /// Recorded on its outcome.
        events: Outcome,
    },
    /// Deletes one object. `NotFound` is success.
    Delete {
        /// What to delete.
        #[serde(with = "identity")]
        target: ObjectRef,
        /// `None`: the resource's default.
        propagation: Option<Propagation>,
        /// `None`: the object's own.
        grace_period_seconds: Option<i64>,
        /// Why.
        reason: Reason,
        /// Recorded on its outcome.
        events: Outcome,
    },
    /// Creates `count` pods from one template in slow-start batches (1, 2, 4, …): the executor names them.
    CreatePods {
        /// Without a name; `generateName` set, owner reference, labels and spec complete.
        template: Box<Pod>,
        /// How many.
        count: usize,
        /// The object of the events (`SuccessfulCreate`, `FailedCreate`).
        #[serde(with = "identity")]
        owner: ObjectRef,
        /// Why.
        reason: Reason,
    },
    /// Deletes pods, all at once up to the stage's limit.
    DeletePods {
        /// The pods, in order of deletion.
        victims: Vec<Victims>,
        /// The object of the events (`SuccessfulDelete`, `FailedDelete`).
        #[serde(with = "identity")]
        owner: ObjectRef,
        /// Why pods are deleted.
        reason: Reason,
    },
}

/// Equality is total: no field of what plans create is a floating point number.
impl Eq for Action {}

/// Pods that were chosen by the same rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Victims {
    /// Why these and not others.
    pub rule: Rule,
    /// The pods, in order of deletion.
    #[serde(with = "identity::list")]
    pub pods: Vec<ObjectRef>,
}

/// When a write is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Urgency {
    /// In this reconcile.
    #[default]
    Now,
    /// Within [`SOON`] of the first reconcile that plans it. No decision depends on its content, which is likely to change soon: a status
    /// that counts pods while they start.
    Soon,
}

/// Which actions of a plan are executed. The plan marks those that can be deferred; the loop around the planner decides whether they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// All.
    All,
    /// All but those of [`Urgency::Soon`].
    Urgent,
}

impl Due {
    /// Whether this action is executed.
    #[must_use]
    pub fn includes(self, action: &Action) -> bool {
        match self {
            Self::All => true,
            Self::Urgent => !action.may_wait(),
        }
    }
}

/// How long a write of [`Urgency::Soon`] waits for further changes. Users do not notice this delay. It is longer while many objects are
/// queued.
pub const SOON: SignedDuration = SignedDuration::from_millis(50);

impl Action {
    /// Whether it is of [`Urgency::Soon`].
    #[must_use]
    pub fn may_wait(&self) -> bool {
        matches!(self, Self::Patch { urgency: Urgency::Soon, .. })
    }
}

/// The merge patch that turns `old` into `new`. `None` if they are equal. Members of `old` only become null, and different lists are
/// replaced as a whole.
#[must_use]
pub fn merge_patch<T: Serialize + PartialEq>(old: &T, new: &T) -> Option<Value> {
    // Most reconciles have nothing to write. Building two trees for each would cost more than the rest of the reconcile.
    if old == new {
        return None;
    }
    let tree = |value: &T| serde_json::to_value(value).expect("API structs have string keys only");
    difference(tree(old), tree(new))
}

/// The merge patch that turns one status into the other. `conditions` returns a status's conditions. Equal conditions are left out of the
/// trees, because their timestamps would be most of the cost.
pub(crate) fn status_patch<S: Clone + Serialize + PartialEq, C: PartialEq>(
    old: &S,
    new: &S,
    conditions: fn(&mut S) -> &mut Option<C>,
) -> Option<Value> {
    let (mut old, mut new) = (old.clone(), new.clone());
    if conditions(&mut old) == conditions(&mut new) {
        (*conditions(&mut old), *conditions(&mut new)) = (None, None);
    }
    merge_patch(&old, &new)
}

/// The merge patch that turns one document into the other. `None` if they are equal. No patch can set a member to null.
#[must_use]
pub fn difference(old: Value, new: Value) -> Option<Value> {
    let (mut old, new) = match (old, new) {
        (Value::Object(old), Value::Object(new)) => (old, new),
        (old, new) => return (old != new).then_some(new),
    };
    let mut patch = Map::new();
    for (key, value) in new {
        let change = match old.remove(&key) {
            Some(old) => difference(old, value),
            None => Some(value),
        };
        patch.extend(change.map(|change| (key, change)));
    }
    patch.extend(old.into_iter().map(|(key, _)| (key, Value::Null)));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Sizes of the batches of [`Action::CreatePods`]: 1, 2, 4, … until all are started. No batch follows one with a failed pod, so an
/// exhausted quota rejects few requests.
#[derive(Clone, Debug)]
pub struct SlowStart {
    left: usize,
    batch: usize,
}

impl SlowStart {
    /// For `count` pods.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self { left: count, batch: 1 }
    }
}

impl Iterator for SlowStart {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let size = self.batch.min(self.left);
        self.left -= size;
        self.batch = size * 2;
        (size > 0).then_some(size)
    }
}

/// `propagationPolicy` of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Propagation {
    /// Dependents are deleted after the object.
    Background,
    /// The object is deleted after its dependents.
    Foreground,
    /// Dependents remain.
    Orphan,
}

/// Events that depend on the outcome of an action. The executor appends the error's text to `failure`'s message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// When it succeeded.
    pub success: Option<EventRecord>,
    /// When it failed.
    pub failure: Option<EventRecord>,
}

/// An event about an object. The recorder aggregates series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRecord {
    /// `involvedObject`.
    #[serde(with = "identity")]
    pub about: ObjectRef,
    /// Its kind.
    #[serde(flatten, with = "identity::about_kind")]
    pub about_kind: GroupVersionKind,
    /// `Normal` or `Warning`.
    pub severity: Severity,
    /// CamelCase.
    pub reason: Cow<'static, str>,
    /// The message for users.
    pub message: String,
    /// How often it is recorded.
    pub repeat: Repeat,
}

impl EventRecord {
    /// An event about an object of a resource that plans write. It is recorded each time.
    #[must_use]
    pub fn new(about: ObjectRef, severity: Severity, reason: impl Into<Cow<'static, str>>, message: String) -> Self {
        let about_kind = kind_of(&about.resource);
        Self { about, about_kind, severity, reason: reason.into(), message, repeat: Repeat::Each }
    }
}

/// How often an event is recorded that several consecutive plans contain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Repeat {
    /// Each time.
    #[default]
    Each,
    /// Once for the object's uid, reason and message: its cause lasts, and every reconcile finds it. The recorder remembers it while the
    /// object exists.
    Once,
    /// As [`Repeat::Once`], for this number: the same event about another rollout is a new one.
    OnceOf(RolloutRevision),
    /// As [`Repeat::Once`], but with this text in place of the message: other parts of the message can change.
    OncePer(String),
}

/// `type` of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Severity {
    /// Expected.
    Normal,
    /// Requires attention.
    Warning,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::{BUDGETS, DEPLOYMENTS, PODS};
    use berth_api::apps::StatefulSetStatus;
    use berth_identity::ObjectKey;
    use k8s_openapi::api::apps::v1::StatefulSetCondition;
    use serde_json::json;

    #[test]
    fn an_event_names_the_kind_that_it_is_about() {
        for (resource, kind, api_version) in
            [(PODS, "Pod", "v1"), (DEPLOYMENTS, "Deployment", "apps/v1"), (BUDGETS, "PodDisruptionBudget", "policy/v1")]
        {
            let about = ObjectRef { resource, key: ObjectKey::new("ns", "a"), uid: "u".into(), resource_version: None };
            let event = EventRecord::new(about, Severity::Normal, "Told", String::new());
            assert_eq!(event.about_kind, GroupVersionKind::parse(api_version, kind).expect("an API version"));
        }
    }

    #[test]
    fn a_plan_is_idle_without_actions_and_only_writes_that_are_soon_may_wait() {
        let patch = |urgency| Action::Patch {
            target: ObjectRef { resource: PODS, key: ObjectKey::new("ns", "a"), uid: "u".into(), resource_version: None },
            subresource: None,
            patch: json!({}),
            urgency,
            reason: Reason::PodsChanged,
            events: Outcome::default(),
        };
        let plan =
            |stages: Vec<Vec<Action>>| Plan { stages: stages.into_iter().map(|actions| Stage { actions }).collect(), ..Plan::default() };
        assert!(plan(vec![]).is_idle() && plan(vec![vec![], vec![]]).is_idle());
        assert!(!plan(vec![vec![], vec![patch(Urgency::Soon)]]).is_idle());
        assert_eq!([Urgency::Soon, Urgency::Now].map(|urgency| patch(urgency).may_wait()), [true, false]);
        let target = ObjectRef { resource: PODS, key: ObjectKey::new("ns", "a"), uid: "u".into(), resource_version: None };
        assert!(!Action::ConfirmGone { target, reason: Reason::ClearsAway }.may_wait());
    }

    #[test]
    fn a_merge_patch_contains_what_differs() {
        let check = |old: Value, new: Value, patch: Option<Value>| assert_eq!(merge_patch(&old, &new), patch);
        check(json!({"a": 1}), json!({"a": 1}), None);
        check(json!({"a": 1, "b": 2}), json!({"b": 3, "c": 4}), Some(json!({"a": null, "b": 3, "c": 4})));
        check(json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 1}}), Some(json!({"a": {"c": null}})));
        check(json!({"a": [1, 2]}), json!({"a": [1]}), Some(json!({"a": [1]})));
    }

    #[test]
    fn a_patch_of_a_status_names_conditions_only_where_they_differ() {
        let status = |replicas, reason: Option<&str>| StatefulSetStatus {
            replicas,
            conditions: reason
                .map(|reason| vec![StatefulSetCondition { reason: Some(reason.to_owned()), ..StatefulSetCondition::default() }]),
            ..StatefulSetStatus::default()
        };
        for (old, new) in [
            (status(1, Some("a")), status(2, Some("a"))),
            (status(1, Some("a")), status(1, Some("b"))),
            (status(1, Some("a")), status(1, None)),
            (status(1, None), status(1, Some("a"))),
            (status(1, Some("a")), status(1, Some("a"))),
        ] {
            assert_eq!(status_patch(&old, &new, |status| &mut status.conditions), merge_patch(&old, &new), "{old:?} {new:?}");
        }
    }
}
