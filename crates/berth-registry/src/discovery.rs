//! Discovery: documents that list the served resources.
//!
//! Start with [`Resources::discovery`], which caches the documents until the resources change. Their types are in
//! [`wire`].

mod wire;

use crate::{
    document::{Discovery, Document},
    resource::{Resource, Resources, Subresource},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use berth_api::Scope;
use berth_identity::{ApiName, GroupVersion, GroupVersionKind};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
pub use wire::VersionInfo;
use wire::{
    ApiGroup, ApiGroupList, ApiResource, ApiResourceList, ApiVersions, DiscoveredGroup, DiscoveredMetadata, DiscoveredResource,
    DiscoveredSubresource, DiscoveredVersion, DiscoveryList, GroupVersionForDiscovery, ResponseKind, ServerAddress,
};

/// The Kubernetes release whose API this is, for clients that compare versions.
pub(crate) const MAJOR: &str = "1";
pub(crate) const MINOR: &str = "36";
/// The oldest minor release whose clients and controllers can rely on this server.
const MIN_COMPATIBILITY_MINOR: &str = "35";

impl Resources {
    /// Returns the documents of discovery. The first call builds them.
    #[must_use]
    pub fn discovery(&self) -> &Discovery {
        self.documents.discovery.get_or_init(|| made(self))
    }
}

fn made(resources: &Resources) -> Discovery {
    let of_group = |group: ApiName| (group.to_string(), Document::line(&api_group(resources, &group)));
    let of_version = |version: GroupVersion| {
        let document = Document::line(&resource_list(resources, &version));
        (version, document)
    };
    Discovery {
        root: Document::new(&root(resources)),
        groups: Document::line(&api_group_list(resources)),
        aggregated_core: Document::line(&aggregated_core(resources)),
        aggregated_groups: Document::line(&aggregated_groups(resources)),
        group: named_groups(resources).map(of_group).collect(),
        resource_lists: group_versions(resources).into_iter().map(of_version).collect(),
    }
}

/// Returns `GET /version`. `gitVersion` is a semantic version, as kubectl requires.
#[must_use]
pub fn version_info() -> VersionInfo {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    VersionInfo {
        major: MAJOR,
        minor: MINOR,
        emulation_major: MAJOR,
        emulation_minor: MINOR,
        min_compatibility_major: MAJOR,
        min_compatibility_minor: MIN_COMPATIBILITY_MINOR,
        git_version: format!("v{MAJOR}.{MINOR}.0+berth"),
        git_commit: "",
        git_tree_state: "clean",
        build_date: "1970-01-01T00:00:00Z",
        go_version: "",
        compiler: "rustc",
        platform: format!("{}/{architecture}", std::env::consts::OS),
    }
}

/// Returns [`version_info`] as JSON.
#[must_use]
pub fn version_document() -> Document {
    Document::line(&version_info())
}

/// Returns `GET /api` without aggregation. `server_address` is `host:port`.
#[must_use]
pub fn api_versions(server_address: &str) -> Document {
    let servers = [ServerAddress { client_cidr: "0.0.0.0/0", server_address }];
    Document::line(&ApiVersions { kind: "APIVersions", versions: ["v1"], server_address_by_client_cidrs: servers })
}

/// Returns the paths of the root document.
fn root(resources: &Resources) -> Value {
    let preferred = named_groups(resources).filter_map(|group| versions(resources, &group).next());
    let mut paths: Vec<String> =
        ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
            .map(ToOwned::to_owned)
            .into_iter()
            .chain(preferred.map(|version| format!("/apis/{version}")))
            .collect();
    paths.sort();
    json!({ "paths": paths })
}

fn api_group_list(resources: &Resources) -> ApiGroupList {
    let groups = named_groups(resources).map(|group| group_entry(resources, &group)).collect();
    ApiGroupList { kind: "APIGroupList", api_version: "v1", groups }
}

fn api_group(resources: &Resources, group: &ApiName) -> ApiGroup {
    ApiGroup { kind: Some("APIGroup"), api_version: Some("v1"), ..group_entry(resources, group) }
}

fn resource_list(resources: &Resources, version: &GroupVersion) -> ApiResourceList {
    let entries = of_version(resources, version).flat_map(|resource| resource_entries(resource)).collect();
    // Upstream omits it from the document of core.
    let api_version = (!version.group.is_empty()).then_some("v1");
    ApiResourceList { kind: "APIResourceList", api_version, group_version: version.clone(), resources: entries }
}

fn aggregated_core(resources: &Resources) -> DiscoveryList {
    aggregated(vec![aggregated_group(resources, &ApiName::EMPTY)])
}

fn aggregated_groups(resources: &Resources) -> DiscoveryList {
    aggregated(named_groups(resources).map(|group| aggregated_group(resources, &group)).collect())
}

/// Returns every served group and version (`v1`, `apps/v1`, …) in order of preference.
pub(crate) fn group_versions(resources: &Resources) -> Vec<GroupVersion> {
    let mut all: Vec<_> = resources.all().iter().map(|resource| resource.gvk().group_version()).collect();
    all.dedup();
    all
}

/// Returns the verbs of a subresource.
#[must_use]
pub fn subresource_verbs(subresource: Subresource) -> &'static [&'static str] {
    match subresource {
        Subresource::Status | Subresource::Approval | Subresource::Scale => &["get", "patch", "update"],
        Subresource::Binding | Subresource::Eviction | Subresource::Token => &["create"],
        Subresource::Finalize => &["update"],
        Subresource::Log => &["get"],
    }
}

