//! Ownership after a change that is no apply.

use crate::{ManagerId, Managers, Operation, Owned, Path, PathElement, Root, Set};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;
use std::sync::OnceLock;

/// Who changes an object, and by which door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// `fieldManager`, or what stands for it.
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

/// Gives the changed fields to the writer and forgets the removed ones.
pub fn update(managers: &mut Managers, change: &Update<'_>) {
    let compared = change.root.compare(change.old, change.new);
    if compared.added.is_empty() && compared.modified.is_empty() && compared.removed.is_empty() {
        return;
    }
    let compared = compared.without(change.ignored);
    let changed = compared.added.union(&compared.modified);
    managers.keep_version(&change.writer.api_version, None);
    managers.take(&changed.clone().union(&compared.removed), None);
    let mine = changed.difference(never_owned());
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

/// What names an object, and what the server alone sets, is nobody's.
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
