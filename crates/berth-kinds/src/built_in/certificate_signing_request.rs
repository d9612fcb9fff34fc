//! CertificateSigningRequest: a request that a signer answers with a certificate.

use super::values::{at, list, native, spec, text};
use crate::{Cell, Column, Content, Definition, JsonPath, Names, SelectableField, Strategy, Version};
use berth_api::{
    FeatureGates, FieldError, ObjectRules, Path, Scope, Subresource,
    certificates::{CertificateRequest, check_certificates},
    faults::Faults,
    names::{check_dns_label, check_dns_subdomain},
    object::{GenerationRule, NameRule},
};
use k8s_openapi::{ByteString, apimachinery::pkg::apis::meta::v1::Time};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// The shortest time of a certificate, in seconds.
const EXPIRATION_MIN: i64 = 600;
/// Longest domain of a signer, longest path of one, and longest name of a namespaced object of a signer, which a name must have room for.
const SIGNER_BYTES_MAX: usize = 571;
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
/// Conditions whose status is always true.
const ALWAYS_TRUE: [&str; 3] = ["Approved", "Denied", "Failed"];
/// Conditions that only `/approval` sets.
const DECISIONS: [&str; 2] = ["Approved", "Denied"];
/// What keys are used for.
const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// The definition of the kind.
#[must_use]
pub fn certificate_signing_request() -> Definition {
    let column = |name: &str, description: &str, cell| Column { cell, ..Column::text(name, description) };
    let signer = JsonPath::parse(".spec.signerName").expect("a path of this crate");
    let version = Version {
        status: true,
        approval: true,
        columns: vec![
            Column::of_name(super::NAME_DESCRIPTION),
            Column::age(),
            column("SignerName", "The signer that is asked.", at(".spec.signerName")),
            column("Requestor", "The user who created the request.", Cell::Computed(|request| json!(text(spec(request), "username")))),
            column("RequestedDuration", "How long the certificate should be valid.", Cell::Computed(|request| json!(duration(request)))),
            column(
                "Condition",
                "What was decided, and whether there is a certificate.",
                Cell::Computed(|request| json!(condition(request))),
            ),
        ],
        selectable_fields: vec![SelectableField::at(&signer).expect("it leads through no list")],
        ..Version::default()
    };
    Definition {
        rules: ObjectRules { name_rule: NameRule::PathSegment, generation_rule: GenerationRule::None, ..super::rules() },
        empty: json!({"metadata": {}, "spec": {"request": null, "signerName": ""}, "status": {}}),
        strategy: Some(Arc::new(Requests)),
        ..native::<k8s_openapi::api::certificates::v1::CertificateSigningRequest>(
            "certificates.k8s.io",
            Names { short_names: vec!["csr".to_owned()], ..Names::of("CertificateSigningRequest", "certificatesigningrequests") },
            Scope::Cluster,
            version,
            &[TYPES],
        )
    }
}

fn expiration(request: &Content) -> Option<i64> {
    spec(request).get("expirationSeconds").and_then(Value::as_i64)
}

