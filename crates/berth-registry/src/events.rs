//! Events: one store, two groups. `v1` is the form kept; `events.k8s.io/v1` shows the same events under other field names.

use crate::{ApiError, Registry, Resource, key, resource};
use berth_api::k8s_openapi::api::core::v1::Event;
use berth_store::{RangeRequest, env::Timestamp};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};

/// How long an event is kept after it last happened.
const TTL_SECONDS: i64 = 3600;
/// How many events are looked at in one go.
const PAGE: usize = 500;

/// Fields of `v1`, each with its name in `events.k8s.io/v1`. All others have one name.
const NAMES: &[(&str, &str)] = &[
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("involvedObject", "regarding"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
];

/// Whether `resource` shows events under the names of `events.k8s.io/v1`.
pub(crate) fn is_view(resource: &Resource) -> bool {
    resource.group == "events.k8s.io"
}

/// The form kept, of an event of `events.k8s.io/v1`.
pub(crate) fn to_core(event: Value) -> Bytes {
    renamed(event, "v1", |name| NAMES.iter().find(|(_, other)| *other == name).map(|(core, _)| *core))
}

/// The form of `events.k8s.io/v1`; `None` for bytes that are no event.
pub(crate) fn from_core(bytes: &[u8]) -> Option<Bytes> {
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
    // Members come out sorted, so `apiVersion` is first but `kind` is not: encoders want it second.
    let members: Map<String, Value> = members.into_iter().map(rename).collect();
    let mut out = format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"Event\"").into_bytes();
    for (member, value) in members.iter().filter(|(member, _)| !matches!(member.as_str(), "apiVersion" | "kind")) {
        out.extend_from_slice(format!(",{}:{value}", Value::from(member.as_str())).as_bytes());
    }
    out.push(b'}');
    out.into()
}

/// When an event happened, as far as it says.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Times {
    metadata: Created,
    event_time: Option<Timestamp>,
    last_timestamp: Option<Timestamp>,
    series: Option<Series>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Created {
    creation_timestamp: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Series {
    last_observed_time: Option<Timestamp>,
}

impl Times {
    fn newest(&self) -> Option<Timestamp> {
        let series = self.series.as_ref().and_then(|series| series.last_observed_time);
        [self.metadata.creation_timestamp, self.event_time, self.last_timestamp, series].into_iter().flatten().max()
    }
}

impl Registry {
    /// Deletes the events that last happened more than an hour ago. To be called about once a minute; cost: reads every event.
    ///
    /// # Errors
    /// The store's. An event that changes meanwhile is left for the next time.
    pub async fn expire_events(&self) -> Result<usize, ApiError> {
        let events = resource::of::<Event>();
        let oldest = self.clock.now().as_second() - TTL_SECONDS;
        let mut request =
            RangeRequest { prefix: key::resource_prefix(events), start_after: None, at: None, limit: Some(PAGE), behind: None };
        let mut expired = 0;
        loop {
            let page = self.store.range(request.clone()).await?;
            for entry in &page.entries {
                let times: Times = serde_json::from_slice(&entry.value).unwrap_or_default();
                if times.newest().is_some_and(|at| at.as_second() < oldest) {
                    let gone = self.store.delete(entry.key.clone(), entry.mod_revision).await;
                    expired += usize::from(gone.is_ok());
                }
            }
            let Some(last) = page.entries.last().filter(|_| 0 < page.remaining) else { return Ok(expired) };
            request.start_after = Some(last.key.clone());
        }
    }
}
