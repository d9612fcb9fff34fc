//! Applies a manifest to an object, as `kubectl apply` does from outside.

use crate::{
    Actor, ApiError, Body, Collection, Current, GetOptions, Patch, Registry, Target, WriteOptions, ownership::last_applied_fits, patch,
};
use berth_api::annotations::LAST_APPLIED_CONFIGURATION as LAST_APPLIED;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The result for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Configured {
    /// The object did not exist.
    Created,
    /// It differed from the manifest.
    Changed,
    /// The object was equal to the manifest.
    Unchanged,
}

/// The fields of a manifest that are set on an existing object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestFields {
    /// All, as `kubectl apply` does.
    All,
    /// The fields that differ from the last applied manifest. Later changes by others to the rest are kept.
    Changed,
}

/// The result of a manifest.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The kind of change.
    pub change: Configured,
    /// The object before, or `None` if it was created.
    pub before: Option<Value>,
    /// The current object.
    pub after: Value,
    /// The object with all fields of the manifest, if that differs.
    pub by_manifest: Option<Value>,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

impl Registry {
    /// Creates the object if it is missing. Otherwise sets these fields of the manifest, and removes fields that an
    /// earlier manifest set and this one does not.
    ///
    /// # Errors
    /// Those of get, create and patch.
    pub async fn configure(
        &self,
        actor: &Actor,
        target: &Target,
        manifest: &Value,
        fields: ManifestFields,
        options: &WriteOptions,
    ) -> Result<Configuration, ApiError> {
        let Manifest { plain, wanted } = Manifest::of(manifest, target.namespace.as_deref());
        let live = match self.get(target, &GetOptions::default()).await {
            Ok(live) => value(live)?,
            Err(ApiError::NotFound { .. }) => {
                let at = Collection { resource: Arc::clone(&target.resource), namespace: target.namespace.clone() };
                let written = self.create(actor, &at, Body::Json(wanted.to_string().into_bytes()), options).await?;
                let (after, warnings) = (value(written.object)?, written.warnings);
                return Ok(Configuration { change: Configured::Created, before: None, after, by_manifest: None, warnings });
            }
            Err(error) => return Err(error),
        };
        let last = last_applied(&live);
        let mut change = match fields {
            ManifestFields::All => patch::three_way_merge(&last, &wanted, &live),
            ManifestFields::Changed if last == plain => json!({}),
            ManifestFields::Changed => patch::three_way_merge(&live, &patch::merge_changes(&last, &wanted, &live), &live),
        };
        let is_annotated = |object: &Value| !object["metadata"]["annotations"][LAST_APPLIED].is_null();
        if is_annotated(&live) && !is_annotated(&wanted) {
            change["metadata"]["annotations"][LAST_APPLIED] = Value::Null;
        }
        let (change, after, warnings) = match is_empty(&change) {
            true => (Configured::Unchanged, live.clone(), Vec::new()),
            false => {
                let written = self.patch(actor, target, Patch::Merge(change.to_string().into_bytes()), options).await?;
                (Configured::Changed, value(written.object)?, written.warnings)
            }
        };
        let by_manifest = match fields {
            ManifestFields::All => None,
            ManifestFields::Changed => self.by_manifest(actor, target, &plain, &after, options).await,
        };
        Ok(Configuration { change, before: Some(live), after, by_manifest, warnings })
    }

    /// Returns the object with all fields of the manifest. This is a dry run, because only the server knows which forms
    /// of a value are equal. `None`: the object is the same, or the server would reject it.
    async fn by_manifest(&self, actor: &Actor, target: &Target, plain: &Value, live: &Value, options: &WriteOptions) -> Option<Value> {
        let change = patch::three_way_merge(plain, plain, live);
        if is_empty(&change) {
            return None;
        }
        let options = WriteOptions { dry_run: vec!["All".to_owned()], ..options.clone() };
        let written = self.patch(actor, target, Patch::Merge(change.to_string().into_bytes()), &options).await.ok()?;
        value(written.object).ok()
    }
}

fn is_empty(patch: &Value) -> bool {
    patch.as_object().is_some_and(Map::is_empty)
}

fn value(object: Current) -> Result<Value, ApiError> {
    match object {
        Current::Stored(entry) => serde_json::from_slice(&entry.value).map_err(|error| ApiError::Internal { message: error.to_string() }),
        Current::Made(value) => Ok(value),
    }
}

/// A manifest in the two forms that an apply needs.
struct Manifest {
    /// The form in the annotation. It equals kubectl's byte for byte: with the namespace, and with a map of annotations
    /// even if it is empty. An apply of the same manifest by kubectl then reports `unchanged`.
    plain: Value,
    /// The manifest with the annotation from which the next apply, by berth or kubectl, knows the fields of this one. Some
    /// CustomResourceDefinitions are too large for it: fields that a later manifest omits then stay.
    wanted: Value,
}

impl Manifest {
    fn of(manifest: &Value, namespace: Option<&str>) -> Self {
        let mut plain = manifest.clone();
        let metadata = &mut plain["metadata"];
        if let Some(namespace) = namespace {
            metadata["namespace"] = json!(namespace);
        }
        match metadata["annotations"].as_object_mut() {
            Some(annotations) => drop(annotations.remove(LAST_APPLIED)),
            None => metadata["annotations"] = json!({}),
        }
        let (mut wanted, text) = (plain.clone(), format!("{plain}\n"));
        if let Some(annotations) =
            wanted["metadata"]["annotations"].as_object_mut().filter(|annotations| last_applied_fits(annotations, &text))
        {
            annotations.insert(LAST_APPLIED.to_owned(), text.into());
        }
        Self { plain, wanted }
    }
}

fn last_applied(live: &Value) -> Value {
    live["metadata"]["annotations"][LAST_APPLIED].as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null)
}
