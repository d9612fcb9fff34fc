//! What the server says it serves: documents made from the resources that are served.
//!
//! Start with [`Resources::discovery`], whose documents are kept as long as nothing changes.

use crate::{
    document::{Discovery, Document, group_version},
    resource::{Resource, Resources, Subresource},
};
use berth_api::Scope;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The Kubernetes release whose API this is, as clients compare it.
pub(crate) const MAJOR: &str = "1";
pub(crate) const MINOR: &str = "36";
/// The oldest minor release whose clients and controllers can rely on this server.
const MIN_COMPATIBILITY_MINOR: &str = "33";

impl Resources {
    /// The documents of discovery. Made at the first call.
    #[must_use]
    pub fn discovery(&self) -> &Discovery {
        self.documents.discovery.get_or_init(|| made(self))
    }
}

fn made(resources: &Resources) -> Discovery {
    let of_group = |group: &str| (group.to_owned(), Document::new(&api_group(resources, group)));
    let of_version = |(group, version)| (group_version(group, version), Document::new(&resource_list(resources, group, version)));
    Discovery {
        root: Document::new(&root(resources)),
        groups: Document::new(&api_group_list(resources)),
        aggregated_core: Document::new(&aggregated_core(resources)),
        aggregated_groups: Document::new(&aggregated_groups(resources)),
        group: named_groups(resources).map(of_group).collect(),
        resource_lists: group_versions(resources).into_iter().map(of_version).collect(),
    }
}

/// `GET /version`. `gitVersion` is a semantic version, as kubectl insists.
#[must_use]
pub fn version_info() -> Value {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    json!({
        "major": MAJOR,
        "minor": MINOR,
        "emulationMajor": MAJOR,
        "emulationMinor": MINOR,
        "minCompatibilityMajor": MAJOR,
        "minCompatibilityMinor": MIN_COMPATIBILITY_MINOR,
        "gitVersion": format!("v{MAJOR}.{MINOR}.0+berth"),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{architecture}", std::env::consts::OS),
    })
}

/// `GET /api` without aggregation; `server_address` is `host:port`.
#[must_use]
pub fn api_versions(server_address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    })
}

/// Where one may look.
fn root(resources: &Resources) -> Value {
    let preferred = named_groups(resources).filter_map(|group| versions(resources, group).next().map(|version| (group, version)));
    let mut paths: Vec<String> =
        ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
            .map(ToOwned::to_owned)
            .into_iter()
            .chain(preferred.map(|(group, version)| format!("/apis/{group}/{version}")))
            .collect();
    paths.sort();
    json!({ "paths": paths })
}

fn api_group_list(resources: &Resources) -> Value {
    let groups: Vec<Value> = named_groups(resources).map(|group| group_entry(resources, group)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn api_group(resources: &Resources, group: &str) -> Value {
    let mut document = group_entry(resources, group);
    document["kind"] = json!("APIGroup");
    document["apiVersion"] = json!("v1");
    document
}

fn resource_list(resources: &Resources, group: &str, version: &str) -> Value {
    let entries: Vec<Value> = of_version(resources, group, version).flat_map(|resource| resource_entries(resource)).collect();
    let group_version = group_version(group, version);
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": entries})
}

fn aggregated_core(resources: &Resources) -> Value {
    aggregated(vec![aggregated_group(resources, "", json!({}))])
}

fn aggregated_groups(resources: &Resources) -> Value {
    aggregated(named_groups(resources).map(|group| aggregated_group(resources, group, json!({"name": group}))).collect())
}

/// Every group and version that is served: `v1`, `apps/v1`, …, in order of preference.
pub(crate) fn group_versions(resources: &Resources) -> Vec<(&str, &str)> {
    let mut all: Vec<_> = resources.all().iter().map(|r| (r.group.as_str(), r.version.as_str())).collect();
    all.dedup();
    all
}

/// What can be done with a subresource.
#[must_use]
pub fn subresource_verbs(subresource: Subresource) -> &'static [&'static str] {
    match subresource {
        Subresource::Status | Subresource::Scale => &["get", "patch", "update"],
        Subresource::Binding | Subresource::Eviction | Subresource::Token => &["create"],
        Subresource::Finalize => &["update"],
        Subresource::Log => &["get"],
    }
}

/// What can be done with a resource, sorted.
#[must_use]
pub fn verbs(resource: &Resource) -> &'static [&'static str] {
    match (resource.group.as_str(), resource.plural.as_str()) {
        _ if resource.is_review() => &["create"],
        _ if !resource.read_only.is_empty() => &["get", "list", "watch"],
        ("", "namespaces") => &["create", "delete", "get", "list", "patch", "update", "watch"],
        _ => &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
    }
}

