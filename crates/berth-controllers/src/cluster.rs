//! A controller's access to a cluster: only operations that every Kubernetes API server supports.

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

/// The controllers in `managedFields`.
pub const FIELD_MANAGER: &str = "berth-controller-manager";
/// The autoscaler there, which reports recognize by its name.
pub const AUTOSCALER_FIELD_MANAGER: &str = "berth-horizontal-pod-autoscaler";

/// The field manager of a patch by a part whose other writes are those of `manager`. Of the controllers, only the autoscaler writes scales.
#[must_use]
pub fn field_manager(manager: &'static str, subresource: Option<Subresource>) -> &'static str {
    if manager == FIELD_MANAGER && subresource == Some(Subresource::Scale) { AUTOSCALER_FIELD_MANAGER } else { manager }
}

/// An object as bytes. Readers decode it into the narrow view that they need.
#[derive(Clone, Debug)]
pub struct RawObject {
    /// Its JSON. `metadata.resourceVersion` may be missing.
    pub json: Bytes,
    /// Its resource version. Versions of one resource are comparable as numbers.
    pub revision: Revision,
    /// The same object if a part of this process has just written it. Views are cheaper to derive from it than from the bytes.
    pub object: Option<Arc<dyn Object>>,
}

impl RawObject {
    /// An object of which only the bytes are available.
    #[must_use]
    pub fn new(json: impl Into<Bytes>, revision: Revision) -> Self {
        Self { json: json.into(), revision, object: None }
    }

    /// Decodes a view of the object.
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
    /// A new consistent list begins. Objects that do not follow before [`Change::Synced`] no longer exist.
    Restarted,
    /// The object exists in this version.
    Applied {
        /// Its key, which is known even if the object cannot be decoded.
        key: ObjectKey,
        /// The object.
        object: RawObject,
    },
    /// The object is deleted.
    Deleted {
        /// Its key.
        key: ObjectKey,
        /// The revision of the deletion.
        revision: Revision,
    },
    /// The list is complete up to this revision. Later changes follow one by one.
    Synced(Revision),
    /// No object of this resource has changed up to this revision.
    Progress(Revision),
}

/// A kind that a cluster serves, in one of its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedKind {
    /// The resource of its objects.
    pub resource: GroupResource,
    /// `apps/v1`, `Deployment`.
    pub kind: GroupVersionKind,
    /// Whether its objects are namespaced.
    pub scope: Scope,
}

impl ServedKind {
    /// The resource in URL paths: `deployments` of `apps/v1`.
    #[must_use]
    pub fn gvr(&self) -> GroupVersionResource {
        self.kind.group_version().with_resource(&self.resource.plural)
    }

    /// The key of an object of this kind that an object in `namespace` refers to. Cluster-scoped objects have no namespace.
    #[must_use]
    pub fn key(&self, namespace: &Namespace, name: impl Into<Name>) -> ObjectKey {
        let namespace = if self.scope == Scope::Namespaced { namespace.clone() } else { Namespace::default() };
        ObjectKey { namespace, name: name.into() }
    }
}

/// Why a request failed or may have failed, with one case for each thing that a caller can do about it. The text is the server's, for
/// users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The object does not exist.
    #[error("{0}")]
    NotFound(String),
    /// Another object has the name.
    #[error("{0}")]
    AlreadyExists(String),
    /// Another client wrote first: the object has another version or another uid than the write expects.
    #[error("{0}")]
    Conflict(String),
    /// The namespace is terminating, so nothing can be created in it.
    #[error("{0}")]
    NamespaceTerminating(String),
    /// A quota is exhausted, requires amounts that the object does not specify, or has no status yet.
    ///
    /// A remote server reports this only in its message. It answers `Forbidden`, and after `is forbidden: ` the message contains `exceeded
    /// quota: `, `failed quota: ` or `status unknown for quota: ` (upstream `apiserver/plugin/pkg/admission/resourcequota/controller.go`).
    /// Only the code that converts the answer into a `ClusterError` parses it.
    #[error("{0}")]
    ExceedsQuota(String),
    /// A retry would fail again: the object is invalid, forbidden, or of a kind that is not served.
    #[error("{0}")]
    Refused(String),
    /// Nothing was done. The caller may retry.
    #[error("{message}")]
    Busy {
        /// The server's text.
        message: String,
        /// The time to wait before a retry (`Retry-After`). `None` if the server does not specify it.
        retry_after: Option<Duration>,
    },
    /// Whether the write happened is unknown.
    #[error("{0}")]
    Unknown(String),
}

