//! What controllers say while they work: events, waits, and by which rule pods go. Events are kept here, not stored.

use berth_api::{Object, StatusPart, Subresource, k8s_openapi::api::core::v1::Event};
use berth_controllers::{Change, Cluster, ClusterError, DeleteParams, RawObject, ServedKind, executor::Follower};
use berth_identity::{ObjectKey, ResourceName, Revision, Uid};
use berth_sim::network::SimCluster;
use berth_store::env::{Clock, Timestamp};
use berth_workloads::{
    Action, Plan, Wait,
    resources::{EVENTS, PODS},
};
use futures::{
    FutureExt,
    future::{BoxFuture, ready},
    stream::BoxStream,
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
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
    last: BTreeMap<(&'static str, ObjectKey), Vec<&'static str>>,
    /// Why pods go, by their key.
    pub(crate) rules: BTreeMap<ObjectKey, String>,
}

/// What one workload waits for.
pub(crate) struct Waiting {
    pub(crate) at: Timestamp,
    pub(crate) kind: &'static str,
    pub(crate) key: ObjectKey,
    pub(crate) waits: Vec<Wait>,
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
    fn planned(&self, controller: &'static str, key: &ObjectKey, plan: &Plan) {
        let mut said = self.said();
        for action in plan.stages.iter().flat_map(|stage| &stage.actions) {
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
            "deployment" => "Deployment",
            "statefulset" => "StatefulSet",
            _ => return,
        };
        let labels: Vec<&'static str> = plan.waits.iter().map(Wait::metric_label).collect();
        // A look that waits for a child to be observed has not got as far as the other waits.
        if labels.contains(&"child_not_observed") || said.last.get(&(kind, key.clone())).is_some_and(|last| *last == labels) {
            return;
        }
        said.last.insert((kind, key.clone()), labels);
        said.waits.push(Waiting { at: self.clock.now(), kind, key: key.clone(), waits: plan.waits.clone() });
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

    fn watch(&self, resource: ResourceName) -> BoxStream<'static, Change> {
        self.inner.watch(resource)
    }

    fn get(&self, resource: ResourceName, key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        self.inner.get(resource, key)
    }

    fn newest(&self, resource: ResourceName) -> BoxFuture<'_, Result<Revision, ClusterError>> {
        self.inner.newest(resource)
    }

    fn create(&self, object: Box<dyn Object>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        if object.resource() == EVENTS {
            self.told.event(&*object);
            return ready(Ok(unstored())).boxed();
        }
        self.inner.create(object)
    }

    fn patch(
        &self,
        resource: ResourceName,
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
        resource: ResourceName,
        key: &ObjectKey,
        params: DeleteParams,
    ) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        self.inner.delete(resource, key, params)
    }
}
