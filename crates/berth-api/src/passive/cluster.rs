//! Namespace, PriorityClass and Lease.

use super::IMMUTABLE;
use crate::{
    FeatureGates, FieldError, Kind, Path,
    faults::Faults,
    names::check_qualified_name,
    object::{FinalizerRule, NameRule},
    pod_security,
    unset::{default_to, list, text},
};
use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::{Namespace, NamespaceStatus},
        scheduling::v1::PriorityClass,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

/// The label by which a selector can match a namespace's name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// The finalizer that keeps a namespace until it is empty.
const FINALIZER: &str = "kubernetes";
/// The maximum priority of a user's class.
const USER_PRIORITY_MAX: i32 = 1_000_000_000;
/// Classes whose names begin with `system-`, with their values.
const SYSTEM_PRIORITIES: &[(&str, i32)] = &[("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

impl Kind for Namespace {
    const CHECKS_NEW_NAME_BASE: bool = true;
    const NAME_RULE: NameRule = NameRule::Label;
    const HAS_STATUS: bool = true;
    const RETURNS_DELETED: bool = true;

    fn set_defaults(&mut self) {
        label_with_name(self);
        default_to(&mut self.status.get_or_insert_default().phase, "Active");
        self.spec.get_or_insert_default();
    }

    fn prepare_create(&mut self, _gates: &FeatureGates) {
        // Applied again: with only `generateName`, there was no name before.
        label_with_name(self);
        let finalizers = self.spec.get_or_insert_default().finalizers.get_or_insert_default();
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
        }
        self.status = Some(NamespaceStatus { phase: Some("Active".to_owned()), conditions: None });
    }

    /// Finalizers are changed through `/finalize` only.
    fn prepare_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.spec.clone_from(&old.spec);
        self.status.clone_from(&old.status);
    }

    fn prepare_status_update(&mut self, old: &Self, _gates: &FeatureGates) {
        self.spec.clone_from(&old.spec);
    }

    /// Copies the namespace's own finalizers and nothing else.
    fn prepare_finalize(&mut self, old: &Self) {
        let finalizers = self.spec.take().and_then(|spec| spec.finalizers);
        *self = old.clone();
        self.spec.get_or_insert_default().finalizers = finalizers.filter(|finalizers| !finalizers.is_empty());
    }

    /// Only marks it as terminating. A controller empties and finalizes it.
    fn begin_deletion(&mut self, now: &Time) {
        if self.metadata.deletion_timestamp.is_none() {
            self.metadata.deletion_timestamp = Some(now.clone());
            self.status.get_or_insert_default().phase = Some("Terminating".to_owned());
        }
    }

    fn has_own_finalizers(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| !list(&spec.finalizers).is_empty())
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        // At the creation of a namespace, upstream does not report the index of the finalizer.
        let mut faults = finalizer_faults(self, |path, _| path.clone());
        faults.extend(pod_security::validate_labels(self.metadata.labels.as_ref(), None));
        faults
    }

    /// Source: upstream `ValidateNamespaceFinalizeUpdate`.
    fn validate_finalize(&self) -> Vec<FieldError> {
        finalizer_faults(self, Path::index)
    }

    fn validate_update(&self, old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        pod_security::validate_labels(self.metadata.labels.as_ref(), old.metadata.labels.as_ref())
    }

    fn validate_status_update(&self, _old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        let phase = self.status.as_ref().map(|status| text(&status.phase)).unwrap_or_default();
        let detail = match (&self.metadata.deletion_timestamp, phase) {
            (None, "Active") | (Some(_), "Terminating") => return Vec::new(),
            (None, _) => "may only be 'Active' if `deletionTimestamp` is empty",
            (Some(_), _) => "may only be 'Terminating' if `deletionTimestamp` is not empty",
        };
        vec![FieldError::invalid(&Path::new("status.Phase"), phase, detail)]
    }
}

/// Validates the finalizers of a namespace. `at` returns the path for an index.
fn finalizer_faults(namespace: &Namespace, at: impl Fn(&Path, usize) -> Path) -> Vec<FieldError> {
    let mut faults = Faults::default();
    let finalizers = namespace.spec.as_ref().map(|spec| list(&spec.finalizers)).unwrap_or_default();
    for (index, finalizer) in finalizers.iter().enumerate() {
        let path = at(&Path::new("spec.finalizers"), index);
        faults.form(&path, finalizer, check_qualified_name);
        if finalizer != FINALIZER && !finalizer.contains('/') {
            faults.invalid(&path, finalizer.as_str(), "name is neither a standard finalizer name nor is it fully qualified");
        }
    }
    faults.into_vec()
}

