//! The log of the controllers: their events, what they wait for, and their reasons. Events are kept here, not stored.

use berth_api::{Object, StatusPart, Subresource, k8s_openapi::api::core::v1::Event};
use berth_controllers::{
    Change, Cluster, ClusterError, DeleteParams, RawObject, ServedKind,
    executor::{NotCreated, PlanObserver},
};
use berth_identity::{GroupResource, ObjectKey, Revision, Uid};
use berth_sim::network::SimCluster;
use berth_store::env::{Clock, Timestamp};
use berth_workloads::{
    Action, Plan, Wait,
    plan::{Due, Reason, Severity},
    resources::{EVENTS, PODS, REPLICA_SETS},
    workload::{WorkloadId, WorkloadKind},
};
use futures::{
    FutureExt,
    future::{BoxFuture, ready},
    stream::BoxStream,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Records what controllers report.
pub(crate) struct ControllerLog {
    clock: Arc<dyn Clock>,
    observations: Mutex<Observations>,
}

/// The reports of controllers that the observer has not read yet, and the state that must outlast them.
#[derive(Default)]
pub(crate) struct Observations {
    /// Warnings, each once, as events.
    pub(crate) warnings: Vec<(Timestamp, Value)>,
    /// The waits of workloads, where they differ from the last reconcile.
    pub(crate) waits: Vec<Waiting>,
    last: BTreeMap<WorkloadId, Vec<Wait>>,
    /// Workloads that became idle, or are no longer.
    pub(crate) rests: Vec<Rest>,
    resting: BTreeSet<WorkloadId>,
    /// Objects that could not be created: the first of each kind of error and object.
    pub(crate) rejections: Vec<Rejection>,
    rejected: BTreeSet<(Uid, RejectedBy)>,
    /// The sizes that autoscalers planned.
    pub(crate) autoscalings: Vec<Autoscaling>,
    /// Why pods are deleted, by their keys.
    pub(crate) rules: BTreeMap<ObjectKey, String>,
    /// Why ReplicaSets are created, resized and deleted: the reasons of plans whose writes were not observed yet.
    set_reasons: BTreeMap<(ObjectKey, SetChange), String>,
}

/// A size that an autoscaler requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Autoscaling {
    pub(crate) at: Timestamp,
    pub(crate) autoscaler: ObjectKey,
    pub(crate) from: i32,
    pub(crate) to: i32,
    pub(crate) why: String,
}

/// The waits of a workload.
pub(crate) struct Waiting {
    pub(crate) at: Timestamp,
    pub(crate) workload: WorkloadId,
    pub(crate) waits: Vec<Wait>,
}

/// Whether a reconcile of the workload leaves nothing to do, and only deliberate waits.
pub(crate) struct Rest {
    pub(crate) at: Timestamp,
    pub(crate) workload: WorkloadId,
    pub(crate) is_at_rest: bool,
}

/// An object that could not be created.
pub(crate) struct Rejection {
    pub(crate) at: Timestamp,
    /// The object of the event: the ReplicaSet of a pod, or the Deployment of a ReplicaSet.
    pub(crate) about: Uid,
    pub(crate) by: RejectedBy,
    pub(crate) message: String,
}

/// What rejects an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RejectedBy {
    Quota,
    /// Another rule of the API server.
    Server,
}

/// A change of a ReplicaSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SetChange {
    Create,
    /// The new number of pods.
    Resize(i64),
    Delete,
}

impl Observations {
    /// Restarts before a change is made. Workloads that are idle and not `changed` remain so, because no controller reconciles them again.
    pub(crate) fn begin(&mut self, now: Timestamp, changed: impl Fn(&WorkloadId) -> bool) {
        let Self { mut last, resting, .. } = std::mem::take(self);
        for workload in resting.into_iter().filter(|workload| !changed(workload)) {
            let waits = last.remove(&workload).unwrap_or_default();
            self.waits.push(Waiting { at: now, workload: workload.clone(), waits: waits.clone() });
            self.rests.push(Rest { at: now, workload: workload.clone(), is_at_rest: true });
            self.last.insert(workload.clone(), waits);
            self.resting.insert(workload);
        }
    }

    /// Drops the reports that a caller does not read.
    pub(crate) fn discard(&mut self) {
        self.waits.clear();
        self.rests.clear();
        self.warnings.clear();
        self.rejections.clear();
        self.rejected.clear();
        self.autoscalings.clear();
        self.rules.clear();
        self.set_reasons.clear();
    }

    /// Removes and returns the reason of the plan that changed a ReplicaSet. Empty if no controller changed it.
    pub(crate) fn take_reason(&mut self, set: ObjectKey, change: SetChange) -> String {
        self.set_reasons.remove(&(set, change)).unwrap_or_default()
    }

    fn note_reasons(&mut self, action: &Action) {
        match action {
            Action::DeletePods { victims, .. } => {
                for group in victims {
                    self.rules.extend(group.pods.iter().map(|pod| (pod.key.clone(), group.rule.to_string())));
                }
            }
            Action::Delete { target, reason, .. } if target.resource == PODS => {
                self.rules.insert(target.key.clone(), reason.to_string());
            }
            Action::Delete { target, reason, .. } if target.resource == REPLICA_SETS => {
                self.set_reasons.insert((target.key.clone(), SetChange::Delete), reason.to_string());
            }
            Action::Create { object, reason, .. } if object.resource() == REPLICA_SETS => {
                self.set_reasons.insert((object.key(), SetChange::Create), reason.to_string());
            }
            Action::Patch { target, reason: Reason::Resized { to, limit, .. }, .. } if target.resource == REPLICA_SETS => {
                let figures = limit.as_ref().map(ToString::to_string).unwrap_or_default();
                self.set_reasons.insert((target.key.clone(), SetChange::Resize(*to)), figures);
            }
            _ => (),
        }
    }
}

