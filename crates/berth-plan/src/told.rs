//! What controllers say while they work: events, waits, and by which rule pods go. Events are kept here, not stored.

use berth_api::{Object, StatusPart, Subresource, k8s_openapi::api::core::v1::Event};
use berth_controllers::{Change, Cluster, ClusterError, DeleteParams, RawObject, ServedKind, executor::Follower};
use berth_identity::{GroupResource, ObjectKey, Revision, Uid};
use berth_sim::network::SimCluster;
use berth_store::env::{Clock, Timestamp};
use berth_workloads::{
    Action, Plan, Wait,
    plan::{Due, Severity},
    resources::{EVENTS, PODS},
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

/// What was said.
pub(crate) struct Told {
    clock: Arc<dyn Clock>,
    said: Mutex<Said>,
}

#[derive(Default)]
pub(crate) struct Said {
    /// Warnings, each once, as events.
    pub(crate) warnings: Vec<(Timestamp, Value)>,
    /// What looks at workloads waited for, where that is another than in the look before.
    pub(crate) waits: Vec<Waiting>,
    last: BTreeMap<WorkloadId, Vec<Wait>>,
    /// Workloads that looks began or ceased to leave as they are.
    pub(crate) rests: Vec<Rest>,
    resting: BTreeSet<WorkloadId>,
    /// Why pods go, by their key.
    pub(crate) rules: BTreeMap<ObjectKey, String>,
}

/// What one workload waits for.
pub(crate) struct Waiting {
    pub(crate) at: Timestamp,
    pub(crate) workload: WorkloadId,
    pub(crate) waits: Vec<Wait>,
}

/// Whether the look at one workload left nothing to do, and nothing to wait for but what its owner keeps to themselves.
pub(crate) struct Rest {
    pub(crate) at: Timestamp,
    pub(crate) workload: WorkloadId,
    pub(crate) is_at_rest: bool,
}

impl Said {
    /// A change is about to be made. Nothing is said yet but how the workloads stand that are at rest and are not `changed`: nobody need look at them again.
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

    /// For those who read nothing of it.
    pub(crate) fn forget(&mut self) {
        self.waits.clear();
        self.rests.clear();
        self.warnings.clear();
        self.rules.clear();
    }
}

impl Told {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, said: Mutex::default() }
    }

    /// One thread: a lock is never contended.
    pub(crate) fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn event(&self, event: &dyn Object) {
        if event.downcast_ref::<Event>().is_some_and(|event| event.type_.as_deref() == Some("Warning")) {
            self.said().warnings.push((self.clock.now(), event.to_value()));
        }
    }
}

impl Follower for Told {
    fn planned(&self, controller: &'static str, key: &ObjectKey, plan: &Plan, due: Due) {
        let mut said = self.said();
        for action in plan.stages.iter().flat_map(|stage| &stage.actions).filter(|action| due.includes(action)) {
            match action {
                Action::DeletePods { victims, .. } => {
                    for group in victims {
                        said.rules.extend(group.pods.iter().map(|pod| (pod.key.clone(), group.rule.to_string())));
                    }
                }
                Action::Delete { target, reason, .. } if target.resource == PODS => {
                    said.rules.insert(target.key.clone(), reason.to_string());
                }
                _ => (),
            }
        }
        let kind = match controller {
            "deployment" => WorkloadKind::Deployment,
            "statefulset" => WorkloadKind::StatefulSet,
            _ => return,
        };
        let workload = WorkloadId::of_key(kind, key.clone());
        let is_at_rest = plan.is_idle_now(due) && plan.waits.iter().all(Wait::is_on_purpose);
        let is_news = if is_at_rest { said.resting.insert(workload.clone()) } else { said.resting.remove(&workload) };
        if is_news {
            said.rests.push(Rest { at: self.clock.now(), workload: workload.clone(), is_at_rest });
        }
        let labels = || plan.waits.iter().map(Wait::metric_label);
        let is_known = said.last.get(&workload).is_some_and(|last| last.iter().map(Wait::metric_label).eq(labels()));
        // A look that waits for a child to be observed has not got as far as the other waits.
        if is_known || labels().any(|label| label == "child_not_observed") {
            return;
        }
        said.last.insert(workload.clone(), plan.waits.clone());
        said.waits.push(Waiting { at: self.clock.now(), workload, waits: plan.waits.clone() });
    }
}

/// A cluster in which events are told and not stored.
pub(crate) struct Eventless {
    pub(crate) inner: SimCluster,
    pub(crate) told: Arc<Told>,
}

/// An event that nobody will read.
fn unstored() -> RawObject {
    RawObject::new(&b"{}"[..], Revision(0))
}

impl Cluster for Eventless {
    fn kinds(&self) -> BoxStream<'static, Vec<ServedKind>> {
        self.inner.kinds()
    }

    fn watch(&self, resource: GroupResource) -> BoxStream<'static, Change> {
        self.inner.watch(resource)
    }

    fn get(&self, resource: GroupResource, key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        self.inner.get(resource, key)
    }

    fn newest(&self, resource: GroupResource) -> BoxFuture<'_, Result<Revision, ClusterError>> {
        self.inner.newest(resource)
    }

    fn create(&self, object: Box<dyn Object>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        if object.resource() == EVENTS {
            self.told.event(&*object);
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
