//! The controllers over a cluster that behaves like a remote one: late, busy, with conflicts and lost answers. Its bindings return no
//! version, and its revisions are not comparable between resources.

use super::*;
use berth_api::{Object, Subresource};
use berth_controllers::cluster::{Change, ClusterError, RawObject, ServedKind};
use berth_env::Clock;
use berth_identity::{ObjectKey, Revision, Uid};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::BoxStream};
use std::sync::atomic::{AtomicU64, Ordering};

/// The delay of a watch for each change.
const LATE: SignedDuration = SignedDuration::from_millis(20);
/// The `Retry-After` of a busy answer.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// Of so many calls, one is rejected as too many, one loses its answer, and one of the writes loses a race.
const BUSY_EVERY: u64 = 7;
const LOST_EVERY: u64 = 11;
/// After so many calls, a read is answered, and the write after it is executed without an answer.
pub(super) const BEFORE_A_LOST_WRITE: u64 = 4;
const RACED_EVERY: u64 = 13;

/// Resources that one store contains whatever server is in front of it: controllers compare their revisions (see docs/decisions).
const OF_ONE_STORE: [&str; 6] = ["pods", "deployments", "replicasets", "statefulsets", "controllerrevisions", "persistentvolumeclaims"];

pub(super) struct Remote {
    api: Arc<LocalCluster>,
    clock: Arc<dyn Clock>,
    calls: AtomicU64,
}

/// The offset of a resource's revisions.
fn shift(resource: &GroupResource) -> u64 {
    if OF_ONE_STORE.contains(&resource.plural.as_str()) { 0 } else { resource.plural.bytes().map(u64::from).sum::<u64>() * 1_000_000 }
}

fn shown(resource: &GroupResource, object: RawObject) -> RawObject {
    RawObject { revision: Revision(object.revision.0 + shift(resource)), ..object }
}

/// The stored version for the version that the caller knows.
fn stored(resource: &GroupResource, version: &str) -> String {
    version.parse::<u64>().map_or_else(|_| version.to_owned(), |number| (number - shift(resource)).to_string())
}

impl Remote {
    /// A cluster that has already received so many calls.
    pub(super) fn after(calls: u64, running: &Running) -> Self {
        Self { api: Arc::clone(&running.cluster), clock: running.test_env.env().clock, calls: AtomicU64::new(calls) }
    }

    async fn read<T>(&self, call: impl Future<Output = Result<T, ClusterError>>) -> Result<T, ClusterError> {
        self.ask(self.calls.fetch_add(1, Ordering::Relaxed), call).await
    }

    async fn write<T>(&self, call: impl Future<Output = Result<T, ClusterError>>) -> Result<T, ClusterError> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        if number % RACED_EVERY == 6 {
            return Err(ClusterError::Conflict("another writer was first".to_owned()));
        }
        self.ask(number, call).await
    }

    async fn ask<T>(&self, number: u64, call: impl Future<Output = Result<T, ClusterError>>) -> Result<T, ClusterError> {
        if number % BUSY_EVERY == 3 {
            return Err(ClusterError::Busy { message: "too many requests".to_owned(), retry_after: Some(RETRY_AFTER) });
        }
        let answer = call.await;
        if number % LOST_EVERY == 5 { Err(ClusterError::Unknown("the answer was lost".to_owned())) } else { answer }
    }
}

