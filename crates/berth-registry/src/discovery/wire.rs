//! The types of discovery documents: upstream's fields in upstream's order.

use berth_identity::{ApiName, GroupVersion, GroupVersionKind};
use serde::Serialize;
use serde_json::Value;

/// `GET /version`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionInfo {
    /// `1`.
    pub major: &'static str,
    /// `36`.
    pub minor: &'static str,
    /// The release whose API this is.
    pub emulation_major: &'static str,
    /// The same, its minor part.
    pub emulation_minor: &'static str,
    /// The oldest release that can rely on this server.
    pub min_compatibility_major: &'static str,
    /// The same, its minor part.
    pub min_compatibility_minor: &'static str,
    /// `v1.36.0+berth`.
    pub git_version: String,
    /// Empty.
    pub git_commit: &'static str,
    /// `clean`.
    pub git_tree_state: &'static str,
    /// The beginning of time.
    pub build_date: &'static str,
    /// Empty: there is no Go in it.
    pub go_version: &'static str,
    /// `rustc`.
    pub compiler: &'static str,
    /// `linux/amd64`.
    pub platform: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiVersions<'a> {
    pub(super) kind: &'static str,
    pub(super) versions: [&'static str; 1],
    #[serde(rename = "serverAddressByClientCIDRs")]
    pub(super) server_address_by_client_cidrs: [ServerAddress<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerAddress<'a> {
    #[serde(rename = "clientCIDR")]
    pub(super) client_cidr: &'static str,
    pub(super) server_address: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroupList {
    pub(super) kind: &'static str,
    pub(super) api_version: &'static str,
    pub(super) groups: Vec<ApiGroup>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroup {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) api_version: Option<&'static str>,
    pub(super) name: ApiName,
    pub(super) versions: Vec<GroupVersionForDiscovery>,
    pub(super) preferred_version: GroupVersionForDiscovery,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GroupVersionForDiscovery {
    pub(super) group_version: GroupVersion,
    pub(super) version: ApiName,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiResourceList {
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) api_version: Option<&'static str>,
    pub(super) group_version: GroupVersion,
    pub(super) resources: Vec<ApiResource>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiResource {
    pub(super) name: String,
    pub(super) singular_name: ApiName,
    pub(super) namespaced: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) group: ApiName,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) version: ApiName,
    pub(super) kind: ApiName,
    pub(super) verbs: &'static [&'static str],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) short_names: Vec<ApiName>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) categories: Vec<ApiName>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) storage_version_hash: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DiscoveryList {
    pub(super) kind: &'static str,
    pub(super) api_version: &'static str,
    pub(super) metadata: Value,
    pub(super) items: Vec<DiscoveredGroup>,
}

#[derive(Serialize)]
pub(super) struct DiscoveredGroup {
    pub(super) metadata: DiscoveredMetadata,
    pub(super) versions: Vec<DiscoveredVersion>,
}

#[derive(Serialize)]
pub(super) struct DiscoveredMetadata {
    /// Empty for core.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) name: ApiName,
}

#[derive(Serialize)]
pub(super) struct DiscoveredVersion {
    pub(super) version: ApiName,
    pub(super) resources: Vec<DiscoveredResource>,
    pub(super) freshness: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DiscoveredResource {
    pub(super) resource: ApiName,
    pub(super) response_kind: ResponseKind,
    pub(super) scope: &'static str,
    pub(super) singular_resource: ApiName,
    pub(super) verbs: &'static [&'static str],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) short_names: Vec<ApiName>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) categories: Vec<ApiName>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) subresources: Vec<DiscoveredSubresource>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DiscoveredSubresource {
    pub(super) subresource: &'static str,
    pub(super) response_kind: ResponseKind,
    pub(super) verbs: &'static [&'static str],
}

#[derive(Serialize)]
pub(super) struct ResponseKind {
    pub(super) group: ApiName,
    pub(super) version: ApiName,
    pub(super) kind: ApiName,
}

impl From<GroupVersionKind> for ResponseKind {
    fn from(GroupVersionKind { group, version, kind }: GroupVersionKind) -> Self {
        Self { group, version, kind }
    }
}