/// Returns the verbs of a resource. Those of a built-in kind are sorted.
#[must_use]
pub fn verbs(resource: &Resource) -> &'static [&'static str] {
    match resource {
        _ if resource.is_review() => &["create"],
        _ if resource.is_computed() => &["get", "list"],
        _ if !resource.read_only.is_empty() => &["get", "list", "watch"],
        _ if resource.is_terminating() => &["delete", "deletecollection", "get", "list", "watch"],
        // Upstream lists the verbs of custom resources in an order of its own.
        _ if !resource.is_built_in() => &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
        _ if !resource.is_deleted_in_bulk => &["create", "delete", "get", "list", "patch", "update", "watch"],
        _ => &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
    }
}

/// Returns all groups but core, in order of preference.
fn named_groups(resources: &Resources) -> impl Iterator<Item = ApiName> {
    let mut groups: Vec<_> = resources.all().iter().map(|resource| resource.group().clone()).filter(|group| !group.is_empty()).collect();
    groups.dedup();
    groups.into_iter()
}

/// Returns the versions in order of preference.
fn versions(resources: &Resources, group: &ApiName) -> impl Iterator<Item = GroupVersion> {
    group_versions(resources).into_iter().filter(move |version| version.group == *group)
}

fn of_version<'a>(resources: &'a Resources, version: &'a GroupVersion) -> impl Iterator<Item = &'a Arc<Resource>> {
    resources.all().iter().filter(move |resource| *resource.group() == version.group && *resource.version() == version.version)
}

fn group_entry(resources: &Resources, group: &ApiName) -> ApiGroup {
    let entry = |version: GroupVersion| GroupVersionForDiscovery { version: version.version.clone(), group_version: version };
    let versions: Vec<GroupVersionForDiscovery> = versions(resources, group).map(entry).collect();
    let preferred_version = versions[0].clone();
    ApiGroup { kind: None, api_version: None, name: group.clone(), versions, preferred_version }
}

fn resource_entries(resource: &Resource) -> Vec<ApiResource> {
    let entry = ApiResource {
        name: resource.plural().to_string(),
        singular_name: resource.names().singular.clone(),
        namespaced: resource.scope == Scope::Namespaced,
        group: ApiName::EMPTY,
        version: ApiName::EMPTY,
        kind: resource.kind().clone(),
        verbs: verbs(resource),
        short_names: resource.names().short_names.clone(),
        categories: resource.names().categories.clone(),
        storage_version_hash: storage_version_hash(resource),
    };
    let mut entries = vec![entry];
    entries.extend(resource.subresources.iter().map(|subresource| subresource_entry(resource, *subresource)));
    entries
}

fn subresource_entry(resource: &Resource, subresource: Subresource) -> ApiResource {
    let speaks = subresource.gvk();
    let kind = speaks.as_ref().unwrap_or(resource.gvk()).kind.clone();
    let foreign = speaks.map(|speaks| speaks.group_version()).filter(|speaks| *speaks != resource.gvk().group_version());
    let GroupVersion { group, version } = foreign.unwrap_or_default();
    ApiResource {
        name: format!("{}/{}", resource.plural(), subresource.as_str()),
        singular_name: ApiName::EMPTY,
        namespaced: resource.scope == Scope::Namespaced,
        group,
        version,
        kind,
        verbs: subresource_verbs(subresource),
        short_names: Vec::new(),
        categories: Vec::new(),
        storage_version_hash: String::new(),
    }
}

/// Returns a hash of the stored group, version and kind, from which a client notices a change of the storage version.
fn storage_version_hash(resource: &Resource) -> String {
    if !resource.is_stored() {
        return String::new();
    }
    let stored = resource.stored_api_version();
    let (group, version) = stored.rsplit_once('/').unwrap_or(("", stored));
    let hash = Sha256::digest(format!("{group}/{version}/{}", resource.kind()));
    STANDARD.encode(&hash[..8])
}

