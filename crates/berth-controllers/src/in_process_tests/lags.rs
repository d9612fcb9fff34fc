//! A cache whose watch brings nothing any more.

use super::*;
use crate::{
    cluster::{Change, ClusterError, RawObject, ServedKind},
    lags::Lags,
};
use berth_api::{Object, Subresource};
use berth_identity::{Revision, Uid};
use berth_store::env::Clock;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::BoxStream};
use std::sync::atomic::{AtomicBool, Ordering};

const LAG_MAX: Duration = Duration::from_secs(10);

/// A cluster whose watches of pods bring nothing while they are broken.
struct Breakable {
    api: Arc<LocalCluster>,
    clock: Arc<dyn Clock>,
    is_broken: Arc<AtomicBool>,
}

impl Cluster for Breakable {
    fn watch(&self, resource: ResourceName) -> BoxStream<'static, Change> {
        let (clock, is_broken) = (Arc::clone(&self.clock), Arc::clone(&self.is_broken));
        let held = move |change| {
            let (clock, is_broken) = (Arc::clone(&clock), Arc::clone(&is_broken));
            async move {
                while resource == PODS && is_broken.load(Ordering::SeqCst) {
                    clock.sleep_until(clock.now() + SignedDuration::from_millis(100)).await;
                }
                change
            }
        };
        self.api.watch(resource).then(held).boxed()
    }

    fn kinds(&self) -> BoxStream<'static, Vec<ServedKind>> {
        self.api.kinds()
    }

    fn get(&self, resource: ResourceName, key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        self.api.get(resource, key)
    }

    fn newest(&self, resource: ResourceName) -> BoxFuture<'_, Result<Revision, ClusterError>> {
        self.api.newest(resource)
    }

    fn create(&self, object: Box<dyn Object>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        self.api.create(object)
    }

    fn patch(
        &self,
        resource: ResourceName,
        key: &ObjectKey,
        subresource: Option<Subresource>,
        patch: Value,
    ) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        self.api.patch(resource, key, subresource, patch)
    }

    fn update(&self, object: Box<dyn Object>, subresource: Option<Subresource>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        self.api.update(object, subresource)
    }

    fn bind(&self, pod: &ObjectKey, uid: &Uid, node: &str) -> BoxFuture<'_, Result<(), ClusterError>> {
        self.api.bind(pod, uid, node)
    }

    fn delete(
        &self,
        resource: ResourceName,
        key: &ObjectKey,
        params: DeleteParams,
    ) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        self.api.delete(resource, key, params)
    }
}

#[test]
fn a_cache_whose_watch_brings_nothing_is_told_of_until_it_has_caught_up() {
    let running = Running::start("-*");
    let env = running.world.env();
    let is_broken = Arc::new(AtomicBool::new(false));
    let api = Arc::clone(&running.cluster);
    let cluster = Arc::new(Breakable { api, clock: Arc::clone(&env.clock), is_broken: Arc::clone(&is_broken) });
    running.run_controllers_over(Arc::<Breakable>::clone(&cluster), "*", Arc::default());
    let metrics = Arc::clone(lock(&running.metrics).last().expect("started"));
    let lags = Arc::new(Lags::new(Arc::clone(&env.clock)));
    env.spawner.spawn("lags", Arc::clone(&lags).follow(cluster, metrics).boxed());
    let behind = || lags.longer_than(LAG_MAX).into_iter().map(|(resource, _)| resource.plural).collect::<Vec<_>>();

    running.create(Some("default"), &deployment("web", 3));
    running.settle();
    assert_eq!((running.count(PODS), behind()), (3, vec![]), "all are where they should be");
    is_broken.store(true, Ordering::SeqCst);
    running.settle();
    assert_eq!(behind(), Vec::<&str>::new(), "nothing was written that it could miss");
    running.create(Some("default"), &deployment("other", 1));
    running.world.run_for(SignedDuration::from_secs(9));
    assert_eq!(behind(), Vec::<&str>::new(), "it may be on its way");
    running.settle();
    assert_eq!(behind(), ["pods"]);
    is_broken.store(false, Ordering::SeqCst);
    running.settle();
    assert_eq!(behind(), Vec::<&str>::new(), "it has caught up");
}
