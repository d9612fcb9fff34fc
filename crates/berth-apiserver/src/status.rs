//! Converts errors to `Status` objects. Only this module maps errors to HTTP codes.

use berth_api::FieldError;
use berth_identity::GroupResource;
use berth_registry::{ApiError, DenialCause, DenialDetails, error::Cause};
use hyper::StatusCode;
use serde::Serialize;
use std::{borrow::Cow, time::Duration};

/// The retry interval of a rejected request.
pub(crate) const RETRY_AFTER_SECONDS: u32 = 1;

/// Why a request fails, in terms of HTTP.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The rules of the API reject it.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// It has no valid credentials.
    #[error("Unauthorized")]
    Unauthorized,
    /// The client accepts no available format. The message is complete.
    #[error("{0}")]
    NotAcceptable(String),
    /// The path does not exist. The response is text.
    #[error("404 page not found")]
    PageNotFound,
    /// It timed out.
    #[error("Timeout: request did not complete within the allotted timeout of {} seconds", .0.as_secs())]
    Timeout(Duration),
    /// Too many concurrent requests. The response is text, with a retry interval.
    #[error("Too many requests, please try again later.")]
    Overloaded,
}

/// The wire format of an error, and of a successful delete.
#[derive(Debug, Serialize)]
pub struct Status {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    metadata: ListMeta,
    status: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
}

#[derive(Debug, Default, Serialize)]
struct ListMeta {
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    continue_token: Option<String>,
}

#[derive(Debug, Default, Serialize)]
struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<WireCause>,
    #[serde(rename = "retryAfterSeconds", skip_serializing_if = "is_zero")]
    retry_after_seconds: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this signature")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[derive(Debug, Serialize)]
struct WireCause {
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    field: String,
}

impl From<&Cause> for WireCause {
    fn from(cause: &Cause) -> Self {
        Self { reason: cause.reason.clone(), message: cause.message.clone(), field: cause.field.clone() }
    }
}

impl From<&DenialDetails> for Details {
    fn from(details: &DenialDetails) -> Self {
        let DenialDetails { name, group, kind, uid, causes, retry_after_seconds } = details.clone();
        let causes = causes.into_iter().map(|DenialCause { reason, message, field }| WireCause { reason, message, field }).collect();
        Self { name, group, kind, uid, causes, retry_after_seconds }
    }
}

impl From<&FieldError> for WireCause {
    fn from(error: &FieldError) -> Self {
        Self { reason: error.wire_reason().to_owned(), message: error.message(), field: error.field.to_string() }
    }
}

impl Status {
    fn failure(code: StatusCode, reason: &'static str, message: String) -> Self {
        Self {
            kind: "Status",
            api_version: "v1",
            metadata: ListMeta::default(),
            status: "Failure",
            message,
            reason: reason.into(),
            details: None,
            code: Some(code.as_u16()),
        }
    }

    fn with(self, details: Details) -> Self {
        Self { details: Some(details), ..self }
    }

    /// Returns the response to a delete that removed the object.
    #[must_use]
    pub fn deleted(resource: &GroupResource, name: &str, uid: &str) -> Self {
        let details = Details { uid: uid.to_owned(), ..Details::of(&resource.group, &resource.plural, name) };
        Self {
            kind: "Status",
            api_version: "v1",
            metadata: ListMeta::default(),
            status: "Success",
            message: String::new(),
            reason: Cow::Borrowed(""),
            details: Some(details),
            code: None,
        }
    }

    /// Returns the HTTP code, 200 for a success.
    #[must_use]
    pub fn code(&self) -> StatusCode {
        self.code.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(StatusCode::OK)
    }

    /// Returns the seconds for a `Retry-After` header. Clients retry a rejected request only if it has one.
    #[must_use]
    pub fn retry_after_seconds(&self) -> Option<u32> {
        self.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0)
    }

    /// Returns its JSON.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a Status has string keys only")
    }
}

impl Details {
    fn of(group: &str, kind: &str, name: &str) -> Self {
        Self { group: group.to_owned(), kind: kind.to_owned(), name: name.to_owned(), ..Self::default() }
    }

