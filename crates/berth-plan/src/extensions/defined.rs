//! The kinds that exist: the built-in ones, and those of definitions.

use berth_api::Scope;
use berth_identity::{GroupVersionKind, GroupVersionResource};
use berth_registry::resource::built_in;
use serde_json::Value;
use std::collections::BTreeMap;

/// The kinds that definitions add.
#[derive(Clone, Debug, Default)]
pub(super) struct Defined(BTreeMap<(String, String), DefinedKind>);

#[derive(Clone, Debug)]
struct DefinedKind {
    plural: String,
    is_namespaced: bool,
    /// The served versions.
    versions: Vec<String>,
    storage: String,
    has_conversion_webhook: bool,
}

/// A kind that a forecast can use.
#[derive(Clone, Debug)]
pub(super) struct Served {
    pub(super) resource: GroupVersionResource,
    pub(super) is_namespaced: bool,
    /// Whether a definition adds it.
    pub(super) is_custom: bool,
}

impl Defined {
    /// Reads the definitions among these objects. The last one of a kind counts.
    pub(super) fn of<'o>(objects: impl Iterator<Item = &'o Value>) -> Self {
        let definitions =
            objects.filter(|object| object["kind"] == "CustomResourceDefinition" && object["apiVersion"] == "apiextensions.k8s.io/v1");
        Self(definitions.filter_map(read).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The resource of a kind that a forecast can use.
    pub(super) fn served(&self, kind: &GroupVersionKind) -> Option<Served> {
        if let Some(resource) = built_in().by_kind(kind) {
            let is_namespaced = resource.scope == Scope::Namespaced;
            return Some(Served { resource: resource.gvr(), is_namespaced, is_custom: false });
        }
        let known = self.kind(kind).filter(|known| known.versions.iter().any(|version| kind.version == version.as_str()))?;
        if self.unusable(kind).is_some() {
            return None;
        }
        let resource = GroupVersionResource::new(kind.group.as_str(), kind.version.as_str(), known.plural.as_str());
        Some(Served { resource, is_namespaced: known.is_namespaced, is_custom: true })
    }

    /// Why a forecast cannot use a kind that is defined, as a clause.
    pub(super) fn unusable(&self, kind: &GroupVersionKind) -> Option<String> {
        let known = self.kind(kind)?;
        if known.versions.iter().all(|version| kind.version != version.as_str()) {
            return Some(format!("the definition of kind {} of {} serves no version {}", kind.kind, kind.group, kind.version));
        }
        let is_converted = known.has_conversion_webhook && kind.version != known.storage.as_str();
        is_converted.then(|| format!("a webhook converts {} of {}, which plans do not call", kind.kind, kind.group_version()))
    }

    fn kind(&self, kind: &GroupVersionKind) -> Option<&DefinedKind> {
        self.0.get(&(kind.group.to_string(), kind.kind.to_string()))
    }
}

fn read(definition: &Value) -> Option<((String, String), DefinedKind)> {
    let spec = &definition["spec"];
    let text = |pointer: &str| spec.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let versions = || spec["versions"].as_array().into_iter().flatten();
    let name = |version: &Value| version["name"].as_str().map(str::to_owned);
    let kind = DefinedKind {
        plural: text("/names/plural")?,
        is_namespaced: spec["scope"] == "Namespaced",
        versions: versions().filter(|version| version["served"] == true).filter_map(name).collect(),
        storage: versions().find(|version| version["storage"] == true).and_then(name).unwrap_or_default(),
        has_conversion_webhook: spec["conversion"]["strategy"] == "Webhook",
    };
    Some(((text("/group")?, text("/names/kind")?), kind))
}
