//! The way between a controller and the API: calls take time, get lost on the way there or back, and watches stall and break.

use crate::{
    lock,
    rng::{Purpose, SeededRng},
};
use berth_api::{Object, StatusPart, Subresource, fencing::FencingToken};
use berth_controllers::{
    Change, Cluster, ClusterError, DeleteParams, RawObject, ServedKind,
    election::{Gate, Pass},
};
use berth_identity::{GroupResource, ObjectKey, Revision, Uid};
use berth_local::LocalCluster;
use berth_store::env::{Clock, Rng, Spawner, Timestamp};
use berth_workloads::resources::PODS;
use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, ready},
    stream::{self, BoxStream},
};
use serde_json::Value;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// How much later a late call comes than its caller has given it up.
pub const LATE_BY: Duration = Duration::from_secs(10);

/// What goes wrong, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// The longest way of a call, there or back; each takes between none of it and all of it.
    pub latency_max: Duration,
    /// Calls that never reach the API, per thousand; the caller hears that it is not available.
    pub lost_calls_per_mille: u32,
    /// Answers that are lost after the API has done what was asked, per thousand; the caller hears the same.
    pub lost_answers_per_mille: u32,
    /// Deletions that arrive [`LATE_BY`] late, per thousand. The caller learns at once that the API is not available. Not in hostile simulations: no
    /// controller can know what is still on its way, so each such deletion takes effect whatever has been decided since.
    pub late_deletions_per_mille: u32,
    /// Changes before which a watch stalls, per thousand.
    pub stalls_per_mille: u32,
    /// The longest stall. The next one begins at least that much later, so no reader sees older data.
    pub stall_max: Duration,
    /// Changes after which a watch breaks and relists, per thousand.
    pub breaks_per_mille: u32,
    /// Changes that a watch shows once more, per thousand.
    pub repeats_per_mille: u32,
}

impl Faults {
    /// Calls take up to 2 ms, and nothing goes wrong.
    pub const NONE: Self = Self {
        latency_max: Duration::from_millis(2),
        lost_calls_per_mille: 0,
        lost_answers_per_mille: 0,
        late_deletions_per_mille: 0,
        stalls_per_mille: 0,
        stall_max: Duration::ZERO,
        breaks_per_mille: 0,
        repeats_per_mille: 0,
    };
    /// Slow calls, one in a hundred lost, half of them after they were done; caches that are seconds behind and start over.
    pub const HOSTILE: Self = Self {
        latency_max: Duration::from_millis(50),
        lost_calls_per_mille: 5,
        lost_answers_per_mille: 5,
        late_deletions_per_mille: 0,
        stalls_per_mille: 20,
        stall_max: Duration::from_secs(3),
        breaks_per_mille: 2,
        repeats_per_mille: 5,
    };
}

/// The faults of one simulation, which may be changed while it runs, and their randomness. Cheap to clone.
#[derive(Clone)]
pub struct Network(Arc<NetworkState>);

struct NetworkState {
    clock: Arc<dyn Clock>,
    /// What is on its way outlives who has sent it.
    spawner: Arc<dyn Spawner>,
    rng: SeededRng,
    faults: Mutex<Faults>,
}

impl Network {
    /// A network with `faults`.
    #[must_use]
    pub fn new(seed: u64, clock: Arc<dyn Clock>, spawner: Arc<dyn Spawner>, faults: Faults) -> Self {
        Self(Arc::new(NetworkState { clock, spawner, rng: SeededRng::new(seed, Purpose::Network), faults: Mutex::new(faults) }))
    }

    /// From now on, `faults` go wrong.
    pub fn set_faults(&self, faults: Faults) {
        *lock(&self.0.faults) = faults;
    }

    fn faults(&self) -> Faults {
        *lock(&self.0.faults)
    }

    async fn delay(&self, longest: Duration) {
        let nanoseconds = u64::try_from(longest.as_nanos()).expect("delays are seconds");
        if nanoseconds > 0 {
            let delay = Duration::from_nanos(self.0.rng.below(nanoseconds + 1));
            self.0.clock.sleep_until(self.0.clock.now() + delay).await;
        }
    }

    /// The way of one call. An answer of an API that refused may be lost as well.
    async fn call<T>(&self, call: impl Future<Output = Result<T, ClusterError>>) -> Result<T, ClusterError> {
        let faults = self.faults();
        self.delay(faults.latency_max).await;
        if self.0.rng.happens(faults.lost_calls_per_mille) {
            return Err(lost("call"));
        }
        let answer = call.await;
        self.delay(faults.latency_max).await;
        if self.0.rng.happens(faults.lost_answers_per_mille) { Err(lost("answer")) } else { answer }
    }
}

fn lost(what: &str) -> ClusterError {
    ClusterError::Unknown(format!("the simulated network lost the {what}"))
}

