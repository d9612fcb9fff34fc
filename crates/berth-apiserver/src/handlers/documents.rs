//! Documents about the API: discovery, OpenAPI, the version.

use super::{Exchange, tokens};
use crate::{
    answer::{self, Answer, Wishes},
    listing::Writing,
    negotiate::{self, DiscoveryForm, Syntax},
    path::Route,
    status::Refusal,
};
use berth_registry::{Document, discovery};
use bytes::Bytes;
use hyper::{
    StatusCode,
    header::{ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, VARY},
};
use std::{
    net::SocketAddr,
    sync::{Mutex, PoisonError},
};

/// A document whose URL contains its hash never changes.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, immutable, max-age=31536000");
const AGGREGATED: HeaderValue = HeaderValue::from_static("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
const PROTOBUF_V2: HeaderValue = HeaderValue::from_static(berth_protobuf::OPENAPI_V2_MEDIA_TYPE);

/// Cached documents about the API.
pub(crate) struct Documents {
    address: SocketAddr,
    /// OpenAPI v2 in protobuf, and the hash of its source document.
    protobuf_v2: Mutex<Option<(String, Bytes)>>,
}

impl Documents {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, protobuf_v2: Mutex::default() }
    }

    pub(crate) async fn answer(&self, exchange: &Exchange<'_>, route: &Route<'_>) -> Result<Answer, Refusal> {
        let resources = &exchange.resources;
        match route {
            Route::CoreVersions => self.api(exchange).await,
            Route::Groups => groups(exchange).await,
            Route::OpenApiV2 => self.openapi_v2(exchange).await,
            Route::Root => indented(exchange, &resources.discovery().root.json),
            Route::Version => indented(exchange, &discovery::version_document().json),
            Route::Group(group) => plain(exchange, resources.discovery().group(group)).await,
            Route::GroupVersion(version) => {
                let document = resources.discovery().resource_list(version);
                written(exchange, document.ok_or_else(|| exchange.not_served_in(&version.group))?, exchange.is_indented()).await
            }
            Route::OpenApiV3 => written(exchange, &resources.openapi().index, is_asked_for(exchange)).await,
            Route::OpenApiV3Document(path) => openapi_v3(exchange, path).await,
            Route::OpenIdConfiguration | Route::JsonWebKeys => Ok(tokens::discovery(exchange, route, self.address)),
            Route::Resource(_) | Route::Health { .. } | Route::Metrics | Route::Unknown => Err(Refusal::PageNotFound),
        }
    }

    async fn api(&self, exchange: &Exchange<'_>) -> Result<Answer, Refusal> {
        match discovery_form(exchange)? {
            DiscoveryForm::Legacy => written(exchange, &discovery::api_versions(&self.address.to_string()), exchange.is_indented()).await,
            DiscoveryForm::Aggregated => Ok(aggregated(exchange, &exchange.resources.discovery().aggregated_core)),
        }
    }

    /// kubectl requests only the binary form, and current versions only if there is no v3.
    async fn openapi_v2(&self, exchange: &Exchange<'_>) -> Result<Answer, Refusal> {
        let document = exchange.resources.openapi_v2();
        let protobuf = negotiate::prefers_protobuf_openapi(exchange.header(ACCEPT)).then(|| self.protobuf_v2(document));
        let hash = if protobuf.is_some() { format!("{}P", document.hash) } else { document.hash.clone() };
        if let Some(unchanged) = unchanged(exchange, &hash) {
            return Ok(unchanged);
        }
        let gzip = || negotiate::accepts_gzip(exchange.header(ACCEPT_ENCODING));
        let mut answer = match protobuf {
            Some(bytes) => answer::compressible(StatusCode::OK, PROTOBUF_V2, bytes, gzip()),
            None => written(exchange, document, is_asked_for(exchange)).await?,
        };
        let headers = answer.headers_mut();
        headers.insert(ETAG, etag(&hash));
        headers.append(VARY, HeaderValue::from_static("Accept"));
        Ok(answer)
    }

    /// Builds the protobuf form at its first request.
    fn protobuf_v2(&self, of: &Document) -> Bytes {
        let mut made = self.protobuf_v2.lock().unwrap_or_else(PoisonError::into_inner);
        match &*made {
            Some((hash, bytes)) if *hash == of.hash => bytes.clone(),
            _ => {
                let document = serde_json::from_slice(&of.json).expect("the registry writes JSON");
                let bytes = Bytes::from(berth_protobuf::openapi_v2(&document));
                *made = Some((of.hash.clone(), bytes.clone()));
                bytes
            }
        }
    }
}

