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

/// Whether objects of a kind live in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// Beside all namespaces.
    Cluster,
}

/// What the name of an object must be.
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

/// When `metadata.generation` rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationRule {
    /// The kind has none; what a client sends on create is stored.
    None,
    /// At every change of the spec.
    Spec,
    /// The same, and a create sets none (CSIDriver).
    SpecChanges,
    /// At every change of the spec or of the annotations (Deployment).
    SpecAndAnnotations,
}

/// What `/scale` shows of an object.
#[derive(Clone, Copy, Debug)]
pub struct Scaled<'a> {
    /// As wanted.
    pub replicas: Option<i32>,
    /// As there are.
    pub current: i32,
    /// Of its pods.
    pub selector: Option<ScaledSelector<'a>>,
}

/// The selector of what has replicas.
#[derive(Clone, Copy, Debug)]
pub enum ScaledSelector<'a> {
    /// As the workload kinds have it.
    Labels(&'a LabelSelector),
    /// As text, which `/scale` shows as it is.
    Text(&'a str),
    /// As labels that pods have with these values.
    Equal(&'a Map<String, Value>),
}

/// The rules of one kind. Every method has the answer of a kind that is only stored and served.
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
    /// What its name must be.
    const NAME_RULE: NameRule = NameRule::Subdomain;
    /// Whether an update checks a new `metadata.generateName` as a create does. Upstream checks the whole of some kinds again.
    const CHECKS_NEW_NAME_BASE: bool = false;
    /// When its generation rises.
    const GENERATION_RULE: GenerationRule = GenerationRule::None;
    /// Whether it has a status that the main endpoint keeps and `/status` alone writes.
    const HAS_STATUS: bool = false;
    /// Whether an update must say which revision it changes; else it may be unconditional.
    const REQUIRES_RESOURCE_VERSION: bool = false;
    /// Whether a deletion is answered with the object also when it is gone.
    const RETURNS_DELETED: bool = false;

    /// Fills in what clients may leave out. Idempotent; applied on every decode, to the object in its normal form.
    fn set_defaults(&mut self) {}

    /// Before validation of a create: clears the status, drops fields whose gate is off.
    fn prepare_create(&mut self, _gates: &FeatureGates) {}

    /// Before validation of an update: takes over the stored status, drops fields whose gate is off unless `old` uses them.
    fn prepare_update(&mut self, _old: &Self, _gates: &FeatureGates) {}

    /// Before validation of a write to `/status`: takes over all but the status (and the metadata that the kind allows).
    fn prepare_status_update(&mut self, _old: &Self, _gates: &FeatureGates) {}

    /// All faults of a new object, without those of generic metadata, in upstream's order.
    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        Vec::new()
    }

    /// All faults of an update, without those of generic metadata.
    fn validate_update(&self, _old: &Self, gates: &FeatureGates) -> Vec<FieldError> {
        self.validate(gates)
    }

    /// All faults of a write to `/status`.
    fn validate_status_update(&self, _old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        Vec::new()
    }

    /// All faults of what a write to `/finalize` leaves, without those of generic metadata.
    fn validate_finalize(&self) -> Vec<FieldError> {
        Vec::new()
    }

    /// Texts for `Warning` headers; `old` is absent on create.
    fn warnings(&self, _old: Option<&Self>) -> Vec<String> {
        Vec::new()
    }

    /// Whether the spec differs, for [`GenerationRule`]. Only called where the rule is not `None`.
    fn spec_differs(&self, _old: &Self) -> bool {
        false
    }

    /// Before a write to `/finalize`: takes over all but the finalizers that are no metadata.
    fn prepare_finalize(&mut self, _old: &Self) {}

    /// Sets the times that the server keeps of it. `old`: what a write to `/status` changes; `None`: it is created.
    fn stamp(&mut self, _old: Option<&Self>, _now: &Time) {}

    /// What a deletion does to it before anything else, also where it is being deleted already.
    fn begin_deletion(&mut self, _now: &Time) {}

    /// Whether finalizers that are no metadata hold it.
    fn has_own_finalizers(&self) -> bool {
        false
    }

    /// How its end stands if it is to go within so many seconds, or within what it says itself.
    fn grace(&self, _seconds: Option<i64>) -> Grace {
        Grace::None
    }

    /// What `/scale` shows of it; `None`: it has no replicas.
    fn scale(&self) -> Option<Scaled<'_>> {
        None
    }

    /// What `/scale` changes of it.
    fn set_replicas(&mut self, _replicas: i32) {}

    /// The value of a field that field selectors may name (`status.phase`), as a selector has it; empty where the object does not have it. `None`: the kind
    /// does not say; its JSON does.
    fn selectable(&self, _field: &str) -> Option<Cow<'_, str>> {
        None
    }

    /// What a write to `/status` proposes that puts these members of the status of `part` in the place of its own: its metadata and that status. `None`:
    /// the kind does not know them all; then a patch does it.
    fn with_status(&self, _part: &Self, _members: &[&str]) -> Option<Self> {
        None
    }
}

/// An object whose kind is known only at run time: what it is, without its rules. Those are its [`ObjectStrategy`]. Every [`Kind`] is one, and so is an
/// object of a kind that is data.
///
/// Where a method takes a second object, it must be of the same kind. The registry only pairs objects that it read under one resource.
pub trait Object: ObjectStrategy + Any + Debug {
    /// `apps/v1`.
    fn api_version(&self) -> &str;
    /// `Deployment`.
    fn kind(&self) -> &str;
    /// Both together.
    fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::as_written(self.api_version(), self.kind())
    }
    /// (`apps`, `deployments`).
    fn resource(&self) -> GroupResource;
    /// Its metadata.
    fn meta(&self) -> &ObjectMeta;
    /// Its metadata, to change.
    fn meta_mut(&mut self) -> &mut ObjectMeta;
    /// Its JSON: `apiVersion` and `kind` first.
    fn encode(&self) -> Vec<u8>;
    /// Its JSON as a tree.
    fn to_value(&self) -> Value;
    /// Whether both are equal in every field.
    fn same_as(&self, other: &dyn Object) -> bool;
    /// A copy.
    fn clone_object(&self) -> Box<dyn Object>;
    /// For downcasts.
    fn as_any(&self) -> &dyn Any;
    /// For downcasts, to change.
    fn as_any_mut(&mut self) -> &mut dyn Any;
    /// For downcasts by value.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl dyn Object {
    /// The object as a `K`, if it is one.
    #[must_use]
    pub fn downcast_ref<K: Kind>(&self) -> Option<&K> {
        self.as_any().downcast_ref()
    }

    /// The object as a `K`, if it is one, to change.
    pub fn downcast_mut<K: Kind>(&mut self) -> Option<&mut K> {
        self.as_any_mut().downcast_mut()
    }
}

/// How much of [`SCRATCH`] is kept: more than nearly all objects need. What is larger is given as it is.
const SCRATCH_BYTES_MAX: usize = 64 << 10;

thread_local! {
    /// Where objects are encoded, so that what is given is as large as the object and nothing grows step by step.
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
