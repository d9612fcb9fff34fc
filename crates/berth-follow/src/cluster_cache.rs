//! The cached state of the cluster: a cache of each resource, and the board that is computed from them.

use crate::{
    board::Board,
    compared::Comparisons,
    forecaster::Forecaster,
    newest::newest,
    views::{NodeView, NoteView, Notes, QuotaView},
};
use berth_api::FeatureGates;
use berth_controllers::{
    Cluster, ClusterError,
    cache::{AnyCache, Cache, Index},
    metrics::Metrics,
    owners::OwnerIndex,
    pods::PodIndex,
};
use berth_env::Env;
use berth_identity::{ApiName, GroupResource, ObjectKey, Uid};
use berth_workloads::{
    resources::{CLAIMS, DAEMON_SETS, DEPLOYMENTS, EVENTS, NODES, PODS, QUOTAS, REPLICA_SETS, REVISIONS, STATEFUL_SETS},
    view::{ClaimView, DaemonSetView, DeploymentView, Meta, PodView, ReplicaSetView, RevisionView, StatefulSetView, View},
    workload::{WorkloadId, WorkloadKind},
};
use futures::{
    FutureExt,
    future::{Either, select},
};
use jiff::{SignedDuration, Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet},
    future::poll_fn,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};
use tokio::sync::{Notify, watch};

/// How long changes are collected, so that a burst causes a single reading.
const GATHER: SignedDuration = SignedDuration::from_millis(100);
/// How often the board checks for changes by time alone.
const TICK: SignedDuration = SignedDuration::from_secs(1);
/// How often the user's rights are checked.
const RIGHTS: SignedDuration = SignedDuration::from_secs(60);
const UNOBSERVED_MAX: usize = 10_000;
/// The number of workloads that are read before other tasks run.
const TURN: usize = 32;

/// Workloads and their dependents.
const WORKLOADS: [GroupResource; 8] = [DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, REPLICA_SETS, REVISIONS, PODS, CLAIMS, EVENTS];

/// The cached state of a cluster.
pub struct ClusterCache {
    /// The cluster that is read and written.
    pub cluster: Arc<dyn Cluster>,
    /// Clock, randomness and tasks.
    pub env: Env,
    has_begun: AtomicBool,
    /// Whether all workloads were read once.
    has_read: AtomicBool,
    /// The feature gates of the cluster's controllers.
    pub gates: FeatureGates,
    /// The message if the cluster's controllers do not support berth's fields.
    pub unheeded: Option<String>,
    /// Forecasts the consequences of an action.
    pub(crate) forecaster: OnceLock<Arc<dyn Forecaster>>,
    /// All Deployments that the user may read. The same applies to the caches below.
    pub deployments: Arc<Cache<DeploymentView>>,
    /// StatefulSets.
    pub stateful_sets: Arc<Cache<StatefulSetView>>,
    /// DaemonSets.
    pub daemon_sets: Arc<Cache<DaemonSetView>>,
    /// ReplicaSets by owner.
    pub sets: Arc<Cache<ReplicaSetView, OwnerIndex<ReplicaSetView>>>,
    /// ControllerRevisions by owner.
    pub revisions: Arc<Cache<RevisionView, OwnerIndex<RevisionView>>>,
    /// Pods by owner and node.
    pub pods: Arc<Cache<PodView, PodIndex>>,
    /// PersistentVolumeClaims.
    pub claims: Arc<Cache<ClaimView>>,
    /// Events by the object that they are about.
    pub notes: Arc<Cache<NoteView, Notes>>,
    /// Nodes.
    pub nodes: Arc<Cache<NodeView>>,
    /// ResourceQuotas.
    pub quotas: Arc<Cache<QuotaView>>,
    board: Mutex<Board>,
    pub(crate) comparisons: Comparisons,
    /// When each workload, by uid, got a spec that its controller has not observed.
    unobserved: Mutex<BTreeMap<Uid, Timestamp>>,
    /// The resources that the user may not read, with the API server's message.
    unreadable: Mutex<BTreeMap<ApiName, String>>,
    news: News,
}

/// Starts caches.
struct Start<'a> {
    cluster_cache: &'a ClusterCache,
    metrics: &'a Arc<Metrics>,
    resources: &'a [GroupResource],
}

