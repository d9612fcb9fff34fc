//! Parses URL paths. Pure: later code checks whether the target exists, because errors 401 and 403 come first.

use berth_identity::{ApiName, GroupVersion, GroupVersionResource};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// The target of a request, from its path alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// `/`: the list of paths.
    Root,
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/G`.
    Group(Cow<'a, str>),
    /// `/api/v1` (group empty) or `/apis/G/V`.
    GroupVersion(GroupVersion),
    /// A collection, an object or a subresource.
    Resource(ResourcePath<'a>),
    /// `/version`.
    Version,
    /// `/healthz`, `/livez` or `/readyz`, or one check below it.
    Health {
        /// The endpoint.
        endpoint: HealthEndpoint,
        /// `/readyz/<check>`.
        check: Option<&'a str>,
    },
    /// `/metrics`.
    Metrics,
    /// `/openapi/v2`.
    OpenApiV2,
    /// `/openapi/v3`.
    OpenApiV3,
    /// `/openapi/v3/<path>`: the path, `apis/apps/v1`.
    OpenApiV3Document(&'a str),
    /// `/.well-known/openid-configuration`: the discovery document for service account tokens.
    OpenIdConfiguration,
    /// `/openid/v1/jwks`: the public keys of these tokens.
    JsonWebKeys,
    /// An unknown path.
    Unknown,
}

/// The health endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthEndpoint {
    /// `/healthz`, the oldest one.
    Healthz,
    /// `/livez`: fails if only a restart helps.
    Livez,
    /// `/readyz`: fails while requests should go to another server.
    Readyz,
}

impl HealthEndpoint {
    /// Returns the name in the path.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }
}

/// The parts of a resource's path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath<'a> {
    /// `pods` of `v1`.
    pub resource: GroupVersionResource,
    /// `None`: cluster-scoped, or all namespaces.
    pub namespace: Option<Cow<'a, str>>,
    /// `None`: the collection.
    pub name: Option<Cow<'a, str>>,
    /// Everything after the name.
    pub subresource: Option<&'a str>,
    /// Whether the path has the old `/watch/` prefix, which turns a GET into a watch.
    pub legacy_watch: bool,
}

impl ResourcePath<'_> {
    fn of(self, plural: ApiName) -> Self {
        Self { resource: GroupVersionResource { plural, ..self.resource }, ..self }
    }
}

/// Subresources of a namespace itself; any other third segment under `namespaces/NS` is a resource inside it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

/// Parses `path`. Decodes percent escapes in names, and ignores one trailing slash.
#[must_use]
pub fn parse(path: &str) -> Route<'_> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    let (first, rest) = split(path);
    match (first, rest) {
        ("", None) => Route::Root,
        ("api", None) => Route::CoreVersions,
        ("api", Some(rest)) => under_group("", rest),
        ("apis", None) => Route::Groups,
        ("apis", Some(rest)) => under_apis(rest),
        ("version", None) => Route::Version,
        ("metrics", None) => Route::Metrics,
        (".well-known", Some("openid-configuration")) => Route::OpenIdConfiguration,
        ("openid", Some("v1/jwks")) => Route::JsonWebKeys,
        ("healthz", check) => Route::Health { endpoint: HealthEndpoint::Healthz, check },
        ("livez", check) => Route::Health { endpoint: HealthEndpoint::Livez, check },
        ("readyz", check) => Route::Health { endpoint: HealthEndpoint::Readyz, check },
        ("openapi", Some("v2")) => Route::OpenApiV2,
        ("openapi", Some("v3")) => Route::OpenApiV3,
        ("openapi", Some(rest)) => rest.strip_prefix("v3/").map_or(Route::Unknown, Route::OpenApiV3Document),
        _ => Route::Unknown,
    }
}

fn split(path: &str) -> (&str, Option<&str>) {
    path.split_once('/').map_or((path, None), |(first, rest)| (first, Some(rest)))
}

/// Returns a segment without escapes, or `None` if it is empty or not UTF-8.
fn decode(segment: &str) -> Option<Cow<'_, str>> {
    if segment.is_empty() {
        return None;
    }
    percent_decode_str(segment).decode_utf8().ok()
}

fn under_apis(rest: &str) -> Route<'_> {
    let (group, rest) = split(rest);
    match (decode(group), rest) {
        (Some(group), None) => Route::Group(group),
        (Some(group), Some(rest)) => under_group(&group, rest),
        (None, _) => Route::Unknown,
    }
}

fn under_group<'a>(group: &str, rest: &'a str) -> Route<'a> {
    let (version, rest) = split(rest);
    let Some(version) = decode(version) else { return Route::Unknown };
    let version = GroupVersion { group: ApiName::shared(group), version: ApiName::shared(&version) };
    match rest {
        None => Route::GroupVersion(version),
        Some(rest) => under_version(version, rest).map_or(Route::Unknown, Route::Resource),
    }
}

fn under_version(version: GroupVersion, rest: &str) -> Option<ResourcePath<'_>> {
    let unprefixed = rest.strip_prefix("watch/");
    let resource = version.with_resource(ApiName::EMPTY);
    let path = ResourcePath { resource, legacy_watch: unprefixed.is_some(), ..ResourcePath::default() };
    let rest = unprefixed.unwrap_or(rest);
    match rest.strip_prefix("namespaces/") {
        Some(inside) => in_namespace(path, inside),
        None => object(path, rest),
    }
}

fn in_namespace<'a>(path: ResourcePath<'a>, rest: &'a str) -> Option<ResourcePath<'a>> {
    let (namespace, rest) = split(rest);
    let namespace = decode(namespace)?;
    match rest {
        Some(rest) if !NAMESPACE_SUBRESOURCES.contains(&rest) => object(ResourcePath { namespace: Some(namespace), ..path }, rest),
        subresource => Some(ResourcePath { name: Some(namespace), subresource, ..path.of(ApiName::from_static("namespaces")) }),
    }
}

fn object<'a>(path: ResourcePath<'a>, rest: &'a str) -> Option<ResourcePath<'a>> {
    let (resource, rest) = split(rest);
    let path = path.of(ApiName::shared(&decode(resource)?));
    let Some(rest) = rest else { return Some(path) };
    let (name, subresource) = split(rest);
    Some(ResourcePath { name: Some(decode(name)?), subresource, ..path })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(path: &str) -> String {
        let Route::Resource(found) = parse(path) else { return format!("{:?}", parse(path)) };
        let part = |part: &Option<Cow<'_, str>>| part.as_deref().unwrap_or("-").to_owned();
        let watch = if found.legacy_watch { "watch " } else { "" };
        format!(
            "{watch}{}/{} {} {} {} {}",
            found.resource.group,
            found.resource.version,
            part(&found.namespace),
            found.resource.plural,
            part(&found.name),
            found.subresource.unwrap_or("-")
        )
    }

    #[track_caller]
    fn check(path: &str, expected: &str) {
        assert_eq!(resource(path), expected, "{path}");
    }

    #[test]
    fn resource_paths_fall_into_their_parts() {
        check("/api/v1/pods", "/v1 - pods - -");
        check("/api/v1/namespaces/a/pods/p/binding", "/v1 a pods p binding");
        check("/apis/apps/v1/namespaces/a/deployments/d/scale", "apps/v1 a deployments d scale");
        check("/apis/apps/v1/deployments/", "apps/v1 - deployments - -");
        check("/apis/apps/v1/namespaces/a/deployments/d/status/x", "apps/v1 a deployments d status/x");
    }

    #[test]
    fn a_namespace_is_an_object_and_a_prefix() {
        check("/api/v1/namespaces", "/v1 - namespaces - -");
        check("/api/v1/namespaces/a", "/v1 - namespaces a -");
        check("/api/v1/namespaces/a/", "/v1 - namespaces a -");
        check("/api/v1/namespaces/a/finalize", "/v1 - namespaces a finalize");
        check("/api/v1/namespaces/a/status", "/v1 - namespaces a status");
        check("/api/v1/namespaces/a/status/x", "/v1 a status x -");
    }

    #[test]
    fn the_old_watch_prefix_is_recognized() {
        check("/api/v1/watch/pods", "watch /v1 - pods - -");
        check("/api/v1/watch/namespaces/a/pods/p", "watch /v1 a pods p -");
        check("/apis/apps/v1/watch/namespaces/a/deployments", "watch apps/v1 a deployments - -");
        check("/api/v1/watch/namespaces/a", "watch /v1 - namespaces a -");
    }

    #[test]
    fn escapes_are_undone() {
        check(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Abasic-user",
            "rbac.authorization.k8s.io/v1 - clusterroles system:basic-user -",
        );
        check("/api/v1/namespaces/a/pods/%ff", "Unknown");
        check("/api/v1/namespaces//pods", "Unknown");
    }

    #[test]
    fn other_paths_are_distinguished() {
        for (path, expected) in [
            ("/", Route::Root),
            ("/api", Route::CoreVersions),
            ("/api/", Route::CoreVersions),
            ("/apis", Route::Groups),
            ("/apis/apps", Route::Group("apps".into())),
            ("/api/v1", Route::GroupVersion(GroupVersion::from_static("", "v1"))),
            ("/apis/apps/v1", Route::GroupVersion(GroupVersion::from_static("apps", "v1"))),
            ("/version", Route::Version),
            ("/version/", Route::Version),
            ("/metrics", Route::Metrics),
            ("/.well-known/openid-configuration", Route::OpenIdConfiguration),
            ("/openid/v1/jwks/", Route::JsonWebKeys),
            ("/openid/v1", Route::Unknown),
            ("/livez", Route::Health { endpoint: HealthEndpoint::Livez, check: None }),
            ("/readyz/ping", Route::Health { endpoint: HealthEndpoint::Readyz, check: Some("ping") }),
            ("/openapi/v2", Route::OpenApiV2),
            ("/openapi/v3", Route::OpenApiV3),
            ("/openapi/v3/apis/apps/v1", Route::OpenApiV3Document("apis/apps/v1")),
            ("/openapi", Route::Unknown),
            ("/nope", Route::Unknown),
            ("/version/x", Route::Unknown),
        ] {
            assert_eq!(parse(path), expected, "{path}");
        }
    }
}
