//! The spec of a storage claim, in an object of its own or in the template of a volume or a set.

use crate::{
    FieldError, Path,
    faults::Faults,
    label_selector::validate_label_selector,
    names::check_dns_subdomain,
    pod::quantities::{ResourceList, is_fractional_bytes, parse, round_up},
    unset::{default_to, list, text},
};
use k8s_openapi::{api::core::v1::PersistentVolumeClaimSpec, apimachinery::pkg::api::resource::Quantity as WireQuantity};

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
pub(crate) const VOLUME_MODES: &[&str] = &["Block", "Filesystem"];
const ONE_POD: &str = "ReadWriteOncePod";

/// Sets the defaults of a claim, or of its template. Idempotent.
pub(crate) fn set_claim_spec_defaults(spec: &mut PersistentVolumeClaimSpec) {
    default_to(&mut spec.volume_mode, "Filesystem");
    let resources = spec.resources.get_or_insert_default();
    [&mut resources.limits, &mut resources.requests].into_iter().flatten().for_each(round_up);
}

/// Returns warnings about the spec of a claim: a size that is not a whole number of bytes.
pub(crate) fn claim_warnings(spec: &PersistentVolumeClaimSpec, path: &Path) -> Vec<String> {
    let Some(resources) = &spec.resources else { return Vec::new() };
    let warning = |(field, quantities): (&str, &Option<ResourceList>)| {
        let quantity = quantities.as_ref()?.get("storage").filter(|quantity| is_fractional_bytes(quantity))?;
        let path = path.child("resources").child(field).key("storage");
        Some(format!("{path}: fractional byte value \"{}\" is invalid, must be an integer", quantity.0))
    };
    [("requests", &resources.requests), ("limits", &resources.limits)].into_iter().filter_map(warning).collect()
}

/// Returns all errors of the spec of a claim. `path` is the spec's.
pub(crate) fn validate_claim_spec(spec: &PersistentVolumeClaimSpec, path: &Path) -> Vec<FieldError> {
    let mut faults = Faults::default();
    faults.add(spec.selector.iter().flat_map(|selector| validate_label_selector(selector, &path.child("selector"))));
    validate_access_modes(list(&spec.access_modes), "at least 1 access mode is required", &path.child("accessModes"), &mut faults);
    let storage_path = path.child("resources").key("storage");
    match storage(spec) {
        None => faults.required(&storage_path, ""),
        Some(quantity) => validate_size(quantity, &storage_path, &mut faults),
    }
    faults.optional_form(&path.child("storageClassName"), &spec.storage_class_name, check_dns_subdomain);
    faults.optional_one_of(&path.child("volumeMode"), &spec.volume_mode, VOLUME_MODES);
    validate_sources(spec, path, &mut faults);
    faults.into_vec()
}

/// Source: upstream `validateDataSource`, `validateDataSourceRef`.
fn validate_sources(spec: &PersistentVolumeClaimSpec, path: &Path, faults: &mut Faults) {
    let sources = [
        ("dataSource", spec.data_source.as_ref().map(|source| (&source.api_group, &source.kind, &source.name))),
        ("dataSourceRef", spec.data_source_ref.as_ref().map(|source| (&source.api_group, &source.kind, &source.name))),
    ];
    for (field, source) in sources {
        let Some((group, kind, name)) = source else { continue };
        let path = path.child(field);
        faults.set(&path.child("name"), name);
        faults.set(&path.child("kind"), kind);
        faults.optional_form(&path.child("apiGroup"), group, check_dns_subdomain);
        if text(group).is_empty() && kind != "PersistentVolumeClaim" {
            faults.invalid(&path, kind.as_str(), "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
        }
    }
    // A reference into another namespace, for which there is a gate, has no local form.
    let is_local = spec.data_source_ref.as_ref().is_some_and(|source| text(&source.namespace).is_empty());
    if let ([(_, Some(source)), (_, Some(reference))], true) = (sources, is_local)
        && source != reference
    {
        faults.invalid(path, serde_json::json!({}), "must match dataSourceRef");
    }
}

pub(crate) fn storage(spec: &PersistentVolumeClaimSpec) -> Option<&WireQuantity> {
    spec.resources.as_ref()?.requests.as_ref()?.get("storage")
}

pub(crate) fn validate_size(quantity: &WireQuantity, path: &Path, faults: &mut Faults) {
    if parse(quantity).is_some_and(|number| number.is_zero() || number.is_negative()) {
        faults.invalid(path, quantity.0.as_str(), "must be greater than zero");
    }
}

pub(crate) fn validate_access_modes(modes: &[String], if_none: &str, path: &Path, faults: &mut Faults) {
    if modes.is_empty() {
        faults.required(path, if_none);
    }
    let (known, unknown): (Vec<_>, Vec<_>) = modes.iter().partition(|mode| ACCESS_MODES.contains(&mode.as_str()));
    for mode in unknown {
        faults.add([FieldError::not_supported(path, mode.as_str(), ACCESS_MODES)]);
    }
    if known.iter().any(|mode| *mode == ONE_POD) && known.iter().any(|mode| *mode != ONE_POD) {
        faults.forbidden(path, "may not use ReadWriteOncePod with other access modes");
    }
}
