//! What fuzz targets call: the readers of bodies and certificates, without a request around them.

use crate::{
    handlers,
    negotiate::BodySyntax,
    x509::{self, Subject},
};
use berth_registry::{ApiError, DeleteOptions};

/// The JSON of a body in YAML.
///
/// # Errors
/// As the server refuses it.
pub fn yaml_to_json(bytes: &[u8]) -> Result<Vec<u8>, ApiError> {
    handlers::to_json(BodySyntax::Yaml, bytes.to_vec())
}

/// The JSON of an applied body.
///
/// # Errors
/// As the server refuses it.
pub fn apply_to_json(bytes: &[u8]) -> Result<Vec<u8>, ApiError> {
    handlers::apply_to_json(bytes.to_vec())
}

/// The options in the body of a delete.
///
/// # Errors
/// As the server refuses it.
pub fn delete_options(json: &[u8]) -> Result<DeleteOptions, ApiError> {
    handlers::parse_delete_options(json)
}

/// Reads all that is read of a certificate; gives its user and groups.
#[must_use]
pub fn certificate(bytes: &[u8]) -> Option<(String, Vec<String>)> {
    let _ = x509::not_after(bytes);
    x509::subject(bytes).map(|subject| (subject.common_name, subject.organizations))
}

/// The certificate with another user and groups, unsigned.
#[must_use]
pub fn certificate_for(bytes: &[u8], user: String, groups: Vec<String>) -> Option<Vec<u8>> {
    let subject = Subject { common_name: user, organizations: groups };
    x509::with_subject(bytes, &subject, |_| Ok::<_, ()>(Vec::new()))?.ok()
}
