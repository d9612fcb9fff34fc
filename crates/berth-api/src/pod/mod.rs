//! Pods and pod templates: defaults, validation, warnings, and what controllers ask of a pod.

#[cfg(test)]
mod as_upstream;
mod defaults;
mod deletion_cost;
mod ephemeral;
mod grace;
mod label_keys;
pub(crate) mod quantities;
mod selectable;
pub(crate) mod source_defaults;
mod state;
mod status_part;
#[cfg(test)]
mod tests;
mod update;
pub(crate) mod validate;

pub use validate::{check_port_name, validate_container_limits, validate_node_selector, validate_tolerations};

pub(crate) mod warnings;

pub(crate) use defaults::fill_template;
pub use defaults::set_template_defaults;
pub use deletion_cost::{deletion_cost, is_deletion_cost_error, is_valid_deletion_cost, validate_deletion_cost_update};
pub use quantities::{total_limits, total_requests};
pub use state::{is_ready, is_terminal, qos_class, ready_since};
pub(crate) use validate::{claim, volume_sources};
pub use validate::{validate_template, validate_template_with_claims};
pub use warnings::template_warnings;

use crate::{
    FeatureGates, FieldError, Kind, Path,
    deletion::Grace,
    object::{GenerationRule, NameRule},
    simulation,
};
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use std::{borrow::Cow, collections::BTreeMap};

/// Returns the initial condition of a pod with scheduling gates.
///
/// Source: kubernetes `pkg/registry/core/pod/strategy.go`, `applySchedulingGatedCondition`.
fn scheduling_gated() -> PodCondition {
    PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: Some("SchedulingGated".to_owned()),
        message: Some("Scheduling is blocked due to non-empty scheduling gates".to_owned()),
        ..PodCondition::default()
    }
}

impl Kind for Pod {
    const CHECKS_NEW_NAME_BASE: bool = true;
    const NAME_RULE: NameRule = NameRule::Subdomain;
    const GENERATION_RULE: GenerationRule = GenerationRule::Spec;
    const HAS_STATUS: bool = true;
    const RETURNS_DELETED: bool = true;

    fn set_defaults(&mut self) {
        defaults::set_pod_defaults(self);
    }

    fn prepare_create(&mut self, _gates: &FeatureGates) {
        let spec = self.spec.get_or_insert_default();
        make_grace_positive(&mut spec.termination_grace_period_seconds);
        label_keys::add_requirements(spec, self.metadata.labels.as_ref().unwrap_or(&BTreeMap::new()));
        let qos_class = Some(qos_class(spec).to_owned());
        let is_gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
        let conditions = is_gated.then(|| vec![scheduling_gated()]);
        self.status = Some(PodStatus { phase: Some("Pending".to_owned()), qos_class, conditions, ..PodStatus::default() });
    }

    fn prepare_update(&mut self, old: &Self, _gates: &FeatureGates) {
        make_grace_positive(&mut self.spec.get_or_insert_default().termination_grace_period_seconds);
        self.status.clone_from(&old.status);
    }

    fn prepare_status_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.spec.clone_from(&old.spec);
        self.metadata.owner_references.clone_from(&old.metadata.owner_references);
        self.metadata.deletion_timestamp.clone_from(&old.metadata.deletion_timestamp);
        let status = self.status.get_or_insert_default();
        if status.qos_class.as_deref().is_none_or(str::is_empty) {
            status.qos_class = old.status.as_ref().and_then(|status| status.qos_class.clone());
        }
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        validate::validate_new_pod(self)
    }

    fn validate_update(&self, old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        update::validate_update(self, old)
    }

    fn validate_status_update(&self, old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        update::validate_status_update(self, old)
    }

    /// Warnings are only about new values.
    fn warnings(&self, old: Option<&Self>) -> Vec<String> {
        match &self.spec {
            Some(spec) if old.is_none_or(|old| old.spec != self.spec) => {
                let mut warnings = warnings::warnings(&self.metadata, spec, (&Path::new("metadata"), &Path::new("spec")));
                warnings.splice(0..0, warnings::name_warning(&self.metadata).filter(|_| old.is_none()));
                warnings
            }
            _ if old.is_none_or(|old| old.metadata.annotations != self.metadata.annotations) => {
                simulation::warnings(&self.metadata, self.spec.as_ref(), &Path::new("metadata"))
            }
            _ => Vec::new(),
        }
    }

    fn spec_differs(&self, old: &Self) -> bool {
        self.spec != old.spec
    }

    fn grace(&self, seconds: Option<i64>) -> Grace {
        grace::grace(self, seconds)
    }

    fn selectable(&self, field: &str) -> Option<Cow<'_, str>> {
        selectable::selectable(self, field)
    }

    fn with_status(&self, part: &Self, members: &[&str]) -> Option<Self> {
        let none = PodStatus::default();
        let [old, new] = [self, part].map(|pod| pod.status.as_ref().unwrap_or(&none));
        Some(Self { metadata: self.metadata.clone(), spec: None, status: Some(status_part::replaced(old, new, members)?) })
    }
}

/// A negative grace period is one second.
fn make_grace_positive(seconds: &mut Option<i64>) {
    if seconds.is_some_and(i64::is_negative) {
        *seconds = Some(1);
    }
}
