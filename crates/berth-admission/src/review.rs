//! AdmissionReview: what a webhook is asked, and its answer. The answer is untrusted.

use crate::{Form, Request, ReviewVersion};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use berth_api::names::check_qualified_name;
use berth_rbac::User;
use serde::{Deserialize, Deserializer, Serialize, de::IgnoredAny};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The maximum number of warnings of one answer that reach the client.
const WARNINGS_MAX: usize = 32;
/// The maximum size of a warning, in bytes.
const WARNING_BYTES_MAX: usize = 256;
/// The maximum number of audit annotations of one answer.
const ANNOTATIONS_MAX: usize = 32;
/// The maximum size of the value of an audit annotation, in bytes.
const ANNOTATION_BYTES_MAX: usize = 10 << 10;

/// What a webhook is asked.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionReview<'a> {
    /// The version of the review.
    pub version: ReviewVersion,
    /// The identity of this review.
    pub uid: &'a str,
    /// The request.
    pub request: &'a Request<'a>,
    /// The version of the resource that the webhook matches, which is that of the objects.
    pub matched: &'a Form,
    /// The namespace. A namespace has its own name here.
    pub namespace: &'a str,
    /// The user of the request.
    pub user: &'a User,
    /// The new object. `null`: it is deleted.
    pub object: &'a Value,
    /// The stored object. `null`: there is none.
    pub old: &'a Value,
    /// Whether nothing is stored.
    pub is_dry_run: bool,
    /// The options of the request.
    pub options: &'a Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireReview<'a> {
    kind: &'static str,
    api_version: &'static str,
    request: WireRequest<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireRequest<'a> {
    uid: &'a str,
    kind: Value,
    resource: Value,
    #[serde(skip_serializing_if = "str::is_empty")]
    sub_resource: &'a str,
    request_kind: Value,
    request_resource: Value,
    #[serde(skip_serializing_if = "str::is_empty")]
    request_sub_resource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    operation: &'static str,
    user_info: WireUser<'a>,
    object: &'a Value,
    old_object: &'a Value,
    dry_run: bool,
    options: &'a Value,
}

#[derive(Serialize)]
struct WireUser<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    username: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    groups: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: &'a BTreeMap<String, Vec<String>>,
}

impl AdmissionReview<'_> {
    /// Returns its JSON.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let kind = |form: &Form| json!({"group": form.kind.group, "version": form.kind.version, "kind": form.kind.kind});
        let resource =
            |form: &Form| json!({"group": form.resource.group, "version": form.resource.version, "resource": form.resource.plural});
        let request = self.request;
        let User { name, uid, groups, extra } = self.user;
        let review = WireReview {
            kind: "AdmissionReview",
            api_version: self.version.api_version(),
            request: WireRequest {
                uid: self.uid,
                kind: kind(self.matched),
                resource: resource(self.matched),
                sub_resource: request.subresource,
                request_kind: kind(request.form),
                request_resource: resource(request.form),
                request_sub_resource: request.subresource,
                name: request.name,
                namespace: self.namespace,
                operation: request.operation.as_str(),
                user_info: WireUser { username: name, uid, groups, extra },
                object: self.object,
                old_object: self.old,
                dry_run: self.is_dry_run,
                options: self.options,
            },
        };
        serde_json::to_vec(&review).expect("it has string keys only")
    }
}

/// What kind of webhook answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Its answer can contain a patch.
    Mutating,
    /// Its answer contains no patch.
    Validating,
}

/// The answer of a webhook.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// `None`: the request is allowed.
    pub denial: Option<Denial>,
    /// A JSON patch with at least one operation.
    pub patch: Option<Vec<u8>>,
    /// Texts for the client, without control characters.
    pub warnings: Vec<String>,
    /// Annotations for the audit log: names without that of the webhook, and values.
    pub annotations: Vec<(String, String)>,
}

/// Why a webhook denies a request, in its own words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Denial {
    /// The HTTP code, at least 400.
    pub code: u16,
    /// The text, after the name of the webhook.
    pub explanation: Option<String>,
    /// May be empty.
    pub reason: String,
    /// The `details` of the status.
    pub details: Option<DenialDetails>,
}

