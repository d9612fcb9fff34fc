//! What the tests of several modules share: a world of one thread whose time passes only when everybody waits for it, and a cluster that
//! answers as told.

use crate::{
    cluster::{Change, Cluster, ClusterError, DeleteParams, RawObject, ServedKind},
    lock,
};
use berth_api::{Object, Subresource};
use berth_identity::{ObjectKey, ResourceName, Revision, Uid};
use berth_store::{
    env::{Clock, Env, Rng, Spawner},
    virtual_time::{Order, Process, Step, VirtualTime},
};
use berth_workloads::{plan::Severity, resources::PODS};
use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// The same numbers in every run, scattered enough that names do not repeat.
#[derive(Default)]
pub(crate) struct Numbers(AtomicU64);

impl Rng for Numbers {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            // SplitMix64.
            let mut number = self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            number ^= number >> 31;
            chunk.copy_from_slice(&number.to_le_bytes()[..chunk.len()]);
        }
    }
}

/// One thread's tasks and their clock.
#[derive(Clone)]
pub(crate) struct World {
    time: VirtualTime,
    process: Process,
}

impl Default for World {
    fn default() -> Self {
        let time = VirtualTime::new(Order::Fifo, Arc::new(Numbers::default()), Timestamp::UNIX_EPOCH);
        Self { process: time.process(), time }
    }
}

impl World {
    pub(crate) fn env(&self) -> Env {
        Env { clock: Arc::new(self.time.clone()), rng: Arc::new(Numbers::default()), spawner: Arc::new(self.process.clone()) }
    }

    /// Another process in the same time.
    pub(crate) fn another(&self) -> (Env, Process) {
        let process = self.time.process();
        (Env { spawner: Arc::new(process.clone()), ..self.env() }, process)
    }

    /// Lets everybody run, and time pass, until `duration` is over.
    pub(crate) fn run_for(&self, duration: SignedDuration) {
        let until = self.time.now() + duration;
        while self.time.step(until) != Step::Quiet {}
    }

    /// Polls as often as told, whoever has something to do.
    pub(crate) fn poll(&self, times: usize) {
        (0..times).for_each(|_| _ = self.time.step(self.time.now() + SignedDuration::from_secs(1)));
    }

    /// Runs `future` to its end, with everybody else, for at most an hour.
    pub(crate) fn block_on<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let answer = Arc::new(Mutex::new(None));
        let sink = Arc::clone(&answer);
        self.process.spawn("test", future.map(move |value| *lock(&sink) = Some(value)).boxed());
        let until = self.time.now() + SignedDuration::from_hours(1);
        loop {
            let step = self.time.step(until);
            if let Some(value) = lock(&answer).take() {
                return value;
            }
            assert_ne!(step, Step::Quiet, "the future does not end");
        }
    }
}

type Answer = Box<dyn FnMut(&str) -> Result<Value, ClusterError> + Send>;

/// A cluster that notes each call as text and answers as told.
pub(crate) struct FakeCluster {
    pub(crate) calls: Mutex<Vec<String>>,
    answer: Mutex<Answer>,
    revision: AtomicU64,
    /// Whether it keeps events beside warnings.
    pub(crate) keeps_all_events: AtomicBool,
    /// How many it has been told of.
    pub(crate) events: AtomicU64,
}

impl FakeCluster {
    /// `answer` gets each call's text: `create pods web-1`. `Null` stands for an object that is not there.
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

    /// That of the newest answer.
    pub(crate) fn newest_revision(&self) -> Revision {
        Revision(self.revision.load(Ordering::Relaxed))
    }

    fn call(&self, text: String) -> Result<Option<RawObject>, ClusterError> {
        // Events are no part of what these tests look at.
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

fn text(verb: &str, resource: ResourceName, key: &ObjectKey) -> String {
    format!("{verb} {} {}", resource.plural, key.name)
}

impl Cluster for FakeCluster {
    fn watch(&self, _: ResourceName) -> BoxStream<'static, Change> {
        stream::pending().boxed()
    }

    fn kinds(&self) -> BoxStream<'static, Vec<ServedKind>> {
        stream::pending().boxed()
    }

    fn keeps_events(&self, severity: Severity) -> bool {
        severity == Severity::Warning || self.keeps_all_events.load(Ordering::Relaxed)
    }

    fn get(&self, resource: ResourceName, key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        let text = text("get", resource, key);
        async move { self.call(text) }.boxed()
    }

    fn newest(&self, _: ResourceName) -> BoxFuture<'_, Result<Revision, ClusterError>> {
        async move { Ok(self.newest_revision()) }.boxed()
    }

    fn create(&self, object: Box<dyn Object>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        let name = object.meta().name.clone().unwrap_or_default();
        self.written(format!("create {}s {name}", object.kind().to_lowercase()))
    }

    fn patch(
        &self,
        resource: ResourceName,
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
        resource: ResourceName,
        key: &ObjectKey,
        params: DeleteParams,
    ) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        let uid = params.uid.unwrap_or_default();
        let text = format!("{} {uid}", text("delete", resource, key));
        async move { self.call(text) }.boxed()
    }
}
