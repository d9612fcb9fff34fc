//! What a controller needs of the world: what any Kubernetes API server can answer, and no more.

use berth_api::{Object, Scope, StatusPart, Subresource};
use berth_identity::{GroupResource, GroupVersionKind, GroupVersionResource, Name, Namespace, ObjectKey, Revision, Uid};
use berth_workloads::{
    plan::{Propagation, Severity},
    view::View,
};
use bytes::Bytes;
use futures::{future::BoxFuture, stream::BoxStream};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// An object as bytes, to be decoded into whatever narrow view the reader needs.
#[derive(Clone, Debug)]
pub struct RawObject {
    /// Its JSON; `metadata.resourceVersion` may be missing in it.
    pub json: Bytes,
    /// Its resource version; comparable as a number with others of its resource.
    pub revision: Revision,
    /// The same object, where somebody in this process has just written it: many views are made of it for less than of the bytes.
    pub object: Option<Arc<dyn Object>>,
}

impl RawObject {
    /// One of which there are the bytes alone.
    #[must_use]
    pub fn new(json: impl Into<Bytes>, revision: Revision) -> Self {
        Self { json: json.into(), revision, object: None }
    }

    /// What somebody reads of it.
    ///
    /// # Errors
    /// Those of [`View::decode`].
    pub fn view<V: View>(&self) -> Result<V, serde_json::Error> {
        let made = self.object.as_ref().and_then(|object| V::of_object(&**object, &self.json, self.revision));
        made.map_or_else(|| V::decode_shared(&self.json, self.revision), Ok)
    }
}

/// One change of a resource's objects.
#[derive(Clone, Debug)]
pub enum Change {
    /// A new consistent list begins: forget what is not named before [`Change::Synced`].
    Restarted,
    /// It is there, in this version.
    Applied {
        /// Where it is, whatever can be read of it.
        key: ObjectKey,
        /// This version.
        object: RawObject,
    },
    /// It is gone.
    Deleted {
        /// Where it was.
        key: ObjectKey,
        /// That of the deletion.
        revision: Revision,
    },
    /// The list is complete up to this revision; later changes follow one by one.
    Synced(Revision),
    /// Nothing of this resource changed up to this revision.
    Progress(Revision),
}

/// A kind whose objects a cluster stores, in one of the versions in which it serves them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedKind {
    /// What its objects are read and written under.
    pub resource: GroupResource,
    /// `apps/v1`, `Deployment`.
    pub kind: GroupVersionKind,
    /// Where its objects live.
    pub scope: Scope,
}

impl ServedKind {
    /// What paths name: `deployments` of `apps/v1`.
    #[must_use]
    pub fn gvr(&self) -> GroupVersionResource {
        self.kind.group_version().with_resource(&self.resource.plural)
    }

    /// The key of an object of this kind that somebody in `namespace` names; cluster-scoped ones are in no namespace.
    #[must_use]
    pub fn key(&self, namespace: &Namespace, name: impl Into<Name>) -> ObjectKey {
        let namespace = if self.scope == Scope::Namespaced { namespace.clone() } else { Namespace::default() };
        ObjectKey { namespace, name: name.into() }
    }
}

/// Why a cluster did not do, or may not have done, what it was asked: one case for each thing that a caller can do about it. The text is the
/// server's, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// It is not there.
    #[error("{0}")]
    NotFound(String),
    /// The name is another object's.
    #[error("{0}")]
    AlreadyExists(String),
    /// Somebody else was first: it is not the version, or not the object, that the write was for.
    #[error("{0}")]
    Conflict(String),
    /// Nothing can be created any more in a namespace that is going.
    #[error("{0}")]
    NamespaceTerminating(String),
    /// A quota has no room for it, demands amounts that it does not name, or cannot tell yet.
    ///
    /// A remote server says so in its message alone: it answers `Forbidden`, and behind `is forbidden: ` stands `exceeded quota: `, `failed quota: `
    /// or `status unknown for quota: ` (upstream `apiserver/plugin/pkg/admission/resourcequota/controller.go`). To be read where its answer
    /// becomes a `ClusterError`, and nowhere else.
    #[error("{0}")]
    ExceedsQuota(String),
    /// It would be refused again: it is invalid, forbidden, or of a kind that is not served.
    #[error("{0}")]
    Refused(String),
    /// Nothing was done. It may be asked again.
    #[error("{message}")]
    Busy {
        /// The server's text.
        message: String,
        /// Not before this has passed (`Retry-After`); `None`: the server does not say.
        retry_after: Option<Duration>,
    },
    /// Whether it was done is unknown.
    #[error("{0}")]
    Unknown(String),
}