fn label_with_name(namespace: &mut Namespace) {
    if let Some(name) = namespace.metadata.name.as_ref().filter(|name| !name.is_empty()) {
        namespace.metadata.labels.get_or_insert_default().insert(NAME_LABEL.to_owned(), name.clone());
    }
}

impl Kind for PriorityClass {
    fn set_defaults(&mut self) {
        self.value.get_or_insert(0);
        default_to(&mut self.preemption_policy, "PreemptLowerPriority");
    }

    /// As upstream: 1, independent of later changes.
    fn prepare_create(&mut self, _gates: &FeatureGates) {
        self.metadata.generation = Some(1);
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        let name = text(&self.metadata.name);
        if name.starts_with("system-") {
            if let Err(why) = check_system_class(self, name) {
                let detail = format!("priority class names with 'system-' prefix are reserved for system use only. error: {why}");
                faults.forbidden(&Path::new("metadata.name"), detail);
            }
        } else if self.value.is_some_and(|value| value > USER_PRIORITY_MAX) {
            let detail = format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}");
            faults.forbidden(&Path::new("value"), detail);
        }
        faults.optional_one_of(&Path::new("preemptionPolicy"), &self.preemption_policy, &["PreemptLowerPriority", "Never"]);
        faults.into_vec()
    }

    fn validate_update(&self, old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        if self.value != old.value {
            faults.forbidden(&Path::new("value"), "may not be changed in an update.");
        }
        if self.preemption_policy != old.preemption_policy {
            faults.invalid(&Path::new("preemptionPolicy"), text(&self.preemption_policy), IMMUTABLE);
        }
        faults.into_vec()
    }
}

/// Why a class whose name has the system's prefix is not a class of the system.
#[derive(Debug, thiserror::Error)]
enum SystemClassError<'a> {
    #[error("{0} is not a known system priority class")]
    Unknown(&'a str),
    #[error("value of {0} PriorityClass must be {1}")]
    Value(&'a str, i32),
    #[error("globalDefault of {0} PriorityClass must be false")]
    GlobalDefault(&'a str),
}

/// Whether this is a class of the system, exactly as the system defines it.
fn check_system_class<'a>(class: &PriorityClass, name: &'a str) -> Result<(), SystemClassError<'a>> {
    let Some((_, value)) = SYSTEM_PRIORITIES.iter().find(|(known, _)| *known == name) else {
        return Err(SystemClassError::Unknown(name));
    };
    if class.value != Some(*value) {
        return Err(SystemClassError::Value(name, *value));
    }
    if class.global_default == Some(true) {
        return Err(SystemClassError::GlobalDefault(name));
    }
    Ok(())
}

impl Kind for Lease {
    const FINALIZER_RULE: FinalizerRule = FinalizerRule::Plain;
    const REQUIRES_RESOURCE_VERSION: bool = true;

    fn prepare_create(&mut self, _gates: &FeatureGates) {
        drop_coordination(self, None);
    }

    fn prepare_update(&mut self, old: &Self, _gates: &FeatureGates) {
        drop_coordination(self, old.spec.as_ref());
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let Some(spec) = &self.spec else { return Vec::new() };
        let mut faults = Faults::default();
        let path = Path::new("spec");
        if let Some(seconds) = spec.lease_duration_seconds.filter(|seconds| *seconds <= 0) {
            faults.invalid(&path.child("leaseDurationSeconds"), seconds, "must be greater than 0");
        }
        faults.not_negative(&path.child("leaseTransitions"), spec.lease_transitions);
        if !text(&spec.preferred_holder).is_empty() && text(&spec.strategy).is_empty() {
            faults.forbidden(&path.child("preferredHolder"), "may only be specified when `strategy` is defined");
        }
        faults.into_vec()
    }
}

/// Drops the fields of the gate `CoordinatedLeaderElection`, which is off, unless they are stored.
fn drop_coordination(lease: &mut Lease, old: Option<&LeaseSpec>) {
    let is_used = old.is_some_and(|old| old.strategy.is_some() || old.preferred_holder.is_some());
    if let Some(spec) = lease.spec.as_mut().filter(|_| !is_used) {
        (spec.strategy, spec.preferred_holder) = (None, None);
    }
}
