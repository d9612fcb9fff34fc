//! Documents about the API itself: discovery, OpenAPI, the version.

use super::{Exchange, tokens};
use crate::{
    answer::{self, Answer},
    negotiate::{self, DiscoveryForm},
    path::Route,
    status::Refusal,
};
use berth_registry::{discovery, openapi};
use bytes::Bytes;
use hyper::{
    StatusCode,
    header::{ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, VARY},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{fmt::Write as _, net::SocketAddr, sync::OnceLock};

/// A document under its own hash never changes.
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, immutable, max-age=31536000");
const AGGREGATED: HeaderValue = HeaderValue::from_static("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
const PROTOBUF_V2: HeaderValue = HeaderValue::from_static(berth_protobuf::OPENAPI_V2_MEDIA_TYPE);

/// What describes the API.
pub(crate) struct Documents {
    address: SocketAddr,
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
            Route::OpenApiV3 => plain(exchange, Some(openapi::index())),
            Route::OpenApiV3Document(path) => openapi_v3(exchange, path),
            Route::OpenIdConfiguration | Route::JsonWebKeys => Ok(tokens::discovery(exchange, route, self.address)),
            Route::Resource(_) | Route::Health { .. } | Route::Metrics | Route::Unknown => Err(Refusal::PageNotFound),
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
    let json = value.to_string();
    let hash = hash(json.as_bytes());
    unchanged(exchange, &hash).unwrap_or_else(|| {
        let mut answer = answer::stream(Bytes::from(json).into());
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, AGGREGATED);
        headers.insert(VARY, HeaderValue::from_static("Accept"));
        headers.insert(ETAG, etag(&hash));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
        answer
    })
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02X}");
        text
    })
}

fn etag(hash: &str) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{hash}\"")).expect("a hash is ASCII")
}

/// 304, if the client has the document of this hash.
fn unchanged(exchange: &Exchange<'_>, hash: &str) -> Option<Answer> {
    let known = exchange.header(IF_NONE_MATCH)?;
    known.split(',').any(|tag| tag.trim().trim_start_matches("W/").trim_matches('"') == hash).then(|| {
        let mut answer = answer::text(StatusCode::NOT_MODIFIED, "");
        answer.headers_mut().remove(CONTENT_TYPE);
        answer.headers_mut().insert(ETAG, etag(hash));
        answer
    })
}

fn openapi_v3(exchange: &Exchange<'_>, path: &str) -> Result<Answer, Refusal> {
    let document = openapi::document(path).ok_or(Refusal::PageNotFound)?;
    if let Some(unchanged) = unchanged(exchange, &document.hash) {
        return Ok(unchanged);
    }
    let mut answer = exchange.wishes()?.bytes(StatusCode::OK, document.json.clone());
    let headers = answer.headers_mut();
    headers.insert(ETAG, etag(&document.hash));
    headers.append(VARY, HeaderValue::from_static("Accept"));
    if exchange.query.first("hash") == Some(&document.hash) {
        headers.insert(CACHE_CONTROL, FOR_EVER);
    }
    Ok(answer)
}

fn plain(exchange: &Exchange<'_>, value: Option<Value>) -> Result<Answer, Refusal> {
    let value = value.ok_or(Refusal::PageNotFound)?;
    Ok(exchange.wishes()?.value(StatusCode::OK, &value))
}

/// kubectl asks only for the binary form, and today's only where there is no v3.
fn openapi_v2(exchange: &Exchange<'_>) -> Result<Answer, Refusal> {
    let document = openapi::v2();
    let protobuf = negotiate::prefers_protobuf_openapi(exchange.header(ACCEPT)).then(protobuf_v2);
    let hash = if protobuf.is_some() { format!("{}P", document.hash) } else { document.hash.clone() };
    if let Some(unchanged) = unchanged(exchange, &hash) {
        return Ok(unchanged);
    }
    let mut answer = match protobuf {
        Some(bytes) => answer::compressible(StatusCode::OK, PROTOBUF_V2, bytes, negotiate::accepts_gzip(exchange.header(ACCEPT_ENCODING))),
        None => exchange.wishes()?.bytes(StatusCode::OK, document.json.clone()),
    };
    let headers = answer.headers_mut();
    headers.insert(ETAG, etag(&hash));
    headers.append(VARY, HeaderValue::from_static("Accept"));
    Ok(answer)
}

/// Made at the first call.
fn protobuf_v2() -> Bytes {
    static BYTES: OnceLock<Bytes> = OnceLock::new();
    let encode = || {
        let document = serde_json::from_slice(&openapi::v2().json).expect("the registry writes JSON");
        berth_protobuf::openapi_v2(&document).into()
    };
    BYTES.get_or_init(encode).clone()
}

fn root() -> Value {
    let groups = discovery::api_group_list();
    let versions = groups["groups"].as_array().into_iter().flatten().filter_map(|group| group["preferredVersion"]["groupVersion"].as_str());
    let mut paths: Vec<String> =
        ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
            .map(ToOwned::to_owned)
            .into_iter()
            .chain(versions.map(|version| format!("/apis/{version}")))
            .collect();
    paths.sort();
    json!({ "paths": paths })
}