fn discovery_form(exchange: &Exchange<'_>) -> Result<DiscoveryForm, Refusal> {
    negotiate::accept_discovery(exchange.header(ACCEPT))
        .ok_or_else(|| Refusal::NotAcceptable("only the following media types are accepted: application/json".to_owned()))
}

async fn groups(exchange: &Exchange<'_>) -> Result<Answer, Refusal> {
    match discovery_form(exchange)? {
        DiscoveryForm::Legacy => plain(exchange, Some(&exchange.resources.discovery().groups)).await,
        DiscoveryForm::Aggregated => Ok(aggregated(exchange, &exchange.resources.discovery().aggregated_groups)),
    }
}

/// kubectl caches aggregated discovery on disk and checks whether it has changed.
fn aggregated(exchange: &Exchange<'_>, document: &Document) -> Answer {
    unchanged(exchange, &document.hash).unwrap_or_else(|| {
        let writing = Writing::of(Syntax::Json, exchange.is_indented());
        let mut answer = answer::stream(writing.rewrite(document.json.clone()).into());
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, AGGREGATED);
        headers.insert(VARY, HeaderValue::from_static("Accept"));
        headers.insert(ETAG, etag(&document.hash));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
        answer
    })
}

fn etag(hash: &str) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{hash}\"")).expect("a hash is ASCII")
}

/// Returns 304 if the client has the document with this hash.
fn unchanged(exchange: &Exchange<'_>, hash: &str) -> Option<Answer> {
    let known = exchange.header(IF_NONE_MATCH)?;
    known.split(',').any(|tag| tag.trim().trim_start_matches("W/").trim_matches('"') == hash).then(|| {
        let mut answer = answer::text(StatusCode::NOT_MODIFIED, "");
        answer.headers_mut().remove(CONTENT_TYPE);
        answer.headers_mut().insert(ETAG, etag(hash));
        answer
    })
}

async fn openapi_v3(exchange: &Exchange<'_>, path: &str) -> Result<Answer, Refusal> {
    let document = exchange.resources.openapi().document(path).ok_or(Refusal::PageNotFound)?;
    if let Some(unchanged) = unchanged(exchange, &document.hash) {
        return Ok(unchanged);
    }
    let mut answer = written(exchange, document, is_asked_for(exchange)).await?;
    let headers = answer.headers_mut();
    headers.insert(ETAG, etag(&document.hash));
    headers.append(VARY, HeaderValue::from_static("Accept"));
    if exchange.query.first("hash") == Some(&document.hash) {
        headers.insert(CACHE_CONTROL, IMMUTABLE);
    }
    Ok(answer)
}

async fn plain(exchange: &Exchange<'_>, document: Option<&Document>) -> Result<Answer, Refusal> {
    let document = document.ok_or(Refusal::PageNotFound)?;
    written(exchange, document, exchange.is_indented()).await
}

/// Whether a client explicitly requests indentation, for documents that are not indented by the name of a program.
fn is_asked_for(exchange: &Exchange<'_>) -> bool {
    negotiate::is_indented(exchange.query.first("pretty"), None)
}

/// Returns the document as requested. The unchanged form is shared, and any other is built again.
async fn written(exchange: &Exchange<'_>, document: &Document, pretty: bool) -> Result<Answer, Refusal> {
    let wishes = Wishes { pretty, ..exchange.wishes()? };
    let memory = exchange.memory(wishes.cost(document.json.len())).await?;
    Ok(answer::keeping(wishes.bytes(StatusCode::OK, document.json.clone()), memory))
}

/// Returns a short document, which is always indented.
fn indented(exchange: &Exchange<'_>, json: &Bytes) -> Result<Answer, Refusal> {
    let wishes = Wishes { pretty: true, ..exchange.wishes()? };
    Ok(wishes.bytes(StatusCode::OK, json.clone()))
}