impl Cluster for Remote {
    fn watch(&self, resource: GroupResource) -> BoxStream<'static, Change> {
        let (clock, watched) = (Arc::clone(&self.clock), resource.clone());
        let added = shift(&resource);
        let shifted = move |revision: Revision| Revision(revision.0 + added);
        let change = move |change| match change {
            Change::Restarted => Change::Restarted,
            Change::Applied { key, object } => Change::Applied { key, object: shown(&resource, object) },
            Change::Deleted { key, revision } => Change::Deleted { key, revision: shifted(revision) },
            Change::Synced(revision) => Change::Synced(shifted(revision)),
            Change::Progress(revision) => Change::Progress(shifted(revision)),
        };
        let late = move |change| {
            let arrival = clock.sleep_until(clock.now() + LATE);
            async move {
                arrival.await;
                change
            }
        };
        self.api.watch(watched).map(change).then(late).boxed()
    }

    fn kinds(&self) -> BoxStream<'static, Vec<ServedKind>> {
        self.api.kinds()
    }

    fn get(&self, resource: GroupResource, key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        let call = self.api.get(resource.clone(), key);
        async move { Ok(self.read(call).await?.map(|object| shown(&resource, object))) }.boxed()
    }

    fn newest(&self, resource: GroupResource) -> BoxFuture<'_, Result<Revision, ClusterError>> {
        async move { Ok(Revision(self.read(self.api.newest(resource.clone())).await?.0 + shift(&resource))) }.boxed()
    }

    fn create(&self, object: Box<dyn Object>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        let resource = object.resource();
        async move { Ok(shown(&resource, self.write(self.api.create(object)).await?)) }.boxed()
    }

    fn patch(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        subresource: Option<Subresource>,
        mut patch: Value,
    ) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        if let Some(version) = patch["metadata"]["resourceVersion"].as_str() {
            patch["metadata"]["resourceVersion"] = stored(&resource, version).into();
        }
        let call = self.api.patch(resource.clone(), key, subresource, patch);
        async move { Ok(shown(&resource, self.write(call).await?)) }.boxed()
    }

    fn update(&self, mut object: Box<dyn Object>, subresource: Option<Subresource>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        let resource = object.resource();
        let version = object.meta().resource_version.as_deref().map(|version| stored(&resource, version));
        object.meta_mut().resource_version = version;
        async move { Ok(shown(&resource, self.write(self.api.update(object, subresource)).await?)) }.boxed()
    }

    fn bind(&self, pod: &ObjectKey, uid: &Uid, node: &str) -> BoxFuture<'_, Result<(), ClusterError>> {
        let call = self.api.bind(pod, uid, node);
        async move { self.write(call).await }.boxed()
    }

    fn delete(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        params: DeleteParams,
    ) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        let resource_version = params.resource_version.map(|version| Revision(version.0 - shift(&resource)));
        let call = self.api.delete(resource.clone(), key, DeleteParams { resource_version, ..params });
        async move { Ok(self.write(call).await?.map(|object| shown(&resource, object))) }.boxed()
    }
}

#[test]
fn controllers_do_their_work_at_the_end_of_a_network() {
    let running = Running::start("-*");
    running.run_controllers_over(Arc::new(Remote::after(0, &running)), "*", Arc::default());
    let settle = || running.test_env.run_for(SignedDuration::from_secs(120));
    let mut web = deployment("web", 3);
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    running.create(Some("default"), &web);
    settle();
    assert_eq!((running.count(SETS), running.count(PODS)), (1, 3));
    running.patch(DEPLOYMENTS, "web", json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "other"}]}}}}));
    settle();
    let images: Vec<_> = running.list(PODS).iter().map(|pod| pod["spec"]["containers"][0]["image"].clone()).collect();
    assert_eq!((running.count(SETS), images), (2, vec![json!("other"); 3]));
    running.delete(DEPLOYMENTS, "web", Some(Propagation::Foreground));
    settle();
    assert_eq!(
        (running.count(DEPLOYMENTS), running.count(SETS), running.count(PODS)),
        (0, 0, 0),
        "dependents go first, then the Deployment"
    );
    running.create(None, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    running.create(Some("shop"), &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices"}}));
    settle();
    running.delete(NAMESPACES, "shop", None);
    settle();
    let names: Vec<_> = running.list(NAMESPACES).iter().map(|namespace| namespace["metadata"]["name"].clone()).collect();
    assert!(!names.contains(&json!("shop")), "{names:?}");
}
