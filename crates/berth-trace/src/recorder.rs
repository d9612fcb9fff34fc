//! Converts changes of a cluster to lines: only allowed fields, and only if one of them changed.

use crate::{
    allowed::{TracedKind, WORKLOADS},
    line::{Ended, ObjectId, Usage, line},
    names::{KEY_BYTES, Names, Naming},
    selectors::{ALWAYS, take_keys},
    shape::Sieve,
    template::prepared,
    usage::{Measured, MeasuredPods, target},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Converts changes of a cluster to lines.
pub struct Recorder {
    names: Names,
    /// Names in memory are never hashed. Memory contains all labels, because a later selector may name them.
    plain: Names,
    began: Timestamp,
    last: Duration,
    keys: BTreeSet<String>,
    objects: BTreeMap<ObjectId, Kept>,
    /// The objects of each unfinished list, by kind.
    listing: BTreeMap<&'static str, BTreeSet<ObjectId>>,
    lines: Vec<String>,
}

struct Kept {
    uid: String,
    /// The allowed fields, with all labels.
    wide: String,
    /// The object as the file contains it.
    written: String,
}

impl Recorder {
    /// `key` is random and used for this file only. `began` is the time in the header.
    #[must_use]
    pub fn new(naming: Naming, key: &[u8; KEY_BYTES], began: Timestamp) -> Self {
        Self {
            names: Names::new(naming, key),
            plain: Names::new(Naming::Plain, key),
            began,
            last: Duration::ZERO,
            keys: ALWAYS.iter().map(|key| (*key).to_owned()).collect(),
            objects: BTreeMap::new(),
            listing: BTreeMap::new(),
            lines: Vec::new(),
        }
    }

    /// Returns a namespace's name as the file contains it.
    #[must_use]
    pub fn named(&self, name: &str) -> String {
        self.names.name(name)
    }

    /// Returns the lines since the last call.
    pub fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    /// Records an object that the API server returned.
    pub fn put(&mut self, kind: &'static TracedKind, object: &Value, now: Timestamp) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (namespace, name, uid) = (text("/metadata/namespace"), text("/metadata/name"), text("/metadata/uid"));
        let id = ObjectId { kind: kind.kind, namespace, name };
        if let Some(listed) = self.listing.get_mut(kind.kind) {
            listed.insert(id.clone());
        }
        let mut typed = prepared(kind, object, &self.names);
        let Some(members) = typed.as_object_mut() else { return };
        members.insert("apiVersion".to_owned(), json!(kind.api_version));
        members.insert("kind".to_owned(), json!(kind.kind));
        let all = Sieve::Record { names: &self.plain, keys: None };
        let Ok(Some(wide)) = all.keep(&kind.shape, &typed, &mut Vec::new()) else { return };
        let has = |pointer: &str| wide.pointer(pointer).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        if !has("/metadata/name") || !has("/metadata/uid") || has("/metadata/namespace") != kind.is_namespaced {
            return;
        }
        if self.objects.get(&id).is_some_and(|known| known.uid != uid) {
            self.forget(&id, now);
        }
        let new_keys: Vec<String> = kind
            .selects
            .iter()
            .filter_map(|pointer| Some((pointer.rsplit('/').next()?, wide.pointer(pointer)?)))
            .flat_map(|(name, value)| take_keys(name, value, &mut self.keys))
            .collect();
        if !new_keys.is_empty() {
            self.show_labels(&new_keys, now);
        }
        let wide = wide.to_string();
        let known = self.objects.entry(id.clone()).or_insert(Kept { uid, wide: String::new(), written: String::new() });
        if known.wide != wide {
            known.wide = wide;
            self.write(&id, now);
        }
    }

    /// Records the deletion of an object.
    pub fn gone(&mut self, kind: &'static TracedKind, namespace: &str, name: &str, now: Timestamp) {
        self.forget(&ObjectId { kind: kind.kind, namespace: namespace.to_owned(), name: name.to_owned() }, now);
    }

    /// Begins a list of all objects of a kind.
    pub fn list_begins(&mut self, kind: &'static TracedKind) {
        self.listing.insert(kind.kind, BTreeSet::new());
    }

    /// Completes the list. Objects that it does not contain were deleted.
    pub fn list_ends(&mut self, kind: &'static TracedKind, now: Timestamp) {
        let Some(listed) = self.listing.remove(kind.kind) else { return };
        let is_gone = |id: &&ObjectId| id.kind == kind.kind && !listed.contains(*id);
        let gone: Vec<ObjectId> = self.objects.keys().filter(is_gone).cloned().collect();
        gone.iter().for_each(|id| self.forget(id, now));
    }

    /// Records that changes of a kind since `since` were missed or came late.
    pub fn gap(&mut self, kind: &'static TracedKind, since: Timestamp, now: Timestamp) {
        let lasted = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        let lasted = u64::try_from(lasted.as_millis()).unwrap_or(u64::MAX);
        self.push("gap", &json!({"plural": kind.plural, "ms": lasted}), now);
    }

    /// Whether [`Self::usage`] would record the usage of any workload.
    #[must_use]
    pub fn has_measured(&self, of: Measured) -> bool {
        !self.measured(of).is_empty()
    }

    /// Records what the pods of workloads use. `items` are those of a list of `metrics.k8s.io`. Usage of pods that are not recorded, and of
    /// terminating ones, is omitted.
    pub fn usage(&mut self, items: &[Value], of: Measured, now: Timestamp) {
        let pod = |namespace: &str, name: &str| {
            let id = ObjectId { kind: "Pod", namespace: namespace.to_owned(), name: name.to_owned() };
            self.objects.get(&id).map(|kept| kept.wide.as_str())
        };
        let pods = MeasuredPods::of(items, pod);
        let measured = self.measured(of);
        let found = measured.iter().filter_map(|id| pods.usage(id, &self.objects.get(id)?.wide));
        let line = |usage: Usage| {
            let ObjectId { kind, namespace, name } = &usage.workload;
            let (namespace, name) = (self.names.name(namespace), self.names.name(name));
            json!({"kind": kind, "namespace": namespace, "name": name, "pods": usage.pods,
                "cpuMillis": usage.cpu_millis, "memoryBytes": usage.memory_bytes})
        };
        let lines: Vec<Value> = found.map(line).collect();
        lines.iter().for_each(|usage| self.push("usage", usage, now));
    }

    /// The workloads whose usage is recorded.
    fn measured(&self, of: Measured) -> BTreeSet<ObjectId> {
        let is_target = |(id, kept): (&ObjectId, &Kept)| {
            if id.kind == "HorizontalPodAutoscaler" { target(&id.namespace, &kept.wide) } else { None }
        };
        let all = self.objects.keys().filter(|id| of == Measured::All && id.kind != "ReplicaSet" && WORKLOADS.contains(&id.kind));
        self.objects.iter().filter_map(is_target).chain(all.cloned()).collect()
    }

    /// Records that all initial lists are complete.
    pub fn listed(&mut self, now: Timestamp) {
        self.push("listed", &json!(true), now);
    }

    /// Returns the last line.
    pub fn ended(&mut self, how: Ended, now: Timestamp) -> String {
        self.push("ended", &json!(how.word()), now);
        self.lines.pop().unwrap_or_default()
    }

    /// Adds labels that a new selector names to the recorded objects.
    fn show_labels(&mut self, keys: &[String], now: Timestamp) {
        let names_one = |kept: &Kept| keys.iter().any(|key| kept.wide.contains(key.as_str()));
        let changed: Vec<ObjectId> = self.objects.iter().filter(|(_, kept)| names_one(kept)).map(|(id, _)| id.clone()).collect();
        changed.iter().for_each(|id| self.write(id, now));
    }

    fn write(&mut self, id: &ObjectId, now: Timestamp) {
        let Some(kind) = crate::allowed::KINDS.iter().find(|kind| kind.kind == id.kind) else { return };
        let Some(kept) = self.objects.get_mut(id) else { return };
        let Ok(wide) = serde_json::from_str(&kept.wide) else { return };
        let sieve = Sieve::Record { names: &self.names, keys: Some(&self.keys) };
        let Ok(Some(object)) = sieve.keep(&kind.shape, &wide, &mut Vec::new()) else { return };
        let text = object.to_string();
        if kept.written != text {
            kept.written = text;
            self.push("put", &object, now);
        }
    }

    fn forget(&mut self, id: &ObjectId, now: Timestamp) {
        let Some(kept) = self.objects.remove(id) else { return };
        if kept.written.is_empty() {
            return;
        }
        let (namespace, name) = (self.names.name(&id.namespace), self.names.name(&id.name));
        self.push("gone", &json!({"kind": id.kind, "namespace": namespace, "name": name}), now);
    }

    fn push(&mut self, member: &str, value: &Value, now: Timestamp) {
        // The time of a recording never goes back, even if the clock is set back.
        self.last = self.last.max(Duration::try_from(now.duration_since(self.began)).unwrap_or_default());
        self.lines.push(line(self.last, member, value));
    }
}
