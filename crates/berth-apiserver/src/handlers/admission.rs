//! The cost of a request: its level, the number of its seats, and whether it may take long.

use super::Exchange;
use crate::{
    auth::User,
    flow::{Level, SEATS_MAX},
    negotiate::{self, BodySyntax},
    path::{ResourcePath, Route},
    query::Query,
    status::Refusal,
};
use berth_registry::usage;
use hyper::{
    Method,
    header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, USER_AGENT},
    http::request::Parts,
};
use std::sync::PoisonError;

/// The number of listed objects per seat.
const OBJECTS_PER_SEAT: usize = 100;
/// The size of a body per seat, so that seats also limit the memory of all bodies.
const BODY_BYTES_PER_SEAT: usize = 512 << 10;

/// Processing a shorter body takes less than a millisecond.
const SHORT_BODY_BYTES: usize = 16 << 10;

/// Whether a request is so short that a move to another thread would take longer than the request, for any stored data.
/// That applies to reading one object unchanged, and to creating a small one. All other requests read objects of
/// others, or many bytes.
pub(super) fn is_short(head: &Parts, route: &Route<'_>) -> bool {
    let Route::Resource(at) = route else { return false };
    let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
    match head.method {
        Method::GET => {
            let is_object = at.name.is_some() && at.subresource.is_none() && !at.legacy_watch && !is_usage(at);
            let query = Query::parse(head.uri.query());
            let is_indented = || query.has("pretty") || negotiate::is_indented(None, header(USER_AGENT));
            is_object && negotiate::accept(header(ACCEPT)).is_none_or(|accepted| accepted == negotiate::PLAIN) && !is_indented()
        }
        // A POST to an object reads others: an eviction counts the pods of a budget.
        Method::POST if at.name.is_none() => {
            let length = header(CONTENT_LENGTH).and_then(|length| length.parse().ok());
            length.is_some_and(|length: usize| length <= SHORT_BODY_BYTES)
                && negotiate::body_syntax(header(CONTENT_TYPE)).is_ok_and(|syntax| syntax != BodySyntax::Yaml)
        }
        _ => false,
    }
}

/// Waits for the seats of the request.
pub(super) async fn admit(exchange: &Exchange<'_>, user: &User, route: &Route<'_>) -> Result<(), Refusal> {
    let level = level(exchange.method, user, route);
    // A request is admitted only once.
    let _ = exchange.level.set(level);
    if level == Level::Exempt {
        return Ok(());
    }
    let seats = seats(exchange, route).await;
    *exchange.seat.lock().unwrap_or_else(PoisonError::into_inner) = exchange.shared.flow.admit(level, user, seats).await?;
    Ok(())
}

fn level(method: &Method, user: &User, route: &Route<'_>) -> Level {
    if user.is_master() || matches!(route, Route::Health { .. }) {
        return Level::Exempt;
    }
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) { Level::ReadOnly } else { Level::Mutating }
}

async fn seats(exchange: &Exchange<'_>, route: &Route<'_>) -> usize {
    let body = seats_of_body(exchange);
    match route {
        Route::Resource(at) if reads_collection(at) && *exchange.method != Method::POST => {
            body.max(seats_of_collection(exchange, at).await)
        }
        _ => body,
    }
}

/// Whether the objects are computed from the stored pods.
fn is_usage(at: &ResourcePath<'_>) -> bool {
    *at.resource.group == *usage::GROUP
}

/// Whether a request reads many objects. The usage of one node is that of its pods.
fn reads_collection(at: &ResourcePath<'_>) -> bool {
    at.name.is_none() || (is_usage(at) && at.namespace.is_none())
}

/// Returns the seats for the announced length. Without one, the body may have the maximum size.
fn seats_of_body(exchange: &Exchange<'_>) -> usize {
    if *exchange.method == Method::GET {
        return 1;
    }
    let announced = exchange.header(CONTENT_LENGTH).and_then(|length| length.parse().ok());
    announced.map_or(crate::body::REQUEST_BYTES_MAX / BODY_BYTES_PER_SEAT, |length: usize| length.div_ceil(BODY_BYTES_PER_SEAT))
}

