//! The decoders of bodies and certificates, for fuzz targets.

use crate::{
    handlers,
    negotiate::BodySyntax,
    x509::{self, Subject},
};
use berth_registry::{ApiError, DeleteOptions};

/// Returns the JSON of a YAML body.
///
/// # Errors
/// The error of the server.
pub fn yaml_to_json(bytes: &[u8]) -> Result<Vec<u8>, ApiError> {
    handlers::to_json(BodySyntax::Yaml, bytes.to_vec())
}

/// Returns the JSON of the body of an apply.
///
/// # Errors
/// The error of the server.
pub fn apply_to_json(bytes: &[u8]) -> Result<Vec<u8>, ApiError> {
    handlers::apply_to_json(bytes.to_vec())
}

/// Returns the options in the body of a delete.
///
/// # Errors
/// The error of the server.
pub fn delete_options(json: &[u8]) -> Result<DeleteOptions, ApiError> {
    handlers::parse_delete_options(json)
}

/// Parses every part of a certificate that the server uses. Returns its user and groups.
#[must_use]
pub fn certificate(bytes: &[u8]) -> Option<(String, Vec<String>)> {
    let _ = x509::not_after(bytes);
    x509::subject(bytes).map(|subject| (subject.common_name, subject.organizations))
}

/// Returns the certificate with another user and groups, unsigned.
#[must_use]
pub fn certificate_for(bytes: &[u8], user: String, groups: Vec<String>) -> Option<Vec<u8>> {
    let subject = Subject { common_name: user, organizations: groups };
    x509::with_subject(bytes, &subject, |_| Ok::<_, ()>(Vec::new()))?.ok()
}
