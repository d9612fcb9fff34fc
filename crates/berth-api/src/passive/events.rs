//! Events, in their two wire forms.
//!
//! Source of the rules, and of the names of the fields in their messages: kubernetes `pkg/apis/core/validation/events.go`.

use super::IMMUTABLE;
use crate::{FeatureGates, FieldError, Kind, Path, faults::Faults, names::check_qualified_name, object::FinalizerRule, unset::text};
use k8s_openapi::{
    api::{
        core::v1::{Event as CoreEvent, ObjectReference},
        events::v1::Event,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::Serialize;
use serde_json::json;

/// Longest action, reason and reporting instance, in bytes.
const TEXT_BYTES_MAX: usize = 128;
/// Longest note, in bytes.
const NOTE_BYTES_MAX: usize = 1024;
/// The fewest events that are a series.
const SERIES_COUNT_MIN: i32 = 2;

impl Kind for CoreEvent {
    const FINALIZER_RULE: FinalizerRule = FinalizerRule::Plain;
    fn set_defaults(&mut self) {
        self.source.get_or_insert_default();
        self.reporting_component.get_or_insert_default();
        self.reporting_instance.get_or_insert_default();
    }

    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        Common::from(self).validate(&mut faults);
        faults.into_vec()
    }
}

impl Kind for Event {
    fn validate(&self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        Common::from(self).validate(&mut faults);
        validate_series(self, &mut faults);
        if self.event_time.is_none() {
            faults.required(&Path::new("eventTime"), "");
        }
        let kind = text(&self.type_);
        if !matches!(kind, "Normal" | "Warning") {
            faults.invalid(&Path::new("type"), "", format!("has invalid value: {kind}"));
        }
        let has_source = self.deprecated_source.as_ref().is_some_and(|source| *source != Default::default());
        for (field, is_set) in [
            ("firstTimestamp", self.deprecated_first_timestamp.is_some()),
            ("lastTimestamp", self.deprecated_last_timestamp.is_some()),
            ("count", self.deprecated_count.is_some_and(|count| count > 0)),
            ("source", has_source),
        ] {
            if is_set {
                faults.invalid(&Path::new(field), "", "needs to be unset");
            }
        }
        faults.into_vec()
    }

    /// Only the series and the metadata may change.
    fn validate_update(&self, old: &Self, _gates: &FeatureGates) -> Vec<FieldError> {
        let mut faults = Faults::default();
        Common::from(self).validate(&mut faults);
        if self.series != old.series {
            validate_series(self, &mut faults);
        }
        let or_default = |reference: &Option<ObjectReference>| reference.clone().unwrap_or_default();
        same("involvedObject", &or_default(&self.regarding), &or_default(&old.regarding), &mut faults);
        same("reason", &text(&self.reason), &text(&old.reason), &mut faults);
        same("message", &text(&self.note), &text(&old.note), &mut faults);
        let source = |event: &Self| event.deprecated_source.clone().unwrap_or_default();
        same("source", &source(self), &source(old), &mut faults);
        same("firstTimestamp", &self.deprecated_first_timestamp, &old.deprecated_first_timestamp, &mut faults);
        same("lastTimestamp", &self.deprecated_last_timestamp, &old.deprecated_last_timestamp, &mut faults);
        same("count", &self.deprecated_count.unwrap_or(0), &old.deprecated_count.unwrap_or(0), &mut faults);
        same("type", &text(&self.type_), &text(&old.type_), &mut faults);
        same("eventTime", &self.event_time, &old.event_time, &mut faults);
        same("action", &text(&self.action), &text(&old.action), &mut faults);
        same("related", &self.related, &old.related, &mut faults);
        same("reportingController", &text(&self.reporting_controller), &text(&old.reporting_controller), &mut faults);
        same("reportingInstance", &text(&self.reporting_instance), &text(&old.reporting_instance), &mut faults);
        faults.into_vec()
    }
}

fn validate_series(event: &Event, faults: &mut Faults) {
    let Some(series) = &event.series else { return };
    let path = Path::new("series");
    if series.count < SERIES_COUNT_MIN {
        faults.invalid(&path.child("count"), "", format!("should be at least {SERIES_COUNT_MIN}"));
    }
    if series.last_observed_time.0 == jiff::Timestamp::default() {
        faults.required(&path.child("lastObservedTime"), "");
    }
}

fn same<T: Serialize + PartialEq>(field: &str, new: &T, old: &T, faults: &mut Faults) {
    if new != old {
        faults.invalid(&Path::new(field), json!(new), IMMUTABLE);
    }
}

/// The common fields of both forms of an event.
struct Common<'a> {
    metadata: &'a ObjectMeta,
    object: Option<&'a ObjectReference>,
    has_event_time: bool,
    /// The name of the field with the reporting controller.
    controller_field: &'static str,
    controller: &'a str,
    instance: &'a str,
    action: &'a str,
    reason: &'a str,
    message: &'a str,
}

impl<'a> From<&'a CoreEvent> for Common<'a> {
    fn from(event: &'a CoreEvent) -> Self {
        Self {
            metadata: &event.metadata,
            object: Some(&event.involved_object),
            has_event_time: event.event_time.is_some(),
            controller_field: "reportingComponent",
            controller: text(&event.reporting_component),
            instance: text(&event.reporting_instance),
            action: text(&event.action),
            reason: text(&event.reason),
            message: text(&event.message),
        }
    }
}

impl<'a> From<&'a Event> for Common<'a> {
    fn from(event: &'a Event) -> Self {
        Self {
            metadata: &event.metadata,
            object: event.regarding.as_ref(),
            has_event_time: event.event_time.is_some(),
            controller_field: "reportingController",
            controller: text(&event.reporting_controller),
            instance: text(&event.reporting_instance),
            action: text(&event.action),
            reason: text(&event.reason),
            message: text(&event.note),
        }
    }
}

impl Common<'_> {
    /// An event with `eventTime` is of the newer form: it may be in another namespace than its object, and requires
    /// more fields.
    fn validate(&self, faults: &mut Faults) {
        let (own, of_object) = (text(&self.metadata.namespace), self.object.map_or("", |object| text(&object.namespace)));
        let fits = match (self.has_event_time, of_object) {
            (false, "") => matches!(own, "" | "default"),
            (false, of_object) => own == of_object,
            (true, "") => matches!(own, "default" | "kube-system"),
            (true, _) => true,
        };
        if !fits {
            faults.invalid(&Path::new("involvedObject").child("namespace"), of_object, "does not match event.namespace");
        }
        if self.has_event_time {
            self.validate_texts(faults);
        }
    }

    fn validate_texts(&self, faults: &mut Faults) {
        let controller = Path::new(self.controller_field);
        faults.set(&controller, self.controller);
        faults.form(&controller, self.controller, check_qualified_name);
        for (field, value) in [("reportingInstance", self.instance), ("action", self.action), ("reason", self.reason)] {
            faults.set(&Path::new(field), value);
            at_most(field, value, TEXT_BYTES_MAX, faults);
        }
        at_most("message", self.message, NOTE_BYTES_MAX, faults);
    }
}

fn at_most(field: &str, value: &str, bytes_max: usize, faults: &mut Faults) {
    if value.len() > bytes_max {
        faults.invalid(&Path::new(field), "", format!("can have at most {bytes_max} characters"));
    }
}
