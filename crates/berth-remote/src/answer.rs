//! The responses of an API server, and their meaning for callers. Only this module reads a `Status`.

use crate::refusal::Refusal;
use berth_controllers::{ClusterError, RawObject};
use berth_identity::{Name, Namespace, ObjectKey, Revision};
use berth_workloads::view::read_metadata;
use bytes::Bytes;
use http::{
    StatusCode,
    header::{HeaderMap, RETRY_AFTER},
};
use serde::{Deserialize, de::Error as _};
use std::time::Duration;

/// A complete response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Bytes,
}

/// The fields of a `Status` that callers need.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Status {
    pub(crate) code: u16,
    pub(crate) message: String,
    reason: String,
    details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    name: String,
    causes: Option<Vec<Cause>>,
    retry_after_seconds: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: String,
    field: String,
}

impl Answer {
    /// Returns the body of a successful response.
    ///
    /// # Errors
    /// The error in terms of `Cluster`.
    pub(crate) fn accepted(self) -> Result<Bytes, ClusterError> {
        if self.code.is_success() { Ok(self.body) } else { Err(self.refusal()) }
    }

    /// Returns the server's message if the user lacks the right. Other rejections with this code concern the object: a
    /// quota, an admission plug-in.
    pub(crate) fn denial(&self) -> Option<String> {
        let status: Status = (self.code == StatusCode::FORBIDDEN).then(|| serde_json::from_slice(&self.body).unwrap_or_default())?;
        (Refusal::of(self.code.as_u16(), &status.message) == Refusal::Right).then_some(status.message)
    }

    /// Returns the error of a failed response.
    pub(crate) fn refusal(&self) -> ClusterError {
        let status: Status = serde_json::from_slice(&self.body).unwrap_or_default();
        let text = match status.message.trim() {
            // A proxy may respond without a `Status`.
            "" => format!("{} {}", self.code, String::from_utf8_lossy(&self.body[..self.body.len().min(200)]).trim()),
            message => message.to_owned(),
        };
        let has_cause = |found: fn(&Cause) -> bool| status.causes().iter().any(found);
        let names_something = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
        match self.code.as_u16() {
            404 if names_something => ClusterError::NotFound(text),
            409 if status.reason == "AlreadyExists" => ClusterError::AlreadyExists(text),
            409 => ClusterError::Conflict(text),
            // The patch is for an object with another uid, because a uid never changes.
            422 if has_cause(|cause| cause.field == "metadata.uid") => ClusterError::Conflict(text),
            403 if has_cause(|cause| cause.reason == "NamespaceTerminating") => ClusterError::NamespaceTerminating(text),
            403 if Refusal::of(403, &text) == Refusal::Quota => ClusterError::ExceedsQuota(text),
            504 if !has_cause(|cause| cause.reason == "ResourceVersionTooLarge") => ClusterError::Unknown(text),
            410 | 429 | 504 | 507 => {
                let told = status.details.and_then(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0);
                ClusterError::Busy { message: text, retry_after: self.retry_after.or(told.map(Duration::from_secs)) }
            }
            408 | 500.. => ClusterError::Unknown(text),
            _ => ClusterError::Refused(text),
        }
    }
}

impl Status {
    fn causes(&self) -> &[Cause] {
        self.details.as_ref().and_then(|details| details.causes.as_deref()).unwrap_or_default()
    }
}

/// Returns the server's retry interval.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds)).filter(|after| !after.is_zero())
}

/// The key of an object, and its version.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Identified {
    namespace: Namespace,
    name: Name,
    resource_version: String,
}

/// Decodes only the identity of an object.
///
/// # Errors
/// It is not an object, or its resource version is not a number.
pub(crate) fn identified(json: Bytes) -> Result<(ObjectKey, RawObject), serde_json::Error> {
    let Identified { namespace, name, resource_version } = read_metadata(&json)?;
    let revision = revision(&resource_version)?;
    Ok((ObjectKey { namespace, name }, RawObject::new(json, revision)))
}

