//! Events, in their two wire forms.

use crate::{FeatureGates, FieldError, Kind, Path, faults::Faults, names::check_qualified_name, unset::text};
use k8s_openapi::{
    api::{
        core::v1::{Event as CoreEvent, ObjectReference},
        events::v1::Event,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

/// Longest action, reason and reporting instance, in bytes.
const TEXT_BYTES_MAX: usize = 128;
/// Longest note, in bytes.
const NOTE_BYTES_MAX: usize = 1024;

impl Kind for CoreEvent {
    fn set_defaults(&mut self) {
        self.source.get_or_insert_default();
        self.reporting_component.get_or_insert_default();
        self.reporting_instance.get_or_insert_default();
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_namespace(&self.metadata, &self.involved_object, "involvedObject.namespace", &mut faults);
        faults.into_vec()
    }
}

/// Stricter than the core form where it is created; updates of what the core form created must go on.
impl Kind for Event {
    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_namespace(&self.metadata, &self.regarding.clone().unwrap_or_default(), "regarding.namespace", &mut faults);
        if self.event_time.is_none() {
            faults.required(&Path::new("eventTime"), "");
        }
        faults.set_form(&Path::new("reportingController"), text(&self.reporting_controller), check_qualified_name);
        for (field, value) in [("reportingInstance", &self.reporting_instance), ("action", &self.action), ("reason", &self.reason)] {
            faults.set(&Path::new(field), text(value));
            at_most(field, text(value), TEXT_BYTES_MAX, &mut faults);
        }
        at_most("note", text(&self.note), NOTE_BYTES_MAX, &mut faults);
        let kind = text(&self.type_);
        if !matches!(kind, "Normal" | "Warning") {
            faults.invalid(&Path::new("type"), "", format!("has invalid value: {kind}"));
        }
        faults.into_vec()
    }

    fn validate_update(&self, _old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        validate_namespace(&self.metadata, &self.regarding.clone().unwrap_or_default(), "regarding.namespace", &mut faults);
        faults.into_vec()
    }
}

fn at_most(field: &str, value: &str, bytes_max: usize, faults: &mut Faults) {
    if value.len() > bytes_max {
        faults.invalid(&Path::new(field), "", format!("can have at most {bytes_max} characters"));
    }
}

/// An event stands in its object's namespace, that of an object without one in `default` (or, as controllers do it, in `kube-system`).
fn validate_namespace(metadata: &ObjectMeta, object: &ObjectReference, field: &str, faults: &mut Faults) {
    let (own, of_object) = (text(&metadata.namespace), text(&object.namespace));
    let fits = if of_object.is_empty() { matches!(own, "" | "default" | "kube-system") } else { own == of_object };
    if !fits {
        faults.invalid(&Path::new(field), of_object, "does not match event.namespace");
    }
}
