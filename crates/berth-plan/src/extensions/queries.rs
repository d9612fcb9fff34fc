//! What a caller reads from a cluster, besides [`crate::KINDS`], for the policies and the custom objects of a change.

use super::{
    defined::{Defined, Served},
    judged::{All, kind_of},
};
use crate::{
    change::Change,
    snapshot::{ADMISSION, DEFINING, SnapshotKind, SnapshotScope},
};
use berth_admission::ParamQuery;
use berth_identity::{GroupVersionKind, GroupVersionResource};
use serde_json::Value;
use std::collections::BTreeSet;

const fn admission(kind: &'static str, plural: &'static str) -> SnapshotKind {
    SnapshotKind {
        kind: GroupVersionKind::from_static(ADMISSION, "v1", kind),
        resource: GroupVersionResource::from_static(ADMISSION, "v1", plural),
        scope: SnapshotScope::Cluster,
        without: "assuming that admission policies and webhooks accept all objects and change none",
    }
}

/// The kinds of admission policies and webhooks, which belong to a snapshot's extensions.
pub static ADMISSION_KINDS: &[SnapshotKind] = &[
    admission("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
    admission("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    admission("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
    admission("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
    admission("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    admission("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
];

/// The definitions of kinds, which belong to a snapshot's extensions if [`needs_definitions`].
pub static DEFINITIONS: SnapshotKind = SnapshotKind {
    kind: GroupVersionKind::from_static(DEFINING, "v1", "CustomResourceDefinition"),
    resource: GroupVersionResource::from_static(DEFINING, "v1", "customresourcedefinitions"),
    scope: SnapshotScope::Cluster,
    without: "objects of custom kinds are not checked",
};

/// Objects that a forecast needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectQuery {
    /// Their kind.
    pub kind: GroupVersionKind,
    /// Their resource.
    pub resource: GroupVersionResource,
    /// `None`: they are cluster-scoped.
    pub namespace: Option<String>,
    /// Which ones.
    pub which: QueriedObjects,
}

/// Which objects a forecast needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueriedObjects {
    /// The object of this name, if it exists.
    Named(String),
    /// Those that a selector matches.
    Selected(String),
}

/// Whether the definitions of kinds are needed: the change or a policy names a kind that is not built in. `extensions` has the objects of
/// [`ADMISSION_KINDS`].
#[must_use]
pub fn needs_definitions(extensions: &[Value], change: &Change) -> bool {
    let built_in = Defined::default();
    let text = |object: &Value, member: &str| object[member].as_str().unwrap_or_default().to_owned();
    let kinds = change.manifests.iter().map(|object| GroupVersionKind::as_written(&text(object, "apiVersion"), &text(object, "kind")));
    let all = All::of(extensions.iter().chain(&change.manifests));
    let of_params = all.policies.iter().filter_map(|(_, policy)| policy.param_kind.as_ref().and_then(kind_of));
    kinds.chain(of_params).any(|kind| built_in.served(&kind).is_none())
}

/// The parameters of policies, and the existing objects of custom kinds that the change applies. Never Secrets. `extensions` has the objects of
/// [`ADMISSION_KINDS`] and [`DEFINITIONS`].
#[must_use]
pub fn object_queries(extensions: &[Value], change: &Change) -> BTreeSet<ObjectQuery> {
    let (defined, all) = (Defined::of(extensions.iter()), All::of(extensions.iter().chain(&change.manifests)));
    let mut queries = BTreeSet::new();
    for manifest in &change.manifests {
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let kind = GroupVersionKind::as_written(text("/apiVersion"), text("/kind"));
        if let Some(served) = defined.served(&kind).filter(|served| served.is_custom) {
            let namespace = served.is_namespaced.then(|| change.namespace_of(manifest).to_owned());
            let which = QueriedObjects::Named(text("/metadata/name").to_owned());
            queries.insert(ObjectQuery { kind, resource: served.resource, namespace, which });
        }
    }
    for (policy_kind, policy) in &all.policies {
        let Some(kind) = policy.param_kind.as_ref().and_then(kind_of) else { continue };
        let Some(Served { resource, is_namespaced, .. }) = defined.served(&kind) else { continue };
        if resource.group.is_empty() && resource.plural == "secrets" {
            continue;
        }
        for of in all.bindings_of(*policy_kind, policy).filter_map(|binding| binding.params.as_ref()) {
            for namespace in &change.namespaces() {
                let (namespace, which) = match of.query(is_namespaced, namespace) {
                    Ok(ParamQuery::One { namespace, name }) => (namespace, QueriedObjects::Named(name.to_owned())),
                    Ok(ParamQuery::Selected { namespace, selector }) => (namespace, QueriedObjects::Selected(selector.to_string())),
                    Ok(ParamQuery::Null) | Err(_) => continue,
                };
                let (kind, resource) = (kind.clone(), resource.clone());
                queries.insert(ObjectQuery { kind, resource, namespace: namespace.map(str::to_owned), which });
            }
        }
    }
    queries
}
