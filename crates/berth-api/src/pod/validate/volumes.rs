//! Volumes: names and the sources that people write by hand; others are only counted.

use super::{
    env,
    names::{check_file_path, check_no_backsteps},
    sources,
};
use crate::{
    FieldError, Path,
    faults::Faults,
    names::{check_dns_label, check_dns_subdomain},
    pod::{claim, volume_sources},
    unset::{list, text},
};
use k8s_openapi::api::core::v1::{KeyToPath, ProjectedVolumeSource, Volume, VolumeProjection};
use std::collections::BTreeSet;

/// Highest mode of a file, 0777.
const MODE_MAX: i32 = 511;

/// How long the name of a CSI driver may be.
const CSI_DRIVER_BYTES_MAX: usize = 63;

const HOST_PATH_TYPES: &[&str] = &["BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// Checks all volumes; gives the names of those that are valid, for mounts.
pub(super) fn validate<'a>(volumes: &'a [Volume], path: &Path, faults: &mut Faults) -> BTreeSet<&'a str> {
    let mut valid = BTreeSet::new();
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.index(index);
        let before = faults.len();
        validate_source(volume, &path, faults);
        faults.set_form(&path.child("name"), &volume.name, check_dns_label);
        if valid.contains(volume.name.as_str()) {
            faults.duplicate(&path.child("name"), volume.name.as_str());
        }
        if faults.len() == before {
            valid.insert(volume.name.as_str());
        }
    }
    valid
}

