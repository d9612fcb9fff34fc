//! The fields that a document holds, and the elements of its lists.

use crate::{
    PathElement, Root, Set,
    path::Literal,
    schema::{ListKind, ListType, MapKind, MapType, Type},
    set::Node,
};
use serde_json::Value;
use std::collections::BTreeMap;

impl Root<'_> {
    /// The fields that a document holds: its leaves, the elements of its lists and the members of its maps, but not its structs.
    #[must_use]
    pub fn fields(self, document: &Value) -> Set {
        of(self, document).below
    }
}

/// The fields at and below a value.
pub(crate) fn of(root: Root<'_>, value: &Value) -> Node {
    match root.resolve_for(value) {
        Type::Map(map) if map.kind == MapKind::Granular => Node { is_member: false, below: of_map(root, map, value) },
        Type::List(list) if list.kind != ListKind::Atomic => Node { is_member: false, below: of_list(root, list, value) },
        Type::Any | Type::Deduced(_) | Type::Scalar(_) | Type::Map(_) | Type::List(_) => Node::leaf(),
    }
}

fn of_map(root: Root<'_>, map: &MapType, value: &Value) -> Set {
    let mut set = Set::default();
    for (name, value) in value.as_object().into_iter().flatten() {
        let mut node = root.member(map, name).map_or_else(Node::leaf, |root| of(root, value));
        // A struct's fields are there by their type. It must still be visible that a manager set one to nothing.
        node.is_member |= !map.fields.contains_key(name) || is_nothing(value);
        set.put(PathElement::field(name), node);
    }
    set
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}

fn of_list(root: Root<'_>, list: &ListType, value: &Value) -> Set {
    let mut set = Set::default();
    for (element, values) in elements(root, list, Some(value)) {
        // The owner of a deeper field cannot be determined if several elements have one key: they are owned together.
        let below = if let [one] = values.as_slice() { of(root.at(list.elements), one).below } else { Set::default() };
        set.put(element, Node { is_member: true, below });
    }
    set
}

/// The elements of a stored list by their paths. More than one value: a key that should be there once is not.
pub(crate) fn elements<'v>(root: Root<'_>, list: &ListType, value: Option<&'v Value>) -> BTreeMap<PathElement, Vec<&'v Value>> {
    let mut elements: BTreeMap<PathElement, Vec<&Value>> = BTreeMap::new();
    for (index, item) in value.and_then(Value::as_array).into_iter().flatten().enumerate() {
        elements.entry(element_or_index(root, list, item, index)).or_default().push(item);
    }
    elements
}

/// As [`element`]; what has no key is known by its place. Stored objects may hold such, applied ones may not.
pub(crate) fn element_or_index(root: Root<'_>, list: &ListType, item: &Value, index: usize) -> PathElement {
    element(root, list, item).unwrap_or_else(|_| PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX)))
}

/// Why an item of a list has no path of its own. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ElementError {
    #[error("invalid indexing of non-associative list")]
    Atomic,
    #[error("associative list without keys has an element that's a map type")]
    MapInSet,
    #[error("not supported: associative list with lists as elements")]
    ListInSet,
    #[error("associative list without keys has an element that's an explicit null")]
    NullInSet,
    #[error("associative list with keys may not have a null element")]
    Null,
    #[error("associative list with keys may not have non-map elements")]
    NoMap,
    #[error("associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)", quoted(.0))]
    NoKeys(Vec<String>),
}

/// The path of an item of a list whose items have owners of their own.
pub(crate) fn element(root: Root<'_>, list: &ListType, item: &Value) -> Result<PathElement, ElementError> {
    match &list.kind {
        ListKind::Atomic => Err(ElementError::Atomic),
        ListKind::Set => set_element(item),
        ListKind::Map(keys) => keyed_element(root.at(list.elements), keys, item),
    }
}

fn set_element(item: &Value) -> Result<PathElement, ElementError> {
    match item {
        Value::Object(_) => Err(ElementError::MapInSet),
        Value::Array(_) => Err(ElementError::ListInSet),
        Value::Null => Err(ElementError::NullInSet),
        scalar => Ok(PathElement::Value(Literal(scalar.clone()))),
    }
}

fn keyed_element(root: Root<'_>, keys: &[String], item: &Value) -> Result<PathElement, ElementError> {
    let members = match item {
        Value::Object(members) => members,
        Value::Null => return Err(ElementError::Null),
        _ => return Err(ElementError::NoMap),
    };
    let default = |key: &String| match root.resolve() {
        Type::Map(map) => map.fields.get(key).and_then(|field| field.default.clone()),
        _ => None,
    };
    // The keys that an item has identify it.
    let found = keys.iter().filter_map(|key| Some((key.clone(), members.get(key).cloned().or_else(|| default(key))?)));
    let found: Vec<_> = found.collect();
    if found.is_empty() { Err(ElementError::NoKeys(keys.to_vec())) } else { Ok(PathElement::key(found)) }
}

/// The texts as Go prints a list of quoted texts.
fn quoted(texts: &[String]) -> String {
    texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(" ")
}

/// The set with every struct field on the way to a member as a member too.
pub(crate) fn with_named_fields(root: Option<Root<'_>>, set: &Set) -> Set {
    let mut out = Set::default();
    for (element, node) in set.nodes() {
        let (child, is_declared) = child_of(root, element);
        let is_member = node.is_member || (is_declared && !node.below.is_empty());
        out.put(element.clone(), Node { is_member, below: with_named_fields(child, &node.below) });
    }
    out
}

/// The type at a path element, and whether it is a field of a struct.
fn child_of<'a>(root: Option<Root<'a>>, element: &PathElement) -> (Option<Root<'a>>, bool) {
    let Some(root) = root else { return (None, false) };
    match (root.resolve(), element) {
        (Type::Map(map), PathElement::Field(name)) => (root.member(map, name), map.fields.contains_key(name)),
        (Type::List(list), PathElement::Key(_)) => (Some(root.at(list.elements)), false),
        // A map of a deduced type has members of this type.
        (Type::Deduced(_), PathElement::Field(_)) => (Some(root), false),
        _ => (None, false),
    }
}
