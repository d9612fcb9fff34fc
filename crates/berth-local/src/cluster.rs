//! The [`Cluster`] inside the API server's own process: no HTTP, and nothing is encoded that both sides hold already.

use crate::cluster_error;
use berth_api::{Object, Scope, StatusPart, Subresource, fencing::FencingToken};
use berth_controllers::{
    cluster::{Change, Cluster, ClusterError, DeleteParams, FIELD_MANAGER, RawObject, ServedKind, field_manager},
    election::{Gate, Pass},
};
use berth_env::Env;
use berth_identity::{GroupResource, Namespace, ObjectKey, Revision, Uid};
use berth_registry::{
    Actor, ApiError, Body, Collection, Current, DeleteOptions, Deleted, GetOptions, Patch, PropagationPolicy, Registry, Resource,
    ResourceTable, Target, WatchEvent, WatchOptions, WriteOptions, Written, options::Precondition, resource::Ended,
};
use berth_store::Entry;
use berth_workloads::{plan::Propagation, resources::PODS};
use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, ready},
    stream::{self, BoxStream},
};
use jiff::SignedDuration;
use serde_json::Value;
use std::{borrow::Cow, sync::Arc};

/// How long to wait before a watch that could not begin is tried again.
const RETRY: SignedDuration = SignedDuration::from_millis(100);

/// A cluster that is this process. Cheap to clone.
#[derive(Clone)]
pub struct LocalCluster {
    registry: Registry,
    env: Env,
    /// The writer in `managedFields`: the controllers, unless [`LocalCluster::named`] sets another one.
    manager: &'static str,
    /// None: it writes without leader election.
    gate: Option<Gate>,
}

/// The API as a write finds it, which ends when this is dropped.
struct Writing<'a> {
    registry: Cow<'a, Registry>,
    _pass: Option<Pass>,
}

impl LocalCluster {
    /// A cluster over `registry`.
    #[must_use]
    pub fn new(registry: Registry, env: Env) -> Self {
        Self { registry, env, manager: FIELD_MANAGER, gate: None }
    }

    /// The same cluster, written to under another name in `managedFields`.
    #[must_use]
    pub fn named(self, manager: &'static str) -> Self {
        Self { manager, ..self }
    }

    /// Returns the same cluster, which accepts writes only while the holder of the gate is the leader.
    #[must_use]
    pub fn fenced_by(self, gate: Gate) -> Self {
        Self { gate: Some(gate), ..self }
    }

    /// The same cluster, written to only during this term.
    #[must_use]
    pub fn during(&self, fencing_token: &Arc<FencingToken>) -> Self {
        Self { registry: self.registry.with_fencing(Arc::clone(fencing_token)), ..self.clone() }
    }

    /// Lets a write begin.
    fn begin(&self) -> Result<Writing<'_>, ClusterError> {
        let Some(gate) = &self.gate else { return Ok(Writing { registry: Cow::Borrowed(&self.registry), _pass: None }) };
        let pass = gate.enter()?;
        let registry = Cow::Owned(self.registry.with_fencing(Arc::clone(pass.fencing_token())));
        Ok(Writing { registry, _pass: Some(pass) })
    }

    fn options(&self) -> WriteOptions {
        WriteOptions { field_manager: self.manager.to_owned(), ..WriteOptions::default() }
    }
}