impl Start<'_> {
    fn one<V: View, I: Index<V>>(&self, cache: &Arc<Cache<V, I>>) {
        if self.resources.contains(&cache.resource()) {
            cache.start(&*self.cluster_cache.cluster, &*self.cluster_cache.env.spawner, self.metrics);
        }
    }

    /// Caches the newest events only. A user does not read all events of an hour.
    fn notes(&self, cache: &Arc<Cache<NoteView, Notes>>) {
        if self.resources.contains(&EVENTS) {
            cache.start_of(newest(self.cluster_cache.cluster.watch(EVENTS)), &*self.cluster_cache.env.spawner, self.metrics);
        }
    }
}

/// Changes that the board has not read yet.
#[derive(Default)]
struct News {
    dirty: Mutex<BTreeSet<Dirty>>,
    bell: Notify,
    /// Counts readings that changed something.
    seen: watch::Sender<u64>,
}

/// Lets other tasks run.
async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A workload that must be read again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Dirty {
    Workload(WorkloadId),
    /// The workload that controls this ReplicaSet.
    OwnerOfSet(ObjectKey),
}

impl News {
    fn add(&self, dirty: impl IntoIterator<Item = Dirty>) {
        lock(&self.dirty).extend(dirty);
        self.bell.notify_one();
    }

    /// Reports a change that belongs to no workload.
    fn notify(&self) {
        self.seen.send_modify(|count| *count += 1);
    }
}

