//! Managers who own fields in another version of the kind than the one that is written.
//!
//! Each set of fields is in the version in which its manager wrote. So a change is compared once more in each of these versions, of the documents as
//! that version has them.
//!
//! Source: upstream `structured-merge-diff/merge/update.go`.

use crate::{Comparison, Conflict, ManagerId, Managers, Owned, Root, Set, set::EMPTY};
use serde_json::Value;
use std::{collections::BTreeMap, fmt};

/// The other versions of a kind.
pub trait Versions: fmt::Debug {
    /// The type of the documents of a version. `None`: it is not served.
    fn root(&self, api_version: &str) -> Option<Root<'_>>;

    /// The fields that the writer's endpoint cannot change, in a version that is served.
    fn ignored(&self, api_version: &str) -> &Set;

    /// A document in another version. `None`: it has no counterpart.
    fn convert(&self, document: &Value, from: &str, to: &str) -> Option<Value>;
}

/// A kind with one version.
#[derive(Clone, Copy, Debug)]
pub struct OneVersion;

impl Versions for OneVersion {
    fn root(&self, _: &str) -> Option<Root<'_>> {
        None
    }

    fn ignored(&self, _: &str) -> &Set {
        &EMPTY
    }

    fn convert(&self, _: &Value, _: &str, _: &str) -> Option<Value> {
        None
    }
}

/// A change as all versions see it.
#[derive(Clone, Copy)]
pub(crate) struct Across<'a> {
    pub(crate) versions: &'a dyn Versions,
    /// The version of the documents.
    pub(crate) api_version: &'a str,
}

impl<'a> Across<'a> {
    /// A document of the writer's version in another.
    pub(crate) fn converted(self, document: &Value, to: &str) -> Option<Value> {
        self.between(document, self.api_version, to)
    }

    /// A document in another version. One that has lost everything has nothing there too.
    pub(crate) fn between(self, document: &Value, from: &str, to: &str) -> Option<Value> {
        match document {
            Value::Null => Some(Value::Null),
            document if from == to => Some(document.clone()),
            document => self.versions.convert(document, from, to),
        }
    }

    /// The type of a version: of the writer's it is `own`.
    pub(crate) fn root(self, own: Root<'a>, api_version: &str) -> Option<Root<'a>> {
        if api_version == self.api_version { Some(own) } else { self.versions.root(api_version) }
    }

    /// Takes out of `managers` those of other versions. Those of versions that are not served are forgotten, except for `kept`.
    pub(crate) fn split(self, managers: &mut Managers, kept: Option<&ManagerId>) -> Managers {
        let is_other = |id: &ManagerId, owned: &mut Owned| Some(id) != kept && owned.api_version != self.api_version;
        let others: BTreeMap<ManagerId, Owned> = managers.0.extract_if(.., is_other).collect();
        Managers(others.into_iter().filter(|(_, owned)| self.versions.root(&owned.api_version).is_some()).collect())
    }

    /// What a change does in each version in which others own fields.
    pub(crate) fn compare(self, others: &Managers, old: &Value, new: &Value) -> BTreeMap<String, Comparison> {
        let mut compared = BTreeMap::new();
        for api_version in others.0.values().map(|owned| owned.api_version.as_str()) {
            if compared.contains_key(api_version) {
                continue;
            }
            let documents = self.converted(old, api_version).zip(self.converted(new, api_version));
            if let (Some(root), Some((old, new))) = (self.versions.root(api_version), documents) {
                let ignored = self.versions.ignored(api_version);
                compared.insert(api_version.to_owned(), root.compare(&old, &new).without(ignored));
            }
        }
        compared
    }
}

/// Takes from others what a change did. Those for whom it has no counterpart are forgotten: what they still own is not known.
pub(crate) fn take(others: &mut Managers, compared: &BTreeMap<String, Comparison>) {
    others.0.retain(|_, owned| {
        let Some(Comparison { added, modified, removed }) = compared.get(&owned.api_version) else { return false };
        let taken = added.clone().union(modified).union(removed);
        owned.fields = std::mem::take(&mut owned.fields).difference(&taken);
        !owned.fields.is_empty()
    });
}

/// What others own of what a change makes different.
pub(crate) fn conflicts(others: &Managers, compared: &BTreeMap<String, Comparison>) -> Vec<Conflict> {
    let of_manager = |(id, owned): (&ManagerId, &Owned)| {
        let changed = compared.get(&owned.api_version).map(|compared| compared.added.clone().union(&compared.modified)).unwrap_or_default();
        let paths = owned.fields.intersection(&changed).paths();
        paths.into_iter().map(|path| Conflict { manager: id.clone(), path }).collect::<Vec<_>>()
    };
    others.0.iter().flat_map(of_manager).collect()
}
