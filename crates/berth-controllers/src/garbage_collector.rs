//! The garbage collector: deletes objects before or after their owners, or orphans them.
//!
//! The graph follows the metadata caches. The verdict on an object is based on uncached reads of it and its owners.

use crate::{
    cluster::{Cluster, ClusterError, DeleteParams, ServedKind},
    events::Recorder,
    lock,
    metadata::{MetaCaches, MetaView},
    metrics::Metrics,
    worker::{Queue, Reconcile, ReconcileResult},
};
use berth_api::Scope;
use berth_env::Env;
use berth_identity::{GroupVersionKind, Name, Namespace, ObjectKey, ObjectRef, Uid};
use berth_workloads::{
    gc::{Deletion, FOREGROUND, Graph, Node, ORPHAN, OwnerState, Verdict, Work, decide, decide::Unblock, graph::Observed, kind_of_owner},
    lru::Lru,
    plan::{EventRecord, Propagation, STAGE_CONCURRENCY, Severity},
    resources::EVENTS,
    view::View,
};
use futures::{StreamExt, future::BoxFuture, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, Weak};

/// How many missing owners are remembered.
const ABSENT_MAX: usize = 500;
/// How many objects are processed at once.
const WORKERS: usize = 20;

/// The key under which an owner was not found, and its uid.
type Absent = (GroupVersionKind, ObjectKey, Uid);

/// The garbage collector.
pub struct GarbageCollector {
    cluster: Arc<dyn Cluster>,
    caches: Arc<MetaCaches>,
    events: Recorder,
    graph: Mutex<Graph>,
    absent: Mutex<Lru<Absent, ()>>,
    delete: Queue<Uid>,
    orphan: Queue<Uid>,
}

/// The kind and key of an object.
struct At {
    kind: ServedKind,
    key: ObjectKey,
}

impl At {
    /// The location of an object of this kind that an object in `namespace` refers to.
    fn of(kind: ServedKind, namespace: &Namespace, name: impl Into<Name>) -> Self {
        Self { key: kind.key(namespace, name), kind }
    }
}

/// Processes objects that may have to be deleted.
struct AttemptToDelete(Arc<GarbageCollector>);

/// Processes objects whose dependents are to be orphaned.
struct AttemptToOrphan(Arc<GarbageCollector>);

/// Why an object must be processed again.
#[derive(Debug, thiserror::Error)]
enum Unfinished {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The object cannot be decoded.
    #[error("an object cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// It is named as an owner and exists, but no watch has reported it yet.
    #[error("{0} exists and is not in the cache yet")]
    NotObserved(Name),
    /// Its kind is not served at present.
    #[error("{} {} is not a known kind", .0.group_version(), .0.kind)]
    UnknownKind(GroupVersionKind),
    /// The caches may lack dependents that existed at its deletion.
    #[error("the caches are not yet as new as {0}")]
    Behind(Name),
}

impl GarbageCollector {
    /// A collector over `caches`. Call it before they start.
    #[must_use]
    pub fn new(cluster: Arc<dyn Cluster>, caches: Arc<MetaCaches>, events: Recorder, env: &Env, metrics: &Metrics) -> Arc<Self> {
        let queue = |name| Queue::new(name, Arc::clone(&env.clock), metrics);
        let collector = Arc::new(Self {
            cluster,
            caches,
            events,
            graph: Mutex::default(),
            absent: Mutex::new(Lru::new(ABSENT_MAX)),
            delete: queue("garbage_collector_attempt_to_delete"),
            orphan: queue("garbage_collector_attempt_to_orphan"),
        });
        let (followed, changes) = (Arc::downgrade(&collector), metrics.queue("garbage_collector_graph_changes").adds);
        collector.caches.on_kind(move |kind, cache| {
            if !is_collected(kind) {
                return;
            }
            let (collector, changes, kind) = (Weak::clone(&followed), changes.clone(), kind.kind.clone());
            cache.on_change(move |delta| {
                changes.inc();
                let Some(collector) = collector.upgrade() else { return };
                let work = match (&delta.old, &delta.new) {
                    (_, Some(new)) => lock(&collector.graph).apply(new.seen(&kind)),
                    (Some(old), None) => lock(&collector.graph).remove(&old.uid),
                    (None, None) => return,
                };
                collector.enqueue(work);
            });
        });
        collector
    }