/// The details of a denial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DenialDetails {
    /// The name of an object.
    pub name: String,
    /// Its group.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its uid.
    pub uid: String,
    /// The causes.
    pub causes: Vec<DenialCause>,
    /// When the client can retry.
    pub retry_after_seconds: u32,
}

/// A cause of a denial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DenialCause {
    /// A word.
    pub reason: String,
    /// A text.
    pub message: String,
    /// The path of a field.
    pub field: String,
}

/// Why an answer cannot be used. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewFault {
    /// It is not an AdmissionReview.
    #[error("failed to call webhook: {0}")]
    Undecodable(String),
    /// It contradicts the request.
    #[error("received invalid webhook response: {0}")]
    Invalid(String),
    /// Its patch is no JSON patch.
    #[error("received undecodable patch in webhook response: {0}")]
    Patch(String),
    /// Its patch has another type.
    #[error("unsupported patch type {0:?}")]
    PatchType(String),
}

impl ReviewFault {
    /// Returns upstream's code for metrics.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Self::PatchType(_) => 400,
            Self::Undecodable(_) | Self::Invalid(_) | Self::Patch(_) => 503,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireAnswer {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    response: Option<WireResponse>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireResponse {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    allowed: bool,
    status: Option<WireStatus>,
    #[serde(default, deserialize_with = "bytes")]
    patch: Vec<u8>,
    patch_type: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    audit_annotations: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "or_default")]
    warnings: Vec<String>,
}

#[derive(Deserialize)]
struct WireStatus {
    #[serde(default)]
    code: i64,
    #[serde(default)]
    message: String,
    #[serde(default)]
    reason: String,
    details: Option<DenialDetails>,
}

fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    BASE64_STANDARD.decode(text).map_err(|_| serde::de::Error::custom("response.patch is no base64"))
}

fn or_default<'de, T: Deserialize<'de> + Default, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads the answer to the review with this uid.
///
/// # Errors
/// [`ReviewFault`].
pub fn read_verdict(version: ReviewVersion, uid: &str, hook: Hook, answer: &[u8]) -> Result<Verdict, ReviewFault> {
    let answer: WireAnswer = serde_json::from_slice(answer).map_err(|error| ReviewFault::Undecodable(error.to_string()))?;
    check_kind(&answer, version)?;
    let response = answer.response.ok_or_else(|| ReviewFault::Invalid("webhook response was absent".to_owned()))?;
    if version == ReviewVersion::V1 {
        check_v1(&response, &answer.kind, &answer.api_version, uid, hook)?;
    }
    let patch = if hook == Hook::Mutating && response.allowed { patch(&response)? } else { None };
    let warnings = response.warnings.iter().filter_map(|warning| shown(warning)).take(WARNINGS_MAX).collect();
    let is_kept = |(name, value): &(String, String)| check_qualified_name(name).is_empty() && value.len() <= ANNOTATION_BYTES_MAX;
    let annotations = response.audit_annotations.into_iter().filter(is_kept).take(ANNOTATIONS_MAX).collect();
    let denial = (!response.allowed).then(|| denial(response.status));
    Ok(Verdict { denial, patch, warnings, annotations })
}

/// The versions in which an answer can be decoded.
const ANSWER_VERSIONS: [ReviewVersion; 2] = [ReviewVersion::V1, ReviewVersion::V1Beta1];

fn check_kind(answer: &WireAnswer, wanted: ReviewVersion) -> Result<(), ReviewFault> {
    let WireAnswer { kind, api_version, .. } = answer;
    if kind.is_empty() && api_version.is_empty() {
        return Ok(());
    }
    let found = ANSWER_VERSIONS.iter().find(|version| version.api_version() == api_version);
    match found.filter(|_| kind == "AdmissionReview") {
        Some(found) if *found == wanted => Ok(()),
        Some(found) => {
            let shown = |version: ReviewVersion| version.api_version().trim_start_matches("admission.k8s.io/");
            let (from, to) = (shown(*found), shown(wanted));
            let why = format!("converting ({from}.AdmissionReview) to ({to}.AdmissionReview): unknown conversion");
            Err(ReviewFault::Undecodable(why))
        }
        None => Err(ReviewFault::Undecodable(format!("no kind {kind:?} is registered for version {api_version:?}"))),
    }
}

