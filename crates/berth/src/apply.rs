//! Applies a manifest inside the process, as `kubectl apply` does from outside.

use crate::{
    manifests::Document,
    progress::{Output, chain},
};
use berth_api::annotations::LAST_APPLIED_CONFIGURATION;
use berth_chart::one_line;
use berth_follow::difference::{Difference, differences};
use berth_identity::{ApiName, GroupKind, GroupVersionKind};
use berth_registry::{Actor, ApiError, Configuration, Configured, ManifestFields, Registry, Resource, Target, WriteOptions};
use berth_workloads::resources::NAMESPACES;
use serde_json::{Value, json};
use std::{collections::BTreeSet, fmt, sync::Arc};

/// The result for one document.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) resource: Arc<Resource>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) change: Configured,
    pub(crate) warnings: Vec<String>,
    /// The manifest's changes of an existing object.
    changes: Vec<Difference>,
    /// Differences between the object and a manifest that has not changed since it was last applied.
    kept: Vec<Difference>,
}

/// How many differences berth prints for one object.
const DIFFERENCES_MAX: usize = 10;
/// How much of a value berth prints, in terminal columns.
const VALUE_COLUMNS_MAX: usize = 60;

impl Applied {
    /// `deployment.apps/web`
    pub(crate) fn title(&self) -> String {
        format!("{}/{}", GroupKind::new(self.resource.group(), &self.resource.names().singular), self.name)
    }

    /// The lines to print for the object: its name, the changes, and the values that remain although the manifest differs.
    pub(crate) fn lines(&self) -> Vec<String> {
        let changes = self
            .changes
            .iter()
            .map(|change| format!("  {}: {} -> {}", change.path, self.shown(change.from.as_ref()), self.shown(change.to.as_ref())));
        let kept = self.kept.iter().map(|kept| {
            format!("  {} stays {}; the unchanged manifest has {}", kept.path, self.shown(kept.from.as_ref()), self.shown(kept.to.as_ref()))
        });
        let warnings = self.warnings.iter().map(|warning| format!("  warning: {warning}"));
        [self.to_string()].into_iter().chain(some(changes)).chain(some(kept)).chain(warnings).collect()
    }

    /// Whether the object keeps values that differ from the manifest.
    pub(crate) fn keeps(&self) -> bool {
        !self.kept.is_empty()
    }

    fn shown(&self, value: Option<&Value>) -> String {
        match value {
            None => "unset".to_owned(),
            // Terminals can be recorded, and many users can read CI logs.
            Some(_) if self.resource.kind() == "Secret" => "(not shown)".to_owned(),
            Some(Value::String(text)) if !text.is_empty() && !text.contains(char::is_control) => one_line(text, VALUE_COLUMNS_MAX),
            Some(other) => one_line(&other.to_string(), VALUE_COLUMNS_MAX),
        }
    }
}

/// The first lines, and the number of the remaining ones.
fn some(lines: impl ExactSizeIterator<Item = String>) -> impl Iterator<Item = String> {
    let more = lines.len().saturating_sub(DIFFERENCES_MAX);
    lines.take(DIFFERENCES_MAX).chain((0 < more).then(|| format!("  and {more} more")))
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = match self.change {
            Configured::Created => "created",
            Configured::Changed => "configured",
            Configured::Unchanged => "unchanged",
        };
        write!(f, "{} {change}", self.title())
    }
}

/// Why a document was not applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    #[error("{place}: berth serves no {} of {}", kind.kind, kind.group_version())]
    UnknownKind { place: String, kind: GroupVersionKind },
    #[error("{place} was rejected")]
    Refused { place: String, source: ApiError },
}

impl ApplyError {
    /// Whether berth does not serve this kind. The rest of the manifest does not depend on it.
    pub(crate) fn is_unserved(&self) -> bool {
        matches!(self, Self::UnknownKind { .. } | Self::Refused { source: ApiError::NotServed { .. }, .. })
    }
}

