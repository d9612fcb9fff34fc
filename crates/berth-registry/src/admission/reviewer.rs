//! The interface of reviewers, such as webhooks, and the request that they get.

use super::{Operation, Remarks};
use crate::{ApiError, BoxObject, RequestOptions, Resource, Resources, Subresource, stored};
use berth_admission::Reinvocation;
use berth_api::{
    Object,
    decode::decode,
    k8s_openapi::api::{autoscaling::v1::Scale, core::v1::Binding, policy::v1::Eviction},
};
use berth_identity::GroupVersionKind;
use berth_rbac::User;
use berth_store::Revision;
use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use std::{error::Error, sync::Arc};

/// A reviewer of writes, which may take long. No lock and no charge is held during its calls.
///
/// The chain calls [`Reviewer::validate`] once per attempt of a write, after the server's own plug-ins. It calls
/// [`Reviewer::mutate`] a second time if a reviewer or a plug-in changed the object after a reviewer. Writes are
/// creates, updates and deletions, also through a subresource. An eviction's changes of the pod and its budget are not
/// reviewed.
pub trait Reviewer: Send + Sync {
    /// Whether this reviewer can have remarks about the request. Cheap: the chain calls it for every write, and
    /// makes no copy of the object if the answer is no.
    fn may_review(&self, _stage: Stage, _request: &AdmissionRequest<'_>) -> bool {
        true
    }

    /// Changes the object, rejects the write or adds warnings. The object's identity cannot be changed. `object` is
    /// absent for a deletion, which can only be rejected. `reinvocation` decides which hooks the second round calls.
    fn mutate<'a>(
        &'a self,
        request: &'a AdmissionRequest<'_>,
        object: Option<&'a mut BoxObject>,
        reinvocation: &'a mut Reinvocation,
    ) -> BoxFuture<'a, Result<Remarks, ApiError>>;

    /// Rejects the write or adds warnings. The object has its stored form, except for its owners and a Service's
    /// allocations.
    fn validate<'a>(
        &'a self,
        request: &'a AdmissionRequest<'_>,
        object: Option<&'a dyn Object>,
    ) -> BoxFuture<'a, Result<Remarks, ApiError>>;
}

/// The stage of admission in which a reviewer is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// [`Reviewer::mutate`].
    Mutate,
    /// [`Reviewer::validate`].
    Validate,
}

/// A write under review.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionRequest<'a> {
    /// The operation.
    pub operation: Operation,
    /// The resource of the object.
    pub resource: &'a Resource,
    /// The subresource. `None`: the object itself. With a subresource, the object has its kind: a `Scale`, a `Binding`,
    /// an `Eviction`.
    pub subresource: Option<Subresource>,
    /// `None` for cluster-scoped objects.
    pub namespace: Option<&'a str>,
    /// The object's name, also if it was generated. If the name exists, the server may generate another one later.
    pub name: &'a str,
    /// Whether it is a dry run, which must have no side effects.
    pub is_dry_run: bool,
    /// The user of the request. `None`: the server itself, or an administrator.
    pub caller: Option<&'a User>,
    /// The user of the request, with all rights or not. `None`: the server itself.
    pub user: Option<&'a User>,
    /// The options of the request.
    pub options: RequestOptions<'a>,
    /// The stored object of an update or a deletion.
    pub old: Option<&'a dyn Object>,
    /// The revision of the stored object.
    pub resource_version: Option<Revision>,
}

impl AdmissionRequest<'_> {
    /// Returns the options as reviews show them: `CreateOptions`, `UpdateOptions` or `DeleteOptions`. A patch has those
    /// of an update, as upstream.
    #[must_use]
    pub fn options_document(&self) -> Value {
        let kind = match self.operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
        };
        let mut document = Map::from_iter([("kind".to_owned(), json!(kind)), ("apiVersion".to_owned(), json!("meta.k8s.io/v1"))]);
        let mut set = |name: &str, value: Value| {
            let is_absent = match &value {
                Value::Null => true,
                Value::String(text) => text.is_empty(),
                Value::Array(items) => items.is_empty(),
                Value::Object(members) => members.is_empty(),
                Value::Bool(_) | Value::Number(_) => false,
            };
            if !is_absent {
                document.insert(name.to_owned(), value);
            }
        };
        match self.options {
            RequestOptions::None => (),
            RequestOptions::Write(options) => {
                set("dryRun", json!(options.dry_run));
                set("fieldManager", json!(options.field_manager));
                set("fieldValidation", json!(options.field_validation));
            }
            RequestOptions::Delete(options) => {
                set("gracePeriodSeconds", json!(options.grace_period_seconds));
                let precondition = &options.precondition;
                let of_object = [("uid", &precondition.uid), ("resourceVersion", &precondition.resource_version)];
                let preconditions: Map<String, Value> =
                    of_object.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?)))).collect();
                set("preconditions", Value::Object(preconditions));
                set("orphanDependents", json!(options.orphan_dependents));
                set("propagationPolicy", json!(options.propagation_policy));
                set("dryRun", json!(options.dry_run));
            }
        }
        Value::Object(document)
    }
}

