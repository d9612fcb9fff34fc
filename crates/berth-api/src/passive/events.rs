//! Events, in their two wire forms.

use super::IMMUTABLE;
use crate::{FeatureGates, FieldError, Kind, Path, faults::Faults, names::check_qualified_name, unset::text};
use k8s_openapi::api::{
    core::v1::{Event as CoreEvent, ObjectReference},
    events::v1::Event,
};
use serde_json::json;

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
        as_reported(self).validate(&mut faults);
        faults.into_vec()
    }
}

/// Stricter than the core form: what is told of an occurrence does not change any more.
impl Kind for Event {
    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        reported(self).validate(&mut faults);
        validate_series(self, &mut faults);
        if self.event_time.is_none() {
            faults.required(&Path::new("eventTime"), "");
        }
        let kind = text(&self.type_);
        if !matches!(kind, "Normal" | "Warning") {
            faults.invalid(&Path::new("type"), "", format!("has invalid value: {kind}"));
        }
        let source = self.deprecated_source.clone().unwrap_or_default();
        let set = [
            ("firstTimestamp", self.deprecated_first_timestamp.is_some()),
            ("lastTimestamp", self.deprecated_last_timestamp.is_some()),
            ("count", self.deprecated_count.unwrap_or(0) != 0),
            ("source", !text(&source.component).is_empty() || !text(&source.host).is_empty()),
        ];
        set.into_iter().filter(|(_, is_set)| *is_set).for_each(|(field, _)| faults.invalid(&Path::new(field), "", "needs to be unset"));
        faults.into_vec()
    }

    /// Source: upstream `ValidateEventUpdate`. Fields have the names of the core form.
    fn validate_update(&self, old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        reported(self).validate(&mut faults);
        if self.series != old.series {
            validate_series(self, &mut faults);
        }
        let changed = [
            ("involvedObject", self.regarding != old.regarding, json!(self.regarding)),
            ("reason", self.reason != old.reason, json!(text(&self.reason))),
            ("message", self.note != old.note, json!(text(&self.note))),
            ("source", self.deprecated_source != old.deprecated_source, json!(self.deprecated_source)),
            ("firstTimestamp", self.deprecated_first_timestamp != old.deprecated_first_timestamp, json!(self.deprecated_first_timestamp)),
            ("lastTimestamp", self.deprecated_last_timestamp != old.deprecated_last_timestamp, json!(self.deprecated_last_timestamp)),
            ("count", self.deprecated_count != old.deprecated_count, json!(self.deprecated_count.unwrap_or(0))),
            ("type", self.type_ != old.type_, json!(text(&self.type_))),
            ("eventTime", self.event_time != old.event_time, json!(self.event_time)),
            ("action", self.action != old.action, json!(text(&self.action))),
            ("related", self.related != old.related, json!(self.related)),
            ("reportingController", self.reporting_controller != old.reporting_controller, json!(text(&self.reporting_controller))),
            ("reportingInstance", self.reporting_instance != old.reporting_instance, json!(text(&self.reporting_instance))),
        ];
        for (field, _, shown) in changed.into_iter().filter(|(_, is_changed, _)| *is_changed) {
            faults.invalid(&Path::new(field), shown, IMMUTABLE);
        }
        faults.into_vec()
    }
}

/// A series of one is none.
fn validate_series(event: &Event, faults: &mut Faults) {
    if event.series.as_ref().is_some_and(|series| series.count < 2) {
        faults.invalid(&Path::new("series.count"), "", "should be at least 2");
    }
}

/// What both forms tell of an occurrence.
struct Reported<'a> {
    namespace: &'a str,
    object: &'a ObjectReference,
    /// Those that have a time of their own tell who reports.
    has_time: bool,
    controller_field: &'static str,
    controller: &'a str,
    instance: &'a str,
    action: &'a str,
    reason: &'a str,
    message: &'a str,
}

fn as_reported(event: &CoreEvent) -> Reported<'_> {
    Reported {
        namespace: text(&event.metadata.namespace),
        object: &event.involved_object,
        has_time: event.event_time.is_some(),
        controller_field: "reportingComponent",
        controller: text(&event.reporting_component),
        instance: text(&event.reporting_instance),
        action: text(&event.action),
        reason: text(&event.reason),
        message: text(&event.message),
    }
}

fn reported(event: &Event) -> Reported<'_> {
    static NOTHING: std::sync::LazyLock<ObjectReference> = std::sync::LazyLock::new(ObjectReference::default);
    Reported {
        namespace: text(&event.metadata.namespace),
        object: event.regarding.as_ref().unwrap_or(&NOTHING),
        has_time: event.event_time.is_some(),
        controller_field: "reportingController",
        controller: text(&event.reporting_controller),
        instance: text(&event.reporting_instance),
        action: text(&event.action),
        reason: text(&event.reason),
        message: text(&event.note),
    }
}

impl Reported<'_> {
    /// Source: upstream `legacyValidateEvent`.
    fn validate(&self, faults: &mut Faults) {
        self.validate_namespace(faults);
        if !self.has_time {
            return;
        }
        let controller = Path::new(self.controller_field);
        faults.set(&controller, self.controller);
        faults.form(&controller, self.controller, check_qualified_name);
        for (field, value) in [("reportingInstance", self.instance), ("action", self.action), ("reason", self.reason)] {
            faults.set(&Path::new(field), value);
            at_most(field, value, TEXT_BYTES_MAX, faults);
        }
        at_most("message", self.message, NOTE_BYTES_MAX, faults);
    }

    /// An event without a time is in its object's namespace; one of an object without a namespace is in `default` (or, as controllers do it, in
    /// `kube-system`).
    fn validate_namespace(&self, faults: &mut Faults) {
        let (own, of_object) = (self.namespace, text(&self.object.namespace));
        let fits = match (self.has_time, of_object.is_empty()) {
            (true, true) => matches!(own, "default" | "kube-system"),
            (true, false) => true,
            (false, true) => matches!(own, "" | "default"),
            (false, false) => own == of_object,
        };
        if !fits {
            faults.invalid(&Path::new("involvedObject.namespace"), of_object, "does not match event.namespace");
        }
    }
}

fn at_most(field: &str, value: &str, bytes_max: usize, faults: &mut Faults) {
    if value.len() > bytes_max {
        faults.invalid(&Path::new(field), "", format!("can have at most {bytes_max} characters"));
    }
}