impl ClusterError {
    /// How long the server asks clients to wait.
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
    /// The object's uid as a precondition. `None` for any object of the name.
    pub uid: Option<Uid>,
    /// The resource version as a precondition. `None` for any version.
    pub resource_version: Option<Revision>,
    /// The propagation policy. `None` for the resource's default.
    pub propagation: Option<Propagation>,
    /// The grace period. `None` for the object's own.
    pub grace_period_seconds: Option<i64>,
}

/// The API of a cluster as a controller uses it. It is in-process ([`crate::local`]) or remote, and controllers do not know which.
///
/// Revisions of one resource are comparable. Those of different resources are comparable only if the implementation documents it.
pub trait Cluster: Send + Sync + 'static {
    /// The served kinds, those of a resource in order of preference. The stream contains the present list and then every changed one. It
    /// never ends.
    fn kinds(&self) -> BoxStream<'static, Vec<ServedKind>>;

    /// All objects of a resource, then every change. The stream never ends: the implementation lists again after a broken watch, and waits
    /// while the resource is not served.
    fn watch(&self, resource: GroupResource) -> BoxStream<'static, Change>;

    /// Reads the newest version, past every cache. `None` if the object does not exist.
    fn get(&self, resource: GroupResource, key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>>;

    /// A revision of the resource at or after every write that was acknowledged before this call. The resource's watch reaches it.
    fn newest(&self, resource: GroupResource) -> BoxFuture<'_, Result<Revision, ClusterError>>;

    /// The `Scale` of an object of a kind that a client defined. `None`: the object does not exist.
    ///
    /// # Errors
    /// [`ClusterError::NotFound`] or [`ClusterError::Refused`]: its kind has no scale. This is the answer of a cluster without such kinds.
    fn get_scale(&self, resource: GroupResource, _key: &ObjectKey) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>> {
        Box::pin(async move { Err(ClusterError::NotFound(format!("{resource} have no scale"))) })
    }

    /// Creates an object under its own name.
    fn create(&self, object: Box<dyn Object>) -> BoxFuture<'_, Result<RawObject, ClusterError>>;

    /// Applies a JSON merge patch. `metadata.uid` and `metadata.resourceVersion` in it are preconditions. Returns the new version.
    fn patch(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        subresource: Option<Subresource>,
        patch: Value,
    ) -> BoxFuture<'_, Result<RawObject, ClusterError>>;

    /// Replaces members of an object's status, as [`Cluster::patch`] does with the part's [patch](StatusPart::to_patch).
    fn put_status(&self, part: StatusPart) -> BoxFuture<'_, Result<RawObject, ClusterError>> {
        let (resource, meta) = (part.object.resource(), part.object.meta());
        let key = ObjectKey { namespace: meta.namespace.clone().into(), name: meta.name.clone().into() };
        self.patch(resource, &key, Some(Subresource::Status), part.to_patch())
    }

    /// Whether the cluster stores events of this severity. Callers need not create others.
    fn keeps_events(&self, _severity: Severity) -> bool {
        true
    }

    /// Replaces one object or its status. The object contains name, namespace, uid and resourceVersion.
    fn update(&self, object: Box<dyn Object>, subresource: Option<Subresource>) -> BoxFuture<'_, Result<RawObject, ClusterError>>;

    /// Binds a pod, which must have this `uid`, to a node. The answer contains no version, but the watch reports it.
    fn bind(&self, pod: &ObjectKey, uid: &Uid, node: &str) -> BoxFuture<'_, Result<(), ClusterError>>;

    /// Deletes an object. Returns `None` if it no longer exists. Otherwise returns the terminating version, or the revision of the deletion
    /// for a kind whose deletions report the last version.
    fn delete(
        &self,
        resource: GroupResource,
        key: &ObjectKey,
        params: DeleteParams,
    ) -> BoxFuture<'_, Result<Option<RawObject>, ClusterError>>;
}
