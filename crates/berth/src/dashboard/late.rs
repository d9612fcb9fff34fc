//! A cluster to which berth connects on the first request, so that it costs nothing until then.

use berth_api::{Object, Subresource};
use berth_controllers::{Change, Cluster, ClusterError, DeleteParams, RawObject, ServedKind};
use berth_identity::{GroupResource, ObjectKey, Revision, Uid};
use berth_store::env::Env;
use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use jiff::SignedDuration;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// How long to wait before another attempt to connect.
const RETRY: SignedDuration = SignedDuration::from_secs(2);

type Connecting = BoxFuture<'static, Result<Arc<dyn Cluster>, ClusterError>>;

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(super) struct Late(Arc<Inner>);

struct Inner {
    connected: OnceCell<Arc<dyn Cluster>>,
    connect: Box<dyn Fn() -> Connecting + Send + Sync>,
    env: Env,
}

impl Late {
    /// Calls `connect` repeatedly until it succeeds.
    pub(super) fn new(env: Env, connect: impl Fn() -> Connecting + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner { connected: OnceCell::new(), connect: Box::new(connect), env }))
    }

    async fn connected(&self) -> Result<Arc<dyn Cluster>, ClusterError> {
        self.0.connected.get_or_try_init(|| (self.0.connect)()).await.cloned()
    }

    /// The stream from the cluster, as soon as berth is connected.
    fn stream<T: Send + 'static>(&self, ask: impl Fn(&dyn Cluster) -> BoxStream<'static, T> + Send + 'static) -> BoxStream<'static, T> {
        let late = self.clone();
        let connecting = async move {
            loop {
                match late.connected().await {
                    Ok(cluster) => return ask(&*cluster),
                    Err(error) => tracing::warn!(%error, "the page cannot reach its server; retrying"),
                }
                let clock = &late.0.env.clock;
                clock.sleep_until(clock.now() + RETRY).await;
            }
        };
        stream::once(connecting).flatten().boxed()
    }
}

impl Cluster for Late {
    fn kinds(&self) -> BoxStream<'static, Vec<ServedKind>> {
        self.stream(|cluster| cluster.kinds())
    }

    fn watch(&self, resource: GroupResource) -> BoxStream<'static, Change> {
        self.stream(move |cluster| cluster.watch(resource.clone()))
    }

    fn get(&self, resource: GroupResource, key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        let key = key.clone();
        async move { self.connected().await?.get(resource, &key).await }.boxed()
    }

    fn get_scale(&self, resource: GroupResource, key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        let key = key.clone();
        async move { self.connected().await?.get_scale(resource, &key).await }.boxed()
    }

    fn newest(&self, resource: GroupResource) -> BoxFuture<'_, Result<Revision, ClusterError>> {
        async move { self.connected().await?.newest(resource).await }.boxed()
    }

    fn create(&self, object: Box<dyn Object>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        async move { self.connected().await?.create(object).await }.boxed()
    }

    fn patch(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        subresource: Option<Subresource>,
        patch: Value,
    ) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        let key = key.clone();
        async move { self.connected().await?.patch(resource, &key, subresource, patch).await }.boxed()
    }

    fn update(&self, object: Box<dyn Object>, subresource: Option<Subresource>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        async move { self.connected().await?.update(object, subresource).await }.boxed()
    }

    fn bind(&self, pod: &ObjectKey, uid: &Uid, node: &str) -> BoxFuture<'_, Result<(), ClusterError>> {
        let (pod, uid, node) = (pod.clone(), uid.clone(), node.to_owned());
        async move { self.connected().await?.bind(&pod, &uid, &node).await }.boxed()
    }

    fn delete(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        params: DeleteParams,
    ) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        let key = key.clone();
        async move { self.connected().await?.delete(resource, &key, params).await }.boxed()
    }
}