/// All but core, in order of preference.
fn named_groups(resources: &Resources) -> impl Iterator<Item = &str> {
    let mut groups: Vec<&str> = resources.all().iter().map(|r| r.group.as_str()).filter(|group| !group.is_empty()).collect();
    groups.dedup();
    groups.into_iter()
}

/// In order of preference.
fn versions<'a>(resources: &'a Resources, group: &'a str) -> impl Iterator<Item = &'a str> {
    group_versions(resources).into_iter().filter(move |(g, _)| *g == group).map(|(_, version)| version)
}

fn of_version<'a>(resources: &'a Resources, group: &str, version: &str) -> impl Iterator<Item = &'a Arc<Resource>> {
    resources.all().iter().filter(move |r| r.group == group && r.version == version)
}

fn group_entry(resources: &Resources, group: &str) -> Value {
    let entry = |version| json!({"groupVersion": group_version(group, version), "version": version});
    let versions: Vec<Value> = versions(resources, group).map(entry).collect();
    json!({"name": group, "versions": versions, "preferredVersion": versions[0]})
}

/// The kind that a subresource speaks, where it is not the resource's own: group, version, kind.
fn subresource_kind(subresource: Subresource) -> Option<(&'static str, &'static str, &'static str)> {
    match subresource {
        Subresource::Scale => Some(("autoscaling", "v1", "Scale")),
        Subresource::Eviction => Some(("policy", "v1", "Eviction")),
        Subresource::Binding => Some(("", "v1", "Binding")),
        Subresource::Token => Some(("authentication.k8s.io", "v1", "TokenRequest")),
        Subresource::Status | Subresource::Finalize | Subresource::Log => None,
    }
}

fn resource_entries(resource: &Resource) -> Vec<Value> {
    let mut entry = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.scope == Scope::Namespaced,
        "kind": resource.kind,
        "verbs": verbs(resource),
    });
    insert_names(&mut entry, resource);
    let mut entries = vec![entry];
    entries.extend(resource.subresources.iter().map(|subresource| {
        let mut entry = json!({
            "name": format!("{}/{}", resource.plural, subresource.as_str()),
            "singularName": "",
            "namespaced": resource.scope == Scope::Namespaced,
            "kind": resource.kind,
            "verbs": subresource_verbs(*subresource),
        });
        if let Some((group, version, kind)) = subresource_kind(*subresource) {
            entry["kind"] = json!(kind);
            if (group, version) != (resource.group.as_str(), resource.version.as_str()) {
                entry["group"] = json!(group);
                entry["version"] = json!(version);
            }
        }
        entry
    }));
    entries
}

fn insert_names(entry: &mut Value, resource: &Resource) {
    for (key, names) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !names.is_empty() {
            entry[key] = json!(names);
        }
    }
}

fn aggregated(items: Vec<Value>) -> Value {
    let mut document = Map::new();
    document.insert("kind".to_owned(), json!("APIGroupDiscoveryList"));
    document.insert("apiVersion".to_owned(), json!("apidiscovery.k8s.io/v2"));
    document.insert("metadata".to_owned(), json!({}));
    document.insert("items".to_owned(), Value::Array(items));
    Value::Object(document)
}

fn aggregated_group(resources: &Resources, group: &str, metadata: Value) -> Value {
    let of = |version| {
        let entries: Vec<Value> = of_version(resources, group, version).map(|resource| aggregated_resource(resource)).collect();
        json!({"version": version, "freshness": "Current", "resources": entries})
    };
    let versions: Vec<Value> = versions(resources, group).map(of).collect();
    let mut item = json!({"versions": versions});
    item["metadata"] = metadata;
    item
}

fn aggregated_resource(resource: &Resource) -> Value {
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": {"group": "", "version": "", "kind": resource.kind},
        "scope": if resource.scope == Scope::Namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": verbs(resource),
    });
    insert_names(&mut entry, resource);
    let subresources: Vec<Value> = resource.subresources.iter().map(|s| aggregated_subresource(resource, *s)).collect();
    if !subresources.is_empty() {
        entry["subresources"] = Value::Array(subresources);
    }
    entry
}

