//! The claims that each of a StatefulSet's pods gets.

use crate::{
    FieldError, Path,
    metadata::{check_dns_subdomain, drop_empty},
    quantity::Quantity,
    selector::validate_label_selector,
    unset::default_to,
};
use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements},
    apimachinery::pkg::api::resource::Quantity as WireQuantity,
};
use std::collections::BTreeMap;

const STORAGE: &str = "storage";
const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

/// Fills in what a claim template may leave out, and writes its quantities in canonical form.
pub(super) fn set_defaults(claim: &mut PersistentVolumeClaim) {
    let spec = claim.spec.get_or_insert_default();
    default_to(&mut spec.volume_mode, "Filesystem");
    let resources = spec.resources.get_or_insert_default();
    for quantities in [&mut resources.requests, &mut resources.limits] {
        quantities.iter_mut().flat_map(BTreeMap::values_mut).for_each(canonicalise);
    }
    default_to(&mut claim.status.get_or_insert_default().phase, "Pending");
    drop_empty(&mut claim.metadata);
}

/// A quantity that cannot be read stays, for validation to refuse.
fn canonicalise(wire: &mut WireQuantity) {
    if let Ok(quantity) = wire.0.parse::<Quantity>() {
        wire.0 = quantity.round_up_to_milli().to_string();
    }
}

/// Faults of a claim's spec.
pub(super) fn validate(spec: &PersistentVolumeClaimSpec, path: &Path) -> Vec<FieldError> {
    let mut faults = validate_access_modes(spec.access_modes.as_deref().unwrap_or_default(), &path.child("accessModes"));
    faults.extend(spec.selector.iter().flat_map(|selector| validate_label_selector(selector, &path.child("selector"))));
    faults.extend(validate_storage(spec.resources.as_ref(), &path.child("resources").key(STORAGE)));
    if let Some(class) = spec.storage_class_name.as_deref().filter(|class| !class.is_empty()) {
        let path = path.child("storageClassName");
        faults.extend(check_dns_subdomain(class).into_iter().map(|message| FieldError::invalid(&path, class, message)));
    }
    let mode = spec.volume_mode.as_deref().filter(|mode| !VOLUME_MODES.contains(mode));
    faults.extend(mode.map(|mode| FieldError::not_supported(&path.child("volumeMode"), mode, &VOLUME_MODES)));
    faults
}

fn validate_access_modes(modes: &[String], path: &Path) -> Vec<FieldError> {
    if modes.is_empty() {
        return vec![FieldError::required(path, "at least 1 access mode is required")];
    }
    let unknown = modes.iter().filter(|mode| !ACCESS_MODES.contains(&mode.as_str()));
    let mut faults: Vec<FieldError> = unknown.map(|mode| FieldError::not_supported(path, mode.as_str(), &ACCESS_MODES)).collect();
    let alone = modes.iter().all(|mode| mode == "ReadWriteOncePod");
    if !alone && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        faults.push(FieldError::forbidden(path, "may not use ReadWriteOncePod with other access modes"));
    }
    faults
}

fn validate_storage(resources: Option<&VolumeResourceRequirements>, path: &Path) -> Option<FieldError> {
    let Some(wire) = resources.and_then(|resources| resources.requests.as_ref()?.get(STORAGE)) else {
        return Some(FieldError::required(path, ""));
    };
    match wire.0.parse::<Quantity>() {
        Err(error) => Some(FieldError::invalid(path, wire.0.as_str(), error.to_string())),
        Ok(quantity) if quantity <= Quantity::ZERO => Some(FieldError::invalid(path, wire.0.as_str(), "must be greater than zero")),
        Ok(_) => None,
    }
}

/// Warns about a size that is no whole number of bytes.
pub(super) fn warnings(claim: &PersistentVolumeClaim, path: &Path) -> Vec<String> {
    let Some(resources) = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()) else { return Vec::new() };
    let path = path.child("spec").child("resources");
    let warning = |(field, quantities): (&str, &Option<BTreeMap<String, WireQuantity>>)| {
        let text = &quantities.as_ref()?.get(STORAGE)?.0;
        let fractional = text.parse::<Quantity>().is_ok_and(|quantity| !quantity.is_integer());
        let path = path.child(field).key(STORAGE);
        fractional.then(|| format!("{path}: fractional byte value {text:?} is invalid, must be an integer"))
    };
    [("requests", &resources.requests), ("limits", &resources.limits)].into_iter().filter_map(warning).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(spec: Value, wanted: &[&str]) {
        let spec = serde_json::from_value(spec).expect("a claim's spec");
        let found: Vec<String> = validate(&spec, &Path::new("s")).iter().map(ToString::to_string).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn claims_have_modes_and_a_size() {
        let sized = |size: &str| json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}});
        check(sized("1Gi"), &[]);
        check(sized("0"), &["s.resources[storage]: Invalid value: \"0\": must be greater than zero"]);
        check(
            sized("x"),
            &["s.resources[storage]: Invalid value: \"x\": quantities must match the regular expression \
               '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"],
        );
        check(json!({}), &["s.accessModes: Required value: at least 1 access mode is required", "s.resources[storage]: Required value"]);
        check(
            json!({"accessModes": ["ReadWriteOncePod", "ReadOnlyMany"], "volumeMode": "X", "resources": {"requests": {"storage": "1"}}}),
            &[
                "s.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
                "s.volumeMode: Unsupported value: \"X\": supported values: \"Block\", \"Filesystem\"",
            ],
        );
    }
}
