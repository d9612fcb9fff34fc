//! What differs between two documents, by field.

use crate::{
    PathElement, Root, Set, fields,
    schema::{ListKind, ListType, MapKind, MapType, Type},
    set::Node,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What a change did. No field is in two of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields that were not there before.
    pub added: Set,
    /// Fields with another value.
    pub modified: Set,
    /// Fields that are no longer there.
    pub removed: Set,
}

impl Comparison {
    /// Whether nothing differs.
    #[must_use]
    pub fn is_same(&self) -> bool {
        [&self.added, &self.modified, &self.removed].into_iter().all(Set::is_empty)
    }

    /// What differs outside the fields of `ignored`.
    #[must_use]
    pub fn without(self, ignored: &Set) -> Self {
        let Self { added, modified, removed } = self;
        let outside = |set: Set| set.recursive_difference(ignored);
        Self { added: outside(added), modified: outside(modified), removed: outside(removed) }
    }
}

impl Root<'_> {
    /// What differs between two documents.
    #[must_use]
    pub fn compare(self, old: &Value, new: &Value) -> Comparison {
        let Difference { added, modified, removed } = walk(self, Some(old), Some(new));
        Comparison { added: added.below, modified: modified.below, removed: removed.below }
    }
}

/// What differs at and below one field.
#[derive(Default)]
struct Difference {
    added: Node,
    modified: Node,
    removed: Node,
}

impl Difference {
    fn put(&mut self, element: &PathElement, child: Self) {
        self.added.below.put(element.clone(), child.added);
        self.modified.below.put(element.clone(), child.modified);
        self.removed.below.put(element.clone(), child.removed);
    }

    /// Marks the field itself as new or gone, where one side lacks it.
    fn mark(mut self, old: Option<&Value>, new: Option<&Value>) -> Self {
        self.added.is_member = old.is_none();
        self.removed.is_member = new.is_none();
        self
    }
}

fn walk(root: Root<'_>, old: Option<&Value>, new: Option<&Value>) -> Difference {
    if old == new {
        return Difference::default();
    }
    let [was, is] = [old, new].map(|value| value.filter(|value| !value.is_null()));
    if let (Type::Deduced(_), Some(was), Some(is)) = (root.resolve(), was, is)
        && was.is_object() != is.is_object()
    {
        // The members of the map come or go with it.
        let mut difference = leaf(old, new);
        (difference.removed.below, difference.added.below) = (fields::of(root, was).below, fields::of(root, is).below);
        return difference;
    }
    match root.resolve_for(is.or(was).unwrap_or(&Value::Null)) {
        Type::Map(map) if map.kind == MapKind::Granular && !(is_bare(old) && is_bare(new)) => maps(root, map, old, new).mark(old, new),
        Type::List(list) if list.kind != ListKind::Atomic && !(is_bare(old) && is_bare(new)) => lists(root, list, old, new).mark(old, new),
        _ => leaf(old, new),
    }
}

/// Absent, null or empty: then a container is compared as a whole, so that null and empty stay different.
fn is_bare(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(members)) => members.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

fn leaf(old: Option<&Value>, new: Option<&Value>) -> Difference {
    let mut difference = Difference::default().mark(old, new);
    difference.modified.is_member = old.is_some() && new.is_some();
    difference
}

fn maps(root: Root<'_>, map: &MapType, old: Option<&Value>, new: Option<&Value>) -> Difference {
    let (old, new) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
    let names: BTreeSet<&String> = old.into_iter().chain(new).flat_map(serde_json::Map::keys).collect();
    let mut difference = Difference::default();
    for name in names {
        let (old, new) = (old.and_then(|old| old.get(name)), new.and_then(|new| new.get(name)));
        let child = match root.member(map, name) {
            Some(root) => walk(root, old, new),
            None if old == new => continue,
            None => leaf(old, new),
        };
        difference.put(&PathElement::field(name), child);
    }
    difference
}

fn lists(root: Root<'_>, list: &ListType, old: Option<&Value>, new: Option<&Value>) -> Difference {
    let (old, new) = (fields::elements(root, list, old), fields::elements(root, list, new));
    let names: BTreeSet<&PathElement> = old.keys().chain(new.keys()).collect();
    let mut difference = Difference::default();
    for element in names {
        let child = match (values(&old, element), values(&new, element)) {
            (old @ ([] | [_]), new @ ([] | [_])) => walk(root.at(list.elements), old.first().copied(), new.first().copied()),
            (old, new) if old == new => continue,
            // Elements that share a key are owned together.
            (old, new) => leaf(old.first().copied(), new.first().copied()),
        };
        difference.put(element, child);
    }
    difference
}

fn values<'a, 'v>(side: &'a BTreeMap<PathElement, Vec<&'v Value>>, element: &PathElement) -> &'a [&'v Value] {
    side.get(element).map_or(&[], Vec::as_slice)
}
