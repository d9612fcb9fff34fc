//! What webhooks and policies read of a request: its objects in the versions that they match, and rights.

use crate::{AdmissionRequest, ApiError, Registry, Versions};
use berth_admission::{Constraints, Rights};
use berth_api::Object;
use berth_rbac::User;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::LazyLock};

/// The user of the server's own writes.
static SERVER: LazyLock<User> = LazyLock::new(|| User::authenticated("system:apiserver", &["system:masters".to_owned()]));

/// The documents of a request, in the versions that its reviewers match. Each one is made once, because a webhook may
/// convert it.
pub struct Documents<'a> {
    registry: &'a Registry,
    request: &'a AdmissionRequest<'a>,
    versions: &'a Versions<'a>,
    made: BTreeMap<usize, Made>,
}

/// The documents of a request in one version. An absent object is `null`.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The new object.
    pub object: Value,
    /// The stored object.
    pub old: Value,
    /// The request as AdmissionReview has it, without its uid and its objects. Empty members are absent.
    pub request: Value,
}

struct Made {
    shown: Shown,
    /// Whether the object has not changed since.
    is_current: bool,
}

impl<'a> Documents<'a> {
    /// Returns the documents of a request. None is made yet.
    #[must_use]
    pub fn of(registry: &'a Registry, request: &'a AdmissionRequest<'a>, versions: &'a Versions<'a>) -> Self {
        Self { registry, request, versions, made: BTreeMap::new() }
    }

    /// Returns the documents in the version at this place. `object` is the new object.
    ///
    /// # Errors
    /// A conversion fails.
    pub async fn read(&mut self, version: usize, object: Option<&dyn Object>) -> Result<&Shown, ApiError> {
        if !self.made.get(&version).is_some_and(|made| made.is_current) {
            let object = self.document(version, object).await?;
            let (old, request) = match self.made.remove(&version) {
                Some(Made { shown, .. }) => (shown.old, shown.request),
                None => (self.document(version, self.request.old).await?, self.request.described(self.versions, version)),
            };
            self.made.insert(version, Made { shown: Shown { object, old, request }, is_current: true });
        }
        Ok(&self.made[&version].shown)
    }

    /// Returns the documents that [`Documents::read`] returned for this version. `None`: it was not called.
    #[must_use]
    pub fn known(&self, version: usize) -> Option<&Shown> {
        self.made.get(&version).map(|made| &made.shown)
    }

    /// Records that the object has changed.
    pub fn object_changed(&mut self) {
        self.made.values_mut().for_each(|made| made.is_current = false);
    }

    async fn document(&self, version: usize, object: Option<&dyn Object>) -> Result<Value, ApiError> {
        let Some(object) = object else { return Ok(Value::Null) };
        let text = self.registry.document_of(self.request, object, self.versions.resource(version)).await?;
        serde_json::from_str(&text).map_err(|error| ApiError::Internal { message: error.to_string() })
    }
}

impl Registry {
    /// Returns the place of the version that the constraints of a reviewer match. `None`: they do not match.
    ///
    /// # Errors
    /// The namespace cannot be read.
    pub async fn matched_version(
        &self,
        constraints: &Constraints,
        request: &AdmissionRequest<'_>,
        versions: &Versions<'_>,
        object: Option<&dyn Object>,
    ) -> Result<Option<usize>, ApiError> {
        let seen = versions.request(request, object);
        let Some(form) = constraints.matched(&seen) else { return Ok(None) };
        let version = versions.index_of(form);
        if constraints.reads_namespace(&seen) {
            let labels = if seen.has_namespace_labels() {
                object.and_then(|object| object.meta().labels.clone()).unwrap_or_default()
            } else {
                self.namespace_labels(seen.namespace).await?
            };
            if !constraints.matches_namespace(Some(&labels)) {
                return Ok(None);
            }
        }
        Ok(Some(version))
    }

    /// Returns the rights of all users, for the questions of expressions about the author of a request.
    pub async fn rights(&self, request: &AdmissionRequest<'_>) -> Rights {
        Rights::new(request.author(), self.policy().await)
    }
}

impl AdmissionRequest<'_> {
    /// Returns the user of the request, or the server's.
    #[must_use]
    pub fn author(&self) -> &User {
        self.user.unwrap_or(&SERVER)
    }

    /// Returns a rejection of the request for this reason.
    #[must_use]
    pub fn forbidden(&self, why: &str) -> ApiError {
        ApiError::forbidden(self.resource, self.name, why, Vec::new())
    }

    fn described(&self, versions: &Versions<'_>, version: usize) -> Value {
        let seen = versions.request(self, None);
        let (matched, form) = (versions.form(version), seen.form);
        let User { name, uid, groups, extra } = self.author();
        let user = [("username", json!(name)), ("uid", json!(uid)), ("groups", json!(groups)), ("extra", json!(extra))];
        with_members([
            ("kind", json!({"group": matched.kind.group, "version": matched.kind.version, "kind": matched.kind.kind})),
            (
                "resource",
                json!({"group": matched.resource.group, "version": matched.resource.version, "resource": matched.resource.plural}),
            ),
            ("subResource", json!(seen.subresource)),
            ("requestKind", json!({"group": form.kind.group, "version": form.kind.version, "kind": form.kind.kind})),
            ("requestResource", json!({"group": form.resource.group, "version": form.resource.version, "resource": form.resource.plural})),
            ("requestSubResource", json!(seen.subresource)),
            ("name", json!(seen.name)),
            ("namespace", json!(seen.namespace)),
            ("operation", json!(seen.operation.as_str())),
            ("userInfo", with_members(user)),
            ("dryRun", json!(self.is_dry_run)),
            ("options", self.options_document()),
        ])
    }
}

/// Returns an object of the members that are not empty.
fn with_members<const N: usize>(members: [(&str, Value); N]) -> Value {
    let is_set = |value: &Value| match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Null => false,
        Value::Bool(_) | Value::Number(_) => true,
    };
    let set = members.into_iter().filter(|(_, value)| is_set(value));
    Value::Object(set.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}
