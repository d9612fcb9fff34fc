//! PersistentVolumeClaim, PersistentVolume and StorageClass.

use super::IMMUTABLE;
use crate::{
    FeatureGates, FieldError, Kind, Path,
    faults::Faults,
    names::{check_dns_subdomain, check_label_key, check_qualified_name},
    pod::{
        claim::{
            VOLUME_MODES, claim_warnings, set_claim_spec_defaults, storage, validate_access_modes, validate_claim_spec, validate_size,
        },
        quantities::{ResourceList, parse, round_up},
        source_defaults::fill_source,
        validate::{ISCSI_TOO_LONG, is_iscsi_too_long, scheduling::validate_node_selector, sources},
        volume_sources,
        warnings::{dead_volume, replaced_node_label},
    },
    quantity::Quantity,
    unset::{default_to, list, text},
};
use k8s_openapi::{
    api::{
        core::v1::{
            PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus, PersistentVolumeSpec,
            PersistentVolumeStatus, TopologySelectorTerm, TypedLocalObjectReference, TypedObjectReference,
        },
        storage::v1::StorageClass,
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use std::collections::{BTreeMap, BTreeSet};

impl Kind for PersistentVolumeClaim {
    const CHECKS_NEW_NAME_BASE: bool = true;
    const HAS_STATUS: bool = true;

    fn warnings(&self, _old: Option<&Self>) -> Vec<String> {
        let mut warnings: Vec<String> = warn_old_class(&self.metadata).into_iter().collect();
        warnings.extend(self.spec.iter().flat_map(|spec| claim_warnings(spec, &Path::new("spec"))));
        warnings
    }

    fn set_defaults(&mut self) {
        set_claim_spec_defaults(self.spec.get_or_insert_default());
        default_to(&mut self.status.get_or_insert_default().phase, "Pending");
    }

    fn prepare_create(&mut self, _gates: &FeatureGates) {
        let spec = self.spec.get_or_insert_default();
        drop_sources(spec, None);
        unify_sources(spec);
        let phase = Some("Pending".to_owned());
        self.status = Some(PersistentVolumeClaimStatus { phase, ..PersistentVolumeClaimStatus::default() });
    }

    fn prepare_update(&mut self, old: &Self, _gates: &FeatureGates) {
        let spec = self.spec.get_or_insert_default();
        drop_sources(spec, old.spec.as_ref());
        unify_sources(spec);
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

/// Drops a reference into another namespace, whose gate is off, and a `dataSource` alone that is neither a claim nor a snapshot, unless the stored
/// claim has a source.
///
/// Source: upstream `DropDisabledFields`, `EnforceDataSourceBackwardsCompatibility`.
fn drop_sources(spec: &mut PersistentVolumeClaimSpec, old: Option<&PersistentVolumeClaimSpec>) {
    if spec.data_source_ref.as_ref().is_some_and(|source| !text(&source.namespace).is_empty()) {
        spec.data_source_ref = None;
    }
    let is_known = |source: &TypedLocalObjectReference| {
        matches!(
            (text(&source.api_group), source.kind.as_str()),
            ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
        )
    };
    let has_source = old.is_some_and(|old| old.data_source.is_some() || old.data_source_ref.is_some());
    if spec.data_source_ref.is_none() && !has_source {
        spec.data_source.take_if(|source| !is_known(source));
    }
}

/// Synchronizes the two fields for a claim's data source, as far as the other can express the same. A source in another
/// namespace is only possible in `dataSourceRef`.
///
/// Source: upstream `NormalizeDataSources`.
fn unify_sources(spec: &mut PersistentVolumeClaimSpec) {
    match (&spec.data_source, &spec.data_source_ref) {
        (Some(source), None) => {
            let TypedLocalObjectReference { api_group, kind, name } = source.clone();
            spec.data_source_ref = Some(TypedObjectReference { api_group, kind, name, namespace: None });
        }
        (None, Some(source)) if text(&source.namespace).is_empty() => {
            let TypedObjectReference { api_group, kind, name, .. } = source.clone();
            spec.data_source = Some(TypedLocalObjectReference { api_group, kind, name });
        }
        _ => (),
    }
}

/// Validates a change of a claim: a bound claim may request more, and an unbound one may set its volume and a missing
/// class.
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
    if spec.volume_mode != old.volume_mode {
        faults.invalid(&Path::new("volumeMode"), text(&spec.volume_mode), IMMUTABLE);
    }
    let capacity = status.and_then(|status| status.capacity.as_ref()?.get("storage")).and_then(parse);
    let size = |spec| storage(spec).and_then(parse).unwrap_or(Quantity::ZERO);
    if size(spec) < size(old) && size(spec) <= capacity.unwrap_or(Quantity::ZERO) {
        faults.forbidden(&Path::new("spec.resources.requests.storage"), "field can not be less than status.capacity");
    }
}

/// The annotation that preceded the field for the class.
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

fn warn_old_class(metadata: &ObjectMeta) -> Option<String> {
    let is_there = metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(OLD_CLASS));
    is_there.then(|| format!("metadata.annotations[{OLD_CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"))
}

/// Returns warnings about the spec of a volume.
fn volume_warnings(spec: &PersistentVolumeSpec) -> Vec<String> {
    let mut warnings = Vec::new();
    let selector = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let terms = selector.map_or(&[][..], |selector| &selector.node_selector_terms);
    for (term_index, term) in terms.iter().enumerate() {
        for (index, wanted) in list(&term.match_expressions).iter().enumerate() {
            if let Some((since, instead)) = replaced_node_label(&wanted.key) {
                let path = format!("spec.nodeAffinity.required.nodeSelectorTerms[{term_index}].matchExpressions[{index}].key");
                warnings.push(format!("{path}: {} is deprecated since {since}; use \"{instead}\" instead", wanted.key));
            }
        }
    }
    if text(&spec.persistent_volume_reclaim_policy) == "Recycle" {
        let text = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.";
        warnings.push(format!("spec.persistentVolumeReclaimPolicy: {text}"));
    }
    // Upstream omits two others, and has its own spelling of one name.
    let told = source_names(spec).filter(|name| !matches!(*name, "flocker" | "quobyte"));
    warnings.extend(told.filter_map(|name| {
        let field = if name == "storageos" { "storageOS" } else { name };
        dead_volume(name).map(|advice| format!("spec.{field}: {advice}"))
    }));
    warnings
}

impl Kind for PersistentVolume {
    const CHECKS_NEW_NAME_BASE: bool = true;
    const HAS_STATUS: bool = true;

    fn warnings(&self, _old: Option<&Self>) -> Vec<String> {
        let mut warnings: Vec<String> = warn_old_class(&self.metadata).into_iter().collect();
        warnings.extend(self.spec.iter().flat_map(volume_warnings));
        warnings
    }

    fn set_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        default_to(&mut spec.persistent_volume_reclaim_policy, "Retain");
        default_to(&mut spec.volume_mode, "Filesystem");
        spec.capacity.iter_mut().for_each(round_up);
        fill_source(&mut spec.azure_disk);
        fill_source(&mut spec.host_path);
        fill_source(&mut spec.iscsi);
        fill_source(&mut spec.rbd);
        fill_source(&mut spec.scale_io);
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

    /// Records the time of the last change of its phase.
    fn stamp(&mut self, old: Option<&Self>, now: &Time) {
        let status = self.status.get_or_insert_default();
        let old = old.map(|old| old.status.clone().unwrap_or_default());
        let stored = old.as_ref().and_then(|old| old.last_phase_transition_time.clone());
        status.last_phase_transition_time = status.last_phase_transition_time.take().or(stored);
        let is_new = old.is_none_or(|old| {
            let is_told =
                status.last_phase_transition_time.is_some() && status.last_phase_transition_time != old.last_phase_transition_time;
            status.phase != old.phase && !is_told
        });
        if is_new {
            status.last_phase_transition_time = Some(now.clone());
        }
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
            faults.invalid(&Path::new("volumeMode"), text(&spec.volume_mode), IMMUTABLE);
        }
        if old.node_affinity.is_some() && !is_same_place(spec, old) {
            let detail = "field is immutable, except for updating from beta label to GA";
            faults.invalid(&Path::new("nodeAffinity"), serde_json::json!(spec.node_affinity), detail);
        }
        faults.into_vec()
    }
}

/// Whether the nodes that can reach a volume are the same, including deprecated label names.
fn is_same_place(spec: &PersistentVolumeSpec, old: &PersistentVolumeSpec) -> bool {
    let renamed = |spec: &PersistentVolumeSpec| {
        let mut affinity = spec.node_affinity.clone();
        let terms = affinity.as_mut().and_then(|affinity| affinity.required.as_mut()).map(|required| &mut required.node_selector_terms);
        for wanted in terms.into_iter().flatten().flat_map(|term| term.match_expressions.iter_mut().flatten()) {
            if let Some((_, instead)) = replaced_node_label(&wanted.key) {
                wanted.key = instead.to_owned();
            }
        }
        affinity
    };
    spec.node_affinity == old.node_affinity || spec.node_affinity == renamed(old)
}

fn volume_faults(volume: &PersistentVolume, old: Option<&PersistentVolumeSpec>) -> Faults {
    let (mut faults, spec) = (Faults::default(), volume.spec.clone().unwrap_or_default());
    validate_volume(text(&volume.metadata.name), &spec, old, &mut faults);
    validate_mount_options(&volume.metadata, &spec, &mut faults);
    faults
}

fn validate_volume(name: &str, spec: &PersistentVolumeSpec, old: Option<&PersistentVolumeSpec>, faults: &mut Faults) {
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
    // A source is immutable. One that was stored before a rule existed is not validated by the rule.
    if old.is_none_or(|old| source_alone(old) != source_alone(spec)) {
        validate_volume_source(spec, &path, faults);
        validate_initiator(name, spec, &path.child("iscsi"), faults);
    }
    if spec.local.is_some() && spec.node_affinity.is_none() {
        faults.required(&path.child("nodeAffinity"), "Local volume requires node affinity");
    }
    let recycles = text(&spec.persistent_volume_reclaim_policy) == "Recycle";
    if recycles && spec.host_path.as_ref().is_some_and(|source| is_root(&source.path)) {
        faults.forbidden(&path.child("persistentVolumeReclaimPolicy"), "may not be 'recycle' for a hostPath mount of '/'");
    }
    faults.optional_form(&path.child("storageClassName"), &spec.storage_class_name, check_dns_subdomain);
    faults.optional_one_of(&path.child("volumeMode"), &spec.volume_mode, VOLUME_MODES);
    if let Some(class) = &spec.volume_attributes_class_name {
        match class.as_str() {
            "" => faults.required(&path.child("volumeAttributesClassName"), "an empty string is disallowed"),
            class => faults.form(&path.child("volumeAttributesClassName"), class, check_dns_subdomain),
        }
        if spec.csi.is_none() {
            faults.required(&path.child("csi"), "has to be specified when using volumeAttributesClassName");
        }
    }
}

/// Upstream validates a `flexVolume` beside another source too, and never rejects it as a second source.
fn validate_volume_source(spec: &PersistentVolumeSpec, path: &Path, faults: &mut Faults) {
    let sources = volume_sources::of_persistent_volume(spec);
    let flex = sources.iter().position(|(name, _)| *name == "flexVolume").unwrap_or(sources.len());
    let (before, after) = sources.split_at(flex);
    match (before, after) {
        ([], _) | (_, []) => sources::validate_only(&sources, path, faults),
        ([..], [(name, source), after @ ..]) => {
            sources::validate_only(before, path, faults);
            source.validate(&path.child(name), faults);
            sources::refuse_more(after, path, faults);
        }
    }
}

fn validate_initiator(name: &str, spec: &PersistentVolumeSpec, path: &Path, faults: &mut Faults) {
    let Some(source) = spec.iscsi.as_ref().filter(|source| source.initiator_name.is_some()) else { return };
    if is_iscsi_too_long(name, &source.target_portal) {
        faults.invalid(&path.child("targetportal"), source.target_portal.as_str(), ISCSI_TOO_LONG);
    }
}

/// Whether a path leads to the root after its `..` elements are resolved.
fn is_root(path: &str) -> bool {
    let mut depth = 0_i32;
    for step in path.split('/') {
        match step {
            "" | "." => (),
            ".." => depth = (depth - 1).max(0),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}

/// The annotation with the mount options of a volume.
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";

fn validate_mount_options(metadata: &ObjectMeta, spec: &PersistentVolumeSpec, faults: &mut Faults) {
    let is_there = metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(MOUNT_OPTIONS));
    let takes_none = ["csi", "fc", "flexVolume", "flocker", "hostPath", "local", "portworxVolume", "scaleIO", "storageos"];
    if is_there && source_names(spec).any(|name| takes_none.contains(&name)) {
        let path = Path::new("metadata.annotations").child(MOUNT_OPTIONS);
        faults.forbidden(&path, "may not specify mount options for this volume type");
    }
}

fn validate_capacity(capacity: Option<&ResourceList>, path: &Path, faults: &mut Faults) {
    if capacity.is_none_or(ResourceList::is_empty) {
        faults.required(path, "");
    }
    if capacity.is_none_or(|capacity| capacity.len() != 1 || !capacity.contains_key("storage")) {
        faults.add([FieldError::not_supported(path, serde_json::json!(capacity), &["storage"])]);
    }
    for (name, quantity) in capacity.into_iter().flatten() {
        let path = path.key(name);
        if let Some(number) = parse(quantity).filter(|number| number.is_negative()) {
            faults.invalid(&path, number.value(), "must be a valid resource quantity");
        }
        validate_size(quantity, &path, faults);
    }
}

/// Returns the spec without its mutable fields. The rest is the volume's source.
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

fn source_names(spec: &PersistentVolumeSpec) -> impl Iterator<Item = &'static str> {
    volume_sources::of_persistent_volume(spec).into_iter().map(|(name, _)| name)
}

/// Rejects a term that is equal to an earlier one, and an empty term.
///
/// Source: upstream `validateAllowedTopologies`, `ValidateTopologySelectorTerm`.
fn validate_topologies(terms: &[TopologySelectorTerm], path: &Path, faults: &mut Faults) {
    let mut seen = BTreeSet::from([BTreeMap::new()]);
    for (index, term) in terms.iter().enumerate() {
        let (path, mut keys) = (path.index(index).child("matchLabelExpressions"), BTreeSet::new());
        for (index, wanted) in list(&term.match_label_expressions).iter().enumerate() {
            let path = path.index(index);
            if wanted.values.is_empty() {
                faults.required(&path.child("values"), "");
            }
            let mut values = BTreeSet::new();
            for (index, value) in wanted.values.iter().enumerate() {
                faults.unique(&path.child("values").index(index), value, &mut values);
            }
            faults.form(&path.child("key"), &wanted.key, check_label_key);
            faults.unique(&path.child("key"), &wanted.key, &mut keys);
        }
        let meaning = list(&term.match_label_expressions).iter().map(|wanted| (&wanted.key, wanted.values.iter().collect::<BTreeSet<_>>()));
        if !seen.insert(meaning.collect()) {
            faults.duplicate(&path, "");
        }
    }
}

/// The maximum number of parameters of a class, and the maximum total size of their names and values.
const PARAMETERS_MAX: usize = 512;
const PARAMETERS_BYTES_MAX: usize = 256 * 1024;

impl Kind for StorageClass {
    const CHECKS_NEW_NAME_BASE: bool = true;

    fn warnings(&self, _old: Option<&Self>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (term_index, term) in list(&self.allowed_topologies).iter().enumerate() {
            for (index, wanted) in list(&term.match_label_expressions).iter().enumerate() {
                if let Some((since, instead)) = replaced_node_label(&wanted.key) {
                    let path = format!("allowedTopologies[{term_index}].matchLabelExpressions[{index}].key");
                    warnings.push(format!("{path}: deprecated since {since}; use \"{instead}\" instead"));
                }
            }
        }
        warnings
    }

    /// Defaults absent fields only. An empty text is kept, as upstream.
    fn set_defaults(&mut self) {
        self.reclaim_policy.get_or_insert_with(|| "Delete".to_owned());
        self.volume_binding_mode.get_or_insert_with(|| "Immediate".to_owned());
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let provisioner = self.provisioner.to_lowercase();
        faults.set_form(&Path::new("provisioner"), &provisioner, check_qualified_name);
        if self.parameters.as_ref().is_some_and(|parameters| parameters.contains_key("")) {
            faults.invalid(&Path::new("parameters"), "", "field can not be empty.");
        }
        let parameters = self.parameters.iter().flatten();
        let bytes: usize = parameters.clone().map(|(name, value)| name.len() + value.len()).sum();
        if parameters.count() > PARAMETERS_MAX {
            faults.add([FieldError::too_long(&Path::new("parameters"), PARAMETERS_MAX)]);
        }
        if bytes > PARAMETERS_BYTES_MAX {
            faults.add([FieldError::too_long(&Path::new("parameters"), PARAMETERS_BYTES_MAX)]);
        }
        faults.optional_one_of(&Path::new("reclaimPolicy"), &self.reclaim_policy, &["Delete", "Retain"]);
        faults.known(&Path::new("volumeBindingMode"), text(&self.volume_binding_mode), &["Immediate", "WaitForFirstConsumer"]);
        validate_topologies(list(&self.allowed_topologies), &Path::new("allowedTopologies"), &mut faults);
        faults.into_vec()
    }

    fn validate_update(&self, old: &Self, gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        faults.add(Kind::validate(self, gates));
        let changed = [
            ("parameters", self.parameters != old.parameters, serde_json::json!(self.parameters)),
            ("provisioner", self.provisioner != old.provisioner, self.provisioner.as_str().into()),
            ("reclaimPolicy", self.reclaim_policy != old.reclaim_policy, text(&self.reclaim_policy).into()),
            ("volumeBindingMode", self.volume_binding_mode != old.volume_binding_mode, text(&self.volume_binding_mode).into()),
        ];
        for (field, _, shown) in changed.into_iter().filter(|(_, is_changed, _)| *is_changed) {
            faults.invalid(&Path::new(field), shown, IMMUTABLE);
        }
        faults.into_vec()
    }
}
