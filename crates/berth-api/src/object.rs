//! Objects: of a kind that is a type of Rust ([`Kind`], with its rules), and of any kind ([`Object`]).

mod strategy;

pub use strategy::{ObjectRules, ObjectStrategy};

use crate::{FeatureGates, FieldError, decode::Codec, deletion::Grace, normal::Normal};
use berth_identity::{GroupResource, GroupVersionKind};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use std::{any::Any, borrow::Cow, cell::Cell, fmt::Debug};

/// Whether objects of a kind are namespaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Namespaced.
    Namespaced,
    /// Cluster-scoped.
    Cluster,
}

/// The rule for an object's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// DNS subdomain, at most 253 bytes.
    Subdomain,
    /// RFC 1123 label, at most 63 bytes.
    Label,
    /// Anything that can be one segment of a URL path (RBAC).
    PathSegment,
    /// An IP address in its canonical form (IPAddress).
    Ip,
}

/// The rule for the names of an object's finalizers, besides their form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerRule {
    /// A name has a domain, or it is one of Kubernetes itself.
    Qualified,
    /// A name needs no domain. Of custom resources, one without a domain causes a warning.
    Plain,
}

/// The rule for increments of `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationRule {
    /// The kind has no generation. The value of a create is stored.
    None,
    /// Increments at every change of the spec.
    Spec,
    /// The same, but a create sets none (CSIDriver).
    SpecChanges,
    /// Increments at every change of the spec or of the annotations (Deployment).
    SpecAndAnnotations,
}

/// The `/scale` of an object.
#[derive(Clone, Copy, Debug)]
pub struct Scaled<'a> {
    /// The desired replicas.
    pub replicas: Option<i32>,
    /// The current replicas.
    pub current: i32,
    /// The selector of its pods.
    pub selector: Option<ScaledSelector<'a>>,
}

/// The selector of an object with replicas.
#[derive(Clone, Copy, Debug)]
pub enum ScaledSelector<'a> {
    /// A label selector, as in workloads.
    Labels(&'a LabelSelector),
    /// A text, which `/scale` shows unchanged.
    Text(&'a str),
    /// Labels with these values.
    Equal(&'a Map<String, Value>),
}

/// The rules of one kind. Every method has the default of a kind that is only stored and served.
///
/// Order of a create: decode, `set_defaults`, `prepare_create`, `validate`. Of an update: decode, `set_defaults`,
/// `prepare_update` (or `prepare_status_update`), `validate_update` (or `validate_status_update`). Generic metadata rules (names, labels,
/// owner references, immutable metadata, generation) are the registry's, by [`crate::metadata`] and the two rules below.
pub trait Kind:
    k8s_openapi::Resource
    + k8s_openapi::Metadata<Ty = ObjectMeta>
    + Serialize
    + DeserializeOwned
    + Codec
    + Normal
    + JsonSchema
    + Clone
    + PartialEq
    + Debug
    + Send
    + Sync
    + 'static
{
    /// The rule for its name.
    const NAME_RULE: NameRule = NameRule::Subdomain;
    /// Whether an update checks a new `metadata.generateName` as a create does. Upstream checks the whole of some kinds again.
    const CHECKS_NEW_NAME_BASE: bool = false;
    /// The rule for its generation.
    const GENERATION_RULE: GenerationRule = GenerationRule::None;
    /// Whether it has a status that the main endpoint keeps and only `/status` writes.
    const HAS_STATUS: bool = false;
    /// Whether an update must contain a resource version. Otherwise it may be unconditional.
    const REQUIRES_RESOURCE_VERSION: bool = false;
    /// Whether a deletion returns the object even after it is removed.
    const RETURNS_DELETED: bool = false;
    /// How its finalizers are named.
    const FINALIZER_RULE: FinalizerRule = FinalizerRule::Qualified;

    /// Sets defaults. Idempotent. Applied after every decode, to the object in its normal form.
    fn set_defaults(&mut self) {}

    /// Runs before validation of a create: clears the status, and drops fields whose gate is off.
    fn prepare_create(&mut self, _gates: &FeatureGates) {}

    /// Runs before validation of an update: copies the stored status, and drops fields whose gate is off unless `old`
    /// uses them.
    fn prepare_update(&mut self, _old: &Self, _gates: &FeatureGates) {}

    /// Runs before validation of a write to `/status`: copies everything but the status (and the metadata that the kind
    /// permits).
    fn prepare_status_update(&mut self, _old: &Self, _gates: &FeatureGates) {}

    /// Validates a new object, except for generic metadata. The errors have upstream's order.
    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        Vec::new()
    }

    /// Validates an update, except for generic metadata.
    fn validate_update(&self, _old: &Self, gates: &FeatureGates) -> Vec<FieldError> {
        self.validate(gates)
    }

    /// Validates a write to `/status`.
    fn validate_status_update(&self, _old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        Vec::new()
    }

    /// Validates the result of a write to `/finalize`, except for generic metadata.
    fn validate_finalize(&self) -> Vec<FieldError> {
        Vec::new()
    }

    /// Returns texts for `Warning` headers. `old` is absent on create.
    fn warnings(&self, _old: Option<&Self>) -> Vec<String> {
        Vec::new()
    }

    /// Whether the spec differs, for [`GenerationRule`]. Not called for the rule `None`.
    fn spec_differs(&self, _old: &Self) -> bool {
        false
    }

    /// Runs before a write to `/finalize`: copies everything but the finalizers outside the metadata.
    fn prepare_finalize(&mut self, _old: &Self) {}

    /// Sets the timestamps that the server manages. `old` is the object that an update changes, or `None` for a create.
    fn stamp(&mut self, _old: Option<&Self>, _now: &Time) {}

    /// Runs before any other part of a deletion, even if the object is already terminating.
    fn begin_deletion(&mut self, _now: &Time) {}

    /// Whether it has finalizers outside the metadata.
    fn has_own_finalizers(&self) -> bool {
        false
    }

    /// Returns the effect of a deletion with this grace period, or with the object's default.
    fn grace(&self, _seconds: Option<i64>) -> Grace {
        Grace::None
    }

    /// Returns its `/scale`, or `None` without replicas.
    fn scale(&self) -> Option<Scaled<'_>> {
        None
    }

    /// Sets the replicas of a write to `/scale`.
    fn set_replicas(&mut self, _replicas: i32) {}

    /// Returns the value of a selectable field (`status.phase`) as a selector compares it. Empty if the object does not
    /// have the field. `None`: the type does not expose it, and its JSON is searched.
    fn selectable(&self, _field: &str) -> Option<Cow<'_, str>> {
        None
    }

    /// Returns the object that a write to `/status` proposes: its metadata, and its status with these members of the
    /// status of `part`. `None`: the kind does not support all members, and a patch is used instead.
    fn with_status(&self, _part: &Self, _members: &[&str]) -> Option<Self> {
        None
    }
}

