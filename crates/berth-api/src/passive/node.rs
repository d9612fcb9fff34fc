//! Node.

use crate::{
    FeatureGates, FieldError, Kind, Path,
    faults::Faults,
    names::{check_label_key, check_label_value},
    pod::{quantities::round_up, validate::scheduling::TAINT_EFFECTS},
    unset::list,
};
use k8s_openapi::api::core::v1::{Node, NodeSpec, Taint};
use std::collections::BTreeSet;

impl Kind for Node {
    const HAS_STATUS: bool = true;

    fn set_defaults(&mut self) {
        self.spec.get_or_insert_default();
        let status = self.status.get_or_insert_default();
        [&mut status.capacity, &mut status.allocatable].into_iter().flatten().for_each(round_up);
        if status.allocatable.is_none() {
            status.allocatable.clone_from(&status.capacity);
        }
    }

    // A create keeps the status: nodes register themselves with what they have.

    fn prepare_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.status.clone_from(&old.status);
    }

    fn prepare_status_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.spec.clone_from(&old.spec);
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let taints = self.spec.as_ref().map(|spec| list(&spec.taints)).unwrap_or_default();
        validate_taints(taints, &Path::new("spec.taints"), &mut faults);
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
        if old.provider_id.as_ref().is_some_and(|id| !id.is_empty()) && spec.provider_id != old.provider_id {
            faults.forbidden(&Path::new("spec.providerID"), "node updates may not change providerID except from \"\" to valid");
        }
        faults.into_vec()
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
            faults.duplicate(&path, serde_json::to_value(taint).expect("API types have string keys only"));
        }
    }
}