impl Cluster for LocalCluster {
    fn kinds(&self) -> BoxStream<'static, Vec<ServedKind>> {
        let next = |(table, replaced): (Arc<ResourceTable>, Option<Ended>)| async move {
            if let Some(replaced) = replaced {
                // The task that replaces the objects drops its side at its end.
                replaced.await.unwrap_or_default();
            }
            let (resources, replaced) = table.follow();
            let kinds = resources.stored().map(|resource| served(resource)).collect();
            Some((kinds, (table, Some(replaced))))
        };
        stream::unfold((Arc::clone(self.registry.table()), None), next).boxed()
    }

    fn watch(&self, resource: GroupResource) -> BoxStream<'static, Change> {
        let cluster = self.clone();
        stream::repeat(()).then(move |()| cluster.clone().watch_once(resource.clone())).flatten().boxed()
    }

    fn get(&self, resource: GroupResource, key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        let target = self.target(resource, key, None);
        async move {
            match self.registry.get(&target?, &GetOptions::default()).await {
                Ok(current) => current_object(current).map(Some),
                Err(ApiError::NotFound { .. }) => Ok(None),
                Err(error) => Err(cluster_error(error)),
            }
        }
        .boxed()
    }

    fn get_scale(&self, resource: GroupResource, key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        let target = self.target(resource, key, Some(Subresource::Scale));
        async move {
            match self.registry.get(&target?, &GetOptions::default()).await {
                Ok(current) => current_object(current).map(Some),
                Err(ApiError::NotFound { .. }) => Ok(None),
                Err(error) => Err(cluster_error(error)),
            }
        }
        .boxed()
    }

    fn newest(&self, resource: GroupResource) -> BoxFuture<'_, Result<Revision, ClusterError>> {
        let target = self.target(resource, &ObjectKey::default(), None);
        async move {
            let at = Collection { resource: target?.resource, namespace: None };
            self.registry.newest(&at).await.map_err(cluster_error)
        }
        .boxed()
    }

    fn create(&self, object: Box<dyn Object>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        let resource = self.resource_of(&*object);
        async move {
            let at = Collection { resource: resource?, namespace: object.meta().namespace.clone() };
            written(self.begin()?.registry.create(&Actor::System, &at, Body::Object(object), &self.options()).await)
        }
        .boxed()
    }

    fn patch(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        subresource: Option<Subresource>,
        patch: Value,
    ) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        let target = self.target(resource, key, subresource);
        let options = WriteOptions { field_manager: field_manager(self.manager, subresource).to_owned(), ..WriteOptions::default() };
        async move { written(self.begin()?.registry.patch(&Actor::System, &target?, Patch::MergeValue(patch), &options).await) }.boxed()
    }

    fn put_status(&self, part: StatusPart) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        let target = self.target_of(&*part.object, Some(Subresource::Status));
        async move { written(self.begin()?.registry.put_status(&Actor::System, &target?, &part, &self.options()).await) }.boxed()
    }

    fn update(&self, object: Box<dyn Object>, subresource: Option<Subresource>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        let target = self.target_of(&*object, subresource);
        async move { written(self.begin()?.registry.update(&Actor::System, &target?, Body::Object(object), &self.options()).await) }.boxed()
    }

    fn bind(&self, pod: &ObjectKey, uid: &Uid, node: &str) -> BoxFuture<'_, Result<(), ClusterError>> {
        let (target, node) = (self.target(PODS, pod, None), node.to_owned());
        let precondition = Precondition { uid: Some(uid.to_string()), resource_version: None };
        async move {
            let bound = self.begin()?.registry.bind(&Actor::System, &target?, &node, &precondition).await;
            bound.map(drop).map_err(cluster_error)
        }
        .boxed()
    }

    fn delete(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        params: DeleteParams,
    ) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        let target = self.target(resource, key, None);
        async move {
            let deleted = self.begin()?.registry.delete(&Actor::System, &target?, &options(params)).await;
            match deleted.map_err(cluster_error)? {
                Deleted::Gone { .. } => Ok(None),
                Deleted::Object(current) => Ok(Some(current_object(current)?)),
            }
        }
        .boxed()
    }
}

impl LocalCluster {
    fn resource_of(&self, object: &dyn Object) -> Result<Arc<Resource>, ClusterError> {
        self.registry.resources().by_kind(&object.gvk()).cloned().ok_or_else(not_served)
    }

    fn target_of(&self, object: &dyn Object, subresource: Option<Subresource>) -> Result<Target, ClusterError> {
        let (resource, meta) = (self.resource_of(object)?, object.meta());
        let namespace = namespace(&resource, meta.namespace.as_deref().unwrap_or_default());
        Ok(Target { resource, namespace, name: meta.name.clone().unwrap_or_default(), subresource })
    }

    fn target(&self, name: GroupResource, key: &ObjectKey, subresource: Option<Subresource>) -> Result<Target, ClusterError> {
        let resource = self.registry.resources().by_name(&name).cloned().ok_or_else(not_served)?;
        let namespace = namespace(&resource, &key.namespace);
        Ok(Target { resource, namespace, name: key.name.to_string(), subresource })
    }

