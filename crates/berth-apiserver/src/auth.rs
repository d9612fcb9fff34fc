//! Who asks, and whether they may.

use crate::{path::Route, query::Query};
use berth_registry::{ApiError, error::qualified};
use hyper::{
    HeaderMap, Method,
    header::{AUTHORIZATION, HeaderValue},
};
use sha2::{Digest, Sha256};
use std::{fmt::Write as _, sync::Arc};

/// The group that may do everything.
pub const MASTERS: &str = "system:masters";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// An identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Its groups.
    pub groups: Vec<String>,
}

impl User {
    /// Somebody who proved to be `name`, of these groups and of all authenticated ones.
    #[must_use]
    pub fn authenticated(name: &str, groups: &[String]) -> Self {
        let groups = groups.iter().map(String::as_str).chain([AUTHENTICATED]).map(ToOwned::to_owned).collect();
        Self { name: name.to_owned(), groups }
    }

    fn anonymous() -> Self {
        Self { name: "system:anonymous".to_owned(), groups: vec![UNAUTHENTICATED.to_owned()] }
    }

    fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}

/// What a connection's client certificate says.
#[derive(Clone, Debug)]
pub enum Peer {
    /// There is none.
    Nobody,
    /// It is good.
    Known(Arc<User>),
    /// There is one that does not count: expired, or of somebody else's authority.
    Untrusted,
}

/// The request proves no identity, and pretended to have one.
#[derive(Debug, PartialEq, Eq)]
pub struct Unauthorized;

/// Finds out who asks. Another way to prove an identity is another arm of [`Authenticator::authenticate`].
#[derive(Debug)]
pub struct Authenticator {
    token_digest: [u8; 32],
    token_user: Arc<User>,
    anonymous: Arc<User>,
}

impl Authenticator {
    /// Knows one bearer token, which is the administrator's.
    #[must_use]
    pub fn new(admin_token: &str) -> Self {
        Self {
            token_digest: Sha256::digest(admin_token).into(),
            token_user: Arc::new(User::authenticated("kubernetes-admin", &[MASTERS.to_owned()])),
            anonymous: Arc::new(User::anonymous()),
        }
    }

    /// The user behind a request: by certificate, else by token, else nobody in particular.
    ///
    /// # Errors
    /// A token or a certificate that does not count, and nothing else that does.
    pub fn authenticate(&self, peer: &Peer, headers: &HeaderMap) -> Result<Arc<User>, Unauthorized> {
        match (peer, bearer_token(headers)) {
            (Peer::Known(user), _) => Ok(user.clone()),
            (_, Some(token)) if self.is_admin_token(token) => Ok(self.token_user.clone()),
            (Peer::Nobody, None) => Ok(self.anonymous.clone()),
            (Peer::Untrusted, None) | (_, Some(_)) => Err(Unauthorized),
        }
    }

    /// Digests are compared, not tokens: how long that takes tells nothing about the token.
    fn is_admin_token(&self, token: &[u8]) -> bool {
        <[u8; 32]>::from(Sha256::digest(token)) == self.token_digest
    }
}

fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes)?;
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    (scheme.eq_ignore_ascii_case(b"Bearer ") && !token.trim_ascii().is_empty()).then(|| token.trim_ascii())
}

/// What a request wants to do, as authorisation sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attributes<'a> {
    /// Something with objects.
    Resource {
        /// `get`, `list`, `watch`, …
        verb: &'static str,
        /// Empty for core.
        group: &'a str,
        /// The plural.
        resource: &'a str,
        /// Empty for the object itself.
        subresource: &'a str,
        /// Empty for cluster scope and for all namespaces.
        namespace: &'a str,
        /// Empty for collections.
        name: &'a str,
    },
    /// Something with another path.
    Path {
        /// The method, lower case.
        verb: &'static str,
        /// The path.
        path: &'a str,
    },
}

