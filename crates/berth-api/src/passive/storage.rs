//! PersistentVolumeClaim, PersistentVolume and StorageClass.

use super::IMMUTABLE;
use crate::{
    FeatureGates, FieldError, Kind, Path,
    faults::Faults,
    names::{check_dns_subdomain, check_qualified_name},
    pod::{
        claim::{VOLUME_MODES, set_claim_spec_defaults, storage, validate_access_modes, validate_claim_spec, validate_size},
        quantities::{ResourceList, parse, round_up},
        validate::{scheduling::validate_node_selector, validate_csi_driver},
    },
    unset::{default_to, list, text},
};
use k8s_openapi::api::{
    core::v1::{
        PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus, PersistentVolumeSpec,
        PersistentVolumeStatus,
    },
    storage::v1::StorageClass,
};

impl Kind for PersistentVolumeClaim {
    const HAS_STATUS: bool = true;

    fn set_defaults(&mut self) {
        set_claim_spec_defaults(self.spec.get_or_insert_default());
        default_to(&mut self.status.get_or_insert_default().phase, "Pending");
    }

    fn prepare_create(&mut self, _gates: &FeatureGates) {
        let phase = Some("Pending".to_owned());
        self.status = Some(PersistentVolumeClaimStatus { phase, ..PersistentVolumeClaimStatus::default() });
    }

    fn prepare_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.status.clone_from(&old.status);
    }

    fn prepare_status_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.spec.clone_from(&old.spec);
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        validate_claim_spec(self.spec.as_ref().unwrap_or(&PersistentVolumeClaimSpec::default()), &Path::new("spec"))
    }

    fn validate_update(&self, old: &Self, gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        faults.add(Kind::validate(self, gates));
        if let (Some(spec), Some(old_spec)) = (&self.spec, &old.spec) {
            validate_claim_change(spec, old_spec, old.status.as_ref(), &mut faults);
        }
        faults.into_vec()
    }
}

/// A bound claim may ask for more; a claim without a volume may name one, and its class if it has none.
fn validate_claim_change(
    spec: &PersistentVolumeClaimSpec,
    old: &PersistentVolumeClaimSpec,
    status: Option<&PersistentVolumeClaimStatus>,
    faults: &mut Faults,
) {
    let mut allowed = spec.clone();
    if old.volume_name.is_none() {
        allowed.volume_name = None;
    }
    if old.storage_class_name.is_none() {
        allowed.storage_class_name = None;
    }
    let is_bound = status.is_some_and(|status| text(&status.phase) == "Bound");
    if is_bound {
        allowed.resources.clone_from(&old.resources);
        allowed.volume_attributes_class_name.clone_from(&old.volume_attributes_class_name);
    }
    if allowed != *old {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        faults.forbidden(&Path::new("spec"), detail);
    }
    let capacity = status.and_then(|status| status.capacity.as_ref()?.get("storage")).and_then(parse);
    let (size, old_size) = (storage(spec).and_then(parse), storage(old).and_then(parse));
    if is_bound && size < old_size && (capacity.is_none() || size <= capacity) {
        faults.forbidden(&Path::new("spec.resources.requests.storage"), "field can not be less than status.capacity");
    }
}

impl Kind for PersistentVolume {
    const HAS_STATUS: bool = true;

    fn set_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        default_to(&mut spec.persistent_volume_reclaim_policy, "Retain");
        default_to(&mut spec.volume_mode, "Filesystem");
        spec.capacity.iter_mut().for_each(round_up);
        spec.host_path.iter_mut().for_each(|source| _ = source.type_.get_or_insert_default());
        default_to(&mut self.status.get_or_insert_default().phase, "Pending");
    }

    fn prepare_create(&mut self, _gates: &FeatureGates) {
        let phase = Some("Pending".to_owned());
        self.status = Some(PersistentVolumeStatus { phase, ..PersistentVolumeStatus::default() });
    }

    fn prepare_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.status.clone_from(&old.status);
    }

    fn prepare_status_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.spec.clone_from(&old.spec);
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        volume_faults(self, None).into_vec()
    }

    fn validate_update(&self, old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = volume_faults(self, old.spec.as_ref());
        let (Some(spec), Some(old)) = (&self.spec, &old.spec) else { return faults.into_vec() };
        if source_alone(spec) != source_alone(old) {
            let path = Path::new("spec.persistentvolumesource");
            faults.forbidden(&path, "spec.persistentvolumesource is immutable after creation");
        }
        if spec.volume_mode != old.volume_mode {
            faults.invalid(&Path::new("spec.volumeMode"), text(&spec.volume_mode), IMMUTABLE);
        }
        faults.into_vec()
    }
}