    /// Starts to act. Call it after the caches have synced.
    pub fn start(self: &Arc<Self>, env: &Env) {
        self.delete.start(env, "garbage collector", WORKERS, &Arc::new(AttemptToDelete(Arc::clone(self))));
        self.orphan.start(env, "garbage collector", WORKERS, &Arc::new(AttemptToOrphan(Arc::clone(self))));
    }

    fn enqueue(&self, work: Work) {
        work.delete.into_iter().for_each(|uid| self.delete.add(uid));
        work.orphan.into_iter().for_each(|uid| self.orphan.add(uid));
    }

    async fn attempt_to_delete(&self, uid: &Uid) -> Result<(), Unfinished> {
        let Some(node) = lock(&self.graph).node(uid).cloned() else { return Ok(()) };
        if matches!(node.deletion, Deletion::Orphan | Deletion::Other) {
            return Ok(());
        }
        let kind = self.known_kind(&node.kind)?;
        if kind.scope == Scope::Namespaced && node.key.namespace.is_empty() {
            // A cluster-scoped object names it, so its namespace is unknown.
            return Ok(());
        }
        let at = At::of(kind, &node.key.namespace, &node.key.name);
        let Some(live) = self.read(&at).await?.filter(|live| live.uid == *uid) else {
            return self.is_gone(uid);
        };
        if node.observed == Observed::Named {
            return Err(Unfinished::NotObserved(node.key.name));
        }
        if live.deletion() == Deletion::Foreground {
            return self.finish_foreground(&at, &live).await;
        }
        if live.deletion() != Deletion::None || live.owners().is_empty() {
            return Ok(());
        }
        self.collect(&at, &live).await
    }

    /// Records that the object no longer exists, before the watch reports it.
    fn is_gone(&self, uid: &Uid) -> Result<(), Unfinished> {
        let work = lock(&self.graph).remove(uid);
        self.enqueue(work);
        Ok(())
    }

    /// Deletes an object without blocking dependents. Otherwise enqueues those dependents that are not terminating yet.
    async fn finish_foreground(&self, at: &At, live: &MetaView) -> Result<(), Unfinished> {
        if !self.caches.show_all_since(&live.uid, &*self.cluster).await? {
            return Err(Unfinished::Behind(live.name.clone()));
        }
        let (blocked, idle) = {
            let graph = lock(&self.graph);
            let blocking = graph.blocking(&live.uid);
            let (mut blocked, mut idle) = (false, Vec::new());
            for (uid, node) in blocking {
                blocked = true;
                if node.deletion != Deletion::Foreground {
                    idle.push(uid.clone());
                }
            }
            (blocked, idle)
        };
        idle.into_iter().for_each(|uid| self.delete.add(uid));
        if blocked { Ok(()) } else { self.remove_finalizer(at, live, FOREGROUND).await }
    }

    /// Decides about an object by its owners.
    async fn collect(&self, at: &At, live: &MetaView) -> Result<(), Unfinished> {
        let mut states = Vec::with_capacity(live.owners().len());
        for owner in live.owners() {
            states.push(self.owner_state(&at.kind, live, owner).await?);
        }
        let dependents = lock(&self.graph).dependents(&live.uid);
        match decide(&states, dependents, live.asked_for()) {
            Verdict::Keep => Ok(()),
            Verdict::DropReferences => {
                let kept = live.owners().iter().zip(&states).filter(|(_, state)| **state == OwnerState::Solid).map(|(owner, _)| owner);
                self.patch_owners(at, live, &kept.cloned().collect::<Vec<_>>()).await
            }
            Verdict::Delete { propagation, unblock: Unblock::No } => self.delete(at, live, propagation).await,
            Verdict::Delete { propagation, unblock: Unblock::First } => {
                let unblocked = |owner: &OwnerReference| OwnerReference { block_owner_deletion: Some(false), ..owner.clone() };
                self.patch_owners(at, live, &live.owners().iter().map(unblocked).collect::<Vec<_>>()).await?;
                let Some(live) = self.read(at).await?.filter(|now| now.uid == live.uid) else { return Ok(()) };
                self.delete(at, &live, propagation).await
            }
        }
    }