/// File mode, if set.
pub(super) fn validate_mode(mode: Option<i32>, path: &Path, faults: &mut Faults) {
    if let Some(mode) = mode.filter(|mode| !(0..=MODE_MAX).contains(mode)) {
        faults.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

fn validate_source(volume: &Volume, path: &Path, faults: &mut Faults) {
    let names = volume_sources::names(volume);
    let [name] = names.as_slice() else {
        if names.is_empty() {
            faults.required(path, "must specify a volume type");
        }
        for name in names.iter().skip(1) {
            faults.forbidden(&path.child(name), "may not specify more than 1 volume type");
        }
        return;
    };
    validate_one(volume, &path.child(name), faults);
    sources::validate(volume, path, faults);
}

/// `path` is that of the one source that is set.
fn validate_one(volume: &Volume, path: &Path, faults: &mut Faults) {
    if let Some(source) = &volume.host_path {
        if faults.set(&path.child("path"), &source.path) {
            faults.form(&path.child("path"), &source.path, check_no_backsteps);
        }
        faults.optional_one_of(&path.child("type"), &source.type_, HOST_PATH_TYPES);
    }
    if let Some(source) = &volume.secret {
        faults.set(&path.child("secretName"), text(&source.secret_name));
        validate_mode(source.default_mode, &path.child("defaultMode"), faults);
        validate_items(list(&source.items), &path.child("items"), faults);
    }
    if let Some(source) = &volume.config_map {
        faults.set(&path.child("name"), &source.name);
        validate_mode(source.default_mode, &path.child("defaultMode"), faults);
        validate_items(list(&source.items), &path.child("items"), faults);
    }
    if let Some(source) = &volume.nfs {
        faults.set(&path.child("server"), &source.server);
        faults.set(&path.child("path"), &source.path);
        if !source.path.starts_with('/') {
            faults.invalid(&path.child("path"), source.path.as_str(), "must be an absolute path");
        }
    }
    if let Some(source) = &volume.persistent_volume_claim {
        faults.set(&path.child("claimName"), &source.claim_name);
    }
    if let Some(source) = &volume.downward_api {
        validate_mode(source.default_mode, &path.child("defaultMode"), faults);
        env::validate_files(&source.items, &path.child("items"), faults);
    }
    if let Some(source) = &volume.projected {
        validate_projected(source, path, faults);
    }
    if let Some(source) = &volume.csi {
        validate_csi_driver(&source.driver, &path.child("driver"), faults);
    }
    if let Some(source) = &volume.image {
        faults.set(&path.child("reference"), text(&source.reference));
        faults.optional_one_of(&path.child("pullPolicy"), &source.pull_policy, &["Always", "IfNotPresent", "Never"]);
    }
    if let Some(source) = &volume.ephemeral {
        let path = path.child("volumeClaimTemplate");
        match &source.volume_claim_template {
            Some(template) => faults.add(claim::validate_claim_spec(&template.spec, &path.child("spec"))),
            None => faults.required(&path, ""),
        }
    }
}

/// The name of a CSI driver. In capitals it is a name, too.
///
/// Source: upstream `validation.go`, `ValidateCSIDriverName`.
pub(crate) fn validate_csi_driver(driver: &str, path: &Path, faults: &mut Faults) {
    if !faults.set(path, driver) {
        return;
    }
    if driver.len() > CSI_DRIVER_BYTES_MAX {
        faults.add([FieldError::too_long(path, CSI_DRIVER_BYTES_MAX)]);
    }
    for detail in check_dns_subdomain(&driver.to_lowercase()) {
        faults.invalid(path, driver, detail);
    }
}

fn validate_items(items: &[KeyToPath], path: &Path, faults: &mut Faults) {
    for (index, item) in items.iter().enumerate() {
        let path = path.index(index);
        faults.set(&path.child("key"), &item.key);
        faults.set_form(&path.child("path"), &item.path, check_file_path);
        validate_mode(item.mode, &path.child("mode"), faults);
    }
}

fn validate_projected(source: &ProjectedVolumeSource, path: &Path, faults: &mut Faults) {
    validate_mode(source.default_mode, &path.child("defaultMode"), faults);
    let mut seen = BTreeSet::new();
    for (index, projection) in list(&source.sources).iter().enumerate() {
        validate_projection(projection, &path.child("sources").index(index), faults);
        for (shown, file) in files(projection) {
            if !file.is_empty() && !seen.insert(file) {
                faults.invalid(path, shown.unwrap_or(file), "conflicting duplicate paths");
            }
        }
    }
}

/// The paths of the files of a projection, each with what upstream shows in its place where another projection has the same.
fn files(projection: &VolumeProjection) -> Vec<(Option<&str>, &str)> {
    let mut files = Vec::new();
    if let Some(source) = &projection.secret {
        files.extend(list(&source.items).iter().map(|item| (Some(source.name.as_str()), item.path.as_str())));
    }
    if let Some(source) = &projection.config_map {
        files.extend(list(&source.items).iter().map(|item| (Some(source.name.as_str()), item.path.as_str())));
    }
    if let Some(source) = &projection.downward_api {
        files.extend(list(&source.items).iter().map(|item| (None, item.path.as_str())));
    }
    if let Some(source) = &projection.service_account_token {
        files.push((None, source.path.as_str()));
    }
    files
}

fn validate_projection(projection: &VolumeProjection, path: &Path, faults: &mut Faults) {
    if let Some(source) = &projection.secret {
        faults.set(&path.child("secret").child("name"), &source.name);
        validate_items(list(&source.items), &path.child("secret").child("items"), faults);
    }
    if let Some(source) = &projection.config_map {
        faults.set(&path.child("configMap").child("name"), &source.name);
        validate_items(list(&source.items), &path.child("configMap").child("items"), faults);
    }
    if let Some(source) = &projection.downward_api {
        // Upstream does not say which of them.
        let path = path.child("downwardAPI");
        list(&source.items).iter().for_each(|file| env::validate_file(file, &path, faults));
    }
    if let Some(token) = &projection.service_account_token {
        let path = path.child("serviceAccountToken");
        if let Some(seconds) = token.expiration_seconds {
            if seconds < 600 {
                faults.invalid(&path.child("expirationSeconds"), seconds, "may not specify a duration less than 10 minutes");
            }
            if seconds > 1 << 32 {
                faults.invalid(&path.child("expirationSeconds"), seconds, "may not specify a duration larger than 2^32 seconds");
            }
        }
        faults.set_form(&path.child("path"), &token.path, check_file_path);
    }
}
