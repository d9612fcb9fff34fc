//! A cluster that fails when and how a test requests it.

use super::*;
use berth_api::{Object, Subresource};
use berth_controllers::cluster::{Change, ClusterError, RawObject, ServedKind};
use berth_env::Clock;
use berth_identity::{Revision, Uid};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::BoxStream};
use std::sync::atomic::{AtomicBool, Ordering};

/// How long a read takes: a read without any time left gets no answer.
const READ: SignedDuration = SignedDuration::from_millis(10);

pub(super) struct Faulty {
    api: Arc<LocalCluster>,
    clock: Arc<dyn Clock>,
    holds_pods: Arc<AtomicBool>,
    unknown_after: Mutex<SignedDuration>,
}

impl Faulty {
    /// A cluster that does not fail yet.
    pub(super) fn of(running: &Running) -> Self {
        let (api, clock) = (Arc::clone(&running.cluster), running.test_env.env().clock);
        Self { api, clock, holds_pods: Arc::default(), unknown_after: Mutex::default() }
    }

    /// Sets whether its watches of pods deliver nothing.
    pub(super) fn hold_pods(&self, holds: bool) {
        self.holds_pods.store(holds, Ordering::SeqCst);
    }

    /// Executes each further write at once, but reports an unknown outcome after this delay. With zero, the write is acknowledged.
    pub(super) fn lose_answers_after(&self, late: SignedDuration) {
        *lock(&self.unknown_after) = late;
    }

    fn sleep(&self, duration: SignedDuration) -> BoxFuture<'static, ()> {
        self.clock.sleep_until(self.clock.now() + duration)
    }

    async fn write<T>(&self, write: impl Future<Output = Result<T, ClusterError>>) -> Result<T, ClusterError> {
        let (answer, late) = (write.await, *lock(&self.unknown_after));
        if late.is_zero() {
            return answer;
        }
        self.sleep(late).await;
        Err(ClusterError::Unknown("whether it was written is unknown".to_owned()))
    }
}

impl Cluster for Faulty {
    fn watch(&self, resource: GroupResource) -> BoxStream<'static, Change> {
        let (clock, holds_pods, is_pods) = (Arc::clone(&self.clock), Arc::clone(&self.holds_pods), resource == PODS);
        let held = move |change| {
            let (clock, holds_pods) = (Arc::clone(&clock), Arc::clone(&holds_pods));
            async move {
                while is_pods && holds_pods.load(Ordering::SeqCst) {
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

    fn get(&self, resource: GroupResource, key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        let (asked, read) = (self.sleep(READ), self.api.get(resource, key));
        asked.then(|()| read).boxed()
    }

    fn newest(&self, resource: GroupResource) -> BoxFuture<'_, Result<Revision, ClusterError>> {
        self.api.newest(resource)
    }

    fn create(&self, object: Box<dyn Object>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        self.write(self.api.create(object)).boxed()
    }

    fn patch(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        subresource: Option<Subresource>,
        patch: Value,
    ) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        self.write(self.api.patch(resource, key, subresource, patch)).boxed()
    }

    fn update(&self, object: Box<dyn Object>, subresource: Option<Subresource>) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        self.write(self.api.update(object, subresource)).boxed()
    }

    fn bind(&self, pod: &ObjectKey, uid: &Uid, node: &str) -> BoxFuture<'_, Result<(), ClusterError>> {
        self.write(self.api.bind(pod, uid, node)).boxed()
    }

    fn delete(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        params: DeleteParams,
    ) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        self.write(self.api.delete(resource, key, params)).boxed()
    }
}