impl ClusterError {
    /// How long the server wants to be left alone.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// How an object is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteParams {
    /// Only the object with this uid; `None`: whichever has the name.
    pub uid: Option<Uid>,
    /// Only this version of it; `None`: whichever is there.
    pub resource_version: Option<Revision>,
    /// What becomes of its dependents; `None`: what is usual for the resource.
    pub propagation: Option<Propagation>,
    /// How long it has to stop; `None`: as long as it asks for.
    pub grace_period_seconds: Option<i64>,
}

/// The world of a controller. In-process ([`crate::local`]) or at the end of a network; nothing in a controller knows which.
///
/// Revisions are comparable within one resource: of different ones only as far as an implementation says so.
pub trait Cluster: Send + Sync + 'static {
    /// The kinds that are served, those of a resource in order of preference; the list of now first, then a new one for ever whenever it changes.
    fn kinds(&self) -> BoxStream<'static, Vec<ServedKind>>;

    /// All objects of a resource, then every change, for ever: the implementation lists again where a watch breaks, and waits where the
    /// resource is not served.
    fn watch(&self, resource: GroupResource) -> BoxStream<'static, Change>;

    /// The newest version, uncached. `None`: not there.
    fn get(&self, resource: GroupResource, key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>>;

    /// A revision of the resource that no write which was answered before this call is behind; its watch comes to it.
    fn newest(&self, resource: GroupResource) -> BoxFuture<'_, Result<Revision, ClusterError>>;

    /// Creates an object under the name it carries.
    fn create(&self, object: Box<dyn Object>) -> BoxFuture<'_, Result<RawObject, ClusterError>>;

    /// Applies a JSON merge patch (`metadata.uid`, `metadata.resourceVersion` in it are preconditions). Gives the new version.
    fn patch(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        subresource: Option<Subresource>,
        patch: Value,
    ) -> BoxFuture<'_, Result<RawObject, ClusterError>>;

    /// Replaces members of an object's status, as [`Cluster::patch`] does with the [patch](StatusPart::to_patch) that the part is.
    fn put_status(&self, part: StatusPart) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        let (resource, meta) = (part.object.resource(), part.object.meta());
        let key = ObjectKey { namespace: meta.namespace.clone().into(), name: meta.name.clone().into() };
        self.patch(resource, &key, Some(Subresource::Status), part.to_patch())
    }

    /// Whether events of this severity are kept: others need not be made.
    fn keeps_events(&self, _severity: Severity) -> bool {
        true
    }

    /// Replaces one object or its status. The object carries name, namespace, uid and resourceVersion.
    fn update(&self, object: Box<dyn Object>, subresource: Option<Subresource>) -> BoxFuture<'_, Result<RawObject, ClusterError>>;

    /// Binds a pod to a node; `uid` is the pod's. The answer names no version: the watch shows it.
    fn bind(&self, pod: &ObjectKey, uid: &Uid, node: &str) -> BoxFuture<'_, Result<(), ClusterError>>;

    /// Deletes. `None`: it is gone now. Else the version that lingers, or of a kind that is shown as it was last, that of its deletion.
    fn delete(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        params: DeleteParams,
    ) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>>;
}
