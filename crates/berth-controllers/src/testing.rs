//! A cluster with scripted answers, for the tests of several modules.

use crate::{
    cluster::{Change, Cluster, ClusterError, DeleteParams, RawObject, ServedKind},
    lock,
};
use berth_api::{Object, Subresource};
use berth_identity::{GroupResource, ObjectKey, Revision, Uid};
use berth_workloads::{plan::Severity, resources::PODS};
use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use serde_json::Value;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

type Answer = Box<dyn FnMut(&str) -> Result<Value, ClusterError> + Send>;

/// A cluster that records each call as text and returns scripted answers.
pub(crate) struct FakeCluster {
    pub(crate) calls: Mutex<Vec<String>>,
    answer: Mutex<Answer>,
    revision: AtomicU64,
    /// Whether it stores events other than warnings.
    pub(crate) keeps_all_events: AtomicBool,
    /// How many events it has received.
    pub(crate) events: AtomicU64,
}

impl FakeCluster {
    /// `answer` gets each call's text: `create pods web-1`. `Null` is a missing object.
    pub(crate) fn new(answer: impl FnMut(&str) -> Result<Value, ClusterError> + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            calls: Mutex::default(),
            answer: Mutex::new(Box::new(answer)),
            revision: AtomicU64::new(100),
            keeps_all_events: AtomicBool::new(true),
            events: AtomicU64::new(0),
        })
    }

    /// The calls so far.
    pub(crate) fn calls(&self) -> Vec<String> {
        lock(&self.calls).clone()
    }

    /// The revision of the newest answer.
    pub(crate) fn newest_revision(&self) -> Revision {
        Revision(self.revision.load(Ordering::Relaxed))
    }

    fn call(&self, text: String) -> Result<Option<RawObject>, ClusterError> {
        // These tests do not check events.
        if text.contains(" events ") {
            self.events.fetch_add(1, Ordering::Relaxed);
            return Ok(Some(RawObject::new("{}", Revision::default())));
        }
        let answer = lock(&self.answer)(&text);
        lock(&self.calls).push(text);
        let revision = Revision(self.revision.fetch_add(1, Ordering::Relaxed) + 1);
        answer.map(|value| (!value.is_null()).then(|| RawObject::new(value.to_string(), revision)))
    }

    fn written(&self, text: String) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        async move { Ok(self.call(text)?.expect("the test answers writes with an object")) }.boxed()
    }
}

fn text(verb: &str, resource: GroupResource, key: &ObjectKey) -> String {
    format!("{verb} {} {}", resource.plural, key.name)
}

impl Cluster for FakeCluster {
    fn watch(&self, _: GroupResource) -> BoxStream<'static, Change> {
        stream::pending().boxed()
    }

    fn kinds(&self) -> BoxStream<'static, Vec<ServedKind>> {
        stream::pending().boxed()
    }

    fn keeps_events(&self, severity: Severity) -> bool {
        severity == Severity::Warning || self.keeps_all_events.load(Ordering::Relaxed)
    }

    fn get(&self, resource: GroupResource, key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        let text = text("get", resource, key);
        async move { self.call(text) }.boxed()
    }

    fn newest(&self, _: GroupResource) -> BoxFuture<'_, Result<Revision, ClusterError>> {
        async move { Ok(self.newest_revision()) }.boxed()
    }

    fn create(&self, object: Box<dyn Object>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        let name = object.meta().name.clone().unwrap_or_default();
        self.written(format!("create {}s {name}", object.kind().to_lowercase()))
    }

    fn patch(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        subresource: Option<Subresource>,
        patch: Value,
    ) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        let subresource = subresource.map_or(String::new(), |subresource| format!("/{}", subresource.as_str()));
        self.written(format!("{}{subresource} {patch}", text("patch", resource, key)))
    }

    fn update(&self, object: Box<dyn Object>, _: Option<Subresource>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        let name = object.meta().name.clone().unwrap_or_default();
        self.written(format!("update {}s {name}", object.kind().to_lowercase()))
    }

    fn bind(&self, pod: &ObjectKey, _: &Uid, node: &str) -> BoxFuture<'_, Result<(), ClusterError>> {
        let text = format!("{} {node}", text("bind", PODS, pod));
        async move { self.call(text).map(drop) }.boxed()
    }

    fn delete(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        params: DeleteParams,
    ) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        let uid = params.uid.unwrap_or_default();
        let text = format!("{} {uid}", text("delete", resource, key));
        async move { self.call(text) }.boxed()
    }
}
