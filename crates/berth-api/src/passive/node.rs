//! Node.

use crate::{
    FeatureGates, FieldError, Kind, Path,
    faults::Faults,
    ip::{Cidr, check_network, network_warning},
    names::{check_label_key, check_label_value},
    pod::{quantities::round_up, validate::scheduling::TAINT_EFFECTS},
    unset::{list, text},
};
use k8s_openapi::api::core::v1::{Node, NodeSpec, Taint};
use std::collections::BTreeSet;

const DEPRECATED: &str = "this field is deprecated, and is unused by Kubernetes";

impl Kind for Node {
    const CHECKS_NEW_NAME_BASE: bool = true;
    const HAS_STATUS: bool = true;

    fn set_defaults(&mut self) {
        unify_pod_ranges(self.spec.get_or_insert_default());
        let status = self.status.get_or_insert_default();
        [&mut status.capacity, &mut status.allocatable].into_iter().flatten().for_each(round_up);
        if status.allocatable.is_none() {
            status.allocatable.clone_from(&status.capacity);
        }
    }

    fn warnings(&self, _old: Option<&Self>) -> Vec<String> {
        let spec = self.spec.as_ref();
        let deprecated = [
            ("externalID", spec.is_some_and(|spec| spec.external_id.is_some())),
            ("configSource", spec.is_some_and(|spec| spec.config_source.is_some())),
        ];
        let present = deprecated.into_iter().filter(|(_, is_there)| *is_there);
        let mut warnings: Vec<String> = present.map(|(field, _)| format!("spec.{field}: {DEPRECATED}")).collect();
        let ranges = spec.map(|spec| list(&spec.pod_cidrs)).unwrap_or_default();
        let path = Path::new("spec.podCIDRs");
        warnings.extend(ranges.iter().enumerate().filter_map(|(index, range)| network_warning(&path.index(index), range)));
        warnings
    }

    /// A create keeps the status, because nodes register themselves with their capacity.
    fn prepare_create(&mut self, _gates: &FeatureGates) {
        self.spec.get_or_insert_default().config_source = None;
    }

    fn prepare_update(&mut self, old: &Self, _gates: &FeatureGates) {
        let is_used = old.spec.as_ref().is_some_and(|spec| spec.config_source.is_some());
        if !is_used {
            self.spec.get_or_insert_default().config_source = None;
        }
        self.status.clone_from(&old.status);
    }

    fn prepare_status_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.spec.clone_from(&old.spec);
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let taints = self.spec.as_ref().map(|spec| list(&spec.taints)).unwrap_or_default();
        validate_taints(taints, &Path::new("metadata.taints"), &mut faults);
        let ranges = self.spec.as_ref().map(|spec| list(&spec.pod_cidrs)).unwrap_or_default();
        validate_pod_ranges(ranges, &Path::new("spec.podCIDRs"), &mut faults);
        faults.into_vec()
    }

    fn validate_update(&self, old: &Self, gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        faults.add(Kind::validate(self, gates));
        let empty = NodeSpec::default();
        let (spec, old) = (self.spec.as_ref().unwrap_or(&empty), old.spec.as_ref().unwrap_or(&empty));
        if !list(&old.pod_cidrs).is_empty() && spec.pod_cidrs != old.pod_cidrs {
            faults.forbidden(&Path::new("spec.podCIDRs"), "node updates may not change podCIDR except from \"\" to valid");
        }
        if !text(&old.provider_id).is_empty() && text(&spec.provider_id) != text(&old.provider_id) {
            faults.forbidden(&Path::new("spec.providerID"), "node updates may not change providerID except from \"\" to valid");
        }
        if text(&spec.external_id) != text(&old.external_id) {
            faults.forbidden(&Path::new("spec.externalID"), "may not be updated");
        }
        faults.into_vec()
    }
}

/// One field is the first range of the other. If both are set and differ, the former wins.
///
/// Source: upstream `Convert_v1_NodeSpec_To_core_NodeSpec`.
fn unify_pod_ranges(spec: &mut NodeSpec) {
    let one = spec.pod_cidr.take().filter(|range| !range.is_empty());
    if let Some(one) = one.filter(|one| list(&spec.pod_cidrs).first() != Some(one)) {
        spec.pod_cidrs = Some(vec![one]);
    }
    spec.pod_cidr = list(&spec.pod_cidrs).first().cloned();
}

/// Requires at most one range of each family.
fn validate_pod_ranges(ranges: &[String], path: &Path, faults: &mut Faults) {
    for (index, range) in ranges.iter().enumerate() {
        faults.form(&path.index(index), range, check_network);
    }
    if ranges.len() < 2 {
        return;
    }
    let parsed: Vec<Result<Cidr, _>> = ranges.iter().map(|range| range.parse()).collect();
    let broken = parsed.iter().position(Result::is_err);
    if let Some(index) = broken {
        let range = &ranges[index];
        let detail = format!(
            "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{index}]: <nil> (invalid CIDR address: {range})"
        );
        faults.add([FieldError::internal(path, detail)]);
    }
    let families: BTreeSet<&str> = parsed.iter().flatten().map(Cidr::family).collect();
    if broken.is_some() || families.len() < parsed.len() {
        faults.invalid(path, ranges.to_vec(), "may specify no more than one CIDR for each IP family");
    }
}

fn validate_taints(taints: &[Taint], path: &Path, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for (index, taint) in taints.iter().enumerate() {
        let path = path.index(index);
        faults.form(&path.child("key"), &taint.key, check_label_key);
        faults.optional_form(&path.child("value"), &taint.value, check_label_value);
        faults.one_of(&path.child("effect"), &taint.effect, TAINT_EFFECTS);
        if !seen.insert((&taint.key, &taint.effect)) {
            let value = serde_json::to_value(taint).expect("API types have string keys only");
            faults.add([FieldError {
                detail: "taints must be unique by key and effect pair".to_owned(),
                ..FieldError::duplicate(&path, value)
            }]);
        }
    }
}
