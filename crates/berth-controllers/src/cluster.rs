//! What a controller needs of the world.

use berth_api::Object;
use berth_identity::{ObjectKey, ResourceName, Revision, Uid};
use berth_registry::{ApiError, DeleteOptions, Subresource};
use bytes::Bytes;
use futures::{future::BoxFuture, stream::BoxStream};
use serde_json::Value;

/// An object as bytes, to be decoded into whatever narrow view the reader needs.
#[derive(Clone, Debug)]
pub struct RawObject {
    /// Its JSON; `metadata.resourceVersion` may be missing in it.
    pub json: Bytes,
    /// Its resource version; comparable as a number within one cluster.
    pub revision: Revision,
}

/// One change of a resource's objects.
#[derive(Clone, Debug)]
pub enum Change {
    /// A new consistent list begins: forget what is not named before [`Change::Synced`].
    Restarted,
    /// It is there, in this version.
    Applied(RawObject),
    /// It is gone; the last version, with the deletion's revision.
    Deleted(RawObject),
    /// The list is complete up to this revision; later changes follow one by one.
    Synced(Revision),
    /// Nothing of this resource changed up to this revision.
    Progress(Revision),
}

/// The world of a controller. [`crate::local`] is the one in the process; nothing in a controller knows which it has.
pub trait Cluster: Send + Sync + 'static {
    /// All objects of a resource, then every change, for ever: the implementation lists again where a watch breaks.
    fn watch(&self, resource: ResourceName) -> BoxStream<'static, Change>;

    /// The newest version, uncached. `None`: not there.
    fn get(&self, resource: ResourceName, key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ApiError>>;

    /// Creates an object under the name it carries.
    fn create(&self, object: Box<dyn Object>) -> BoxFuture<'_, Result<RawObject, ApiError>>;

    /// Applies a JSON merge patch (`metadata.uid`, `metadata.resourceVersion` in it are preconditions). Gives the new version.
    fn patch(
        &self,
        resource: ResourceName,
        key: &ObjectKey,
        subresource: Option<Subresource>,
        patch: Value,
    ) -> BoxFuture<'_, Result<RawObject, ApiError>>;

    /// Replaces one object or its status. The object carries name, namespace, uid and resourceVersion.
    fn update(&self, object: Box<dyn Object>, subresource: Option<Subresource>) -> BoxFuture<'_, Result<RawObject, ApiError>>;

    /// Binds a pod to a node; `uid` is the pod's.
    fn bind(&self, pod: &ObjectKey, uid: &Uid, node: &str) -> BoxFuture<'_, Result<Revision, ApiError>>;

    /// Deletes. `None`: it is gone now; else the version that lingers.
    fn delete(&self, resource: ResourceName, key: &ObjectKey, options: DeleteOptions)
    -> BoxFuture<'_, Result<Option<RawObject>, ApiError>>;
}
