//! Environment variables and their sources.

use super::names::{check_config_key, check_env_name};
use crate::{
    FieldError, Path,
    faults::Faults,
    names::{check_dns_label, check_dns_subdomain, check_label_key},
    unset::text,
};
use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, EnvFromSource, EnvVar, FileKeySelector, ObjectFieldSelector, ResourceFieldSelector,
};
use std::collections::BTreeSet;

/// The pod fields that a variable can reference.
const ENV_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The pod fields that a file can reference.
const FILE_FIELDS: &[&str] = &["metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid"];

/// The container resources that a variable or file can reference.
const RESOURCES: &[&str] =
    &["limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"];

pub(super) fn validate(env: &[EnvVar], path: &Path, faults: &mut Faults) {
    for (index, variable) in env.iter().enumerate() {
        let path = path.index(index);
        faults.set_form(&path.child("name"), &variable.name, check_env_name);
        validate_source(variable, &path.child("valueFrom"), faults);
    }
}

/// The volumes of file variables must be among the pod's `volumes`.
pub(super) fn validate_files_volumes(env: &[EnvVar], volumes: &BTreeSet<&str>, path: &Path, faults: &mut Faults) {
    for (index, variable) in env.iter().enumerate() {
        let file = variable.value_from.as_ref().and_then(|source| source.file_key_ref.as_ref());
        if let Some(file) = file.filter(|file| !volumes.contains(file.volume_name.as_str())) {
            let path = path.index(index).child("valueFrom").child("fileKeyRef").child("volumeName");
            faults.add([FieldError::not_found(&path, file.volume_name.as_str())]);
        }
    }
}

/// Source: upstream `validateFileKeySelector`.
fn validate_file_key(file: &FileKeySelector, path: &Path, faults: &mut Faults) {
    faults.set(&path.child("key"), &file.key);
    faults.set_form(&path.child("volumeName"), &file.volume_name, check_dns_label);
    faults.set_form(&path.child("path"), &file.path, super::names::check_no_backsteps);
}

pub(super) fn validate_from(sources: &[EnvFromSource], path: &Path, faults: &mut Faults) {
    for (index, source) in sources.iter().enumerate() {
        let list_path = path;
        let path = path.index(index);
        faults.optional_form(&path.child("prefix"), &source.prefix, check_env_name);
        let config_map = source.config_map_ref.as_ref().map(|source| ("configMapRef", &source.name));
        let secret = source.secret_ref.as_ref().map(|source| ("secretRef", &source.name));
        for (field, name) in [config_map, secret].into_iter().flatten() {
            faults.set_form(&path.child(field).child("name"), name, check_dns_subdomain);
        }
        match (config_map, secret) {
            // Upstream does not report the index of the source.
            (None, None) => faults.invalid(list_path, "", "must specify one of: `configMapRef` or `secretRef`"),
            (Some(_), Some(_)) => faults.invalid(list_path, "", "may not have more than one field specified at a time"),
            _ => (),
        }
    }
}

fn validate_source(variable: &EnvVar, path: &Path, faults: &mut Faults) {
    let Some(source) = &variable.value_from else { return };
    let mut count = usize::from(source.file_key_ref.is_some());
    if let Some(field) = &source.field_ref {
        count += 1;
        validate_field(field, ENV_FIELDS, &path.child("fieldRef"), faults);
    }
    if let Some(resource) = &source.resource_field_ref {
        count += 1;
        validate_resource(resource, &path.child("resourceFieldRef"), faults);
    }
    if let Some(key) = &source.config_map_key_ref {
        count += 1;
        validate_key(&key.name, &key.key, &path.child("configMapKeyRef"), faults);
    }
    if let Some(key) = &source.secret_key_ref {
        count += 1;
        validate_key(&key.name, &key.key, &path.child("secretKeyRef"), faults);
    }
    if let Some(file) = &source.file_key_ref {
        validate_file_key(file, &path.child("fileKeyRef"), faults);
    }
    if count == 0 {
        faults.invalid(path, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`");
    } else if !text(&variable.value).is_empty() {
        faults.invalid(path, "", "may not be specified when `value` is not empty");
    } else if count > 1 {
        faults.invalid(path, "", "may not have more than one field specified at a time");
    }
}

fn validate_key(name: &str, key: &str, path: &Path, faults: &mut Faults) {
    faults.form(&path.child("name"), name, check_dns_subdomain);
    faults.set_form(&path.child("key"), key, check_config_key);
}

fn validate_field(selector: &ObjectFieldSelector, fields: &[&str], path: &Path, faults: &mut Faults) {
    faults.set(&path.child("apiVersion"), text(&selector.api_version));
    let path = path.child("fieldPath");
    if !faults.set(&path, &selector.field_path) {
        return;
    }
    let version = text(&selector.api_version);
    if !matches!(version, "" | "v1") {
        let detail = format!("error converting fieldPath: unsupported pod version: {version}");
        return faults.invalid(&path, selector.field_path.as_str(), detail);
    }
    match subscript(&selector.field_path) {
        Some(("metadata.labels", key)) => faults.form(&path, key, check_label_key),
        Some(("metadata.annotations", key)) => {
            faults.add(check_label_key(&key.to_lowercase()).into_iter().map(|message| FieldError::invalid(&path, key, message)));
        }
        Some((field, _)) => faults.invalid(&path, field, "does not support subscript"),
        None if fields.contains(&selector.field_path.as_str()) => (),
        None if ENV_FIELDS.contains(&selector.field_path.as_str()) || FILE_FIELDS.contains(&selector.field_path.as_str()) => {
            faults.add([FieldError::not_supported(&path, selector.field_path.as_str(), fields)]);
        }
        None => {
            let detail = format!("error converting fieldPath: field label not supported: {}", selector.field_path);
            faults.invalid(&path, selector.field_path.as_str(), detail);
        }
    }
}

/// Returns field and key of `field['key']`.
fn subscript(field_path: &str) -> Option<(&str, &str)> {
    field_path.strip_suffix("']")?.split_once("['")
}

fn validate_resource(selector: &ResourceFieldSelector, path: &Path, faults: &mut Faults) {
    let path = path.child("resource");
    let huge_pages = ["limits.hugepages-", "requests.hugepages-"];
    if !huge_pages.iter().any(|prefix| selector.resource.starts_with(prefix)) {
        faults.one_of(&path, &selector.resource, RESOURCES);
    }
}

/// Validates the files of a downward API volume. All errors are at the path of the volume, because upstream does not
/// report the index.
pub(super) fn validate_files(files: &[DownwardAPIVolumeFile], path: &Path, faults: &mut Faults) {
    files.iter().for_each(|file| validate_file(file, path, faults));
}

fn validate_file(file: &DownwardAPIVolumeFile, path: &Path, faults: &mut Faults) {
    faults.set_form(&path.child("path"), &file.path, super::names::check_file_path);
    match (&file.field_ref, &file.resource_field_ref) {
        (Some(_), Some(_)) => faults.invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"),
        (Some(field), None) => validate_field(field, FILE_FIELDS, &path.child("fieldRef"), faults),
        (None, Some(resource)) => {
            faults.set(&path.child("resourceFieldRef").child("containerName"), text(&resource.container_name));
            validate_resource(resource, &path.child("resourceFieldRef"), faults);
        }
        (None, None) => faults.required(path, "one of fieldRef and resourceFieldRef is required"),
    }
    super::sources::validate_mode(file.mode, &path.child("mode"), faults);
}