    async fn owner_state(&self, dependent: &ServedKind, live: &MetaView, owner: &OwnerReference) -> Result<OwnerState, Unfinished> {
        let owner_kind = kind_of_owner(owner);
        let kind = self.known_kind(&owner_kind)?;
        if dependent.scope == Scope::Cluster && kind.scope == Scope::Namespaced {
            self.report_other_namespace(dependent, live, owner);
            return Ok(OwnerState::Unresolvable);
        }
        let at = At::of(kind, &live.namespace, &owner.name);
        let absent = (owner_kind, at.key.clone(), Uid::from(&owner.uid));
        if lock(&self.absent).get_mut(&absent).is_some() {
            return Ok(OwnerState::Dangling);
        }
        match self.read(&at).await? {
            Some(found) if found.uid == owner.uid => {
                Ok(if found.deletion() == Deletion::Foreground { OwnerState::Waiting } else { OwnerState::Solid })
            }
            _ => {
                lock(&self.absent).insert(absent, ());
                self.report_other_namespace(dependent, live, owner);
                Ok(OwnerState::Dangling)
            }
        }
    }

    /// An owner in another namespace is not valid. An event explains why the object is deleted, or why it remains without its owner.
    fn report_other_namespace(&self, dependent: &ServedKind, live: &MetaView, owner: &OwnerReference) {
        let is_elsewhere = |node: &Node| node.observed == Observed::Seen && node.key.namespace != live.namespace;
        if !lock(&self.graph).node(&Uid::from(&owner.uid)).is_some_and(is_elsewhere) {
            return;
        }
        let OwnerReference { api_version, kind, name, uid, .. } = owner;
        let namespace = &live.namespace;
        let about = ObjectRef { resource: dependent.resource.clone(), key: live.key(), uid: live.uid.clone(), resource_version: None };
        let message = format!(
            "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] does not exist in namespace {namespace:?}"
        );
        self.events.record(&EventRecord {
            about_kind: dependent.kind.clone(),
            ..EventRecord::new(about, Severity::Warning, "OwnerRefInvalidNamespace", message)
        });
    }

    /// Deletes the version that the verdict is based on. A change of anything but its owners does not matter.
    async fn delete(&self, at: &At, live: &MetaView, propagation: Propagation) -> Result<(), Unfinished> {
        let params = |resource_version| DeleteParams {
            uid: Some(live.uid.clone()),
            resource_version,
            propagation: Some(propagation),
            ..DeleteParams::default()
        };
        match self.cluster.delete(at.kind.resource.clone(), &at.key, params(Some(live.revision))).await {
            Err(ClusterError::Conflict(_)) => (),
            other => return absent_is_fine(other),
        }
        match self.read(at).await? {
            Some(now) if now.uid != live.uid => Ok(()),
            None => Ok(()),
            Some(now) if now.owners() == live.owners() => {
                absent_is_fine(self.cluster.delete(at.kind.resource.clone(), &at.key, params(None)).await)
            }
            Some(now) => Err(Unfinished::Behind(now.name)),
        }
    }

