//! The views of events, nodes and quotas: the fields that are read.

use berth_api::decode::from_json;
use berth_controllers::cache::Index;
use berth_identity::{ObjectKey, Revision, Uid};
use berth_workloads::view::{DaemonNodeView, EventView, Identity, View, WireMetadata};
use jiff::Timestamp;
use serde::Deserialize;
use std::{collections::BTreeMap, sync::Arc};

/// The maximum length of an event's message.
const TEXT_BYTES_MAX: usize = 1000;

/// The identity of an object.
#[derive(Clone, Debug, Default)]
struct Origin {
    metadata: WireMetadata,
    uid: Uid,
    name: berth_identity::Name,
}

impl Origin {
    fn of(metadata: WireMetadata) -> Self {
        Self { uid: metadata.uid.clone().unwrap_or_default(), name: metadata.name.clone().unwrap_or_default(), metadata }
    }

    fn identity(&self) -> Identity<'_> {
        let is_being_deleted = self.metadata.deletion_timestamp.is_some();
        Identity { namespace: self.metadata.namespace.as_ref(), name: &self.name, uid: &self.uid, is_being_deleted }
    }
}

/// The view of an event.
#[derive(Clone, Debug)]
pub struct NoteView {
    origin: Origin,
    /// The event as explanations read it.
    pub event: Arc<EventView>,
    /// `Pod web-1`.
    pub about: String,
    /// Whether it is a warning.
    pub is_warning: bool,
    /// The number of occurrences.
    pub count: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventWire {
    #[serde(default)]
    metadata: WireMetadata,
    involved_object: Option<AboutWire>,
    #[serde(rename = "type")]
    type_: Option<String>,
    count: Option<i64>,
    series: Option<SeriesWire>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AboutWire {
    kind: String,
    name: String,
}

#[derive(Deserialize)]
struct SeriesWire {
    count: Option<i64>,
}

impl View for NoteView {
    fn decode(json: &[u8], _revision: Revision) -> Result<Self, serde_json::Error> {
        let wire: EventWire = from_json(json)?;
        let mut event = EventView::decode(json)?;
        [&mut event.reason, &mut event.message].into_iter().for_each(cut);
        let AboutWire { kind, name } = wire.involved_object.unwrap_or_default();
        let mut about = format!("{kind} {name}");
        cut(&mut about);
        Ok(Self {
            origin: Origin::of(wire.metadata),
            event: Arc::new(event),
            about,
            is_warning: wire.type_.as_deref() == Some("Warning"),
            count: wire.series.and_then(|series| series.count).or(wire.count).unwrap_or(1).max(1),
        })
    }

    fn identity(&self) -> Identity<'_> {
        self.origin.identity()
    }
}

fn cut(text: &mut String) {
    let end = (0..=TEXT_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.truncate(end);
}

/// Events by the uid of the object that they are about.
#[derive(Default)]
pub struct Notes(BTreeMap<Uid, BTreeMap<ObjectKey, Arc<NoteView>>>);

impl Notes {
    /// Returns the events about the object with this uid.
    pub fn about(&self, uid: &str) -> impl Iterator<Item = &Arc<NoteView>> {
        self.0.get(uid).into_iter().flat_map(BTreeMap::values)
    }
}

impl Index<NoteView> for Notes {
    fn change(&mut self, old: Option<&Arc<NoteView>>, new: Option<&Arc<NoteView>>) {
        if let Some(old) = old {
            let about = self.0.get_mut(&old.event.about_uid);
            if about.is_some_and(|notes| notes.remove(&old.key()).is_some() && notes.is_empty()) {
                self.0.remove(&old.event.about_uid);
            }
        }
        if let Some(new) = new {
            self.0.entry(new.event.about_uid.clone()).or_default().insert(new.key(), Arc::clone(new));
        }
    }
}

/// The view of a node.
#[derive(Clone, Debug)]
pub struct NodeView {
    origin: Origin,
    /// Whether the node is ready.
    pub is_ready: bool,
    /// Why it is not ready.
    pub why: String,
    /// Whether it is cordoned.
    pub is_cordoned: bool,
    /// Its zone, empty if the node has no zone label.
    pub zone: String,
    /// Its maximum number of pods.
    pub pods_max: String,
    /// What decides which DaemonSets have a pod on it.
    pub daemon: Arc<DaemonNodeView>,
}

#[derive(Deserialize)]
struct NodeWire {
    #[serde(default)]
    metadata: WireMetadata,
    spec: Option<NodeSpecWire>,
    status: Option<NodeStatusWire>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeSpecWire {
    unschedulable: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeStatusWire {
    conditions: Option<Vec<ConditionWire>>,
    allocatable: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ConditionWire {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: Option<String>,
    message: Option<String>,
}

impl View for NodeView {
    fn decode(json: &[u8], revision: Revision) -> Result<Self, serde_json::Error> {
        let wire: NodeWire = from_json(json)?;
        let (spec, status) = (wire.spec.unwrap_or_default(), wire.status.unwrap_or_default());
        let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
        let is_ready = ready.is_some_and(|condition| condition.status == "True");
        let said = ready.filter(|_| !is_ready).map(|condition| [condition.reason.as_deref(), condition.message.as_deref()]);
        let mut why = said.into_iter().flatten().flatten().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ");
        cut(&mut why);
        let zone = wire.metadata.labels.as_ref().and_then(|labels| labels.get("topology.kubernetes.io/zone"));
        Ok(Self {
            is_ready,
            why,
            is_cordoned: spec.unschedulable == Some(true),
            zone: zone.unwrap_or_default().to_owned(),
            pods_max: status.allocatable.and_then(|allocatable| allocatable.get("pods").cloned()).unwrap_or_default(),
            origin: Origin::of(wire.metadata),
            daemon: Arc::new(DaemonNodeView::decode(json, revision)?),
        })
    }

    fn identity(&self) -> Identity<'_> {
        self.origin.identity()
    }
}

impl NodeView {
    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.origin.name
    }

    /// Returns its creation time.
    #[must_use]
    pub fn created(&self) -> Option<Timestamp> {
        self.origin.metadata.creation_timestamp.as_ref().map(|time| time.0)
    }
}

/// The view of a quota.
#[derive(Clone, Debug)]
pub struct QuotaView {
    origin: Origin,
    /// Used and hard quantities by resource.
    pub figures: BTreeMap<String, (String, String)>,
}

#[derive(Deserialize)]
struct QuotaWire {
    #[serde(default)]
    metadata: WireMetadata,
    status: Option<QuotaStatusWire>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct QuotaStatusWire {
    hard: Option<BTreeMap<String, String>>,
    used: Option<BTreeMap<String, String>>,
}

impl View for QuotaView {
    fn decode(json: &[u8], _revision: Revision) -> Result<Self, serde_json::Error> {
        let wire: QuotaWire = from_json(json)?;
        let QuotaStatusWire { hard, used } = wire.status.unwrap_or_default();
        let used = used.unwrap_or_default();
        let figure = |(resource, hard): (String, String)| {
            let used = used.get(&resource).cloned().unwrap_or_else(|| "?".to_owned());
            (resource, (used, hard))
        };
        Ok(Self { origin: Origin::of(wire.metadata), figures: hard.unwrap_or_default().into_iter().map(figure).collect() })
    }

    fn identity(&self) -> Identity<'_> {
        self.origin.identity()
    }
}

impl QuotaView {
    /// Returns its namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.origin.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.origin.name
    }
}