impl ApplyError {
    fn lacks_namespace(&self) -> bool {
        let source = if let Self::Refused { source, .. } = self { Some(source) } else { None };
        matches!(source, Some(ApiError::NotFound { resource, .. }) if *resource == NAMESPACES)
    }
}

/// The documents that were not applied.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    texts: Vec<String>,
    has_unserved: bool,
}

impl Faults {
    /// Adds a document's fault. Where `skips_unserved`, only reports the fault of a kind that is not served.
    pub(crate) fn add(&mut self, error: &ApplyError, skips_unserved: bool, output: Output) {
        if error.is_unserved() && skips_unserved {
            return output.line(&format!("  skipped: {}", chain(error)));
        }
        self.has_unserved |= error.is_unserved();
        let hint = if error.lacks_namespace() { ": add the Namespace to the manifests, before its objects" } else { "" };
        self.texts.push(chain(error) + hint);
    }

    /// All of them in one error. `registry` has the served kinds.
    pub(crate) fn into_result(self, registry: &Registry) -> Result<(), String> {
        let Self { texts, has_unserved } = self;
        match &texts[..] {
            [] => return Ok(()),
            [one] if !has_unserved => return Err(one.clone()),
            _ => (),
        }
        let what = if texts.len() == 1 { "1 document was".to_owned() } else { format!("{} documents were", texts.len()) };
        let mut text = format!("{what} not applied. The others are applied:\n  {}", texts.join("\n  "));
        if has_unserved {
            let kinds: BTreeSet<ApiName> =
                registry.resources().stored().filter(|known| known.read_only.is_empty()).map(|known| known.kind().clone()).collect();
            let kinds: Vec<&str> = kinds.iter().map(ApiName::as_str).collect();
            text = format!("{text}\nberth serves {}. --skip-unserved skips other kinds", kinds.join(", "));
        }
        Err(text)
    }
}

/// Creates missing objects. In existing objects, changes only what differs from the last applied manifest, so that a rollout in progress
/// continues.
pub(crate) async fn apply(registry: &Registry, document: &Document) -> Result<Applied, ApplyError> {
    let kind = GroupVersionKind::as_written(&text(&document.object, "/apiVersion"), &text(&document.object, "/kind"));
    let Some(resource) = registry.resources().by_kind(&kind).cloned() else {
        return Err(ApplyError::UnknownKind { place: document.place.clone(), kind });
    };
    let namespace = (resource.scope == berth_api::Scope::Namespaced).then(|| match text(&document.object, "/metadata/namespace") {
        empty if empty.is_empty() => "default".to_owned(),
        named => named,
    });
    let target = Target { resource: Arc::clone(&resource), namespace, name: text(&document.object, "/metadata/name"), subresource: None };
    let refused = |source| ApplyError::Refused { place: document.place.clone(), source };
    let options = WriteOptions { field_manager: "berth-up".to_owned(), field_validation: "Strict".to_owned(), ..WriteOptions::default() };
    let configured =
        registry.configure(&Actor::System, &target, &document.object, ManifestFields::Changed, &options).await.map_err(refused)?;
    let Configuration { change, before, after, by_manifest, warnings } = configured;
    let changes = before.map_or_else(Vec::new, |before| differences(&specified(&before), &specified(&after)));
    let kept = by_manifest.map_or_else(Vec::new, |wanted| differences(&specified(&after), &specified(&wanted)));
    Ok(Applied { resource, namespace: target.namespace, name: target.name, change, warnings, changes, kept })
}

/// The part of an object that a manifest may specify.
fn specified(object: &Value) -> Value {
    let mut specified = object.clone();
    let metadata = ["labels", "annotations", "finalizers", "ownerReferences"];
    let kept = metadata.iter().filter_map(|key| Some(((*key).to_owned(), object["metadata"].get(*key)?.clone())));
    specified["metadata"] = Value::Object(kept.collect());
    if let Some(annotations) = specified.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED_CONFIGURATION);
    }
    specified["status"] = json!(null);
    specified
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}
