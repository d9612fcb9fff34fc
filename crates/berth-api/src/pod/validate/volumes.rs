//! Volumes: their names, and the sources that only pods have.

use super::{
    claim, env,
    names::check_file_path,
    sources::{self, SourceRules, validate_mode},
    volume_sources,
};
use crate::{
    Path,
    faults::Faults,
    metadata::{validate_annotations, validate_labels},
    names::check_dns_label,
    pod::quantities::parse,
    quantity::Quantity,
    unset::{list, text},
};
use k8s_openapi::{
    api::core::v1::{
        ConfigMapVolumeSource, DownwardAPIVolumeSource, EmptyDirVolumeSource, EphemeralVolumeSource, ImageVolumeSource, KeyToPath,
        PersistentVolumeClaimVolumeSource, ProjectedVolumeSource, SecretVolumeSource, Volume, VolumeProjection,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use std::collections::BTreeSet;

/// Validates all volumes. Returns the names of the valid ones, for mounts.
pub(super) fn validate<'a>(volumes: &'a [Volume], path: &Path, faults: &mut Faults) -> BTreeSet<&'a str> {
    let mut valid = BTreeSet::new();
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.index(index);
        let before = faults.len();
        sources::validate_only(&volume_sources::of_volume(volume), &path, faults);
        validate_initiator(volume, &path, faults);
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

/// The maximum total length of name and address of an iSCSI volume, including a colon.
const ISCSI_BYTES_MAX: usize = 64;

/// The kubelet derives the name of an interface from both.
fn validate_initiator(volume: &Volume, path: &Path, faults: &mut Faults) {
    let Some(source) = volume.iscsi.as_ref().filter(|source| source.initiator_name.is_some()) else { return };
    if is_iscsi_too_long(&volume.name, &source.target_portal) {
        faults.invalid(&path.child("name"), volume.name.as_str(), ISCSI_TOO_LONG);
    }
}

pub(crate) const ISCSI_TOO_LONG: &str =
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";

/// Whether the name of a volume and its address together are too long for such a name.
pub(crate) fn is_iscsi_too_long(name: &str, portal: &str) -> bool {
    name.len() + 1 + portal.len() > ISCSI_BYTES_MAX
}

impl SourceRules for EmptyDirVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        if self.size_limit.as_ref().and_then(parse).is_some_and(Quantity::is_negative) {
            faults.forbidden(&path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
        }
    }
}

impl SourceRules for SecretVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        faults.set(&path.child("secretName"), text(&self.secret_name));
        validate_mode(self.default_mode, &path.child("defaultMode"), faults);
        validate_items(list(&self.items), &path.child("items"), faults);
    }
}

impl SourceRules for ConfigMapVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        faults.set(&path.child("name"), &self.name);
        validate_mode(self.default_mode, &path.child("defaultMode"), faults);
        validate_items(list(&self.items), &path.child("items"), faults);
    }
}

impl SourceRules for PersistentVolumeClaimVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        faults.set(&path.child("claimName"), &self.claim_name);
    }
}

impl SourceRules for DownwardAPIVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        validate_mode(self.default_mode, &path.child("defaultMode"), faults);
        env::validate_files(list(&self.items), path, faults);
    }
}

impl SourceRules for ProjectedVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        validate_mode(self.default_mode, &path.child("defaultMode"), faults);
        validate_projections(list(&self.sources), path, faults);
    }
}

impl SourceRules for ImageVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        faults.set(&path.child("reference"), text(&self.reference));
        faults.optional_one_of(&path.child("pullPolicy"), &self.pull_policy, &["Always", "IfNotPresent", "Never"]);
    }
}

impl SourceRules for EphemeralVolumeSource {
    fn validate(&self, path: &Path, faults: &mut Faults) {
        let path = path.child("volumeClaimTemplate");
        match &self.volume_claim_template {
            Some(template) => {
                validate_claim_metadata(template.metadata.as_ref(), &path.child("metadata"), faults);
                faults.add(claim::validate_claim_spec(&template.spec, &path.child("spec")));
            }
            None => faults.required(&path, ""),
        }
    }
}

