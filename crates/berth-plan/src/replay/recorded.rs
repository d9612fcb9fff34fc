//! A recording as a replay needs it: the initial objects, the changes by users and nodes, the times of pods, and the result.

use crate::{
    demand::Demand,
    difference::{difference, written},
    load::Load,
    replay::{
        column::{Column, Facts, Missed},
        ledger::Ledger,
        pod_times::{Lives, Watched},
        samples::Sample,
    },
    snapshot::{Controllers, entries},
};
use berth_api::annotations::REVISION;
use berth_store::env::Timestamp;
use berth_trace::{Header, Item, KINDS, ObjectId, Reader, TraceError, Usage};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read,
    time::Duration,
};

/// How many changes are repeated.
const CHANGES_MAX: usize = 500_000;
/// The maximum size of those changes, as stored in JSON.
const CHANGE_BYTES_MAX: usize = 256 << 20;
/// How many samples of usage are kept: those of 100 workloads for a week.
const SAMPLES_MAX: usize = 4_100_000;
/// How many gaps are reported.
const GAPS_MAX: usize = 1000;

/// Why a recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// It is not usable.
    #[error("line {line}: {why}")]
    Unfit {
        /// The line, counted from 1.
        line: u64,
        /// The problem.
        why: String,
    },
}

/// A recording.
pub struct Recorded {
    /// Facts about it.
    pub facts: Facts,
    pub(crate) controllers: Controllers,
    pub(crate) begins: Timestamp,
    /// The only recorded namespace, if there is only one.
    pub(crate) namespace: Option<String>,
    pub(crate) initial: Vec<Value>,
    pub(crate) inputs: Vec<(Duration, Input)>,
    pub(crate) nodes: BTreeSet<String>,
    pub(crate) lives: Lives,
    /// The usage of workloads, in order of time.
    pub(crate) usage: BTreeMap<ObjectId, Vec<Sample>>,
    /// The names of the recorded autoscalers by target.
    pub(crate) autoscalers: BTreeMap<ObjectId, String>,
    pub(crate) column: Column,
}

/// A change by any client other than the controllers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Input {
    /// An object as JSON, which takes a tenth of the memory of its values.
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
    usage: BTreeMap<ObjectId, Vec<Sample>>,
    samples: usize,
    autoscalers: BTreeMap<ObjectId, String>,
}

impl Recorded {
    /// Reads the recording to its end, or to where it is truncated.
    ///
    /// # Errors
    /// The content is invalid or cannot be replayed.
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
            usage: BTreeMap::new(),
            samples: 0,
            autoscalers: BTreeMap::new(),
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
                    // From now on, only objects that other clients change are compared with their former state.
                    reading.objects.retain(|_, object| is_input(object));
                }
                Item::Usage(usage) => reading.measure(usage, since_begun, now, moment.line)?,
                Item::Gap { .. } | Item::Listed | Item::Ended(_) => (),
            }
        }
        let Some((began, initial)) = begun else {
            let torn = reader.torn().map(|torn| format!(" ({torn})")).unwrap_or_default();
            return Err(ReplayError::Unfit { line: lines, why: format!("it ends before it contains all objects of the start{torn}") });
        };
        let begins = time_of(&header, began, lines)?;
        reading.ledger.close(time_of(&header, last, lines)?);
        let Reading { ledger, watched, inputs, nodes, gaps, usage, samples, autoscalers, .. } = reading;
        let lives = watched.end();
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
            changes: inputs.len(),
            starts,
            stops,
            usage_samples: samples,
            gaps,
            missing: header.missing,
            torn,
        };
        let column = ledger.column("recorded".to_owned(), Vec::new());
        Ok(Self { facts, controllers, begins, namespace: header.namespace, initial, inputs, nodes, lives, usage, autoscalers, column })
    }
}

