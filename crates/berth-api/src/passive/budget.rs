//! PodDisruptionBudget.

use crate::{
    FeatureGates, FieldError, Kind, Path,
    faults::Faults,
    int_or_string::{validate_at_most_100_percent, validate_not_negative},
    label_selector::validate_label_selector,
    object::{FinalizerRule, GenerationRule},
};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};

impl Kind for PodDisruptionBudget {
    const FINALIZER_RULE: FinalizerRule = FinalizerRule::Plain;
    const GENERATION_RULE: GenerationRule = GenerationRule::Spec;
    const HAS_STATUS: bool = true;
    const REQUIRES_RESOURCE_VERSION: bool = true;

    fn set_defaults(&mut self) {
        self.spec.get_or_insert_default();
        set_status_defaults(self.status.get_or_insert_default());
    }

    fn prepare_create(&mut self, _gates: &FeatureGates) {
        let mut status = PodDisruptionBudgetStatus::default();
        set_status_defaults(&mut status);
        self.status = Some(status);
    }

    fn prepare_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.status.clone_from(&old.status);
    }

    fn prepare_status_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.spec.clone_from(&old.spec);
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        self.spec.as_ref().map(validate_spec).unwrap_or_default()
    }

    fn validate_status_update(&self, _old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let Some(status) = &self.status else { return Vec::new() };
        let path = Path::new("status");
        faults.not_negative(&path.child("disruptionsAllowed"), status.disruptions_allowed);
        faults.not_negative(&path.child("currentHealthy"), status.current_healthy);
        faults.not_negative(&path.child("desiredHealthy"), status.desired_healthy);
        faults.not_negative(&path.child("expectedPods"), status.expected_pods);
        faults.into_vec()
    }

    fn spec_differs(&self, old: &Self) -> bool {
        self.spec != old.spec
    }
}

/// The wire form always prints these counts.
fn set_status_defaults(status: &mut PodDisruptionBudgetStatus) {
    let counts = [&mut status.current_healthy, &mut status.desired_healthy, &mut status.disruptions_allowed, &mut status.expected_pods];
    for count in counts {
        count.get_or_insert(0);
    }
}

fn validate_spec(spec: &PodDisruptionBudgetSpec) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let path = Path::new("spec");
    if spec.min_available.is_some() && spec.max_unavailable.is_some() {
        let value = serde_json::to_value(spec).expect("API types have string keys only");
        faults.invalid(&path, value, "minAvailable and maxUnavailable cannot be both set");
    }
    for (field, value) in [("minAvailable", &spec.min_available), ("maxUnavailable", &spec.max_unavailable)] {
        let Some(value) = value else { continue };
        faults.add(validate_not_negative(value, &path.child(field)));
        faults.add(validate_at_most_100_percent(value, &path.child(field)));
    }
    faults.add(spec.selector.iter().flat_map(|selector| validate_label_selector(selector, &path.child("selector"))));
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    faults.optional_one_of(&path.child("unhealthyPodEvictionPolicy"), &spec.unhealthy_pod_eviction_policy, &policies);
    faults.into_vec()
}
