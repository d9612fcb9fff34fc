//! Sets of fields and their wire form, FieldsV1.

use crate::{Path, PathElement, PathError};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, btree_map::Entry};

/// A set of fields of one object: a tree, in which a container may be a member or only lead to members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// No node is empty.
    nodes: BTreeMap<PathElement, Node>,
}

/// The set without fields, for references to it.
pub(crate) static EMPTY: Set = Set { nodes: BTreeMap::new() };

/// A field and what is below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// Whether the field itself is in the set.
    pub(crate) is_member: bool,
    pub(crate) below: Set,
}

/// Why a value is no FieldsV1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// It is another value than an object.
    #[error("expected an object of fields, got {0}")]
    NoObject(Value),
    /// The name of a member is no path element.
    #[error(transparent)]
    Element(#[from] PathError),
}

impl Node {
    /// A field without anything below it.
    pub(crate) fn leaf() -> Self {
        Self { is_member: true, below: Set::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.is_member && self.below.is_empty()
    }
}

impl Set {
    /// The set of these fields. The empty path, the object itself, is never a member.
    #[must_use]
    pub fn of(paths: impl IntoIterator<Item = Path>) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(&path);
        }
        set
    }

    /// Adds one field; the containers on its way do not become members.
    pub fn insert(&mut self, path: &Path) {
        let Some((last, lead)) = path.0.split_last() else { return };
        let mut set = self;
        for element in lead {
            set = &mut set.nodes.entry(element.clone()).or_default().below;
        }
        set.nodes.entry(last.clone()).or_default().is_member = true;
    }

    /// Puts a node in, unless it is empty.
    pub(crate) fn put(&mut self, element: PathElement, node: Node) {
        if !node.is_empty() {
            self.nodes.insert(element, node);
        }
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&PathElement, &Node)> {
        self.nodes.iter()
    }

    pub(crate) fn node(&self, element: &PathElement) -> Option<&Node> {
        self.nodes.get(element)
    }

    /// Whether there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether the field itself is a member.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        let Some((last, lead)) = path.0.split_last() else { return false };
        let mut set = self;
        for element in lead {
            match set.nodes.get(element) {
                Some(node) => set = &node.below,
                None => return false,
            }
        }
        set.nodes.get(last).is_some_and(|node| node.is_member)
    }

    /// Every member: those of one container together, what is below them after.
    #[must_use]
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, lead: &mut Vec<PathElement>, paths: &mut Vec<Path>) {
        for (element, _) in self.nodes.iter().filter(|(_, node)| node.is_member) {
            let path = lead.iter().chain([element]).cloned().collect();
            paths.push(Path(path));
        }
        for (element, node) in &self.nodes {
            lead.push(element.clone());
            node.below.collect(lead, paths);
            lead.pop();
        }
    }

    /// Members of either.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        for (element, theirs) in &other.nodes {
            match self.nodes.entry(element.clone()) {
                Entry::Vacant(entry) => {
                    entry.insert(theirs.clone());
                }
                Entry::Occupied(mut entry) => {
                    let node = entry.get_mut();
                    node.is_member |= theirs.is_member;
                    node.below = std::mem::take(&mut node.below).union(&theirs.below);
                }
            }
        }
        self
    }

    /// Members of both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut out = Self::default();
        for (element, ours) in &self.nodes {
            let Some(theirs) = other.nodes.get(element) else { continue };
            let below = ours.below.intersection(&theirs.below);
            out.put(element.clone(), Node { is_member: ours.is_member && theirs.is_member, below });
        }
        out
    }

    /// Members of this set that are not in the other. A container's fields are not taken out with it.
    ///
    /// Costs a walk over the smaller set.
    #[must_use]
    pub fn difference(mut self, other: &Self) -> Self {
        if self.nodes.len() < other.nodes.len() {
            self.nodes.retain(|element, ours| {
                let Some(theirs) = other.nodes.get(element) else { return true };
                ours.is_member &= !theirs.is_member;
                ours.below = std::mem::take(&mut ours.below).difference(&theirs.below);
                !ours.is_empty()
            });
            return self;
        }
        for (element, theirs) in &other.nodes {
            let Some(ours) = self.nodes.get_mut(element) else { continue };
            ours.is_member &= !theirs.is_member;
            ours.below = std::mem::take(&mut ours.below).difference(&theirs.below);
            if ours.is_empty() {
                self.nodes.remove(element);
            }
        }
        self
    }

    /// As [`Set::difference`], but what is below a member of the other goes with it.
    #[must_use]
    pub fn recursive_difference(mut self, other: &Self) -> Self {
        for (element, theirs) in &other.nodes {
            if theirs.is_member {
                self.nodes.remove(element);
            } else if let Some(ours) = self.nodes.get_mut(element) {
                ours.below = std::mem::take(&mut ours.below).recursive_difference(&theirs.below);
                if ours.is_empty() {
                    self.nodes.remove(element);
                }
            }
        }
        self
    }

    /// Members that have no members below them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let mut out = Self::default();
        for (element, node) in &self.nodes {
            let is_member = node.is_member && node.below.is_empty();
            out.put(element.clone(), Node { is_member, below: node.below.leaves() });
        }
        out
    }

    /// FieldsV1, its members in upstream's order, byte by byte.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut out = String::new();
        self.write(Itself::Out, &mut out);
        out
    }

    fn write(&self, itself: Itself, out: &mut String) {
        out.push('{');
        if itself == Itself::In {
            out.push_str(r#"".":{}"#);
        }
        for (element, node) in &self.nodes {
            if !out.ends_with('{') {
                out.push(',');
            }
            out.push_str(&Value::String(element.encode()).to_string());
            out.push(':');
            // A member without anything below is written `{}`: only beside others does it need its dot.
            node.below.write(if node.is_member && !node.below.is_empty() { Itself::In } else { Itself::Out }, out);
        }
        out.push('}');
    }

    /// FieldsV1 as a tree.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let member = |(element, node): (&PathElement, &Node)| {
            let mut below = node.below.to_value();
            if node.is_member && !node.below.is_empty() {
                below["."] = Value::Object(Map::new());
            }
            (element.encode(), below)
        };
        Value::Object(self.nodes.iter().map(member).collect())
    }

    /// From FieldsV1. Elements of a type that is not known are passed over.
    ///
    /// # Errors
    /// [`SetError`].
    pub fn from_value(value: &Value) -> Result<Self, SetError> {
        let Value::Object(members) = value else { return Err(SetError::NoObject(value.clone())) };
        let mut set = Self::default();
        for (key, value) in members.iter().filter(|(key, _)| *key != ".") {
            let Some(element) = PathElement::decode(key)? else { continue };
            let below = Self::from_value(value)?;
            let is_member = below.is_empty() || value.get(".").is_some();
            set.put(element, Node { is_member, below });
        }
        Ok(set)
    }
}