/// When a process crashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Crash {
    /// Not at all.
    #[default]
    Never,
    /// After this write, counted from 1.
    After(u64),
    /// After every write, again and again.
    AfterEach,
}

/// The writes that the processes of one part have made, one after another; events do not count. Cheap to clone.
#[derive(Clone, Default)]
pub struct Writes(Arc<Mutex<Counted>>);

#[derive(Default)]
struct Counted {
    done: u64,
    crash: Crash,
    /// A process has crashed and was not buried yet.
    crashed: bool,
}

impl Writes {
    /// Counts from 0 again, and crashes as `crash` specifies from now on.
    pub fn restart_count(&self, crash: Crash) {
        *lock(&self.0) = Counted { crash, ..Counted::default() };
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        lock(&self.0).done
    }

    /// When it crashes.
    #[must_use]
    pub fn crash(&self) -> Crash {
        lock(&self.0).crash
    }

    /// Whether a process has crashed since the last call.
    #[must_use]
    pub fn take_crashed(&self) -> bool {
        std::mem::take(&mut lock(&self.0).crashed)
    }

    /// A write was done; gives whether that was the last thing its process has done.
    fn add(&self) -> bool {
        let mut counted = lock(&self.0);
        counted.done += 1;
        counted.crashed |= match counted.crash {
            Crash::Never => false,
            Crash::After(write) => counted.done == write,
            Crash::AfterEach => true,
        };
        counted.crashed
    }
}

/// Uids of pods that were removed without a grace period. Cheap to clone.
pub type Removed = Arc<Mutex<Vec<String>>>;

/// For whose lead something was made, and the revision.
type Made = (Arc<FencingToken>, Revision);

/// What those who lead have made. Cheap to clone.
#[derive(Clone, Default)]
pub struct Leaderships(Arc<Mutex<Vec<Made>>>);

impl Leaderships {
    /// What was made since the last call: by whom, and the revision.
    #[must_use]
    pub fn take_made(&self) -> Vec<Made> {
        std::mem::take(&mut lock(&self.0))
    }
}

/// How a process writes that leads.
struct Leading {
    gate: Gate,
    api: LocalCluster,
    leaderships: Leaderships,
}

/// A [`Cluster`] at the other end of a [`Network`], as one process has it.
pub struct SimCluster {
    api: Arc<dyn Cluster>,
    network: Network,
    writes: Writes,
    /// None: it writes without leader election.
    leading: Option<Leading>,
    /// Uids of the pods that this process removes at once.
    removed: Removed,
    /// The process has crashed: it does nothing more, and learns nothing of what it did last.
    crashed: AtomicBool,
}

impl SimCluster {
    /// A new process's way to `api`; what it writes is counted in `writes`.
    #[must_use]
    pub fn new(api: Arc<dyn Cluster>, network: Network, writes: Writes) -> Self {
        Self { api, network, writes, leading: None, removed: Removed::default(), crashed: AtomicBool::new(false) }
    }

    /// Writes only while the gate is open, as the leader of that moment, and records that in `leaderships`.
    #[must_use]
    pub fn fenced_by(self, gate: Gate, api: LocalCluster, leaderships: Leaderships) -> Self {
        Self { leading: Some(Leading { gate, api, leaderships }), ..self }
    }

    /// Notes in `removed` what this process removes at once.
    #[must_use]
    pub fn noting(self, removed: Removed) -> Self {
        Self { removed, ..self }
    }

    /// The API as a write finds it that begins now.
    fn begin(&self) -> Result<Writing, ClusterError> {
        let Some(leading) = &self.leading else { return Ok(Writing { api: Arc::clone(&self.api), pass: None }) };
        let pass = leading.gate.enter()?;
        Ok(Writing { api: Arc::new(leading.api.during(pass.fencing_token())), pass: Some(pass) })
    }

    async fn write<T>(&self, resource: GroupResource, write: impl Future<Output = Result<T, ClusterError>>) -> Result<T, ClusterError> {
        let counted = async {
            self.stop_if_crashed().await;
            let answer = write.await;
            if answer.is_ok() && resource.plural != "events" {
                self.crashed.fetch_or(self.writes.add(), Ordering::Relaxed);
            }
            self.stop_if_crashed().await;
            answer
        };
        self.network.call(counted).await
    }

    async fn stop_if_crashed(&self) {
        if self.crashed.load(Ordering::Relaxed) {
            futures::future::pending::<()>().await;
        }
    }
}

/// A write on its way.
struct Writing {
    api: Arc<dyn Cluster>,
    pass: Option<Pass>,
}

/// A watch under way, and what it will start over from if it breaks.
struct Watching {
    api: Arc<dyn Cluster>,
    network: Network,
    resource: GroupResource,
    changes: BoxStream<'static, Change>,
    /// What it has shown last.
    last: Option<Change>,
    /// When it may stall again.
    stalls_from: Timestamp,
}