/// An empty group and version mean the parent's.
fn aggregated_subresource(resource: &Resource, subresource: Subresource) -> Value {
    let (group, version, kind) = subresource_kind(subresource).unwrap_or(("", "", resource.kind.as_str()));
    json!({
        "subresource": subresource.as_str(),
        "responseKind": {"group": group, "version": version, "kind": kind},
        "verbs": subresource_verbs(subresource),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::built_in;

    #[test]
    fn groups_are_listed_with_their_versions() {
        let list = api_group_list(built_in());
        let names: Vec<&Value> = list["groups"].as_array().into_iter().flatten().map(|group| &group["name"]).collect();
        assert_eq!(
            names,
            [
                "apps",
                "events.k8s.io",
                "autoscaling",
                "networking.k8s.io",
                "policy",
                "rbac.authorization.k8s.io",
                "storage.k8s.io",
                "apiextensions.k8s.io",
                "scheduling.k8s.io",
                "coordination.k8s.io",
                "discovery.k8s.io",
                "authentication.k8s.io",
                "authorization.k8s.io"
            ]
        );
        let version = json!({"groupVersion": "apps/v1", "version": "v1"});
        assert_eq!(list["groups"][0], json!({"name": "apps", "versions": [version], "preferredVersion": version}));
        let apps = api_group(built_in(), "apps");
        assert_eq!((&apps["kind"], &apps["apiVersion"], &apps["preferredVersion"]), (&json!("APIGroup"), &json!("v1"), &version));
        assert!(built_in().discovery().group("apps").is_some());
        assert!(built_in().discovery().group("nope").is_none());
        assert!(built_in().discovery().group("").is_none());
    }

    #[test]
    fn the_legacy_document_of_core_names_the_server() {
        let document = api_versions("127.0.0.1:6443");
        assert_eq!(document["versions"], json!(["v1"]));
        assert_eq!(document["serverAddressByClientCIDRs"][0]["serverAddress"], "127.0.0.1:6443");
    }

    #[test]
    fn a_resource_list_holds_resources_and_subresources() {
        let list = resource_list(built_in(), "apps", "v1");
        assert_eq!((&list["kind"], &list["groupVersion"]), (&json!("APIResourceList"), &json!("apps/v1")));
        assert_eq!(
            list["resources"][0],
            json!({"name": "deployments", "singularName": "deployment", "namespaced": true, "kind": "Deployment",
                   "shortNames": ["deploy"], "categories": ["all"],
                   "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]})
        );
        assert_eq!(
            list["resources"][1],
            json!({"name": "deployments/scale", "singularName": "", "namespaced": true, "kind": "Scale", "group": "autoscaling",
                   "version": "v1", "verbs": ["get", "patch", "update"]})
        );
        assert_eq!(
            list["resources"][2],
            json!({"name": "deployments/status", "singularName": "", "namespaced": true, "kind": "Deployment",
                   "verbs": ["get", "patch", "update"]})
        );
        assert!(built_in().discovery().resource_list("apps", "v1beta1").is_none());
        assert!(built_in().discovery().resource_list("", "v1").is_some());
    }

    #[test]
    fn pods_can_be_bound_and_evicted_and_namespaces_not_be_deleted_in_bulk() {
        let core = resource_list(built_in(), "", "v1");
        let entry = |name: &str| {
            core["resources"].as_array().into_iter().flatten().find(|entry| entry["name"] == name).cloned().unwrap_or_default()
        };
        let eviction = entry("pods/eviction");
        assert_eq!((&eviction["group"], &eviction["version"], &eviction["kind"]), (&json!("policy"), &json!("v1"), &json!("Eviction")));
        let binding = entry("pods/binding");
        assert_eq!((&binding["group"], &binding["kind"], &binding["verbs"]), (&Value::Null, &json!("Binding"), &json!(["create"])));
        assert_eq!(entry("namespaces")["verbs"], json!(["create", "delete", "get", "list", "patch", "update", "watch"]));
        assert_eq!(entry("namespaces")["namespaced"], false);
    }

    #[test]
    fn aggregated_documents_say_the_same() {
        let core = aggregated_core(built_in());
        assert_eq!((&core["kind"], &core["apiVersion"]), (&json!("APIGroupDiscoveryList"), &json!("apidiscovery.k8s.io/v2")));
        assert_eq!(core["items"].as_array().map(Vec::len), Some(1));
        assert_eq!(core["items"][0]["metadata"], json!({}));
        let apps = &aggregated_groups(built_in())["items"][0];
        assert_eq!(apps["metadata"], json!({"name": "apps"}));
        let deployments = &apps["versions"][0]["resources"][0];
        assert_eq!(deployments["responseKind"], json!({"group": "", "version": "", "kind": "Deployment"}));
        assert_eq!(deployments["scope"], "Namespaced");
        assert_eq!(
            deployments["subresources"][0],
            json!({"subresource": "scale", "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                   "verbs": ["get", "patch", "update"]})
        );
        assert_eq!(deployments["subresources"][1]["responseKind"], json!({"group": "", "version": "", "kind": "Deployment"}));
    }

    #[test]
    fn the_version_is_semantic() {
        let version = version_info();
        assert_eq!((&version["major"], &version["minor"], &version["gitVersion"]), (&json!("1"), &json!("36"), &json!("v1.36.0+berth")));
        assert!(version.as_object().is_some_and(|fields| fields.values().all(Value::is_string)));
    }
}
