//! Why a request is refused. No status codes here: `berth-apiserver` turns each case into a `Status`, remote clients turn a `Status` back.

use crate::{Resource, Target};
use berth_api::FieldError;
use berth_identity::{ApiName, GroupKind, GroupResource};
use berth_store::{ReadError, WriteError};
use std::collections::BTreeSet;

/// A refused request. Nothing changed, except where a case says otherwise.
///
/// In every case `name` is the object's name, which is empty where it has none yet.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// No such object.
    #[error("{resource} {name:?} not found")]
    NotFound {
        /// Its resource.
        resource: GroupResource,
        /// As asked for.
        name: String,
    },
    /// The name is taken.
    #[error("{resource} {name:?} already exists")]
    AlreadyExists {
        /// Its resource.
        resource: GroupResource,
        /// As asked for.
        name: String,
    },
    /// Somebody else was first, or a precondition failed.
    #[error("{message}")]
    Conflict {
        /// Its resource. For a failed precondition of a deletion upstream shows the kind in place of the plural.
        resource: GroupResource,
        /// The object's name.
        name: String,
        /// Complete.
        message: String,
    },
    /// Server-side apply: others own fields that it would change.
    #[error("{message}")]
    ApplyConflict {
        /// Complete.
        message: String,
        /// One a field and owner.
        causes: Vec<Cause>,
    },
    /// The object, or the options of the request, are invalid.
    #[error("{}", invalid_message(.kind, .name, .errors))]
    Invalid {
        /// Its kind; `CreateOptions` and the like of `meta.k8s.io` for options, empty for a patch whose result cannot be read.
        kind: GroupKind,
        /// The object's name.
        name: String,
        /// Every fault, in upstream's order.
        errors: Vec<FieldError>,
    },
    /// The request cannot be understood.
    #[error("{message}")]
    BadRequest {
        /// Complete.
        message: String,
    },
    /// As [`ApiError::Invalid`], but a bad request (KEP-2255).
    #[error("{}", invalid_message(.kind, .name, .errors))]
    BadRequestFields {
        /// Its kind.
        kind: GroupKind,
        /// The object's name.
        name: String,
        /// Every fault.
        errors: Vec<FieldError>,
    },
    /// Admission or authorisation says no.
    #[error("{message}")]
    Forbidden {
        /// Its resource.
        resource: GroupResource,
        /// The object's name.
        name: String,
        /// Complete.
        message: String,
        /// May be empty.
        causes: Vec<Cause>,
        /// The name of the admission plug-in; `None`: authorisation.
        refused_by: Option<&'static str>,
    },
    /// The revision asked for is no longer kept.
    #[error("{message}")]
    Expired {
        /// Complete.
        message: String,
        /// Goes on with the list at the newest revision, for the answer's `metadata.continue`.
        continue_token: Option<String>,
    },
    /// The revision asked for is not there yet, also after some seconds of waiting.
    #[error("Too large resource version: {requested}, current: {current}")]
    TooLargeResourceVersion {
        /// As asked for.
        requested: u64,
        /// The newest.
        current: u64,
    },
    /// Come back later (eviction).
    #[error("{message}")]
    TooManyRequests {
        /// Complete.
        message: String,
        /// When to come back; 0: unsaid.
        retry_after_seconds: u32,
        /// Why.
        causes: Vec<Cause>,
    },
    /// The path does not take this verb.
    #[error("the server does not allow this method on the requested resource")]
    MethodNotAllowed,
    /// As [`ApiError::MethodNotAllowed`], where a person should know why.
    #[error("{message}")]
    NotServed {
        /// Complete.
        message: String,
    },
    /// No such resource or subresource.
    #[error("the server could not find the requested resource")]
    UnknownResource,
    /// A patch that cannot be applied to this object (JSON patch test, missing target, …).
    #[error("the server rejected our request due to an error in our request")]
    Unprocessable,
    /// Larger than is taken.
    #[error("{message}")]
    TooLarge {
        /// Complete.
        message: String,
    },
    /// A body or patch of a type that is not taken.
    #[error("{message}")]
    UnsupportedMediaType {
        /// Complete.
        message: String,
    },
    /// The store is not there, or too many want the same at once.
    #[error("{message}")]
    Unavailable {
        /// Complete.
        message: String,
    },
    /// Whether the write happened is unknown, and it may still happen. Who repeats it finds out.
    #[error("{message}")]
    OutcomeUnknown {
        /// Complete.
        message: String,
    },
    /// The store has no space left for it, on its disk or within its quota. Reads go on, and deletions.
    #[error("{message}")]
    NoSpace {
        /// Complete.
        message: String,
    },
    /// What this API does not do, answered as upstream does: 500, without a reason.
    #[error("{message}")]
    NotSupported {
        /// Complete.
        message: String,
    },
    /// A fault of the server's own.
    #[error("{message}")]
    Internal {
        /// Complete.
        message: String,
    },
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

