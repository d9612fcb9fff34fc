//! Pods and pod templates: defaults, validation, warnings.

use crate::{FieldError, Path};
use k8s_openapi::api::core::v1::PodTemplateSpec;

/// Fills in what a template may leave out.
pub fn set_template_defaults(_template: &mut PodTemplateSpec) {}

/// All faults of a template; `path` is `spec.template`.
#[must_use]
pub fn validate_template(_template: &PodTemplateSpec, _path: &Path) -> Vec<FieldError> {
    Vec::new()
}

/// Warnings about a template; `path` is `spec.template`.
#[must_use]
pub fn template_warnings(_template: &PodTemplateSpec, _path: &Path) -> Vec<String> {
    Vec::new()
}
