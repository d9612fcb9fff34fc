//! What is read of an event.

use super::wire;
use berth_api::decode::from_json;
use berth_identity::{Revision, Uid};
use jiff::Timestamp;
use serde::Deserialize;

/// What is read of an event (`v1`): its object, its reason and its message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventView {
    /// The uid of the object that it is about.
    pub about_uid: Uid,
    /// CamelCase.
    pub reason: String,
    /// The message for users.
    pub message: String,
    /// When it was last seen.
    pub last: Option<Timestamp>,
    /// The name of the PersistentVolumeClaim that it is about.
    pub claim: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventWire {
    metadata: wire::Metadata,
    involved_object: Option<About>,
    reason: Option<String>,
    message: Option<String>,
    series: Option<Series>,
    last_timestamp: Option<Timestamp>,
    event_time: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
struct About {
    #[serde(default)]
    uid: Uid,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Series {
    last_observed_time: Option<Timestamp>,
}

impl EventView {
    /// Reads an event's JSON.
    ///
    /// # Errors
    /// The text is not valid JSON, or a field has another type than an event's.
    pub fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        let wire: EventWire = from_json(json)?;
        let about = wire.involved_object.unwrap_or_default();
        let observed = wire.series.and_then(|series| series.last_observed_time);
        Ok(Self {
            last: observed.or(wire.last_timestamp).or(wire.event_time).or(wire.metadata.into_meta(Revision::default()).created),
            claim: (about.kind == "PersistentVolumeClaim").then_some(about.name),
            about_uid: about.uid,
            reason: wire.reason.unwrap_or_default(),
            message: wire.message.unwrap_or_default(),
        })
    }
}