impl Reading {
    fn put(&mut self, object: Value, since: Option<Duration>, now: Timestamp, line: u64) -> Result<(), ReplayError> {
        let Some(id) = ObjectId::of(&object) else { return Ok(()) };
        let Some(kind) = KINDS.iter().find(|kind| kind.kind == id.kind) else { return Ok(()) };
        if kind.kind == "HorizontalPodAutoscaler" {
            self.put_autoscaler(id, &object);
            return Ok(());
        }
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

    /// Records the target of an autoscaler. The changes that it made are those of its target, so it does not run in a replay.
    fn put_autoscaler(&mut self, id: ObjectId, object: &Value) {
        let reference = &object["spec"]["scaleTargetRef"];
        let kind = KINDS.iter().find(|kind| reference["kind"] == kind.kind);
        if let (Some(kind), Some(name)) = (kind, reference["name"].as_str()) {
            let target = ObjectId { kind: kind.kind, namespace: id.namespace, name: name.to_owned() };
            self.autoscalers.insert(target, id.name);
        }
    }

    /// Records the usage of a workload, beside its pods at that moment.
    fn measure(&mut self, usage: Usage, since: Option<Duration>, now: Timestamp, line: u64) -> Result<(), ReplayError> {
        let Some(at) = since else { return Ok(()) };
        if self.samples == SAMPLES_MAX {
            return Err(ReplayError::Unfit { line, why: format!("it has more than {SAMPLES_MAX} samples of usage") });
        }
        self.samples += 1;
        self.ledger.ripen(now);
        let load = Load { cpu_millis: usage.cpu_millis, memory_bytes: usage.memory_bytes };
        let pods = self.ledger.ready_pods(&usage.workload);
        self.usage.entry(usage.workload).or_default().push(Sample { at, load, pods });
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
        // A replay has no DaemonSets.
        let wants = Demand::of(object, 0);
        self.wants.subtract(self.wanted.insert(id.clone(), wants).unwrap_or_default());
        self.wants.add(wants);
        self.wants.check().map(drop).map_err(|error| ReplayError::Unfit { line, why: format!("put.spec.replicas: {error}") })
    }

    /// All present objects, owners before the objects that they own.
    fn initial(&self) -> Vec<Value> {
        let of = |kind: &str| -> Vec<Value> {
            self.objects.iter().filter(|(id, _)| id.kind == kind).map(|(_, object)| object.clone()).collect()
        };
        KINDS.iter().flat_map(|kind| of(kind.kind)).map(|object| self.stored(object)).collect()
    }

    /// The object in a form that a store accepts.
    fn stored(&self, object: Value) -> Value {
        let mut object = if object["kind"] == "Pod" { self.placed(object) } else { object };
        // A recording has no RuntimeClass, without which admission rejects a pod with an overhead.
        for template in ["/spec/template/spec", "/data/spec/template/spec"] {
            object.pointer_mut(template).and_then(Value::as_object_mut).map(|spec| spec.remove("overhead"));
        }
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        // The garbage collector must not delete objects whose owners are not in the recording.
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

    /// A pod with its template's identity as image, because recordings contain no images.
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

/// A pod with images: a recording contains none.
pub(crate) fn imaged(mut pod: Value, image: Option<&str>) -> Value {
    for list in ["containers", "initContainers"] {
        for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            container["image"] = json!(image.unwrap_or("recorded"));
        }
    }
    pod
}

/// Removes owners other than the workloads whose controllers create such objects.
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

/// The time of a recorded line.
fn time_of(header: &Header, after: Duration, line: u64) -> Result<Timestamp, ReplayError> {
    header.at.checked_add(after).map_err(|_| ReplayError::Unfit { line, why: format!("{} and {after:?} is no time", header.at) })
}

/// Whether clients other than the controllers of a replay change the object.
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

/// Whether a user has changed the desired state, or a node its report.
fn differ(known: &Value, object: &Value) -> bool {
    match object["kind"].as_str() {
        Some("Pod") => false,
        Some("Node") => known != object,
        _ => difference(&wanted(known), &wanted(object)).is_some(),
    }
}

/// The desired state of an object, without the fields that controllers write.
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