/// `60m`, `365d`. The units are those of upstream's columns of durations.
fn duration(request: &Content) -> String {
    let Some(seconds) = expiration(request) else { return "<none>".to_owned() };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let with = |large: i64, unit: char, small: i64, small_unit: char| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
    };
    match (seconds, minutes, hours, days) {
        (..120, ..) => format!("{seconds}s"),
        (_, ..10, ..) => with(minutes, 'm', seconds % 60, 's'),
        (_, ..180, ..) => format!("{minutes}m"),
        (_, _, ..8, _) => with(hours, 'h', minutes % 60, 'm'),
        (_, _, ..48, _) => format!("{hours}h"),
        (_, _, ..192, _) => with(days, 'd', hours % 24, 'h'),
        (_, _, _, ..730) => format!("{days}d"),
        (_, _, _, ..2920) => with(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

/// Source: upstream `extractCSRStatus`.
fn condition(request: &Content) -> String {
    let status = &request.members()["status"];
    let has = |kind: &str| list(status, "conditions").iter().any(|condition| text(condition, "type") == kind);
    let mut shown = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied".to_owned(),
        (false, true) => "Approved".to_owned(),
        (false, false) => "Pending".to_owned(),
    };
    if has("Failed") {
        shown.push_str(",Failed");
    }
    if status.get("certificate").is_some() {
        shown.push_str(",Issued");
    }
    shown
}

struct Requests;

impl Strategy for Requests {
    /// What the author asks for stays as it was.
    fn prepare_update(&self, request: &mut Content, old: &Content, _: &FeatureGates) {
        request.members_mut().insert("spec".to_owned(), spec(old).clone());
    }

    /// `/status` takes no decision: stored decisions replace those that are sent.
    fn prepare_status_update(&self, request: &mut Content, old: &Content) {
        let stored = conditions(old);
        for condition in conditions_mut(request) {
            let kind = text(condition, "type").to_owned();
            if let Some(decision) = stored.iter().find(|stored| DECISIONS.contains(&kind.as_str()) && text(stored, "type") == kind) {
                condition.clone_from(decision);
            }
        }
    }

    /// `/approval` writes conditions alone.
    fn prepare_approval(&self, request: &mut Content, old: &Content) {
        let sent = request.members()["status"].get("conditions").cloned();
        let mut status = old.members()["status"].clone();
        match sent {
            Some(sent) => status["conditions"] = sent,
            None => _ = status.as_object_mut().map(|status| status.remove("conditions")),
        }
        request.members_mut().insert("status".to_owned(), status);
    }

    /// Source: upstream `populateConditionTimestamps`.
    fn stamp(&self, request: &mut Content, old: Option<&Content>, now: &Time) {
        let stored = old.map(conditions).unwrap_or_default();
        for condition in conditions_mut(request) {
            if text(condition, "lastUpdateTime").is_empty() {
                condition["lastUpdateTime"] = json!(now);
            }
            if text(condition, "lastTransitionTime").is_empty() {
                let same =
                    stored.iter().find(|stored| ["type", "status"].iter().all(|field| text(stored, field) == text(condition, field)));
                let since = same.and_then(|stored| stored.get("lastTransitionTime")).filter(|time| time.is_string());
                condition["lastTransitionTime"] = since.cloned().unwrap_or_else(|| json!(now));
            }
        }
    }

    fn validate(&self, request: &Content) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_spec(request, &mut faults);
        faults.into_vec()
    }

    /// The spec cannot change: it is not judged again.
    fn validate_update(&self, request: &Content, old: &Content, subresource: Option<Subresource>) -> Vec<FieldError> {
        let mut faults = Faults::default();
        if subresource.is_some() {
            validate_conditions(request, &mut faults);
            validate_changes(request, old, subresource, &mut faults);
        }
        faults.into_vec()
    }
}

fn conditions(request: &Content) -> &[Value] {
    list(&request.members()["status"], "conditions")
}

fn conditions_mut(request: &mut Content) -> impl Iterator<Item = &mut Value> {
    let conditions = request.members_mut().get_mut("status").and_then(|status| status.get_mut("conditions")?.as_array_mut());
    conditions.into_iter().flatten()
}

/// The bytes of a member.
fn bytes(object: &Value, name: &str) -> Vec<u8> {
    object.get(name).and_then(|value| ByteString::deserialize(value).ok()).map(|bytes| bytes.0).unwrap_or_default()
}

/// Source: upstream `validateCertificateSigningRequest`.
fn validate_spec(request: &Content, faults: &mut Faults) {
    let (path, spec) = (Path::new("spec"), spec(request));
    if let Err(why) = CertificateRequest::parse(&bytes(spec, "request")) {
        let value = spec.get("request").filter(|text| text.as_str() != Some("")).cloned().unwrap_or_default();
        faults.invalid(&path.child("request"), value, why.to_string());
    }
    let usages = list(spec, "usages");
    if usages.is_empty() {
        faults.required(&path.child("usages"), "");
    }
    let mut seen = BTreeSet::new();
    for (index, usage) in usages.iter().filter_map(Value::as_str).enumerate() {
        let path = path.child("usages").index(index);
        faults.known(&path, usage, USAGES);
        faults.unique(&path, usage, &mut seen);
    }
    validate_signer(text(spec, "signerName"), &path.child("signerName"), faults);
    if let Some(seconds) = expiration(request).filter(|seconds| *seconds < EXPIRATION_MIN) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        faults.invalid(&path.child("expirationSeconds"), seconds, why);
    }
}