    /// A list and what follows it, until the watch breaks.
    async fn watch_once(self, name: GroupResource) -> BoxStream<'static, Change> {
        let (resources, replaced) = self.registry.table().follow();
        let Some(resource) = resources.by_name(&name).cloned() else {
            tracing::info!(group = %name.group, resource = %name.plural, "not served yet; the watch starts as soon as it is");
            replaced.await.unwrap_or_default();
            return stream::empty().boxed();
        };
        let at = Collection { resource, namespace: None };
        let options = WatchOptions {
            resource_version_match: "NotOlderThan".to_owned(),
            send_initial_events: Some(true),
            allow_bookmarks: true,
            progress: true,
            ..WatchOptions::default()
        };
        match self.registry.watch(&Actor::System, &at, &options).await {
            Ok(events) => {
                let registry = self.registry.clone();
                let changes = events.filter_map(move |event| ready(change(&registry, &at.resource, event)));
                stream::iter([Change::Restarted]).chain(changes).boxed()
            }
            Err(error) => {
                tracing::warn!(resource = %name.plural, %error, "a watch could not start; retrying");
                self.env.clock.sleep_until(self.env.clock.now() + RETRY).await;
                stream::empty().boxed()
            }
        }
    }
}

fn not_served() -> ClusterError {
    cluster_error(ApiError::UnknownResource)
}

fn served(resource: &Resource) -> ServedKind {
    ServedKind { resource: resource.group_resource().clone(), kind: resource.gvk().clone(), scope: resource.scope }
}

/// The change that a watch event means for a cache. None for the end of the stream: the list that follows replaces it.
fn change(registry: &Registry, resource: &Resource, event: WatchEvent) -> Option<Change> {
    let key = |entry: &Entry| {
        let (namespace, name) = resource.place(&entry.key)?;
        Some(ObjectKey::new(Namespace::shared(namespace.unwrap_or_default()), name))
    };
    let stored = |entry: &Entry| RawObject { object: registry.written_lately(entry), ..stored(entry) };
    Some(match event {
        WatchEvent::Added(entry) => Change::Applied { key: key(&entry)?, object: stored(&entry) },
        WatchEvent::Modified(event) => Change::Applied { key: key(&event.entry)?, object: stored(&event.entry) },
        WatchEvent::Deleted { last, revision } => Change::Deleted { key: key(&last)?, revision },
        WatchEvent::Bookmark { revision, initial_events_end: true } => Change::Synced(revision),
        WatchEvent::Bookmark { revision, initial_events_end: false } => Change::Progress(revision),
        WatchEvent::Error(error) => {
            tracing::info!(%error, "a watch ended with an error and restarts");
            return None;
        }
    })
}

fn options(params: DeleteParams) -> DeleteOptions {
    let policy = |propagation| match propagation {
        Propagation::Background => PropagationPolicy::Background,
        Propagation::Foreground => PropagationPolicy::Foreground,
        Propagation::Orphan => PropagationPolicy::Orphan,
    };
    let text = |revision: Revision| revision.to_string();
    DeleteOptions {
        grace_period_seconds: params.grace_period_seconds,
        propagation_policy: params.propagation.map(|propagation| policy(propagation).as_str().to_owned()),
        precondition: Precondition { uid: params.uid.map(Into::into), resource_version: params.resource_version.map(text) },
        is_last_unseen: true,
        ..DeleteOptions::default()
    }
}

fn stored(entry: &Entry) -> RawObject {
    RawObject::new(entry.value.clone(), entry.mod_revision)
}

fn written(written: Result<Written, ApiError>) -> Result<RawObject, ClusterError> {
    current_object(written.map_err(cluster_error)?.object)
}

fn current_object(current: Current) -> Result<RawObject, ClusterError> {
    match current {
        Current::Stored(entry) => Ok(stored(&entry)),
        // A `Scale` has the revision of its object.
        Current::Made(value) => match value["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok()) {
            Some(version) => Ok(RawObject::new(value.to_string(), Revision(version))),
            None => Err(ClusterError::Unknown(format!("a {} has no revision", value["kind"]))),
        },
    }
}

fn namespace(resource: &Resource, namespace: &str) -> Option<String> {
    (resource.scope == Scope::Namespaced).then(|| namespace.to_owned())
}