fn check_v1(response: &WireResponse, kind: &str, api_version: &str, uid: &str, hook: Hook) -> Result<(), ReviewFault> {
    let invalid = |why: &str| Err(ReviewFault::Invalid(why.to_owned()));
    if response.uid != uid {
        return Err(ReviewFault::Invalid(format!("expected response.uid={uid:?}, got {:?}", response.uid)));
    }
    if api_version != ReviewVersion::V1.api_version() {
        // An empty version prints as upstream's empty group and version.
        let found = if api_version.is_empty() { "/" } else { api_version };
        return Err(ReviewFault::Invalid(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {found}, Kind={kind}"
        )));
    }
    match (hook, response.patch.is_empty(), &response.patch_type) {
        (Hook::Mutating, false, None) => invalid("webhook returned response.patch but not response.patchType"),
        (Hook::Mutating, true, Some(_)) => invalid("webhook returned response.patchType but not response.patch"),
        (Hook::Validating, false, _) => invalid("validating webhook may not return response.patch"),
        (Hook::Validating, true, Some(_)) => invalid("validating webhook may not return response.patchType"),
        (Hook::Mutating | Hook::Validating, true, None) | (Hook::Mutating, false, Some(_)) => Ok(()),
    }
}

fn patch(response: &WireResponse) -> Result<Option<Vec<u8>>, ReviewFault> {
    if response.patch.is_empty() {
        return Ok(None);
    }
    let operations: Option<Vec<IgnoredAny>> =
        serde_json::from_slice(&response.patch).map_err(|error| ReviewFault::Patch(error.to_string()))?;
    if operations.is_none_or(|operations| operations.is_empty()) {
        return Ok(None);
    }
    match response.patch_type.as_deref() {
        None | Some("JSONPatch") => Ok(Some(response.patch.clone())),
        Some(other) => Err(ReviewFault::PatchType(other.to_owned())),
    }
}

/// Returns a warning that a header can contain, or `None`.
fn shown(warning: &str) -> Option<String> {
    if warning.is_empty() || warning.chars().any(char::is_control) {
        return None;
    }
    let mut end = warning.len().min(WARNING_BYTES_MAX);
    while !warning.is_char_boundary(end) {
        end -= 1;
    }
    Some(warning[..end].to_owned())
}