/// Locks the mutex. A poisoned lock is usable, because no code panics between two parts of a change.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClusterCache {
    /// Creates empty caches. [`ClusterCache::begin`] starts the watches.
    #[must_use]
    pub fn new(cluster: Arc<dyn Cluster>, env: Env, gates: FeatureGates, unheeded: Option<String>) -> Arc<Self> {
        Arc::new(Self {
            has_begun: AtomicBool::new(false),
            has_read: AtomicBool::new(false),
            deployments: Arc::new(Cache::new(DEPLOYMENTS)),
            stateful_sets: Arc::new(Cache::new(STATEFUL_SETS)),
            daemon_sets: Arc::new(Cache::new(DAEMON_SETS)),
            sets: Arc::new(Cache::new(REPLICA_SETS)),
            revisions: Arc::new(Cache::new(REVISIONS)),
            pods: Arc::new(Cache::new(PODS)),
            claims: Arc::new(Cache::new(CLAIMS)),
            notes: Arc::new(Cache::new(EVENTS)),
            nodes: Arc::new(Cache::new(NODES)),
            quotas: Arc::new(Cache::new(QUOTAS)),
            board: Mutex::default(),
            comparisons: Comparisons::default(),
            unobserved: Mutex::default(),
            unreadable: Mutex::default(),
            news: News::default(),
            cluster,
            env,
            gates,
            unheeded,
            forecaster: OnceLock::new(),
        })
    }

    /// Sets the forecaster for the questions before an action. Without one, a question lists only what is certain.
    pub fn ask(&self, forecaster: Arc<dyn Forecaster>) {
        // The first call wins.
        let _ = self.forecaster.set(forecaster);
    }

    /// Starts the watches of all resources. Only the first call has an effect.
    pub fn begin(self: &Arc<Self>) {
        let all = [&WORKLOADS[..], &[NODES, QUOTAS]].concat();
        self.begin_with(&all, &all);
    }

    /// Starts the watches of workloads, their dependents and nodes, without quotas. Only the first call has an effect.
    ///
    /// Many users may not read nodes. Without them, only the waits of DaemonSets are unknown, so that right is not reported as missing.
    pub fn begin_workloads(self: &Arc<Self>) {
        self.begin_with(&[&WORKLOADS[..], &[NODES]].concat(), &WORKLOADS);
    }

    /// Watches resources. Reports the rights to read some of them.
    fn begin_with(self: &Arc<Self>, resources: &[GroupResource], reported: &[GroupResource]) {
        if self.has_begun.swap(true, Ordering::SeqCst) {
            return;
        }
        self.follow(resources);
        let spawner = &self.env.spawner;
        spawner.spawn("board of workloads", Arc::clone(self).keep_board().boxed());
        spawner.spawn("rights to read", Arc::clone(self).ask_rights(reported.to_vec()).boxed());
    }

    fn follow(self: &Arc<Self>, resources: &[GroupResource]) {
        self.on(&self.deployments, |_, view| vec![Dirty::Workload(id(WorkloadKind::Deployment, &view.meta))]);
        self.on(&self.stateful_sets, |_, view| vec![Dirty::Workload(id(WorkloadKind::StatefulSet, &view.meta))]);
        self.on(&self.daemon_sets, |_, view| vec![Dirty::Workload(id(WorkloadKind::DaemonSet, &view.meta))]);
        self.on(&self.sets, |_, view| controller(&view.meta).into_iter().collect());
        self.on(&self.revisions, |_, view| controller(&view.meta).into_iter().collect());
        self.on(&self.pods, |_, view| controller(&view.meta).into_iter().collect());
        self.on(&self.claims, |_, _| Vec::new());
        self.on(&self.notes, Self::affected_by);
        self.on(&self.nodes, |_, _| Vec::new());
        self.on(&self.quotas, |_, _| Vec::new());
        let metrics = Arc::new(Metrics::new(&prometheus::Registry::new()).expect("nothing else is in it"));
        let start = Start { cluster_cache: self, metrics: &metrics, resources };
        start.one(&self.deployments);
        start.one(&self.stateful_sets);
        start.one(&self.daemon_sets);
        start.one(&self.sets);
        start.one(&self.revisions);
        start.one(&self.pods);
        start.one(&self.claims);
        start.notes(&self.notes);
        start.one(&self.nodes);
        start.one(&self.quotas);
    }

    /// Marks the workloads that `of` returns as dirty at each change of the cache.
    fn on<V: View, I: Index<V>>(self: &Arc<Self>, cache: &Cache<V, I>, of: impl Fn(&Self, &V) -> Vec<Dirty> + Send + Sync + 'static) {
        let cluster_cache = Arc::downgrade(self);
        cache.on_change(move |delta| {
            let Some(cluster_cache) = cluster_cache.upgrade() else { return };
            let dirty: Vec<_> = delta.sides().flat_map(|view| of(&cluster_cache, view)).collect();
            if dirty.is_empty() { cluster_cache.news.notify() } else { cluster_cache.news.add(dirty) }
        });
    }

    /// Returns the workloads that an event can affect.
    fn affected_by(&self, note: &NoteView) -> Vec<Dirty> {
        let Some((kind, name)) = note.about.split_once(' ') else { return Vec::new() };
        let key = ObjectKey { namespace: note.key().namespace, name: name.into() };
        if kind == "ReplicaSet" {
            return vec![Dirty::OwnerOfSet(key)];
        }
        if let Some(kind) = WorkloadKind::named(kind) {
            return vec![Dirty::Workload(WorkloadId { namespace: key.namespace, kind, name: key.name })];
        }
        let pod = (kind == "Pod").then(|| self.pods.get(&key)).flatten();
        pod.and_then(|pod| controller(&pod.meta)).into_iter().collect()
    }

    /// Reads changed workloads, indefinitely.
    async fn keep_board(self: Arc<Self>) {
        loop {
            let tick = self.env.clock.sleep_until(self.env.clock.now() + TICK);
            if let Either::Left(_) = select(pin!(self.news.bell.notified()), tick).await {
                self.env.clock.sleep_until(self.env.clock.now() + GATHER).await;
            }
            // A chart must not begin before all pods are read.
            if !self.is_filled() {
                continue;
            }
            let dirty = std::mem::take(&mut *lock(&self.news.dirty));
            let mut ids: BTreeSet<WorkloadId> = dirty.into_iter().filter_map(|dirty| self.resolved(dirty)).collect();
            ids.extend(lock(&self.board).due(self.env.clock.now()));
            let mut has_changed = false;
            for (place, id) in ids.into_iter().enumerate() {
                has_changed |= self.update_card(id);
                if place % TURN == TURN - 1 {
                    yield_now().await;
                }
            }
            let is_first = !self.has_read.swap(true, Ordering::SeqCst);
            if has_changed || is_first {
                self.news.notify();
            }
        }
    }

    /// Resolves when all workloads were read once, or after this time.
    pub async fn wait_for_first_reading(&self, longest: SignedDuration) {
        let mut changes = self.changes();
        let first_reading = async {
            while !self.has_read.load(Ordering::SeqCst) {
                // An error means that the sender was dropped, but `self` owns it.
                let _ = changes.changed().await;
            }
        };
        select(pin!(first_reading), self.env.clock.sleep_until(self.env.clock.now() + longest)).await;
    }

    fn resolved(&self, dirty: Dirty) -> Option<WorkloadId> {
        match dirty {
            Dirty::Workload(id) => Some(id),
            Dirty::OwnerOfSet(key) => match self.sets.get(&key).and_then(|set| controller(&set.meta)) {
                Some(Dirty::Workload(id)) => Some(id),
                _ => None,
            },
        }
    }

    fn update_card(&self, id: WorkloadId) -> bool {
        let now = self.env.clock.now();
        match self.reading(&id, now) {
            Some(reading) => lock(&self.board).put(id, reading, now),
            None => lock(&self.board).remove(&id),
        }
    }

    /// Checks periodically which resources the user may read.
    async fn ask_rights(self: Arc<Self>, resources: Vec<GroupResource>) {
        loop {
            let mut unreadable = BTreeMap::new();
            for resource in &resources {
                if let Err(ClusterError::Refused(message)) = self.cluster.newest(resource.clone()).await {
                    unreadable.insert(resource.plural.clone(), message);
                }
            }
            let has_changed = *lock(&self.unreadable) != unreadable;
            *lock(&self.unreadable) = unreadable;
            if has_changed {
                self.news.notify();
            }
            self.env.clock.sleep_until(self.env.clock.now() + RIGHTS).await;
        }
    }

    /// Returns since when the workload has a spec that its controller has not observed. `None` if the controller has
    /// observed it.
    pub(crate) fn unobserved_since(&self, meta: &Meta, lags: bool, now: Timestamp) -> Option<Timestamp> {
        let mut unobserved = lock(&self.unobserved);
        if !lags {
            unobserved.remove(&meta.uid);
            return None;
        }
        // No event reports deleted workloads, so their entries remain until then.
        if UNOBSERVED_MAX < unobserved.len() {
            unobserved.clear();
        }
        Some(*unobserved.entry(meta.uid.clone()).or_insert(now))
    }

    /// Returns the board with the last readings.
    pub fn board(&self) -> MutexGuard<'_, Board> {
        lock(&self.board)
    }

    /// Returns the resources that the user may not read: plural and the API server's message.
    #[must_use]
    pub fn unreadable(&self) -> BTreeMap<ApiName, String> {
        lock(&self.unreadable).clone()
    }

    /// Whether all readable resources have synced.
    #[must_use]
    pub fn is_filled(&self) -> bool {
        let unreadable = lock(&self.unreadable);
        let caches: [&dyn AnyCache; 7] =
            [&*self.deployments, &*self.stateful_sets, &*self.daemon_sets, &*self.sets, &*self.revisions, &*self.pods, &*self.notes];
        caches.iter().all(|cache| cache.is_synced() || unreadable.contains_key(&cache.resource().plural))
    }

    /// Wakes all subscribers of [`Self::changes`].
    pub fn notify(&self) {
        self.news.notify();
    }

    /// Returns a receiver that changes after every reading that changed something.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.news.seen.subscribe()
    }
}

fn id(kind: WorkloadKind, meta: &Meta) -> WorkloadId {
    WorkloadId { namespace: meta.namespace.clone(), kind, name: meta.name.clone() }
}

/// Returns the controller of an object, if the board covers its kind.
fn controller(meta: &Meta) -> Option<Dirty> {
    let owner = meta.controller()?;
    let key = ObjectKey { namespace: meta.namespace.clone(), name: owner.name.as_str().into() };
    match (owner.kind.as_str(), WorkloadKind::named(&owner.kind)) {
        ("ReplicaSet", _) => Some(Dirty::OwnerOfSet(key)),
        (_, Some(kind)) => Some(Dirty::Workload(WorkloadId { namespace: key.namespace, kind, name: key.name })),
        _ => None,
    }
}