impl AdmissionRequest<'_> {
    /// Returns the resource in its other served versions, also of other groups: all have the same stored objects.
    #[must_use]
    pub fn equivalents<'r>(&self, resources: &'r Resources) -> Vec<&'r Arc<Resource>> {
        let is_other = |other: &&Arc<Resource>| other.prefix() == self.resource.prefix() && other.gvr() != self.resource.gvr();
        resources.stored().filter(is_other).collect()
    }

    /// Returns the kind of the request's object in this version of the resource.
    #[must_use]
    pub fn kind_in(&self, version: &Resource) -> GroupVersionKind {
        self.subresource.and_then(Subresource::gvk).unwrap_or_else(|| version.gvk().clone())
    }

    /// Returns the JSON of an object of this request in this version of the resource. The stored object, and what an
    /// update makes of it, have its resource version.
    ///
    /// # Errors
    /// The conversion fails.
    pub fn document(&self, object: &dyn Object, version: &Resource) -> Result<String, ApiError> {
        let mut object = object.clone_object();
        object.meta_mut().resource_version.clone_from(&self.resource_version.map(|revision| revision.to_string()));
        if self.is_own(version) {
            return text(object.encode());
        }
        let resource_version = object.meta_mut().resource_version.take();
        let stored = stored::encode(self.resource, &*object)?;
        let mut object = version.rules.decode_stored(&shown(version, stored)?).map_err(|error| internal(&error))?;
        object.meta_mut().resource_version = resource_version;
        text(object.encode())
    }

    /// Reads a changed [`AdmissionRequest::document`].
    ///
    /// # Errors
    /// It is no object of the kind, or the conversion fails.
    pub fn read(&self, document: Value, version: &Resource) -> Result<BoxObject, ApiError> {
        let kind = self.kind_in(version);
        let found = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
        if !kind.is_written(found("apiVersion"), found("kind")) {
            let message = format!("no kind {:?} of version {:?} can take the place of {kind}", found("kind"), found("apiVersion"));
            return Err(ApiError::Internal { message });
        }
        let mut object: BoxObject = match self.subresource {
            Some(Subresource::Scale) => Box::new(decode::<Scale>(document).map_err(|error| internal(&error))?.0),
            Some(Subresource::Eviction) => Box::new(decode::<Eviction>(document).map_err(|error| internal(&error))?.0),
            Some(Subresource::Binding) => Box::new(decode::<Binding>(document).map_err(|error| internal(&error))?.0),
            _ => version.rules.decode(document).map_err(|error| internal(&error))?.object,
        };
        object.meta_mut().resource_version = None;
        if self.is_own(version) {
            return Ok(object);
        }
        let stored = stored::encode(version, &*object)?;
        self.resource.rules.decode_stored(&shown(self.resource, stored)?).map_err(|error| internal(&error))
    }

    /// Restores the metadata that only the server sets.
    pub fn restore_identity(&self, object: &mut dyn Object, before: &dyn Object) {
        let (meta, before) = (object.meta_mut(), before.meta());
        meta.name.clone_from(&before.name);
        meta.generate_name.clone_from(&before.generate_name);
        meta.namespace.clone_from(&before.namespace);
        meta.uid.clone_from(&before.uid);
        meta.resource_version.clone_from(&before.resource_version);
        meta.creation_timestamp.clone_from(&before.creation_timestamp);
        meta.deletion_timestamp.clone_from(&before.deletion_timestamp);
        meta.deletion_grace_period_seconds = before.deletion_grace_period_seconds;
        meta.generation = before.generation;
        meta.self_link.clone_from(&before.self_link);
        meta.managed_fields.clone_from(&before.managed_fields);
    }

    /// Whether the request's objects have this form already.
    pub(crate) fn is_own(&self, version: &Resource) -> bool {
        version.gvr() == self.resource.gvr() || self.subresource.and_then(Subresource::gvk).is_some()
    }
}

fn shown(version: &Resource, stored: Bytes) -> Result<Bytes, ApiError> {
    let Some(form) = &version.stored_form else { return Ok(stored) };
    Ok(form.show(&stored).map_err(|error| internal(&error))?.unwrap_or(stored))
}

fn text(json: Vec<u8>) -> Result<String, ApiError> {
    String::from_utf8(json).map_err(|error| internal(&error))
}

fn internal(error: &dyn Error) -> ApiError {
    ApiError::Internal { message: error.to_string() }
}
