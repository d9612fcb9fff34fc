//! Event: one key prefix, two groups. `v1` is the stored form. `events.k8s.io/v1` presents the same events with other
//! field names.

use super::text::{name, or, text, wide};
use crate::{
    age,
    resource::{Column, FormError, Printed, Resource, StoredForm},
};
use berth_api::{
    Object,
    k8s_openapi::{
        api::{
            core::v1::{Event as CoreEvent, EventSource, ObjectReference},
            events::v1::Event,
        },
        apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time},
    },
};
use berth_kinds::encode;
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

/// The lifetime of an event after its last write. A repeated event is written again.
const TIME_TO_LIVE: SignedDuration = SignedDuration::from_hours(1);

/// The table entry of `v1` events.
pub(super) fn core_resource() -> Resource {
    Resource::namespaced::<CoreEvent>()
        .short(&["ev"])
        .fields(CORE_FIELDS)
        .put_creates()
        .expires_after(TIME_TO_LIVE)
        .rarely_read()
        .always_has(
            json!({"eventTime": null, "firstTimestamp": null, "lastTimestamp": null, "reportingComponent": "", "reportingInstance": "",
            "source": {}, "involvedObject": {}}),
        )
}

/// The table entry of `events.k8s.io/v1` events.
pub(super) fn resource() -> Resource {
    Resource::namespaced::<Event>()
        .short(&["ev"])
        .fields(FIELDS)
        .put_creates()
        .expires_after(TIME_TO_LIVE)
        .rarely_read()
        .always_has(json!({"eventTime": null, "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null, "deprecatedSource": {},
            "regarding": {}}))
        .stored_as(AsCore)
}

const CORE_FIELDS: &[(&str, &str)] = &[
    ("involvedObject.apiVersion", "/involvedObject/apiVersion"),
    ("involvedObject.fieldPath", "/involvedObject/fieldPath"),
    ("involvedObject.kind", "/involvedObject/kind"),
    ("involvedObject.name", "/involvedObject/name"),
    ("involvedObject.namespace", "/involvedObject/namespace"),
    ("involvedObject.resourceVersion", "/involvedObject/resourceVersion"),
    ("involvedObject.uid", "/involvedObject/uid"),
    ("reason", "/reason"),
    ("reportingComponent", "/reportingComponent"),
    ("source", "/source/component"),
    ("type", "/type"),
];
const FIELDS: &[(&str, &str)] = &[
    ("reason", "/reason"),
    ("regarding.apiVersion", "/regarding/apiVersion"),
    ("regarding.fieldPath", "/regarding/fieldPath"),
    ("regarding.kind", "/regarding/kind"),
    ("regarding.name", "/regarding/name"),
    ("regarding.namespace", "/regarding/namespace"),
    ("regarding.resourceVersion", "/regarding/resourceVersion"),
    ("regarding.uid", "/regarding/uid"),
    ("reportingController", "/reportingController"),
    ("type", "/type"),
];

