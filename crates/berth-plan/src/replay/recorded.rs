//! A recording, as a replay needs it: what there was, what somebody changed, how long pods took, and what it came to.

use crate::{
    demand::Demand,
    difference::{difference, written},
    replay::{
        column::{Column, Facts, Missed},
        ledger::Ledger,
        pod_times::{Lives, Watched},
    },
    snapshot::{Controllers, entries},
};
use berth_api::annotations::REVISION;
use berth_store::env::Timestamp;
use berth_trace::{Header, Item, KINDS, ObjectId, Reader, TraceError};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read,
    time::Duration,
};

/// How many changes are made again.
const CHANGES_MAX: usize = 500_000;
/// How many bytes those changes may have together, as JSON, which they are kept as.
const CHANGE_BYTES_MAX: usize = 256 << 20;
/// How many gaps are told of.
const GAPS_MAX: usize = 1000;

/// Why a recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// It is of no use.
    #[error("line {line}: {why}")]
    Unfit {
        /// Counted from 1.
        line: u64,
        /// What is the matter.
        why: String,
    },
}

/// A recording.
pub struct Recorded {
    /// What it is of.
    pub facts: Facts,
    pub(crate) controllers: Controllers,
    pub(crate) begins: Timestamp,
    pub(crate) initial: Vec<Value>,
    pub(crate) inputs: Vec<(Duration, Input)>,
    pub(crate) nodes: BTreeSet<String>,
    pub(crate) lives: Lives,
    pub(crate) column: Column,
}

/// What somebody other than the controllers did.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Input {
    /// An object as JSON: it takes a tenth of the memory that its values take.
    Put(Box<str>),
    Gone(ObjectId),
}

struct Reading {
    objects: BTreeMap<ObjectId, Value>,
    watched: Watched,
    ledger: Ledger,
    inputs: Vec<(Duration, Input)>,
    nodes: BTreeSet<String>,
    gaps: Vec<Missed>,
    wanted: BTreeMap<ObjectId, Demand>,
    wants: Demand,
    input_bytes: usize,
}

impl Recorded {
    /// Reads it to its end, or to where it breaks off.
    ///
    /// # Errors
    /// What is in it cannot be, or cannot be replayed.
    pub fn read<R: Read>(mut reader: Reader<R>) -> Result<Self, ReplayError> {
        let header = reader.header().clone();
        let controllers = if header.controllers == "berth" { Controllers::Berth } else { Controllers::Kubernetes };
        let mut reading = Reading {
            objects: BTreeMap::new(),
            watched: Watched::default(),
            ledger: Ledger::new(controllers.gates()),
            inputs: Vec::new(),
            nodes: BTreeSet::new(),
            gaps: Vec::new(),
            wanted: BTreeMap::new(),
            wants: Demand::default(),
            input_bytes: 0,
        };
        let mut begun: Option<(Duration, Vec<Value>)> = None;
        let (mut lines, mut last) = (1, Duration::ZERO);
        for moment in reader.by_ref() {
            let moment = moment?;
            (lines, last) = (moment.line, moment.at);
            let now = time_of(&header, moment.at, moment.line)?;
            let since_begun = begun.as_ref().map(|(at, _)| moment.at.saturating_sub(*at));
            match moment.item {
                Item::Put(object) => reading.put(object, since_begun, now, moment.line)?,
                Item::Gone(gone) => reading.gone(gone, since_begun, now),
                Item::Gap { plural, lasted } if reading.gaps.len() < GAPS_MAX => {
                    reading.gaps.push(Missed { plural, until: since_begun.unwrap_or_default(), lasted });
                }
                Item::Listed if begun.is_none() => {
                    reading.ledger.begin(now);
                    begun = Some((moment.at, reading.initial()));
                    // From now on only what others change is compared with what was there.
                    reading.objects.retain(|_, object| is_input(object));
                }
                Item::Gap { .. } | Item::Listed | Item::Ended(_) => (),
            }
        }
        let Some((began, initial)) = begun else {
            let torn = reader.torn().map(|torn| format!(" ({torn})")).unwrap_or_default();
            return Err(ReplayError::Unfit { line: lines, why: format!("it ends before it contains all objects of the start{torn}") });
        };
        let begins = time_of(&header, began, lines)?;
        reading.ledger.close(time_of(&header, last, lines)?);
        let lives = reading.watched.end();
        let (starts, stops) = lives.known();
        let torn = reader.torn().map(str::to_owned);
        let torn = torn.or_else(|| (!reader.has_end()).then(|| format!("the file ends after line {lines} without an end mark")));
        let facts = Facts {
            at: begins,
            lasts: last.saturating_sub(began),
            controllers: controllers.name(),
            because: header.because,
            hashed: header.is_hashed,
            lines,
            changes: reading.inputs.len(),
            starts,
            stops,
            gaps: reading.gaps,
            missing: header.missing,
            torn,
        };
        let column = reading.ledger.column("recorded".to_owned(), Vec::new());
        Ok(Self { facts, controllers, begins, initial, inputs: reading.inputs, nodes: reading.nodes, lives, column })
    }
}