/// Returns the seats for the objects that are read, in all namespaces, because selectors test every one.
async fn seats_of_collection(exchange: &Exchange<'_>, at: &ResourcePath<'_>) -> usize {
    let Some(resource) = exchange.resources.find(&at.resource) else { return 1 };
    let objects = if is_usage(at) {
        // A page of nodes reads the pods of all nodes.
        exchange.shared.registry.count_for_usage().await
    } else {
        limited(&exchange.query, exchange.shared.registry.count(resource).await)
    };
    objects.div_ceil(OBJECTS_PER_SEAT).min(SEATS_MAX)
}

/// Returns the number of objects that are read. A page of a plain list at the newest revision reads only its own
/// length.
fn limited(query: &Query<'_>, objects: usize) -> usize {
    let is_page = query.first("resourceVersion").is_none_or(str::is_empty) && !query.has("labelSelector") && !query.has("fieldSelector");
    let limit = query.first("limit").and_then(|limit| limit.parse::<usize>().ok()).filter(|limit| *limit != 0);
    limit.filter(|_| is_page).map_or(objects, |limit| limit.min(objects))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    #[test]
    fn short_is_what_costs_little_whatever_is_stored() {
        let object = "/api/v1/namespaces/default/pods/p";
        let collection = "/api/v1/namespaces/default/pods";
        for (method, path, headers, expected) in [
            ("GET", object, vec![], true),
            ("GET", object, vec![("accept", "application/json")], true),
            ("GET", object, vec![("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")], false),
            ("GET", object, vec![("accept", "application/yaml")], false),
            ("GET", object, vec![("user-agent", "curl/8.14.1")], false),
            ("GET", "/api/v1/namespaces/default/pods/p?resourceVersion=0", vec![], true),
            ("GET", "/api/v1/namespaces/default/pods/p?pretty=true", vec![], false),
            ("GET", "/api/v1/namespaces/default/pods/p?%70retty", vec![], false),
            ("GET", object, vec![("accept", "APPLICATION/YAML")], false),
            ("GET", object, vec![("accept", "text/plain")], true),
            ("POST", collection, vec![("content-length", "9"), ("content-type", "application/YAML")], false),
            ("GET", "/api/v1/namespaces/default/pods/p/log", vec![], false),
            ("GET", "/apis/metrics.k8s.io/v1beta1/nodes/n", vec![], false),
            ("GET", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/p", vec![], false),
            ("GET", "/api/v1/watch/namespaces/default/pods/p", vec![], false),
            ("GET", collection, vec![], false),
            ("GET", "/openapi/v2", vec![], false),
            ("POST", collection, vec![("content-length", "16384")], true),
            ("POST", collection, vec![("content-length", "16384"), ("content-type", "application/yaml")], false),
            ("POST", collection, vec![("content-length", "16385")], false),
            ("POST", collection, vec![], false),
            ("POST", "/api/v1/namespaces/default/pods/p/eviction", vec![("content-length", "2")], false),
            ("PUT", object, vec![("content-length", "2")], false),
            ("PATCH", object, vec![("content-length", "2")], false),
            ("DELETE", object, vec![("content-length", "2")], false),
        ] {
            let mut request = Request::builder().method(method).uri(path);
            for (name, value) in &headers {
                request = request.header(*name, *value);
            }
            let (head, ()) = request.body(()).expect("a request").into_parts();
            assert_eq!(is_short(&head, &crate::path::parse(head.uri.path())), expected, "{method} {path} {headers:?}");
        }
    }

    #[test]
    fn a_page_costs_its_length_and_everything_else_all_objects() {
        for (query, cost) in [
            ("", 1000),
            ("limit=50", 50),
            ("limit=5000", 1000),
            ("limit=0", 1000),
            ("limit=-1", 1000),
            ("limit=50&continue=x", 50),
            ("limit=50&resourceVersion=0", 1000),
            ("limit=50&labelSelector=a%3Db", 1000),
            ("limit=50&fieldSelector=spec.nodeName%3Da", 1000),
        ] {
            assert_eq!(limited(&Query::parse(Some(query)), 1000), cost, "{query}");
        }
    }
}
