//! Documents about the API itself: discovery, OpenAPI, the version.

use super::Exchange;
use crate::{
    answer::{self, Answer},
    negotiate::{self, DiscoveryForm},
    path::Route,
    status::Refusal,
};
use berth_registry::discovery;
use bytes::Bytes;
use hyper::{
    StatusCode,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, VARY},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{fmt::Write as _, net::SocketAddr};

const AGGREGATED: HeaderValue = HeaderValue::from_static("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");

/// What describes the API.
pub(crate) struct Documents {
    address: SocketAddr,
}

/// A document and its hash.
struct Document {
    json: Bytes,
    hash: String,
}

impl Document {
    fn new(value: &Value) -> Self {
        let json = value.to_string();
        let mut hash = String::with_capacity(64);
        for byte in Sha256::digest(&json) {
            // Writing to a string cannot fail.
            let _ = write!(hash, "{byte:02X}");
        }
        Self { json: json.into(), hash }
    }

    fn etag(&self) -> HeaderValue {
        HeaderValue::from_str(&format!("\"{}\"", self.hash)).expect("a hash is ASCII")
    }
}

impl Documents {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    pub(crate) fn answer(&self, exchange: &Exchange<'_>, route: &Route<'_>) -> Result<Answer, Refusal> {
        match route {
            Route::CoreVersions => self.api(exchange),
            Route::Groups => groups(exchange),
            Route::OpenApiV2 => openapi_v2(exchange),
            Route::Root => plain(exchange, Some(root())),
            Route::Version => plain(exchange, Some(discovery::version_info())),
            Route::Group(group) => plain(exchange, discovery::api_group(group)),
            Route::GroupVersion { group, version } => plain(exchange, discovery::resource_list(group, version)),
            Route::OpenApiV3
            | Route::OpenApiV3Document(_)
            | Route::Resource(_)
            | Route::Health { .. }
            | Route::Metrics
            | Route::Unknown => Err(Refusal::PageNotFound),
        }
    }

    fn api(&self, exchange: &Exchange<'_>) -> Result<Answer, Refusal> {
        match discovery_form(exchange)? {
            DiscoveryForm::Legacy => plain(exchange, Some(discovery::api_versions(&self.address.to_string()))),
            DiscoveryForm::Aggregated => Ok(aggregated(exchange, &discovery::aggregated_core())),
        }
    }
}

fn discovery_form(exchange: &Exchange<'_>) -> Result<DiscoveryForm, Refusal> {
    negotiate::accept_discovery(exchange.header(ACCEPT))
        .ok_or_else(|| Refusal::NotAcceptable("only the following media types are accepted: application/json".to_owned()))
}

fn groups(exchange: &Exchange<'_>) -> Result<Answer, Refusal> {
    match discovery_form(exchange)? {
        DiscoveryForm::Legacy => plain(exchange, Some(discovery::api_group_list())),
        DiscoveryForm::Aggregated => Ok(aggregated(exchange, &discovery::aggregated_groups())),
    }
}

/// kubectl keeps aggregated discovery on disk and asks whether it has changed.
fn aggregated(exchange: &Exchange<'_>, value: &Value) -> Answer {
    let document = Document::new(value);
    if let Some(unchanged) = unchanged(exchange, &document) {
        return unchanged;
    }
    let mut answer = answer::stream(document.json.clone().into());
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, AGGREGATED);
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(ETAG, document.etag());
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    answer
}

/// 304, if the client has this very document.
fn unchanged(exchange: &Exchange<'_>, document: &Document) -> Option<Answer> {
    let known = exchange.header(IF_NONE_MATCH)?;
    let same = known.split(',').any(|tag| tag.trim().trim_start_matches("W/").trim_matches('"') == document.hash);
    same.then(|| {
        let mut answer = answer::text(StatusCode::NOT_MODIFIED, "");
        answer.headers_mut().remove(CONTENT_TYPE);
        answer.headers_mut().insert(ETAG, document.etag());
        answer
    })
}

fn plain(exchange: &Exchange<'_>, value: Option<Value>) -> Result<Answer, Refusal> {
    let value = value.ok_or(Refusal::PageNotFound)?;
    Ok(exchange.wishes()?.value(StatusCode::OK, &value))
}

/// kubectl asks only for a binary form of v2, and only where there is no v3.
fn openapi_v2(exchange: &Exchange<'_>) -> Result<Answer, Refusal> {
    if negotiate::accepts_json(exchange.header(ACCEPT)) {
        return Err(Refusal::PageNotFound);
    }
    Err(Refusal::NotAcceptable("OpenAPI v2 is not served; use /openapi/v3".to_owned()))
}

fn root() -> Value {
    let groups = discovery::api_group_list();
    let versions = groups["groups"].as_array().into_iter().flatten().filter_map(|group| group["preferredVersion"]["groupVersion"].as_str());
    let mut paths: Vec<String> = ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v3", "/readyz", "/version"]
        .map(ToOwned::to_owned)
        .into_iter()
        .chain(versions.map(|version| format!("/apis/{version}")))
        .collect();
    paths.sort();
    json!({ "paths": paths })
}