fn volume_faults(volume: &PersistentVolume, old: Option<&PersistentVolumeSpec>) -> Faults {
    let mut faults = Faults::default();
    validate_volume(volume.spec.as_ref().unwrap_or(&PersistentVolumeSpec::default()), old, &mut faults);
    faults
}

fn validate_volume(spec: &PersistentVolumeSpec, old: Option<&PersistentVolumeSpec>, faults: &mut Faults) {
    let path = Path::new("spec");
    validate_access_modes(list(&spec.access_modes), "", &path.child("accessModes"), faults);
    validate_capacity(spec.capacity.as_ref(), &path.child("capacity"), faults);
    let policies = ["Delete", "Recycle", "Retain"];
    faults.optional_one_of(&path.child("persistentVolumeReclaimPolicy"), &spec.persistent_volume_reclaim_policy, &policies);
    let node_selector = spec.node_affinity.as_ref().map(|affinity| affinity.required.as_ref());
    match node_selector {
        Some(Some(selector)) => validate_node_selector(selector, &path.child("nodeAffinity").child("required"), faults),
        Some(None) => faults.required(&path.child("nodeAffinity").child("required"), "must specify required node constraints"),
        None => (),
    }
    match source_names(spec).as_slice() {
        [] => faults.required(&path, "must specify a volume type"),
        [_, more @ ..] => {
            for name in more {
                faults.forbidden(&path.child(name), "may not specify more than 1 volume type");
            }
        }
    }
    // What is stored already is not judged again: earlier versions made volumes with a driver that is no name.
    if let Some(source) = spec.csi.as_ref().filter(|source| old.and_then(|old| old.csi.as_ref()) != Some(source)) {
        let path = path.child("csi");
        validate_csi_driver(&source.driver, &path.child("driver"), faults);
        faults.set(&path.child("volumeHandle"), &source.volume_handle);
    }
    faults.optional_form(&path.child("storageClassName"), &spec.storage_class_name, check_dns_subdomain);
    faults.optional_one_of(&path.child("volumeMode"), &spec.volume_mode, VOLUME_MODES);
}

fn validate_capacity(capacity: Option<&ResourceList>, path: &Path, faults: &mut Faults) {
    let Some(capacity) = capacity.filter(|capacity| !capacity.is_empty()) else {
        faults.required(path, "");
        return;
    };
    if capacity.len() > 1 || !capacity.contains_key("storage") {
        let value = serde_json::to_value(capacity).expect("API types have string keys only");
        faults.add([FieldError::not_supported(path, value, &["storage"])]);
    }
    for (name, quantity) in capacity {
        validate_size(quantity, &path.key(name), faults);
    }
}

/// The spec without all that may change; what is left is where the volume is.
fn source_alone(spec: &PersistentVolumeSpec) -> PersistentVolumeSpec {
    PersistentVolumeSpec {
        access_modes: None,
        capacity: None,
        claim_ref: None,
        mount_options: None,
        node_affinity: None,
        persistent_volume_reclaim_policy: None,
        storage_class_name: None,
        volume_attributes_class_name: None,
        volume_mode: None,
        ..spec.clone()
    }
}

/// Names of the sources that are set: the fields that are left.
fn source_names(spec: &PersistentVolumeSpec) -> Vec<String> {
    match serde_json::to_value(source_alone(spec)).expect("API types have string keys only") {
        serde_json::Value::Object(fields) => fields.into_iter().map(|(name, _)| name).collect(),
        _ => Vec::new(),
    }
}

impl Kind for StorageClass {
    fn set_defaults(&mut self) {
        default_to(&mut self.reclaim_policy, "Delete");
        default_to(&mut self.volume_binding_mode, "Immediate");
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let provisioner = self.provisioner.to_lowercase();
        faults.set_form(&Path::new("provisioner"), &provisioner, check_qualified_name);
        faults.one_of(&Path::new("reclaimPolicy"), text(&self.reclaim_policy), &["Delete", "Retain"]);
        faults.one_of(&Path::new("volumeBindingMode"), text(&self.volume_binding_mode), &["Immediate", "WaitForFirstConsumer"]);
        faults.into_vec()
    }

    fn validate_update(&self, old: &Self, gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let changed = [
            ("parameters", self.parameters != old.parameters),
            ("provisioner", self.provisioner != old.provisioner),
            ("reclaimPolicy", self.reclaim_policy != old.reclaim_policy),
        ];
        for (field, _) in changed.iter().filter(|(_, changed)| *changed) {
            faults.forbidden(&Path::new(field), format!("updates to {field} are forbidden."));
        }
        if self.volume_binding_mode != old.volume_binding_mode {
            faults.invalid(&Path::new("volumeBindingMode"), text(&self.volume_binding_mode), IMMUTABLE);
        }
        faults.add(Kind::validate(self, gates));
        faults.into_vec()
    }
}
