//! Answers: objects and lists in the form and syntax that the client takes.

use crate::{
    body::{self, GZIP_ABOVE_BYTES, ResponseBody},
    negotiate::{Accepted, Form, Syntax},
    status::{RETRY_AFTER_SECONDS, Refusal, Status},
};
use berth_registry::{
    ApiError, Current, List, Resource, Subresource, splice,
    table::{self, IncludeObject, PartialObjectMetadata, PartialObjectMetadataList, Printer},
};
use bytes::Bytes;
use hyper::{
    Response, StatusCode,
    header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER, VARY},
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

pub(crate) type Answer = Response<ResponseBody>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const YAML: HeaderValue = HeaderValue::from_static("application/yaml");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const GZIP: HeaderValue = HeaderValue::from_static("gzip");

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
    pub(crate) fn printer(&self, resource: &'static Resource) -> Printer {
        Printer { resource, include: self.include, now: self.now }
    }

    /// An object, or a view of one.
    pub(crate) fn object(
        &self,
        code: StatusCode,
        resource: &'static Resource,
        subresource: Option<Subresource>,
        current: &Current,
    ) -> Result<Answer, Refusal> {
        match self.accepted.form {
            Form::Object => Ok(self.bytes(code, encode(current))),
            Form::Table => match (subresource, current) {
                (Some(Subresource::Scale), Current::Made(scale)) => Ok(self.value(code, &table::scale(scale, self.include, self.now))),
                _ => Ok(self.value(code, &self.printer(resource).object(current)?)),
            },
            Form::Metadata => Ok(self.value(code, &PartialObjectMetadata::of_object(current)?)),
            Form::MetadataList => Err(Refusal::NotAcceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*core.{})",
                resource.kind
            ))),
        }
    }

    /// A page of a list.
    pub(crate) fn list(&self, resource: &'static Resource, list: List) -> Result<Answer, Refusal> {
        match self.accepted.form {
            Form::Object if self.is_plain() => Ok(self.plain_list(resource, list)),
            Form::Object => Ok(self.bytes(StatusCode::OK, whole_list(resource, &list))),
            Form::Table => Ok(self.value(StatusCode::OK, &self.printer(resource).list(&list)?)),
            Form::MetadataList => Ok(self.value(StatusCode::OK, &PartialObjectMetadataList::of_list(&list)?)),
            Form::Metadata => Err(Refusal::NotAcceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list (*core.{}List)",
                resource.kind
            ))),
        }
    }

    /// Whether JSON is sent as it is made.
    fn is_plain(&self) -> bool {
        self.accepted.syntax == Syntax::Json && !self.pretty
    }

    fn plain_list(&self, resource: &Resource, list: List) -> Answer {
        let (body, compressed) = body::list(list_head(resource, &list), list.items, self.gzip);
        let mut answer = answer(StatusCode::OK, JSON, body);
        if compressed {
            mark_compressed(&mut answer);
        }
        answer
    }

    pub(crate) fn value<T: Serialize>(&self, code: StatusCode, value: &T) -> Answer {
        self.bytes(code, serde_json::to_vec(value).expect("what is answered has string keys only"))
    }

    /// JSON, turned into what the client takes.
    pub(crate) fn bytes(&self, code: StatusCode, json: Vec<u8>) -> Answer {
        let (content_type, bytes) = match self.accepted.syntax {
            Syntax::Json if self.pretty => (JSON, indent(json)),
            Syntax::Json => (JSON, json),
            Syntax::Yaml => (YAML, to_yaml(&json)),
        };
        compressible(code, content_type, bytes.into(), self.gzip)
    }
}

/// A document of whatever type, compressed where it is large and `gzip` is taken.
pub(crate) fn compressible(code: StatusCode, content_type: HeaderValue, bytes: Bytes, gzip: bool) -> Answer {
    if !gzip || bytes.len() <= GZIP_ABOVE_BYTES {
        return answer(code, content_type, bytes.into());
    }
    let mut answer = answer(code, content_type, body::compress(&bytes).into());
    mark_compressed(&mut answer);
    answer
}

fn mark_compressed(answer: &mut Answer) {
    answer.headers_mut().insert(CONTENT_ENCODING, GZIP);
    answer.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
}

fn answer(code: StatusCode, content_type: HeaderValue, body: ResponseBody) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}

fn encode(current: &Current) -> Vec<u8> {
    match current {
        Current::Stored(entry) => splice::encode_entry(entry),
        Current::Made(value) => value.to_string().into_bytes(),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListHead<'a> {
    kind: String,
    api_version: String,
    metadata: ListMetadata<'a>,
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

/// The JSON of a list up to its first item.
fn list_head(resource: &Resource, list: &List) -> Vec<u8> {
    let head = ListHead {
        kind: format!("{}List", resource.kind),
        api_version: resource.api_version(),
        metadata: ListMetadata {
            resource_version: list.revision.to_string(),
            continue_token: &list.continue_token,
            remaining_item_count: list.remaining,
        },
    };
    let mut bytes = serde_json::to_vec(&head).expect("what is answered has string keys only");
    bytes.pop();
    bytes.extend_from_slice(b",\"items\":[");
    bytes
}

fn whole_list(resource: &Resource, list: &List) -> Vec<u8> {
    let mut bytes = list_head(resource, list);
    for (index, entry) in list.items.iter().enumerate() {
        if index != 0 {
            bytes.push(b',');
        }
        splice::write_item(entry, &mut bytes);
    }
    bytes.extend_from_slice(b"]}");
    bytes
}

fn indent(json: Vec<u8>) -> Vec<u8> {
    let indented = serde_json::from_slice::<Value>(&json).and_then(|value| serde_json::to_vec_pretty(&value));
    indented.unwrap_or(json)
}

fn to_yaml(json: &[u8]) -> Vec<u8> {
    let value: Value = serde_json::from_slice(json).expect("what is answered is JSON");
    serde_saphyr::to_string(&value).expect("JSON is YAML").into_bytes()
}

/// A `Status`.
pub(crate) fn status(status: &Status) -> Answer {
    let mut answer = answer(status.code(), JSON, status.encode().into());
    if let Some(seconds) = status.retry_after_seconds() {
        answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    answer
}

/// A refusal.
pub(crate) fn refusal(refusal: &Refusal) -> Answer {
    match refusal {
        Refusal::PageNotFound => text(StatusCode::NOT_FOUND, "404 page not found\n"),
        Refusal::Overloaded => {
            let mut answer = text(StatusCode::TOO_MANY_REQUESTS, format!("{refusal}\n"));
            answer.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_SECONDS.into());
            answer
        }
        Refusal::Api(_) | Refusal::Unauthorized | Refusal::NotAcceptable(_) | Refusal::Timeout(_) => status(&Status::from(refusal)),
    }
}

/// Plain text.
pub(crate) fn text(code: StatusCode, text: impl Into<Bytes>) -> Answer {
    answer(code, TEXT, ResponseBody::from(text.into()))
}

/// A stream of JSON lines.
pub(crate) fn stream(body: ResponseBody) -> Answer {
    answer(StatusCode::OK, JSON, body)
}

/// The fault of a server whose handler panicked.
pub(crate) fn internal_error() -> Answer {
    status(&Status::from(&ApiError::Internal { message: "the request could not be served; the server's log has more".to_owned() }))
}
