//! Responses: objects and lists in the form and encoding that the client accepts.

use crate::{
    body::{LargeBody, ResponseBody},
    flow::Kept,
    limits::{CHUNK_BYTES, GZIP_ABOVE_BYTES},
    listing::{self, Compressing, Listed, Shape, Writing},
    negotiate::{Accepted, Form, Syntax},
    status::{RETRY_AFTER_SECONDS, Refusal, Status},
    warnings,
};
use berth_registry::{
    ApiError, Current, List, RETURNED_BYTES_MAX, Resource, Subresource, splice,
    table::{self, IncludeObject, PartialObjectMetadata, PartialObjectMetadataList, Printer},
};
use berth_store::Entry;
use bytes::Bytes;
use hyper::{
    Response, StatusCode,
    header::{CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER, VARY},
};
use jiff::Timestamp;
use serde::Serialize;
use std::sync::Arc;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
};

pub(crate) type Answer = Response<ResponseBody>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const YAML: HeaderValue = HeaderValue::from_static("application/yaml");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
/// As upstream passes on what a kubelet sends.
const LOG: HeaderValue = HeaderValue::from_static("text/plain");
const GZIP: HeaderValue = HeaderValue::from_static("gzip");

/// The beginning of longer lists whose items are looked into is made aside of other requests' work.
const LONG_LIST_ITEMS: usize = 100;

/// Runs long work. The runtime moves other tasks to another thread, if it has one.
fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(work),
        _ => work(),
    }
}

/// The maximum size of an object during conversion (as a tree or a typed object), in multiples of its stored size.
const LOOKED_INTO_FACTOR: usize = 16;
/// The memory of a list while it is built and sent, besides its entries and the longest item.
const LIST_BYTES: usize = 8 * CHUNK_BYTES;
/// The memory of compression.
const GZIP_BYTES: usize = 320 << 10;

/// The response format that the client requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wishes {
    /// Form and syntax.
    pub(crate) accepted: Accepted,
    /// The contents of table rows.
    pub(crate) include: IncludeObject,
    /// Whether large responses may be compressed.
    pub(crate) gzip: bool,
    /// Whether to indent.
    pub(crate) pretty: bool,
    /// The time for ages.
    pub(crate) now: Timestamp,
}

impl Wishes {
    pub(crate) fn printer(&self, resource: &Arc<Resource>) -> Printer {
        Printer { resource: Arc::clone(resource), include: self.include, version: self.accepted.version, now: self.now }
    }

    /// An object, or a view of one.
    pub(crate) fn object(
        &self,
        code: StatusCode,
        resource: &Arc<Resource>,
        subresource: Option<Subresource>,
        current: &Current,
    ) -> Result<Answer, Refusal> {
        match self.accepted.form {
            Form::Object => Ok(self.bytes(code, encode(current))),
            Form::Table => match (subresource, current) {
                (Some(Subresource::Scale), Current::Made(scale)) => Ok(self.value(code, &table::scale(scale, self.include, self.now))),
                _ => Ok(self.value(code, &self.printer(resource).object(current)?)),
            },
            Form::Metadata => Ok(self.value(code, &PartialObjectMetadata::of_object(current)?.in_version(self.accepted.version))),
            Form::MetadataList => Err(Refusal::NotAcceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*core.{})",
                resource.kind()
            ))),
        }
    }

    /// Returns the memory that a response needs while it is built from an object or document of this size, and sent.
    pub(crate) fn cost(&self, bytes: usize) -> usize {
        let is_as_stored = self.accepted.form == Form::Object && self.writing() == Writing::Plain;
        let compression = if self.gzip && GZIP_ABOVE_BYTES < bytes { GZIP_BYTES } else { 0 };
        bytes * if is_as_stored { 1 } else { LOOKED_INTO_FACTOR } + compression
    }

    /// Returns the same for a list.
    pub(crate) fn cost_of_list(&self, items: &[Arc<Entry>]) -> usize {
        let longest = items.iter().map(|entry| entry.value.len()).max().unwrap_or(0);
        let all = if longest * items.len() <= GZIP_ABOVE_BYTES { 0 } else { LIST_BYTES + size_of_val(items) };
        all + self.cost(longest) + if self.gzip && 0 < all { GZIP_BYTES } else { 0 }
    }

    /// Returns the same for a list of deleted objects, which exist only for the response.
    pub(crate) fn cost_of_deleted(&self) -> usize {
        RETURNED_BYTES_MAX + LIST_BYTES + GZIP_BYTES
    }

    /// Returns a page of a list. Unless it is short, it is built while it is sent.
    pub(crate) fn list(&self, resource: &Arc<Resource>, list: List) -> Result<Answer, Refusal> {
        let (shape, head) = match self.accepted.form {
            Form::Object => {
                let shape = if resource.is_built_in() { Shape::Whole } else { Shape::Typed };
                (shape, encode_head(&ListHead::of(resource, &list)))
            }
            Form::Table => {
                let printer = self.printer(resource);
                let head = encode_head(&printer.head(&list));
                (Shape::Row(printer), head)
            }
            Form::MetadataList => {
                let version = self.accepted.version;
                (Shape::Metadata(version), encode_head(&PartialObjectMetadataList::head(&list, version)))
            }
            Form::Metadata => {
                return Err(Refusal::NotAcceptable(format!(
                    "you requested PartialObjectMetadata, but the requested object is a list (*core.{}List)",
                    resource.kind()
                )));
            }
        };
        let is_long = LONG_LIST_ITEMS < list.items.len() && !listing::is_copied(&shape, self.writing());
        let make = || listing::list(&head, list.items, shape, self.writing(), self.gzip);
        let (body, compressed) = match if is_long { aside(make) } else { make() }? {
            Listed::Short(bytes) => (bytes.into(), false),
            Listed::Long(list) => {
                let compressed = list.is_compressed();
                (ResponseBody::Large(LargeBody::List(list), None), compressed)
            }
        };
        let mut answer = answer(StatusCode::OK, self.content_type(), body);
        if compressed {
            mark_compressed(&mut answer);
        }
        Ok(answer)
    }

    fn writing(&self) -> Writing {
        Writing::of(self.accepted.syntax, self.pretty)
    }

    fn content_type(&self) -> HeaderValue {
        match self.accepted.syntax {
            Syntax::Json => JSON,
            Syntax::Yaml => YAML,
        }
    }

    pub(crate) fn value<T: Serialize>(&self, code: StatusCode, value: &T) -> Answer {
        let mut json = serde_json::to_vec(value).expect("what is answered has string keys only");
        json.push(b'\n');
        self.bytes(code, json)
    }

    /// Converts JSON, with its final line break, to the requested encoding.
    pub(crate) fn bytes(&self, code: StatusCode, json: impl Into<Bytes>) -> Answer {
        compressible(code, self.content_type(), self.writing().rewrite(json.into()), self.gzip)
    }
}

