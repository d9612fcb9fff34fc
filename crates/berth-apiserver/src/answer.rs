//! Answers: objects and lists in the form and syntax that the client takes.

use crate::{
    body::{LargeBody, ResponseBody},
    flow::Kept,
    limits::{CHUNK_BYTES, GZIP_ABOVE_BYTES},
    listing::{self, Compressing, Listed, Shape, Writing},
    negotiate::{Accepted, Form, Syntax},
    status::{RETRY_AFTER_SECONDS, Refusal, Status},
};
use berth_registry::{
    ApiError, Current, List, Resource, Subresource, TOLD_BYTES_MAX, splice,
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

/// Work that takes long: other requests go on on another thread meanwhile, where the runtime has one.
fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(work),
        _ => work(),
    }
}

/// How many times its own size an object takes at most while it is looked into: as a tree, or as its type.
const LOOKED_INTO_FACTOR: usize = 16;
/// What a list takes while it is made and sent, besides its entries and what the longest item takes.
const LIST_BYTES: usize = 8 * CHUNK_BYTES;
/// What compression takes.
const GZIP_BYTES: usize = 320 << 10;

/// How a client wants its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wishes {
    /// Form and syntax.
    pub(crate) accepted: Accepted,
    /// What rows of a table carry.
    pub(crate) include: IncludeObject,
    /// Whether large answers may be compressed.
    pub(crate) gzip: bool,
    /// Whether to indent.
    pub(crate) pretty: bool,
    /// Ages are as of now.
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

    /// How many bytes an answer takes while it is made of an object or a document of so many bytes, and sent.
    pub(crate) fn cost(&self, bytes: usize) -> usize {
        let is_as_stored = self.accepted.form == Form::Object && self.writing() == Writing::Plain;
        let compression = if self.gzip && GZIP_ABOVE_BYTES < bytes { GZIP_BYTES } else { 0 };
        bytes * if is_as_stored { 1 } else { LOOKED_INTO_FACTOR } + compression
    }

    /// The same of a list.
    pub(crate) fn cost_of_list(&self, items: &[Arc<Entry>]) -> usize {
        let longest = items.iter().map(|entry| entry.value.len()).max().unwrap_or(0);
        let all = if longest * items.len() <= GZIP_ABOVE_BYTES { 0 } else { LIST_BYTES + size_of_val(items) };
        all + self.cost(longest) + if self.gzip && 0 < all { GZIP_BYTES } else { 0 }
    }

    /// The same of a list of what was deleted, which nobody else keeps.
    pub(crate) fn cost_of_deleted(&self) -> usize {
        TOLD_BYTES_MAX + LIST_BYTES + GZIP_BYTES
    }

    /// A page of a list. Made while it is sent, unless it is short.
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

    /// JSON, with the line break that ends it, turned into what the client takes.
    pub(crate) fn bytes(&self, code: StatusCode, json: impl Into<Bytes>) -> Answer {
        compressible(code, self.content_type(), self.writing().rewrite(json.into()), self.gzip)
    }
}

/// A document of whatever type, compressed while it is sent where it is large and `gzip` is taken.
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

/// The answer keeps its memory until it is sent.
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

/// A list, of which the items come later.
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

/// A refusal.
pub(crate) fn refusal(refusal: &Refusal, indented: bool) -> Answer {
    match refusal {
        Refusal::PageNotFound => text(StatusCode::NOT_FOUND, "404 page not found\n"),
        Refusal::Overloaded => {
            let mut answer = text(StatusCode::TOO_MANY_REQUESTS, format!("{refusal}\n"));
            answer.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_SECONDS.into());
            answer
        }
        Refusal::Api(_) | Refusal::Unauthorized | Refusal::NotAcceptable(_) | Refusal::Timeout(_) => {
            status(&Status::from(refusal), indented)
        }
    }
}

/// A request that is not as requests of HTTP/1.1 are: nothing that comes behind it on its connection is read.
pub(crate) fn bad_request(why: &'static str) -> Answer {
    let mut answer = text(StatusCode::BAD_REQUEST, why);
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// Plain text.
pub(crate) fn text(code: StatusCode, text: impl Into<Bytes>) -> Answer {
    answer(code, TEXT, ResponseBody::from(text.into()))
}

/// What a container has written.
pub(crate) fn log(body: ResponseBody) -> Answer {
    answer(StatusCode::OK, LOG, body)
}

/// Nothing, and no fault either.
pub(crate) fn no_content() -> Answer {
    let mut answer = Response::new(ResponseBody::Full(Bytes::new()));
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer
}

/// A stream of JSON lines.
pub(crate) fn stream(body: ResponseBody) -> Answer {
    answer(StatusCode::OK, JSON, body)
}

/// The fault of a server whose handler panicked.
pub(crate) fn internal_error() -> Answer {
    let error = ApiError::Internal { message: "the request could not be served; the server's log has more".to_owned() };
    status(&Status::from(&error), false)
}