/// An object whose kind is known only at run time. Its rules are its [`ObjectStrategy`]. Every [`Kind`] implements
/// this, and so do objects of custom kinds.
///
/// A second object in a method must be of the same kind. The registry only combines objects of one resource.
pub trait Object: ObjectStrategy + Any + Debug {
    /// `apps/v1`.
    fn api_version(&self) -> &str;
    /// `Deployment`.
    fn kind(&self) -> &str;
    /// Returns both together.
    fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::as_written(self.api_version(), self.kind())
    }
    /// Returns the resource: (`apps`, `deployments`).
    fn resource(&self) -> GroupResource;
    /// Returns its metadata.
    fn meta(&self) -> &ObjectMeta;
    /// Returns its metadata, mutable.
    fn meta_mut(&mut self) -> &mut ObjectMeta;
    /// Returns its JSON, with `apiVersion` and `kind` first.
    fn encode(&self) -> Vec<u8>;
    /// Returns its JSON as a tree.
    fn to_value(&self) -> Value;
    /// Whether both are equal in every field.
    fn same_as(&self, other: &dyn Object) -> bool;
    /// Returns a copy.
    fn clone_object(&self) -> Box<dyn Object>;
    /// For downcasts.
    fn as_any(&self) -> &dyn Any;
    /// For downcasts, to change.
    fn as_any_mut(&mut self) -> &mut dyn Any;
    /// For downcasts by value.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl dyn Object {
    /// Returns the object as a `K`, if it is one.
    #[must_use]
    pub fn downcast_ref<K: Kind>(&self) -> Option<&K> {
        self.as_any().downcast_ref()
    }

    /// Returns the object as a mutable `K`, if it is one.
    pub fn downcast_mut<K: Kind>(&mut self) -> Option<&mut K> {
        self.as_any_mut().downcast_mut()
    }
}

/// The maximum size of [`SCRATCH`] that is kept: more than nearly all objects need. A larger buffer becomes the result.
const SCRATCH_BYTES_MAX: usize = 64 << 10;

thread_local! {
    /// The buffer for encoding, so that results have their exact size and nothing grows step by step.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl<K: Kind> Object for K {
    fn api_version(&self) -> &str {
        K::API_VERSION
    }

    fn kind(&self) -> &str {
        K::KIND
    }

    fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::from_static(K::GROUP, K::VERSION, K::KIND)
    }

    fn resource(&self) -> GroupResource {
        GroupResource::from_static(K::GROUP, K::URL_PATH_SEGMENT)
    }

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.metadata_mut()
    }

    fn encode(&self) -> Vec<u8> {
        let mut scratch = SCRATCH.take();
        scratch.clear();
        self.encode_json(&mut scratch);
        if SCRATCH_BYTES_MAX < scratch.capacity() {
            scratch.shrink_to_fit();
            return scratch;
        }
        let encoded = scratch.as_slice().to_vec();
        SCRATCH.set(scratch);
        encoded
    }

    fn to_value(&self) -> Value {
        self.encode_tree()
    }

    fn same_as(&self, other: &dyn Object) -> bool {
        other.downcast_ref::<K>() == Some(self)
    }

    fn clone_object(&self) -> Box<dyn Object> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::{Object, SCRATCH_BYTES_MAX};
    use k8s_openapi::api::core::v1::ConfigMap;
    use std::collections::BTreeMap;

    #[test]
    fn what_is_encoded_takes_no_more_room_than_it_needs_whatever_its_size() {
        for size in [1, SCRATCH_BYTES_MAX / 2, 3 * SCRATCH_BYTES_MAX, 1] {
            let data = BTreeMap::from([("text".to_owned(), "a".repeat(size))]);
            let object = ConfigMap { data: Some(data), ..ConfigMap::default() };
            let encoded = object.encode();
            assert_eq!(encoded, serde_json::to_vec(&object).expect("string keys only"));
            assert_eq!(encoded.capacity(), encoded.len());
        }
    }
}