impl Reading {
    fn put(&mut self, object: Value, since: Option<Duration>, now: Timestamp, line: u64) -> Result<(), ReplayError> {
        let Some(id) = ObjectId::of(&object) else { return Ok(()) };
        let Some(kind) = KINDS.iter().find(|kind| kind.kind == id.kind) else { return Ok(()) };
        self.want(&id, &object, line)?;
        match kind.kind {
            "Pod" => self.watched.pod(&object, since.is_none(), now),
            "ReplicaSet" | "ControllerRevision" => self.watched.template(kind.kind, &object),
            "Node" => drop(self.nodes.insert(id.name.clone())),
            _ => (),
        }
        let text = object.to_string();
        self.ledger.put(kind.plural, text.as_bytes(), now);
        let object = if kind.kind == "Pod" { object } else { unowned(object) };
        if let Some(since) = since {
            let is_change = is_input(&object) && self.objects.get(&id).is_none_or(|known| differ(known, &object));
            if is_change {
                if self.inputs.len() == CHANGES_MAX {
                    return Err(ReplayError::Unfit { line, why: format!("it has more than {CHANGES_MAX} changes") });
                }
                let input = unowned(object.clone()).to_string().into_boxed_str();
                self.input_bytes += input.len();
                if CHANGE_BYTES_MAX < self.input_bytes {
                    return Err(ReplayError::Unfit { line, why: format!("its changes have more than {CHANGE_BYTES_MAX} bytes together") });
                }
                self.inputs.push((since, Input::Put(input)));
            }
            if is_input(&object) {
                self.objects.insert(id, object);
            }
        } else {
            self.objects.insert(id, object);
        }
        Ok(())
    }

    fn gone(&mut self, gone: ObjectId, since: Option<Duration>, now: Timestamp) {
        if let Some(kind) = KINDS.iter().find(|kind| kind.kind == gone.kind) {
            self.ledger.remove(kind.plural, &gone.namespace, &gone.name, now);
        }
        if gone.kind == "Pod" {
            self.watched.gone(&gone.namespace, &gone.name, now);
        }
        self.wants.subtract(self.wanted.remove(&gone).unwrap_or_default());
        let was_input = self.objects.remove(&gone).is_some_and(|object| is_input(&object));
        if let Some(since) = since.filter(|_| was_input && self.inputs.len() < CHANGES_MAX) {
            self.inputs.push((since, Input::Gone(gone)));
        }
    }

    fn want(&mut self, id: &ObjectId, object: &Value, line: u64) -> Result<(), ReplayError> {
        if !["Deployment", "StatefulSet", "ReplicaSet"].contains(&id.kind) {
            return Ok(());
        }
        let wants = Demand::of(object);
        self.wants.subtract(self.wanted.insert(id.clone(), wants).unwrap_or_default());
        self.wants.add(wants);
        self.wants.check().map(drop).map_err(|error| ReplayError::Unfit { line, why: format!("put.spec.replicas: {error}") })
    }

    /// All that there is now, owners before what they own.
    fn initial(&self) -> Vec<Value> {
        let of = |kind: &str| -> Vec<Value> {
            self.objects.iter().filter(|(id, _)| id.kind == kind).map(|(_, object)| object.clone()).collect()
        };
        KINDS.iter().flat_map(|kind| of(kind.kind)).map(|object| self.stored(object)).collect()
    }

