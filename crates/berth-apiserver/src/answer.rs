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

/// Longer lists are made aside of other requests' work.
const LONG_LIST_ITEMS: usize = 1000;
/// The longest list as YAML or indented, in bytes of its objects.
const READABLE_BYTES_MAX: usize = 16 << 20;

/// Work that takes long: other requests go on on another thread meanwhile, where the runtime has one.
fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(work),
        _ => work(),
    }
}

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
        Printer { resource: Arc::clone(resource), include: self.include, now: self.now }
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
            Form::Metadata => Ok(self.value(code, &PartialObjectMetadata::of_object(current)?)),
            Form::MetadataList => Err(Refusal::NotAcceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*core.{})",
                resource.kind
            ))),
        }
    }

    /// A page of a list.
    pub(crate) fn list(&self, resource: &Arc<Resource>, list: List) -> Result<Answer, Refusal> {
        if self.accepted.form == Form::Object && self.is_plain() {
            return Ok(self.plain_list(resource, list));
        }
        if list.items.len() <= LONG_LIST_ITEMS { self.made_list(resource, list) } else { aside(|| self.made_list(resource, list)) }
    }

    /// A list of which every item is looked at.
    fn made_list(&self, resource: &Arc<Resource>, list: List) -> Result<Answer, Refusal> {
        match self.accepted.form {
            Form::Object => self.readable_list(resource, list),
            Form::Table => Ok(self.value(StatusCode::OK, &self.printer(resource).list(&list)?)),
            Form::MetadataList => Ok(self.value(StatusCode::OK, &PartialObjectMetadataList::of_list(&list)?)),
            Form::Metadata => Err(Refusal::NotAcceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list (*core.{}List)",
                resource.kind
            ))),
        }
    }

    /// A list as YAML or indented. Both need all of it as a tree, several times its size: long ones are refused as YAML and not indented.
    fn readable_list(&self, resource: &Arc<Resource>, list: List) -> Result<Answer, Refusal> {
        let size: usize = list.items.iter().map(|entry| entry.value.len()).sum();
        match self.accepted.syntax {
            _ if size <= READABLE_BYTES_MAX => Ok(self.bytes(StatusCode::OK, whole_list(resource, &list))),
            Syntax::Json => Ok(self.plain_list(resource, list)),
            Syntax::Yaml => {
                let message =
                    format!("the list is too large for YAML: the limit is {READABLE_BYTES_MAX}; ask for JSON, or for pages by `limit`");
                Err(ApiError::TooLarge { message }.into())
            }
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
    pub(crate) fn bytes(&self, code: StatusCode, json: impl Into<Bytes>) -> Answer {
        let json = json.into();
        let (content_type, bytes) = match self.accepted.syntax {
            Syntax::Json if self.pretty => (JSON, indent(json)),
            Syntax::Json => (JSON, json),
            Syntax::Yaml => (YAML, to_yaml(&json).into()),
        };
        compressible(code, content_type, bytes, self.gzip)
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
    api_version: &'a str,
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

fn indent(json: Bytes) -> Bytes {
    let indented = serde_json::from_slice::<Value>(&json).and_then(|value| serde_json::to_vec_pretty(&value));
    indented.map_or(json, Bytes::from)
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
    status(&Status::from(&ApiError::Internal { message: "the request could not be served; the server's log has more".to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::LargeBody;
    use berth_registry::resource;
    use berth_store::{Entry, Header, Key, Revision};

    const LEAD: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"#;

    fn list(items: usize) -> List {
        let header = Header { metadata_at: u32::try_from(LEAD.len()).expect("short"), ..Header::default() };
        let value = format!(r#"{LEAD}"name":"c"}},"data":{{"a":"{}"}}}}"#, "x".repeat(1 << 20)).into();
        let key = Key::new("/registry/core/configmaps/a/c");
        let entry = Arc::new(Entry { key, value, header, create_revision: Revision(1), mod_revision: Revision(1) });
        List { items: vec![entry; items], revision: Revision(1), continue_token: String::new(), remaining: None }
    }

    fn ask(syntax: Syntax, items: usize) -> Result<Answer, Refusal> {
        let accepted = Accepted { form: Form::Object, syntax };
        let wishes = Wishes { accepted, include: IncludeObject::default(), gzip: false, pretty: true, now: Timestamp::UNIX_EPOCH };
        wishes.list(resource::built_in().find("", "v1", "configmaps").expect("served"), list(items))
    }

    #[test]
    fn lists_too_large_to_be_made_readable_are_refused_or_sent_as_they_are() {
        let indented = ask(Syntax::Json, 1).expect("short").into_body();
        assert!(matches!(indented, ResponseBody::Large(LargeBody::Bytes(bytes)) if bytes.starts_with(b"{\n")));
        assert!(matches!(ask(Syntax::Json, 17).expect("sent").into_body(), ResponseBody::Large(LargeBody::List(_))));
        assert!(ask(Syntax::Yaml, 1).is_ok());
        assert!(matches!(ask(Syntax::Yaml, 17), Err(Refusal::Api(ApiError::TooLarge { .. }))));
    }
}