fn aggregated(items: Vec<DiscoveredGroup>) -> DiscoveryList {
    DiscoveryList { kind: "APIGroupDiscoveryList", api_version: "apidiscovery.k8s.io/v2", metadata: json!({}), items }
}

fn aggregated_group(resources: &Resources, group: &ApiName) -> DiscoveredGroup {
    let of = |version: GroupVersion| DiscoveredVersion {
        resources: of_version(resources, &version).map(|resource| aggregated_resource(resource)).collect(),
        version: version.version,
        freshness: "Current",
    };
    DiscoveredGroup { metadata: DiscoveredMetadata { name: group.clone() }, versions: versions(resources, group).map(of).collect() }
}

fn aggregated_resource(resource: &Resource) -> DiscoveredResource {
    DiscoveredResource {
        resource: resource.plural().clone(),
        response_kind: ResponseKind { group: ApiName::EMPTY, version: ApiName::EMPTY, kind: resource.kind().clone() },
        scope: if resource.scope == Scope::Namespaced { "Namespaced" } else { "Cluster" },
        singular_resource: resource.names().singular.clone(),
        verbs: verbs(resource),
        short_names: resource.names().short_names.clone(),
        categories: resource.names().categories.clone(),
        subresources: resource.subresources.iter().map(|subresource| aggregated_subresource(resource, *subresource)).collect(),
    }
}