    fn because<'a, C: 'a>(self, causes: &'a [C]) -> Self
    where
        WireCause: From<&'a C>,
    {
        Self { causes: causes.iter().map(WireCause::from).collect(), ..self }
    }
}

impl From<&Refusal> for Status {
    fn from(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::Api(error) => Self::from(error),
            Refusal::Unauthorized => Self::failure(StatusCode::UNAUTHORIZED, "Unauthorized", refusal.to_string()),
            Refusal::NotAcceptable(message) => Self::failure(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message.clone()),
            Refusal::PageNotFound => Self::failure(StatusCode::NOT_FOUND, "NotFound", refusal.to_string()),
            Refusal::Timeout(_) => Self::failure(StatusCode::GATEWAY_TIMEOUT, "Timeout", refusal.to_string()).with(Details::default()),
            Refusal::Overloaded => {
                let details = Details { retry_after_seconds: RETRY_AFTER_SECONDS, ..Details::default() };
                Self::failure(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", refusal.to_string()).with(details)
            }
        }
    }
}

impl From<&ApiError> for Status {
    fn from(error: &ApiError) -> Self {
        let text = error.to_string();
        match error {
            ApiError::NotFound { resource, name } => {
                Self::failure(StatusCode::NOT_FOUND, "NotFound", text).with(Details::of(&resource.group, &resource.plural, name))
            }
            ApiError::AlreadyExists { resource, name } => {
                Self::failure(StatusCode::CONFLICT, "AlreadyExists", text).with(Details::of(&resource.group, &resource.plural, name))
            }
            ApiError::Conflict { resource, name, .. } => {
                Self::failure(StatusCode::CONFLICT, "Conflict", text).with(Details::of(&resource.group, &resource.plural, name))
            }
            ApiError::ApplyConflict { causes, .. } => {
                Self::failure(StatusCode::CONFLICT, "Conflict", text).with(Details::default().because(causes))
            }
            ApiError::Invalid { kind, name, errors } => Self::failure(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", text)
                .with(Details::of(&kind.group, &kind.kind, name).because(errors)),
            ApiError::BadRequest { .. } => Self::failure(StatusCode::BAD_REQUEST, "BadRequest", text),
            ApiError::BadRequestFields { kind, name, errors } => {
                Self::failure(StatusCode::BAD_REQUEST, "BadRequest", text).with(Details::of(&kind.group, &kind.kind, name).because(errors))
            }
            ApiError::Forbidden { resource, name, causes, .. } => Self::failure(StatusCode::FORBIDDEN, "Forbidden", text)
                .with(Details::of(&resource.group, &resource.plural, name).because(causes)),
            ApiError::Denied { code, reason, details, .. } => {
                let code = StatusCode::from_u16(*code).unwrap_or(StatusCode::BAD_REQUEST);
                let details = details.as_deref().map(Details::from);
                Self { reason: Cow::Owned(reason.clone()), details, ..Self::failure(code, "", text) }
            }
            ApiError::Expired { continue_token, .. } => {
                Self { metadata: ListMeta { continue_token: continue_token.clone() }, ..Self::failure(StatusCode::GONE, "Expired", text) }
            }
            ApiError::TooLargeResourceVersion { .. } => too_large_resource_version(&text),
            ApiError::TooManyRequests { retry_after_seconds, causes, .. } => {
                let details = Details { retry_after_seconds: *retry_after_seconds, ..Details::default() };
                Self::failure(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", text).with(details.because(causes))
            }
            ApiError::MethodNotAllowed | ApiError::NotServed { .. } => {
                Self::failure(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", text).with(Details::default())
            }
            ApiError::UnknownResource => Self::failure(StatusCode::NOT_FOUND, "NotFound", text).with(Details::default()),
            ApiError::Unprocessable => Self::failure(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", text).with(Details::default()),
            ApiError::TooLarge { .. } => Self::failure(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", text),
            ApiError::UnsupportedMediaType { .. } => Self::failure(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", text),
            ApiError::Unavailable { .. } => Self::failure(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", text),
            ApiError::OutcomeUnknown { .. } => {
                Self::failure(StatusCode::GATEWAY_TIMEOUT, "Timeout", format!("Timeout: {text}")).with(Details::default())
            }
            ApiError::NoSpace { .. } => Self::failure(StatusCode::INSUFFICIENT_STORAGE, "InsufficientStorage", text),
            ApiError::NotSupported { .. } => Self::failure(StatusCode::INTERNAL_SERVER_ERROR, "", text),
            ApiError::Internal { .. } => internal(text),
        }
    }
}

/// Requests a retry after a second, when this server may have the revision.
fn too_large_resource_version(text: &str) -> Status {
    let cause =
        WireCause { reason: "ResourceVersionTooLarge".to_owned(), message: "Too large resource version".to_owned(), field: String::new() };
    let details = Details { causes: vec![cause], retry_after_seconds: 1, ..Details::default() };
    Status::failure(StatusCode::GATEWAY_TIMEOUT, "Timeout", format!("Timeout: {text}")).with(details)
}

fn internal(text: String) -> Status {
    let message = format!("Internal error occurred: {text}");
    let cause = WireCause { reason: String::new(), message: text, field: String::new() };
    Status::failure(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message).with(Details { causes: vec![cause], ..Details::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::Path;
    use berth_identity::GroupKind;
    use serde_json::{Value, json};

    #[track_caller]
    fn check(error: impl Into<Refusal>, expected: Value) {
        let status = Status::from(&error.into());
        let found: Value = serde_json::from_slice(&status.encode()).expect("JSON");
        let mut whole = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"});
        for (key, value) in expected.as_object().expect("an object") {
            whole[key] = value.clone();
        }
        assert_eq!(found, whole);
        assert_eq!(Value::from(status.code().as_u16()), expected["code"]);
    }

    #[test]
    fn a_missing_object_is_named() {
        check(
            ApiError::NotFound { resource: GroupResource::from_static("apps", "deployments"), name: "nope".into() },
            json!({"code": 404, "reason": "NotFound", "message": "deployments.apps \"nope\" not found",
                "details": {"name": "nope", "group": "apps", "kind": "deployments"}}),
        );
    }

    #[test]
    fn every_fault_of_an_object_is_a_cause() {
        check(
            ApiError::Invalid {
                kind: GroupKind::from_static("", "Pod"),
                name: "p".into(),
                errors: vec![FieldError::required(&Path::new("spec").child("containers"), "")],
            },
            json!({"code": 422, "reason": "Invalid", "message": "Pod \"p\" is invalid: spec.containers: Required value",
                "details": {"name": "p", "kind": "Pod",
                    "causes": [{"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers"}]}}),
        );
    }

    #[test]
    fn an_expired_list_hands_out_a_token_to_go_on() {
        check(
            ApiError::Expired { message: "too old".into(), continue_token: Some("abc".into()) },
            json!({"code": 410, "reason": "Expired", "message": "too old", "metadata": {"continue": "abc"}}),
        );
    }

    #[test]
    fn a_revision_of_the_future_asks_to_come_back() {
        let error = ApiError::TooLargeResourceVersion { requested: 9, current: 5 };
        assert_eq!(Status::from(&error).retry_after_seconds(), Some(1));
        check(
            error,
            json!({"code": 504, "reason": "Timeout", "message": "Timeout: Too large resource version: 9, current: 5",
                "details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}], "retryAfterSeconds": 1}}),
        );
    }

    #[test]
    fn a_write_that_may_have_happened_is_a_timeout_without_advice_to_repeat_it() {
        let error = ApiError::OutcomeUnknown { message: "the request may have been carried out".into() };
        assert_eq!(Status::from(&error).retry_after_seconds(), None);
        check(error, json!({"code": 504, "reason": "Timeout", "message": "Timeout: the request may have been carried out", "details": {}}));
    }

    #[test]
    fn a_full_store_is_reported_with_its_own_message() {
        let error = ApiError::NoSpace { message: "no space is left for /registry/pods/a/b".into() };
        let told = json!({"code": 507, "reason": "InsufficientStorage", "message": "no space is left for /registry/pods/a/b"});
        check(error, told);
    }

    #[test]
    fn unauthorized_has_no_details() {
        check(Refusal::Unauthorized, json!({"code": 401, "reason": "Unauthorized", "message": "Unauthorized"}));
    }

    #[test]
    fn unknown_things_have_empty_details() {
        check(
            ApiError::UnknownResource,
            json!({"code": 404, "reason": "NotFound", "message": "the server could not find the requested resource", "details": {}}),
        );
    }

    #[test]
    fn a_finished_delete_names_what_is_gone() {
        let found: Value =
            serde_json::from_slice(&Status::deleted(&GroupResource::from_static("", "configmaps"), "c", "u").encode()).expect("JSON");
        let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": "c", "kind": "configmaps", "uid": "u"}});
        assert_eq!(found, expected);
    }
}