/// Source: upstream `ValidateSignerName`.
fn validate_signer(signer: &str, path: &Path, faults: &mut Faults) {
    if signer == LEGACY_SIGNER {
        return faults.invalid(path, signer, "the legacy signerName is not allowed via this API version");
    }
    if !faults.set(path, signer) {
        return;
    }
    let [domain, name] = signer.split('/').collect::<Vec<_>>()[..] else {
        return faults.invalid(path, signer, "must be a fully qualified domain and path of the form 'example.com/signer-name'");
    };
    for label in domain.split('.') {
        for why in check_dns_label(label) {
            faults.invalid(path, domain, format!("validating label {label:?}: {why}"));
        }
    }
    if !domain.contains('.') {
        faults.invalid(path, domain, "should be a domain with at least two segments separated by dots");
    }
    for label in name.split('.') {
        for why in check_dns_subdomain(label) {
            faults.invalid(path, name, format!("validating label {label:?}: {why}"));
        }
    }
    if SIGNER_BYTES_MAX < signer.len() {
        faults.add([FieldError::too_long(path, SIGNER_BYTES_MAX)]);
    }
}

/// Source: upstream `validateConditions`.
fn validate_conditions(request: &Content, faults: &mut Faults) {
    let path = Path::new("status").child("conditions");
    let (mut seen, mut decision) = (BTreeSet::new(), None);
    for (index, condition) in conditions(request).iter().enumerate() {
        let at = path.index(index);
        let kind = text(condition, "type");
        faults.set(&at.child("type"), kind);
        let supported: &[&str] = if ALWAYS_TRUE.contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        faults.one_of(&at.child("status"), text(condition, "status"), supported);
        if DECISIONS.contains(&kind) && decision.replace(kind).is_some_and(|before| before != kind) {
            faults.invalid(&path, kind, "Approved and Denied conditions are mutually exclusive");
        }
        if !kind.is_empty() {
            faults.unique(&at.child("type"), kind, &mut seen);
        }
    }
    let certificate = bytes(&request.members()["status"], "certificate");
    if request.members()["status"].get("certificate").is_some()
        && let Err(why) = check_certificates(&certificate)
    {
        faults.invalid(&Path::new("status").child("certificate"), "<certificate data>", why.to_string());
    }
}

/// Source: upstream `validateConditionAddRemove` and `validateCertificateUnchanged`.
fn validate_changes(request: &Content, old: &Content, subresource: Option<Subresource>, faults: &mut Faults) {
    let path = Path::new("status").child("conditions");
    let count = |request: &Content, kind: &str| conditions(request).iter().filter(|condition| text(condition, "type") == kind).count();
    let is_status = subresource == Some(Subresource::Status);
    for kind in ALWAYS_TRUE {
        if count(request, kind) < count(old, kind) {
            faults.forbidden(&path, format!("updates may not remove a condition of type {kind:?}"));
        }
        if is_status && DECISIONS.contains(&kind) && count(old, kind) < count(request, kind) {
            faults.forbidden(&path, format!("updates may not add a condition of type {kind:?}"));
        }
    }
    let certificate = |request: &Content| request.members()["status"].get("certificate").cloned();
    if certificate(old).is_some() && certificate(request) != certificate(old) {
        faults.forbidden(&Path::new("status").child("certificate"), "updates may not modify existing certificate content");
    }
}

/// Its types as OpenAPI publishes them, without their descriptions, which are `k8s-openapi`'s. The marks are for what upstream's Go types leave out and what they always write.
const TYPES: &str = include_str!("certificate_signing_request.json");