/// The fields of `v1` with another name in `events.k8s.io/v1`.
const NAMES: &[(&str, &str)] = &[
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("involvedObject", "regarding"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
];

/// Events of `events.k8s.io/v1` are stored as those of `v1`.
struct AsCore;

impl StoredForm for AsCore {
    fn api_version(&self) -> &str {
        "v1"
    }

    fn encode(&self, event: &dyn Object) -> Result<Bytes, FormError> {
        Ok(to_core(event.to_value()))
    }

    fn show(&self, stored: &[u8]) -> Result<Option<Bytes>, FormError> {
        from_core(stored).map(Some).ok_or(FormError::NoEvent)
    }
}

/// Returns the stored form of an event of `events.k8s.io/v1`.
fn to_core(event: Value) -> Bytes {
    renamed(event, "v1", |name| NAMES.iter().find(|(_, other)| *other == name).map(|(core, _)| *core))
}

/// Returns the form of `events.k8s.io/v1`, or `None` for bytes that are not an event.
fn from_core(bytes: &[u8]) -> Option<Bytes> {
    let event: Value = serde_json::from_slice(bytes).ok()?;
    event
        .is_object()
        .then(|| renamed(event, "events.k8s.io/v1", |name| NAMES.iter().find(|(core, _)| *core == name).map(|(_, other)| *other)))
}

fn renamed(event: Value, api_version: &str, name: impl Fn(&str) -> Option<&'static str>) -> Bytes {
    let Value::Object(members) = event else { return Bytes::new() };
    let rename = |(member, value): (String, Value)| match name(&member) {
        Some(other) => (other.to_owned(), value),
        None if member == "apiVersion" => (member, api_version.into()),
        None => (member, value),
    };
    encode(&members.into_iter().map(rename).collect::<Map<_, _>>().into()).into()
}

const EVENT_COLUMNS: &[Column] = &[
    text("Last Seen", "How long ago it last happened."),
    text("Type", "Normal or Warning."),
    text("Reason", "What happened, in one word."),
    text("Object", "The object that it happened to."),
    wide("Subobject", "The part of the object that it happened to."),
    wide("Source", "Who reports it."),
    text("Message", "What happened, in a sentence."),
    wide("First Seen", "How long ago it first happened."),
    wide("Count", "How often it happened."),
    Column { format: "name", ..wide("Name", "Name of the event.") },
];

/// The fields that both forms have.
struct EventView<'a> {
    meta: &'a ObjectMeta,
    first: Option<&'a Time>,
    last: Option<&'a Time>,
    at: Option<&'a MicroTime>,
    /// The last time and the count of a series.
    series: Option<(Option<&'a MicroTime>, i32)>,
    count: Option<i32>,
    kind: Option<&'a str>,
    reason: Option<&'a str>,
    object: Option<&'a ObjectReference>,
    source: Option<&'a EventSource>,
    reporter: (Option<&'a str>, Option<&'a str>),
    message: Option<&'a str>,
}

impl EventView<'_> {
    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let micro_age = |time: Option<&MicroTime>| age::since(time.map(|time| Time(time.0)).as_ref(), now);
        let first = self.first.map_or_else(|| micro_age(self.at), |time| age::since(Some(time), now));
        let (last, count) = match (self.series, self.last) {
            (Some((time, count)), _) => (micro_age(time), count),
            (None, Some(time)) => (age::since(Some(time), now), self.singleton_count()),
            (None, None) => (first.clone(), self.singleton_count()),
        };
        vec![
            json!(last),
            json!(self.kind.unwrap_or_default()),
            json!(self.reason.unwrap_or_default()),
            json!(self.object_text()),
            json!(self.object.and_then(|object| object.field_path.as_deref()).unwrap_or_default()),
            json!(self.source_text()),
            json!(self.message.unwrap_or_default().trim()),
            json!(first),
            json!(count),
            json!(name(self.meta)),
        ]
    }

    /// Returns 1 for a new event, which has no count.
    fn singleton_count(&self) -> i32 {
        self.count.filter(|count| *count != 0).unwrap_or(1)
    }

    fn object_text(&self) -> String {
        let kind = self.object.and_then(|object| object.kind.as_deref()).unwrap_or_default().to_lowercase();
        match self.object.and_then(|object| object.name.as_deref()).unwrap_or_default() {
            "" => kind,
            name => format!("{kind}/{name}"),
        }
    }

    fn source_text(&self) -> String {
        let component = or(self.source.and_then(|s| s.component.as_deref()), self.reporter.0.unwrap_or_default());
        match or(self.source.and_then(|s| s.host.as_deref()), self.reporter.1.unwrap_or_default()) {
            "" => component.to_owned(),
            host => format!("{component}, {host}"),
        }
    }
}

impl Printed for CoreEvent {
    const COLUMNS: &'static [Column] = EVENT_COLUMNS;

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let view = EventView {
            meta: &self.metadata,
            first: self.first_timestamp.as_ref(),
            last: self.last_timestamp.as_ref(),
            at: self.event_time.as_ref(),
            series: self.series.as_ref().map(|series| (series.last_observed_time.as_ref(), series.count.unwrap_or_default())),
            count: self.count,
            kind: self.type_.as_deref(),
            reason: self.reason.as_deref(),
            object: Some(&self.involved_object),
            source: self.source.as_ref(),
            reporter: (self.reporting_component.as_deref(), self.reporting_instance.as_deref()),
            message: self.message.as_deref(),
        };
        view.cells(now)
    }
}

impl Printed for Event {
    const COLUMNS: &'static [Column] = EVENT_COLUMNS;

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let view = EventView {
            meta: &self.metadata,
            first: self.deprecated_first_timestamp.as_ref(),
            last: self.deprecated_last_timestamp.as_ref(),
            at: self.event_time.as_ref(),
            series: self.series.as_ref().map(|series| (Some(&series.last_observed_time), series.count)),
            count: self.deprecated_count,
            kind: self.type_.as_deref(),
            reason: self.reason.as_deref(),
            object: self.regarding.as_ref(),
            source: self.deprecated_source.as_ref(),
            reporter: (self.reporting_controller.as_deref(), self.reporting_instance.as_deref()),
            message: self.note.as_deref(),
        };
        view.cells(now)
    }
}