impl<'a> Attributes<'a> {
    /// The attributes of a request.
    #[must_use]
    pub fn of(method: &Method, path: &'a str, route: &'a Route<'a>, query: &Query<'_>) -> Self {
        let Route::Resource(at) = route else { return Self::Path { verb: method_verb(method), path } };
        Self::Resource {
            verb: resource_verb(method, at.name.is_some(), at.legacy_watch || query.watch()),
            group: &at.group,
            resource: &at.resource,
            subresource: at.subresource.unwrap_or_default(),
            namespace: at.namespace.as_deref().unwrap_or_default(),
            name: at.name.as_deref().unwrap_or_default(),
        }
    }
}

/// The API's verb for a method on an object or on a collection.
#[must_use]
pub fn resource_verb(method: &Method, named: bool, watch: bool) -> &'static str {
    match (method.as_str(), named) {
        ("GET" | "HEAD", false) if watch => "watch",
        ("GET" | "HEAD", false) => "list",
        ("GET" | "HEAD", true) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => "",
    }
}

fn method_verb(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "get",
        "HEAD" => "head",
        "POST" => "post",
        "PUT" => "put",
        "PATCH" => "patch",
        "DELETE" => "delete",
        "OPTIONS" => "options",
        _ => "",
    }
}

/// Decides what users may do. One rule for now, and the public paths; roles would be asked in [`Authorizer::authorize`].
#[derive(Debug, Default)]
pub struct Authorizer;

/// What everybody may read.
const PUBLIC_PATHS: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
/// What everybody with an identity may read besides: discovery. Paths below these count too.
const DISCOVERY_PATHS: [&str; 3] = ["/api", "/apis", "/openapi"];

impl Authorizer {
    /// Whether `user` may do this.
    ///
    /// # Errors
    /// [`ApiError::Forbidden`].
    pub fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Result<(), ApiError> {
        if user.is_in(MASTERS) || is_public(user, attributes) { Ok(()) } else { Err(forbidden(user, attributes)) }
    }
}

fn is_public(user: &User, attributes: &Attributes<'_>) -> bool {
    let Attributes::Path { verb: "get", path } = attributes else { return false };
    PUBLIC_PATHS.contains(path) || user.is_in(AUTHENTICATED) && DISCOVERY_PATHS.iter().any(|allowed| is_below(path, allowed))
}

