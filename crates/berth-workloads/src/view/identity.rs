//! The common part of all views: how a view is decoded, and the identity of its object.

use berth_api::Object;
use berth_identity::{GroupResource, Name, Namespace, ObjectKey, ObjectRef, Revision, Uid};
use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// A view of the objects of one resource: the fields that a controller or a reader needs.
pub trait View: Send + Sync + Sized + 'static {
    /// Decodes an object's JSON. `revision` is its resource version.
    ///
    /// # Errors
    /// The text is not valid JSON, or a field of the view has another type than the kind's.
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error>;

    /// As [`View::decode`], for shared bytes that a view can keep without a copy.
    ///
    /// # Errors
    /// Those of [`View::decode`].
    fn decode_shared(json: &Bytes, revision: Revision) -> Result<Self, serde_json::Error> {
        Self::decode(json, revision)
    }

    /// As [`View::decode_shared`], for an object that is already decoded from those bytes. `None` if the view requires the bytes.
    fn of_object(_object: &dyn Object, _json: &Bytes, _revision: Revision) -> Option<Self> {
        None
    }

    /// The identity of the object.
    fn identity(&self) -> Identity<'_>;

    /// `metadata.namespace` and `metadata.name`.
    fn key(&self) -> ObjectKey {
        self.identity().key()
    }

    /// `metadata.uid`.
    fn uid(&self) -> &Uid {
        self.identity().uid
    }
}

/// An object, and whether it is terminating.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// `metadata.namespace`; `None` for cluster-scoped objects.
    pub namespace: Option<&'a Namespace>,
    /// `metadata.name`.
    pub name: &'a Name,
    /// `metadata.uid`.
    pub uid: &'a Uid,
    /// Whether `metadata.deletionTimestamp` is set. False if no reader of the view needs it.
    pub is_being_deleted: bool,
}

impl<'a> Identity<'a> {
    pub(crate) fn new(id: &'a ObjectRef, metadata: &ObjectMeta) -> Self {
        let ObjectKey { namespace, name } = &id.key;
        Self { namespace: Some(namespace), name, uid: &id.uid, is_being_deleted: metadata.deletion_timestamp.is_some() }
    }

    /// Namespace and name.
    #[must_use]
    pub fn key(self) -> ObjectKey {
        ObjectKey { namespace: self.namespace.cloned().unwrap_or_default(), name: self.name.clone() }
    }

    /// The object, in the version that was read.
    #[must_use]
    pub(crate) fn reference(self, resource: GroupResource, revision: Revision) -> ObjectRef {
        ObjectRef { resource, key: self.key(), uid: self.uid.clone(), resource_version: Some(revision) }
    }
}
