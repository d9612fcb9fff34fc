//! Why a request is refused. No status codes here: `berth-apiserver` turns each case into a `Status`, remote clients turn a `Status` back.

use berth_api::FieldError;

/// A refused request. Nothing changed, except where a case says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// No such object. `resource` is the plural, `group` empty for core.
    #[error("{} {name:?} not found", qualified(.resource, .group))]
    NotFound { group: String, resource: String, name: String },
    /// The name is taken.
    #[error("{} {name:?} already exists", qualified(.resource, .group))]
    AlreadyExists { group: String, resource: String, name: String },
    /// Somebody else was first, or a precondition failed; `message` is complete. `kind` is what `details.kind` shows.
    #[error("{message}")]
    Conflict { group: String, kind: String, name: String, message: String },
    /// The object is invalid: every fault, in upstream's order.
    #[error("{}", invalid_message(.group, .kind, .name, .errors))]
    Invalid { group: String, kind: String, name: String, errors: Vec<FieldError> },
    /// The request cannot be understood.
    #[error("{message}")]
    BadRequest { message: String },
    /// As [`ApiError::BadRequest`], with the faults listed (KEP-2255).
    #[error("{message}")]
    BadRequestFields { group: String, kind: String, name: String, message: String, errors: Vec<FieldError> },
    /// Admission or authorisation says no; `message` is complete. `causes` are (reason, message, field).
    #[error("{message}")]
    Forbidden { group: String, resource: String, name: String, message: String, causes: Vec<Cause> },
    /// The revision asked for is no longer kept. `continue_token` restarts a list at the newest revision.
    #[error("{message}")]
    Expired { message: String, continue_token: Option<String> },
    /// The revision asked for is not there yet.
    #[error("Too large resource version: {requested}, current: {current}")]
    TooLargeResourceVersion { requested: u64, current: u64 },
    /// Come back later (eviction). `retry_after_seconds` 0 means unsaid.
    #[error("{message}")]
    TooManyRequests { message: String, retry_after_seconds: u32, causes: Vec<Cause> },
    /// The path does not take this verb.
    #[error("the server does not allow this method on the requested resource")]
    MethodNotAllowed,
    /// No such resource or subresource.
    #[error("the server could not find the requested resource")]
    UnknownResource,
    /// A patch that cannot be applied to this object (JSON patch test, missing target, …).
    #[error("the server rejected our request due to an error in our request")]
    Unprocessable,
    /// Larger than is taken; `message` is complete.
    #[error("{message}")]
    TooLarge { message: String },
    /// A body or patch of a type that is not taken; `message` is complete.
    #[error("{message}")]
    UnsupportedMediaType { message: String },
    /// The store is not there, or does not know whether a write happened.
    #[error("{message}")]
    Unavailable { message: String },
    /// A fault of the server's own.
    #[error("{message}")]
    Internal { message: String },
}

/// One of `details.causes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// `reason`.
    pub reason: String,
    /// `message`.
    pub message: String,
    /// `field`; may be empty.
    pub field: String,
}

/// `deployments.apps`, `pods`.
#[must_use]
pub fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn invalid_message(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let what = if let [one] = texts.as_slice() { one.clone() } else { format!("[{}]", texts.join(", ")) };
    format!("{} {name:?} is invalid: {what}", qualified(kind, group))
}