fn is_below(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn forbidden(user: &User, attributes: &Attributes<'_>) -> ApiError {
    let text = |text: &str| text.to_owned();
    match attributes {
        Attributes::Path { verb, path } => ApiError::Forbidden {
            group: String::new(),
            resource: String::new(),
            name: String::new(),
            message: format!("forbidden: User {:?} cannot {verb} path {path:?}", user.name),
            causes: Vec::new(),
        },
        Attributes::Resource { group, resource, name, .. } => ApiError::Forbidden {
            group: text(group),
            resource: text(resource),
            name: text(name),
            message: forbidden_message(&user.name, attributes),
            causes: Vec::new(),
        },
    }
}

fn forbidden_message(user: &str, attributes: &Attributes<'_>) -> String {
    let Attributes::Resource { verb, group, resource, subresource, namespace, name } = attributes else { return String::new() };
    let mut message = qualified(resource, group);
    let slash = if subresource.is_empty() { "" } else { "/" };
    // Writing to a string cannot fail.
    if !name.is_empty() {
        let _ = write!(message, " {name:?}");
    }
    let _ =
        write!(message, " is forbidden: User {user:?} cannot {verb} resource \"{resource}{slash}{subresource}\" in API group {group:?}");
    let _ = match *namespace {
        "" => write!(message, " at the cluster scope"),
        namespace => write!(message, " in the namespace {namespace:?}"),
    };
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path;

    fn headers(authorization: Option<&str>) -> HeaderMap {
        authorization.map(|value| (AUTHORIZATION, HeaderValue::from_str(value).expect("a header"))).into_iter().collect()
    }

    #[track_caller]
    fn check_user(peer: &Peer, authorization: Option<&str>, expected: &Result<&str, Unauthorized>) {
        let found = Authenticator::new("secret").authenticate(peer, &headers(authorization));
        assert_eq!(found.as_ref().map(|user| user.name.as_str()), expected.as_ref().copied());
    }

    #[test]
    fn a_good_certificate_counts_whatever_the_token() {
        let alice = Peer::Known(Arc::new(User::authenticated("alice", &[])));
        check_user(&alice, None, &Ok("alice"));
        check_user(&alice, Some("Bearer wrong"), &Ok("alice"));
    }

    #[test]
    fn a_token_counts_where_no_certificate_does() {
        for peer in [Peer::Nobody, Peer::Untrusted] {
            check_user(&peer, Some("Bearer secret"), &Ok("kubernetes-admin"));
            check_user(&peer, Some("bearer secret"), &Ok("kubernetes-admin"));
            check_user(&peer, Some("Bearer wrong"), &Err(Unauthorized));
        }
    }

    #[test]
    fn only_who_pretends_nothing_is_anonymous() {
        check_user(&Peer::Nobody, None, &Ok("system:anonymous"));
        check_user(&Peer::Untrusted, None, &Err(Unauthorized));
    }

    #[track_caller]
    fn check_refusal(user: &User, method: &Method, path: &str, expected: Option<&str>) {
        let route = path::parse(path);
        let attributes = Attributes::of(method, path, &route, &Query::default());
        let refusal = Authorizer.authorize(user, &attributes).err().map(|error| error.to_string());
        assert_eq!(refusal.as_deref(), expected, "{method} {path}");
    }

    #[test]
    fn masters_may_do_everything() {
        let admin = User::authenticated("admin", &[MASTERS.to_owned()]);
        check_refusal(&admin, &Method::DELETE, "/apis/apps/v1/namespaces/a/deployments/d", None);
        check_refusal(&admin, &Method::GET, "/metrics", None);
    }

    #[test]
    fn anonymous_users_see_health_and_version_only() {
        for path in ["/healthz", "/livez", "/readyz", "/version"] {
            check_refusal(&User::anonymous(), &Method::GET, path, None);
        }
        check_refusal(&User::anonymous(), &Method::GET, "/apis", Some("forbidden: User \"system:anonymous\" cannot get path \"/apis\""));
        check_refusal(
            &User::anonymous(),
            &Method::POST,
            "/version",
            Some("forbidden: User \"system:anonymous\" cannot post path \"/version\""),
        );
    }

    #[test]
    fn refusals_name_verb_resource_and_scope() {
        let alice = User::authenticated("alice", &[]);
        check_refusal(&alice, &Method::GET, "/openapi/v3", None);
        check_refusal(&alice, &Method::GET, "/apisx", Some("forbidden: User \"alice\" cannot get path \"/apisx\""));
        for (method, path, expected) in [
            (
                Method::GET,
                "/apis/apps/v1/namespaces/t1/deployments",
                "deployments.apps is forbidden: User \"alice\" cannot list resource \"deployments\" in API group \"apps\" in the namespace \"t1\"",
            ),
            (
                Method::PATCH,
                "/api/v1/namespaces/e1/pods/x",
                "pods \"x\" is forbidden: User \"alice\" cannot patch resource \"pods\" in API group \"\" in the namespace \"e1\"",
            ),
            (
                Method::PUT,
                "/apis/apps/v1/namespaces/e1/deployments/x/status",
                "deployments.apps \"x\" is forbidden: User \"alice\" cannot update resource \"deployments/status\" in API group \"apps\" in the namespace \"e1\"",
            ),
            (
                Method::GET,
                "/api/v1/nodes",
                "nodes is forbidden: User \"alice\" cannot list resource \"nodes\" in API group \"\" at the cluster scope",
            ),
        ] {
            check_refusal(&alice, &method, path, Some(expected));
        }
    }
}
