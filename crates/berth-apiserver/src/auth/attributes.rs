//! The authorization attributes of a request, from its head alone.

use crate::{path::Route, query::Query};
use berth_api::{FieldSelector, selector::FieldOperator};
use berth_rbac::{Attributes, PathAttributes, ResourceAttributes};
use hyper::Method;

/// A request with the name that its field selector chooses.
#[derive(Debug)]
pub struct Asked<'a> {
    method: &'a Method,
    path: &'a str,
    route: &'a Route<'a>,
    verb: &'static str,
    selected: Option<String>,
}

impl<'a> Asked<'a> {
    /// Parses a request.
    #[must_use]
    pub fn of(method: &'a Method, path: &'a str, route: &'a Route<'a>, query: &Query<'_>) -> Self {
        let Route::Resource(at) = route else { return Self { method, path, route, verb: method_verb(method), selected: None } };
        let verb = match resource_verb(method, at.name.is_some(), query.watch()) {
            // The deprecated paths watch one object too.
            "get" | "list" if at.legacy_watch => "watch",
            verb => verb,
        };
        let selected = if at.name.is_none() { selected_name(verb, query) } else { None };
        Self { method, path, route, verb, selected }
    }

    /// Returns the attributes for authorization.
    #[must_use]
    pub fn attributes(&self) -> Attributes<'_> {
        let Route::Resource(at) = self.route else {
            return Attributes::Path(PathAttributes { verb: method_verb(self.method), path: self.path });
        };
        let name = at.name.as_deref().or(self.selected.as_deref()).unwrap_or_default();
        // A namespace is inside itself: a role that is bound there may grant the right to read it.
        let is_namespace = at.resource.group.is_empty() && at.resource.plural == "namespaces" && at.name.is_some();
        let namespace = if is_namespace { name } else { at.namespace.as_deref().unwrap_or_default() };
        Attributes::from(ResourceAttributes {
            verb: self.verb,
            group: &at.resource.group,
            resource: &at.resource.plural,
            // The path after a subresource, such as `proxy`, is part of the subresource.
            subresource: at.subresource.and_then(|path| path.split('/').next()).unwrap_or_default(),
            namespace,
            name,
        })
    }
}

/// The selector `fieldSelector=metadata.name=X` reduces a collection to one object.
fn selected_name(verb: &str, query: &Query<'_>) -> Option<String> {
    if !matches!(verb, "list" | "watch" | "deletecollection") {
        return None;
    }
    let selector = FieldSelector::parse(query.first("fieldSelector")?).ok()?;
    let requirement = selector.requirements().iter().find(|requirement| requirement.field == "metadata.name")?;
    (requirement.operator == FieldOperator::Equals).then(|| requirement.value.clone()).filter(|name| !name.is_empty())
}

/// Returns the API's verb for a method on an object or on a collection.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path;

    /// Formats the attributes of `METHOD /path?query`: `verb group resource/subresource namespace name`, or
    /// `verb path`.
    #[track_caller]
    fn check(request: &str, expected: &str) {
        let (method, uri) = request.split_once(' ').expect("a method and a path");
        let (path, query) = uri.split_once('?').map_or((uri, None), |(path, query)| (path, Some(query)));
        let (method, route, query) = (method.parse().expect("a method"), path::parse(path), Query::parse(query));
        let asked = Asked::of(&method, path, &route, &query);
        let found = match asked.attributes() {
            Attributes::Path(PathAttributes { verb, path }) => format!("{verb} {path}"),
            Attributes::Resource(ResourceAttributes { verb, group, resource, subresource, namespace, name }) => {
                format!("{verb} {group} {resource}/{subresource} {namespace} {name}")
            }
        };
        assert_eq!(found, expected, "{request}");
    }

    #[test]
    fn verbs_follow_method_and_path() {
        check("GET /apis/apps/v1/namespaces/a/deployments/d", "get apps deployments/ a d");
        check("GET /apis/apps/v1/deployments", "list apps deployments/  ");
        check("GET /api/v1/pods?watch=1", "watch  pods/  ");
        check("GET /api/v1/watch/namespaces/a/pods", "watch  pods/ a ");
        check("GET /api/v1/watch/namespaces/a/pods/p", "watch  pods/ a p");
        check("GET /api/v1/namespaces/a/pods/p?watch=true", "get  pods/ a p");
        check("POST /api/v1/namespaces/a/pods/p/eviction", "create  pods/eviction a p");
        check("DELETE /api/v1/namespaces/a/pods", "deletecollection  pods/ a ");
        check("PUT /apis/apps/v1/namespaces/a/deployments/d/scale", "update apps deployments/scale a d");
        check("GET /metrics", "get /metrics");
        check("POST /version", "post /version");
    }

    #[test]
    fn a_selector_for_one_name_asks_for_that_name() {
        check("GET /api/v1/namespaces/a/secrets?fieldSelector=metadata.name%3Ds", "list  secrets/ a s");
        check("GET /api/v1/namespaces/a/secrets?watch=true&fieldSelector=metadata.name=s,type=x", "watch  secrets/ a s");
        check("GET /api/v1/namespaces/a/secrets?fieldSelector=metadata.name!=s", "list  secrets/ a ");
        check("GET /api/v1/namespaces/a/secrets/t?fieldSelector=metadata.name=s", "get  secrets/ a t");
        check("POST /api/v1/namespaces/a/secrets?fieldSelector=metadata.name=s", "create  secrets/ a ");
    }

    #[test]
    fn a_namespace_is_inside_itself() {
        check("GET /api/v1/namespaces/a", "get  namespaces/ a a");
        check("GET /api/v1/namespaces", "list  namespaces/  ");
        check("POST /api/v1/namespaces", "create  namespaces/  ");
    }
}
