//! Decodes the body of a request to an object, with the requested strictness.

use crate::{ApiError, Body, BoxObject, Registry, Resource, options::FieldValidation, pieces::Since};
use berth_api::decode::{FieldFault, Parsed, faults_in_order, parse_json};
use serde_json::Value;

/// A decoded object, without defaults.
pub(crate) struct Incoming {
    pub(crate) object: BoxObject,
    /// Texts for `Warning` headers.
    pub(crate) warnings: Vec<String>,
}

impl Registry {
    /// Decodes the object of a create or an update.
    pub(crate) async fn read_body(
        &self,
        resource: &Resource,
        body: Body,
        validation: FieldValidation,
        since: &mut Since,
    ) -> Result<Incoming, ApiError> {
        match body {
            Body::Object(object) if object.kind() == resource.kind() && object.api_version() == resource.api_version() => {
                let object = resource.rules.adopt(object).map_err(|error| not_handled(resource.kind(), resource, &error.to_string()))?;
                Ok(Incoming { object, warnings: Vec::new() })
            }
            Body::Object(object) => Err(not_handled(object.kind(), resource, "it is of another kind")),
            Body::Json(bytes) => {
                let parsed = parse_json(&bytes).map_err(|error| unrecognized(resource, &bytes, &error.to_string()))?;
                since.pause(&*self.storage.clock).await;
                decode(resource, &bytes, parsed, validation)
            }
        }
    }
}

fn decode(resource: &Resource, bytes: &[u8], parsed: Parsed, validation: FieldValidation) -> Result<Incoming, ApiError> {
    let refused = |why: &str| not_handled(resource.kind(), resource, why);
    if !parsed.value.is_object() {
        return Err(unrecognized(resource, bytes, "it is no JSON object"));
    }
    check_type(resource, &parsed.value)?;
    let decoded = resource.rules.decode(parsed.value).map_err(|error| refused(&error.to_string()))?;
    let faults = match (parsed.duplicates.len(), decoded.unknown.len()) {
        (0, 0 | 1) | (1, 0) => faults(&parsed.duplicates, &decoded.unknown),
        _ => faults_in_order(bytes, &decoded.unknown).iter().map(ToString::to_string).collect(),
    };
    let warnings = match validation {
        FieldValidation::Strict if !faults.is_empty() => return Err(refused(&strict(&faults))),
        FieldValidation::Warn => faults,
        FieldValidation::Strict | FieldValidation::Ignore => Vec::new(),
    };
    Ok(Incoming { object: decoded.object, warnings })
}

/// Returns duplicate fields, then unknown ones. In a patch, the former are in the patch, and the latter in its result.
pub(crate) fn faults(duplicates: &[String], unknown: &[String]) -> Vec<String> {
    let duplicates = duplicates.iter().cloned().map(FieldFault::Duplicate);
    duplicates.chain(unknown.iter().cloned().map(FieldFault::Unknown)).map(|fault| fault.to_string()).collect()
}

/// Returns the text of a strict error.
pub(crate) fn strict(faults: &[String]) -> String {
    format!("strict decoding error: {}", faults.join(", "))
}

/// Checks `apiVersion` and `kind`, which may be missing, but must otherwise be those of the resource.
pub(crate) fn check_type(resource: &Resource, value: &Value) -> Result<(), ApiError> {
    let text = |member: &str| value.get(member).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (api_version, kind) = (resource.api_version(), text("kind").unwrap_or(resource.kind()));
    let found = text("apiVersion").unwrap_or(api_version);
    if kind != resource.kind() {
        return Err(not_handled(kind, resource, &format!("no kind {kind:?} is served at this path")));
    }
    if found != api_version {
        let why = format!("the API version in the data ({found}) does not match the expected API version ({api_version})");
        return Err(not_handled(kind, resource, &why));
    }
    Ok(())
}

/// The length of an undecodable body in an error.
const SHOWN_BYTES_MAX: usize = 30;

/// Returns the error for a body without a decodable kind. A body that resembles an object is printed as text.
fn unrecognized(resource: &Resource, bytes: &[u8], why: &str) -> ApiError {
    let start = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
    let shown = match start.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(start).into_owned(),
        Some(_) => start.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    let more = if SHOWN_BYTES_MAX < bytes.len() { " ..." } else { "" };
    let text = format!("the object provided is unrecognized (must be of type {})", resource.kind());
    ApiError::bad_request(format!("{text}: couldn't get version/kind; json parse error: {why} ({shown}{more})"))
}

fn not_handled(kind: &str, resource: &Resource, why: &str) -> ApiError {
    ApiError::bad_request(format!("{kind} in version {:?} cannot be handled as a {}: {why}", resource.version(), resource.kind()))
}