/// An empty group and version mean those of the parent.
fn aggregated_subresource(resource: &Resource, subresource: Subresource) -> DiscoveredSubresource {
    let kind = subresource.gvk().unwrap_or_else(|| GroupVersionKind::new("", "", resource.kind()));
    DiscoveredSubresource { subresource: subresource.as_str(), response_kind: kind.into(), verbs: subresource_verbs(subresource) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::built_in;
    use std::collections::BTreeSet;

    fn value(document: &impl serde::Serialize) -> Value {
        serde_json::to_value(document).expect("JSON")
    }

    #[test]
    fn groups_are_listed_with_their_versions() {
        let list = value(&api_group_list(built_in()));
        let names: Vec<&Value> = list["groups"].as_array().into_iter().flatten().map(|group| &group["name"]).collect();
        assert_eq!(
            names,
            [
                "apiregistration.k8s.io",
                "apps",
                "events.k8s.io",
                "autoscaling",
                "batch",
                "certificates.k8s.io",
                "networking.k8s.io",
                "policy",
                "rbac.authorization.k8s.io",
                "storage.k8s.io",
                "admissionregistration.k8s.io",
                "apiextensions.k8s.io",
                "scheduling.k8s.io",
                "coordination.k8s.io",
                "node.k8s.io",
                "discovery.k8s.io",
                "resource.k8s.io",
                "flowcontrol.apiserver.k8s.io",
                "authentication.k8s.io",
                "authorization.k8s.io",
                "metrics.k8s.io"
            ]
        );
        let version = json!({"groupVersion": "apps/v1", "version": "v1"});
        assert_eq!(list["groups"][1], json!({"name": "apps", "versions": [version], "preferredVersion": version}));
        let [v2, v1] = ["v2", "v1"].map(|version| json!({"groupVersion": format!("autoscaling/{version}"), "version": version}));
        assert_eq!(list["groups"][3], json!({"name": "autoscaling", "versions": [v2, v1], "preferredVersion": v2}));
        let apps = value(&api_group(built_in(), &"apps".into()));
        assert_eq!((&apps["kind"], &apps["apiVersion"], &apps["preferredVersion"]), (&json!("APIGroup"), &json!("v1"), &version));
        assert!(built_in().discovery().group("apps").is_some());
        assert!(built_in().discovery().group("nope").is_none());
        assert!(built_in().discovery().group("").is_none());
    }

    /// What upstream lists and berth does not, as docs/deviations.md has it. Upstream has the usage of pods and nodes only with
    /// metrics-server.
    const NOT_LISTED: &[&str] = &[
        "metrics.k8s.io/v1beta1 ",
        "v1 bindings ",
        "v1 nodes/proxy ",
        "v1 pods/attach ",
        "v1 pods/ephemeralcontainers ",
        "v1 pods/exec ",
        "v1 pods/portforward ",
        "v1 pods/proxy ",
        "v1 pods/resize ",
        "v1 services/proxy ",
    ];

    /// One line for a resource or subresource, as `testdata/upstream/discovery.txt` has it.
    fn line(version: &GroupVersion, entry: &Value) -> String {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let list = |name: &str| entry[name].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(",");
        let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        let kind_version = match (text("group").as_str(), text("version").as_str()) {
            ("", version) => version.to_owned(),
            (group, version) => format!("{group}/{version}"),
        };
        let scope = if entry["namespaced"] == true { "namespaced" } else { "cluster" };
        let mut cells = vec![version.to_string(), text("name"), text("kind"), or_none(kind_version), scope.to_owned()];
        cells.extend([text("singularName"), list("verbs"), list("shortNames"), list("categories")].map(or_none));
        cells.join(" ")
    }

    /// Recorded from a real 1.36.2.
    #[test]
    fn what_upstream_lists_is_listed_in_the_same_way() {
        let is_listed = |line: &&str| !NOT_LISTED.iter().any(|start| line.starts_with(start));
        let recorded = include_str!("../../../testdata/upstream/discovery.txt").lines().filter(|line| !line.starts_with('#'));
        let wanted: BTreeSet<String> = recorded.filter(is_listed).map(ToOwned::to_owned).collect();
        let of_version = |version: GroupVersion| {
            let entries = value(&resource_list(built_in(), &version))["resources"].as_array().cloned().unwrap_or_default();
            entries.iter().map(|entry| line(&version, entry)).collect::<Vec<_>>()
        };
        let listed = group_versions(built_in()).into_iter().flat_map(of_version);
        let listed: BTreeSet<String> = listed.filter(|line| is_listed(&line.as_str())).collect();
        let missing: Vec<_> = wanted.difference(&listed).collect();
        let unknown: Vec<_> = listed.difference(&wanted).collect();
        assert!(missing.is_empty() && unknown.is_empty(), "missing: {missing:#?}\nonly here: {unknown:#?}");
    }

    #[test]
    fn the_legacy_document_of_core_names_the_server() {
        let document: Value = serde_json::from_slice(&api_versions("127.0.0.1:6443").json).expect("JSON");
        assert_eq!(document["versions"], json!(["v1"]));
        assert_eq!(document["serverAddressByClientCIDRs"][0]["serverAddress"], "127.0.0.1:6443");
    }

    #[test]
    fn a_resource_list_holds_resources_and_subresources() {
        let list = value(&resource_list(built_in(), &GroupVersion::from_static("apps", "v1")));
        assert_eq!((&list["kind"], &list["groupVersion"]), (&json!("APIResourceList"), &json!("apps/v1")));
        assert_eq!(
            list["resources"][2],
            json!({"name": "deployments", "singularName": "deployment", "namespaced": true, "kind": "Deployment",
                   "shortNames": ["deploy"], "categories": ["all"], "storageVersionHash": "8aSe+NMegvE=",
                   "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]})
        );
        assert_eq!(
            list["resources"][3],
            json!({"name": "deployments/scale", "singularName": "", "namespaced": true, "kind": "Scale", "group": "autoscaling",
                   "version": "v1", "verbs": ["get", "patch", "update"]})
        );
        assert_eq!(
            list["resources"][4],
            json!({"name": "deployments/status", "singularName": "", "namespaced": true, "kind": "Deployment",
                   "verbs": ["get", "patch", "update"]})
        );
        assert!(built_in().discovery().resource_list(&GroupVersion::from_static("apps", "v1beta1")).is_none());
        assert!(built_in().discovery().resource_list(&GroupVersion::from_static("", "v1")).is_some());
    }

    #[test]
    fn pods_can_be_bound_and_evicted_and_namespaces_not_be_deleted_in_bulk() {
        let core = value(&resource_list(built_in(), &GroupVersion::from_static("", "v1")));
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
    fn aggregated_documents_have_the_same_content() {
        let core = value(&aggregated_core(built_in()));
        assert_eq!((&core["kind"], &core["apiVersion"]), (&json!("APIGroupDiscoveryList"), &json!("apidiscovery.k8s.io/v2")));
        assert_eq!(core["items"].as_array().map(Vec::len), Some(1));
        assert_eq!(core["items"][0]["metadata"], json!({}));
        let apps = &value(&aggregated_groups(built_in()))["items"][1];
        assert_eq!(apps["metadata"], json!({"name": "apps"}));
        let deployments = &apps["versions"][0]["resources"][1];
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
        let version = value(&version_info());
        assert_eq!((&version["major"], &version["minor"], &version["gitVersion"]), (&json!("1"), &json!("36"), &json!("v1.36.0+berth")));
        assert!(version.as_object().is_some_and(|fields| fields.values().all(Value::is_string)));
    }
}
