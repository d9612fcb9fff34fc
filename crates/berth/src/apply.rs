//! Applying a manifest from inside the process, as `kubectl apply` does from outside.

use crate::{
    manifests::Document,
    progress::{Output, chain},
};
use berth_registry::{ApiError, Configured, Registry, Resource, Target, WriteOptions};
use serde_json::Value;
use std::{collections::BTreeSet, fmt, sync::Arc};

/// What became of one document.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) resource: Arc<Resource>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) change: Configured,
    pub(crate) warnings: Vec<String>,
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = match self.change {
            Configured::Created => "created",
            Configured::Changed => "configured",
            Configured::Unchanged => "unchanged",
        };
        let dot = if self.resource.group.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{}/{} {change}", self.resource.singular, self.resource.group, self.name)
    }
}

/// Why a document was not applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    #[error("{place}: berth serves no {kind} of {api_version}")]
    UnknownKind { place: String, kind: String, api_version: String },
    #[error("{place} was refused")]
    Refused { place: String, source: ApiError },
}

impl ApplyError {
    /// Whether berth has no objects of this kind: the rest of the manifest can do without.
    pub(crate) fn is_unserved(&self) -> bool {
        matches!(self, Self::UnknownKind { .. } | Self::Refused { source: ApiError::NotServed { .. }, .. })
    }
}

/// The documents that were not applied.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    texts: Vec<String>,
    has_unserved: bool,
}

impl Faults {
    /// Adds a document's fault; one of a kind that is not served is only reported where `skips_unserved`.
    pub(crate) fn add(&mut self, error: &ApplyError, skips_unserved: bool, output: Output) {
        if error.is_unserved() && skips_unserved {
            return output.line(&format!("  skipped: {}", chain(error)));
        }
        self.has_unserved |= error.is_unserved();
        self.texts.push(chain(error));
    }

    /// All of them in one error; `registry` says which kinds are served.
    pub(crate) fn into_result(self, registry: &Registry) -> Result<(), String> {
        let Self { texts, has_unserved } = self;
        match &texts[..] {
            [] => return Ok(()),
            [one] if !has_unserved => return Err(one.clone()),
            _ => (),
        }
        let what = if texts.len() == 1 { "1 document was".to_owned() } else { format!("{} documents were", texts.len()) };
        let mut text = format!("{what} not applied; the rest is applied:\n  {}", texts.join("\n  "));
        if has_unserved {
            let kinds: BTreeSet<String> =
                registry.resources().stored().filter(|known| known.read_only.is_empty()).map(|known| known.kind.clone()).collect();
            let kinds: Vec<String> = kinds.into_iter().collect();
            text = format!("{text}\nberth serves {}. With --skip-unserved other kinds are left out", kinds.join(", "));
        }
        Err(text)
    }
}

/// Creates what is missing, changes what differs from the manifest, and removes what an earlier manifest set and this one does not.
pub(crate) async fn apply(registry: &Registry, document: &Document) -> Result<Applied, ApplyError> {
    let (api_version, kind) = (text(&document.object, "/apiVersion"), text(&document.object, "/kind"));
    let Some(resource) = registry.resources().by_kind(&api_version, &kind).cloned() else {
        return Err(ApplyError::UnknownKind { place: document.place.clone(), kind, api_version });
    };
    let namespace = (resource.scope == berth_api::Scope::Namespaced).then(|| match text(&document.object, "/metadata/namespace") {
        empty if empty.is_empty() => "default".to_owned(),
        named => named,
    });
    let target = Target { resource: Arc::clone(&resource), namespace, name: text(&document.object, "/metadata/name"), subresource: None };
    let refused = |source| ApplyError::Refused { place: document.place.clone(), source };
    let options = WriteOptions { field_manager: "berth-up".to_owned(), field_validation: "Strict".to_owned(), ..WriteOptions::default() };
    let (change, warnings) = registry.configure(&target, &document.object, &options).await.map_err(refused)?;
    Ok(Applied { resource, namespace: target.namespace, name: target.name, change, warnings })
}

fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}
