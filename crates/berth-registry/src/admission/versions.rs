//! The versions in which reviewers see the objects of a request.

use super::{Operation, reviewer::AdmissionRequest};
use crate::{
    Resource, Resources, Subresource, ownership,
    patch::{self, JsonPatchError},
};
use berth_admission::{Form, Request};
use berth_api::Object;
use serde_json::Value;

/// The versions in which the objects of a request can be shown. The first one is the requested one.
#[derive(Debug)]
pub struct Versions<'r> {
    resources: Vec<&'r Resource>,
    forms: Vec<Form>,
}

impl<'r> Versions<'r> {
    /// Returns those of a request.
    #[must_use]
    pub fn of(request: &AdmissionRequest<'r>, all: &'r Resources) -> Self {
        let others = request.equivalents(all).into_iter().map(|resource| &**resource);
        let resources: Vec<&Resource> = std::iter::once(request.resource).chain(others).collect();
        let forms = resources.iter().map(|version| Form { resource: version.gvr(), kind: request.kind_in(version) }).collect();
        Self { resources, forms }
    }

    /// Returns the place of a form.
    #[must_use]
    pub fn index_of(&self, form: &Form) -> usize {
        self.forms.iter().position(|own| own == form).unwrap_or_default()
    }

    /// Returns the resource at a place.
    #[must_use]
    pub fn resource(&self, index: usize) -> &'r Resource {
        self.resources[index]
    }

    /// Returns the form at a place.
    #[must_use]
    pub fn form(&self, index: usize) -> &Form {
        &self.forms[index]
    }

    /// Returns the request as rules and selectors see it.
    #[must_use]
    pub fn request<'a>(&'a self, request: &AdmissionRequest<'a>, object: Option<&'a dyn Object>) -> Request<'a> {
        let form = &self.forms[0];
        let is_namespace = form.resource.plural == "namespaces" && form.resource.group.is_empty();
        Request {
            operation: request.operation.into(),
            form,
            equivalents: &self.forms[1..],
            subresource: request.subresource.map(Subresource::as_str).unwrap_or_default(),
            namespace: if is_namespace { request.name } else { request.namespace.unwrap_or_default() },
            name: request.name,
            labels: object.map(|object| object.meta().labels.as_ref()),
            old_labels: request.old.map(|old| old.meta().labels.as_ref()),
        }
    }
}

impl From<Operation> for berth_admission::Operation {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Create => Self::Create,
            Operation::Update => Self::Update,
            Operation::Delete => Self::Delete,
        }
    }
}

/// Why a reviewer's change does not fit an object.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The change is not possible, in upstream's words.
    #[error("{0}")]
    Unfit(String),
    /// A test of a patch failed: the object stays as it was.
    #[error("a test of the patch failed")]
    TestFailed,
}

impl AdmissionRequest<'_> {
    /// Returns the document of an object with the fields of an apply configuration, merged as by server-side apply.
    ///
    /// # Errors
    /// [`ChangeError::Unfit`].
    ///
    /// Source: upstream `apiserver/pkg/admission/plugin/policy/mutating/patch/smd.go`.
    pub fn merged(&self, document: &Value, fields: &Value, version: &Resource) -> Result<Value, ChangeError> {
        if self.subresource.and_then(Subresource::gvk).is_some() {
            // The kinds of subresources have no lists and no atomic parts.
            return Ok(patch::merge(document.clone(), fields));
        }
        let mut fields = fields.clone();
        // The kind and the identity of the object stay.
        for member in ["apiVersion", "kind"] {
            if let Some(value) = document.get(member) {
                fields[member] = value.clone();
            }
        }
        ownership::merged(version, document, &fields).map_err(|why| ChangeError::Unfit(format!("error applying patch: {why}")))
    }

    /// Returns the document of an object after the operations of a JSON patch.
    ///
    /// # Errors
    /// An operation does not fit.
    pub fn patched(&self, document: &Value, operations: &[Value]) -> Result<Value, ChangeError> {
        let operations = Value::from(operations).to_string();
        patch::json_with_reason(document, operations.as_bytes()).map_err(|error| match error {
            JsonPatchError::Misfit(misfit) if misfit.is_failed_test => ChangeError::TestFailed,
            error => ChangeError::Unfit(format!("JSON Patch: {error}")),
        })
    }
}