impl ControllerLog {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, observations: Mutex::default() }
    }

    /// There is only one thread, so the lock is never contended.
    pub(crate) fn observations(&self) -> MutexGuard<'_, Observations> {
        self.observations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn event(&self, event: &dyn Object) {
        if event.downcast_ref::<Event>().is_some_and(|event| event.type_.as_deref() == Some("Warning")) {
            self.observations().warnings.push((self.clock.now(), event.to_value()));
        }
    }
}

impl PlanObserver for ControllerLog {
    fn planned(&self, controller: &'static str, key: &ObjectKey, plan: &Plan, due: Due) {
        let mut observations = self.observations();
        let due_now = plan.stages.iter().flat_map(|stage| &stage.actions).filter(|action| due.includes(action));
        for action in due_now {
            observations.note_reasons(action);
            if let Action::Patch { reason: Reason::Autoscaled { from, to, why }, .. } = action {
                let (at, autoscaler) = (self.clock.now(), key.clone());
                observations.autoscalings.push(Autoscaling { at, autoscaler, from: *from, to: *to, why: why.clone() });
            }
        }
        let kind = match controller {
            "deployment" => WorkloadKind::Deployment,
            "statefulset" => WorkloadKind::StatefulSet,
            "daemonset" => WorkloadKind::DaemonSet,
            _ => return,
        };
        let workload = WorkloadId::of_key(kind, key.clone());
        let is_at_rest = plan.is_idle_now(due) && plan.waits.iter().all(Wait::is_on_purpose);
        let is_news = if is_at_rest { observations.resting.insert(workload.clone()) } else { observations.resting.remove(&workload) };
        if is_news {
            observations.rests.push(Rest { at: self.clock.now(), workload: workload.clone(), is_at_rest });
        }
        let labels = || plan.waits.iter().map(Wait::metric_label);
        let is_known = observations.last.get(&workload).is_some_and(|last| last.iter().map(Wait::metric_label).eq(labels()));
        // A reconcile that waits for a child to be observed has not evaluated the other waits.
        if is_known || plan.waits.iter().any(|wait| matches!(wait, Wait::ChildNotObserved { .. })) {
            return;
        }
        observations.last.insert(workload.clone(), plan.waits.clone());
        observations.waits.push(Waiting { at: self.clock.now(), workload, waits: plan.waits.clone() });
    }

    fn not_created(&self, failed: &NotCreated<'_>) {
        let by = if matches!(failed.error, ClusterError::ExceedsQuota(_)) { RejectedBy::Quota } else { RejectedBy::Server };
        let mut observations = self.observations();
        if !observations.rejected.insert((failed.about.uid.clone(), by)) {
            return;
        }
        // The name of a ReplicaSet's pod differs in each attempt.
        let message = match failed.drawn_name {
            Some(name) => failed.error.to_string().replace(&format!("pods \"{name}\""), "a pod"),
            None => failed.message.to_owned(),
        };
        observations.rejections.push(Rejection { at: self.clock.now(), about: failed.about.uid.clone(), by, message });
    }
}

/// A cluster that records events in the log and does not store them.
pub(crate) struct DiscardEvents {
    pub(crate) inner: SimCluster,
    pub(crate) log: Arc<ControllerLog>,
}

/// The answer for an event that is not stored.
fn unstored() -> RawObject {
    RawObject::new(&b"{}"[..], Revision(0))
}

impl Cluster for DiscardEvents {
    fn kinds(&self) -> BoxStream<'static, Vec<ServedKind>> {
        self.inner.kinds()
    }

    fn watch(&self, resource: GroupResource) -> BoxStream<'static, Change> {
        self.inner.watch(resource)
    }

    fn get(&self, resource: GroupResource, key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        self.inner.get(resource, key)
    }

    fn get_scale(&self, resource: GroupResource, key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        self.inner.get_scale(resource, key)
    }

    fn newest(&self, resource: GroupResource) -> BoxFuture<'_, Result<Revision, ClusterError>> {
        self.inner.newest(resource)
    }

    fn create(&self, object: Box<dyn Object>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        if object.resource() == EVENTS {
            self.log.event(&*object);
            return ready(Ok(unstored())).boxed();
        }
        self.inner.create(object)
    }

    fn keeps_events(&self, severity: Severity) -> bool {
        severity == Severity::Warning
    }

    fn patch(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        subresource: Option<Subresource>,
        patch: Value,
    ) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        if resource == EVENTS { ready(Ok(unstored())).boxed() } else { self.inner.patch(resource, key, subresource, patch) }
    }

    fn put_status(&self, part: StatusPart) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        self.inner.put_status(part)
    }

    fn update(&self, object: Box<dyn Object>, subresource: Option<Subresource>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        self.inner.update(object, subresource)
    }

    fn bind(&self, pod: &ObjectKey, uid: &Uid, node: &str) -> BoxFuture<'_, Result<(), ClusterError>> {
        self.inner.bind(pod, uid, node)
    }

    fn delete(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        params: DeleteParams,
    ) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        self.inner.delete(resource, key, params)
    }
}