    /// As a store can have it.
    fn stored(&self, object: Value) -> Value {
        let mut object = if object["kind"] == "Pod" { self.placed(object) } else { object };
        // A recording has no RuntimeClass, without which admission rejects a pod with an overhead.
        for template in ["/spec/template/spec", "/data/spec/template/spec"] {
            object.pointer_mut(template).and_then(Value::as_object_mut).map(|spec| spec.remove("overhead"));
        }
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        // What nobody here owns, nobody shall sweep up.
        if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
            owners.retain(|owner| {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let kind = KINDS.iter().find(|kind| owner["kind"] == kind.kind);
                let id = kind.map(|kind| ObjectId { kind: kind.kind, namespace: namespace.clone(), name: text(&owner["name"]) });
                id.and_then(|id| self.objects.get(&id)).is_some_and(|own| own["metadata"]["uid"] == owner["uid"])
            });
        }
        object
    }

    /// A pod, with its template in the place of the images that it is recorded without.
    fn placed(&self, pod: Value) -> Value {
        let namespace = pod["metadata"]["namespace"].clone();
        let owner = entries(&pod["metadata"]["ownerReferences"]).find(|owner| owner["controller"] == true).cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let of = match owner["kind"].as_str() {
            Some("ReplicaSet") => ("ReplicaSet", text(&owner["name"]), "/spec/template"),
            _ => ("ControllerRevision", text(&pod["metadata"]["labels"]["controller-revision-hash"]), "/data/spec/template"),
        };
        let template =
            self.objects.get(&ObjectId { kind: of.0, namespace: text(&namespace), name: of.1 }).and_then(|object| object.pointer(of.2));
        let image = template.and_then(|template| template["spec"]["containers"][0]["image"].as_str()).map(str::to_owned);
        imaged(pod, image.as_deref())
    }
}

/// A pod with images: a recording keeps none.
pub(crate) fn imaged(mut pod: Value, image: Option<&str>) -> Value {
    for list in ["containers", "initContainers"] {
        for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            container["image"] = json!(image.unwrap_or("recorded"));
        }
    }
    pod
}

/// Without owners other than the workloads that controllers make things for.
fn unowned(mut object: Value) -> Value {
    let kept = match object["kind"].as_str() {
        Some("ReplicaSet") => "Deployment",
        Some("ControllerRevision") => "StatefulSet",
        Some("Pod") if !is_input(&object) => return object,
        _ => "",
    };
    if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
        owners.retain(|owner| owner["kind"] == kept);
    }
    object
}

/// When something was recorded.
fn time_of(header: &Header, after: Duration, line: u64) -> Result<Timestamp, ReplayError> {
    header.at.checked_add(after).map_err(|_| ReplayError::Unfit { line, why: format!("{} and {after:?} is no time", header.at) })
}

/// Whether it is changed by others than the controllers that run in a replay.
fn is_input(object: &Value) -> bool {
    let is_owned_by = |kinds: &[&str]| {
        entries(&object["metadata"]["ownerReferences"])
            .any(|owner| owner["controller"] == true && kinds.iter().any(|kind| owner["kind"] == *kind))
    };
    match object["kind"].as_str() {
        Some("Pod") => !is_owned_by(&["ReplicaSet", "StatefulSet"]) && object["spec"]["nodeName"].is_string(),
        Some("ReplicaSet") => !is_owned_by(&["Deployment"]),
        Some("ControllerRevision") => false,
        _ => true,
    }
}

/// Whether somebody has changed what is wanted, or what nodes say.
fn differ(known: &Value, object: &Value) -> bool {
    match object["kind"].as_str() {
        Some("Pod") => false,
        Some("Node") => known != object,
        _ => difference(&wanted(known), &wanted(object)).is_some(),
    }
}

/// What somebody wants of it, without what controllers write there.
pub(crate) fn wanted(object: &Value) -> Value {
    let mut object = written(object);
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("ownerReferences");
        metadata.remove("deletionTimestamp");
        metadata.remove("deletionGracePeriodSeconds");
    }
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.remove(REVISION);
    }
    object
}