/// Source: upstream `webhook/errors/statuserror.go`, `ToStatusErr`.
fn denial(status: Option<WireStatus>) -> Denial {
    let Some(WireStatus { code, message, reason, details }) = status else { return Denial { code: 400, ..Denial::default() } };
    let code = u16::try_from(code).ok().filter(|code| (400..600).contains(code)).unwrap_or(400);
    let explanation = [&message, &reason].into_iter().find(|text| !text.is_empty()).cloned();
    Denial { code, explanation, reason, details }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(response: Value) -> Vec<u8> {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).to_string().into_bytes()
    }

    /// The texts are those of a real 1.36.2, but for the parser's own.
    #[test]
    fn an_answer_that_does_not_fit_the_request_is_refused() {
        let fault = |hook: Hook, answer: &[u8]| read_verdict(ReviewVersion::V1, "u", hook, answer).expect_err("a fault").to_string();
        for (wanted, of) in [
            ("received invalid webhook response: expected response.uid=\"u\", got \"x\"", json!({"uid": "x", "allowed": true})),
            ("received invalid webhook response: expected response.uid=\"u\", got \"\"", json!({"allowed": true})),
            ("received invalid webhook response: validating webhook may not return response.patch", json!({"uid": "u", "patch": "W10="})),
            (
                "received invalid webhook response: validating webhook may not return response.patchType",
                json!({"uid": "u", "patchType": "JSONPatch"}),
            ),
            ("received invalid webhook response: webhook response was absent", Value::Null),
        ] {
            assert_eq!(fault(Hook::Validating, &answer(of)), wanted);
        }
        for (wanted, of) in [
            (
                "received invalid webhook response: webhook returned response.patch but not response.patchType",
                json!({"uid": "u", "patch": "W10="}),
            ),
            (
                "received invalid webhook response: webhook returned response.patchType but not response.patch",
                json!({"uid": "u", "patchType": "JSONPatch"}),
            ),
            (
                "unsupported patch type \"Merge\"",
                json!({"uid": "u", "allowed": true, "patch": BASE64_STANDARD.encode("[{}]"), "patchType": "Merge"}),
            ),
        ] {
            assert_eq!(fault(Hook::Mutating, &answer(of)), wanted);
        }
        let garbage = json!({"uid": "u", "allowed": true, "patch": BASE64_STANDARD.encode("garbage"), "patchType": "JSONPatch"});
        assert!(fault(Hook::Mutating, &answer(garbage)).starts_with("received undecodable patch in webhook response: "));
        let other = br#"{"apiVersion": "admission.k8s.io/v2", "kind": "AdmissionReview"}"#;
        let wanted = "failed to call webhook: no kind \"AdmissionReview\" is registered for version \"admission.k8s.io/v2\"";
        assert_eq!(fault(Hook::Validating, other), wanted);
        let wanted =
            "received invalid webhook response: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=";
        assert_eq!(fault(Hook::Validating, br#"{"response": {"uid": "u", "allowed": true}}"#), wanted);
        for garbage in [b"hello".as_slice(), b"", b"[1]", br#"{"response": {"allowed": "yes"}}"#] {
            assert!(fault(Hook::Validating, garbage).starts_with("failed to call webhook: "));
        }
    }

    #[test]
    fn an_empty_patch_changes_nothing() {
        let empty = answer(json!({"uid": "u", "allowed": true, "patch": "W10=", "patchType": "JSONPatch"}));
        assert_eq!(read_verdict(ReviewVersion::V1, "u", Hook::Mutating, &empty), Ok(Verdict::default()));
    }

    #[test]
    fn a_denial_has_the_words_and_the_code_of_the_webhook() {
        let denied = |status: Value| {
            let verdict = read_verdict(ReviewVersion::V1, "u", Hook::Validating, &answer(json!({"uid": "u", "status": status})));
            let Denial { code, explanation, reason, .. } = verdict.expect("an answer").denial.expect("a denial");
            (code, explanation.unwrap_or_default(), reason)
        };
        assert_eq!(denied(Value::Null), (400, String::new(), String::new()));
        assert_eq!(denied(json!({"code": 418, "message": "no", "reason": "Because"})), (418, "no".to_owned(), "Because".to_owned()));
        assert_eq!(denied(json!({"reason": "Because"})), (400, "Because".to_owned(), "Because".to_owned()));
        for code in [201, -1, 70_000, 0] {
            assert_eq!(denied(json!({"code": code})).0, 400, "{code}");
        }
    }

    #[test]
    fn warnings_and_annotations_are_bounded() {
        let warnings = json!(["w", "", "a\nb", "ä".repeat(200)]);
        let response = json!({"uid": "u", "allowed": true, "warnings": warnings, "auditAnnotations": {"k": "v", "a b": "c", "long": "x".repeat(20_000)}});
        let verdict = read_verdict(ReviewVersion::V1, "u", Hook::Validating, &answer(response)).expect("an answer");
        assert_eq!(verdict.warnings, ["w".to_owned(), "ä".repeat(128)]);
        assert_eq!(verdict.annotations, [("k".to_owned(), "v".to_owned())]);
        let many = answer(json!({"uid": "u", "allowed": true, "warnings": vec!["w"; 1000]}));
        assert_eq!(read_verdict(ReviewVersion::V1, "u", Hook::Validating, &many).expect("an answer").warnings.len(), WARNINGS_MAX);
    }

    #[test]
    fn old_webhooks_need_no_uid() {
        let old = br#"{"response": {"allowed": true, "patch": "W3t9XQ=="}}"#;
        let verdict = read_verdict(ReviewVersion::V1Beta1, "u", Hook::Mutating, old).expect("an answer");
        assert_eq!(verdict.patch.as_deref(), Some(b"[{}]".as_slice()));
    }
}