/// Parses a resource version. In every existing API server it is a number of the store, which KEP-5504 guarantees.
///
/// # Errors
/// It is not a number.
pub(crate) fn revision(text: &str) -> Result<Revision, serde_json::Error> {
    let number = text.parse().map_err(|_| serde_json::Error::custom(format!("the resource version {text:?} is not a number")))?;
    Ok(Revision(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn refusal(code: u16, body: &Value) -> ClusterError {
        let (code, body) = (StatusCode::from_u16(code).expect("a code"), body.to_string().into());
        Answer { code, retry_after: None, body }.refusal()
    }

    fn status(message: &str, reason: &str, details: Value) -> Value {
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason, "details": details})
    }

    #[test]
    fn each_refusal_is_what_a_controller_can_do_about_it() {
        let check = |code, reason, details: Value, wanted: fn(String) -> ClusterError| {
            assert_eq!(refusal(code, &status("said", reason, details)), wanted("said".to_owned()), "{code} {reason}");
        };
        let cause = |cause: Value| json!({"causes": [cause]});
        check(404, "NotFound", json!({"name": "web", "kind": "pods"}), ClusterError::NotFound);
        check(404, "NotFound", json!({}), ClusterError::Refused);
        check(409, "AlreadyExists", json!({"name": "web"}), ClusterError::AlreadyExists);
        check(409, "Conflict", json!({"name": "web"}), ClusterError::Conflict);
        check(422, "Invalid", cause(json!({"field": "metadata.uid", "reason": "FieldValueInvalid"})), ClusterError::Conflict);
        check(422, "Invalid", cause(json!({"field": "spec.replicas", "reason": "FieldValueInvalid"})), ClusterError::Refused);
        check(403, "Forbidden", cause(json!({"field": "metadata.namespace", "reason": "NamespaceTerminating"})), {
            ClusterError::NamespaceTerminating
        });
        check(403, "Forbidden", json!({"name": "web"}), ClusterError::Refused);
        check(401, "Unauthorized", Value::Null, ClusterError::Refused);
        check(405, "MethodNotAllowed", json!({}), ClusterError::Refused);
        check(500, "InternalError", json!({}), ClusterError::Unknown);
        check(503, "ServiceUnavailable", json!({}), ClusterError::Unknown);
        check(504, "Timeout", json!({}), ClusterError::Unknown);
    }

    #[test]
    fn a_quota_is_known_by_its_words() {
        for words in ["exceeded quota: q, requested: pods=1", "failed quota: q: must specify cpu", "status unknown for quota: q"] {
            let text = format!("pods \"web\" is forbidden: {words}");
            assert_eq!(refusal(403, &status(&text, "Forbidden", json!({"name": "web"}))), ClusterError::ExceedsQuota(text));
        }
        let text = "pods \"exceeded quota: \" is forbidden: no".to_owned();
        assert_eq!(refusal(403, &status(&text, "Forbidden", json!({}))), ClusterError::Refused(text));
    }

    #[test]
    fn a_missing_right_is_known_from_other_refusals() {
        let check = |code: StatusCode, message: &str, wanted: bool| {
            let answer = Answer { code, retry_after: None, body: status(message, "Forbidden", json!({})).to_string().into() };
            assert_eq!(answer.denial().is_some(), wanted, "{message}");
        };
        let rbac = r#"pods is forbidden: User "cm" cannot create resource "pods" in API group "" in the namespace "default""#;
        check(StatusCode::FORBIDDEN, rbac, true);
        check(StatusCode::CONFLICT, rbac, false);
        check(StatusCode::FORBIDDEN, r#"pods "web" is forbidden: violates PodSecurity "restricted:latest": privileged"#, false);
        check(StatusCode::FORBIDDEN, r#"pods "web" is forbidden: exceeded quota: q, requested: pods=1"#, false);
    }

    #[test]
    fn a_busy_server_names_the_delay() {
        let busy = |seconds: Option<u64>| ClusterError::Busy { message: "said".to_owned(), retry_after: seconds.map(Duration::from_secs) };
        let too_large = json!({"causes": [{"reason": "ResourceVersionTooLarge"}], "retryAfterSeconds": 1});
        assert_eq!(refusal(504, &status("said", "Timeout", too_large)), busy(Some(1)));
        assert_eq!(refusal(429, &status("said", "TooManyRequests", json!({"retryAfterSeconds": 7}))), busy(Some(7)));
        assert_eq!(refusal(429, &status("said", "TooManyRequests", json!({}))), busy(None));
        assert_eq!(refusal(507, &status("said", "InsufficientStorage", Value::Null)), busy(None));
        let plain = Answer { code: StatusCode::TOO_MANY_REQUESTS, retry_after: Some(Duration::from_secs(2)), body: "said".into() };
        let message = "429 Too Many Requests said".to_owned();
        assert_eq!(plain.refusal(), ClusterError::Busy { message, retry_after: Some(Duration::from_secs(2)) });
        let told = |text: &'static str| retry_after(&HeaderMap::from_iter([(RETRY_AFTER, text.parse().expect("a value"))]));
        assert_eq!((told("3"), told("0"), told("Mon, 23 Nov 2026 01:42:30 GMT")), (Some(Duration::from_secs(3)), None, None));
    }

    #[test]
    fn an_object_is_known_by_its_metadata() {
        let json: Bytes = r#"{"metadata":{"name":"a","namespace":"b","resourceVersion":"12"},"spec":{}}"#.into();
        let (key, object) = identified(json.clone()).expect("an object");
        assert_eq!((key, object.revision, object.json), (ObjectKey::new("b", "a"), Revision(12), json));
        for wrong in [r#"{"metadata":{"name":"a","resourceVersion":"0x1"}}"#, r#"{"metadata":{"name":"a"}}"#, "[]"] {
            assert!(identified(wrong.into()).is_err(), "{wrong}");
        }
    }
}