impl Watching {
    async fn next(&mut self) -> Option<Change> {
        let faults = self.network.faults();
        if self.network.0.rng.happens(faults.breaks_per_mille) {
            self.changes = self.api.watch(self.resource.clone());
            self.last = None;
        }
        let repeated = self.last.take().filter(|_| self.network.0.rng.happens(faults.repeats_per_mille));
        let change = match repeated {
            Some(change) => Some(change),
            None => self.changes.next().await,
        };
        let clock = &self.network.0.clock;
        if self.network.0.rng.happens(faults.stalls_per_mille) && self.stalls_from <= clock.now() {
            self.network.delay(faults.stall_max).await;
            self.stalls_from = clock.now() + faults.stall_max;
        }
        self.last.clone_from(&change);
        change
    }
}

impl Cluster for SimCluster {
    fn watch(&self, resource: GroupResource) -> BoxStream<'static, Change> {
        let (api, network) = (Arc::clone(&self.api), self.network.clone());
        let (changes, stalls_from) = (api.watch(resource.clone()), network.0.clock.now());
        let watching = Watching { changes, api, network, resource, last: None, stalls_from };
        stream::unfold(watching, |mut watching| async move { watching.next().await.map(|change| (change, watching)) }).boxed()
    }

    fn kinds(&self) -> BoxStream<'static, Vec<ServedKind>> {
        self.api.kinds()
    }

    fn get(&self, resource: GroupResource, key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        let key = key.clone();
        async move { self.network.call(self.api.get(resource, &key)).await }.boxed()
    }

    fn get_scale(&self, resource: GroupResource, key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        let key = key.clone();
        async move { self.network.call(self.api.get_scale(resource, &key)).await }.boxed()
    }

    fn newest(&self, resource: GroupResource) -> BoxFuture<'_, Result<Revision, ClusterError>> {
        async move { self.network.call(self.api.newest(resource)).await }.boxed()
    }

    fn create(&self, object: Box<dyn Object>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        let resource = object.resource();
        let create = async move |Writing { api, pass }| {
            let made = api.create(object).await?;
            if let (Some(leading), Some(pass)) = (&self.leading, pass) {
                lock(&leading.leaderships.0).push((Arc::clone(pass.fencing_token()), made.revision));
            }
            Ok(made)
        };
        async move { self.write(resource, create(self.begin()?)).await }.boxed()
    }

    fn patch(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        subresource: Option<Subresource>,
        patch: Value,
    ) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        let (key, of) = (key.clone(), resource.clone());
        let patch = async move |Writing { api, pass: _pass }| api.patch(of, &key, subresource, patch).await;
        async move { self.write(resource, patch(self.begin()?)).await }.boxed()
    }

    fn put_status(&self, part: StatusPart) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        let resource = part.object.resource();
        let put = async move |Writing { api, pass: _pass }| api.put_status(part).await;
        async move { self.write(resource, put(self.begin()?)).await }.boxed()
    }

    fn update(&self, object: Box<dyn Object>, subresource: Option<Subresource>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        let resource = object.resource();
        let update = async move |Writing { api, pass: _pass }| api.update(object, subresource).await;
        async move { self.write(resource, update(self.begin()?)).await }.boxed()
    }

    fn bind(&self, pod: &ObjectKey, uid: &Uid, node: &str) -> BoxFuture<'_, Result<(), ClusterError>> {
        let (pod, uid, node) = (pod.clone(), uid.clone(), node.to_owned());
        let bind = async move |Writing { api, pass: _pass }| api.bind(&pod, &uid, &node).await;
        async move { self.write(PODS, bind(self.begin()?)).await }.boxed()
    }

    fn delete(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        params: DeleteParams,
    ) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        let key = key.clone();
        if self.network.0.rng.happens(self.network.faults().late_deletions_per_mille) {
            let api = match self.begin() {
                Ok(Writing { api, pass: _ }) => api,
                Err(shut) => return ready(Err(shut)).boxed(),
            };
            let clock = Arc::clone(&self.network.0.clock);
            let late = async move {
                clock.sleep_until(clock.now() + LATE_BY).await;
                drop(api.delete(resource, &key, params).await);
            };
            self.network.0.spawner.spawn("late deletion", late.boxed());
            return ready(Err(lost("call"))).boxed();
        }
        let uid = params.uid.clone().filter(|_| params.grace_period_seconds == Some(0)).map(String::from);
        let of = resource.clone();
        let delete = async move |Writing { api, pass: _pass }| {
            lock(&self.removed).extend(uid);
            api.delete(of, &key, params).await
        };
        async move { self.write(resource, delete(self.begin()?)).await }.boxed()
    }
}
