//! A document without some of its fields.

use crate::{
    PathElement, Root, Set, fields,
    schema::{ListKind, MapKind, Type},
};
use serde_json::{Map, Value};

impl Root<'_> {
    /// `document` without the fields of `set` and what is below them. Containers that become empty are null.
    #[must_use]
    pub fn remove(self, document: &Value, set: &Set) -> Value {
        remove(self, document, set)
    }
}

fn remove(root: Root<'_>, value: &Value, set: &Set) -> Value {
    match (root.resolve_for(value), value) {
        (Type::Map(map), Value::Object(members)) if map.kind == MapKind::Granular => {
            let kept = members.iter().filter_map(|(name, value)| {
                kept(root.member(map, name), value, set, &PathElement::field(name)).map(|value| (name.clone(), value))
            });
            Some(kept.collect::<Map<_, _>>()).filter(|kept| !kept.is_empty()).map_or(Value::Null, Value::Object)
        }
        (Type::List(list), Value::Array(items)) if list.kind != ListKind::Atomic => {
            let element = |index, item| fields::element_or_index(root, list, item, index);
            let kept = items.iter().enumerate().filter_map(|(i, item)| kept(Some(root.at(list.elements)), item, set, &element(i, item)));
            Some(kept.collect::<Vec<_>>()).filter(|kept| !kept.is_empty()).map_or(Value::Null, Value::Array)
        }
        (Type::Map(_) | Type::List(_), _) => Value::Null,
        (Type::Any | Type::Deduced(_) | Type::Scalar(_), value) => value.clone(),
    }
}

/// What stays of a member or element; `None`: nothing.
fn kept(root: Option<Root<'_>>, value: &Value, set: &Set, element: &PathElement) -> Option<Value> {
    match (set.node(element), root) {
        (Some(node), _) if node.is_member => None,
        (Some(node), Some(root)) => Some(remove(root, value, &node.below)),
        (Some(_), None) | (None, _) => Some(value.clone()),
    }
}
