//! The namespace controller. It deletes the contents of a terminating namespace, pods first, then finalizes the namespace. It creates the
//! default account of every other namespace.

use crate::{
    cache::Delta,
    cluster::{Cluster, ClusterError, DeleteParams, RawObject, ServedKind},
    lock,
    metadata::{MetaCache, MetaCaches, MetaView},
    worker::{Queue, Reconcile, ReconcileResult},
};
use berth_api::{Scope, Subresource, decode::Codec};
use berth_env::Clock;
use berth_identity::{GroupResource, Name, ObjectKey, Uid};
use berth_workloads::{
    namespace::{Remaining, conditions},
    plan::{Propagation, STAGE_CONCURRENCY},
    resources::{NAMESPACES, PODS},
    view::View,
};
use futures::{
    StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use k8s_openapi::{
    api::core::v1::{Namespace, ServiceAccount},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::json;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

/// The finalizer in a namespace's spec for this controller.
const FINALIZER: &str = "kubernetes";
/// ServiceAccounts.
const ACCOUNTS: GroupResource = GroupResource::from_static("", "serviceaccounts");
/// The account of pods that name none.
const DEFAULT_ACCOUNT: &str = "default";

/// The namespace controller.
pub struct NamespaceController {
    cluster: Arc<dyn Cluster>,
    caches: Arc<MetaCaches>,
    namespaces: Arc<MetaCache>,
    accounts: Arc<MetaCache>,
    clock: Arc<dyn Clock>,
    /// Terminating namespaces. Changes in them enqueue their keys.
    terminating: Arc<Mutex<BTreeSet<Name>>>,
}

/// Why a namespace must be reconciled again.
#[derive(Debug, thiserror::Error)]
enum Unfinished {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The namespace cannot be decoded.
    #[error("a namespace cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// The caches may lack objects created just before the deletion.
    #[error("the caches are not yet as new as the deletion")]
    Behind,
    /// Some contents could not be deleted.
    #[error("{0}")]
    Contents(String),
}

impl NamespaceController {
    /// A controller over `caches`. Call it before they start.
    #[must_use]
    pub fn new(cluster: Arc<dyn Cluster>, caches: Arc<MetaCaches>, clock: Arc<dyn Clock>) -> Arc<Self> {
        let (namespaces, accounts) = (caches.reserve(NAMESPACES), caches.reserve(ACCOUNTS));
        Arc::new(Self { cluster, caches, namespaces, accounts, clock, terminating: Arc::default() })
    }

    /// Adds the names of changed namespaces to `queue`. Call it before the caches start.
    pub fn wake(&self, queue: &Queue<ObjectKey>) {
        let (terminating, added) = (Arc::clone(&self.terminating), queue.clone());
        self.namespaces.on_change(move |delta| {
            note_terminating(&terminating, delta);
            delta.sides().take(1).for_each(|namespace| added.add(namespace.key()));
        });
        let added = queue.clone();
        self.accounts.on_change(move |delta| match (&delta.old, &delta.new) {
            (Some(account), None) if account.name == DEFAULT_ACCOUNT => added.add(of_namespace(&account.namespace)),
            _ => (),
        });
        let (terminating, queue) = (Arc::clone(&self.terminating), queue.clone());
        self.caches.on_kind(move |kind, cache| {
            if !is_content(kind) {
                return;
            }
            let (terminating, queue) = (Arc::clone(&terminating), queue.clone());
            cache.on_change(move |delta| {
                let terminating = lock(&terminating);
                let changed = delta.sides().take(1).filter(|object| terminating.contains(&*object.namespace));
                changed.for_each(|object| queue.add(of_namespace(&object.namespace)));
            });
        });
    }

    /// All namespaced kinds.
    fn contents(&self) -> impl Iterator<Item = (GroupResource, Arc<MetaCache>)> {
        self.caches.all().into_iter().filter(|(kind, _)| is_content(kind)).map(|(kind, cache)| (kind.resource, cache))
    }

    async fn reconcile_namespace(&self, key: &ObjectKey) -> Result<(), Unfinished> {
        let Some(namespace) = self.namespaces.get(key) else { return Ok(()) };
        if namespace.deletion_timestamp.is_none() { self.ensure_account(&key.name).await } else { self.empty(key).await }
    }

    async fn ensure_account(&self, namespace: &str) -> Result<(), Unfinished> {
        if self.accounts.get(&ObjectKey::new(namespace, DEFAULT_ACCOUNT)).is_some() {
            return Ok(());
        }
        let metadata =
            ObjectMeta { name: Some(DEFAULT_ACCOUNT.to_owned()), namespace: Some(namespace.to_owned()), ..ObjectMeta::default() };
        match self.cluster.create(Box::new(ServiceAccount { metadata, ..ServiceAccount::default() })).await {
            // Forbidden: the namespace is terminating since.
            Ok(_) | Err(ClusterError::AlreadyExists(_) | ClusterError::NotFound(_) | ClusterError::NamespaceTerminating(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes the remaining pods. If there are none, deletes the rest. If nothing remains, finalizes the namespace.
    ///
    /// Source: upstream `namespaced_resources_deleter.go`, `OrderedNamespaceDeletion`.
    async fn empty(&self, key: &ObjectKey) -> Result<(), Unfinished> {
        let Some(raw) = self.cluster.get(NAMESPACES, key).await? else { return Ok(()) };
        let namespace = Namespace::decode_json(&raw.json)?;
        let holds =
            namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_ref()).is_some_and(|all| all.iter().any(|one| one == FINALIZER));
        if namespace.metadata.deletion_timestamp.is_none() || !holds {
            return Ok(());
        }
        if !self.caches.show_all_since(&namespace.metadata.uid.clone().into(), &*self.cluster).await? {
            return Err(Unfinished::Behind);
        }
        let mut remaining = self.remaining(&key.name);
        if remaining.is_empty() {
            return self.finalize(namespace, &raw).await;
        }
        // Objects that pods rely on, above all their network policies, remain while a pod exists.
        let next: fn(&GroupResource) -> bool = if remaining.has_pods() { |resource| *resource == PODS } else { |_| true };
        remaining.failures = self.delete_contents(&key.name, next).await;
        self.write_conditions(key, &namespace, &remaining).await?;
        if remaining.failures.is_empty() { Ok(()) } else { Err(Unfinished::Contents(remaining.failures.join(", "))) }
    }

    fn remaining(&self, namespace: &str) -> Remaining {
        let mut remaining = Remaining::default();
        for (resource, cache) in self.contents() {
            let known = cache.read();
            let count = known.index().in_namespace(namespace);
            if count > 0 {
                remaining.objects.insert(format!("{}.{}", resource.plural, resource.group), count);
            }
            for finalizer in known.in_namespace(namespace).flat_map(|object| object.finalizers.iter().flatten()) {
                *remaining.finalizers.entry(finalizer.clone()).or_default() += 1;
            }
        }
        remaining
    }

    /// Deletes the objects of the resources in `next` that are not terminating yet. Returns the errors.
    async fn delete_contents(&self, namespace: &str, next: fn(&GroupResource) -> bool) -> Vec<String> {
        let mut doomed = Vec::new();
        for (resource, cache) in self.contents().filter(|(resource, _)| next(resource)) {
            let known = cache.read();
            let alive = known.in_namespace(namespace).filter(|object| object.deletion_timestamp.is_none());
            doomed.extend(alive.map(|object| (resource.clone(), object.key(), object.uid.clone())));
        }
        let deletes: Vec<BoxFuture<'_, _>> =
            doomed.into_iter().map(|(resource, key, uid)| -> BoxFuture<'_, _> { Box::pin(self.delete(resource, key, uid)) }).collect();
        let errors: BoxStream<'_, Option<String>> = stream::iter(deletes).buffer_unordered(STAGE_CONCURRENCY).boxed();
        errors.filter_map(async |error| error).collect().await
    }

    async fn delete(&self, resource: GroupResource, key: ObjectKey, uid: Uid) -> Option<String> {
        let params = DeleteParams { uid: Some(uid), propagation: Some(Propagation::Background), ..DeleteParams::default() };
        match self.cluster.delete(resource, &key, params).await {
            Ok(_) | Err(ClusterError::NotFound(_) | ClusterError::Conflict(_)) => None,
            Err(error) => Some(error.to_string()),
        }
    }

    async fn write_conditions(&self, key: &ObjectKey, namespace: &Namespace, remaining: &Remaining) -> Result<(), Unfinished> {
        let stored = namespace.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        let wanted = conditions(&stored, remaining, self.clock.now());
        if wanted == stored {
            return Ok(());
        }
        let patch = json!({"metadata": {"uid": namespace.metadata.uid}, "status": {"conditions": wanted}});
        match self.cluster.patch(NAMESPACES, key, Some(Subresource::Status), patch).await {
            Ok(_) | Err(ClusterError::NotFound(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn finalize(&self, mut namespace: Namespace, raw: &RawObject) -> Result<(), Unfinished> {
        let finalizers = namespace.spec.get_or_insert_default().finalizers.get_or_insert_default();
        finalizers.retain(|finalizer| finalizer != FINALIZER);
        namespace.metadata.resource_version = Some(raw.revision.to_string());
        match self.cluster.update(Box::new(namespace), Some(Subresource::Finalize)).await {
            Ok(_) | Err(ClusterError::NotFound(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The key of the Namespace object.
fn of_namespace(namespace: &berth_identity::Namespace) -> ObjectKey {
    ObjectKey::cluster_scoped(namespace.as_str())
}

fn is_content(kind: &ServedKind) -> bool {
    kind.scope == Scope::Namespaced
}

fn note_terminating(terminating: &Mutex<BTreeSet<Name>>, delta: &Delta<MetaView>) {
    let mut terminating = lock(terminating);
    match (&delta.old, &delta.new) {
        (_, Some(namespace)) if namespace.deletion_timestamp.is_some() => drop(terminating.insert(namespace.name.clone())),
        (Some(namespace), None) => drop(terminating.remove(&namespace.name)),
        _ => (),
    }
}

impl Reconcile<ObjectKey> for NamespaceController {
    fn reconcile<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, ReconcileResult> {
        Box::pin(async move {
            match self.reconcile_namespace(key).await {
                Ok(()) => ReconcileResult::Done,
                Err(error) => {
                    tracing::debug!(namespace = %key, %error, "requeued");
                    match error {
                        Unfinished::Cluster(error) => ReconcileResult::failed(&error),
                        _ => ReconcileResult::Backoff,
                    }
                }
            }
        })
    }
}
