//! What the server decides about the stored definitions: a pure function of them and the time.
//!
//! Names are given in the order of creation. A definition that has a name keeps it. Two servers that see the same
//! definitions decide the same, and one that sees more of them never gives an older definition's name to a newer one.

use super::kinds::Source;
use crate::{ApiError, resource::Lifecycle};
use berth_identity::{GroupResource, Uid};
use berth_kinds::custom::{CLEANUP_FINALIZER, TakenNames, is_established, is_terminating, plan_status};
use berth_store::{Entry, Revision};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

/// A stored definition.
pub(super) struct Known {
    /// The definition in the version of the API.
    pub(super) entry: Arc<Entry>,
    /// The definition without its versions, which are most of it. Its status is the decided one.
    outline: Value,
    /// The status that must be written. `None`: the stored one is right.
    pub(super) planned: Option<Value>,
    /// What the table serves. `None`: nothing.
    pub(super) serving: Option<Serving>,
}

/// What the table serves of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Serving {
    /// Of everything that objects of the definition depend on.
    hash: u64,
    pub(super) lifecycle: Lifecycle,
}

/// How the table must change because of one definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Not at all.
    Keep,
    /// The definition is served from now on, or differs from the served one: watches end, as upstream's do.
    Define(Serving),
    /// Its objects are about to be deleted. Nothing else differs, and watches continue.
    Terminate(Serving),
    /// The definition is no longer served.
    Stop,
}

#[derive(Deserialize)]
struct Outline {
    metadata: Metadata,
    spec: Spec,
    #[serde(default)]
    status: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    generation: i64,
    #[serde(default)]
    annotations: Value,
    #[serde(default)]
    finalizers: Value,
    #[serde(default)]
    deletion_timestamp: Value,
}

#[derive(Deserialize)]
struct Spec {
    group: String,
    names: Value,
    #[serde(default)]
    conversion: Value,
}

impl Known {
    /// Reads a definition.
    ///
    /// # Errors
    /// It is not one.
    pub(super) fn read(entry: Arc<Entry>, serving: Option<Serving>) -> Result<Self, ApiError> {
        let Outline { metadata, spec, status } = serde_json::from_slice(&entry.value)
            .map_err(|error| ApiError::Internal { message: format!("{} cannot be read: {error}", entry.key) })?;
        let outline = json!({
            "metadata": {
                "name": metadata.name,
                "uid": metadata.uid,
                "generation": metadata.generation,
                "annotations": metadata.annotations,
                "finalizers": metadata.finalizers,
                "deletionTimestamp": metadata.deletion_timestamp,
            },
            "spec": {"group": spec.group, "names": spec.names, "conversion": spec.conversion},
            "status": status,
        });
        Ok(Self { entry, outline, planned: None, serving })
    }

    pub(super) fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    pub(super) fn uid(&self) -> Uid {
        self.text("/metadata/uid").into()
    }

    pub(super) fn group(&self) -> &str {
        self.text("/spec/group")
    }

    pub(super) fn resource(&self) -> GroupResource {
        GroupResource::new(self.group(), self.text("/spec/names/plural"))
    }

    fn text(&self, pointer: &str) -> &str {
        self.outline.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether this server must delete its objects.
    pub(super) fn is_finalized_here(&self) -> bool {
        let metadata = &self.outline["metadata"];
        let is_ours = |finalizers: &Vec<Value>| finalizers.iter().any(|finalizer| finalizer == CLEANUP_FINALIZER);
        metadata["deletionTimestamp"].is_string() && metadata["finalizers"].as_array().is_some_and(is_ours)
    }

    /// Returns how the table must change.
    pub(super) fn plan(&self) -> Plan {
        if !is_established(&self.outline) {
            return if self.serving.is_some() { Plan::Stop } else { Plan::Keep };
        }
        let lifecycle = if is_terminating(&self.outline) { Lifecycle::Terminating } else { Lifecycle::Active };
        let wanted = Serving { hash: self.hash(), lifecycle };
        match self.serving {
            Some(serving) if serving == wanted => Plan::Keep,
            Some(serving) if serving.hash == wanted.hash && lifecycle == Lifecycle::Terminating => Plan::Terminate(wanted),
            _ => Plan::Define(wanted),
        }
    }

    /// Returns a hash of what the served resource depends on. The generation changes with the spec.
    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.text("/metadata/uid").hash(&mut hasher);
        self.outline["metadata"]["generation"].as_i64().hash(&mut hasher);
        self.outline["status"]["acceptedNames"].to_string().hash(&mut hasher);
        hasher.finish()
    }

    /// Returns what the kind is made of: the definition, and the names that the server accepted.
    pub(super) fn source(&self) -> Source {
        Source { entry: Arc::clone(&self.entry), names: self.outline["status"]["acceptedNames"].clone() }
    }
}

/// Decides the status of each definition of these groups. Returns their names.
pub(super) fn decide(known: &mut BTreeMap<String, Known>, groups: &BTreeSet<String>, now: &Time) -> Vec<String> {
    let mut in_order: Vec<(String, Revision, String)> = known
        .values()
        .filter(|known| groups.contains(known.group()))
        .map(|known| (known.group().to_owned(), known.entry.create_revision, known.name().to_owned()))
        .collect();
    in_order.sort();
    let mut taken: BTreeMap<&str, TakenNames> = BTreeMap::new();
    for (group, _, name) in &in_order {
        let Some(definition) = known.get(name) else { continue };
        taken.entry(group).or_default().add(&definition.outline);
    }
    for (group, _, name) in &in_order {
        let (taken, Some(definition)) = (taken.entry(group).or_default(), known.get_mut(name)) else { continue };
        let Some(status) = plan_status(&definition.outline, taken, now) else { continue };
        taken.remove(&definition.outline);
        definition.outline["status"] = status.clone();
        definition.planned = Some(status);
        taken.add(&definition.outline);
    }
    in_order.into_iter().map(|(_, _, name)| name).collect()
}