/// Returns a document of any type. A large one is compressed while it is sent, if `gzip` is set.
pub(crate) fn compressible(code: StatusCode, content_type: HeaderValue, bytes: Bytes, gzip: bool) -> Answer {
    if !gzip || bytes.len() <= GZIP_ABOVE_BYTES {
        return answer(code, content_type, bytes.into());
    }
    let body = ResponseBody::Large(LargeBody::Compressed(Box::new(Compressing::new(bytes))), None);
    let mut answer = answer(code, content_type, body);
    mark_compressed(&mut answer);
    answer
}

fn mark_compressed(answer: &mut Answer) {
    answer.headers_mut().insert(CONTENT_ENCODING, GZIP);
    answer.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
}

/// Makes the response hold its memory until it is sent.
pub(crate) fn keeping(mut answer: Answer, memory: Kept) -> Answer {
    answer.body_mut().keep(memory);
    answer
}

fn answer(code: StatusCode, content_type: HeaderValue, body: ResponseBody) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}

fn encode(current: &Current) -> Vec<u8> {
    let mut json = match current {
        Current::Stored(entry) => splice::encode_entry(entry),
        Current::Made(value) => value.to_string().into_bytes(),
    };
    json.push(b'\n');
    json
}

/// A list without its items, which follow.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListHead<'a> {
    kind: String,
    api_version: &'a str,
    metadata: ListMetadata<'a>,
    items: [(); 0],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata<'a> {
    resource_version: String,
    #[serde(rename = "continue", skip_serializing_if = "str::is_empty")]
    continue_token: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_item_count: Option<usize>,
}

impl<'a> ListHead<'a> {
    fn of(resource: &'a Resource, list: &'a List) -> Self {
        let metadata = ListMetadata {
            resource_version: list.revision.to_string(),
            continue_token: &list.continue_token,
            remaining_item_count: list.remaining,
        };
        Self { kind: format!("{}List", resource.kind()), api_version: resource.api_version(), metadata, items: [] }
    }
}

/// The JSON of a list without items.
fn encode_head<T: Serialize>(head: &T) -> Vec<u8> {
    serde_json::to_vec(head).expect("what is answered has string keys only")
}

/// A `Status`.
pub(crate) fn status(status: &Status, indented: bool) -> Answer {
    let writing = Writing::of(Syntax::Json, indented);
    let mut json = status.encode();
    json.push(b'\n');
    let mut answer = answer(status.code(), JSON, writing.rewrite(json.into()).into());
    if let Some(seconds) = status.retry_after_seconds() {
        answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    answer
}

/// Returns the response for an error.
pub(crate) fn refusal(refusal: &Refusal, indented: bool) -> Answer {
    match refusal {
        Refusal::PageNotFound => text(StatusCode::NOT_FOUND, "404 page not found\n"),
        Refusal::Overloaded => {
            let mut answer = text(StatusCode::TOO_MANY_REQUESTS, format!("{refusal}\n"));
            answer.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_SECONDS.into());
            answer
        }
        Refusal::Api(error) => {
            let mut answer = status(&Status::from(refusal), indented);
            if let ApiError::Denied { warnings, .. } = error {
                warnings::add_to(answer.headers_mut(), warnings);
            }
            answer
        }
        Refusal::Unauthorized | Refusal::NotAcceptable(_) | Refusal::Timeout(_) => status(&Status::from(refusal), indented),
    }
}

/// Rejects a malformed HTTP/1.1 request. The server reads nothing more on its connection.
pub(crate) fn bad_request(why: &'static str) -> Answer {
    let mut answer = text(StatusCode::BAD_REQUEST, why);
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// Plain text.
pub(crate) fn text(code: StatusCode, text: impl Into<Bytes>) -> Answer {
    answer(code, TEXT, ResponseBody::from(text.into()))
}

/// Returns a container's log.
pub(crate) fn log(body: ResponseBody) -> Answer {
    answer(StatusCode::OK, LOG, body)
}

/// Returns an empty successful response.
pub(crate) fn no_content() -> Answer {
    let mut answer = Response::new(ResponseBody::Full(Bytes::new()));
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer
}

/// A stream of JSON lines.
pub(crate) fn stream(body: ResponseBody) -> Answer {
    answer(StatusCode::OK, JSON, body)
}

/// Returns the response after a panic of a handler.
pub(crate) fn internal_error() -> Answer {
    let error = ApiError::Internal { message: "the request could not be served; the server's log has more".to_owned() };
    status(&Status::from(&error), false)
}
