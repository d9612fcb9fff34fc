//! The kinds that a server serves, from its aggregated discovery (Kubernetes 1.26 and later).

use berth_api::Scope;
use berth_controllers::ServedKind;
use berth_identity::{GroupResource, GroupVersion};
use serde::Deserialize;

/// The media type of the documents.
pub(crate) const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// The paths of the core group and of all others.
pub(crate) const PATHS: [&str; 2] = ["/api", "/apis"];
/// The verbs that a kind needs, so that controllers can watch its objects and delete them.
const VERBS: [&str; 3] = ["list", "watch", "delete"];

/// An `APIGroupDiscoveryList`.
#[derive(Debug, Deserialize)]
pub(crate) struct Document {
    kind: String,
    #[serde(default)]
    items: Vec<Group>,
}

#[derive(Debug, Deserialize)]
struct Group {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Version {
    version: String,
    #[serde(default)]
    resources: Vec<Resource>,
    /// `Stale`: the server of this version did not respond.
    #[serde(default)]
    freshness: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    resource: String,
    response_kind: Option<ResponseKind>,
    scope: String,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct ResponseKind {
    kind: String,
}

impl Document {
    /// Whether the document has the requested form.
    pub(crate) fn is_aggregated(&self) -> bool {
        self.kind == "APIGroupDiscoveryList"
    }
}

/// Returns the kinds of these documents, in the server's order of preference. A version whose server does not respond
/// keeps its previous kinds.
pub(crate) fn kinds(documents: &[Document], before: &[ServedKind]) -> Vec<ServedKind> {
    let mut kinds = Vec::new();
    for group in documents.iter().flat_map(|document| &document.items) {
        for version in &group.versions {
            let name = GroupVersion::new(&group.metadata.name, &version.version);
            if version.freshness == "Stale" && version.resources.is_empty() {
                kinds.extend(before.iter().filter(|kind| kind.kind.group_version() == name).cloned());
            }
            kinds.extend(version.resources.iter().filter_map(|resource| served(&name, resource)));
        }
    }
    kinds
}

fn served(version: &GroupVersion, resource: &Resource) -> Option<ServedKind> {
    let kind = resource.response_kind.as_ref()?;
    let has = |verb: &&str| resource.verbs.iter().any(|known| known == verb);
    VERBS.iter().all(has).then(|| ServedKind {
        resource: GroupResource::new(&version.group, &resource.resource),
        kind: version.clone().with_kind(&kind.kind),
        scope: if resource.scope == "Namespaced" { Scope::Namespaced } else { Scope::Cluster },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn document(items: Value) -> Document {
        serde_json::from_value(json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items}))
            .expect("a document")
    }

    fn resource(plural: &str, kind: &str, scope: &str, verbs: &[&str]) -> Value {
        json!({"resource": plural, "responseKind": {"group": "", "version": "", "kind": kind}, "scope": scope, "verbs": verbs,
            "subresources": [{"subresource": "status", "verbs": ["get"]}]})
    }

    fn names(kinds: &[ServedKind]) -> Vec<String> {
        kinds
            .iter()
            .map(|kind| {
                let ServedKind { resource: GroupResource { group, plural }, kind, scope } = kind;
                format!("{} {plural}.{group} {} {scope:?}", kind.group_version(), kind.kind)
            })
            .collect()
    }

    const ALL: [&str; 4] = ["delete", "get", "list", "watch"];

    #[test]
    fn kinds_that_can_be_followed_are_returned_in_order_of_preference() {
        let core = document(json!([{"versions": [{"version": "v1", "freshness": "Current", "resources": [
            resource("pods", "Pod", "Namespaced", &ALL),
            resource("namespaces", "Namespace", "Cluster", &ALL),
            resource("bindings", "Binding", "Namespaced", &["create"]),
            resource("componentstatuses", "ComponentStatus", "Cluster", &["get", "list"]),
        ]}]}]));
        let rest = document(json!([{"metadata": {"name": "autoscaling"}, "versions": [
            {"version": "v2", "resources": [resource("horizontalpodautoscalers", "HorizontalPodAutoscaler", "Namespaced", &ALL)]},
            {"version": "v1", "resources": [resource("horizontalpodautoscalers", "HorizontalPodAutoscaler", "Namespaced", &ALL)]},
        ]}]));
        let wanted = [
            "v1 pods. Pod Namespaced",
            "v1 namespaces. Namespace Cluster",
            "autoscaling/v2 horizontalpodautoscalers.autoscaling HorizontalPodAutoscaler Namespaced",
            "autoscaling/v1 horizontalpodautoscalers.autoscaling HorizontalPodAutoscaler Namespaced",
        ];
        assert_eq!(names(&kinds(&[core, rest], &[])), wanted);
    }

    #[test]
    fn kinds_of_a_server_that_does_not_answer_stay_and_those_that_are_gone_go() {
        let group = |version: Value| document(json!([{"metadata": {"name": "metrics.example.com"}, "versions": [version]}]));
        let widgets = json!([resource("widgets", "Widget", "Namespaced", &ALL)]);
        let before = kinds(&[group(json!({"version": "v1", "freshness": "Current", "resources": widgets}))], &[]);
        assert_eq!(before.len(), 1);
        assert_eq!(kinds(&[group(json!({"version": "v1", "freshness": "Stale"}))], &before), before);
        assert_eq!(kinds(&[group(json!({"version": "v1", "freshness": "Current"}))], &before), []);
        assert_eq!(kinds(&[document(json!([]))], &before), []);
    }
}
