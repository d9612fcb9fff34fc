//! The parts of a document that are replaced as a whole.

use crate::{
    Path, PathElement, Root,
    schema::{ListKind, MapKind, Type},
};
use serde_json::Value;

impl Root<'_> {
    /// Returns the paths of the lists, maps and structs of a document that a merge replaces as a whole. Elements of lists have their place as
    /// their path.
    #[must_use]
    pub fn atomic_parts(self, document: &Value) -> Vec<Path> {
        let mut found = Vec::new();
        walk(self, document, &mut Vec::new(), &mut found);
        found
    }
}

fn walk(root: Root<'_>, value: &Value, path: &mut Vec<PathElement>, found: &mut Vec<Path>) {
    match (root.resolve_for(value), value) {
        (Type::Map(map), Value::Object(members)) => {
            if map.kind != MapKind::Granular {
                return found.push(Path(path.clone()));
            }
            for (name, value) in members {
                let Some(below) = root.member(map, name) else { continue };
                path.push(PathElement::field(name));
                walk(below, value, path, found);
                path.pop();
            }
        }
        (Type::List(list), Value::Array(items)) => {
            if list.kind == ListKind::Atomic {
                return found.push(Path(path.clone()));
            }
            for (index, item) in (0..).zip(items) {
                path.push(PathElement::Index(index));
                walk(root.at(list.elements), item, path, found);
                path.pop();
            }
        }
        _ => (),
    }
}
