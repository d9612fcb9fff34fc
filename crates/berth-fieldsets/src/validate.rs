//! Whether an applied document fits its schema. The messages are upstream's.

use crate::{
    Path, PathElement, Root, fields,
    schema::{ListKind, ListType, MapType, ScalarKind, Type},
};
use serde_json::Value;
use std::{collections::BTreeSet, fmt};

/// Something in a document that its schema does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub path: Path,
    /// What.
    pub message: String,
}

/// All faults of a document; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.0.is_empty() { f.write_str(&self.message) } else { write!(f, "{}: {}", self.path, self.message) }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = self.0.as_slice() {
            return one.fmt(f);
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

impl std::error::Error for Faults {}

impl Root<'_> {
    /// Faults of a document that the schema does not allow.
    ///
    /// # Errors
    /// All of them.
    pub fn validate(self, document: &Value) -> Result<(), Faults> {
        let mut walk = Walk { path: Vec::new(), faults: Vec::new() };
        walk.value(self, document);
        if walk.faults.is_empty() { Ok(()) } else { Err(Faults(walk.faults)) }
    }
}

struct Walk {
    path: Vec<PathElement>,
    faults: Vec<Fault>,
}

impl Walk {
    fn fault(&mut self, message: impl Into<String>) {
        self.faults.push(Fault { path: Path(self.path.clone()), message: message.into() });
    }

    fn below(&mut self, element: PathElement, check: impl FnOnce(&mut Self)) {
        self.path.push(element);
        check(self);
        self.path.pop();
    }

    fn value(&mut self, root: Root<'_>, value: &Value) {
        match (root.resolve_for(value), value) {
            // Null is a value of every type: it means that there is none.
            (_, Value::Null) | (Type::Any | Type::Deduced(_), _) => (),
            (Type::Scalar(kind), value) => self.scalar(*kind, value),
            (Type::Map(map), Value::Object(members)) => self.members(root, map, members),
            (Type::List(list), Value::Array(items)) => self.items(root, list, items),
            (Type::Map(_), other) => self.fault(format!("expected map, got {}", shown(other))),
            (Type::List(_), other) => self.fault(format!("expected list, got {}", shown(other))),
        }
    }

    fn scalar(&mut self, kind: ScalarKind, value: &Value) {
        let message = match kind {
            ScalarKind::Numeric if !value.is_number() => format!("expected numeric (int or float), got {}", type_name(value)),
            ScalarKind::String if !value.is_string() => format!("expected string, got &value.valueUnstructured{{Value:{}}}", plain(value)),
            ScalarKind::Boolean if !value.is_boolean() => format!("expected boolean, got {}", shown(value)),
            ScalarKind::Untyped if value.is_array() || value.is_object() => format!("expected any scalar, got {}", shown(value)),
            _ => return,
        };
        self.fault(message);
    }

    fn members(&mut self, root: Root<'_>, map: &MapType, members: &serde_json::Map<String, Value>) {
        for (name, value) in members {
            self.below(PathElement::field(name), |walk| match root.member(map, name) {
                Some(root) => walk.value(root, value),
                None => walk.fault("field not declared in schema"),
            });
        }
    }

    fn items(&mut self, root: Root<'_>, list: &ListType, items: &[Value]) {
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let element = match fields::element(root, list, item) {
                _ if list.kind == ListKind::Atomic => fields::element_or_index(root, list, item, index),
                Ok(element) => element,
                Err(why) => return self.fault(format!("element {index}: {why}")),
            };
            if !seen.insert(element.clone()) {
                self.fault(format!("duplicate entries for key {element}"));
            }
            self.below(element, |walk| walk.value(root.at(list.elements), item));
        }
    }
}

/// A value as upstream prints the box it is in.
fn shown(value: &Value) -> String {
    format!("&{{{}}}", plain(value))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The name of its type in Go.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
