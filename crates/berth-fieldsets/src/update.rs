//! Ownership after a change that is no apply.

use crate::{
    ManagerId, Managers, Operation, Owned, Path, PathElement, Root, Set,
    managers::{UPDATERS_MAX, sort},
    versions::{self, Across, Versions},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, Time};
use serde_json::Value;
use std::sync::OnceLock;

/// Who changes an object, and by which door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// `fieldManager`, or its default.
    pub name: String,
    /// The version of the kind that it uses.
    pub api_version: String,
    /// Empty: the object itself.
    pub subresource: String,
}

impl Writer {
    /// The entry of this writer for one operation.
    #[must_use]
    pub fn id(&self, operation: Operation) -> ManagerId {
        let api_version = if operation == Operation::Apply { String::new() } else { self.api_version.clone() };
        let name = if self.name.is_empty() { "unknown" } else { &self.name };
        ManagerId { name: name.to_owned(), operation, api_version, subresource: self.subresource.clone() }
    }
}

/// A change that is no apply.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// The other versions of the kind.
    pub versions: &'a dyn Versions,
    /// The type of the documents.
    pub root: Root<'a>,
    /// What was stored; for a create, what every object of the kind holds.
    pub old: &'a Value,
    /// What will be stored.
    pub new: &'a Value,
    /// Who changes it.
    pub writer: &'a Writer,
    /// Fields that this door cannot change.
    pub ignored: &'a Set,
    /// When; `None` through `/scale`.
    pub now: Option<&'a Time>,
}

/// What a change does to ownership.
struct Moved {
    /// Fields that are the writer's now.
    mine: Set,
    /// Fields that belong to no other manager now.
    taken: Set,
}

impl Moved {
    /// `None`: nothing that can be owned changed.
    fn of(change: &Update<'_>) -> Option<Self> {
        let compared = change.root.compare(change.old, change.new).without(change.ignored);
        let changed = compared.added.union(&compared.modified);
        let taken = changed.clone().union(&compared.removed);
        (!taken.is_empty()).then(|| Self { mine: changed.difference(never_owned()), taken })
    }

    /// Whether an entry may hold any of the fields, by the first steps of their paths.
    fn touches(&self, entry: &ManagedFieldsEntry) -> bool {
        let fields = entry.fields_v1.as_ref().and_then(|fields| fields.0.as_object());
        fields.is_none_or(|fields| self.taken.nodes().any(|(element, _)| fields.contains_key(&element.encode())))
    }
}

/// Gives the changed fields to the writer and forgets the removed ones.
pub fn update(managers: &mut Managers, change: &Update<'_>) {
    if let Some(moved) = Moved::of(change) {
        execute(managers, change, moved);
    }
}

/// As [`update`], on entries that [`Managers::encode`] made. Quicker: most writes are of a status, which few managers own anything of,
/// and the other entries are left as they are.
#[must_use]
pub fn update_entries(entries: Vec<ManagedFieldsEntry>, change: &Update<'_>) -> Vec<ManagedFieldsEntry> {
    let Some(moved) = Moved::of(change) else { return entries };
    let api_version = change.writer.api_version.as_str();
    let (entries, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.api_version.as_deref() == Some(api_version));
    let (touched, mut left): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| moved.touches(entry) || is_of(change.writer, entry));
    let mut managers = Managers::decode(&touched).unwrap_or_default();
    managers.0.extend(Managers::decode(&others).unwrap_or_default().0);
    execute(&mut managers, change, moved);
    left.extend(managers.encode());
    if left.iter().filter(|entry| entry.operation.as_deref() == Some("Update")).count() > UPDATERS_MAX {
        let mut managers = Managers::decode(&left).unwrap_or_default();
        managers.cap();
        return managers.encode();
    }
    sort(&mut left);
    left
}

/// Whether it is the entry that this writer's changes go into.
fn is_of(writer: &Writer, entry: &ManagedFieldsEntry) -> bool {
    let id = writer.id(Operation::Update);
    entry.operation.as_deref() == Some("Update")
        && entry.manager.as_deref() == Some(id.name.as_str())
        && entry.subresource.as_deref().unwrap_or_default() == id.subresource
}

fn execute(managers: &mut Managers, change: &Update<'_>, moved: Moved) {
    let Moved { mine, taken } = moved;
    let across = Across { versions: change.versions, api_version: &change.writer.api_version };
    let mut others = across.split(managers, None);
    let of_others = across.compare(&others, change.old, change.new);
    versions::take(&mut others, &of_others);
    managers.take(&taken, None);
    managers.0.extend(others.0);
    if mine.is_empty() {
        return;
    }
    let id = change.writer.id(Operation::Update);
    let fields = match managers.0.remove(&id) {
        Some(before) => before.fields.union(&mine),
        None => mine,
    };
    managers.0.insert(id, Owned { fields, api_version: change.writer.api_version.clone(), time: change.now.cloned() });
    managers.cap();
}

/// What names an object, and what the server alone sets, has no owner.
pub(crate) fn never_owned() -> &'static Set {
    static SET: OnceLock<Set> = OnceLock::new();
    SET.get_or_init(|| {
        let of_metadata = [
            "name",
            "namespace",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        ];
        let of_object = ["apiVersion", "kind", "metadata"].map(|name| Path(vec![PathElement::field(name)]));
        Set::of(of_object.into_iter().chain(of_metadata.map(|name| Path(vec![PathElement::field("metadata"), PathElement::field(name)]))))
    })
}