/// The created claim gets labels and annotations from its template, and all other metadata from its pod.
///
/// Source: upstream `ValidatePersistentVolumeClaimTemplate`.
fn validate_claim_metadata(metadata: Option<&ObjectMeta>, path: &Path, faults: &mut Faults) {
    let Some(metadata) = metadata else { return };
    faults.add(validate_annotations(metadata.annotations.as_ref(), &path.child("annotations")));
    faults.add(validate_labels(metadata.labels.as_ref(), &path.child("labels")));
    let set = [
        ("name", !text(&metadata.name).is_empty()),
        ("generateName", !text(&metadata.generate_name).is_empty()),
        ("namespace", !text(&metadata.namespace).is_empty()),
        ("selfLink", !text(&metadata.self_link).is_empty()),
        ("uID", !text(&metadata.uid).is_empty()),
        ("resourceVersion", !text(&metadata.resource_version).is_empty()),
        ("generation", metadata.generation.is_some_and(|generation| generation != 0)),
        ("creationTimestamp", metadata.creation_timestamp.is_some()),
        ("deletionTimestamp", metadata.deletion_timestamp.is_some()),
        ("deletionGracePeriodSeconds", metadata.deletion_grace_period_seconds.is_some()),
        ("ownerReferences", metadata.owner_references.is_some()),
        ("finalizers", metadata.finalizers.is_some()),
        ("managedFields", metadata.managed_fields.is_some()),
    ];
    set.into_iter().filter(|(_, is_set)| *is_set).for_each(|(field, _)| faults.forbidden(&path.child(field), "cannot be set"));
}

/// A token requires a service account. Applies to pods, not to templates.
pub(super) fn refuse_tokens(volumes: &[Volume], path: &Path, faults: &mut Faults) {
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.index(index).child("projected").child("sources");
        let sources = volume.projected.iter().flat_map(|projected| list(&projected.sources)).enumerate();
        for (index, _) in sources.filter(|(_, source)| source.service_account_token.is_some()) {
            let path = path.index(index).child("serviceAccountToken");
            faults.forbidden(&path, "must not be specified when serviceAccountName is not set");
        }
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

fn validate_projections(projections: &[VolumeProjection], path: &Path, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (index, projection) in projections.iter().enumerate() {
        let source_path = path.child("sources").index(index);
        validate_projection(projection, path, &source_path, faults);
        for (shown, file) in files(projection) {
            if !file.is_empty() && !seen.insert(file) {
                faults.invalid(path, shown.unwrap_or(file), "conflicting duplicate paths");
            }
        }
        if count(projection) > 1 {
            faults.forbidden(&source_path, "may not specify more than 1 volume type per source");
        }
    }
}

/// Returns the number of sources of a projection. Trust bundles and pod certificates do not count, because upstream
/// drops them while their gates are off (the default).
fn count(projection: &VolumeProjection) -> usize {
    let sources = [
        projection.secret.is_some(),
        projection.config_map.is_some(),
        projection.downward_api.is_some(),
        projection.service_account_token.is_some(),
    ];
    sources.into_iter().filter(|is_set| *is_set).count()
}

/// Returns the paths of the files of a projection, each with the text that upstream prints for a conflict with another
/// projection.
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
    files
}

/// `path` is the projection's, and `volume_path` that of the whole volume.
fn validate_projection(projection: &VolumeProjection, volume_path: &Path, path: &Path, faults: &mut Faults) {
    if let Some(source) = &projection.secret {
        faults.set(&path.child("secret").child("name"), &source.name);
        validate_items(list(&source.items), &path.child("secret").child("items"), faults);
    }
    if let Some(source) = &projection.config_map {
        faults.set(&path.child("configMap").child("name"), &source.name);
        validate_items(list(&source.items), &path.child("configMap").child("items"), faults);
    }
    if let Some(source) = &projection.downward_api {
        env::validate_files(list(&source.items), &path.child("downwardAPI"), faults);
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
        // Upstream reports another field than the invalid one.
        faults.set_form(&volume_path.child("path"), &token.path, check_file_path);
    }
}