    async fn attempt_to_orphan(&self, uid: &Uid) -> Result<(), Unfinished> {
        let Some(node) = lock(&self.graph).node(uid).cloned() else { return Ok(()) };
        let at = At::of(self.known_kind(&node.kind)?, &node.key.namespace, &node.key.name);
        let Some(live) = self.read(&at).await?.filter(|live| live.uid == *uid && live.deletion() == Deletion::Orphan) else {
            return Ok(());
        };
        if !self.caches.show_all_since(&live.uid, &*self.cluster).await? {
            return Err(Unfinished::Behind(live.name));
        }
        let dependents: Vec<(Uid, Node)> = lock(&self.graph).dependent_nodes(uid).map(|(uid, node)| (uid.clone(), node.clone())).collect();
        let freed: Vec<BoxFuture<'_, _>> =
            dependents.into_iter().map(|(dependent, node)| -> BoxFuture<'_, _> { Box::pin(self.free(uid, dependent, node)) }).collect();
        let mut freed = stream::iter(freed).buffer_unordered(STAGE_CONCURRENCY);
        let mut first_error = Ok(());
        while let Some(result) = freed.next().await {
            first_error = first_error.and(result);
        }
        first_error?;
        self.remove_finalizer(&at, &live, ORPHAN).await
    }

    /// Removes the owner with this uid from one dependent.
    async fn free(&self, owner: &Uid, dependent: Uid, node: Node) -> Result<(), Unfinished> {
        let at = At::of(self.known_kind(&node.kind)?, &node.key.namespace, &node.key.name);
        let Some(live) = self.read(&at).await?.filter(|live| live.uid == dependent) else { return Ok(()) };
        let kept: Vec<_> = live.owners().iter().filter(|reference| reference.uid != *owner).cloned().collect();
        if kept.len() == live.owners().len() { Ok(()) } else { self.patch_owners(&at, &live, &kept).await }
    }

    async fn patch_owners(&self, at: &At, live: &MetaView, owners: &[OwnerReference]) -> Result<(), Unfinished> {
        let owners = if owners.is_empty() { Value::Null } else { json!(owners) };
        self.patch(at, live, json!({"ownerReferences": owners})).await
    }

    async fn remove_finalizer(&self, at: &At, live: &MetaView, finalizer: &str) -> Result<(), Unfinished> {
        let kept: Vec<_> = live.finalizers.iter().flatten().filter(|other| *other != finalizer).collect();
        let kept = if kept.is_empty() { Value::Null } else { json!(kept) };
        self.patch(at, live, json!({"finalizers": kept})).await
    }

    /// Changes the metadata of the version that was read.
    async fn patch(&self, at: &At, live: &MetaView, mut metadata: Value) -> Result<(), Unfinished> {
        metadata["uid"] = json!(live.uid);
        metadata["resourceVersion"] = json!(live.revision.to_string());
        absent_is_fine(self.cluster.patch(at.kind.resource.clone(), &at.key, None, json!({"metadata": metadata})).await)
    }

    fn known_kind(&self, of: &GroupVersionKind) -> Result<ServedKind, Unfinished> {
        self.caches.kind(of).ok_or_else(|| Unfinished::UnknownKind(of.clone()))
    }

    async fn read(&self, at: &At) -> Result<Option<MetaView>, Unfinished> {
        let raw = self.cluster.get(at.kind.resource.clone(), &at.key).await?;
        Ok(raw.map(|raw| raw.view()).transpose()?)
    }
}

impl Reconcile<Uid> for AttemptToDelete {
    fn reconcile<'a>(&'a self, uid: &'a Uid) -> BoxFuture<'a, ReconcileResult> {
        Box::pin(async move { reconcile_result(uid, self.0.attempt_to_delete(uid).await) })
    }
}

impl Reconcile<Uid> for AttemptToOrphan {
    fn reconcile<'a>(&'a self, uid: &'a Uid) -> BoxFuture<'a, ReconcileResult> {
        Box::pin(async move { reconcile_result(uid, self.0.attempt_to_orphan(uid).await) })
    }
}

fn reconcile_result(uid: &Uid, result: Result<(), Unfinished>) -> ReconcileResult {
    match result {
        Ok(()) => ReconcileResult::Done,
        Err(error) => {
            tracing::debug!(%uid, %error, "requeued");
            match error {
                Unfinished::Cluster(error) => ReconcileResult::failed(&error),
                _ => ReconcileResult::Backoff,
            }
        }
    }
}

/// Events are numerous, short-lived and own nothing.
fn is_collected(kind: &ServedKind) -> bool {
    kind.resource != EVENTS
}

fn absent_is_fine<T>(result: Result<T, ClusterError>) -> Result<(), Unfinished> {
    match result {
        Ok(_) | Err(ClusterError::NotFound(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