/// Whether a container is a member of the set it is written in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Itself {
    In,
    Out,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(value: Value) -> Set {
        Set::from_value(&value).expect("a set")
    }

    #[test]
    fn the_wire_form_is_upstreams() {
        let check = |text: &str| {
            let value: Value = serde_json::from_str(text).expect("JSON");
            assert_eq!(set(value.clone()).encode(), text);
            assert_eq!(set(value.clone()).to_value(), value);
        };
        check("{}");
        check(r#"{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:replicas":{}}}"#);
        // Keys go by the size of numbers, not by their letters.
        check(r#"{"f:ports":{"k:{\"port\":80}":{".":{},"f:port":{}},"k:{\"port\":443}":{".":{},"f:port":{}}}}"#);
        check(r#"{"f:finalizers":{".":{},"v:\"a\"":{},"v:\"b\"":{}}}"#);
    }

    #[test]
    fn unknown_elements_are_passed_over_and_bad_ones_refused() {
        assert_eq!(set(json!({"x:a": {}, "f:b": {}})), set(json!({"f:b": {}})));
        // What leads to nothing that is known is a member itself.
        assert_eq!(set(json!({"f:b": {"x:a": {}}})), set(json!({"f:b": {}})));
        for bad in [json!([]), json!("f:a"), json!({"f": {}}), json!({"f:a": 1}), json!({"k:[]": {}})] {
            Set::from_value(&bad).expect_err("no set");
        }
    }

    #[test]
    fn operations_are_about_members() {
        let a = set(json!({"f:spec": {".": {}, "f:x": {}, "f:y": {}}, "f:z": {}}));
        let b = set(json!({"f:spec": {"f:x": {}}, "f:w": {}}));
        let check = |found: Set, wanted: Value| assert_eq!(found.to_value(), wanted);
        check(a.clone().union(&b), json!({"f:spec": {".": {}, "f:x": {}, "f:y": {}}, "f:w": {}, "f:z": {}}));
        check(a.intersection(&b), json!({"f:spec": {"f:x": {}}}));
        check(a.clone().difference(&b), json!({"f:spec": {".": {}, "f:y": {}}, "f:z": {}}));
        check(b.clone().difference(&a), json!({"f:w": {}}));
        check(b.clone().difference(&set(json!({"f:spec": {}}))), json!({"f:spec": {"f:x": {}}, "f:w": {}}));
        check(b.clone().recursive_difference(&set(json!({"f:spec": {}}))), json!({"f:w": {}}));
        check(a.leaves(), json!({"f:spec": {"f:x": {}, "f:y": {}}, "f:z": {}}));
        assert_eq!(a.difference(&set(json!({"f:spec": {".": {}, "f:x": {}, "f:y": {}}, "f:z": {}}))), Set::default());
    }

    #[test]
    fn paths_are_members_and_in_upstreams_order() {
        let a = set(json!({"f:a": {"f:c": {}}, "f:b": {}, "f:d": {".": {}, "v:1": {}}}));
        let shown: Vec<String> = a.paths().iter().map(ToString::to_string).collect();
        assert_eq!(shown, [".b", ".d", ".a.c", ".d[=1]"]);
        assert!(a.paths().iter().all(|path| a.has(path)));
        assert!(!a.has(&Path(vec![PathElement::field("a")])) && !a.has(&Path::default()));
        assert_eq!(Set::of(a.paths()), a);
    }
}
