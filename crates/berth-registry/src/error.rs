//! Why a request is rejected. This crate uses no status codes: `berth-apiserver` converts each case to a `Status`, and
//! remote clients convert a `Status` back.

use crate::{Resource, Target};
use berth_admission::DenialDetails;
use berth_api::FieldError;
use berth_identity::{ApiName, GroupKind, GroupResource};
use berth_store::{ReadError, WriteError};
use std::collections::BTreeSet;

/// A rejected request. Nothing changed, unless a case states otherwise.
///
/// In every case, `name` is the object's name. It is empty before the server has generated the name.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The object does not exist.
    #[error("{resource} {name:?} not found")]
    NotFound {
        /// Its resource.
        resource: GroupResource,
        /// The requested name.
        name: String,
    },
    /// The name exists.
    #[error("{resource} {name:?} already exists")]
    AlreadyExists {
        /// Its resource.
        resource: GroupResource,
        /// The requested name.
        name: String,
    },
    /// Another writer was first, or a precondition failed.
    #[error("{message}")]
    Conflict {
        /// Its resource. For a failed precondition of a deletion, upstream prints the kind instead of the plural.
        resource: GroupResource,
        /// The object's name.
        name: String,
        /// The complete text.
        message: String,
    },
    /// Server-side apply: other managers own fields that it would change.
    #[error("{message}")]
    ApplyConflict {
        /// The complete text.
        message: String,
        /// One per field and owner.
        causes: Vec<Cause>,
    },
    /// The object, or the options of the request, are invalid.
    #[error("{}", invalid_message(.kind, .name, .errors))]
    Invalid {
        /// Its kind. For options, `CreateOptions` and so on of `meta.k8s.io`. Empty for a patch whose result cannot be
        /// decoded.
        kind: GroupKind,
        /// The object's name.
        name: String,
        /// All errors, in upstream's order.
        errors: Vec<FieldError>,
    },
    /// The server cannot interpret the request.
    #[error("{message}")]
    BadRequest {
        /// The complete text.
        message: String,
    },
    /// The same as [`ApiError::Invalid`], but a bad request (KEP-2255).
    #[error("{}", invalid_message(.kind, .name, .errors))]
    BadRequestFields {
        /// Its kind.
        kind: GroupKind,
        /// The object's name.
        name: String,
        /// All errors.
        errors: Vec<FieldError>,
    },
    /// Admission or authorization rejects the request.
    #[error("{message}")]
    Forbidden {
        /// Its resource.
        resource: GroupResource,
        /// The object's name.
        name: String,
        /// The complete text.
        message: String,
        /// May be empty.
        causes: Vec<Cause>,
        /// The name of the admission plug-in. `None`: authorization.
        refused_by: Option<&'static str>,
    },
    /// A reviewer outside the server denies the request, in its own words.
    #[error("{message}")]
    Denied {
        /// The HTTP code, at least 400.
        code: u16,
        /// May be empty.
        reason: String,
        /// The complete text.
        message: String,
        /// The details of the reviewer.
        details: Option<Box<DenialDetails>>,
        /// Texts for `Warning` headers, of all reviewers.
        warnings: Vec<String>,
    },
    /// The requested revision is compacted.
    #[error("{message}")]
    Expired {
        /// The complete text.
        message: String,
        /// A token that continues the list at the newest revision, for `metadata.continue` of the response.
        continue_token: Option<String>,
    },
    /// The requested revision does not exist yet, after a wait of some seconds.
    #[error("Too large resource version: {requested}, current: {current}")]
    TooLargeResourceVersion {
        /// The requested revision.
        requested: u64,
        /// The newest revision.
        current: u64,
    },
    /// The client must retry later (eviction).
    #[error("{message}")]
    TooManyRequests {
        /// The complete text.
        message: String,
        /// The retry interval. 0: unspecified.
        retry_after_seconds: u32,
        /// The causes.
        causes: Vec<Cause>,
    },
    /// The path does not support this verb.
    #[error("the server does not allow this method on the requested resource")]
    MethodNotAllowed,
    /// The same as [`ApiError::MethodNotAllowed`], with a reason for the user.
    #[error("{message}")]
    NotServed {
        /// The complete text.
        message: String,
    },
    /// The resource or subresource does not exist.
    #[error("the server could not find the requested resource")]
    UnknownResource,
    /// A patch that cannot be applied to this object (JSON patch test, missing target, …).
    #[error("the server rejected our request due to an error in our request")]
    Unprocessable,
    /// The body or the object exceeds a limit.
    #[error("{message}")]
    TooLarge {
        /// The complete text.
        message: String,
    },
    /// The content type is not supported.
    #[error("{message}")]
    UnsupportedMediaType {
        /// The complete text.
        message: String,
    },
    /// The store is unavailable, or too many writers have conflicts.
    #[error("{message}")]
    Unavailable {
        /// The complete text.
        message: String,
    },
    /// The outcome of the write is unknown, and it may still be stored. A client that repeats the request finds out.
    #[error("{message}")]
    OutcomeUnknown {
        /// The complete text.
        message: String,
    },
    /// The store has no space left, on its disk or within its quota. Reads and deletions still work.
    #[error("{message}")]
    NoSpace {
        /// The complete text.
        message: String,
    },
    /// Unsupported by this API. As upstream: 500 without a reason.
    #[error("{message}")]
    NotSupported {
        /// The complete text.
        message: String,
    },
    /// An error of the server itself.
    #[error("{message}")]
    Internal {
        /// The complete text.
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

    /// Returns a conflict about an object. `why` follows `Operation cannot be fulfilled on GR "n": `.
    pub(crate) fn conflict(target: &Target, why: &str) -> Self {
        Self::conflict_shown_as(target, target.resource.plural(), why)
    }

    /// Returns the same as [`ApiError::conflict`], with `kind` instead of the resource.
    pub(crate) fn conflict_shown_as(target: &Target, kind: &str, why: &str) -> Self {
        Self::conflict_about(&target.resource, kind, &target.name, why)
    }

    /// Returns the same for an object of this name.
    pub(crate) fn conflict_about(resource: &Resource, kind: &str, name: &str, why: &str) -> Self {
        let resource = GroupResource::new(resource.group(), kind);
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::Conflict { resource, name: name.to_owned(), message }
    }

    /// Rejects a write to a read-only resource.
    pub(crate) fn check_writable(resource: &Resource) -> Result<(), Self> {
        if resource.read_only.is_empty() { Ok(()) } else { Err(Self::NotServed { message: resource.read_only.to_owned() }) }
    }

    /// Returns the conflict with another writer.
    pub(crate) fn modified(target: &Target) -> Self {
        Self::conflict(target, "the object has been modified; please apply your changes to the latest version and try again")
    }

    /// Returns the rejection of an object by admission. `why` follows `GR "n" is forbidden: `.
    pub(crate) fn forbidden(resource: &Resource, name: &str, why: &str, causes: Vec<Cause>) -> Self {
        let resource = resource.group_resource().clone();
        let message = format!("{resource} {name:?} is forbidden: {why}");
        Self::Forbidden { resource, name: name.to_owned(), message, causes, refused_by: None }
    }

    /// Adds warnings before those of a denial. Other errors have none.
    #[must_use]
    pub fn warned_before(mut self, earlier: &[&[String]]) -> Self {
        if let Self::Denied { warnings, .. } = &mut self {
            let own = std::mem::take(warnings);
            *warnings = [&earlier.concat()[..], &own].concat();
        }
        self
    }

    /// Sets the plug-in of a rejection, unless it is already set.
    pub(crate) fn refused_by(mut self, plug_in: &'static str) -> Self {
        if let Self::Forbidden { refused_by, .. } = &mut self {
            refused_by.get_or_insert(plug_in);
        }
        self
    }

    /// Returns the errors of an object. If all of them are about pod-deletion-cost, KEP-2255 requires 400.
    pub(crate) fn invalid(resource: &Resource, name: &str, errors: Vec<FieldError>) -> Self {
        // Events of both groups are validated as core events.
        let group = if resource.group() == "events.k8s.io" { &ApiName::EMPTY } else { resource.group() };
        let (kind, name) = (GroupKind::new(group, resource.kind()), name.to_owned());
        if !errors.is_empty() && errors.iter().all(|error| error.field.to_string().ends_with(DELETION_COST_FIELD)) {
            return Self::BadRequestFields { kind, name, errors };
        }
        Self::Invalid { kind, name, errors }
    }

    /// Returns the error for a failed write to the store.
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

    /// Returns the error for an earlier write that may persist, because undoing it failed with `error`.
    pub(crate) fn outcome_unknown(error: &WriteError) -> Self {
        Self::OutcomeUnknown { message: format!("the request may have been carried out, or may yet be: {error}") }
    }
}

/// The end of the path of a pod-deletion-cost annotation, in a pod and in a template.
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
    // Duplicate errors are reported once.
    let texts: Vec<String> = errors.iter().map(ToString::to_string).filter(|text| told.insert(text.clone())).collect();
    let what = if let [one] = texts.as_slice() { one.clone() } else { format!("[{}]", texts.join(", ")) };
    format!("{kind} {name:?} is invalid: {what}")
}
