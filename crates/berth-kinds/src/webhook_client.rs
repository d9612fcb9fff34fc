//! Where a webhook is, and the reviews that it is sent: what configurations of admission webhooks and definitions with a
//! conversion webhook have in common.
//!
//! Source: kubernetes `apiserver/pkg/util/webhook/validation.go`.

mod go_url;

use crate::members::text;
use berth_api::{
    Path,
    faults::Faults,
    names::{check_dns_1035_label, check_dns_subdomain},
};
use go_url::GoUrl;
use k8s_openapi::ByteString;
use serde::Deserialize as _;
use serde_json::Value;
use std::collections::BTreeSet;

/// The versions of a review that the server sends.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Checks the versions of a review. `missing` is the text of the error if there are none.
pub(crate) fn validate_review_versions(versions: &[Value], missing: &str, path: &Path, faults: &mut Faults) {
    if versions.is_empty() {
        return faults.required(path, missing);
    }
    let mut seen = BTreeSet::new();
    for (index, version) in versions.iter().filter_map(Value::as_str).enumerate() {
        if !seen.insert(version) {
            faults.invalid(&path.index(index), version, "duplicate version");
            continue;
        }
        faults.form(&path.index(index), version, check_dns_1035_label);
    }
    if !REVIEW_VERSIONS.iter().any(|version| seen.contains(version)) {
        faults.invalid(path, versions.to_vec(), "must include at least one of v1, v1beta1");
    }
}

/// Checks the `url` or the `service` of a `clientConfig`.
pub(crate) fn validate_client(client: &Value, path: &Path, faults: &mut Faults) {
    match targets(client) {
        (Some(url), None) => validate_url(url, &path.child("url"), faults),
        (None, Some(service)) => validate_service(service, &path.child("service"), faults),
        (None, None) | (Some(_), Some(_)) => faults.required(path, "exactly one of url or service is required"),
    }
}

/// What is wrong with the certificates of a client configuration. None are fine.
pub(crate) fn bundle_problem(client: &Value) -> Option<&'static str> {
    const BEGIN: &str = "-----BEGIN ";
    if !matches!(targets(client), (Some(_), None) | (None, Some(_))) {
        return None;
    }
    let bundle = client["caBundle"].as_str().filter(|bundle| !bundle.is_empty())?;
    let bytes = ByteString::deserialize(Value::from(bundle)).map(|bytes| bytes.0).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let certificates: Vec<&str> = text.split(BEGIN).filter_map(|block| block.strip_prefix("CERTIFICATE-----")).collect();
    let is_certificate = |block: &&str| {
        let base64: String = block.split("-----END").next().unwrap_or_default().split_whitespace().collect();
        ByteString::deserialize(Value::from(base64)).is_ok_and(|der| is_sequence(&der.0))
    };
    match certificates.as_slice() {
        [] if !text.contains(BEGIN) => Some("unable to parse bytes as PEM block"),
        [] => Some("no valid certificate authority data seen"),
        blocks if blocks.iter().all(is_certificate) => None,
        _ => Some("failed to parse certificate: x509: malformed certificate"),
    }
}

/// Whether bytes are one sequence of ASN.1 in DER, as a certificate is.
fn is_sequence(der: &[u8]) -> bool {
    let Some((0x30, rest)) = der.split_first().map(|(tag, rest)| (*tag, rest)) else { return false };
    let Some((first, rest)) = rest.split_first() else { return false };
    // Short lengths are in one byte. Of others, it is how many bytes they have.
    match usize::from(*first) {
        length @ 0..0x80 => rest.len() == length,
        size => rest.split_at_checked(size - 0x80).is_some_and(|(length, content)| {
            length.len() <= 4 && length.iter().fold(0, |total, byte| (total << 8) | usize::from(*byte)) == content.len()
        }),
    }
}

fn targets(client: &Value) -> (Option<&str>, Option<&Value>) {
    (client["url"].as_str(), client.get("service").filter(|service| service.is_object()))
}

/// The form of the URL of a webhook, in errors.
const URL_FORM: &str = "; desired format: https://host[/path]";

/// Source: upstream `ValidateWebhookURL`.
fn validate_url(text: &str, path: &Path, faults: &mut Faults) {
    let url = match GoUrl::parse(text) {
        Ok(url) => url,
        Err(why) => return faults.required(path, &format!("url must be a valid URL: parse {text:?}: {why}{URL_FORM}")),
    };
    if url.scheme != "https" {
        faults.invalid(path, url.scheme, format!("'https' is the only allowed URL scheme{URL_FORM}"));
    }
    if url.host.is_empty() {
        faults.invalid(path, url.host, format!("host must be specified{URL_FORM}"));
    }
    if let Some(user) = url.user {
        faults.invalid(path, user, "user information is not permitted in the URL");
    }
    if !url.fragment.is_empty() {
        faults.invalid(path, url.fragment, "fragments are not permitted in the URL");
    }
    if !url.query.is_empty() {
        faults.invalid(path, url.query, "query parameters are not permitted in the URL");
    }
}

/// Source: upstream `ValidateWebhookService`.
fn validate_service(service: &Value, path: &Path, faults: &mut Faults) {
    faults.set(&path.child("name"), text(service, "name"));
    faults.set(&path.child("namespace"), text(service, "namespace"));
    if let Some(port) = service.get("port").and_then(Value::as_i64).filter(|port| !(1..=65_535).contains(port)) {
        faults.invalid(&path.child("port"), port, "port is not valid: must be between 1 and 65535, inclusive");
    }
    if let Some(location) = service.get("path").and_then(Value::as_str) {
        validate_location(location, &path.child("path"), faults);
    }
}

fn validate_location(location: &str, path: &Path, faults: &mut Faults) {
    if location.is_empty() || location == "/" {
        return;
    }
    if location == "//" {
        return faults.invalid(path, location, "segment[0] may not be empty");
    }
    if !location.starts_with('/') {
        faults.invalid(path, location, "must start with a '/'");
    }
    // Upstream skips the first sign, whatever it is.
    let mut rest = location.chars();
    rest.next();
    let rest = rest.as_str();
    for (index, segment) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        match segment {
            "" => faults.invalid(path, location, format!("segment[{index}] may not be empty")),
            segment => {
                for why in check_dns_subdomain(segment) {
                    faults.invalid(path, location, format!("segment[{index}]: {why}"));
                }
            }
        }
    }
}