impl ApiError {
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::BadRequest { message: message.into() }
    }

    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        Self::NotFound { resource: resource.group_resource().clone(), name: name.to_owned() }
    }

    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::AlreadyExists { resource: resource.group_resource().clone(), name: name.to_owned() }
    }

    /// A conflict about an object; `why` follows `Operation cannot be fulfilled on GR "n": `.
    pub(crate) fn conflict(target: &Target, why: &str) -> Self {
        Self::conflict_shown_as(target, target.resource.plural(), why)
    }

    /// As [`ApiError::conflict`], with another word for the resource.
    pub(crate) fn conflict_shown_as(target: &Target, kind: &str, why: &str) -> Self {
        Self::conflict_about(&target.resource, kind, &target.name, why)
    }

    /// The same about an object of this name.
    pub(crate) fn conflict_about(resource: &Resource, kind: &str, name: &str, why: &str) -> Self {
        let resource = GroupResource::new(resource.group(), kind);
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::Conflict { resource, name: name.to_owned(), message }
    }

    /// A write to what can only be read is refused.
    pub(crate) fn check_writable(resource: &Resource) -> Result<(), Self> {
        if resource.read_only.is_empty() { Ok(()) } else { Err(Self::NotServed { message: resource.read_only.to_owned() }) }
    }

    /// Another writer was first.
    pub(crate) fn modified(target: &Target) -> Self {
        Self::conflict(target, "the object has been modified; please apply your changes to the latest version and try again")
    }

    /// An object that admission refuses; `why` follows `GR "n" is forbidden: `.
    pub(crate) fn forbidden(resource: &Resource, name: &str, why: &str, causes: Vec<Cause>) -> Self {
        let resource = resource.group_resource().clone();
        let message = format!("{resource} {name:?} is forbidden: {why}");
        Self::Forbidden { resource, name: name.to_owned(), message, causes, refused_by: None }
    }

    /// The same, where it is a refusal that nobody has put a name to yet: that of this plug-in.
    pub(crate) fn refused_by(mut self, plug_in: &'static str) -> Self {
        if let Self::Forbidden { refused_by, .. } = &mut self {
            refused_by.get_or_insert(plug_in);
        }
        self
    }

    /// Faults of an object. Where all of them are about pod-deletion-cost, KEP-2255 wants 400.
    pub(crate) fn invalid(resource: &Resource, name: &str, errors: Vec<FieldError>) -> Self {
        // Both forms of an event are checked as the core's.
        let group = if resource.group() == "events.k8s.io" { &ApiName::EMPTY } else { resource.group() };
        let (kind, name) = (GroupKind::new(group, resource.kind()), name.to_owned());
        if !errors.is_empty() && errors.iter().all(|error| error.field.to_string().ends_with(DELETION_COST_FIELD)) {
            return Self::BadRequestFields { kind, name, errors };
        }
        Self::Invalid { kind, name, errors }
    }

    /// A write that the store does not take.
    pub(crate) fn write_failed(error: &WriteError) -> Self {
        match error {
            WriteError::Conflict { .. } => Self::Internal { message: format!("a conflict came through: {error}") },
            WriteError::TooLarge { size, max, .. } => {
                Self::TooLarge { message: format!("Request entity too large: an object of {size} bytes is larger than the limit of {max}") }
            }
            WriteError::Unavailable { .. } => Self::Unavailable { message: error.to_string() },
            WriteError::NoSpace { .. } | WriteError::QuotaExceeded { .. } => Self::NoSpace { message: error.to_string() },
            WriteError::Encrypted { prefix, .. } => Self::Forbidden {
                resource: GroupResource::new("", prefix.trim_matches('/').rsplit('/').next().unwrap_or_default()),
                name: String::new(),
                message: error.to_string(),
                causes: Vec::new(),
                refused_by: Some("EncryptionAtRest"),
            },
            WriteError::Unknown { .. } => Self::outcome_unknown(error),
        }
    }

    /// What was written before may stay, because `error` ended its undoing.
    pub(crate) fn outcome_unknown(error: &WriteError) -> Self {
        Self::OutcomeUnknown { message: format!("the request may have been carried out, or may yet be: {error}") }
    }
}

/// How the path of a pod-deletion-cost annotation ends, in a pod and in a template.
const DELETION_COST_FIELD: &str = "annotations[controller.kubernetes.io/pod-deletion-cost]";

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Compacted { .. } => Self::Expired { message: error.to_string(), continue_token: None },
            ReadError::Future { requested, newest } => Self::TooLargeResourceVersion { requested: requested.0, current: newest.0 },
            ReadError::Unavailable(_) => Self::Unavailable { message: error.to_string() },
        }
    }
}

fn invalid_message(kind: &GroupKind, name: &str, errors: &[FieldError]) -> String {
    let mut told = BTreeSet::new();
    // What is found twice is reported once.
    let texts: Vec<String> = errors.iter().map(ToString::to_string).filter(|text| told.insert(text.clone())).collect();
    let what = if let [one] = texts.as_slice() { one.clone() } else { format!("[{}]", texts.join(", ")) };
    format!("{kind} {name:?} is invalid: {what}")
}
